"""A benchmark on one screen: a row per model, reference respondents, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, PRIOR, Benchmark, members, unions
from lm_eval_epidemia.benchmarks.prior.judgements import everything
from lm_eval_epidemia.core.errors import plural
from lm_eval_epidemia.old.findings import priors
from lm_eval_epidemia.old.findings.comparison import AND, compare_entries
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Row
from lm_eval_epidemia.old.findings.leaderboard import TOGETHER, Report
from lm_eval_epidemia.old.findings.means import answers, shared_tasks, tasks_in
from lm_eval_epidemia.old.findings.model_rows import (
    ROUNDING,
    ModelRow,
    asked_as,
    doubts,
    reference_rows,
    row_of,
    runs_in_order,
    without_run,
)
from lm_eval_epidemia.old.findings.model_rows import Cell as ModelCell
from lm_eval_epidemia.old.findings.overview import as_lm_eval, of_group, predictions
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.old.findings.prior_reference import KNOWS_POPULATION, reference
from lm_eval_epidemia.old.findings.published import mark_of
from lm_eval_epidemia.old.findings.reference import AVERAGES, UNIFORM
from lm_eval_epidemia.old.findings.words import CHOICE_MASS, scale, with_example
from lm_eval_epidemia.results.models import Model, is_respondent
from lm_eval_epidemia.results.naming import respondent

#: The best models that are shown, and up to how many have a sentence each.
MOST_ROWS, MOST_SENTENCES = 10, 3

#: Reference respondents that are held against any run.
BESIDE = [respondent(kind) for kind in (AVERAGES, UNIFORM)]


class Verdict(NamedTuple):
    """The verdict on a model against the next run in a table."""

    row: ModelRow
    next: ModelRow
    verdict: str


class Board(NamedTuple):
    """A benchmark's table.

    Attributes
    ----------
    benchmark : Benchmark
    columns : list of str
        The groups that some model was asked.
    finding : Finding
        Has a column ``settings``; its note explains the marks.
    rows : list of ModelRow
        The models in its first rows, the best first.
    respondents : list of ModelRow
        The reference respondents in the rows below, if they were run.
    left_out : int
        The number of models without a row.
    optional : tuple of str
        Columns that a narrow table may omit; the last ones are omitted first.
    over : str
        The groups in which neighbours are compared; empty if there are none.
    verdicts : list of Verdict
    """

    benchmark: Benchmark
    columns: list[str]
    finding: Finding
    rows: list[ModelRow]
    respondents: list[ModelRow]
    left_out: int
    optional: tuple[str, ...]
    over: str
    verdicts: list[Verdict]


def board_of(
    report: Report,
    models: Sequence[Model],
    benchmark: Benchmark,
    columns: Sequence[str],
    most_rows: int,
) -> Board:
    everybody = runs_in_order(models, columns)
    ran = [pair for pair in everybody if is_respondent(pair[1][0])]
    tested = [pair for pair in everybody if not is_respondent(pair[1][0])]
    # Published scores alone are no run that respondents could stand beside.
    if all(pair[1][0].reference for pair in tested):
        tested, ran = everybody, []
    # Those that are held against any run come first.
    ran.sort(key=lambda pair: pair[0].name not in BESIDE)
    room = min(max(len(BESIDE), most_rows + len(BESIDE) - len(tested)), 2 * len(BESIDE))
    rows = [row_of(report, model, runs[0], columns) for model, runs in tested[:most_rows]]
    # A group that a reference respondent alone was asked says nothing of a model.
    columns = [column for column in columns if any(column in row.cells for row in rows)]
    ran = [pair for pair in ran if any(tasks_in(pair[1][0], column) for column in columns)]
    respondents = [row_of(report, model, runs[0], columns) for model, runs in ran[:room]]
    over, verdicts = _verdicts(report, benchmark, columns, rows)
    finding = _table(report, benchmark, columns, rows, respondents, room)
    if len(rows) > MOST_SENTENCES:
        finding = _with_verdicts(finding, rows, over, verdicts)
    declared, optional = _columns(benchmark, columns, finding.rows)
    left_out = len(tested[most_rows:]) + len(ran[room:])
    finding = finding._replace(columns=declared)
    return Board(benchmark, columns, finding, rows, respondents, left_out, optional, over, verdicts)


#: What is said of marks in a table.
_VS, _MUTE, _UNKNOWN, _MASS = "vs", "mute", "unknown", "mass"
_MARKS = {
    _VS: "vs n: the score for knowing averages only, on the same prompts.",
    _UNKNOWN: "vs ?: that score is not known.",
    _MUTE: "†: does not answer this group (choice_mass or answered below 0.1), so it has no rank.",
    _MASS: f"choice_mass: {CHOICE_MASS}",
}


def _table(
    report: Report,
    benchmark: Benchmark,
    columns: Sequence[str],
    rows: Sequence[ModelRow],
    respondents: Sequence[ModelRow],
    room: int,
) -> Finding:
    """Return a row per model, then respondents that were run, then references that were not."""
    everyone = [*rows, *respondents]
    counts = {c: max(row.cells[c].mean.tasks for row in rows if c in row.cells) for c in columns}
    references = {}
    if benchmark is OBSERVATION:
        # The first is that of who was asked most.
        first = (reference_rows(rows, kind)[:1] for kind in (AVERAGES, UNIFORM))
        references = {row.model.name: row for several in first for row in several}
    averages = references[BESIDE[0]].cells if BESIDE[0] in references else {}
    common, marks, lines = _common_chips(rows), dict[str, None](), []
    for row in everyone:
        beside = averages if benchmark is OBSERVATION and row not in respondents else None
        cells, more = _cells(row, columns, counts, beside)
        marks |= dict.fromkeys(more)
        known = rows[0].chips if row in respondents else common
        settings = ["does not answer"] * row.silent + [c for c in row.chips if c not in known]
        cells |= {"model": row.model.name, "settings": ", ".join(settings)}
        cells |= predictions(row.run) if benchmark.predicted else {}
        lines.append(Row(cells, muted=row.silent))
    more_rows = without_run(references.values(), everyone)
    lines += [
        Row({"model": row.model.name, **{c: cell.mean.value for c, cell in row.cells.items()}})
        for row in more_rows[: room - len(respondents)]
    ]
    if benchmark is PRIOR:
        lines += _prior_reference(report, columns)
    asked = "; ".join(
        f"{column}: {with_example(column)}{share_of(counts[column], column)}"
        for column in columns
        if column in TOGETHER or column in unions() or share_of(counts[column], column)
    )
    title = scale(benchmark) + (f". {asked}" if asked else "")
    published = [row for row in rows if row.run.reference]
    if any("choice_mass" in line.cells for line in lines):
        marks[_MASS] = None
    notes = [f"All runs: {', '.join(common)}."] if common else []
    if len({asked_as(row.run, columns) for row in rows if not row.run.reference}) > 1:
        notes.append("Only runs with the same prompts and task version are ranked together.")
    if published:
        notes.append(f"Published: {mark_of(benchmark)}.")
    notes += [*doubts(everyone, benchmark.digits), *(_MARKS[mark] for mark in marks)]
    return Finding("summary", title, (), lines, " ".join(notes))


def share_of(tasks: int, column: str) -> str:
    """Say how many of a group's available tasks were asked, unless all were."""
    here = len(members(column))
    return f" ({tasks} of {plural(here, 'task')})" if tasks < here else ""


