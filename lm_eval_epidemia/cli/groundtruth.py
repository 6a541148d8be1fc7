"""The commands ``epidemia groundtruth`` and ``anchors``: truths built, checked, and their scale."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from lm_eval_epidemia.cli.options import (
    InVintage,
    Jobs,
    NamesOrAll,
    OwnFolder,
    Raw,
    Surveys,
    Text,
    Texts,
)
from lm_eval_epidemia.cli.printing import make_table, print_table
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural

if TYPE_CHECKING:
    from lm_eval_epidemia.benchmarks.observation.respondents import TaskScale

app = typer.Typer(no_args_is_help=True, help="Build ground truth from survey files, and check it.")


@app.command("build")
def truth_build(
    surveys: Surveys,
    raw: Raw = None,
    vintage: InVintage = None,
    bootstrap: Annotated[
        Texts,
        Option(help="Bootstrap: iid, design or population. Default: all that the survey allows."),
    ] = None,
    replicates: Annotated[
        int,
        Option(help="Bootstrap replicates; tasks with several conditions get half as many."),
    ] = 200,
    jobs: Jobs = 1,
    out: OwnFolder = None,
    marginal: Annotated[
        bool, Option("--marginal", help="Build only tasks without conditions (takes seconds).")
    ] = False,
    joint: Annotated[
        bool, Option("--joint", help="Build only joint outcomes of two questions (takes seconds).")
    ] = False,
) -> None:
    """Build the truth of every task that the files allow; this takes the extra 'build'."""
    from lm_eval_epidemia.estimate.build import build_survey, describe_unscored
    from lm_eval_epidemia.harness.yamls import task_path

    only = [kind for kind, chosen in (("marginal", marginal), ("joint", joint)) if chosen]
    how: dict[str, Any] = {"replicates": replicates, "jobs": jobs, "out": out}
    how |= {"bootstrap": [scheme_of(name) for name in bootstrap or []] or None, "only": only}
    surveys = split_names(surveys)
    if raw and len(surveys) > 1:
        raise EpidemiaError(
            f"--raw belongs to one survey, not to {few(surveys)}: build them one by one"
        )
    for survey in surveys:
        try:
            built = build_survey(survey, raw, vintage=vintage, **how)
        except KeyboardInterrupt:
            print(
                "\ninterrupted: finished tasks are kept; repeat the command to continue",
                file=sys.stderr,
            )
            raise typer.Exit(130) from None
        are = "is" if len(built.tasks) == 1 else "are"
        tasks = plural(len(built.tasks), "task")
        print(f"{tasks} of {built.key} {are} in {built.folder.resolve()}")
        if built.left_out:
            left_out = plural(len(built.left_out), "task")
            print(f"{left_out} left out, because the files lack what they need:")
            for name in built.left_out:
                print(f"  {name}")
        for reason in built.skipped.values():
            print(f"skipped, without a truth: {reason}")
        if reason := describe_unscored(built):
            print(reason)
    if out is None:
        print(f"lm-eval reads them from {task_path()}")


@app.command("check")
def truth_check() -> None:
    """Check that all ground truth used here is complete and as registered."""
    from lm_eval_epidemia.api import tasks
    from lm_eval_epidemia.cli.tasks import list_waiting
    from lm_eval_epidemia.estimate.check import find_all_faults

    checked = find_all_faults()
    wrong = {name: problems for name, problems in checked.items() if problems}
    for name, problems in wrong.items():
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)
    if wrong:
        raise EpidemiaError(f"the truth of {len(wrong)} of {plural(len(checked), 'task')} is wrong")
    print(f"ground truth of {plural(len(checked), 'task')} is as registered")
    for line in list_waiting(tasks()):
        print(line)


def scheme_of(name: str) -> Any:
    from lm_eval_epidemia.estimate.sampling import SCHEMES

    if name not in SCHEMES:
        raise EpidemiaError(f"--bootstrap {name!r}: expected iid, design or population")
    return name


def anchors(
    names: NamesOrAll = None,
    summary: Annotated[bool, Option("--summary", help="Print one line per group.")] = False,
    vintage: Annotated[
        Text, Option(help="Use the truth of this vintage instead of the one that scores use.")
    ] = None,
    quantile: Annotated[
        float, Option(help="Quantile of the bootstrap distances that is D_perfect.")
    ] = 0.95,
    bootstrap: Annotated[
        Text, Option(help="Bootstrap: iid, design or population. Default: the one that scores use.")
    ] = None,
) -> None:
    """Print the distances that set each task's scale, and the score for knowing averages only."""
    from lm_eval_epidemia.benchmarks.observation.respondents import has_bootstrap, list_scales
    from lm_eval_epidemia.estimate import store

    if not 0 < quantile < 1:
        raise EpidemiaError(f"--quantile {quantile}: expected a number between 0 and 1")
    scheme = None if bootstrap is None else scheme_of(bootstrap)
    tasks = asked = _anchored(names)
    # One task alone is refused with what it lacks; of several, those that have it are shown.
    if scheme:
        tasks = [name for name in asked if has_bootstrap(name, scheme, vintage)] or asked
    if vintage:
        tasks = [name for name in tasks if vintage in store.vintages(name)] or tasks
    listed = list_scales(tasks, quantile, scheme, vintage)
    print_table(_of_groups(listed) if summary else _of_tasks(listed))
    if len(listed) < len(asked):
        lacking, of = len(asked) - len(listed), plural(len(asked), "task")
        what = [f"a truth of {vintage}"] if vintage else []
        what += [f"a {scheme} bootstrap"] if scheme else []
        print(f"{lacking} of {of} lack {' and '.join(what)}")
    if barely := sum(scale.anchors.barely for scale in listed):
        of = plural(len(listed), "task")
        print(f"{barely} of {of} are barely informative: D_perfect > 0.8 D_zero or within 1.96 SE")


