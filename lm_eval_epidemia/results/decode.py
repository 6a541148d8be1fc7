"""Decode a result file of lm-eval: our scores, settings, and other people's tasks."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from lm_eval_epidemia.benchmarks import Leaf, in_way, list_leaves
from lm_eval_epidemia.results.naming import RunConfig
from lm_eval_epidemia.results.replicates import OwnSection
from lm_eval_epidemia.score.joint import Draws

#: The score against the population, which subtracts what sampling error adds to a distance.
POPULATION = "score_population"


class LeafKey(NamedTuple):
    """A task in a way of asking."""

    task: str
    way: str


def leaf(asked: LeafKey) -> Leaf:
    """Return the details of a task in a way of asking."""
    return list_leaves()[in_way(*asked)]


def leaves_of(scores: pd.DataFrame) -> list[Leaf]:
    """Return the details of what each row of a table is of."""
    known = list_leaves()
    return [known[name] for name in map(in_way, scores["task"], scores["way"])]


class TaskScore(NamedTuple):
    """The result of one task in one run.

    Attributes
    ----------
    value : float
        The leading metric of the task's benchmark; NaN if lm-eval's file says so, or if the
        benchmark has no scores.
    draws : Draws or None
        Its values for other samples of the survey; None if unknown.
    metrics : dict of str to float
        All the others, by name.
    population : Draws or None
        Draws of the metric `POPULATION`.
    said : object or None
        The answer to each prompt, if kept: `Kept.answers`, or a line to be read; None if the
        questions were made from a truth other than the installed one.
    """

    value: float
    draws: Draws | None = None
    metrics: Mapping[str, float] = {}
    population: Draws | None = None
    said: Any = None

    @property
    def seen(self) -> float:
        """Share of the task that was asked."""
        return self.metrics.get("seen", 1.0)


def to_printable(text: str) -> str:
    """Return a text from a file in one line, with a mark for unprintable characters."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def to_encodable(text: str) -> str:
    """Return a text from a file with what cannot be printed, or held by a table, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def read_number(value: Any) -> float:
    """Read a number that may be missing or "N/A"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def to_text(value: Any) -> str:
    """Write a setting as it was given: lm-eval keeps a ``--limit`` of 4 as 4.0."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_setting(value: Any) -> str:
    """Write a setting in one form: 0.50, "0.5" and 0.5 are equal."""
    if isinstance(value, bool):
        return str(value)
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def sha_of(known: str | None, text: Any) -> str:
    """Return the hash of a text that older files lack; empty without a text."""
    return known or (
        hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() if text else ""
    )


#: The latest date that a run can have: seconds since 1970, in the year 5138.
LATEST = 1e11


class TaskConfig(msgspec.Struct):
    """The parts of a task's configuration that are read."""

    metadata: dict[str, Any] | None = None


class ResultFile(msgspec.Struct):
    """The parts of a result file that are read; lm-eval writes more."""

    results: dict[str, dict[str, Any]]
    config: RunConfig = msgspec.field(default_factory=RunConfig)
    model_name: Any = None
    configs: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    shots: dict[str, Any] = msgspec.field(default_factory=dict, name="n-shot")
    sizes: Any = msgspec.field(default=None, name="n-samples")
    group_subtasks: dict[str, list[str]] = {}
    higher_is_better: dict[str, Any] = {}
    date: Any = None
    chat_template: Any = None
    chat_template_sha: str | None = None
    system_instruction: str | None = None
    system_instruction_sha: str | None = None
    epidemia: OwnSection | None = None


class _StrictFile(ResultFile):
    """A file as lm-eval writes it today; only the needed parts of task configurations are
    decoded."""

    configs: dict[str, TaskConfig | None] = {}


