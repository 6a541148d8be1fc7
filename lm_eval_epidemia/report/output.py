"""The report as tables for people, and as rows and JSON for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval_epidemia.benchmarks import OBSERVATION, PRIOR, Benchmark, groups, in_way
from lm_eval_epidemia.benchmarks.observation.written import CLOSED_CELLS
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.findings import ablations, interventions, paired, priors, published_priors
from lm_eval_epidemia.findings.compare import asked_in_ways, asked_in_wordings
from lm_eval_epidemia.findings.comparison import CONFIDENCE, Comparison
from lm_eval_epidemia.findings.finding import ALIKE, ALIKE_NOTE, Finding
from lm_eval_epidemia.findings.leaderboard import (
    Report,
    Standing,
    by_benchmark,
    closed_subset,
    comparisons,
    correlation,
    whole,
)
from lm_eval_epidemia.findings.means import (
    SCALES,
    Mean,
    facets,
    group_mean,
    normalised_means,
    population_mean,
    slices,
    tasks_in,
    worth,
)
from lm_eval_epidemia.findings.published import MARK
from lm_eval_epidemia.findings.section import Section, plain
from lm_eval_epidemia.report.sections import printed, tidy
from lm_eval_epidemia.results.entry import POPULATION, Entry, leaf
from lm_eval_epidemia.score.joint import joint_error


def with_error(mean: Mean, column: str) -> str:
    """Write a group's mean: ``54.8 ± 1.2``, without error where there is none."""
    if math.isnan(mean.value):
        return ""
    digits = groups()[column].digits
    error = "" if math.isnan(mean.error) or _alike(mean, column) else f" ± {mean.error:.{digits}f}"
    return f"{mean.value:.{digits}f}{error}"


def _alike(mean: Mean, column: str) -> bool:
    """Tell whether all samples of questions say the same; the truth of a survey may be exact."""
    return groups()[column] is not OBSERVATION and mean.error <= ALIKE


def size(parameters: float | None) -> str:
    """Write a number of parameters: ``7.6B``."""
    if not parameters:
        return ""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if parameters >= unit:
            return f"{parameters / unit:.3g}{letter}"
    return f"{parameters:.0f}"


def ranks(standing: Standing) -> str:
    """Write the ranks that are possible: ``2``, ``2-4``, empty where there is none."""
    if standing.best is None:
        return ""
    return f"{standing.best}" + ("" if standing.best == standing.worst else f"-{standing.worst}")


def leaderboards(report: Report) -> dict[Benchmark, Section]:
    """Return the table that ranks models, of each benchmark that somebody was asked."""
    parts = by_benchmark(report.columns)
    return {benchmark: _leaderboard(report, benchmark, parts[benchmark]) for benchmark in parts}


def _leaderboard(report: Report, benchmark: Benchmark, columns: Sequence[str]) -> Section:
    header = ["model", "size"]
    for column in columns:
        header += [column, "rank"]
    rows, partial = [], False
    most = {
        column: max(
            (standing.mean.tasks for standing in report.standings[column].values()), default=0
        )
        for column in columns
    }
    # How many tasks ranks are over, in every group and protocol.
    over: dict[str, None] = {}

    def order(entry: Entry) -> tuple[Any, ...]:
        # As all entries are ordered, by what is in this table.
        here = sum(leaf(asked).benchmark is benchmark for asked in entry.scores)
        return entry.reference, entry.protocol, -here, [worth(entry, c) for c in columns]

    asked = [
        entry
        for entry in report.entries
        if any(entry.name in report.standings[column] for column in columns)
    ]
    for entry in sorted(asked, key=order):
        cells = [entry.name, size(entry.parameters)]
        for column in columns:
            standing = report.standings[column].get(entry.name)
            if standing is None:
                cells += ["", ""]
                continue
            # Another number than ranks are over, or than most were asked here.
            number = standing.mean.tasks
            other = number != most[column] if standing.shared in (0, number) else True
            partial = partial or other
            part = f" ({number} tasks)" if other else ""
            cells += [with_error(standing.mean, column) + part, ranks(standing)]
            if standing.best is not None:
                where = "; ".join(filter(None, (column, str(entry.protocol))))
                over[f"{standing.shared} in {where}"] = None
        rows.append(cells)
    note = (
        f"Ranks: what paired comparisons leave open at {CONFIDENCE:.0%}, among models asked in the "
        f"same way, over the tasks that all ranked ones share ({', '.join(over) or 'none'}). From "
        "the model asked most tasks down, those are ranked that leave at least half of its tasks "
        "in common."
    )
    if partial:
        note += " (n tasks): a mean over more or fewer tasks, not to be read beside the rest."
    if any(entry.reference for entry in asked):
        mark = published_priors.MARK if benchmark is PRIOR else MARK
        note += f" (published): {mark}; over the tasks asked here."
    if barely := [task for task in report.barely if _asked_in(report, task, columns)]:
        note += (
            f" Barely informative tasks: {len(barely)} ({few(barely)}); --informative leaves them "
            "out."
        )
    if any(_alike(each.mean, c) for c in columns for each in report.standings[c].values()):
        note += ALIKE_NOTE
    title = benchmark.heading + (" (± standard error)" if benchmark.has_error else "")
    return Section(title, tuple(header), rows, note)


