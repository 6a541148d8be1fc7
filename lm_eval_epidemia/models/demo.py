"""``epidemia demo``: run simulated respondents and models (a tiny random one) through lm-eval."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import atomic_write, check_writable
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.models.loading import Given, check_model
from lm_eval_epidemia.models.tiny import make_tiny_llama

DEMO_GROUPS = ("epidemia_low", "epidemia_high")

#: The survey whose tasks models answer.
SURVEY = "nsduh"

#: Arguments of the demonstration's respondents, best first.
SHOWN: tuple[dict[str, Any], ...] = (
    {"kind": "truth"},
    {"kind": "noisy", "noise": 0.3},
    {"kind": "noisy", "noise": 1.0},
    {"kind": "mean"},
    {"kind": "zero_one"},
    {"kind": "uniform"},
)

#: The tasks whose samples are kept, so that the site of the demonstration shows their conditions.
KEPT = (
    "epidemia_low_nsduh_marijuana_ever_by_age",
    "epidemia_low_gss_political_view_by_age",
    "epidemia_low_scf_net_worth_by_education",
    "epidemia_high_nsduh_marijuana_ever_by_age_sex",
    "epidemia_high_scf_home_ownership_by_age_race",
)


#: Respondents that stand beside models, with the scores of the questions that these were asked.
BESIDE = ("mean", "uniform")


class ScoreLine(NamedTuple):
    """One line of a leaderboard: a name and its (score, standard error) by group."""

    respondent: str
    scores: dict[str, tuple[float, float]]


def _evaluate(name: str, out: Path, groups: list[str], **arguments: Any) -> ScoreLine:
    from lm_eval import simple_evaluate
    from lm_eval.utils import handle_non_serializable

    is_baseline = arguments["model"] == "epidemia-baseline"
    # Simulated respondents answer alike in every order: two fifths of the prompts suffice.
    metadata = {"orderings": "balanced"} if is_baseline else {}
    arguments["task_manager"] = discovery.task_manager(metadata=metadata)
    results = simple_evaluate(tasks=groups, log_samples=not is_baseline, **arguments)
    folder = out / re.sub(r"\W+", "_", name).strip("_")
    samples = results.pop("samples", {})
    with atomic_write(folder / "results_demo.json") as temporary:
        temporary.write_text(json.dumps(results, indent=2, default=handle_non_serializable))
    kept = [task for task in KEPT if task in results["results"]]
    if is_baseline:
        # Asked again: with the samples of every task, lm-eval would need many times the memory.
        samples = simple_evaluate(tasks=kept, **arguments)["samples"]
    for task in kept:
        lines = (json.dumps(sample, default=handle_non_serializable) for sample in samples[task])
        with atomic_write(folder / f"samples_{task}_demo.jsonl") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return _make_line(name, results, groups)


def _make_line(name: str, results: dict[str, Any], groups: list[str]) -> ScoreLine:
    rows = {group: results["results"][group] for group in groups}
    return ScoreLine(
        name, {g: (row["score,none"], row["score_stderr,none"]) for g, row in rows.items()}
    )


def _ask_respondents(groups: list[str], limit: int | None) -> list[ScoreLine]:
    """Return respondents asked what models were asked; they have results of the whole already."""
    from lm_eval import simple_evaluate

    asked: dict[str, Any] = {"tasks": groups, "limit": limit, "log_samples": False}
    manager = discovery.task_manager(metadata={"orderings": "balanced"})
    lines = []
    for kind in BESIDE:
        model = {"model": "epidemia-baseline", "model_args": {"kind": kind}}
        results = simple_evaluate(**asked, **model, task_manager=manager)
        lines.append(_make_line(RESPONDENTS[kind], results, groups))
    return lines


class _Model(NamedTuple):
    """A model that the user names: the line's name, where it lies, whether it has a template."""

    name: str
    given: Given
    chat: bool


