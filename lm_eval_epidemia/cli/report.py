"""The commands that read results: ``epidemia compare``, ``report``, ``plot``, ``site build``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import Texts
from lm_eval_epidemia.cli.printing import report_width, show, show_lines, show_sections
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs

site_app = typer.Typer(no_args_is_help=True, help="Write the site of results.")

_RESULTS = Annotated[
    list[Path], Argument(help="Folders or files that lm_eval wrote (--output_path).")
]
_SIZES = Annotated[
    Texts,
    Option("--size", help="Give a model's size, MODEL=7B, where no file tells; also repeatedly."),
]
_PAIRS = Annotated[
    Texts,
    Option(
        help="Pair BASE=INSTRUCT, BASE=TUNED or PLAIN=RETRIEVING, where nothing tells; repeatedly."
    ),
]
_PUBLISHED = Annotated[
    bool, Option("--published", help="Add the published models, marked as such.")
]
_INFORMATIVE = Annotated[
    bool, Option("--informative", help="Leave the barely informative tasks out.")
]
_WHERE = Annotated[
    Texts,
    Option(help="Runs with these settings only: limit=none,dtype=bfloat16; repeatedly."),
]


_FORMAT = Annotated[  # the name of the option
    str, Option("--format", help="Print this format: table, csv, json or latex.")
]


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
    where: _WHERE = None,
    cluster: Annotated[
        str | None,
        Option(help="Column of the documents of other tasks: its values are the observations."),
    ] = None,
    format: _FORMAT = "table",
    informative: _INFORMATIVE = False,
) -> None:
    """Compare two models, over our tasks and over any other tasks that both answered.

    'epidemia compare A B results/' says which of the models A and B is better, by how much, and
    whether that holds in other tasks too. They are named as 'epidemia report' names them. Tasks of
    others, such as MMLU, are compared document by document; both models have to be run with
    --log_samples. An argument that is a result file, or a folder that holds one, is read; any
    other argument is the name of a model. A model that is called like such a folder is named with
    --models A B.

    Without names, 'epidemia compare results/' puts a model's scores in all the ways it was asked
    side by side, and pairs them.
    """
    _check_format(format)
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
    if cluster:
        raise EpidemiaError("--cluster is for two models: epidemia compare A B RESULTS")
    if format != "table":
        raise EpidemiaError(
            f"--format {format} is for two models; the ways of one are rows of 'epidemia report "
            f"--format {format}'"
        )
    # Where nothing holds results, the last is what should: two models may stand before it.
    _ways(folders or [Path(given[-1])], informative, where)


def _holds_results(path: Path) -> bool:
    from lm_eval_epidemia.results.results import result_files

    try:
        return bool(result_files([path]))
    except EpidemiaError:
        return False


def _check_format(format: str) -> None:
    if format not in ("table", "csv", "json", "latex"):
        raise EpidemiaError(f"--format {format!r}: expected table, csv, json or latex")


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


def _ways(results: list[Path], informative: bool, where: list[str] | None) -> None:
    """Put a model's scores in all the ways it was asked side by side, and pair them."""
    from lm_eval_epidemia.cli import listings
    from lm_eval_epidemia.findings import head_to_head, ways
    from lm_eval_epidemia.report.sections import printed

    read = _results(results, informative, where=where)
    for note in [*read.notes, *ways.without_tasks(read)]:
        print(f"note: {note}", file=sys.stderr)
    rows = ways.side_by_side(read)
    in_wordings = ways.asked_in_wordings(read.entries)
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


def _results(
    results: list[Path],
    informative: bool,
    sizes: dict[str, float] | None = None,
    where: list[str] | None = None,
) -> Any:
    """Read result files: runs of some settings, without barely informative tasks, if so wished."""
    from lm_eval_epidemia.findings import leaderboard
    from lm_eval_epidemia.results.models import chosen, conditions_of
    from lm_eval_epidemia.results.results import read_results

    read = read_results(results, sizes)
    if conditions := conditions_of(where or []):
        kept = chosen(read.entries, conditions)
        note = f"--where leaves {len(read.entries) - len(kept)} of {len(read.entries)} rows out"
        read = read._replace(entries=kept, notes=[*read.notes, note])
    return leaderboard.informative(read) if informative else read


