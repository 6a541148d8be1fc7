"""The commands ``epidemia tasks`` and ``export``: tasks listed, drawn anew, written."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import (
    InVintage,
    Jobs,
    NamesOrAll,
    Raw,
    Survey,
    Text,
    complete_surveys,
)
from lm_eval_epidemia.cli.printing import fits, make_table, print_table
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from lm_eval_epidemia.surveys.fresh import FreshSet


app = typer.Typer(
    no_args_is_help=True, help="List the tasks, draw fresh ones, and write task files."
)


@app.command("list")
def tasks_list(
    names: NamesOrAll = None,
    survey: Annotated[
        Text,
        Option(
            help="List only tasks of these surveys, such as gss,scf.",
            autocompletion=complete_surveys,
        ),
    ] = None,
    summary: Annotated[bool, Option("--summary", help="Print one line per survey.")] = False,
) -> None:
    """List declared tasks with their state: shipped, built here, or waiting for a file."""
    from pandas import concat

    from lm_eval_epidemia.api import tasks
    from lm_eval_epidemia.benchmarks import find_leaves

    every = tasks()
    declared = concat(map(tasks, split_names([survey]))) if survey else every
    if names:
        wanted = {leaf.entry.name for name in split_names(names) for leaf in find_leaves(name)}
        if beside := sorted(wanted - {*every.task}):
            raise EpidemiaError(
                f"{few(beside)}: not about surveys; 'epidemia show NAME' describes them"
            )
        if not wanted & {*declared.task}:
            raise EpidemiaError(
                f"{few(split_names(names))} has no tasks of {survey}: leave out --survey"
            )
        declared = declared[declared.task.isin(wanted)]
    if summary:
        print_table(_summary(declared))
        return
    rows, table = [], make_table("", "task", "state", "title")
    for task in declared.to_dict("records"):
        state = "needs {needs}" if task["state"] == "waiting" else "{state} ({vintage})"
        state += ", stand-in" if task["stands_for"] else ""
        rows.append((task["task"], state.format_map(task), task["title"]))
        table.add_row(*rows[-1])
    if fits(table):
        print_table(table)
    else:
        for name, state, title in rows:
            print(f"{name}\n  {state}: {title}")
    print(f"{sum(declared.state != 'waiting')} of {plural(len(declared), 'task')} available")
    for line in (*_of_the_study(declared), *list_waiting(declared)):
        print(line)
    if survey is None and not names:
        print("other tasks are about causal graphs (docs/guides/interventional.md)")
        print("and epidemia_quick predicts epidemia_low and epidemia_high (docs/start/running.md)")


def _summary(declared: DataFrame) -> Any:
    """The number of tasks per survey and state; `declared` as `api.tasks` returns it."""
    from lm_eval_epidemia.surveys.fresh import GROUP
    from lm_eval_epidemia.surveys.record import Kind

    groups = {f"epidemia_{kind}": kind for kind in get_args(Kind)}
    if (declared.group == GROUP).any():
        groups[GROUP] = "fresh"
    states = {"shipped": "shipped", "built here": "built", "waiting": "waiting"}
    numbers = (*groups.values(), *states.values())
    title = "Declared tasks: shipped, built here, or waiting for a file"
    table = make_table(title, "survey", *numbers, "vintage", "waiting for", right=numbers)

    def add(name: str, tasks: Any, *about: str) -> None:
        counts = [sum(tasks.group == group) for group in groups]
        counts += [sum(tasks.state == state) for state in states]
        table.add_row(name, *map(str, counts), *about)

    for name, tasks in declared.groupby("survey"):
        columns = (tasks[column].unique() for column in ("vintage", "needs"))
        add(str(name), tasks, *(", ".join(filter(None, column)) for column in columns))
    table.add_section()
    add("all", declared, "", "")
    return table


def list_waiting(declared: DataFrame) -> list[str]:
    """Say which files tasks wait for, survey by survey; `declared` as `api.tasks` returns it."""
    from lm_eval_epidemia.surveys.catalogue import how_to_build

    of = declared[declared.state == "waiting"].groupby("survey").size()
    return [
        f"{plural(number, 'task')} of {name} wait: {how_to_build(str(name))}"
        for name, number in of.items()
    ]


def _of_the_study(declared: DataFrame) -> Iterator[str]:
    """Count the listed tasks of the published study that have a truth; describe stand-ins."""
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION, STANDIN
    from lm_eval_epidemia.surveys.catalogue import all_tasks

    study = Counter(f"epidemia_{task.kind}" for task in all_tasks().values() if task.number)
    here = Counter(declared.group[declared.state != "waiting"])
    if listed := [group for group in study if group in {*declared.group}]:
        available = sum(here[group] for group in listed)
        of = ", ".join(f"{here[group]} of {study[group]} in {group}" for group in listed)
        yield f"available from the published study: {available} of {study.total()} tasks ({of})"
    if any(declared.stands_for):
        yield f"{STANDIN}: {OBSERVATION.unions[STANDIN]}"


@app.command("fresh")
def fresh(
    survey: Survey,
    raw: Raw = None,
    n: Annotated[int, Option(help="Number of tasks.")] = 40,
    seed: Annotated[int, Option(help="Random seed; another seed gives other tasks.")] = 0,
    dimension: Annotated[str, Option(help="Numbers of conditions that tasks may have.")] = "1,2,3",
    outcomes: Annotated[
        str, Option(help="Ask only about these variables, A,B. Default: all that have a question.")
    ] = "",
    vintage: InVintage = None,
    list_: Annotated[
        bool, Option("--list", help="Draw and check the tasks, but build nothing.")
    ] = False,
    replicates: Annotated[int, Option(help="Number of bootstrap replicates.")] = 200,
    jobs: Jobs = 1,
    replace: Annotated[
        bool, Option("--replace", help="Replace another set drawn with this seed.")
    ] = False,
) -> None:
    """Draw random, unpublished tasks from a survey's variables, and build them."""
    from lm_eval_epidemia.benchmarks.observation.fresh import build_set, plan_set

    planned = plan_set(
        survey,
        raw,
        n=n,
        seed=seed,
        dimension=_read_numbers(dimension),
        vintage=vintage,
        outcomes=split_names([outcomes] if outcomes else []),
        replicates=replicates,
    )
    drawn = planned.fresh_set
    if list_:
        _print_drawn(drawn)
    print(planned.said)
    if planned.lacking:
        print(planned.lacking)
    if list_:
        return
    try:
        kept = build_set(planned, jobs=jobs, replace=replace)
    except KeyboardInterrupt:
        print("\ninterrupted; finished tasks are kept, the same command continues", file=sys.stderr)
        raise typer.Exit(130) from None
    are = "is" if len(drawn.tasks) == 1 else "are"
    print(f"{plural(len(drawn.tasks), 'task')} of {survey} {drawn.vintage} {are} in {kept.folder}")
    if kept.short:
        print(f"boosting leaves less of the scale than counting did in {', '.join(kept.short)}")
    if not kept.is_joint:
        print(
            f"reports take the two as independent of the declared tasks of {survey}: for joint "
            f"errors, 'epidemia groundtruth build {survey} --raw FILE', then repeat this command"
        )
    print(f"group {drawn.group}: lm_eval --tasks {drawn.group} ...")


