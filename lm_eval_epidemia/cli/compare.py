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
    """Compare two models, and print the comparison."""
    from lm_eval_epidemia.old.findings.two_models import compare_models
    from lm_eval_epidemia.old.report import output
    from lm_eval_epidemia.old.report import two_models as report
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
    """Compare a model's scores in all the ways it was asked, side by side and paired.

    If nothing was asked in two ways there is nothing to pair. Then, if there are two models with
    one run each, return their names in the order of `results`.
    """
    from lm_eval_epidemia.cli import listings
    from lm_eval_epidemia.old.findings import head_to_head, ways, wordings
    from lm_eval_epidemia.old.report.sections import printed
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
            f"--format {format} needs two models; for the ways of asking one, see 'epidemia "
            f"report --format {format}'"
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
            "nothing to compare: no task has a score in all the ways in which its model was "
            "asked. Run the same tasks in each way, such as --tasks "
            "epidemia_low,epidemia_low_stated"
        )
    if rows:
        show(listings.ways_compared(rows))
    show_sections(sections)
    if len(models) > 1:
        names = (model.name for model in models[:2])
        command = shlex.join(["epidemia", "compare", *names, *map(str, results)])
        print(f"Each model was asked in one way. To compare two models: {command}")
    return None


def _place(run: Any, folders: list[Path]) -> int:
    """Return the position of the folder that holds a run."""
    source = next(iter(run.scores.values())).source
    within = {source, *source.parents}
    return next((at for at, folder in enumerate(folders) if folder in within), len(folders))
