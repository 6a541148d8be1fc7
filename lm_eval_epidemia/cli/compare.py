"""The command ``epidemia compare``: two models, or all the ways in which models were asked."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Format, Informative, Where, check_format
from lm_eval_epidemia.cli.printing import show, show_sections
from lm_eval_epidemia.cli.report import results_of
from lm_eval_epidemia.core.errors import EpidemiaError


def compare(
    given: Annotated[
        list[str],
        Argument(
            metavar="A B RESULTS",
            help="Two models, and what was --output_path of lm_eval; or the latter alone.",
        ),
    ],
    models: Annotated[
        tuple[str, str] | None,
        Option("--models", metavar="A B", help="The models, where a folder is called like one."),
    ] = None,
    where: Where = None,
    cluster: Annotated[
        str | None,
        Option(help="Column of the documents of other tasks: its values are the observations."),
    ] = None,
    format: Format = "table",
    informative: Informative = False,
) -> None:
    """Compare two models, over our tasks and over any other tasks that both answered.

    'epidemia compare A B results/' says which of the models A and B is better, by how much, and
    whether that holds in other tasks too. They are named as 'epidemia report' names them. Tasks of
    others, such as MMLU, are compared document by document; both models have to be run with
    --log_samples. An argument that is a result file, or a folder that holds one, is read; any
    other argument is the name of a model. A model that is called like such a folder is named with
    --models A B.

    Without names, 'epidemia compare results/' puts a model's scores in all the ways it was asked
    side by side, and pairs them; if nothing was asked in two ways, and there are two models, it
    compares these.
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
            f"{missing} {'hold' if len(names) > 1 else 'holds'} no results, and two models are "
            "compared: expected 'epidemia compare A B RESULTS', or RESULTS alone"
        )
    if len(names) == 2:
        command = shlex.join(["epidemia", "compare", *names])
        raise EpidemiaError(
            f"neither {names[0]!r} nor {names[1]!r} holds results. Two models are compared from a "
            f"folder of results, which was --output_path of lm_eval: {command} RESULTS"
        )
    if cluster:
        raise EpidemiaError("--cluster is for two models: epidemia compare A B RESULTS")
    # Where nothing holds results, the last is what should.
    folders = folders or [Path(given[-1])]
    if pair := _ways(folders, informative, where, format):
        _two_models(*pair, folders, where, cluster, format, informative)


def _holds_results(path: Path) -> bool:
    from lm_eval_epidemia.results.results import result_files

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
    """Compare two models, and print what was found."""
    from lm_eval_epidemia.findings.two_models import compare_models
    from lm_eval_epidemia.report import output
    from lm_eval_epidemia.report import two_models as report
    from lm_eval_epidemia.results.models import conditions_of

    conditions = conditions_of(where or [])
    compared = compare_models(one, other, folders, conditions, cluster, informative)
    for note in dict.fromkeys(compared.notes):
        print(f"note: {note}", file=sys.stderr)
    if format == "csv":
        print(output.csv_of(report.as_rows(compared)), end="")
    elif format == "json":
        print(output.json_of({"notes": compared.notes, "rows": report.as_rows(compared)}))
    elif format == "latex":
        print(output.as_latex(report.as_sections(compared)))
    else:
        print("\n".join(report.in_words(compared)))


def _ways(
    results: list[Path], informative: bool, where: list[str] | None, format: str
) -> tuple[str, str] | None:
    """Put a model's scores in all the ways it was asked side by side, and pair them.

    Where nothing was asked in two ways there is nothing to pair: of two models, each with one run,
    return the names instead, in the order of `results`.
    """
    from lm_eval_epidemia.cli import listings
    from lm_eval_epidemia.findings import head_to_head, ways, wordings
    from lm_eval_epidemia.report.sections import printed
    from lm_eval_epidemia.results.models import models_of

    read = results_of(results, informative, where=where)
    in_wordings = wordings.asked_in_wordings(read.entries)
    in_one_way = all(len(asked.ways) == 1 for asked in ways.asked_in_ways(read.entries))
    models = models_of(read.entries) if in_one_way and not in_wordings else []
    if len(models) == 2 and all(len(model.runs) == 1 for model in models):
        first, second = sorted(models, key=lambda model: _place(model.shown, results))
        return first.name, second.name
    if format != "table":
        raise EpidemiaError(
            f"--format {format} is for two models; the ways of one are rows of 'epidemia report "
            f"--format {format}'"
        )
    for note in [*read.notes, *ways.without_tasks(read)]:
        print(f"note: {note}", file=sys.stderr)
    rows = ways.side_by_side(read)
    findings = [
        head_to_head.two_ways(ways.asked_in_ways(read.entries)),
        head_to_head.two_wordings(read.entries, in_wordings),
    ]
    sections = [printed(finding) for finding in findings if finding.rows]
    if not rows and not sections:
        raise EpidemiaError(
            "nothing to compare: no task has a score in all the ways in which its model was asked; "
            "run the same tasks in each way, such as --tasks epidemia_low,epidemia_low_stated"
        )
    if rows:
        show(listings.ways_compared(rows))
    show_sections(sections)
    if len(models) > 1:
        names = (model.name for model in models[:2])
        command = shlex.join(["epidemia", "compare", *names, *map(str, results)])
        print(f"Nothing was asked in two ways. To compare two models: {command}")
    return None


def _place(run: Any, folders: list[Path]) -> int:
    """Return in which of the folders a run is."""
    source = next(iter(run.scores.values())).source
    within = {source, *source.parents}
    return next((at for at, folder in enumerate(folders) if folder in within), len(folders))