def _models(named: Sequence[str]) -> list[_Model]:
    """Check the models that the user names, before anything is evaluated."""
    if twice := sorted(name for name, times in Counter(named).items() if times > 1):
        raise EpidemiaError(f"--model {twice[0]} is given more than once")
    alike = Counter(Path(name).name for name in named)
    models = []
    for name in named:
        given, short = Given.of(name), Path(name).name
        models.append(_Model(name if alike[short] > 1 else short, given, check_model(given)))
    return models


def _ask(model: _Model, out: Path, groups: list[str], limit: int | None) -> ScoreLine:
    """Let a model answer through choice-hf, in its chat template if it has one."""
    import torch

    how: dict[str, Any] = {"device": "cpu", "batch_size": 16}
    arguments = {"pretrained": model.given.pretrained, "dtype": "float32"}
    if torch.cuda.is_available():
        how, arguments["dtype"] = {"device": "cuda", "batch_size": "auto"}, "auto"
    if model.given.gguf_file:
        arguments["gguf_file"] = model.given.gguf_file
    how |= {"model_args": arguments, "apply_chat_template": model.chat, "limit": limit}
    name = f"{model.name} (choice-hf{', chat' if model.chat else ''})"
    return _evaluate(name, out, groups, model="choice-hf", **how)


def _ask_tiny(out: Path, groups: list[str], limit: int | None) -> ScoreLine:
    task = next(
        name for name in store.list_available() if name.startswith(f"epidemia_high_{SURVEY}")
    )
    with (
        tempfile.TemporaryDirectory(prefix="epidemia-") as folder,
        Console(stderr=True).status("a tiny random transformer through lm-eval's hf backend"),
    ):
        tiny = make_tiny_llama(Path(folder) / "tiny-random-llama", split(task)["prompt"])
        arguments = {"pretrained": str(tiny), "dtype": "float32"}
        how: dict[str, Any] = {"model": "hf", "model_args": arguments}
        how |= {"device": "cpu", "batch_size": 64, "limit": limit}
        return _evaluate("tiny random Llama (hf)", out, groups, **how)


def demo(out: Path, limit: int | None = None, models: Sequence[str] = ()) -> list[list[ScoreLine]]:
    """Evaluate simulated respondents and models on the available tasks of both groups.

    Parameters
    ----------
    out : Path
        Folder for lm-eval's results, one file per respondent.
    limit : int, optional
        Cells per task for models; all of them by default.
    models : sequence of str
        Folders, ``.gguf`` files or ids of the Hugging Face Hub. Each answers through `choice-hf`,
        on a GPU if there is one, in its chat template if it has one.

    Returns
    -------
    list of list of Line
        A leaderboard of respondents; and one of models, if any is named or torch and transformers
        are installed (then a tiny random one), with respondents asked the same questions. Models
        answer only the tasks of one survey: on a CPU, all 73,000 prompts would take even the tiny
        one a quarter of an hour.

    Raises
    ------
    EpidemiaError
        If `out` cannot be written, or a model cannot be read; where possible, before anything is
        evaluated.
    """
    from lm_eval import evaluator

    named = _models(models)
    check_writable(out)
    available = store.list_available()
    groups = [g for g in DEMO_GROUPS if any(name.startswith(f"{g}_") for name in available)]
    lines = []
    # lm-eval asks for the commit of the folder it runs in, and git complains where there is none.
    with mock.patch.object(evaluator, "get_git_commit_hash", lambda: None, create=True):
        for respondent in track(SHOWN, "baselines", console=Console(stderr=True)):
            noise = f" ({respondent['noise']:g})" if "noise" in respondent else ""
            how = {"model": "epidemia-baseline", "model_args": dict(respondent)}
            lines.append(_evaluate(RESPONDENTS[respondent["kind"]] + noise, out, groups, **how))
        of_survey, asked = [f"{group}_{SURVEY}" for group in groups], []
        for model in named:
            Console(stderr=True).print(f"{model.given} through choice-hf", highlight=False)
            asked.append(_ask(model, out, of_survey, limit))
        if not named and find_spec("torch") and find_spec("transformers"):
            asked.append(_ask_tiny(out, of_survey, limit))
        return [lines, [*asked, *_ask_respondents(of_survey, limit)]] if asked else [lines]