def _anchored(names: list[str] | None) -> list[str]:
    """Return the available tasks that names mean, each once; all must have anchors."""
    from lm_eval_epidemia.benchmarks import find_tasks, in_way, list_leaves
    from lm_eval_epidemia.estimate import store

    if not names:
        return list(store.list_available())
    known, tasks = list_leaves(), dict[str, None]()
    for name in split_names(names):
        for task, way in find_tasks(name):
            leaf = known[in_way(task, way)]
            if without := leaf.benchmark.without_anchors:
                of = leaf.group if name == leaf.group else f"{name}: {leaf.group}"
                raise EpidemiaError(f"{of} {without.format(task=task, way=way)}")
            tasks[task] = None
    return list(tasks)


def _of_tasks(listed: Sequence[TaskScale]) -> Any:
    """The scale of each task: the distances that fix it, and what knowing P(Y) scores."""
    numbers = ("cells", "D_uniform", "D_zero_one", "D_mean", "D_perfect", "score of mean")
    table = make_table("", "task", *numbers, right=numbers)
    for scale in listed:
        known = scale.anchors
        score = f"{known.score_of_mean:.6f}{f' ({known.said})' if known.said else ''}"
        distances = (f"{distance:.4f}" for distance in known[:4])
        table.add_row(scale.task, str(scale.cells), *distances, score)
    return table


def _of_groups(listed: Sequence[TaskScale]) -> Any:
    """The same by group: means, and how many tasks are barely informative."""
    from lm_eval_epidemia.benchmarks import list_unions
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION

    numbers = ("tasks", "barely informative", "score of mean")
    table = make_table("", "group", *numbers, right=numbers)
    of_task = {scale.task: scale.anchors for scale in listed}
    whole = {group: tasks for group, tasks in list_unions().items() if of_task.keys() >= tasks}
    entries = OBSERVATION.entries()
    groups = {group for task in of_task for group in entries[task].groups}
    for group in [*whole, *sorted(groups)]:
        tasks = whole.get(group, [task for task in of_task if group in entries[task].groups])
        known = [of_task[task] for task in sorted(tasks)]
        barely, mean = sum(of.barely for of in known), sum(of.score_of_mean for of in known)
        table.add_row(group, f"{len(known)}", f"{barely}", f"{mean / len(known):.2f}")
    return table
