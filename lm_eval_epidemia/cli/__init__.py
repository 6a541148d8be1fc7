"""The ``epidemia`` command. Every command calls a function that a Python user can call too."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from lm_eval_epidemia.cli import (
    about,
    compare,
    finetune,
    groundtruth,
    printing,
    quantities,
    report,
    running,
    survey,
    tasks,
)
from lm_eval_epidemia.cli.printing import make_table
from lm_eval_epidemia.core.console import checked_output, print_anything
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__

app = typer.Typer(
    name="epidemia",
    help="Do language models know how the world is distributed? Ask them with lm-eval.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: The commands that the help lists, by what they are for, and those that only `more` lists.
_FIRST = {
    "Run": (running.demo, running.cost),
    "Look": (report.report, compare.compare, about.show, about.search),
}
_GROUPS = {"survey": survey.app, "groundtruth": groundtruth.app}
_MORE = (report.plot, report.share, groundtruth.anchors, tasks.export, running.path)
_MORE_GROUPS = {"tasks": tasks.app, "quantities": quantities.app, "finetune": finetune.app}
app.command(
    rich_help_panel="Run",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(running.run)
for panel, commands in _FIRST.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for name, group in _GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel="Build")
for other in _MORE:
    app.command(hidden=True)(other)
for name, group in _MORE_GROUPS.items():
    app.add_typer(group, name=name, hidden=True)


@app.command(rich_help_panel="Build")
def more() -> None:
    """List the other commands: plot, share, anchors, export, path, tasks, quantities, finetune."""
    table = make_table("", "epidemia ...", "what it does")
    for command in _MORE:
        table.add_row(command.__name__, (command.__doc__ or "").splitlines()[0])
    for name, group in _MORE_GROUPS.items():
        table.add_row(name, group.info.help)
    printing.print_table(table)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
    record: Annotated[
        list[Path] | None,
        Option(
            help="Use your own survey record (.yaml), or a folder of records. The option may stand "
            "anywhere and be repeated."
        ),
    ] = None,  # `main` has taken them
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def _take_records(line: list[str]) -> list[str]:
    """Take ``--record PATH`` out of a command line, for this process and those it starts."""
    rest, given, words = [], [], iter(line)
    for word in words:
        name, is_equal, value = word.partition("=")
        if name != "--record":
            rest.append(word)
        elif value := value if is_equal else next(words, ""):
            given.append(str(Path(value).resolve()))
        else:
            raise EpidemiaError(
                "--record has no value: expected the path of a record (.yaml) or of a folder"
            )
    if given:
        from lm_eval_epidemia.core.paths import RECORDS

        before = filter(None, [os.environ.get(RECORDS)])
        os.environ[RECORDS] = os.pathsep.join([*before, *given])
    return rest


def main() -> None:
    """Run the command; print an error that the user can mend in one line, without a traceback."""
    print_anything()
    try:
        with checked_output():
            app(_take_records(sys.argv[1:]), prog_name="epidemia")
    except EpidemiaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lm_eval":
            raise
        from lm_eval_epidemia.harness.discovery import find_pin

        install = f"pip install '{find_pin() or 'lm-eval'}'"
        if {"-h", "--help"} & set(sys.argv):  # of `run`, whose options are lm-eval's
            print(f"{running.run.__doc__}\nIts help is lm-eval's, and needs it: {install}")
            return
        print(f"error: this command needs lm-eval: {install}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if not _without_docstrings():
            raise
        print(f"error: {type(error).__name__}: {error}\n{NO_DOCSTRINGS}", file=sys.stderr)
        sys.exit(2)


NO_DOCSTRINGS = (
    "PYTHONOPTIMIZE=2 (python -OO) removes docstrings, and altair, lightgbm, peft and "
    "transformers do not work without them: unset it, or set it to 1"
)


def _without_docstrings() -> bool:
    return sys.flags.optimize > 1