def _report(
    results: list[Path],
    sizes: list[str] | None = None,
    published: bool = False,
    pairs: list[str] | None = None,
    informative: bool = False,
    where: list[str] | None = None,
) -> Any:
    """Read result files and compare them."""
    from lm_eval_epidemia.findings.leaderboard import make_report
    from lm_eval_epidemia.findings.tuned import pair_in
    from lm_eval_epidemia.results.results import model_size

    given = {name: model_size(text) for name, text in _pairs("--size", sizes, "MODEL=7B")}
    read = _results(results, informative, given, where)
    models = {entry.model for entry in read.entries}
    return make_report(read, published, [pair_in(text, models) for text in pairs or []])


def _say_notes(report: Any) -> Any:
    """Say on stderr what a reader must know about results."""
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    return report


def _pairs(option: str, given: list[str] | None, form: str) -> list[tuple[str, str]]:
    """Read options of the form NAME=VALUE; a name may hold a = itself."""
    pairs = []
    for text in given or []:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise EpidemiaError(f"{option} {text!r}: expected {form}")
        pairs.append((name, value))
    return pairs


def report(
    results: _RESULTS,
    format: _FORMAT = "table",
    html: Annotated[Path | None, Option(help="Write the site into this folder too.")] = None,
    full: Annotated[bool, Option("--full", help="Every table, and every note.")] = False,
    section: Annotated[
        str | None, Option(help="One part of --full, such as survey, pair or notes.")
    ] = None,
    wide: Annotated[bool, Option("--wide", help="Tables wider than 100 columns.")] = False,
    where: _WHERE = None,
    effects: Annotated[
        bool,
        Option("--effects", help="Print long tables too, of interventions, priors and tuning."),
    ] = False,
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: _INFORMATIVE = False,
    standardised: Annotated[
        bool, Option("--standardised", help="Add what answers in samples imply, over age.")
    ] = False,
    recalibrated: Annotated[
        bool, Option("--recalibrated", help="Add what answers score with the survey's P(Y).")
    ] = False,
    scales: Annotated[
        bool, Option("--scales", help="Add other scales, tilt and slope, from the samples.")
    ] = False,
    probe: Annotated[
        bool, Option("--probe", help="Add published tasks against fresh ones like them.")
    ] = False,
    cutoff: Annotated[
        Texts, Option(help="Compare vintages before and after MODEL=2024-06; repeatedly.")
    ] = None,
) -> None:
    """Say in one screen which model knows the world best, and what that rests on.

    Runs with --full print every table: leaderboard, slices, paired comparisons, other tasks.
    """
    from lm_eval_epidemia.findings import probe as probing
    from lm_eval_epidemia.findings import recalibrated as tilted
    from lm_eval_epidemia.findings import scales as others
    from lm_eval_epidemia.findings import standardised as standard
    from lm_eval_epidemia.findings import tilt, tuning, tuning_rows, tuning_tables
    from lm_eval_epidemia.report import output
    from lm_eval_epidemia.report.sections import printed, tidy

    _check_format(format)
    if section and format in ("csv", "json"):
        raise EpidemiaError(f"--section {section} is for tables: --format {format} has every part")
    write = _site_writer() if html is not None else None
    dates = _pairs("--cutoff", cutoff, "MODEL=2024-06")
    read = _report(results, size, published, pair, informative, where)
    screen = format == "table" and not (full or effects or section)
    if not (screen or section == "notes"):
        _say_notes(read)
    cutoffs = probing.cutoffs_of(dates, read)
    failed = None
    # First: whoever reads the tables may stop reading ('| head') before they end.
    if html is not None and write is not None:
        try:
            write(read, html, cutoffs)
        except EpidemiaError as error:
            failed = error  # of the site alone
    implied, notes = _made(standard.read, read) if standardised else ([], [])
    known, more_notes = _made(tilted.read, read) if recalibrated else ([], [])
    answered, other_notes = _made(others.read, read) if scales else ([], [])
    for note in dict.fromkeys([*notes, *more_notes, *other_notes]):
        print(f"note: {note}", file=sys.stderr)
    probed = probing.probed(read, cutoffs) if probe or cutoffs else probing.Probe([], [], [])
    for note in probed.notes:
        print(f"note: {note}", file=sys.stderr)
    from_samples = [
        standard.finding(implied),
        tilted.finding(known),
        others.finding(answered),
        tilt.finding(answered),
    ]
    of_probe = probing.findings(probed)
    if format in ("json", "csv"):
        findings = [*from_samples, *tuning_tables.findings(tuning.read(read)), *of_probe]
        more = [row for finding in findings for row in tidy(finding)]
        if format == "json":
            print(output.as_json(read, more))
        else:
            print(output.as_csv(read, more), end="")
    elif screen:
        from lm_eval_epidemia.findings.summary import summary
        from lm_eval_epidemia.report.screen import WIDTH, lines

        show_lines(lines(summary(read), None if wide else min(report_width(wide), WIDTH)))
        asked = [printed(finding) for finding in (*from_samples, *of_probe) if finding.rows]
        show_sections(asked, report_width(wide))
    else:
        tuned = tuning_tables.tables(tuning.read(read), effects)
        learning = tuning_rows.learning_table(read)
        findings = [*from_samples, *tuned, *learning, *of_probe]
        tables = [printed(finding, effects) for finding in findings if finding.rows]
        sections = [*output.sections(read, effects), *tables]
        if section:
            _show_part(section, sections, read.notes, wide)
        elif format == "latex":
            print(output.as_latex(sections))
        else:
            show_sections(sections, report_width(wide))
    if failed is not None:
        raise failed


