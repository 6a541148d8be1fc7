"""``epidemia quantities``: sets of quantities to ask priors about."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lm_eval_epidemia.cli.printing import show, table_of
from lm_eval_epidemia.core.console import separated

if TYPE_CHECKING:
    from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities

app = typer.Typer(no_args_is_help=True, help="Quantities to ask priors about: make, build, list.")

_OUT = Annotated[Path | None, typer.Option(help="Folder; default: your own, which lm_eval reads.")]


@app.command("new")
def new(
    survey: Annotated[str, typer.Argument(help="For example nsduh.")],
    raw: Annotated[
        list[Path] | None,
        typer.Option(help="File or folder; may be given several times. Default: the downloaded."),
    ] = None,
    vintage: Annotated[str | None, typer.Option(help="Where the file does not tell.")] = None,
    n: Annotated[int, typer.Option(help="How many quantities, 4 at least.")] = 60,
    seed: Annotated[int, typer.Option(help="Another seed, other quantities.")] = 0,
    name: Annotated[
        str | None, typer.Option(help="Task epidemia_prior_NAME; default: SURVEY_SEED.")
    ] = None,
    out: _OUT = None,
) -> None:
    """Make a set of quantities from random slices of a survey: a task that is new to any model."""
    from lm_eval_epidemia.benchmarks.prior.quantities.generate import generate
    from lm_eval_epidemia.benchmarks.prior.quantities.store import built, check_set
    from lm_eval_epidemia.core import paths
    from lm_eval_epidemia.core.errors import EpidemiaError
    from lm_eval_epidemia.surveys.catalogue import record
    from lm_eval_epidemia.surveys.download import raw_folder
    from lm_eval_epidemia.surveys.microdata import load_microdata

    if name is not None:
        check_set(name, out)
    entry = record(survey)
    if vintage is not None:
        entry.vintage(vintage)
    if not raw:
        vintage = vintage or entry.official
        if not (folder := raw_folder(survey, vintage)).is_dir():
            raise EpidemiaError(
                f"no downloaded files of {survey} {vintage}: run 'epidemia survey download "
                f"{survey}' or give them with --raw"
            )
        raw = [folder]
    if all(one.tables for one in entry.vintages.values()):
        raise EpidemiaError(
            f"{survey} is published as tables; quantities are made from people's answers, as "
            "those of nsduh, scf, gss, meps or nhanes"
        )
    paths.check_writable(out or built())
    _keep(generate(load_microdata(entry, raw, vintage), n, seed, name), out)


@app.command("build")
def build(
    raw: Annotated[
        list[Path],
        typer.Option(help="Official files of NHANES 2017-2018 (DEMO_J, BMX_J, ...), or a folder."),
    ],
    seed: Annotated[int, typer.Option(help="Of the corrected draws.")] = 0,
    out: _OUT = None,
) -> None:
    """Recompute the published quantities from the official files, and say what differs."""
    from lm_eval_epidemia.benchmarks.prior.quantities.rebuilt import rebuilt

    found = rebuilt(raw, seed)
    _keep(found.quantities, out, published=True)
    same = len(found.quantities.quantities) - len(found.differing)
    print(f"{same} of {len(found.quantities.quantities)} truths are as published, to 6 digits")
    for line in found.differing:
        print(f"  {line}")


@app.command("list")
def listed(
    tasks: Annotated[list[str] | None, typer.Argument(help="Sets: every quantity of them.")] = None,
) -> None:
    """List the sets of quantities that are here, or the quantities of some."""
    from lm_eval_epidemia.benchmarks.prior.quantities.store import declared, load

    if not tasks:
        table = table_of(
            "",
            "task",
            "quantities",
            "survey",
            "vintage",
            "where",
            "fingerprint",
            right=("quantities",),
        )
        for name, one in declared().items():
            found = load(name)
            table.add_row(
                name,
                str(len(found.quantities)),
                one.survey,
                one.vintage,
                one.state,
                found.fingerprint,
            )
        show(table)
        return
    for task in separated(tasks):
        _show(task, load(task))


def _show(task: str, found: Quantities) -> None:
    from lm_eval_epidemia.benchmarks.prior.quantities.span import STEPS

    print(
        f"{found.title} ({task}): truth and its standard error, people, ends and step of the grid"
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    for each in found.quantities:
        unit = f" {each.unit}" if each.unit else ""
        step = (each.high - each.low) / STEPS
        print(
            f"\n{each.name}: {each.family}, {each.mean:.4g} ± {each.se:.2g}{unit}, {each.n:,} "
            f"people, {each.low:g} to {each.high:g} by {step:g}"
        )
        print(textwrap.fill(each.wording, width, initial_indent="  ", subsequent_indent="  "))


def _keep(made: Quantities, out: Path | None, published: bool = False) -> None:
    """Write a set, and say where it is, its task's name and what is in it."""
    from lm_eval_epidemia.benchmarks import leaves
    from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES
    from lm_eval_epidemia.benchmarks.prior.quantities.store import built, write
    from lm_eval_epidemia.harness.discovery import forget_cached_requests

    path = write(out or built(), made, published)
    families = list(dict.fromkeys(one.family for one in made.quantities))
    count = Counter((one.difficulty, one.family) for one in made.quantities)
    table = table_of("", "difficulty", *families, "all", right=(*families, "all"))
    for difficulty in DIFFICULTIES:
        row = [count[difficulty, family] for family in families]
        table.add_row(difficulty, *map(str, row), str(sum(row)))
    show(table)
    print(f"{len(made.quantities)} quantities of {made.survey} {made.vintage} are in {path}")
    if out is None:
        forget_cached_requests(n for n, one in leaves().items() if one.entry.name == made.task)
        print(f"task {made.task}: lm_eval run --tasks {made.task} ...")
