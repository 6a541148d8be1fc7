"""A benchmark on one screen: a row per model, reference respondents, who is shown better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import OBSERVATION, PRIOR, Benchmark
from lm_eval_epidemia.benchmarks.prior.judgements import everything
from lm_eval_epidemia.findings import priors
from lm_eval_epidemia.findings.comparison import AND, compare_entries
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Number, Row
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import (
    answers,
    choice_mass,
    group_mean,
    is_silent,
    shared_tasks,
    tasks_in,
    worth,
)
from lm_eval_epidemia.findings.overview import as_lm_eval, of_group, predictions
from lm_eval_epidemia.findings.pool import Pool
from lm_eval_epidemia.findings.prior_reference import KNOWS_POPULATION, reference
from lm_eval_epidemia.findings.reference import GUESSES, KNOWS_MARGINAL, known_over
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.results.models import RESPONDENTS, Model, chips

#: The best models that are shown, and up to how many have a sentence each.
MOST_ROWS, MOST_SENTENCES = 10, 3

#: Reference respondents beside any run, by the kind of `epidemia-baseline` that answers so.
BESIDE = {"mean": KNOWS_MARGINAL, "uniform": GUESSES}

#: What groups ask, in words.
WORDS = {"epidemia_low": "single condition", "epidemia_high": "two to five conditions"}

#: How far a reference may be from that of other prompts before it counts as another.
ROUNDING = 0.05


class Line(NamedTuple):
    """What stands in a row: a model, and the run that is shown of it."""

    model: Model
    run: Entry

    @property
    def answered(self) -> list[str]:
        """Groups whose questions it answers."""
        asked = dict.fromkeys(leaf(task).group for task in self.run.scores)
        return [column for column in asked if answers(self.run, column)]

    @property
    def respondent(self) -> bool:
        """Whether it is a reference respondent that was run."""
        return self.model.name != self.run.model


class Verdict(NamedTuple):
    """What is shown of a model's difference from the next run in a table."""

    line: Line
    next: Line
    verdict: str


class Board(NamedTuple):
    """A benchmark's table.

    Attributes
    ----------
    benchmark : Benchmark
    columns : list of str
        Its groups that somebody was asked.
    finding : Finding
        Settings stand in the column ``settings``; its note says what its marks mean.
    lines : list of Line
        The models of its first rows, the best first.
    respondents : list of Line
        Those of the rows below: reference respondents that were run.
    left_out : int
        How many models have no row.
    optional : tuple of str
        Columns that a narrow table may lack, the first to go last.
    over : str
        The groups in which neighbours are compared; empty where none are.
    verdicts : list of Verdict
    """

    benchmark: Benchmark
    columns: list[str]
    finding: Finding
    lines: list[Line]
    respondents: list[Line]
    left_out: int
    optional: tuple[str, ...]
    over: str
    verdicts: list[Verdict]


def _in(run: Entry, benchmark: Benchmark) -> float:
    """Count the tasks of a benchmark that a run was asked, each by the share that it was asked."""
    scores = [s for asked, s in run.scores.items() if leaf(asked).benchmark is benchmark]
    return math.fsum(score.seen for score in scores if not math.isnan(score.value))


def _lines(models: Iterable[Model], benchmark: Benchmark, columns: Sequence[str]) -> list[Line]:
    """Return the models that were asked a benchmark, the best first; who does not answer last."""
    lines = []
    for model in models:
        run = max(model.runs, key=lambda run: _in(run, benchmark))
        if any(tasks_in(run, column) for column in columns):
            lines.append(Line(model, run))
    return sorted(
        lines, key=lambda at: (is_silent(at.run, columns), [worth(at.run, c) for c in columns])
    )


