"""The command ``epidemia compare``: two models, or all the ways in which models were asked."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Format, Informative, Where, check_format
from lm_eval_epidemia.cli.printing import report_width
from lm_eval_epidemia.cli.report import read, say_notes
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.held import held


@held()
def compare(
    given: Annotated[
        list[str],
        Argument(
            metavar="A B RESULTS",
            help="Two models and a folder of results that lm_eval wrote; or the folder alone.",
        ),
    ],
    models: Annotated[
        tuple[str, str] | None,
        Option("--models", metavar="A B", help="The two models, if a folder has the name of one."),
    ] = None,
    where: Where = None,
    cluster: Annotated[
        str | None,
        Option(
            help="For tasks of others: the column that groups documents into independent clusters."
        ),
    ] = None,
    format: Format = "table",
    informative: Informative = False,
) -> None:
    """Compare two models on our tasks and on any other tasks that both answered.

    'epidemia compare A B results/' says whether model A or B is better, by how much, and whether
    that holds in other tasks too. Name models as 'epidemia report' does. Tasks of others, such as
    MMLU, are compared document by document; run both models with --log_samples. Arguments that are
    result files, or folders of them, are read; any other argument is a model. If a folder has the
    same name as a model, use --models A B.

    Without names, 'epidemia compare results/' compares the ways in which each model was asked. If
    each was asked in one way, and there are two models, it compares the models.
    """
    check_format(format)
    if models is None:
        folders = [Path(text) for text in given if _holds_results(Path(text))]
        names = [text for text in given if Path(text) not in folders]
    else:
        folders, names = [Path(text) for text in given], list(models)
    if len(names) == 2 and folders:
        _two_models(names[0], names[1], folders, where, cluster, format, informative)
        return
    if names and folders:
        missing = ", ".join(map(repr, names))
        raise EpidemiaError(
            f"{missing} {'hold' if len(names) > 1 else 'holds'} no results: expected two models "
            "and a folder ('epidemia compare A B RESULTS'), or RESULTS alone"
        )
    if len(names) == 2:
        command = shlex.join(["epidemia", "compare", *names])
        raise EpidemiaError(
            f"neither {names[0]!r} nor {names[1]!r} holds results: add the folder that lm_eval "
            f"wrote (--output_path): {command} RESULTS"
        )
    if cluster:
        raise EpidemiaError("--cluster needs two models: epidemia compare A B RESULTS")
    # Where nothing holds results, the last is what should.
    folders = folders or [Path(given[-1])]
    if pair := _ways(folders, informative, where, format):
        _two_models(*pair, folders, where, cluster, format, informative)


def _holds_results(path: Path) -> bool:
    from lm_eval_epidemia.results.files import result_files

    try:
        return bool(result_files([path]))
    except EpidemiaError:
        return False


def _two_models(
    one: str,
    other: str,
    folders: list[Path],
    where: list[str] | None,
    cluster: str | None,
    format: str,
    informative: bool,
) -> None:
    """Compare two models, and print the comparison."""
    import pandas as pd

    from lm_eval_epidemia.findings.versus import compare_models
    from lm_eval_epidemia.report.render import render
    from lm_eval_epidemia.report.versus import in_words
    from lm_eval_epidemia.results.choose import conditions_of

    results = read(folders, informative=informative)
    compared = compare_models(results, one, other, conditions_of(where or []), cluster)
    for note in dict.fromkeys(compared.notes):
        print(f"note: {note}", file=sys.stderr)
    findings = [of for of in (compared.ours, compared.documents) if len(of.table)]
    if format == "table":
        print("\n".join(in_words(compared)))
    elif format == "latex":
        print("\n".join(render(of, "latex") for of in findings))
    else:
        table = pd.concat([of.table for of in findings], ignore_index=True)
        to: Any = format
        print(render(replace(findings[0], table=table), to), end="")


def _ways(
    folders: list[Path], informative: bool, where: list[str] | None, format: str
) -> tuple[str, str] | None:
    """Compare a model's scores in all the ways and wordings it was asked, side by side and paired.

    If nothing was asked in two ways there is nothing to pair. Then, if there are two runs, of one
    model or of two, return their names in the order of `folders`.
    """
    from lm_eval_epidemia.findings import find
    from lm_eval_epidemia.report.render import render

    results = read(folders, where, informative)
    findings = [find(name)(results) for name in ("side-by-side", "ways", "wording")]
    filled = [of for of in findings if len(of.table)]
    scored = [*dict.fromkeys(results.scores["run"])]
    if not filled and len(scored) == 2:
        first, second = sorted(scored, key=lambda run: _place(results, run, folders))
        models = results.runs["model"]
        name = "model" if models[first] != models[second] else "name"
        return results.runs[name][first], results.runs[name][second]
    if format != "table":
        raise EpidemiaError(
            f"--format {format} needs two models; for the ways of asking one, see 'epidemia "
            f"report --show ways --format {format}'"
        )
    say_notes(results)
    for note in dict.fromkeys(note for of in findings for note in of.left_out):
        print(f"note: {note}", file=sys.stderr)
    if not filled:
        raise EpidemiaError(
            "nothing to compare: no task has a score in all the ways in which its model was "
            "asked. Run the same tasks in each way, such as --tasks "
            "epidemia_low,epidemia_low_stated; or name two models"
        )
    print("\n".join(render(of, "text", width=report_width(False)) for of in filled), end="")
    return None


def _place(results: Any, run: int, folders: list[Path]) -> int:
    """Return the position of the folder that holds a run."""
    files = results.files[results.files["run"] == run]["path"]
    within = {place for file in files for place in (file, *file.parents)}
    return next((at for at, folder in enumerate(folders) if folder in within), len(folders))
