"""``epidemia tasks fresh``: random tasks of a survey, new to any model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from lm_eval_epidemia.cli.options import Backend, InVintage, Jobs, Raw, Survey
from lm_eval_epidemia.cli.printing import show, table_of
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError, plural

if TYPE_CHECKING:
    from lm_eval_epidemia.surveys.fresh import FreshSet


def fresh(
    survey: Survey,
    raw: Raw = None,
    n: Annotated[int, Option(help="Draw so many tasks.")] = 40,
    seed: Annotated[int, Option(help="Draw with this seed; another seed gives other tasks.")] = 0,
    dimension: Annotated[str, Option(help="Give the tasks so many conditions.")] = "1,2,3",
    outcomes: Annotated[
        str,
        Option(
            help="Ask about these variables only, A,B. By default all with a question are used."
        ),
    ] = "",
    vintage: InVintage = None,
    list_: Annotated[
        bool, Option("--list", help="Read the file, draw and check the tasks, and build nothing.")
    ] = False,
    replicates: Annotated[int, Option(help="Draw so many bootstrap replicates.")] = 200,
    jobs: Jobs = 1,
    backend: Backend = None,
    replace: Annotated[
        bool, Option("--replace", help="Write over another set of this seed.")
    ] = False,
) -> None:
    """Draw random tasks from a survey's variables that nobody has published, and build them."""
    from lm_eval_epidemia.benchmarks import leaves
    from lm_eval_epidemia.benchmarks.observation.fresh.make import make, plan
    from lm_eval_epidemia.harness.discovery import forget_cached_requests

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
    drawn = planned.fresh_set
    if list_:
        _show(drawn)
    print(planned.said)
    if planned.lacking:
        print(planned.lacking)
    if list_:
        return
    try:
        kept = make(planned, jobs=jobs, backend=backend, replace=replace)
    except KeyboardInterrupt:
        print("\ninterrupted; finished tasks are kept, the same command continues", file=sys.stderr)
        raise typer.Exit(130) from None
    names = {task.name for task in drawn.tasks}
    forget_cached_requests(name for name, leaf in leaves().items() if leaf.entry.name in names)
    are = "is" if len(names) == 1 else "are"
    print(f"{plural(len(names), 'task')} of {survey} {drawn.vintage} {are} in {kept.folder}")
    if kept.short:
        print(
            f"{len(kept.short)} of them have less of their scale beyond sampling error, as boosted,"
            f" than they had when counted: {', '.join(kept.short)}"
        )
    if not kept.is_joint:
        print(
            f"their replicates are not those of the declared tasks of {survey} {drawn.vintage}: "
            "'epidemia report --probe' takes the two as independent. For joint errors build those "
            f"from the same file ('epidemia groundtruth build {survey} --raw FILE'), and give this "
            "command again"
        )
    print(f"group {drawn.group}: lm_eval --tasks {drawn.group} ...")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise EpidemiaError(
            f"--dimension {text!r}: expected numbers of conditions such as 1,2,3"
        ) from None


#: How estimators are said.
SAID = {"bins": "counting", "lightgbm": "boosting"}


def _show(drawn: FreshSet) -> None:
    from lm_eval_epidemia.estimate.estimators import estimator_of
    from lm_eval_epidemia.surveys.catalogue import record

    table = table_of("", "task", "outcome", "given", "estimated by")
    for task in drawn.tasks:
        way = record(drawn.survey).ways(task.outcome, drawn.vintage)[0]
        estimator = estimator_of(task, len(way.levels)).name
        table.add_row(task.name, task.outcome, ", ".join(task.given), SAID[estimator])
    show(table)
