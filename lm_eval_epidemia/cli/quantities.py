"""``epidemia quantities``: sets of quantities that models state priors about."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import InVintage, OwnFolder, Raw, Survey, Text, Texts
from lm_eval_epidemia.cli.printing import make_table, print_table
from lm_eval_epidemia.core.console import split_names

if TYPE_CHECKING:
    from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities

app = typer.Typer(
    no_args_is_help=True, help="Make and list the quantities that models state priors about."
)


@app.command("new")
def new(
    survey: Survey,
    raw: Raw = None,
    vintage: InVintage = None,
    n: Annotated[int, Option(help="Number of quantities, at least 4.")] = 60,
    seed: Annotated[int, Option(help="Random seed; another seed gives other quantities.")] = 0,
    name: Annotated[
        Text, Option(help="NAME in the task's name, epidemia_prior_NAME. Default: SURVEY_SEED.")
    ] = None,
    out: OwnFolder = None,
) -> None:
    """Make a set of quantities from random slices of a survey, new to any model."""
    from lm_eval_epidemia.benchmarks.prior.quantities.generate import generate
    from lm_eval_epidemia.benchmarks.prior.quantities.store import find_built_folder
    from lm_eval_epidemia.core import paths
    from lm_eval_epidemia.core.errors import EpidemiaError
    from lm_eval_epidemia.surveys.catalogue import find_record
    from lm_eval_epidemia.surveys.microdata import load_microdata

    name = _check_set_name(name, out)
    entry = find_record(survey)
    if all(release.tables for release in entry.vintages.values()):
        raise EpidemiaError(
            f"{survey} is published as tables, without people's answers: take nsduh, scf or gss"
        )
    paths.check_writable(out or find_built_folder())
    _keep(generate(load_microdata(entry, raw, vintage), n, seed, name), out)


@app.command("build")
def build(
    raw: Annotated[
        list[Path],
        Option(help="Files of NHANES 2017-2018 (DEMO_J, BMX_J and so on), or their folder."),
    ],
    seed: Annotated[int, Option(help="Random seed for correcting the published draws.")] = 0,
    out: OwnFolder = None,
) -> None:
    """Recompute the published quantities from the official files."""
    from lm_eval_epidemia.benchmarks.prior.quantities.published import rebuild_quantities

    _keep(rebuild_quantities(raw, seed), out, published=True)


@app.command("import")
def import_(
    files: Annotated[
        list[Path], Argument(help="OpenEstimate's NAME_variables.json and NAME_baselines.json.")
    ],
    name: Annotated[Text, Option(help="NAME in the task's name, epidemia_prior_NAME.")] = None,
    out: OwnFolder = None,
) -> None:
    """Make a set from OpenEstimate's public files: job listings, venture capital, or your own."""
    from lm_eval_epidemia.benchmarks.prior.quantities.imported import import_quantities

    _keep(import_quantities(files, _check_set_name(name, out)), out)


def _check_set_name(name: str | None, out: Path | None) -> str | None:
    """Return the name of a set, from its own or its task's name; refuse one that is taken."""
    from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, check_set

    if name is not None:
        name = name.removeprefix(PREFIX)
        check_set(name, out)
    return name


@app.command("list")
def listed(tasks: Annotated[Texts, Argument(help="Sets whose quantities to list.")] = None) -> None:
    """List the sets of quantities available here, or the quantities in some of them."""
    from lm_eval_epidemia.benchmarks.prior.quantities.store import list_declared, load_quantities

    for task in split_names(tasks or []):
        _print_quantities(task, load_quantities(task))
    if tasks:
        return
    head = ("task", "quantities", "survey", "vintage", "where", "fingerprint")
    table = make_table("", *head, right=("quantities",))
    for name, entry in list_declared().items():
        kept = load_quantities(name)
        place = (entry.survey, entry.vintage, entry.state)
        table.add_row(name, str(len(kept.quantities)), *place, kept.fingerprint)
    print_table(table)


def _print_quantities(task: str, kept: Quantities) -> None:
    from lm_eval_epidemia.benchmarks.prior.quantities.quantity import STEPS

    print(
        f"{kept.title} ({task}): truth with standard error, people, and the grid's range and step"
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    for each in kept.quantities:
        unit = f" {each.unit}" if each.unit else ""
        step = (each.high - each.low) / STEPS
        print(
            f"\n{each.name}: {each.family}, {each.mean:.4g} ± {each.se:.2g}{unit}, {each.n:,} "
            f"people, {each.low:g} to {each.high:g} by {step:g}"
        )
        print(textwrap.fill(each.wording, width, initial_indent="  ", subsequent_indent="  "))


def _keep(new: Quantities, out: Path | None, published: bool = False) -> None:
    """Write a set; print its folder, task name and contents."""
    from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DIFFICULTIES
    from lm_eval_epidemia.benchmarks.prior.quantities.store import (
        find_built_folder,
        write_quantities,
    )

    path = write_quantities(out or find_built_folder(), new, published)
    families = list(dict.fromkeys(each.family for each in new.quantities))
    count = Counter((each.difficulty, each.family) for each in new.quantities)
    table = make_table("", "difficulty", *families, "all", right=(*families, "all"))
    for difficulty in DIFFICULTIES:
        row = [count[difficulty, family] for family in families]
        table.add_row(difficulty, *map(str, row), str(sum(row)))
    print_table(table)
    print(f"{len(new.quantities)} quantities of {new.survey} {new.vintage} are in {path}")
    if out is None:
        print(f"task {new.task}: lm_eval run --tasks {new.task} ...")
