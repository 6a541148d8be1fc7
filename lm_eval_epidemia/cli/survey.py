"""``epidemia survey``: files of surveys, and the records that describe them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli import completing
from lm_eval_epidemia.cli.options import InVintage, RawOrNone, Survey, Surveys, Text, Texts
from lm_eval_epidemia.cli.printing import plain, show, table_of
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.surveys.draft.wishes import NONE

if TYPE_CHECKING:
    from lm_eval_epidemia.surveys.draft.drafting import Drafted
    from lm_eval_epidemia.surveys.draft.wishes import Proposal

app = typer.Typer(
    no_args_is_help=True,
    help="Fetch survey files, draft records of your own, check and describe them.",
)


@app.command("new")
def new(
    files: Annotated[
        list[Path], Argument(help="A survey's file, or several that share a number of the person.")
    ],
    name: Annotated[
        Text,
        Option(help="Call the survey so in names of tasks. By default it is named after the file."),
    ] = None,
    weight: Annotated[
        Text, Option(help="Weigh records by this column; 'none' counts all alike.")
    ] = None,
    strata: Annotated[
        Text, Option(help="Take strata from this column, with --psu, or 'none'.")
    ] = None,
    psu: Annotated[
        Text, Option(help="Take primary sampling units from this column, with --strata, or 'none'.")
    ] = None,
    outcomes: Annotated[
        Text, Option(help="Ask about these columns, A,B. By default outcomes are proposed.")
    ] = None,
    given: Annotated[Text, Option(help="Use these columns as conditions, A,B.")] = None,
    year: Annotated[
        int | None, Option(help="Give the year of the records, if no name tells it.")
    ] = None,
    tasks: Annotated[int, Option(help="Draft at most so many tasks.")] = 40,
    join: Annotated[Text, Option(help="Join several files by this column.")] = None,
    encoding: Annotated[
        Text,
        Option(
            help="Read labels in this encoding, such as latin-1 or cp1251, if they are unreadable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(help="Write this .yaml file. By default it is written where yours are found."),
    ] = None,
    replace: Annotated[bool, Option("--replace", help="Write over a file that is there.")] = False,
    yes: Annotated[
        bool, Option("--yes", help="Accept all that is guessed, and ask nothing.")
    ] = False,
) -> None:
    """Draft the record of any survey (variables, design, tasks) from its file."""
    from lm_eval_epidemia.surveys.draft import drafting
    from lm_eval_epidemia.surveys.draft.text import CHECK
    from lm_eval_epidemia.surveys.draft.wishes import Wishes

    called = drafting.fitting_name(files, name)
    drafting.check_free(out or drafting.own_path(called), replace)
    named = _listed(outcomes), _listed(given)
    wishes = Wishes(name, weight, strata, psu, *named, join, encoding, year, tasks)
    choose = _accept if yes else _ask if _on_terminal() else None
    draft = drafting.draft(files, wishes, choose, progress=True)
    path = drafting.write(draft, out, replace)
    _say(draft)
    print(f"the draft is in {path}: {draft.marks} places wait for your eye, marked '{CHECK}'")
    raw = " ".join(f"--raw {shlex.quote(str(file))}" for file in files)
    print("next:")
    if out is not None:
        print(f"  export EPIDEMIA_RECORDS={shlex.quote(str(path.resolve()))}")
    print(f"  epidemia survey check {draft.name} {raw}")
    print(f"  epidemia groundtruth build {draft.name} {raw}")
    print(f"  lm_eval --tasks epidemia_{draft.name} --model ...")


def _listed(names: str | None) -> list[str] | None:
    """Split names at commas, quoted ones aside."""
    import csv

    if names is None:
        return None
    stripped = (name.strip() for name in next(csv.reader([names], skipinitialspace=True)))
    return [name for name in stripped if name]


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _accept(proposal: Proposal) -> Sequence[str]:
    if proposal.doubt:
        return ()
    return proposal.columns[:1] if proposal.what == "weight" else proposal.columns


def _ask(proposal: Proposal) -> Sequence[str]:
    """Show what was guessed, and ask for it."""
    table = table_of(f"Proposed as {proposal.what}", "column", "label")
    for column in proposal.columns:
        table.add_row(plain(column), plain(proposal.labels.get(column, "")))
    show(table)
    if proposal.what == "weight":
        ask = "weight (none: all records count alike)"
        if proposal.doubt:
            print(proposal.doubt)
        default = NONE if proposal.doubt else proposal.columns[0]
        weight = typer.prompt(ask, default=default).strip()
        return [] if weight.casefold() == NONE else [weight]
    if proposal.what == "strata and PSUs":
        return proposal.columns if typer.confirm("use them?", default=True) else ()
    quoted = ",".join(f'"{name}"' if "," in name else name for name in proposal.columns)
    return _listed(typer.prompt(f"{proposal.what}, with commas between", default=quoted)) or ()


def _say(draft: Drafted) -> None:
    """Say what a draft is of, what is in it, and what was left out and why."""
    source, sampling = draft.source, draft.source.sampling
    if draft.left_out:
        table = table_of("Left out", "reason", "columns", "which", right=("columns",))
        for reason, columns in draft.left_out.items():
            names = few([column.name or "(no name)" for column in columns])
            table.add_row(reason, f"{len(columns):,}", plain(names))
        show(table)
    design = [f"weight {sampling.weight}" if sampling.weight else "no weight"]
    design += [f"strata {sampling.strata}, PSUs {sampling.psu}"] if sampling.strata else []
    design += [f"joined by {source.join}"] if source.join else []
    print(
        f"{draft.name} {sampling.year} ({sampling.year_from}): {source.rows:,} records, "
        f"{', '.join(design)}"
    )
    outcomes = list(dict.fromkeys(plan.outcome for plan in draft.plans))
    given = dict.fromkeys(name for plan in draft.plans for name in plan.given)
    print(
        f"{len(draft.variables):,} variables, {_counted(draft.plans, 'task')}: "
        f"{_counted(outcomes, 'outcome')} ({few(outcomes)}) by {', '.join(given)}"
    )
    for note in [*sampling.checks, *draft.notes]:
        print(f"note: {note}")


def _counted(things: Sequence[object], noun: str) -> str:
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"


@app.command("check")
def check(
    survey: Survey,
    raw: RawOrNone = None,
    vintage: InVintage = None,
) -> None:
    """Check files against the survey's record, or list what of a draft waits for your eye."""
    from lm_eval_epidemia.surveys.catalogue import file_of, record
    from lm_eval_epidemia.surveys.check import check_files
    from lm_eval_epidemia.surveys.draft.text import CHECK, marks

    entry, path = record(survey), file_of(survey)
    waiting = marks(path.read_text(encoding="utf-8"))
    if raw:
        files = check_files(entry, raw, vintage)
        counts, names = ("known", "missing"), "levels that nobody has"
        table = table_of("", "variable", "column", *counts, names, right=counts)
        for seen in files.variables:
            known, missing = f"{seen.known:,}", f"{seen.missing:,}"
            absent = plain(", ".join(seen.absent))
            table.add_row(seen.variable, plain(seen.column), known, missing, absent)
        show(table)
        weight = f", weight {files.weight}" if files.weight else ""
        print(f"{survey} {files.vintage}: {files.rows:,} rows{weight}")
        tasks = len(files.tasks) + len(files.left_out)
        print(f"{len(files.tasks)} of {plural(tasks, 'task')} with all columns")
    elif waiting:
        table = table_of("", "line", "to check", right=("line",))
        for mark in waiting:
            table.add_row(str(mark.line), plain(mark.says))
        show(table)
    print(
        f"{len(waiting)} places of {path} wait for your eye: {CHECK}"
        if waiting
        else f"nothing is left to check in {path}"
    )


