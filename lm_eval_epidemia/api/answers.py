"""Score a table of answers, however they were collected: `score_answers`."""

from __future__ import annotations

import ast
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.api.answered import (
    GIVEN,
    Scored,
    as_text,
    check_given,
    check_truth,
    is_missing,
    nearest_cell,
    score_task,
    to_python,
)
from lm_eval_epidemia.api.scores import score
from lm_eval_epidemia.api.truths import load_truth
from lm_eval_epidemia.benchmarks import WAYS, list_leaves
from lm_eval_epidemia.benchmarks.observation.beliefs import align_beliefs
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.score.joint import joint_error

_EXPECTED = (
    "expected beliefs (task, cell or given, level, p), or exported questions (with their "
    "column way) and the answers in a column logprobs, p or reply"
)

_WAY_LOST = (
    "the rows are questions, and way says how they were asked (such as 'letters'): keep it as "
    "`epidemia export` and `questions` write it"
)

#: Columns whose values may be lists.
_LISTS = ("given", "choices", "answers", "order", *GIVEN[:2])

#: Columns of numbers, of questions and of beliefs.
_OF_QUESTIONS = ("cell", "level", "place", "sample", "n_samples", "ordering")
_OF_BELIEFS = ("cell", "p")

#: Columns of names.
_NAMES = ("task", "way", "truth")


def score_answers(answers: Any) -> pd.DataFrame:
    """Score a table of answers in the same way as lm-eval's results.

    Parameters
    ----------
    answers : DataFrame
        Of pandas, or with a method ``to_pandas``, as polars and pyarrow have it. Either beliefs, a
        row per task, cell and level: ``task``; ``cell``, its number, or ``given``, its conditions
        (``["age: 30-34"]``, or as text, joined by ", "), or both, which must agree; ``level``, the
        answer's text; ``p``, its probability. Or the questions of an exported repository (`epidemia
        export`, or `questions` with a column ``way``), with the answers to each in one of these
        columns:

        - ``logprobs``: a list of the log-probabilities of the choices, in their order;
        - ``p``: a list of their probabilities, which need not sum to 1 (letters are normalised);
          for ``stated``, a list of the shares of the displayed answers, which must sum to 1;
        - ``reply``: the written text.

        In a table of several ways, each row has a value in the column of its own way. The other
        columns must be as exported; ``given``, ``prompt``, ``answers`` and ``ordering`` may be left
        out. A prompt may have text before it, such as solved examples; leave ``prompt`` out if you
        asked in your own words. Further columns are ignored. Every task must be complete.

    Returns
    -------
    DataFrame
        A row per task, then one per group of these tasks: ``name`` as in lm-eval; ``tasks``, the
        number in the row's mean, and ``of``, the number that the group has here; ``metric``;
        ``value``; ``error``, its standard error (for groups from the surveys' joint replicates).

    Raises
    ------
    EpidemiaError
        If the table is empty or repeats a column; if a task or level is unknown (with the nearest
        names); if a cell or prompt is missing or repeated; if columns contradict each other or the
        task's questions; if values are not probabilities or beliefs do not sum to 1; if the
        questions were made from another truth.

    Examples
    --------
    >>> from lm_eval_epidemia.api import load_truth, score_answers
    >>> task = "epidemia_low_nsduh_cocaine_ever_by_age"
    >>> rows = load_truth(task).to_frame().assign(task=task, given=lambda x: "age: " + x.age)
    >>> beliefs = rows.rename(columns={"answer": "level"})
    >>> score_answers(beliefs).round(1)[["name", "tasks", "of", "value"]]
                                         name  tasks  of  value
    0  epidemia_low_nsduh_cocaine_ever_by_age      1   1  100.0
    1                            epidemia_low      1  63  100.0
    2                      epidemia_low_nsduh      1   6  100.0
    """
    look_at_disk()
    answers = _as_frame(answers)
    # Splits have the columns of each other, with nothing in them.
    answers = answers.dropna(axis="columns", how="all")
    asked = _are_questions(answers)
    columns = ["task", "way", "cell"] if asked else ["task", "level", "p"]
    lacking = [name for name in columns if name not in answers]
    if not asked and not {"cell", "given"} & {*answers.columns}:
        lacking.append("cell or given")
    if asked and not {*GIVEN} & {*answers.columns}:
        lacking.append(" or ".join(GIVEN))
    if lacking:
        raise EpidemiaError(
            f"answers has no column {few(lacking)} with values (it has "
            f"{few([*map(str, answers)])}): {_WAY_LOST if 'way' in lacking else _EXPECTED}"
        )
    for name in columns[:2]:
        if (empty := answers[name].isna()).any():
            apart = ", or score beliefs in a separate table" if name == "way" else ""
            raise EpidemiaError(f"answers has no {name} in row {empty.idxmax()}: fill it in{apart}")
    numeric = _OF_QUESTIONS if asked else _OF_BELIEFS
    for name, text, row in _wrong(answers, numeric, lambda value: isinstance(value, str)):
        raise EpidemiaError(
            f"answers has the text {text!r} in {name}, row {row}: expected a number, as "
            f"pd.to_numeric(answers[{name!r}]) makes of '0'"
        )
    notices.forget()  # as a run does
    with notices.block("table"):
        if asked:
            return _tabulate_scores([score_task(rows) for rows in _by(answers, ["task", "way"])])
        return _tabulate_scores([_believed(rows) for rows in _by(answers, ["task"])])


