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

from lm_eval_epidemia.benchmarks import leaves
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.file import ResultFile, read_file
from lm_eval_epidemia.results.naming import is_chat
from lm_eval_epidemia.results.others import metrics_in
from lm_eval_epidemia.results.protocol import as_given, number_in, printable
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import stamp_of

#: Of a task's configuration, what makes its prompts, whatever the chat template.
ASKED_BY = (
    "doc_to_text",
    "doc_to_choice",
    "description",
    "target_delimiter",
    "fewshot_delimiter",
    "fewshot_split",
    "fewshot_config",
    "use_prompt",
    "gen_prefix",
)


class Metric(NamedTuple):
    """A metric under one of a task's filters; the filter is empty if the task names none."""

    name: str
    filter: str

    def __str__(self) -> str:
        return printable(", ".join(filter(None, self)))


class Answered(NamedTuple):
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
    def shots(self) -> str:
        return as_given(self.file.shots.get(self.task))

    @property
    def version(self) -> str:
        return as_given(self.file.versions.get(self.task))

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

    @property
    def metrics(self) -> dict[Metric, float]:
        """The numbers of the whole task in the result file, without NaN."""
        return self.metrics_of(self.task)

    def metrics_of(self, name: str) -> dict[Metric, float]:
        """Return the numbers of a task or group in the result file, without NaN."""
        return {
            Metric(metric, filtered): value
            for filtered, numbers in metrics_in(self.file.results.get(name, {})).items()
            for metric, value in numbers.items()
            if not math.isnan(value)
        }

    def size_of(self, name: str) -> float:
        """Return the number of documents of a task; NaN if the file does not say."""
        size = number_in(self.file.results.get(name, {}).get("sample_len"))
        return _counts(self.file, name)[0] if math.isnan(size) else size

    def higher_is_better(self, metric: str) -> bool | None:
        """Which direction is better; None if the file does not say."""
        better = self.file.higher_is_better.get(self.task)
        told = better.get(metric) if isinstance(better, dict) else None
        return told if isinstance(told, bool) else None


def answered_in(results: Results) -> list[Answered]:
    """Find other people's tasks, with or without samples; ours are compared by their truths.

    Returns
    -------
    list of Answered
        The oldest first.
    """
    answered = []
    with_others = results.files[results.files["run"].isin(results.others["run"])]
    for run, path in with_others.itertuples(index=False):
        file = read_file(path, configs=True)
        stamp = stamp_of(path)
        for task in file.results:
            samples = path.parent / f"samples_{task}{stamp}.jsonl"
            is_group = bool(file.group_subtasks.get(task))
            if task not in leaves() and not task.startswith("epidemia_") and not is_group:
                answered.append(Answered(run, task, file, path, samples))
    return answered


def _counts(file: ResultFile, task: str) -> tuple[float, float]:
    """Return how many documents of a task were asked, and how many it has; NaN if unknown."""
    counts = file.sizes.get(task) if isinstance(file.sizes, dict) else None
    known = counts if isinstance(counts, dict) else {}
    return number_in(known.get("effective")), number_in(known.get("original"))


def limit_of(answered: Answered) -> str:
    """Return the ``--limit`` that left documents out, as far as the file tells."""
    asked, there = _counts(answered.file, answered.task)
    return "" if asked >= there else as_given(answered.file.config.limit)


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
        if not name.startswith("epidemia_") and metrics_in(file.results.get(name, {}))
    }


#: What identifies a row of samples: rows of two models that agree in these are of one document;
#: ``number`` is the index among rows that agree in all others.
ROW = ["doc_id", "doc_hash", "filter", "number"]


def samples_of(answered: Answered, cluster: str | None = None) -> pd.DataFrame:
    """Read the samples of a task.

    Parameters
    ----------
    answered : Answered
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
    names = list(dict.fromkeys(metric.name for metric in answered.metrics))
    line_type = _line(names, cluster is not None)
    decoder: Any = msgspec.json.Decoder(line_type)
    rows = []
    try:
        with answered.samples.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    line = decoded(decoder, text, line_type)
                    column = line.doc_hash if cluster is None else _column(line.doc, cluster)
                except (msgspec.MsgspecError, ValueError) as error:
                    raise EpidemiaError(
                        f"{answered.samples}, line {number} is not a sample of "
                        f"{answered.task} ({error}). Was the run interrupted while writing, "
                        "or is its lm-eval older than 0.4.3, which does not name documents? "
                        "Run it again with --log_samples"
                    ) from None
                filtered = "" if line.filter == "none" else line.filter
                values = [_number(getattr(line, f"metric_{n}")) for n in range(len(names))]
                told = (str(line.doc_id), line.doc_hash, filtered, line.prompt_hash)
                rows.append([*told, line.target_hash, column or line.doc_hash, *values])
    except OSError as error:
        raise EpidemiaError(
            f"{answered.samples} cannot be read ({error.strerror or error})"
        ) from None
    columns = [*ROW[:3], "prompt", "target", "cluster", *names]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(number=table.groupby(ROW[:3]).cumcount())


def _line(names: list[str], with_doc: bool) -> type[msgspec.Struct]:
    """A line of samples: what is needed of it; the rest is skipped without being built."""
    fields: list[Any] = [
        ("doc_id", Any),
        ("doc_hash", str),
        ("prompt_hash", str, ""),
        ("target_hash", str, ""),
        ("filter", str, "none"),
        *((f"metric_{number}", Any, None) for number in range(len(names))),
    ]
    if with_doc:
        fields.append(("doc", Any, None))
    rename = {f"metric_{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Line", fields, rename=rename)


def decoded(decoder: Any, text: bytes, line_type: type[msgspec.Struct]) -> Any:
    """Read a line of samples."""
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:
        # Python writes NaN and Infinity, which are no JSON.
        return msgspec.convert(json.loads(text), line_type)


def _column(doc: Any, cluster: str) -> str | None:
    if not isinstance(doc, dict) or cluster not in doc:
        return None
    return json.dumps(doc[cluster], sort_keys=True, default=str)


def _number(value: Any) -> float:
    """Read a value of one document: true is 1; NaN for anything but finite numbers."""
    number = float(value) if isinstance(value, bool) else number_in(value)
    return number if math.isfinite(number) else math.nan


def columns_in(answered: Answered) -> list[str]:
    """Return the columns of a task's documents, from its first sample; empty if that is damaged."""
    try:
        with answered.samples.open("rb") as file:
            doc = json.loads(file.readline())["doc"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return list(doc) if isinstance(doc, dict) else []
