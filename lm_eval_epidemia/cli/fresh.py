"""``epidemia tasks fresh``: random tasks of a survey, new to any model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lm_eval_epidemia.cli.printing import show, table_of
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError

if TYPE_CHECKING:
    from lm_eval_epidemia.surveys.fresh import FreshSet


def fresh(
    survey: Annotated[str, typer.Argument(help="For example gss, or one of your own.")],
    raw: Annotated[
        list[Path] | None,
        typer.Option(help="File or folder; may be given several times. Default: the downloaded."),
    ] = None,
    n: Annotated[int, typer.Option(help="How many tasks.")] = 40,
    seed: Annotated[int, typer.Option(help="Another seed, other tasks.")] = 0,
    dimension: Annotated[str, typer.Option(help="Numbers of conditions.")] = "1,2,3",
    outcomes: Annotated[
        str, typer.Option(help="Only these variables, A,B; default: all that have a question.")
    ] = "",
    vintage: Annotated[str | None, typer.Option(help="Where the file does not tell.")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Read the file, draw and check, and build nothing.")
    ] = False,
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates, as of a build.")] = 200,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    backend: Annotated[
        str | None, typer.Option(help="Of joblib: dask or ray, on a cluster that is set up.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="In the place of another set of this seed.")
    ] = False,
) -> None:
    """Draw random tasks from a survey's variables that nobody has published, and build them."""
    from lm_eval_epidemia.benchmarks import leaves
    from lm_eval_epidemia.benchmarks.observation.fresh.make import make, plan
    from lm_eval_epidemia.harness.discovery import forget_cached_requests
    from lm_eval_epidemia.surveys.catalogue import record
    from lm_eval_epidemia.surveys.download import raw_folder

    if not raw:
        vintage = vintage or record(survey).official
        if not (folder := raw_folder(survey, vintage)).is_dir():
            raise EpidemiaError(
                f"no downloaded files of {survey} {vintage}: run 'epidemia survey download "
                f"{survey}' or give them with --raw"
            )
        raw = [folder]
    planned = plan(
        survey,
        raw,
        n=n,
        seed=seed,
        dimension=_numbers(dimension),
        vintage=vintage,
        outcomes=separated([outcomes] if outcomes else []),
        replicates=replicates,
    )
    found = planned.fresh_set
    if list_:
        _show(found)
    print(planned.said)
    if planned.lacking:
        print(planned.lacking)
    if list_:
        return
    try:
        made = make(planned, jobs=jobs, backend=backend, replace=replace)
    except KeyboardInterrupt:
        print("\ninterrupted; finished tasks are kept, the same command continues", file=sys.stderr)
        raise typer.Exit(130) from None
    names = {task.name for task in found.tasks}
    forget_cached_requests(name for name, one in leaves().items() if one.entry.name in names)
    print(f"{len(names)} tasks of {found.survey} {found.vintage} are in {made.folder}")
    if made.short:
        print(
            f"{len(made.short)} of them have less of their scale beyond sampling error, as boosted,"
            f" than they had when counted: {', '.join(made.short)}"
        )
    if not made.is_joint:
        print(
            f"their replicates are not those of the declared tasks of {survey} {found.vintage}: "
            "'epidemia report --probe' takes the two as independent. For joint errors build those "
            f"from the same file ('epidemia groundtruth build {survey} --raw FILE'), and give this "
            "command again"
        )
    print(f"group {found.group}: lm_eval --tasks {found.group} ...")


def _numbers(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise EpidemiaError(
            f"--dimension {text!r}: expected numbers of conditions such as 1,2,3"
        ) from None


#: How estimators are said.
SAID = {"bins": "counting", "lightgbm": "boosting"}


def _show(found: FreshSet) -> None:
    from lm_eval_epidemia.estimate.estimators import estimator_of
    from lm_eval_epidemia.surveys.catalogue import record

    table = table_of("", "task", "outcome", "given", "estimated by")
    survey = record(found.survey)
    for task in found.tasks:
        answers = len(survey.ways(task.outcome, found.vintage)[0].levels)
        table.add_row(
            task.name, task.outcome, ", ".join(task.given), SAID[estimator_of(task, answers).name]
        )
    show(table)