def _cells(
    row: ModelRow,
    columns: Sequence[str],
    counts: Mapping[str, int],
    averages: Mapping[str, ModelCell] | None,
) -> tuple[dict[str, Cell], list[str]]:
    """Return the texts of a model's row, and the marks in it."""
    cells, marks = dict[str, Cell](), list[str]()
    for column in columns:
        if column not in row.cells:
            continue
        cell = row.cells[column]
        parts: list[Cell] = [cell.mean, *cell.doubt.marks]
        if not answers(row.run, column):
            parts.append("†")
            marks.append(_MUTE)
        if cell.mean.tasks != counts[column]:
            parts.append(f"({cell.mean.tasks} of {plural(counts[column], 'task')})")
        if averages is not None and (versus := _versus(cell, averages.get(column))):
            parts.append(versus)
            marks.append(_UNKNOWN if versus == "vs ?" else _VS)
        cells[column] = tuple(parts)
    if not math.isnan(row.choice_mass):
        cells["choice_mass"] = row.choice_mass
    return cells | {name: as_lm_eval(value) for name, value in row.others.items()}, marks


def _versus(cell: ModelCell, averages: ModelCell | None) -> str:
    """Return the score for knowing averages, unless that respondent's row has it."""
    if math.isnan(cell.known):
        return "vs ?" if averages else ""
    same = averages and abs(averages.known - cell.known) <= ROUNDING
    return "" if same else f"vs {cell.known:.0f}"


