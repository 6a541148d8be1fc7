"""Answers that were gathered in any way, as a table: `score_answers`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.api.answered import GIVEN, Scored, answered, check_truth
from lm_eval_epidemia.api.scores import score
from lm_eval_epidemia.api.truths import load_truth
from lm_eval_epidemia.benchmarks import WAYS, leaves
from lm_eval_epidemia.benchmarks.observation.beliefs import ROUNDING
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.score.joint import joint_error

_EXPECTED = (
    "expected beliefs (task, cell or given, level, p), or exported questions (with their column "
    "way) and what was answered in a column logprobs, p or reply"
)


def score_answers(answers: pd.DataFrame) -> pd.DataFrame:
    """Score a table of answers, as lm-eval scores what a model was found to believe.

    Parameters
    ----------
    answers : DataFrame
        Either beliefs, a row per task, cell and level: ``task``; ``cell``, its number, or
        ``given``, its conditions (``["age: 30-34"]``, or as text, joined by ", "); ``level``, the
        answer's text; ``p``, its probability. Or the questions of an exported repository
        (`epidemia export`, or `questions` with a column ``way``), with the answers to each in one
        of these columns:

        - ``logprobs``: a list of the log-probabilities of the choices, in their order;
        - ``p``: a list of their probabilities, which need not sum to 1: letters are normalised; of
          ``stated`` a list of the shares of the displayed answers, which sum to 1;
        - ``reply``: the text that was written.

        Other columns are ignored. Whole tasks only.

    Returns
    -------
    DataFrame
        A row per task, then one per group that these are in: ``name``, as lm-eval has it;
        ``tasks``, how many the row is the mean of, and ``of``, how many the group has here;
        ``metric``; ``value``; ``error``, its standard error, of groups from the surveys' joint
        replicates.

    Raises
    ------
    EpidemiaError
        If a task or level is not known (with the nearest names), a cell or prompt is missing or
        twice there, what should be probabilities are none, beliefs do not sum to 1, or questions
        were made from another truth.

    Examples
    --------
    >>> from lm_eval_epidemia.api import load_truth, score_answers
    >>> task = "epidemia_low_nsduh_cocaine_ever_by_age"
    >>> said = load_truth(task).to_frame().assign(task=task, given=lambda x: "age: " + x.age)
    >>> said = said.rename(columns={"answer": "level"})
    >>> score_answers(said).round(1)[["name", "tasks", "of", "value"]]
                                         name  tasks  of  value
    0  epidemia_low_nsduh_cocaine_ever_by_age      1   1  100.0
    1                            epidemia_low      1  63  100.0
    2                      epidemia_low_nsduh      1   6  100.0
    """
    if not isinstance(answers, pd.DataFrame):
        raise EpidemiaError(f"answers is a {type(answers).__name__}: expected a DataFrame")
    # Splits have the columns of each other, with nothing in them.
    answers = answers.dropna(axis="columns", how="all")
    given = [name for name in GIVEN if name in answers]
    columns = ["task", "way", "cell"] if "way" in answers else ["task", "level", "p"]
    lacking = [name for name in columns if name not in answers]
    if not ("way" in answers or {"cell", "given"} & {*answers.columns}):
        lacking.append("cell or given")
    if lacking or answers.empty or not given:
        lacks = f"no column {few(lacking)} with values" if lacking else "no answers"
        raise EpidemiaError(
            f"answers has {lacks} (it has {few(list(map(str, answers.columns)))}): {_EXPECTED}"
        )
    if "way" not in answers:
        return _table([_believed(rows) for rows in _by(answers, ["task"])])
    if len(given) > 1:
        raise EpidemiaError(f"answers has both {' and '.join(given)}: keep one")
    return _table([answered(rows, given[0]) for rows in _by(answers, ["task", "way"])])


def _by(answers: pd.DataFrame, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Go through the rows of each task, with their labels in ``row``."""
    for name in columns:
        if (empty := answers[name].isna()).any():
            raise EpidemiaError(f"answers has no {name} in row {empty.idxmax()}: fill it in")
    for _, rows in answers.groupby(columns, sort=False):
        records: Any = rows.to_dict("records")
        for label, row in zip(rows.index, records, strict=True):
            row["row"] = label
        yield records


def _table(scored: Sequence[Scored]) -> pd.DataFrame:
    groups: dict[str, list[Scored]] = {}
    for each in scored:
        for group in each.leaf.entry.groups:
            groups.setdefault(WAYS[each.leaf.way].named(group), []).append(each)
    sizes = Counter(
        way.named(group)
        for benchmark in {each.leaf.benchmark for each in scored}
        for way in benchmark.ways.values()
        for entry in benchmark.asked(way.name)
        for group in entry.groups
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
    levels = {level: number for number, level in enumerate(truth.levels)}
    q = np.full(truth.p.shape, np.nan)
    for row in rows:
        cell = _cell(task, row, conditions)
        if (level := levels.get(str(row["level"]))) is None:
            raise EpidemiaError(
                f"{task} has no level {row['level']!r} ({nearest(str(row['level']), levels)})"
            )
        where = f"{task}, cell {cell} ({conditions[cell]}), {row['level']}"
        if not np.isnan(q[cell, level]):
            raise EpidemiaError(f"answers has {where} twice: keep one")
        q[cell, level] = _number(where, row["p"])
    if lacking := np.argwhere(np.isnan(q)).tolist():
        names = [f"cell {cell} ({conditions[cell]}), {truth.levels[k]}" for cell, k in lacking]
        raise EpidemiaError(
            f"{task} is not answered whole: it lacks {few(names)}; give every cell and level, as "
            "the split truth lists them"
        )
    scored = score(truth, q)
    return Scored(leaves()[task], scored.score, scored.draws)


def _cell(task: str, row: Mapping[str, Any], conditions: Sequence[str]) -> int:
    """Return the number of a row's cell."""
    if "cell" in row:
        if row["cell"] not in range(len(conditions)):
            raise EpidemiaError(
                f"{task} has no cell {row['cell']!r}: expected 0 to {len(conditions) - 1}"
            )
        return int(row["cell"])
    given = row["given"] if isinstance(row["given"], str) else ", ".join(map(str, row["given"]))
    if given not in conditions:
        raise EpidemiaError(f"{task} has no cell {given!r} ({nearest(given, conditions)})")
    return conditions.index(given)


def _number(where: str, value: Any) -> float:
    try:
        p = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError):
        p = math.nan
    if not -ROUNDING <= p <= 1 + ROUNDING:
        raise EpidemiaError(f"{where}: p is {value!r}: expected a probability, from 0 to 1")
    return p