def _made(of: Callable[[Any], tuple[Any, list[str]]], report: Any) -> tuple[Any, list[str]]:
    """Return what a part of the report is made of; where that fails, nothing, and why as notes."""
    try:
        return of(report)
    except EpidemiaError as error:
        return [], str(error).splitlines()


def _show_part(name: str, sections: Sequence[Any], notes: Sequence[str], wide: bool) -> None:
    """Print the tables of one kind, or the notes."""
    if name == "notes":
        print("\n".join(notes) or "There are no notes.")
        return
    kinds = [*dict.fromkeys(section.kind for section in sections), "notes"]
    if name not in kinds:
        raise EpidemiaError(f"--section {name!r}: these results have {', '.join(kinds)}")
    show_sections([section for section in sections if section.kind == name], report_width(wide))


def _site_writer() -> Callable[..., None]:
    """Return what writes the site; without the extra, refuse before any result is read."""
    with needs("report", "the site"):
        from lm_eval_epidemia.report.site import build_site

    def write(report: Any, out: Path, cutoffs: Sequence[Any] = ()) -> None:
        index = build_site(report, out, cutoffs)
        # Beside a report that is read by a program, this is no part of it.
        print(f"the site is in {out.resolve()}: open {index}", file=sys.stderr)

    return write


@site_app.command("build")
def site_build(
    results: _RESULTS,
    out: Annotated[Path, Option(help="Write into this folder, a new one or one with a site.")],
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: _INFORMATIVE = False,
    where: _WHERE = None,
) -> None:
    """Write a static site with leaderboard, method, explorer, figures and surveys."""
    write = _site_writer()
    write(_say_notes(_report(results, size, published, pair, informative, where)), out)


def plot(
    name: Annotated[str, Argument(help="The name of a figure; 'list' prints them.")],
    results: Annotated[
        list[Path] | None, Argument(help="Folders or files that lm_eval wrote (--output_path).")
    ] = None,
    out: Annotated[Path | None, Option(help="Write this .svg, .png, .pdf or .json file.")] = None,
    task: Annotated[str | None, Option(help="Draw this task, where a figure shows one.")] = None,
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: _INFORMATIVE = False,
    where: _WHERE = None,
) -> None:
    """Save a figure of the site for a paper."""
    from lm_eval_epidemia.report import figures

    if name == "list":
        for known, figure in figures.FIGURES.items():
            print(f"{known}: {figure.says}")
        return
    if name in figures.FIGURES and figures.FIGURES[name].needs_results and not results:
        raise EpidemiaError(f"{name} shows results: give what was --output_path of lm_eval")
    path = figures.save(
        name,
        lambda: _say_notes(_report(results or [], size, published, pair, informative, where)),
        out,
        task,
    )
    print(f"{name} is in {path.resolve()}")