def read_file(path: Path, configs: bool = False) -> ResultFile:
    """Read a result file.

    Parameters
    ----------
    path : Path
    configs : bool
        Whether to decode whole task configurations instead of only the fields of `TaskConfig`.

    Returns
    -------
    ResultFile

    Raises
    ------
    ValueError
        If it is not as lm-eval writes it, with the reason.
    """
    # A pipe would wait for its writer.
    if not path.is_file():
        raise ValueError("a folder, not a file" if path.is_dir() else "not a file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    file = _decoded(data, ResultFile if configs else _StrictFile)
    if abs(read_number(file.date)) > LATEST:
        raise ValueError(f"date is {file.date}, expected seconds since 1970")
    return file


def _decoded(data: bytes, form: type[ResultFile]) -> ResultFile:
    text = data.decode("utf-8-sig")  # an editor may have put a byte-order mark first
    try:
        return msgspec.json.decode(text, type=form)
    except (ValueError, RecursionError):
        pass  # NaN, which lm-eval writes and JSON lacks; or something is wrong, which is said below
    try:
        read = json.loads(text)
        if isinstance(read, dict):
            if "evaluation_results" in read:
                raise ValueError(
                    "a record of Every Eval Ever: give the results that it was made from"
                )
            read = {key: value for key, value in read.items() if value is not None}
        return msgspec.convert(read, ResultFile)
    except RecursionError:
        raise ValueError("brackets nested without end") from None


#: Metrics of other tasks: the first that a task has is shown. Where it has none of these, it is one
#: that is better when higher, else one that is better when lower, else any.
OTHER_METRICS = ("acc_norm", "acc", "exact_match", "f1")

#: What lm-eval writes of a task beside its metrics.
_NO_METRIC = ("name", "alias", "sample_len", "sample_count", " ")


class Other(NamedTuple):
    """A metric of another task, and how it was asked; different ways are never merged."""

    task: str
    metric: str
    filter: str
    shots: str
    version: str
    limit: str
    lower_is_better: bool


def others_in(file: Any, ours: Collection[str]) -> dict[Other, float]:
    """Return a metric of each other task and filter; groups replace their members.

    NaN where none is a finite number.

    Parameters
    ----------
    file : decode.ResultFile
    ours : collection of str
        Tasks that are left out.
    """
    groups = {name for name, listed in file.group_subtasks.items() if listed}
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, row in file.results.items():
        metrics = metrics_in(row)
        # A group without metrics of its own is no task that lacks them.
        listed = bool(metrics) or name not in groups
        if listed and name not in ours and not name.startswith("epidemia_"):
            rows[name] = metrics or {"": {"no metric": math.nan}}
    # A group stands for its members where it has a number.
    members = {
        member
        for name in groups & rows.keys()
        if not all(math.isnan(x) for numbers in rows[name].values() for x in numbers.values())
        for member in file.group_subtasks[name]
    }
    values = {}
    for name in [name for name in rows if name not in members]:
        better = file.higher_is_better.get(name)
        higher = better if isinstance(better, dict) else {}
        asked = file.shots.get(name), file.versions.get(name), file.config.limit
        shots, version, limit = map(to_text, asked)
        for filtered, numbers in rows[name].items():
            known = [metric for metric in numbers if not math.isnan(numbers[metric])]
            metric = min(
                known or numbers, key=lambda metric: _preference(metric, higher.get(metric))
            )
            lower = higher.get(metric) is False
            other = Other(name, metric, filtered, shots, version, limit, lower)
            values[other] = numbers[metric]
    return values


def _preference(metric: str, higher_is_better: Any) -> int:
    """Sort key of a task's metrics: the smallest is shown."""
    if metric in OTHER_METRICS:
        return OTHER_METRICS.index(metric)
    unnamed = 1 - higher_is_better if isinstance(higher_is_better, bool) else 2
    return len(OTHER_METRICS) + unnamed


def metrics_in(row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of a task by filter; NaN for anything but finite numbers."""
    metrics: dict[str, dict[str, float]] = defaultdict(dict)
    for key, value in row.items():
        # "acc,none" since lm-eval 0.4, "acc" before.
        metric, _, filtered = key.partition(",")
        if key not in _NO_METRIC and "stderr" not in metric:
            number = read_number(value)
            finite = number if math.isfinite(number) else math.nan
            metrics["" if filtered == "none" else filtered][metric] = finite
    return metrics


def labels_of(others: Collection[Other]) -> dict[Other, str]:
    """Name columns; add number of examples and version only if a task was run with several."""
    shots, versions = defaultdict(set), defaultdict(set)
    for other in others:
        shots[other.task].add(other.shots)
        versions[other.task].add(other.version)
    labels = {}
    for other in others:
        parts = (
            other.metric,
            other.filter,
            other.shots and (f"{other.shots}-shot" if len(shots[other.task]) > 1 else ""),
            other.version and (f"version {other.version}" if len(versions[other.task]) > 1 else ""),
            other.limit and f"limit {other.limit}",
            "lower is better" if other.lower_is_better else "",
        )
        labels[other] = to_printable(f"{other.task} ({', '.join(filter(None, parts))})")
    return labels
