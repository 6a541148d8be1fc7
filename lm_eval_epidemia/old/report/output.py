"""The report as tables for people, and as rows and JSON for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any

from lm_eval_epidemia.benchmarks import Benchmark
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.old.findings import (
    ablations,
    head_to_head,
    interventions,
    overview,
    priors,
    published_priors,
)
from lm_eval_epidemia.old.findings.comparison import Comparison
from lm_eval_epidemia.old.findings.rows import Finding
from lm_eval_epidemia.old.findings.leaderboard import MOST_SHOWN, Report, comparisons
from lm_eval_epidemia.old.findings.ways import asked_in_ways
from lm_eval_epidemia.old.findings.wordings import asked_in_wordings
from lm_eval_epidemia.old.report.sections import Section, plain, printed, tidy


@held()
def sections(report: Report, effects: bool = False) -> list[Section]:
    """Return the tables of the report, the leaderboards first; long ones with `effects`."""
    return [
        *leaderboards(report).values(),
        *printed_of(interventions.findings(report.entries), effects),
        *of_priors(report, effects),
        *details(report),
    ]


def leaderboards(report: Report) -> dict[Benchmark, Section]:
    """Return the table that ranks models, for each benchmark asked."""
    return {of: printed(finding) for of, finding in overview.leaderboards(report).items()}


def printed_of(findings: Iterable[Finding], long: bool) -> list[Section]:
    """Return findings as tables for people; tables of long rows alone only if requested."""
    return [
        printed(finding, long)
        for finding in findings
        if long or not finding.rows or not all(row.long for row in finding.rows)
    ]


def of_priors(report: Report, long: bool) -> list[Section]:
    """Return the tables of stated priors: their worth, and the effect of settings."""
    more = (ablations.finding(_runs(report)), published_priors.finding(report.entries))
    findings = [*priors.findings(report.entries), *(finding for finding in more if finding.rows)]
    return printed_of(findings, long)


def _runs(report: Report) -> list[ablations.AskedRun]:
    """Return the tables on differences in how a model was asked."""
    return [*ablations.runs_of(report.runs), *published_priors.runs(report.entries)]


def details(report: Report) -> list[Section]:
    """Return the tables after the leaderboards, except those of one benchmark alone."""
    findings = [
        overview.population(report),
        overview.beside(report),
        overview.correlations(report),
        *overview.sliced(report),
        overview.closed(report),
        head_to_head.two_ways(asked_in_ways(report.runs)),
        head_to_head.two_wordings(report.runs, asked_in_wordings(report.runs)),
        overview.by_size(report),
        head_to_head.versions(report),
        *overview.scales(report),
        *head_to_head.models(report, comparisons(report, MOST_SHOWN)),
    ]
    return [printed(finding) for finding in findings if finding.rows]


@held()
def as_rows(report: Report, compared: Sequence[Comparison] | None = None) -> list[dict[str, Any]]:
    """Return everything as rows of one tidy table.

    Parameters
    ----------
    report : Report
    compared : sequence of Comparison, optional
        As from `comparisons`, if known.

    Returns
    -------
    list of dict
        ``kind`` (group, survey, domain, dimension, subset, closed, ways, wording, version, version
        at 0, scale, reference, task, other, pair, correlation, ablation, and those of
        `interventions.findings` and `priors.findings`), ``model``, ``protocol``, ``chat_template``,
        ``parameters``, ``reference``, ``group``, ``name`` (the slice, task, scale, second model or
        other task; or a finding's subject and part), ``metric`` (of the value), ``value``,
        ``stderr``, ``tasks``, ``rank_best``, ``rank_worst``, ``verdict``, ``rank_tasks`` (how many
        tasks the rank covers), ``low``, ``high`` (95 % interval of a pair's difference, of the
        scale ``population``, and of findings), and for paired comparisons ``corrected``,
        ``corrected_stderr``, ``wins``, ``ties`` and ``losses``, see `Comparison`; NaN or empty if
        it does not apply. `standardised`, `recalibrated`, `scales`, `tilt`, `tuning` and `probe` in
        `findings` have more of them.
    """
    return list(_rows(report, compared))


def _rows(report: Report, compared: Sequence[Comparison] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of `as_rows`; many models have a million."""
    findings = chain(
        overview.numbers(report),
        interventions.findings(report.entries),
        priors.findings(report.entries),
        [ablations.finding(_runs(report))],
        [head_to_head.two_ways(asked_in_ways(report.runs))],
        [head_to_head.two_wordings(report.runs, asked_in_wordings(report.runs))],
        [head_to_head.versions(report)],
        head_to_head.models(report, comparisons(report) if compared is None else compared),
        [overview.correlations(report)],
    )
    for finding in findings:
        yield from tidy(finding)


def as_json(report: Report, more: Sequence[dict[str, Any]] = ()) -> str:
    """Return the report as JSON: notes, the rows of `as_rows` and `more`, all comparisons."""
    compared = comparisons(report)
    written = {
        "notes": report.notes,
        "rows": [*as_rows(report, compared), *more],
        "comparisons": [pair.flat() for pair in compared if pair.tasks],
    }
    return json_of(written)


def json_of(written: Mapping[str, Any]) -> str:
    """Return findings as JSON: a number that is not finite is null."""
    return json.dumps(plain(written), indent=1, ensure_ascii=False)


#: What a spreadsheet takes for a formula, at the beginning of a cell.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

#: Rows whose values are turned into columns at a time.
AT_A_TIME = 10_000


@held()
def as_csv(report: Report, more: Sequence[dict[str, Any]] = ()) -> str:
    """Return the rows of `as_rows` and `more` as CSV."""
    return csv_of(chain(_rows(report, None), more))


def csv_of(rows: Iterable[dict[str, Any]]) -> str:
    """Return tidy rows as CSV; a text like a formula gets an apostrophe."""
    import pandas as pd

    columns: dict[str, list[Any]] = {}
    written = 0
    # Many rows in a row have the same names: their values are added a column at a time.
    for names, alike in groupby(rows, key=tuple):
        while values := list(zip(*map(dict.values, islice(alike, AT_A_TIME)), strict=True)):
            for name, column in zip(names, values, strict=True):
                columns.setdefault(name, [math.nan] * written).extend(map(_no_formula, column))
            written += len(values[0])
            for name in columns.keys() - set(names):
                columns[name] += [math.nan] * len(values[0])
    text: str = pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")
    return text


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


#: What LaTeX does not know by itself.
IN_LATEX = {"±": r"$\pm$", "…": r"\dots{}", "\N{REPLACEMENT CHARACTER}": "?"}


def as_latex(shown: Sequence[Section]) -> str:
    """Return tables as LaTeX (booktabs), every text escaped."""
    import pandas as pd

    tables = []
    for section in shown:
        frame = pd.DataFrame(section.rows, columns=list(section.columns))
        table = frame.to_latex(
            index=False,
            escape=True,
            caption=_escaped(section.title),
            column_format="l" + "r" * (len(section.columns) - 1),
        )
        # A [ or * after the end of a row would be its argument.
        table = re.sub(r"^([\[*])", r"{\1}", table, flags=re.MULTILINE)
        for shown_as, written in IN_LATEX.items():
            table = table.replace(shown_as, written)
        tables.append(table)
    return "\n".join(tables)


def _escaped(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%").replace("±", r"$\pm$")