def _asked_in(report: Report, task: str, columns: Sequence[str]) -> bool:
    """Return whether a run was asked a task in one of these groups."""
    return any(
        asked.task == task and leaf(asked).group in columns
        for entry in report.runs
        for asked in entry.scores
    )


def with_interval(mean: Mean, column: str) -> str:
    """Write a group's mean with its interval: ``54.8 (52.4 to 57.2)``."""
    if math.isnan(mean.value):
        return ""
    digits = groups()[column].digits
    low, high = mean.interval
    said = "" if math.isnan(low) else f" ({low:.{digits}f} to {high:.{digits}f})"
    return f"{mean.value:.{digits}f}{said}"


def _population(report: Report) -> list[Section]:
    """The score against the population, of the groups whose tasks have it."""
    found = {
        entry.name: [population_mean(entry, tasks_in(entry, column)) for column in report.columns]
        for entry in report.runs
    }
    known = {
        name: means
        for name, means in found.items()
        if not all(math.isnan(mean.value) for mean in means)
    }
    rows = [
        [name, *(with_interval(mean, c) for mean, c in zip(means, report.columns, strict=True))]
        for name, means in known.items()
    ]
    if not rows:
        return []
    return [
        Section(
            "Score against the population, 0 to 100 (interval of 95 %)",
            ("model", *report.columns),
            rows,
            "What sampling error adds to a distance is subtracted, but too little of it near 100: "
            "who knows the population itself gets about 88 on epidemia_low, less in small surveys. "
            "The interval is the mean ± 1.96 joint standard errors, cut off at 0 and 100.",
        )
    ]


#: How a facet is said where the tables of its slices are headed.
FACETS = {
    "dimension": "by number of conditions",
    "subset": "in the closed subset",
    "nodes": "by number of variables",
}


def _sliced(report: Report) -> list[Section]:
    kinds = [kind for column in report.columns for kind in facets(report.entries, column)]
    return [section for kind in dict.fromkeys(kinds) for section in _slices(report, kind)]


def _slices(report: Report, kind: str) -> list[Section]:
    made, title = [], FACETS.get(kind, f"by {kind}")
    for column in report.columns:
        by_entry = {e.name: slices(e, column, kind) for e in report.entries}
        labels = sorted({label for one in by_entry.values() for label in one})
        if not labels or (kind != "subset" and len(labels) < 2):
            continue
        most = {x: max(one[x].tasks for one in by_entry.values() if x in one) for x in labels}
        rows = [
            [name, *(_part(one.get(label), most[label], column) for label in labels)]
            for name, one in by_entry.items()
            if one
        ]
        header = tuple(f"{label} ({most[label]})" for label in labels)
        made.append(Section(f"{column} {title} (number of tasks)", ("model", *header), rows))
    return made


