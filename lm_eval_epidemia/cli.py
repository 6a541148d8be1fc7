"""The ``epidemia`` command. Every command calls a function that a Python user can call too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lm_eval_epidemia import __version__
from lm_eval_epidemia.errors import EpidemiaError

app = typer.Typer(
    name="epidemia",
    help="Do language models know how the world is distributed? Survey truths for lm-eval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
tasks_app = typer.Typer(no_args_is_help=True, help="The tasks and where their truth comes from.")
truth_app = typer.Typer(no_args_is_help=True, help="Build and check ground truth.")
app.add_typer(tasks_app, name="tasks")
app.add_typer(truth_app, name="groundtruth")


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        # The first column holds names, to be copied whole; a narrow terminal folds the others.
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=number == 0,
        )
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    # Piped output is for other programs: never fold a name.
    Console(width=None if Console().is_terminal else 1000).print(table)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(context: typer.Context) -> None:
    """Run lm-eval: same options, ready in seconds when only our tasks are asked for."""
    from lm_eval_epidemia.harness.run import run as run_lm_eval

    run_lm_eval(context.args)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for lm-eval's results.")] = Path(
        "epidemia-demo"
    ),
    limit: Annotated[
        int | None, typer.Option(help="Prompts per task for the tiny transformer.")
    ] = None,
) -> None:
    """Evaluate known respondents (and, with torch, a tiny random model), offline."""
    import os

    # Nothing here needs the network, and asking for it would only make an offline run slow.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    # lm-eval shows a bar per task and run; the demonstration has one of its own.
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval.utils import setup_logging

    from lm_eval_epidemia.harness.demo import demo as run_demo

    setup_logging()
    lines = run_demo(out, limit)
    groups = list(lines[0].scores)
    table = _table("Score, 0 to 100 (± standard error)", "respondent", *groups, right=tuple(groups))
    for line in lines:
        cells = [f"{score:.1f} ± {error:.1f}" for score, error in line.scores.values()]
        table.add_row(line.respondent, *cells)
    _print(table)
    print(f"lm-eval's results are in {out.resolve()}")


@app.command()
def path() -> None:
    """Print the folder of our task files, for lm_eval --include_path."""
    from lm_eval_epidemia.harness.yamls import task_path

    print(task_path())


@app.command()
def anchors(
    names: Annotated[list[str] | None, typer.Argument(help="Tasks; all if none.")] = None,
    quantile: Annotated[float, typer.Option(help="Of the bootstrap distances.")] = 0.95,
    bootstrap: Annotated[
        str | None, typer.Option(help="iid or design; what scores use, if not given.")
    ] = None,
) -> None:
    """Print the distances that fix each task's scale, and what the mean respondent scores."""
    from lm_eval_epidemia.estimate import store
    from lm_eval_epidemia.score import score as scoring

    if not 0 < quantile < 1:
        raise EpidemiaError(f"--quantile {quantile} is not between 0 and 1")
    scheme = None if bootstrap is None else _scheme(bootstrap)
    numbers = ("cells", "D_uniform", "D_zero_one", "D_mean", "D_perfect", "score of mean")
    table = _table("", "task", *numbers, right=numbers)
    for name in names or store.available():
        truth = store.load(name)
        perfect = truth.d_perfect(quantile, scheme)
        found = scoring.anchors(truth.weights, truth.p, perfect)
        mean = float(scoring.scale(found.mean, found.zero, found.perfect))
        table.add_row(
            name,
            str(len(truth.weights)),
            *(f"{distance:.4f}" for distance in found),
            f"{mean:.6f}" + ("" if found.informative else " (uninformative)"),
        )
    _print(table)


def _scheme(name: str) -> Any:
    if name not in ("iid", "design"):
        raise EpidemiaError(f"--bootstrap {name!r} is not known: expected iid or design")
    return name


