"""``epidemia survey``: files of surveys, and the records that describe them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import (
    InVintage,
    RawOrNone,
    Survey,
    Surveys,
    Text,
    Texts,
    complete_surveys,
)
from lm_eval_epidemia.cli.printing import escape_markup, make_table, print_table
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import few, plural

if TYPE_CHECKING:
    from lm_eval_epidemia.surveys.draft.drafting import Drafted

app = typer.Typer(
    no_args_is_help=True,
    help="Fetch survey files; draft (new), check and describe (card) survey records.",
)


@app.command("new")
def new(
    files: Annotated[
        list[Path],
        Argument(help="A survey's file, or several that share an identifier of the person."),
    ],
    name: Annotated[
        Text, Option(help="Name of the survey in task names. Default: the file's name.")
    ] = None,
    weight: Annotated[
        Text, Option(help="Weight column, or 'none' to count all records alike.")
    ] = None,
    strata: Annotated[Text, Option(help="Column of strata, or 'none'.")] = None,
    psu: Annotated[
        Text, Option(help="Column of primary sampling units (clusters), or 'none'.")
    ] = None,
    outcomes: Annotated[
        Text, Option(help="Ask about these columns, A,B. Default: proposed outcomes.")
    ] = None,
    given: Annotated[Text, Option(help="Use these columns as conditions, A,B.")] = None,
    year: Annotated[
        int | None, Option(help="Year of the records, if no file or column name says it.")
    ] = None,
    join: Annotated[Text, Option(help="Column by which to join several files.")] = None,
    encoding: Annotated[
        Text, Option(help="Encoding of labels, such as latin-1 or cp1251, if they look garbled.")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Accept every guess.")] = False,
) -> None:
    """Draft a survey's record (variables, design, tasks) from its file."""
    from lm_eval_epidemia.surveys.draft import drafting
    from lm_eval_epidemia.surveys.draft.columns import DraftOptions
    from lm_eval_epidemia.surveys.draft.words import CHECK

    called = drafting.fitting_name(files, name)
    drafting.check_free(drafting.own_path(called))
    named = _split_names(outcomes), _split_names(given)
    wishes = DraftOptions(name, weight, strata, psu, *named, join, encoding, year, yes)
    draft = drafting.draft_record(files, wishes, progress=True)
    path = drafting.write_draft(draft)
    _say(draft)
    print(f"the draft is in {path}; check its {draft.marks} places marked '{CHECK}'")
    raw = " ".join(f"--raw {shlex.quote(str(file))}" for file in files)
    print("next:")
    print(f"  epidemia survey check {draft.name} {raw}")
    print(f"  epidemia groundtruth build {draft.name} {raw}")
    print(f"  lm_eval --tasks epidemia_{draft.name} --model ...")


def _split_names(names: str | None) -> list[str] | None:
    """Split names at commas, except quoted commas."""
    import csv

    if names is None:
        return None
    stripped = (name.strip() for name in next(csv.reader([names], skipinitialspace=True)))
    return [name for name in stripped if name]


def _say(draft: Drafted) -> None:
    """Describe a draft: its source, its contents, and what was left out and why."""
    source, sampling = draft.source, draft.source.sampling
    if draft.left_out:
        table = make_table("Left out", "reason", "columns", "which", right=("columns",))
        for reason, columns in draft.left_out.items():
            names = few([column.name or "(no name)" for column in columns])
            table.add_row(reason, f"{len(columns):,}", escape_markup(names))
        print_table(table)
    others = {"strata": sampling.strata, "PSUs": sampling.psu, "joined by": source.join}
    design = [f"weight {sampling.weight}" if sampling.weight else "no weight"]
    design += [f"{what} {column}" for what, column in others.items() if column]
    print(
        f"{draft.name} {sampling.year} ({sampling.year_from}): {source.rows:,} records, "
        f"{', '.join(design)}"
    )
    outcomes = list(dict.fromkeys(plan.outcome for plan in draft.plans))
    given = dict.fromkeys(name for plan in draft.plans for name in plan.given)
    print(
        f"{len(draft.variables):,} variables, {plural(len(draft.plans), 'task')}: "
        f"{plural(len(outcomes), 'outcome')} ({few(outcomes)}) by {', '.join(given)}"
    )
    for note in [*sampling.checks, *draft.notes]:
        print(f"note: {note}")


@app.command("check")
def check(survey: Survey, raw: RawOrNone = None, vintage: InVintage = None) -> None:
    """Check files against the survey's record, or list the parts of a draft to check by eye."""
    from lm_eval_epidemia.surveys.catalogue import file_of, find_record
    from lm_eval_epidemia.surveys.draft.words import CHECK, marks
    from lm_eval_epidemia.surveys.microdata import check_files

    entry, path = find_record(survey), file_of(survey)
    waiting = marks(path.read_text(encoding="utf-8"))
    if raw:
        files = check_files(entry, raw, vintage)
        counts, names = ("known", "missing"), "levels without a person"
        table = make_table("", "variable", "column", *counts, names, right=counts)
        for seen in files.variables:
            known, missing = f"{seen.known:,}", f"{seen.missing:,}"
            absent = escape_markup(", ".join(seen.absent))
            table.add_row(seen.variable, escape_markup(seen.column), known, missing, absent)
        print_table(table)
        weight = f", weight {files.weight}" if files.weight else ""
        print(f"{survey} {files.vintage}: {files.rows:,} rows{weight}")
        tasks = plural(len(entry.all_tasks), "task")
        print(f"{len(files.tasks)} of {tasks} with all columns")
    elif waiting:
        table = make_table("", "line", "to check", right=("line",))
        for mark in waiting:
            table.add_row(str(mark.line), escape_markup(mark.says))
        print_table(table)
    print(
        f"{len(waiting)} places in {path} are still to check, marked: {CHECK}"
        if waiting
        else f"nothing is left to check in {path}"
    )


@app.command("download")
def download(
    surveys: Surveys,
    vintage: Annotated[Text, Option(help="Vintage to fetch. Default: the official one.")] = None,
) -> None:
    """Fetch the official files of surveys; after an interruption run it again to continue."""
    from lm_eval_epidemia.surveys.catalogue import find_record
    from lm_eval_epidemia.surveys.raw import download as fetch

    for name in split_names(surveys):
        folder = fetch(find_record(name), vintage)
        chosen = f" --vintage {vintage}" if vintage else ""
        print(f"the files of {name} are in {folder}")
        print(f"next: epidemia groundtruth build {name}{chosen}")


@app.command("card")
def card(
    surveys: Annotated[
        Texts,
        Argument(help="Surveys such as nsduh. Default: all.", autocompletion=complete_surveys),
    ] = None,
    out: Annotated[Path | None, Option(help="Folder for the cards. Default: print them.")] = None,
) -> None:
    """Write the data cards of surveys: source, design, adjustments, tasks and anchors."""
    from lm_eval_epidemia.core.paths import atomic_write
    from lm_eval_epidemia.report.cards import render_card as written
    from lm_eval_epidemia.surveys.catalogue import find_record, records

    for name in split_names(surveys or []) or records():
        text = written(find_record(name))
        if out is None:
            print(text)
        else:
            with atomic_write(out / f"{name}.md") as temporary:
                temporary.write_text(text, encoding="utf-8")
    if out is not None:
        print(f"{plural(len(surveys or records()), 'data card')} in {out.resolve()}")