def board_of(
    report: Report,
    models: Sequence[Model],
    benchmark: Benchmark,
    columns: Sequence[str],
    most_rows: int,
) -> Board:
    everybody = _lines(models, benchmark, columns)
    tested = [line for line in everybody if not line.respondent]
    # Runs before published scores, where there is no room for all.
    kept = sorted(tested, key=lambda line: line.run.reference)[:most_rows]
    lines = [line for line in tested if line in kept]
    respondents = [line for line in everybody if line.respondent]
    if not lines:
        lines, respondents, tested = respondents[:most_rows], [], respondents
        kept = lines
    # Those that are held against any run come first.
    plain = [f"{RESPONDENTS[kind]} (kind={kind})" for kind in BESIDE]
    respondents.sort(key=lambda line: line.model.name not in plain)
    room = min(max(len(BESIDE), most_rows + len(BESIDE) - len(lines)), 2 * len(BESIDE))
    left_out = len(tested) - len(kept) + len(respondents[room:])
    respondents = respondents[:room]
    everyone = [*lines, *respondents]
    # A group that a reference respondent alone was asked says nothing of a model.
    columns = [c for c in columns if any(tasks_in(line.run, c) for line in lines)]
    most = {c: max(len(tasks_in(line.run, c)) for line in everyone) for c in columns}
    beside = _References(lines, columns) if benchmark is OBSERVATION else None
    rows, marks = [], dict[str, None]()
    common = _common_chips(lines)
    over, verdicts = _verdicts(report, benchmark, columns, lines)
    against = {line.run.name: verdict for line, _, verdict in verdicts}
    for line in everyone:
        cells, more = _cells(line, benchmark, columns, most, beside)
        marks |= dict.fromkeys(more)
        silent = is_silent(line.run, columns)
        said = [chip for chip in chips(line.run) if chip not in common or line in respondents]
        settings = ", ".join(["does not answer"] * silent + said)
        cells |= {"model": line.model.name, "settings": settings}
        if len(lines) > MOST_SENTENCES:
            cells["than next"] = against.get(line.run.name)
        rows.append(Row(cells, muted=silent))
    if beside:
        # A respondent that was run and asked the same has its row.
        ran = rows[len(lines) :]
        rows += [row for row in beside.rows() if not _is_there(row, ran or rows)][: room - len(ran)]
    if benchmark is PRIOR:
        rows += _prior_reference(report, columns)
    declared, optional = _columns(benchmark, columns, rows)
    words = [f"{column}: {WORDS[column]}" for column in columns if column in WORDS]
    title = benchmark.heading.replace(
        benchmark.says, benchmark.says + " ± error" * benchmark.has_error
    )
    title += f" ({'; '.join(words)})" if words else ""
    note = [_MARKS[mark] for mark in marks]
    if common:
        note.insert(0, f"All runs: {', '.join(common)}.")
    if over and len(lines) > MOST_SENTENCES:
        note.append(f"than next: what pairing a run with the next below shows ({over}).")
    found = Finding("summary", title, declared, rows, " ".join(note))
    return Board(benchmark, columns, found, lines, respondents, left_out, optional, over, verdicts)


#: What is said of marks in a table.
_VS, _PART, _MUTE, _UNKNOWN = "vs", "part", "mute", "unknown"
_MARKS = {
    _VS: "vs n: what knowing averages only gets on the prompts of that run.",
    _UNKNOWN: "vs ?: what it gets there is not known.",
    _PART: "(n tasks): more or fewer than others.",
    _MUTE: "†: does not answer this group (choice_mass below 0.1): unranked.",
}


def _cells(
    line: Line,
    benchmark: Benchmark,
    columns: Sequence[str],
    most: dict[str, int],
    beside: _References | None,
) -> tuple[dict[str, Cell], list[str]]:
    """Return what stands in a model's row, and the marks in it."""
    run, cells, marks = line.run, dict[str, Cell](), []
    for column in columns:
        mean = group_mean(run, column)
        if not mean.tasks:
            continue
        parts: list[Cell] = [mean]
        if not answers(run, column):
            parts.append("†")
            marks.append(_MUTE)
        if mean.tasks != most[column]:
            parts.append(f"({mean.tasks} tasks)")
            marks.append(_PART)
        if beside and not line.respondent and (other := beside.where_other(run, column)):
            parts.append(other)
            marks.append(_UNKNOWN if other == "vs ?" else _VS)
        cells[column] = tuple(parts)
    if benchmark.predicted:
        cells |= predictions(run)
    mass = choice_mass(run, [a for c in columns for a in tasks_in(run, c)])
    if not math.isnan(mass):
        cells["choice_mass"] = mass
    if benchmark is OBSERVATION or len(run.scores) == _in(run, benchmark):
        cells |= {label: as_lm_eval(value) for label, value in line.model.others.items()}
    return cells, marks


class _References:
    """What reference respondents get that are asked what runs were asked."""

    def __init__(self, lines: Sequence[Line], columns: Sequence[str]) -> None:
        self.columns = columns
        self.of = {
            (line.run.name, column, who): known_over(line.run, tasks, who)[0]
            for line in lines
            for column in columns
            if (tasks := tasks_in(line.run, column))
            for who in BESIDE.values()
        }
        # That of who was asked most stands in the rows below; of equal ones, the first.
        self.main: dict[tuple[str, str], float] = {}
        for line in sorted(lines, key=lambda line: -_in(line.run, OBSERVATION)):
            for column in columns:
                for who in BESIDE.values():
                    value = self.of.get((line.run.name, column, who), math.nan)
                    if not math.isnan(value):
                        self.main.setdefault((column, who), value)

    def where_other(self, run: Entry, column: str) -> str:
        """Return what knowing averages gets where it is not what its row says; empty if it is."""
        value = self.of[run.name, column, KNOWS_MARGINAL]
        main = self.main.get((column, KNOWS_MARGINAL), math.nan)
        if math.isnan(value):
            return "" if math.isnan(main) else "vs ?"
        return f"vs {value:.0f}" if abs(value - main) > ROUNDING else ""

    def rows(self) -> Iterator[Row]:
        """Return a row of each."""
        for kind, who in BESIDE.items():
            cells = {c: self.main[c, who] for c in self.columns if (c, who) in self.main}
            if cells:
                yield Row({"model": f"{RESPONDENTS[kind]} (kind={kind})", **cells})


