"""One model asked in several ways: its scores side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.modes import MODES, Mode, in_mode
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import all_tasks

__all__ = ["Found", "Row", "compare", "read_results"]


class Found(NamedTuple):
    """The score of one task in one run.

    Attributes
    ----------
    model : str
        Who answered, with the variant of the prompts where there was one.
    task : str
        Without the suffix of its mode.
    mode : str
    score : float
    error : float
        Standard error of the score.
    """

    model: str
    task: str
    mode: Mode
    score: float
    error: float


class Row(NamedTuple):
    """A model's mean scores over the tasks that it was asked in all of these ways.

    Attributes
    ----------
    model : str
    group : str
    tasks : int
    scores : dict of str to (float, float)
        By mode: mean and its standard error.
    """

    model: str
    group: str
    tasks: int
    scores: dict[Mode, tuple[float, float]]


def _model(results: dict[str, Any]) -> str:
    """Name the model of a run as its user would."""
    config = results.get("config", {})
    arguments = config.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(pair.partition("=")[::2] for pair in arguments.split(",") if pair)
    named = arguments.get("pretrained") or arguments.get("model")
    if named:
        return Path(str(named)).name
    said = ",".join(f"{key}={value}" for key, value in arguments.items())
    return " ".join(part for part in (str(config.get("model", "model")), said) if part)


def _variant(metadata: dict[str, Any], chat: bool) -> str:
    """Say what was asked differently from the default."""
    said = [f"{key}={metadata[key]}" for key in Variant._fields if metadata.get(key) is not None]
    return ", ".join((["chat template"] if chat else []) + said)


def read_results(folders: Iterable[Path]) -> list[Found]:
    """Read the scores of our tasks from lm-eval's results.

    Parameters
    ----------
    folders : iterable of Path
        Result files, or folders that hold ``results_*.json`` at any depth.

    Raises
    ------
    EpidemiaError
        If there is no such file, one cannot be read, or none has a task of ours.
    """
    files: list[Path] = []
    for folder in folders:
        here = [folder] if folder.is_file() else sorted(folder.rglob("results_*.json"))
        if not here:
            raise EpidemiaError(
                f"{folder} holds no results_*.json: give the folder that was --output_path of "
                "lm_eval"
            )
        files += here
    names = {in_mode(task, mode): (task, mode) for task in all_tasks() for mode in MODES}
    found = []
    for file in files:
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
            rows = results["results"]
        except (ValueError, KeyError, TypeError) as error:
            raise EpidemiaError(f"{file} is not a result file of lm-eval ({error!r})") from None
        for name, row in rows.items():
            if name in names and "score,none" in row:
                metadata = results.get("configs", {}).get(name, {}).get("metadata", {})
                said = _variant(metadata, bool(results.get("chat_template")))
                model = _model(results) + (f" ({said})" if said else "")
                score, stderr = float(row["score,none"]), float(row["score_stderr,none"])
                found.append(Found(model, *names[name], score, stderr))
    if not found:
        raise EpidemiaError(f"no task of ours is in {', '.join(map(str, files))}")
    return found


def compare(found: Iterable[Found]) -> list[Row]:
    """Put the ways of asking side by side.

    Parameters
    ----------
    found : iterable of Found
        As `read_results` returns them; of two runs of the same, the later file counts.

    Returns
    -------
    list of Row
        One per model and group. Only tasks that the model was asked in all of its ways count, so
        that the means are of the same questions; a task without a score (NaN) is left out too.
    """
    asked: dict[tuple[str, str], dict[Mode, dict[str, Found]]] = {}
    for one in found:
        if not math.isnan(one.score):
            group = all_tasks()[one.task].group
            modes = asked.setdefault((one.model, group), {})
            modes.setdefault(one.mode, {})[one.task] = one
    rows = []
    for (model, group), by_mode in asked.items():
        common = sorted(set.intersection(*(set(tasks) for tasks in by_mode.values())))
        scores = {}
        for mode in MODES:
            if mode in by_mode and common:
                chosen = [by_mode[mode][task] for task in common]
                mean = sum(one.score for one in chosen) / len(chosen)
                error = math.sqrt(sum(one.error**2 for one in chosen)) / len(chosen)
                scores[mode] = (mean, error)
        rows.append(Row(model, group, len(common), scores))
    return rows