@tasks_app.command("list")
def tasks_list(
    survey: Annotated[str | None, typer.Option(help="Only this survey.")] = None,
) -> None:
    """List every declared task with its state: shipped, built here, or the file it needs."""
    from lm_eval_epidemia.estimate import store
    from lm_eval_epidemia.surveys.record import all_tasks, record

    if survey:
        record(survey)
    places = store.available()
    table = _table("", "task", "state", "title")
    shown = [task for task in all_tasks().values() if survey in (None, task.survey)]
    for task in shown:
        place = places.get(task.name)
        if place:
            state = f"{place.state} ({place.key.split('_', 1)[1]})"
        else:
            entry = record(task.survey)
            state = f"needs {entry.vintages[entry.official].needed}"
        table.add_row(task.name, state, task.title)
    _print(table)
    here = sum(task.name in places for task in shown)
    print(f"{here} of {len(shown)} tasks are available")


@tasks_app.command("write")
def tasks_write(
    folder: Annotated[Path, typer.Argument(help="Folder to replace.")],
) -> None:
    """Write the task files of everything available, as task_yamls/ holds them."""
    from lm_eval_epidemia.estimate import store
    from lm_eval_epidemia.harness import yamls

    if folder.exists() and any(folder.iterdir()) and not (folder / yamls.BASE).exists():
        raise EpidemiaError(
            f"{folder} holds other files and would be replaced: give another folder"
        )
    files = yamls.render(store.available())
    yamls.write(folder, files, replace=True)
    print(f"{len(files)} task files are in {folder.resolve()}")


@truth_app.command("build")
def truth_build(
    survey: Annotated[str, typer.Argument(help="For example nsduh.")],
    raw: Annotated[list[Path], typer.Option(help="Files.")],
    vintage: Annotated[str | None, typer.Option(help="Where the file does not tell.")] = None,
    bootstrap: Annotated[
        list[str] | None, typer.Option(help="iid or design; both if the survey allows it.")
    ] = None,
    replicates: Annotated[
        int, typer.Option(help="Bootstrap replicates (half as many with several conditions).")
    ] = 200,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder; default: your own.")] = None,
) -> None:
    """Build the truth of every task that a survey file allows."""
    from lm_eval_epidemia.estimate.build import build
    from lm_eval_epidemia.harness.discovery import forget_cached_requests
    from lm_eval_epidemia.harness.yamls import task_path

    schemes = [_scheme(name) for name in bootstrap] if bootstrap else None
    try:
        built = build(
            survey, raw, vintage=vintage, bootstrap=schemes, replicates=replicates, jobs=jobs,
            out=out,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("\ninterrupted; finished tasks are kept, the same command continues", file=sys.stderr)
        raise typer.Exit(130) from None
    print(f"{len(built.tasks)} tasks of {built.key} are in {built.folder.resolve()}")
    if built.left_out:
        print(f"{len(built.left_out)} tasks ask for variables that the files lack:")
        for name in built.left_out:
            print(f"  {name}")
    if out is None:
        forget_cached_requests(built.tasks)
        print(f"lm-eval finds them in {task_path()}")


@truth_app.command("check")
def truth_check() -> None:
    """Verify hashes and invariants of all ground truth that is used here."""
    from lm_eval_epidemia.estimate import store

    places = store.available()
    wrong = {name: problems for name in places if (problems := store.check(name))}
    for name, problems in wrong.items():
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)
    if wrong:
        raise EpidemiaError(f"{len(wrong)} of {len(places)} tasks have a wrong ground truth")
    print(f"ground truth of {len(places)} tasks is as registered")


@app.command()
def export(
    out: Annotated[Path, typer.Option(help="A new folder.")],
    push_to_hub: Annotated[
        str | None, typer.Option(help="Upload to this dataset repository.")
    ] = None,
) -> None:
    """Write the questions as a Hugging Face dataset repository."""
    from lm_eval_epidemia.harness.export import export as export_dataset

    folder = export_dataset(out, push_to_hub)
    print(f"the dataset repository is in {folder}")
    print(f"try: lm_eval --include_path {folder / 'task_yamls'} --tasks epidemia_low --model ...")


def main() -> None:
    """Run the command; what a user can mend is one line without a traceback."""
    try:
        app()
    except EpidemiaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