@app.command("download")
def download(
    surveys: Surveys,
    vintage: Annotated[
        Text, Option(help="Fetch this vintage. By default it is the official one.")
    ] = None,
) -> None:
    """Fetch the official files of surveys; run again to go on where it stopped."""
    from lm_eval_epidemia.surveys.catalogue import record
    from lm_eval_epidemia.surveys.download import download as fetch

    for name in separated(surveys):
        folder = fetch(record(name), vintage)
        chosen = f" --vintage {vintage}" if vintage else ""
        print(f"the files of {name} are in {folder}")
        print(f"next: epidemia groundtruth build {name}{chosen}")


@app.command("card")
def card(
    surveys: Annotated[
        Texts,
        Argument(
            help="Surveys such as nsduh; all if none is given.", autocompletion=completing.surveys
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Write the cards into this folder; without it they are printed.")
    ] = None,
) -> None:
    """Write the data card of surveys, with source, design, adjustments, tasks and anchors."""
    from lm_eval_epidemia.core.paths import atomic_write
    from lm_eval_epidemia.report.cards import card as written
    from lm_eval_epidemia.surveys.catalogue import record, records

    for name in separated(surveys or []) or records():
        text = written(record(name))
        if out is None:
            print(text)
        else:
            with atomic_write(out / f"{name}.md") as temporary:
                temporary.write_text(text, encoding="utf-8")
    if out is not None:
        print(f"{_counted([*(surveys or records())], 'data card')} in {out.resolve()}")