def _closed(report: Report) -> list[Section]:
    """The closed subset: models that only write beside those whose log-probabilities are known."""
    if not (found := closed_subset(report)):
        return []
    column = in_way("epidemia_high", "closed")
    rows = [
        [entry.name, way, with_error(mean, column), str(mean.tasks)] for entry, way, mean in found
    ]
    return [
        Section(
            "Closed subset",
            ("model", "asked in", "score", "tasks"),
            rows,
            f"Tasks with several conditions and at most {CLOSED_CELLS} cells; the same questions "
            "in both ways. In 'closed' the model writes the interval that holds the probability, "
            "in 'likelihood' it is the likeliest one. Means over different numbers of tasks are "
            "not to be read beside each other; published ones are over the tasks asked here.",
        )
    ]


def _part(mean: Mean | None, most: int, column: str) -> str:
    if mean is None:
        return ""
    return with_error(mean, column) + ("" if mean.tasks == most else f" ({mean.tasks})")


#: How to read means on other scales.
SCALES_NOTE = (
    "'another survey': 100 is what 95 % of other surveys of the same population come to; empty "
    "where the truth of a task was built without it. ± where the joint error is known."
)


def _normalisations(report: Report) -> list[Section]:
    made = []
    for column in report.columns:
        rows = []
        for entry in report.runs:
            if found := normalised_means(entry, column, report.anchors, report.another):
                shown = [with_error(found[s], column) if s in found else "" for s in SCALES]
                rows.append([entry.name, *shown])
        if rows:
            made.append(Section(f"{column} on other scales", ("model", *SCALES), rows, SCALES_NOTE))
    return made


def _by_size(report: Report) -> list[Section]:
    known = sorted(
        (entry for entry in report.runs if entry.parameters),
        key=lambda entry: entry.parameters or 0,
    )
    if len({entry.parameters for entry in known}) < 2:
        return []
    rows = [
        [
            entry.name,
            size(entry.parameters),
            *(with_error(group_mean(entry, column), column) for column in report.columns),
        ]
        for entry in known
    ]
    return [Section("By model size", ("model", "size", *report.columns), rows)]


def _beside(report: Report) -> list[Section]:
    """Other tasks in the same files, and how their ranks go with ours."""
    others = list(dict.fromkeys(name for entry in report.runs for name in entry.others))
    if not others:
        return []
    rows = []
    for entry in report.runs:
        if entry.others:
            means = [with_error(group_mean(entry, c), c) for c in report.columns]
            values = [_as_lm_eval(entry.others[o]) if o in entry.others else "" for o in others]
            rows.append([entry.name, *means, *values])
    made = [
        Section(
            "Beside other tasks",
            ("model", *report.columns, *others),
            rows,
            "Ours from 0 to 100; the others as lm-eval prints them, so that an accuracy of 65 % is "
            "0.6500.",
        )
    ]
    correlated = []
    for column in report.columns:
        found = [correlation(whole(report, column), column, other) for other in others]
        correlated.append([column, *(_coefficient(*one) for one in found)])
    made.append(
        Section(
            "Rank correlation with other tasks (Spearman, number of models)",
            ("group", *others),
            correlated,
            "Over the ranked models asked in the default way, and the tasks that they share; none "
            "from fewer than three. Where lower is better, agreement is negative.",
        )
    )
    return made


def _as_lm_eval(value: float) -> str:
    """Write a number with the digits of lm-eval's own table; a huge perplexity shortly."""
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"


def _coefficient(value: float, models: int) -> str:
    return f"({models})" if math.isnan(value) else f"{value:.2f} ({models})"


def sections(report: Report, effects: bool = False) -> list[Section]:
    """Return the tables of the report, the leaderboards first; long ones with `effects`."""
    return [
        *leaderboards(report).values(),
        *printed_of(interventions.findings(report.runs), effects),
        *of_priors(report, effects),
        *details(report),
    ]


def printed_of(found: Iterable[Finding], long: bool) -> list[Section]:
    """Return findings as tables for people; one that is all long is left out if not wished for."""
    return [
        printed(one, long)
        for one in found
        if long or not one.rows or not all(row.long for row in one.rows)
    ]


def of_priors(report: Report, long: bool) -> list[Section]:
    """Return the tables of stated priors: what they are worth, and what the asking changes."""
    more = (ablations.finding(_runs(report)), published_priors.finding(report.entries))
    found = [*priors.findings(report.entries), *(one for one in more if one.rows)]
    return printed_of(found, long)


def _runs(report: Report) -> list[ablations.Run]:
    """Return what may differ in how a model was asked."""
    return [*ablations.runs_of(report.runs), *published_priors.runs(report.entries)]


def details(report: Report) -> list[Section]:
    """Return the tables that follow the leaderboards, but for those of one benchmark alone."""
    return [
        *_population(report),
        *_beside(report),
        *_sliced(report),
        *_closed(report),
        *paired.two_ways(
            [one for found in asked_in_ways(report.runs) for one in found.differences]
        ),
        *paired.two_wordings(asked_in_wordings(report.runs)),
        *_by_size(report),
        *paired.versions(report),
        *_normalisations(report),
        *paired.models(report),
    ]


def as_rows(report: Report) -> list[dict[str, Any]]:
    """Return everything as rows of one tidy table.

    Returns
    -------
    list of dict
        ``kind`` (group, survey, domain, dimension, subset, closed, ways, wording, version,
        version at 0, scale, task, other, pair, correlation, ablation, and those of
        `interventions.findings` and `priors.findings`), ``model``, ``protocol``,
        ``chat_template``, ``parameters``, ``reference``, ``group``, ``name`` (the slice, task,
        scale, second model or other task; what is found about, and its part), ``metric`` (what the
        value is of), ``value``, ``stderr``,
        ``tasks``, ``rank_best``, ``rank_worst``, ``verdict``, ``rank_tasks`` (how many tasks the
        rank is over), ``low``, ``high`` (interval of 95 % of a pair's difference, of the scale
        ``population``, and of findings), and of paired comparisons ``corrected``,
        ``corrected_stderr``, ``wins``, ``ties`` and ``losses``, see `Comparison`; NaN or empty
        where that does not apply.
        `standardised.rows`, `recalibrated.rows`, `tuning.rows` and `probe.rows` have more of them.
    """
    rows: list[dict[str, Any]] = []

    def add(
        kind: str, entry: Entry | None, group: str, name: str, value: float, **more: Any
    ) -> None:
        rows.append(row(kind, entry, group, name, value, **more))

    for entry in report.entries:
        for column in report.columns:
            if (standing := report.standings[column].get(entry.name)) is None:
                continue
            mean = standing.mean
            add(
                "group",
                entry,
                column,
                column,
                mean.value,
                stderr=mean.error,
                tasks=mean.tasks,
                rank_best=_or_nan(standing.best),
                rank_worst=_or_nan(standing.worst),
                rank_tasks=_or_nan(standing.best and standing.shared),
            )
            for kind in facets([entry], column):
                for label, part in slices(entry, column, kind).items():
                    add(kind, entry, column, label, part.value, stderr=part.error, tasks=part.tasks)
            scales = normalised_means(entry, column, report.anchors, report.another)
            for how, part in scales.items():
                low, high = part.interval if how == "population" else (math.nan, math.nan)
                add(
                    "scale",
                    entry,
                    column,
                    how,
                    part.value,
                    stderr=part.error,
                    tasks=part.tasks,
                    metric=POPULATION if how == "population" else groups()[column].primary,
                    low=low,
                    high=high,
                )
        for asked in sorted(entry.scores):
            group, one = leaf(asked).group, entry.scores[asked]
            add("task", entry, group, in_way(*asked), one.value, stderr=one.error, tasks=1)
            for metric, value in one.metrics.items():
                error = joint_error([one.population]) if metric == POPULATION else math.nan
                add(
                    "task",
                    entry,
                    group,
                    in_way(*asked),
                    value,
                    metric=metric,
                    stderr=error,
                    tasks=1,
                )
        for other, value in entry.others.items():
            add("other", entry, "", other, value)
    for entry, way, mean in closed_subset(report):
        add(
            "closed",
            entry,
            in_way("epidemia_high", way),
            way,
            mean.value,
            stderr=mean.error,
            tasks=mean.tasks,
        )
    for found in (
        *interventions.findings(report.runs),
        *priors.findings(report.entries),
        ablations.finding(_runs(report)),
    ):
        rows += tidy(found)
    for ways in asked_in_ways(report.runs):
        rows += [_paired("ways", ways.entry, two) for two in ways.differences]
    by_name = {entry.name: entry for entry in report.entries}
    rows += [_paired("wording", by_name[two.one], two) for two in asked_in_wordings(report.runs)]
    for version, two, unknown in paired.versions_compared(report):
        rows.append(_paired("version", version, two))
        if unknown is not None:
            rows.append(_paired("version at 0", version, unknown))
    rows += [_paired("pair", by_name[two.one], two) for two in comparisons(report) if two.tasks]
    for column in report.columns:
        for other in dict.fromkeys(name for entry in report.runs for name in entry.others):
            value, _models = correlation(whole(report, column), column, other)
            add("correlation", None, column, other, value)
    return rows


def row(
    kind: str, entry: Entry | None, group: str, name: str, value: float, **more: Any
) -> dict[str, Any]:
    """Return one row of `as_rows`; what `more` does not give is NaN or empty."""
    return {
        "kind": kind,
        "model": entry.name if entry else "",
        "protocol": str(entry.protocol) if entry else "",
        "chat_template": entry.chat if entry else "",
        "parameters": (entry.parameters if entry else None) or math.nan,
        "reference": entry.reference if entry else False,
        "group": group,
        "name": name,
        "metric": groups()[group].primary if group else "",
        "value": value,
        "stderr": math.nan,
        "tasks": math.nan,
        "rank_best": math.nan,
        "rank_worst": math.nan,
        "verdict": "",
        "rank_tasks": math.nan,
        "low": math.nan,
        "high": math.nan,
        "corrected": math.nan,
        "corrected_stderr": math.nan,
        "wins": math.nan,
        "ties": math.nan,
        "losses": math.nan,
        **more,
    }


def _paired(kind: str, entry: Entry, two: Comparison) -> dict[str, Any]:
    """Return a row on a paired comparison, under the name of the second."""
    return row(
        kind,
        entry,
        two.column,
        two.other,
        two.difference,
        stderr=two.error,
        tasks=two.tasks,
        verdict=two.verdict,
        low=two.low,
        high=two.high,
        corrected=two.corrected,
        corrected_stderr=two.here,
        wins=two.wins,
        ties=two.ties,
        losses=two.losses,
    )


def _or_nan(value: int | None) -> float:
    return math.nan if value is None else value


def as_json(report: Report, more: Sequence[dict[str, Any]] = ()) -> str:
    """Return the report as JSON: notes, the rows of `as_rows` and `more`, all comparisons."""
    compared = [
        {**one._asdict(), "verdict": one.verdict} for one in comparisons(report) if one.tasks
    ]
    found = {"notes": report.notes, "rows": [*as_rows(report), *more], "comparisons": compared}
    return json.dumps(plain(found), indent=1, ensure_ascii=False)


#: What a spreadsheet takes for a formula, at the beginning of a cell.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(report: Report, more: Sequence[dict[str, Any]] = ()) -> str:
    """Return the rows of `as_rows` and `more` as CSV; a text like a formula gets an apostrophe."""
    import pandas as pd

    rows = [
        {k: f"'{v}" if isinstance(v, str) and v.startswith(FORMULA) else v for k, v in one.items()}
        for one in [*as_rows(report), *more]
    ]
    text: str = pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")
    return text


#: What LaTeX does not know by itself.
IN_LATEX = {"±": r"$\pm$", "…": r"\dots{}", "\N{REPLACEMENT CHARACTER}": "?"}


def as_latex(shown: Sequence[Section]) -> str:
    """Return tables as LaTeX (booktabs), every text escaped."""
    import pandas as pd

    made = []
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
        made.append(table)
    return "\n".join(made)


def _escaped(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%").replace("±", r"$\pm$")
