"""Share runs: files for the Hub's leaderboards, and records of Every Eval Ever."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lm_eval_epidemia.benchmarks import WAYS, groups
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.old.findings.boards import share_of
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import (
    group_mean,
    interval_of,
    tasks_in,
    too_low,
)
from lm_eval_epidemia.old.findings.model_rows import Doubt, cards_of, doubt_of, trained_on
from lm_eval_epidemia.old.findings.tuned import TunedRun
from lm_eval_epidemia.results import every_eval_ever as eee
from lm_eval_epidemia.results.card import LOSSES
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.export import check_hub_id
from lm_eval_epidemia.results.models import is_respondent, models_of
from lm_eval_epidemia.results.records import SOURCE

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


def check(out: Path, dataset: str | None = None) -> None:
    """Check folder and id before any result is read; parameters and errors as for `share`."""
    if dataset is not None:
        check_hub_id("--dataset", dataset)
    folders.check_rewritable(out, MARKER)


def share(report: Report, out: Path, dataset: str | None = None) -> Shared:
    """Write every run of a model as a record, and for the Hub.

    Parameters
    ----------
    report : Report
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
    check(out, dataset)
    texts: dict[Path, str] = {}
    lines: list[str] = []
    runs = [run for model in models_of(report.runs) for run in model.runs]
    alike: dict[str, set[Any]] = defaultdict(set)
    for run in runs:
        alike[_public_as(run)].add((run.weights, run.settings))
    for run in runs:
        columns = [column for column in report.columns if tasks_in(run, column)]
        doubts = {column: doubt_of(report, run, column) for column in columns}
        if why := _unfit(run, doubts, len(alike[_public_as(run)]) > 1):
            lines.append(f"{run.name}: left out, {why}")
            continue
        means = {c: group_mean(run, c) for c in columns if not groups()[c].predicted}
        said = {c: _said(report, run, c, mean, doubts[c]) for c, mean in means.items()}
        tuned = next(iter(cards_of(report, run)), None)
        try:
            card = tuned.card if tuned else None
            record = eee.record(run, _scored(run, means), said, dataset, card)
        except (OSError, ValueError) as error:
            lines.append(f"{run.name}: left out, {error}")
            continue
        folder, file = eee.model_folder(run), eee.file_name(record)
        above = folder if len(folder.parts) > 1 else Path("unknown") / folder
        written = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        texts[Path("data") / SOURCE / above / file] = f"{written}\n"
        if lost := _lost(run, tuned):
            lines.append(f"{run.name}: {lost}")
        if missing := sum(not math.isfinite(score.value) for score in run.scores.values()):
            lines.append(f"{run.name}: {plural(missing, 'task')} without a score left out")
        if dataset is None:
            continue
        entries = [
            _entry(run, c, means[c], said[c], dataset) for c in means if _is_exported(run, c)
        ]
        listed = [entry["dataset"]["task_id"] for entry in entries]
        if beside := [column for column in columns if column not in listed]:
            lines.append(
                f"{run.name}: {few(beside)} not written to .eval_results, as a prediction or "
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
    with folders.rewritten(out, MARKER) as staging:
        for path, text in texts.items():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / path).write_text(text, encoding="utf-8")
    suffixes = [path.suffix for path in texts]
    return Shared(suffixes.count(".json"), suffixes.count(".yaml"), lines)


def _public_as(run: Entry) -> str:
    """Return the identity of a run without paths and keys."""
    return f"{eee.public_name(run.weights)} {eee.public_settings(run)}"


def _unfit(run: Entry, doubts: Mapping[str, Doubt], ambiguous: bool) -> str:
    """Say why a run is not shared; empty if it is."""
    if not doubts:
        return "it has no score in an epidemia task"
    backend = dict(run.settings).get("backend", "")
    if run.weights.model.split(" ")[0] == backend and not is_respondent(run):
        return "its result file names no model"
    if is_respondent(run):
        return "it comes from a reference respondent, not a model"
    if changed := [column for column, doubt in doubts.items() if doubt.changed]:
        return f"scores do not match their distances (‡, in {', '.join(changed)})"
    if ambiguous:
        return "another run differs from it only in folders, which are not shared: rename one"
    return ""


def _scored(run: Entry, means: Mapping[str, Number]) -> dict[str | Asked, eee.Scored]:
    """Return means of groups, then scores of tasks, with intervals."""
    numbers: dict[str | Asked, Number] = dict(means.items())
    numbers |= {
        asked: Number(score.value, score.error, 1)
        for asked, score in run.scores.items()
        if math.isfinite(score.value)
    }
    return {
        name: eee.Scored(
            number.value,
            number.error,
            *interval_of(number, eee.benchmark_of(name).measure),
            number.tasks,
            run.date_of(tasks_in(run, name) if isinstance(name, str) else [name]),
        )
        for name, number in numbers.items()
    }


def _lost(run: Entry, tuned: TunedRun | None) -> str:
    """Say which parts of a tuned model's training are not shared or uncertain."""
    if tuned is None:
        return ""
    is_written = tuned.folder is not None and (tuned.folder / LOSSES).is_file()
    name = eee.model_id(run)
    parts = [
        f"records do not contain the losses of its training ({LOSSES})" * is_written,
        f"{name} is assumed to be a model on the Hub: if it is a folder, run it as ./{name}"
        * ("/" in name),
    ]
    return "; ".join(filter(None, parts))


def _said(report: Report, run: Entry, column: str, mean: Number, doubt: Doubt) -> str:
    """Write the notes on a mean: its error, settings of asking, and doubts."""
    digits, method = groups()[column].digits, eee.method_of(groups()[column])
    tasks = tasks_in(run, column)
    words = [
        "" if math.isnan(mean.error) else f"± {mean.error:.{digits}f}, {method}",
        _trained(len(trained_on(report, run, tasks)), len(tasks)),
        *eee.public_words(run),
        share_of(mean.tasks, column).strip(" ()"),
        f"other results with the same settings differ by {doubt.differ:.{digits}f}"
        if doubt.differ
        else "",
        *(_SILENT[metric].format(mean) for metric, mean in too_low(run, column).items()),
    ]
    return "; ".join(filter(None, words))


def _trained(trained: int, tasks: int) -> str:
    """Say how many tasks of a mean a tuned model was trained on."""
    if trained in (0, tasks):
        return "trained on these tasks" * bool(trained)
    return f"trained on {trained} of these {plural(tasks, 'task')}"


def _is_exported(run: Entry, column: str) -> bool:
    return all(WAYS[asked.way].exported for asked in tasks_in(run, column))


def _entry(run: Entry, column: str, mean: Number, notes: str, dataset: str) -> dict[str, Any]:
    """Return an entry like ``huggingface_hub.EvalResultEntry``, which older versions lack."""
    entry: dict[str, Any] = {
        "dataset": {"id": dataset, "task_id": column},
        "value": round(mean.value, groups()[column].digits + 1),
    }
    if math.isfinite(date := run.date_of(tasks_in(run, column))):
        entry["date"] = f"{datetime.fromtimestamp(date, timezone.utc):%F}"
    # The Hub has no field for what the number is.
    return entry | {"notes": "; ".join(filter(None, (groups()[column].heading, notes)))}