def _is_there(reference: Row, rows: Iterable[Row]) -> bool:
    """Whether a respondent was run, and comes to the same."""

    def value(row: Row, column: str) -> float:
        cell = row.cells.get(column, math.nan)
        number = cell[0] if isinstance(cell, tuple) and not isinstance(cell, Number) else cell
        return number.value if isinstance(number, Number) else float(number)  # type: ignore[arg-type]

    columns = [column for column in reference.cells if column != "model"]
    return any(
        row.cells["model"] == reference.cells["model"]
        and all(abs(value(row, c) - value(reference, c)) < ROUNDING for c in columns)
        for row in rows
    )


def _prior_reference(report: Report, columns: Sequence[str]) -> list[Row]:
    """Return the row of who knows the population, for whom priors are not exact either."""
    known = reference(report.entries)
    cells: dict[str, Cell] = {}
    for group, _, several in priors.asked_of(known):
        if group in columns:
            cells[group] = priors.rates([(task, everything(task)) for task in several])[0]
    return [Row({"model": KNOWS_POPULATION, **cells})] if cells else []


def _common_chips(lines: Sequence[Line]) -> list[str]:
    """Return the settings that all runs have, where saying them in every row would be long."""
    each = [chips(line.run) for line in lines]
    if len(each) < 2 or max(len(", ".join(settings)) for settings in each) <= 24:
        return []
    return [chip for chip in each[0] if all(chip in settings for settings in each)]


def _columns(
    benchmark: Benchmark, columns: Sequence[str], rows: Sequence[Row]
) -> tuple[list[Column], tuple[str, ...]]:
    """Declare columns that a row has a cell of; return which may be left out, the last first."""
    declared = [Column("model"), Column("settings")]
    groups = list(columns)
    if benchmark.predicted:
        groups = list(dict.fromkeys(n for row in rows for n in row.cells if "predicted " in n))
        declared += [of_group(columns[0], name) for name in groups]
    else:
        declared += map(of_group, groups)
    known = {column.name for column in declared} | {"choice_mass", "than next", *columns}
    others = list(dict.fromkeys(name for row in rows for name in row.cells if name not in known))
    declared += [Column("choice_mass", digits=2, form="plain"), *map(Column, others)]
    declared.append(Column("than next"))
    here = [c for c in declared if any(row.cells.get(c.name) not in (None, "") for row in rows)]
    return here, (*others, *groups[2:])


def _verdicts(
    report: Report, benchmark: Benchmark, columns: Sequence[str], lines: Sequence[Line]
) -> tuple[str, list[Verdict]]:
    """Compare each run with the next in a table, over the groups that most of them share.

    Returns
    -------
    over : str
        The group, or groups with `AND` between them; empty where nobody is compared.
    verdicts : list of Verdict
        Of runs that answer.
    """
    compared = [line for line in lines if not line.run.reference and line.answered]
    runs = [line.run for line in compared]
    if benchmark.predicted or len(runs) < 2:
        return "", []
    asked = {c: sum(bool(tasks_in(run, c)) for run in runs) for c in columns}
    together = [c for c in columns if c in WORDS and asked[c] == len(runs)]
    leading = max(columns, key=lambda c: asked[c])
    over = AND.join(together) if len(together) == len(WORDS) else leading
    alike = {run.protocol: [r for r in runs if r.protocol == run.protocol] for run in runs}
    # What is put together from parts is compared with what is put together likewise.
    whole = {p: Pool(rs, report.noise) for p, rs in alike.items() if any(r.parts for r in rs)}
    pools = {**report.pools(), **whole}
    verdicts = []
    for line, below in pairwise(compared):
        both, verdict = [line.run, below.run], "not compared"
        shared = all(shared_tasks(both, column) for column in over.split(AND))
        if line.run.protocol == below.run.protocol and shared:
            pool = pools[line.run.protocol]
            verdict = compare_entries(line.run, below.run, over, pool=pool).verdict
        verdicts.append(Verdict(line, below, verdict))
    return over, verdicts