def _with_verdicts(
    finding: Finding, rows: Sequence[ModelRow], over: str, verdicts: Sequence[Verdict]
) -> Finding:
    """Add the comparison of each run with the next, if no sentence states it."""
    against = {verdict.row.run.name: verdict.verdict for verdict in verdicts}
    lines = [
        line._replace(cells={**line.cells, "than next": against.get(row.run.name)})
        for line, row in zip(finding.rows, rows, strict=False)
    ]
    note = f"than next: paired comparison with the run in the next row ({over})." if over else ""
    return finding._replace(
        rows=[*lines, *finding.rows[len(lines) :]],
        note=" ".join(filter(None, (finding.note, note))),
    )


def _prior_reference(report: Report, columns: Sequence[str]) -> list[Row]:
    """Return the row of the respondent that knows the population; its priors are inexact too."""
    known = reference(report.entries)
    cells: dict[str, Cell] = {}
    for group, _, several in priors.asked_of(known):
        if group in columns:
            cells[group] = priors.rates([(task, everything(task)) for task in several])[0]
    return [Row({"model": KNOWS_POPULATION, **cells})] if cells else []


def _common_chips(rows: Sequence[ModelRow]) -> list[str]:
    """Return the settings that all runs share, if repeating them in every row would be long."""
    each = [row.chips for row in rows]
    if len(each) < 2 or max(len(", ".join(settings)) for settings in each) <= 24:
        return []
    return [chip for chip in each[0] if all(chip in settings for settings in each)]


def _columns(
    benchmark: Benchmark, columns: Sequence[str], rows: Sequence[Row]
) -> tuple[list[Column], tuple[str, ...]]:
    """Declare the columns with cells; return the optional ones, in reverse order of removal."""
    declared = [Column("model"), Column("settings")]
    names = list(columns)
    if benchmark.predicted:
        names = list(dict.fromkeys(n for row in rows for n in row.cells if "predicted " in n))
        declared += [of_group(columns[0], name) for name in names]
    else:
        declared += map(of_group, names)
    known = {column.name for column in declared} | {"choice_mass", "than next", *columns}
    others = list(dict.fromkeys(name for row in rows for name in row.cells if name not in known))
    declared += [Column("choice_mass", digits=2, form="plain"), *map(Column, others)]
    declared.append(Column("than next"))
    here = [c for c in declared if any(row.cells.get(c.name) not in (None, "") for row in rows)]
    return here, ("settings", *names[1:2], "choice_mass", "than next", *others, *names[2:])


def _verdicts(
    report: Report, benchmark: Benchmark, columns: Sequence[str], rows: Sequence[ModelRow]
) -> tuple[str, list[Verdict]]:
    """Compare each run with the next in a table, over the groups that most of them share.

    Returns
    -------
    over : str
        The group, or groups joined by `AND`; empty if nothing is compared.
    verdicts : list of Verdict
        For runs that answer, and whose scores match their distances.
    """
    compared = [row for row in rows if not row.run.reference and not row.silent]
    # Of scores that are not those of their distances nothing follows.
    compared = [r for r in compared if not any(c.doubt.changed for c in r.cells.values())]
    runs = [row.run for row in compared]
    if benchmark.predicted or len(runs) < 2:
        return "", []
    asked = {c: sum(c in row.cells for row in compared) for c in columns}
    together = all(asked.get(column) == len(runs) for column in TOGETHER)
    over = AND.join(TOGETHER) if together else max(columns, key=lambda c: asked[c])
    alike = {run.protocol: [r for r in runs if r.protocol == run.protocol] for run in runs}
    # What is put together from parts is compared with what is put together likewise.
    whole = {p: Pool(rs, report.noise) for p, rs in alike.items() if any(r.parts for r in rs)}
    pools = {**report.pools(), **whole}
    verdicts = []
    for row, below in pairwise(compared):
        both, verdict = [row.run, below.run], "not compared"
        shared = all(shared_tasks(both, column) for column in over.split(AND))
        if row.run.protocol == below.run.protocol and shared:
            pool = pools[row.run.protocol]
            verdict = compare_entries(row.run, below.run, over, pool=pool).verdict
        verdicts.append(Verdict(row, below, verdict))
    return over, verdicts