def _read_numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        expected = "expected numbers of conditions, such as 1,2,3"
        raise EpidemiaError(f"--dimension {text!r}: {expected}") from None


#: How estimators are said.
SAID = {"bins": "counting", "lightgbm": "boosting"}


def _print_drawn(drawn: FreshSet) -> None:
    from lm_eval_epidemia.estimate.estimators import estimator_of
    from lm_eval_epidemia.surveys.catalogue import find_record

    table = make_table("", "task", "outcome", "given", "estimated by")
    for task in drawn.tasks:
        way = find_record(drawn.survey).readings(task.outcome, drawn.vintage)[0]
        estimator = estimator_of(task, len(way.levels)).name
        table.add_row(task.name, task.outcome, ", ".join(task.given), SAID[estimator])
    print_table(table)


@app.command("write")
def tasks_write(
    folder: Annotated[
        Path, Argument(help="Folder to write: a new one, or one that this command wrote before.")
    ],
) -> None:
    """Write lm-eval's task files for every available truth."""
    from lm_eval_epidemia.core.folders import rewrite_folder
    from lm_eval_epidemia.harness import yamls

    files = yamls.render()
    with rewrite_folder(folder, yamls.MARKER) as staging:
        yamls.fill_folder(staging, files)
    print(f"{len(files)} task files are in {folder.resolve()}")


def export(
    out: Annotated[Path, Option(help="Folder to write: a new one, or an earlier export.")],
    push_to_hub: Annotated[
        Text, Option(help="Also upload to this dataset repository of the Hugging Face Hub.")
    ] = None,
    stated: Annotated[
        bool, Option("--stated", help="Export only tasks with written answers.")
    ] = False,
) -> None:
    """Write questions and truths as a dataset repository, for any harness."""
    from lm_eval_epidemia.harness.export import export as export_dataset

    folder = export_dataset(out, push_to_hub, stated)
    group = "epidemia_low_stated" if stated else "epidemia_low"
    print(f"the dataset repository is in {folder}")
    print("score answers in Python: lm_eval_epidemia.api.score_answers (docs/guides/elsewhere.md)")
    if find_spec("lm_eval"):
        print(f"or: lm_eval --include_path {folder / 'task_yamls'} --tasks {group} --model ...")
