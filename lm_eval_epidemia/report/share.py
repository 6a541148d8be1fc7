"""Share runs: files for the Hub's leaderboards, and records of Every Eval Ever."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from lm_eval_epidemia.benchmarks import WAYS, list_groups
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.findings.headline import share_of
from lm_eval_epidemia.findings.leaderboard import leaderboard_table
from lm_eval_epidemia.findings.mean import add_interval, group_scores
from lm_eval_epidemia.harness.export import check_hub_id
from lm_eval_epidemia.results import every_eval_ever as eee
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score.collect import LOW_MASS
from lm_eval_epidemia.score.joint import own_errors

#: What is said of a score without answers, by the metric that is too low.
_SILENT = {
    "choice_mass": "the model does not answer, so its score does not show its knowledge",
    "answered": "only {:.0%} of the replies could be read, so the score does not show the model's "
    "knowledge",
}

#: The file by which a folder is known that was written before.
MARKER = ".epidemia-shared"


class Shared(NamedTuple):
    """The written files.

    Attributes
    ----------
    records, results : int
        Number of records, and of files for the Hub.
    lines : list of str
        What was left out, and why.
    """

    records: int
    results: int
    lines: list[str]


def check_target(out: Path, dataset: str | None = None) -> None:
    """Check folder and id before any result is read; parameters and errors as for `share_runs`."""
    if dataset is not None:
        check_hub_id("--dataset", dataset)
    folders.check_rewritable(out, MARKER)


def share_runs(results: Results, out: Path, dataset: str | None = None) -> Shared:
    """Write every run of a model as a record, and for the Hub.

    Parameters
    ----------
    results : Results
    out : Path
        A new folder, or one written before. It gets
        ``data/lm-eval-epidemia/DEVELOPER/MODEL/UUID.json``, the layout of the data store of Every
        Eval Ever, and ``MODEL/.eval_results/*.yaml``, a file per run, for the model's own
        repository.
    dataset : str, optional
        The Hub id of the exported questions; without it, nothing is written for the Hub.

    Raises
    ------
    EpidemiaError
        If no run can be shared, `dataset` is not an id, or `out` cannot be written.
    """
    check_target(out, dataset)
    texts: dict[Path, str] = {}
    lines: list[str] = []
    asked = results.scores.groupby("run")["seen"].sum().reindex(results.runs.index, fill_value=0)
    # Of several runs of a model, the one that answered most has the plain name.
    runs = results.runs.loc[asked.sort_values(ascending=False, kind="stable").index]
    runs = runs[runs["kind"] != "published"]
    means = leaderboard_table(results)
    scores = group_scores(results.scores)
    means = means.join(scores.groupby(["run", "group"])["date"].max(), on=["run", "group"])
    tasks = results.scores[np.isfinite(results.scores["value"].astype(float))]
    tasks = add_interval(tasks.assign(error=own_errors([*tasks["draws"]])), tasks)
    alike = Counter(_public_as(run) for _, run in runs.iterrows())
    for number, run in runs.iterrows():
        name, of, own = run["name"], means[means["run"] == number], scores[scores["run"] == number]
        shared = of[[not list_groups()[group].predicts for group in of["group"]]]
        if not (why := _unfit(run, of, alike[_public_as(run)] > 1)):
            said = {row["group"]: _format_notes(run, row, own) for _, row in shared.iterrows()}
            try:
                of_run = tasks[tasks["run"] == number]
                record = eee.make_record(run, shared, of_run, said, dataset)
            except (OSError, ValueError) as error:
                why = str(error)
        if why:
            lines.append(f"{name}: left out, {why}")
            continue
        folder, file = eee.model_folder(run["weights"]), f"{record['evaluation_id'][-36:]}.json"
        above = folder if len(folder.parts) > 1 else Path("unknown") / folder
        written = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        texts[Path("data") / eee.SOURCE / above / file] = f"{written}\n"
        if run["card"] is not None and "/" in (model := eee.model_id(run["weights"])):
            lines.append(
                f"{name}: {model} is assumed to be a model on the Hub: if it is a folder, run it "
                f"as ./{model}"
            )
        if missing := int(results.scores["value"][results.scores["run"] == number].isna().sum()):
            lines.append(f"{name}: {plural(missing, 'task')} without a score left out")
        if dataset is None:
            continue
        entries = [
            _entry(row, said[row["group"]], dataset)
            for _, row in shared.iterrows()
            if all(WAYS[way].exported for way in own["way"][own["group"] == row["group"]])
        ]
        listed = [entry["dataset"]["task_id"] for entry in entries]
        if beside := [group for group in of["group"] if group not in listed]:
            lines.append(
                f"{name}: {few(beside)} not written to .eval_results, as a prediction or "
                "as questions that are not exported"
            )
        if entries:
            path = folder / ".eval_results" / "epidemia.yaml"
            # The Hub wants a file per variant.
            path = path.with_stem(f"epidemia_{file[:8]}") if path in texts else path
            texts[path] = yaml.safe_dump(
                entries, sort_keys=False, allow_unicode=True, width=math.inf
            )
    if not texts:
        raise EpidemiaError("\n".join(["there is no run to share", *lines]))
    with folders.rewrite_folder(out, MARKER) as staging:
        for path, text in texts.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / path).write_text(text, encoding="utf-8")
    suffixes = [path.suffix for path in texts]
    return Shared(suffixes.count(".json"), suffixes.count(".yaml"), lines)


def _public_as(run: pd.Series) -> str:
    """Return the identity of a run without paths and keys."""
    return f"{eee.public_name(run['weights'])} {eee.public_settings(run)}"


def _unfit(run: pd.Series, means: pd.DataFrame, ambiguous: bool) -> str:
    """Say why a run is not shared; empty if it is."""
    if means.empty:
        return "it has no score in an epidemia task"
    if run["kind"] == "respondent":
        return "it comes from a reference respondent, not a model"
    if run["weights"].model.split(" ")[0] == run.get("backend", ""):
        return "its result file names no model"
    if changed := [*means["group"][means["changed"].astype(bool)]]:
        return f"scores do not match their distances (‡, in {', '.join(changed)})"
    if ambiguous:
        return "another run differs from it only in folders, which are not shared: rename one"
    return ""


def _format_notes(run: pd.Series, row: pd.Series, scores: pd.DataFrame) -> str:
    """Write the notes on a mean: its error, settings of asking, and doubts."""
    group, digits = row["group"], list_groups()[row["group"]].digits
    asked = scores[scores["group"] == group]
    tasks = {*run["card"].dataset.tasks} if run["card"] is not None else set()
    method = eee.method_of(list_groups()[group])
    words = [
        "" if math.isnan(row["error"]) else f"± {row['error']:.{digits}f}, {method}",
        _trained(int(asked["task"].isin(tasks).sum()), len(asked)),
        *eee.public_words(run),
        share_of(row["tasks"], group).strip(" ()"),
        f"other results with the same settings differ by {row['differ']:.{digits}f}"
        if row["differ"]
        else "",
        *(says.format(row[metric]) for metric, says in _SILENT.items() if row[metric] < LOW_MASS),
    ]
    return "; ".join(filter(None, words))


def _trained(trained: int, tasks: int) -> str:
    """Say how many tasks of a mean a tuned model was trained on."""
    if trained in (0, tasks):
        return "trained on these tasks" if trained else ""
    return f"trained on {trained} of these {plural(tasks, 'task')}"


def _entry(row: pd.Series, notes: str, dataset: str) -> dict[str, Any]:
    """Return an entry like ``huggingface_hub.EvalResultEntry``, which older versions lack."""
    group = row["group"]
    entry: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": group},
        "value": round(float(row["value"]), list_groups()[group].digits + 1),
    }
    if math.isfinite(row["date"]):
        entry["date"] = f"{datetime.fromtimestamp(row['date'], timezone.utc):%F}"
    # The Hub has no field for what the number is.
    return entry | {"notes": "; ".join(filter(None, (list_groups()[group].heading, notes)))}