def _are_questions(answers: pd.DataFrame) -> bool:
    """Whether rows are questions, not beliefs, even if their column way is lost."""
    if "way" in answers:
        return True
    if "p" in answers:
        return any(isinstance(p, list | tuple | np.ndarray) for p in answers["p"])
    return bool({*GIVEN} & {*answers.columns})


def _as_frame(answers: Any) -> pd.DataFrame:
    """Return a table of answers as a frame of pandas; refuse anything else."""
    if hasattr(answers, "to_pandas"):
        answers = answers.to_pandas()
    if not isinstance(answers, pd.DataFrame):
        raise EpidemiaError(f"answers is a {type(answers).__name__}: expected a DataFrame")
    if answers.empty:
        has = "no rows" if len(answers.columns) else "neither rows nor columns"
        raise EpidemiaError(f"answers is an empty table, with {has}: {_EXPECTED}")
    if len(twice := answers.columns[answers.columns.duplicated()].unique()):
        raise EpidemiaError(
            f"answers has several columns named {few(list(map(str, twice)))}: keep one of each name"
        )
    for name, value, row in _wrong(answers, _LISTS, _is_written_list):
        texts = [text for text in answers[name] if _is_written_list(text)]
        raise EpidemiaError(
            f"answers has the text {value!r} in {name}, row {row}: expected a list, which csv "
            f"files keep as text: {_as_lists(name, texts)}"
        )
    for name, value, row in _wrong(
        answers, _NAMES, lambda x: not isinstance(x, str) and not is_missing(x)
    ):
        raise EpidemiaError(
            f"answers has {to_python(value)!r} in {name}, row {row}: expected a text"
        )
    # An index that is named like a column would be one, too.
    return answers.rename_axis(index=lambda _: None)


def _is_written_list(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("[", "("))


def _wrong(
    answers: pd.DataFrame, names: Sequence[str], is_wrong: Callable[[Any], bool]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield wrong values of some columns, with the names of their columns and rows."""
    for name in [name for name in names if name in answers]:
        for row, value in answers[name].items():
            if is_wrong(value):
                yield name, value, row


def _as_lists(name: str, texts: Sequence[str]) -> str:
    """Say how to recover lists from texts."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            lists = [read(text) for text in texts]
            # Of "['a' 'b']", as numpy writes it, Python makes one text.
            if read is json.loads or [repr(each) for each in lists] == texts:
                reader = f"{read.__module__}.{read.__name__}"
                return (
                    f"make lists of them with answers[{name!r}].map({reader}, na_action='ignore')"
                )
    return (
        "read the parquet file that they come from, or write your table with answers.to_json(path, "
        "orient='records', lines=True) and read it with pd.read_json(path, lines=True, dtype=False)"
    )


def _by(answers: pd.DataFrame, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each task, with their labels in ``row`` and without empty columns."""
    for _, rows in answers.groupby(columns, sort=False, observed=True):
        records: Any = rows.dropna(axis="columns", how="all").to_dict("records")
        yield [
            {**{name: to_python(value) for name, value in row.items()}, "row": label}
            for label, row in zip(rows.index, records, strict=True)
        ]


def _tabulate_scores(scored: Sequence[Scored]) -> pd.DataFrame:
    groups: dict[str, list[Scored]] = {}
    for each in scored:
        for group in each.leaf.groups:
            groups.setdefault(group, []).append(each)
    sizes = Counter(
        group
        for benchmark in {each.leaf.benchmark for each in scored}
        for way in benchmark.ways.values()
        for entry in benchmark.asked(way.name)
        for group in list_leaves()[way.named(entry.name)].groups
    )
    rows = [(WAYS[x.leaf.way].named(x.leaf.entry.name), [x], 1) for x in scored]
    rows += [(name, members, sizes[name]) for name, members in groups.items()]
    return pd.DataFrame(
        {
            "name": name,
            "tasks": len(members),
            "of": of,
            "metric": members[0].leaf.benchmark.primary,
            "value": math.fsum(each.value for each in members) / len(members),
            "error": joint_error([each.draws for each in members]),
        }
        for name, members, of in rows
    )


def _believed(rows: Sequence[Mapping[str, Any]]) -> Scored:
    """Score beliefs about a task."""
    task = str(rows[0]["task"])
    truth = load_truth(task)
    check_truth(task, rows, truth.fingerprint)
    conditions = [", ".join(given) for given in WAYS["letters"].described(truth)]
    beliefs = [
        ((*truth.given[_cell(task, row, conditions)], str(row["level"])), row.get("p"))
        for row in rows
    ]
    scored = score(truth, align_beliefs(truth, beliefs))
    return Scored(list_leaves()[task], scored.score, scored.draws)


def _cell(task: str, row: Mapping[str, Any], conditions: Sequence[str]) -> int:
    """Return the number of a row's cell."""
    cell: Any = row.get("cell")
    given = row.get("given")
    if is_missing(cell):
        if is_missing(given):
            raise EpidemiaError(f"answers has neither cell nor given in row {row['row']}: give one")
        if (text := as_text(given)) not in conditions:
            raise EpidemiaError(f"{task} has no cell {text!r} ({nearest_cell(text, conditions)})")
        return conditions.index(text)
    if cell not in range(len(conditions)):
        raise EpidemiaError(
            f"{task} has no cell {to_python(cell)!r}: expected 0 to {len(conditions) - 1}"
        )
    if not is_missing(given):
        check_given(task, row, conditions)
    return int(cell)
