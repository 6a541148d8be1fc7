"""A model's answers to the documents of any lm-eval task, as kept by ``--log_samples``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from lm_eval_epidemia.benchmarks import list_leaves
from lm_eval_epidemia.results import decode
from lm_eval_epidemia.results.decode import ResultFile, read_number, to_printable, to_text
from lm_eval_epidemia.results.naming import is_chat
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import read_lines, stamp_of

#: Of a task's configuration, what makes its prompts, whatever the chat template.
ASKED_BY = (
    *("doc_to_text", "doc_to_choice", "description", "target_delimiter", "fewshot_delimiter"),
    *("fewshot_split", "fewshot_config", "use_prompt", "gen_prefix"),
)


class MetricKey(NamedTuple):
    """A metric under one of a task's filters; the filter is empty if the task names none."""

    name: str
    filter: str

    def __str__(self) -> str:
        return to_printable(", ".join(filter(None, self)))


class AnsweredTask(NamedTuple):
    """A task that a model answered.

    Attributes
    ----------
    run : int
        Its run in `Results.runs`.
    task : str
    file : ResultFile
    path : Path
        The result file.
    samples : Path
        Where its samples are, if they were kept.
    """

    run: int
    task: str
    file: ResultFile
    path: Path
    samples: Path

    @property
    def has_samples(self) -> bool:
        return self.samples.is_file()

    @property
    def version(self) -> str:
        return to_text(self.file.versions.get(self.task))

    @property
    def template(self) -> str:
        """The chat template; for an endpoint with its own template, a marker of that."""
        return str(self.file.chat_template or "") or (
            "its own" if is_chat(self.file.config) else ""
        )

    @property
    def config(self) -> dict[str, str]:
        """The settings that make the prompts, without chat templates and memory addresses."""
        config = self.file.configs.get(self.task) or {}
        return {key: re.sub(r" at 0x\w+", "", str(config.get(key))) for key in ASKED_BY}

    def metrics(self, group: str = "") -> dict[MetricKey, float]:
        """Return the numbers of the task, or of a group, in the result file; without NaN."""
        by_filter = decode.metrics_in(self.file.results.get(group or self.task, {}))
        return {
            MetricKey(name, filtered): value
            for filtered, numbers in by_filter.items()
            for name, value in numbers.items()
            if not math.isnan(value)
        }

    @property
    def counts(self) -> tuple[float, float]:
        """How many documents were asked, and how many there are; NaN if the file does not say."""
        known = dict(self.file.sizes or {}).get(self.task) or {}
        return read_number(known.get("effective")), read_number(known.get("original"))

    @property
    def limit(self) -> str:
        """The ``--limit`` that left documents out, as far as the file tells."""
        asked, there = self.counts
        return "" if asked >= there else to_text(self.file.config.limit)


def answered_in(results: Results) -> list[AnsweredTask]:
    """Find other people's tasks, with or without samples; ours are compared by their truths.

    Returns
    -------
    list of AnsweredTask
        The oldest first.
    """
    answered = []
    with_others = results.files[results.files["run"].isin(results.others["run"])]
    for run, path in with_others.itertuples(index=False):
        file = decode.read_file(path, configs=True)
        for task in file.results:
            is_other = task not in list_leaves() and not task.startswith("epidemia_")
            if is_other and not file.group_subtasks.get(task):
                samples = path.parent / f"samples_{task}{stamp_of(path)}.jsonl"
                answered.append(AnsweredTask(run, task, file, path, samples))
    return answered


def groups_in(file: ResultFile) -> dict[str, list[str]]:
    """Return other people's groups that have a score, each with its tasks at any depth."""
    groups = {name: listed for name, listed in file.group_subtasks.items() if listed}

    def below(name: str, above: tuple[str, ...] = ()) -> Iterable[str]:
        if name not in groups:
            return [name]
        inner = [child for child in groups[name] if child not in above]
        return [task for child in inner for task in below(child, (*above, name))]

    return {
        name: list(dict.fromkeys(below(name)))
        for name in groups
        if not name.startswith("epidemia_") and decode.metrics_in(file.results.get(name, {}))
    }


#: What identifies a row of samples: rows of two models that agree in these are of one document;
#: ``number`` is the index among rows that agree in all others.
ROW = ["doc_id", "doc_hash", "filter", "number"]


def samples_of(answered: AnsweredTask, cluster: str = "") -> pd.DataFrame:
    """Read the samples of a task.

    Parameters
    ----------
    answered : AnsweredTask
    cluster : str, optional
        A column of its documents.

    Returns
    -------
    DataFrame
        The columns of `ROW`, ``prompt`` and ``target`` (hashes), ``cluster`` (the document's value
        in that column, else its hash), and one column per metric: NaN for anything but numbers.

    Raises
    ------
    EpidemiaError
        If the file cannot be read, or its lm-eval does not name documents.
    """
    names = [*dict.fromkeys(metric.name for metric in answered.metrics())]
    decoder: Any = msgspec.json.Decoder(dict[str, Any])
    rows: list[list[Any]] = []

    def read(text: bytes) -> None:
        told = decode_line(decoder, text, dict[str, Any])
        rows.append([*_row(told, cluster), *(_read_value(told.get(x)) for x in names)])

    read_lines(answered.samples, answered.task, read)
    table = pd.DataFrame(rows, columns=[*ROW[:3], "prompt", "target", "cluster", *names])
    return table.assign(number=table.groupby(ROW[:3]).cumcount())


class _DocumentLine(msgspec.Struct):
    """A line of samples: what is needed of it beside the metrics."""

    doc_id: Any
    doc_hash: str
    prompt_hash: str = ""
    target_hash: str = ""
    filter: str = "none"
    doc: Any = None


def _row(told: dict[str, Any], cluster: str) -> list[str]:
    line = msgspec.convert(told, _DocumentLine)
    filtered = "" if line.filter == "none" else line.filter
    has_column = cluster and isinstance(line.doc, dict) and cluster in line.doc
    by = json.dumps(line.doc[cluster], sort_keys=True) if has_column else line.doc_hash
    return [str(line.doc_id), line.doc_hash, filtered, line.prompt_hash, line.target_hash, by]


def decode_line(decoder: Any, text: bytes, line_type: Any) -> Any:
    """Read a line of samples."""
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:
        # Python writes NaN and Infinity, which are no JSON.
        return msgspec.convert(json.loads(text), line_type)


def _read_value(value: Any) -> float:
    """Read a value of one document: true is 1; NaN for anything but finite numbers."""
    number = float(value) if isinstance(value, bool) else read_number(value)
    return number if math.isfinite(number) else math.nan


def columns_in(answered: AnsweredTask) -> list[str]:
    """Return the columns of a task's documents, from its first sample; empty if that is damaged."""
    try:
        with answered.samples.open("rb") as file:
            return [*json.loads(file.readline())["doc"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []
