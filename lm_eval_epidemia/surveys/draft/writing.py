"""The text of a drafted record, with a mark wherever a person must check it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.surveys.draft.columns import LeftOut
from lm_eval_epidemia.surveys.draft.design import Sampling
from lm_eval_epidemia.surveys.draft.tasks import TaskPlan
from lm_eval_epidemia.surveys.draft.variables import Draft, DraftLevel
from lm_eval_epidemia.surveys.draft.words import (
    CHECK,
    clean_text,
    quote_number,
    quoted,
    shorten_text,
)
from lm_eval_epidemia.surveys.variable import Measure

WIDTH = 96


class DraftSource(NamedTuple):
    """Where a draft's records come from.

    Attributes
    ----------
    name : str
        Of the survey.
    title : str
    files : sequence of (str, sequence of str)
        Names of the files and, of archives, of the data files in them.
    rows : int
        Records that are of this year and have a weight.
    join : str
        The column that several files share; empty if there is one file.
    sampling : Sampling
    """

    name: str
    title: str
    files: Sequence[tuple[str, Sequence[str]]]
    rows: int
    join: str
    sampling: Sampling


def record_text(
    source: DraftSource, drafts: Sequence[Draft], plans: Sequence[TaskPlan], left_out: LeftOut
) -> str:
    """Write a record.

    Parameters
    ----------
    source : DraftSource
    drafts : sequence of Draft
        Those of tasks are marked for checking one by one, the others together.
    plans : sequence of TaskPlan
    left_out : mapping of str to sequence of Field
        By the reason.

    Returns
    -------
    str
        YAML.
    """
    used = {name for plan in plans for name in (plan.outcome, *plan.given)}
    lines = [*_head(source), "", "variables:"]
    for draft in (draft for draft in drafts if draft.name in used):
        lines += _variable(draft, marked=True)
    if others := [draft for draft in drafts if draft.name not in used]:
        lines += ["", f"  {CHECK} not used in a task yet; check the lines below before you use it"]
        for draft in others:
            lines += _variable(draft, marked=False)
    tasks = f"tasks:  {CHECK} choose the outcomes and conditions worth asking about"
    lines += ["", tasks, "  extra:"]
    names = {draft.name: draft for draft in drafts}
    for plan in plans:
        given = ", ".join(plan.given)
        title = quoted(_title(source.name, plan, names))
        lines.append(f"    - {{outcome: {plan.outcome}, given: [{given}], title: {title}}}")
    return "\n".join([*lines, *_format_left_out(left_out)]) + "\n"


def _head(source: DraftSource) -> list[str]:
    sampling, unknown = source.sampling, quoted("not stated")
    files = ", ".join(_format_comment(name) for name, _ in source.files)
    text = (
        f"Drafted by 'epidemia survey new' from {files}. Places to check are marked 'check:'. "
        f"Delete a mark after checking; 'epidemia survey check {source.name}' lists the remaining "
        "ones."
    )
    columns = {"weight": sampling.weight, "strata": sampling.strata, "psu": sampling.psu}
    design = ", ".join(f"{key}: {quoted(column)}" for key, column in columns.items() if column)
    lines = [
        *(f"# {line}" for line in textwrap.wrap(text, WIDTH)),
        f"survey: {quoted(source.name)}",
        f"domain: other  {CHECK} the domain: health, economic or social, if one of these",
        f"title: {quoted(source.title)}  {CHECK} the publisher's title",
        f"publisher: {unknown}  {CHECK} who publishes it",
        f"homepage: {unknown}  {CHECK} its page: https://...",
        f"licence: {unknown}  {CHECK} its licence",
        f"citation: {unknown}  {CHECK} how to cite it",
        f"{CHECK} the people who were asked, and where: 'a person aged 18 or older living in ... "
        "who'",
        f"subject: {quoted('a person in {year} who {conditions}')}",
        "",
        *(f"{CHECK} {_format_comment(check)}" for check in sampling.checks),
        f"design: {{{design}}}  {CHECK} {_design(sampling)}",
    ]
    if source.join:
        lines.append(f"join: {quoted(source.join)}  {CHECK} the number of a person in all files")
    lines += [
        "",
        "vintages:",
        f"  {quoted(str(sampling.year))}:",
        f"    year: {sampling.year}  {CHECK} the year, {_format_comment(sampling.year_from)}",
        "    files:",
    ]
    for name, members in source.files:
        inside = f", members: {_texts(members)}" if members else ""
        lines.append(f"      - {{name: {quoted(name)}{inside}}}")
    lines += [
        f"    page: {unknown}  {CHECK} where others find the files",
        f"    rows: {source.rows}",
    ]
    if sampling.select:
        lines.append(
            f"    select:  {CHECK} only these records belong to this year and have a weight"
        )
    for column, *span in sampling.select:
        lines.append(f"      - {{column: {quoted(column)}, codes: {_codes([span])}}}")
    return lines


def _design(sampling: Sampling) -> str:
    if not sampling.weight:
        return "no weight: all records count equally"
    if sampling.psu:
        return "weight" + (", strata and PSUs" if sampling.strata else " and PSUs, of one stratum")
    if sampling.strata:
        return "weight and strata: errors assume people drawn one by one in each"
    return "no strata and PSUs: errors assume independently drawn people"


def _variable(draft: Draft, marked: bool) -> list[str]:
    def mark(text: str) -> str:
        return f"  {CHECK} {draft.name}: {text}" if marked else ""

    about = f"  # {_format_comment(shorten_text(draft.column.label))}" if draft.column.label else ""
    sign = f"{CHECK} {draft.name}:" if marked else "#"
    measured = []
    if draft.measure:
        what = "the noun after 'the average', and its unit; delete this if a mean makes no sense"
        measured = [f"    measure: {_measure(draft.measure)}{mark(what)}"]
    lines = [
        f"  {draft.name}:{about}",
        *(f"    {sign} {_format_comment(check)}" for check in draft.checks),
        *(f"    # {_format_comment(aside)}" for aside in draft.asides),
        f"    column: {quoted(draft.column.name)}",
        f"    question: {quoted(draft.question)}{mark('the question, as you would ask it')}",
        *measured,
        f"    levels:{mark('labels, and phrases that continue: a person who')}",
        *(f"      - {_level(level)}" for level in draft.levels),
    ]
    if draft.missing:
        lines.append(f"    missing: {_codes(draft.missing)}")
    if draft.missing_texts:
        lines.append(f"    missing_texts: {_texts(draft.missing_texts)}")
    return lines


def _measure(measure: Measure) -> str:
    texts = measure.model_dump(exclude_defaults=True, exclude={"plural"})
    said = [f"{name}: {quoted(text)}" for name, text in texts.items()]
    return f"{{{', '.join([*said, *(['plural: true'] if measure.plural else [])])}}}"


def _level(level: DraftLevel) -> str:
    words = f"label: {quoted(level.label)}, phrase: {quoted(level.phrase)}"
    if level.texts:
        return f"{{{words}, texts: {_texts(level.texts)}}}"
    if level.codes:
        return f"{{{words}, codes: {_codes((code, code) for code in level.codes)}}}"
    bounds = ", ".join(f"{key}: {quote_number(value)}" for key, value in level.bounds.items())
    return f"{{{words}, {bounds}}}"


def _codes(ranges: Iterable[Sequence[float]]) -> str:
    codes = [
        quote_number(lo) if lo == hi else f"[{quote_number(lo)}, {quote_number(hi)}]"
        for lo, hi in ranges
    ]
    return f"[{', '.join(codes)}]"


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def _title(name: str, plan: TaskPlan, drafts: Mapping[str, Draft]) -> str:
    def called(variable: str) -> str:
        draft = drafts[variable]
        label = draft.column.label.rstrip(" :?.")
        return draft.kind.capitalize() or (label if 0 < len(label) <= 60 else variable)

    return f"{name.upper()}: {called(plan.outcome)} by {', '.join(map(called, plan.given))}"


def _format_left_out(left_out: LeftOut) -> list[str]:
    total = sum(map(len, left_out.values()))
    if not total:
        return []
    lines = ["", f"# Left out: {total:,} column{'s' if total > 1 else ''}."]
    for reason, columns in left_out.items():
        names = ", ".join(_format_comment(column.name) or "(no name)" for column in columns)
        text = f"{_format_comment(reason)} ({len(columns):,}): {names}"
        lines += [f"# {line}" for line in textwrap.wrap(text, WIDTH, break_long_words=False)]
    return lines


def _format_comment(text: str) -> str:
    """Return a text as a comment may hold it: one line, and no mark, wherever it is wrapped."""
    return clean_text(text).replace("check:", "check")
