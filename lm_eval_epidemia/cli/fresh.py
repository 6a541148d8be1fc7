"""``epidemia tasks fresh``: random tasks about a survey, new to any model."""

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
    n: Annotated[int, Option(help="Number of tasks.")] = 40,
    seed: Annotated[int, Option(help="Random seed; another seed gives other tasks.")] = 0,
    dimension: Annotated[str, Option(help="Numbers of conditions that tasks may have.")] = "1,2,3",
    outcomes: Annotated[
        str,
        Option(help="Ask only about these variables, A,B. Default: all that have a question."),
    ] = "",
    vintage: InVintage = None,
    list_: Annotated[
        bool, Option("--list", help="Draw and check the tasks, but build nothing.")
    ] = False,
    replicates: Annotated[int, Option(help="Number of bootstrap replicates.")] = 200,
    jobs: Jobs = 1,
    backend: Backend = None,
    replace: Annotated[
        bool, Option("--replace", help="Replace another set drawn with this seed.")
    ] = False,
) -> None:
    """Draw random, unpublished tasks from a survey's variables, and build them."""
    from lm_eval_epidemia.benchmarks import leaves
    from lm_eval_epidemia.benchmarks.observation.fresh import make, plan
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
            f"in {len(kept.short)} of them boosting leaves less of the scale beyond sampling "
            f"error than counting did: {', '.join(kept.short)}"
        )
    if not kept.is_joint:
        print(
            f"their replicates differ from those of the declared tasks of {survey} "
            f"{drawn.vintage}, so 'epidemia report --probe' takes the two as independent. For "
            "joint errors build the declared tasks from the same file ('epidemia groundtruth "
            f"build {survey} --raw FILE'), then repeat this command"
        )
    print(f"group {drawn.group}: lm_eval --tasks {drawn.group} ...")


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise EpidemiaError(
            f"--dimension {text!r}: expected numbers of conditions, such as 1,2,3"
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
