"""The command ``epidemia compare``: two models, or all the ways in which models were asked."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Format, Informative, Where, Wide
from lm_eval_epidemia.cli.printing import report_width
from lm_eval_epidemia.cli.report import print_notes, read_runs
from lm_eval_epidemia.core.errors import EpidemiaError


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
    wide: Wide = False,
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
    from lm_eval_epidemia.findings.versus import compare_models
    from lm_eval_epidemia.results.choose import conditions_of

    names = [*(models or (text for text in given if not _holds_results(Path(text))))]
    folders = [Path(text) for text in given if models or text not in names]
    if names and folders and len(names) != 2:
        missing = ", ".join(map(repr, names))
        raise EpidemiaError(
            f"no results in {missing}: expected 'epidemia compare A B RESULTS', RESULTS alone, or, "
            "if a folder has the name of a model, 'epidemia compare --models A B RESULTS'"
        )
    if len(names) == 2 and not folders:
        raise EpidemiaError(
            f"no results: expected {shlex.join(['epidemia', 'compare', *names])} RESULTS"
        )
    if cluster and len(names) != 2:
        raise EpidemiaError("--cluster needs two models: epidemia compare A B RESULTS")
    if len(names) != 2:
        # Where nothing holds results, the last is what should.
        folders = folders or [Path(given[-1])]
        names = _compare_ways(read_runs(folders, where, informative), folders, format, wide)
    if names:
        results, conditions = (
            read_runs(folders, informative=informative),
            conditions_of(where or []),
        )
        _print(compare_models(results, names[0], names[1], conditions, cluster), format)


def _holds_results(path: Path) -> bool:
    from lm_eval_epidemia.results.collect import result_files

    with suppress(EpidemiaError):
        return bool(result_files([path]))
    return False


def _print(compared: Any, format: str) -> None:
    """Print the comparison of two models."""
    import pandas as pd

    from lm_eval_epidemia.report.render import render
    from lm_eval_epidemia.report.screen import describe_versus

    to: Any = format
    for note in dict.fromkeys(compared.notes):
        print(f"note: {note}", file=sys.stderr)
    findings = [of for of in (compared.ours, compared.documents) if len(of.table)]
    if format == "table":
        print("\n".join(describe_versus(compared)))
    elif format in ("csv", "json"):
        table = pd.concat([of.table for of in findings], ignore_index=True)
        print(render(replace(findings[0], table=table), to), end="")
    else:
        print("\n".join(render(of, to) for of in findings))


def _compare_ways(results: Any, folders: list[Path], format: str, wide: bool) -> list[str]:
    """Compare a model's scores in all the ways and wordings it was asked, side by side and paired.

    If nothing was asked in two ways there is nothing to pair. Then, if there are two runs, of one
    model or of two, return their names in the order of `folders`.
    """
    from lm_eval_epidemia.findings import find
    from lm_eval_epidemia.report.render import render

    findings = [find(name)(results) for name in ("side-by-side", "ways", "wordings", "typed")]
    filled = [of for of in findings if len(of.table)]
    runs = results.runs
    scored = [*dict.fromkeys(results.scores["run"])]
    if not filled and len(scored) == 2:
        name = "model" if runs["model"][scored].is_unique else "name"
        files = [*results.files.itertuples(index=False)]
        held = [{run for run, x in files if folder in (x, *x.parents)} for folder in folders]
        return [
            runs[name][run] for run in sorted(scored, key=lambda x: [x not in of for of in held])
        ]
    if format != "table":
        raise EpidemiaError(
            f"--format {format} needs two models; else 'epidemia report --show ways'"
        )
    print_notes(results)
    for note in dict.fromkeys(note for of in findings for note in of.left_out):
        print(f"note: {note}", file=sys.stderr)
    if not filled:
        # A model's name is enough if it has one run.
        names = runs["name"].where(runs["model"].duplicated(keep=False), runs["model"])
        two = names[~runs["model"].duplicated()][:2]
        command = shlex.join(["epidemia", "compare", *two, *map(str, folders)])
        raise EpidemiaError(
            "nothing to compare: no task has a score in all the ways in which its model was asked"
            f"{f'; or name two models: {command}' if len(two) == 2 else ''}"
        )
    width = None if wide else report_width()
    print("\n".join(render(of, "text", wide, width) for of in filled), end="")
    return []
