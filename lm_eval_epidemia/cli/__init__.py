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
    quantities,
    report,
    running,
    survey,
    tasks,
)
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
#: What commands are for, in the order in which the help lists them.
RUN, LOOK, BUILD, RESEARCH = "Run", "Look", "Build", "Research"
app.command(
    rich_help_panel=RUN,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(running.run)
for panel, commands in (
    (RUN, (running.demo, running.path, running.cost)),
    (LOOK, (report.report, compare.compare, report.plot, report.share)),
    (LOOK, (about.show, about.search, groundtruth.anchors)),
    (BUILD, (tasks.export,)),
):
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for panel, name, group in (
    (LOOK, "tasks", tasks.app),
    (BUILD, "survey", survey.app),
    (BUILD, "groundtruth", groundtruth.app),
    (RESEARCH, "quantities", quantities.app),
    (RESEARCH, "finetune", finetune.app),
):
    app.add_typer(group, name=name, rich_help_panel=panel)


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


def _check_words(line: list[str]) -> list[str]:
    """Answer words of version 0.2 with those of this one."""
    if line[:2] == ["site", "build"]:
        raise EpidemiaError("'epidemia site build' is now 'epidemia report RESULTS --html FOLDER'")
    if line[:1] == ["report"]:
        from lm_eval_epidemia.findings.words import WORDS

        for word in line:
            if new := WORDS["old_options"].get(word.partition("=")[0]):
                raise EpidemiaError(f"{word} is now {new} ('--show help' lists all)")
    return line


def main() -> None:
    """Run the command; print an error that the user can mend in one line, without a traceback."""
    print_anything()
    try:
        with checked_output():
            app(_check_words(_take_records(sys.argv[1:])), prog_name="epidemia")
    except EpidemiaError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "lm_eval":
            raise
        from lm_eval_epidemia.harness.discovery import pinned

        install = f"pip install '{pinned() or 'lm-eval'}'"
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
