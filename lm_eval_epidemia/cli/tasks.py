"""The commands ``epidemia tasks`` and ``export``: tasks listed, drawn anew, written."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli import fresh
from lm_eval_epidemia.cli.options import NamesOrAll, Text, complete_surveys
from lm_eval_epidemia.cli.printing import fits, show, table_of
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural

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
    from lm_eval_epidemia.benchmarks import meant
    from lm_eval_epidemia.cli import listings

    every = tasks()
    declared = concat(map(tasks, separated([survey]))) if survey else every
    if names:
        wanted = {leaf.entry.name for name in separated(names) for leaf in meant(name)}
        if beside := sorted(wanted - {*every.task}):
            raise EpidemiaError(
                f"{few(beside)}: not about surveys; 'epidemia show NAME' describes them"
            )
        if not wanted & {*declared.task}:
            surveys, groups = every.survey[every.task.isin(wanted)], declared.group
            raise EpidemiaError(
                f"{', '.join(separated(names))} has no tasks of {survey}, only of "
                f"{few([*surveys.unique()])}; those of {survey} are in {few([*groups.unique()])}"
            )
        declared = declared[declared.task.isin(wanted)]
    if summary:
        show(listings.tasks_summary(declared))
        return
    rows = [("task", "state", "title")]
    for task in declared.to_dict("records"):
        state = "needs {needs}" if task["state"] == "waiting" else "{state} ({vintage})"
        state += ", stand-in" * bool(task["stands_for"])
        rows.append((task["task"], state.format_map(task), task["title"]))
    if fits(rows):
        table = table_of("", *rows[0])
        for row in rows[1:]:
            table.add_row(*row)
        show(table)
    else:
        for name, state, title in rows[1:]:
            print(f"{name}\n  {state}: {title}")
    print(f"{sum(declared.state != 'waiting')} of {plural(len(declared), 'task')} available")
    for say in (listings.published, listings.standins, listings.waiting):
        for line in say(declared):
            print(line)
    if survey is None and not names:
        print("other tasks are about causal graphs (docs/guides/interventional.md)")
        print("and epidemia_quick predicts epidemia_low and epidemia_high (docs/start/running.md)")


app.command("fresh")(fresh.fresh)


@app.command("write")
def tasks_write(
    folder: Annotated[
        Path, Argument(help="Folder to write: a new one, or one that this command wrote before.")
    ],
) -> None:
    """Write lm-eval's task files for every available truth."""
    from lm_eval_epidemia.harness import yamls

    files = yamls.render()
    yamls.write(folder, files, replace=True)
    print(f"{len(files)} task files are in {folder.resolve()}")


def export(
    out: Annotated[
        Path | None, Option(help="Folder to write: a new one, or an earlier export.")
    ] = None,
    push_to_hub: Annotated[
        Text, Option(help="Also upload to this dataset repository of the Hugging Face Hub.")
    ] = None,
    stated: Annotated[
        bool, Option("--stated", help="Export only tasks with written answers.")
    ] = False,
    inspect_register: Annotated[
        Path | None, Option(help="Folder for the files that Inspect's register of evals expects.")
    ] = None,
) -> None:
    """Write questions and truths as a dataset repository, for any harness."""
    if inspect_register and out is not None and out.resolve() == inspect_register.resolve():
        raise EpidemiaError("export: --out and --inspect-register name the same folder: give two")
    if out is None and (stated or push_to_hub):
        raise EpidemiaError("export: --stated and --push-to-hub need --out FOLDER")
    if inspect_register:
        from lm_eval_epidemia.inspect_ai.register import write

        print(write(inspect_register))
    if out is None:
        if not inspect_register:
            raise EpidemiaError("export: give --out FOLDER, or --inspect-register FOLDER")
        return
    from lm_eval_epidemia.harness.export import export as export_dataset

    folder, group = export_dataset(out, push_to_hub, stated), "epidemia_low" + "_stated" * stated
    print(f"the dataset repository is in {folder}")
    print("score answers in Python: lm_eval_epidemia.api.score_answers (docs/guides/elsewhere.md)")
    if find_spec("lm_eval"):
        print(f"or: lm_eval --include_path {folder / 'task_yamls'} --tasks {group} --model ...")
