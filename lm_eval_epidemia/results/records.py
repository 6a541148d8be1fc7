"""Read records of Every Eval Ever, written by `every_eval_ever`, like their result files."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.benchmarks import OBSERVATION, groups, leaves
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.results.card import Tuned, checked_card
from lm_eval_epidemia.results.file import ResultFile
from lm_eval_epidemia.results.naming import Config
from lm_eval_epidemia.results.replicates import Joint

#: What our records name as their source, and the folder of them in a data store.
SOURCE = "lm-eval-epidemia"

#: The version of the schema that our records are of.
VERSION = "0.3.0"

#: What a record's model has its card by, see `card.Tuned`.
TUNED = "tuned"

_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")


def is_record(path: Path) -> bool:
    """Return whether a file has the name of a record."""
    return _NAME.fullmatch(path.name) is not None


class _Score(msgspec.Struct):
    score: float
    details: dict[str, str] = {}


class _Generation(msgspec.Struct):
    additional_details: dict[str, str] = {}


class _Result(msgspec.Struct):
    evaluation_name: str
    score_details: _Score
    generation_config: _Generation | None = None


class _Model(msgspec.Struct):
    additional_details: dict[str, str]


class _Source(msgspec.Struct):
    source_name: str = ""


class _Record(msgspec.Struct):
    source_metadata: _Source
    model_info: _Model
    evaluation_results: list[_Result]
    schema_version: str = ""
    evaluation_timestamp: str = ""


class ReadRecord(NamedTuple):
    """A record in the form of its result file, with notes for the reader.

    For a tuned model it also holds the card.
    """

    file: ResultFile
    notes: list[str]
    card: Tuned | None


def read_record(path: Path) -> ReadRecord:
    """Read a record that `record` made.

    Raises
    ------
    ValueError
        If it is not one of ours, repeats a task, or was visibly changed; with the reason.
    """
    if not path.is_file():
        raise ValueError("not a file")
    try:
        read = msgspec.json.decode(path.read_bytes(), type=_Record)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    except RecursionError:
        raise ValueError("brackets nested without end") from None
    if read.source_metadata.source_name != SOURCE:
        raise ValueError("a record of Every Eval Ever that 'epidemia share' did not write")
    if read.schema_version != VERSION:
        raise ValueError(f"of schema {read.schema_version!r}, 'epidemia share' writes {VERSION!r}")
    rows = read.evaluation_results
    counts = Counter(row.evaluation_name for row in rows)
    if twice := [name for name, times in counts.items() if times > 1]:
        raise ValueError(f"it has more than one result of {few(twice)}")
    told = read.model_info.additional_details
    file = ResultFile(
        {},
        msgspec.convert(_json(told, "lm_eval_config"), Config),
        date=_date(read.evaluation_timestamp),
        # Of these texts a record has the hashes.
        chat_template="chat_template_sha" in told,
        chat_template_sha=told.get("chat_template_sha"),
        system_instruction="in the result file" if "system_instruction_sha" in told else None,
        system_instruction_sha=told.get("system_instruction_sha"),
        epidemia=Joint({}, {}),
    )
    for row in rows:
        if row.generation_config is not None:  # of a task
            _take(file, row, row.generation_config.additional_details)
    card = checked_card(_json(told, TUNED), Tuned) if TUNED in told else None
    return ReadRecord(file, [*_changed_means(rows)], card)


def _changed_means(rows: Sequence[_Result]) -> Iterator[str]:
    """Say which group means differ from those of their tasks in the record."""
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.evaluation_name in leaves():
            scores[leaves()[row.evaluation_name].group].append(row.score_details.score)
    for row in rows:
        group, written = row.evaluation_name, row.score_details.score
        if group not in groups():
            continue
        if not (of_tasks := scores[group]):
            yield f"{group} is left out: the record has none of its tasks"
        elif not math.isclose(mean := math.fsum(of_tasks) / len(of_tasks), written, rel_tol=1e-6):
            yield (
                f"{group} is {written:g} in the record, but the mean of "
                f"{plural(len(of_tasks), 'task')} in it is {mean:g}, which counts: share the "
                "run again"
            )


def _take(file: ResultFile, row: _Result, told: Mapping[str, str]) -> None:
    """Put the result of a task into a file."""
    name, details, joint = row.evaluation_name, dict(row.score_details.details), file.epidemia
    assert joint is not None
    if "replicates" in details:
        joint.replicates[name] = msgspec.convert(_json(details, "replicates"), dict[str, Any])
    joint.said |= {name: details["said"]} if "said" in details else {}
    metrics = {key: x for key, x in details.items() if key not in ("replicates", "said")}
    numbers = {metric: _number(name, metric, x) for metric, x in metrics.items()}
    file.results[name] = {f"{metric},none": x for metric, x in numbers.items()}
    if name in leaves():
        benchmark = leaves()[name].benchmark
        if benchmark is OBSERVATION and not math.isfinite(numbers.get("l1", math.nan)):
            raise ValueError(f"{name} has no distance (l1) to check its score")
        file.results[name][f"{benchmark.leading},none"] = row.score_details.score
    file.configs[name] = {"metadata": _json(told, "metadata")}
    file.versions[name], file.shots[name] = _json(told, "task_version"), _json(told, "num_fewshot")


def _json(told: Mapping[str, str], key: str) -> Any:
    try:
        return json.loads(told[key])
    except (KeyError, ValueError, RecursionError):
        raise ValueError(f"{key} is not as 'epidemia share' writes it") from None


def _number(name: str, metric: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{metric} of {name} is {text[:40]!r}: expected a number") from None


#: The last second of the year 9999.
LAST = 253_402_300_799


def _date(text: str) -> float:
    """Read the time of a run, in seconds since 1970; NaN if the record does not say."""
    if not text:
        return math.nan
    date = float(text) if re.fullmatch(r"\d{1,12}(\.\d+)?", text) else math.inf
    if date > LAST:
        raise ValueError(f"evaluation_timestamp {text[:40]!r}: expected seconds since 1970")
    return date
