"""The commands that report results: ``epidemia report``, ``plot``, ``site build``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import Format, Informative, Texts, Where, check_format
from lm_eval_epidemia.cli.printing import report_width, show_lines, show_sections
from lm_eval_epidemia.core.errors import EpidemiaError, plural
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.folders import check_rewritable

site_app = typer.Typer(no_args_is_help=True, help="Write the site of results.")

_RESULTS = Annotated[
    list[Path], Argument(help="Folders or files that lm_eval wrote (--output_path).")
]
_SIZES = Annotated[
    Texts,
    Option("--size", help="Size of a model, MODEL=7B, if the results do not say; repeatable."),
]
_PAIRS = Annotated[
    Texts,
    Option(help="Compare BASE=INSTRUCT, BASE=TUNED or PLAIN=RETRIEVING as a pair; repeatable."),
]
_PUBLISHED = Annotated[
    bool, Option("--published", help="Add the published scores, marked as such.")
]


def results_of(
    results: list[Path],
    informative: bool,
    sizes: dict[str, float] | None = None,
    where: list[str] | None = None,
) -> Any:
    """Read result files; keep runs with the settings in `where`, and informative tasks if asked."""
    from lm_eval_epidemia.old.findings import leaderboard
    from lm_eval_epidemia.results.models import chosen, conditions_of
    from lm_eval_epidemia.results.results import read_results

    read = read_results(results, sizes)
    if conditions := conditions_of(where or []):
        kept = chosen(read.entries, conditions)
        note = f"--where leaves out {len(read.entries) - len(kept)} of {len(read.entries)} rows"
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
    from lm_eval_epidemia.old.findings.leaderboard import make_report
    from lm_eval_epidemia.old.findings.tuned import pair_in
    from lm_eval_epidemia.results.results import model_size

    given = {name: model_size(text) for name, text in _pairs("--size", sizes, "MODEL=7B")}
    read = results_of(results, informative, given, where)
    models = {entry.model for entry in read.entries}
    return make_report(read, published, [pair_in(text, models) for text in pairs or []])


def _say_notes(report: Any) -> Any:
    """Print the notes on results to stderr."""
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    return report


def _pairs(option: str, given: list[str] | None, form: str) -> list[tuple[str, str]]:
    """Read options of the form NAME=VALUE; a name may contain a = itself."""
    pairs = []
    for text in given or []:
        name, sign, value = text.rpartition("=")
        if not (name and sign and value):
            raise EpidemiaError(f"{option} {text!r}: expected {form}")
        pairs.append((name, value))
    return pairs


def report(
    results: _RESULTS,
    format: Format = "table",
    html: Annotated[Path | None, Option(help="Also write the site into this folder.")] = None,
    full: Annotated[bool, Option("--full", help="Print every table and note.")] = False,
    section: Annotated[
        str | None,
        Option(help="Print one part of --full, such as survey or notes; a wrong name lists them."),
    ] = None,
    wide: Annotated[bool, Option("--wide", help="Let tables be wider than 100 columns.")] = False,
    where: Where = None,
    effects: Annotated[
        bool,
        Option(
            "--effects", help="As --full, with the long tables of interventions, priors and tuning."
        ),
    ] = False,
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: Informative = False,
    standardised: Annotated[
        bool,
        Option(
            "--standardised",
            help="Add group differences implied by the answers, standardised for age and more.",
        ),
    ] = False,
    recalibrated: Annotated[
        bool,
        Option("--recalibrated", help="Add scores of answers rescaled to the survey's averages."),
    ] = False,
    scales: Annotated[
        bool, Option("--scales", help="Add other distances, and the calibration line.")
    ] = False,
    places: Annotated[
        bool, Option("--places", help="Add how evenly models know countries.")
    ] = False,
    years: Annotated[
        bool, Option("--years", help="Add whether answers follow changes over the years.")
    ] = False,
    year_lived: Annotated[
        bool, Option("--year-lived", help="Add the year that answers fit best if no year is asked.")
    ] = False,
    people: Annotated[
        bool, Option("--people", help="Add how many Americans a model beats on six guesses.")
    ] = False,
    wordings: Annotated[
        bool, Option("--wordings", help="Add each model's scores in several wordings.")
    ] = False,
    probe: Annotated[
        bool, Option("--probe", help="Compare published tasks with similar fresh ones.")
    ] = False,
    cutoff: Annotated[
        Texts,
        Option(
            help="Compare vintages before and after a training cutoff, MODEL=2024-06; repeatable."
        ),
    ] = None,
) -> None:
    """Say on one screen which model knows the world best, and with what evidence.

    Add --full for every table: leaderboard, slices, paired comparisons, other tasks.
    """
    from lm_eval_epidemia.old.findings import people as guessed
    from lm_eval_epidemia.old.findings import places as evenly
    from lm_eval_epidemia.old.findings import probe as probing
    from lm_eval_epidemia.old.findings import recalibrated as tilted
    from lm_eval_epidemia.old.findings import scales as others
    from lm_eval_epidemia.old.findings import standardised as standard
    from lm_eval_epidemia.old.findings import tilt, tuning, tuning_rows, tuning_tables
    from lm_eval_epidemia.old.findings import wordings as worded
    from lm_eval_epidemia.old.findings import year_lived as at_home
    from lm_eval_epidemia.old.findings import years as over_years
    from lm_eval_epidemia.old.report import output
    from lm_eval_epidemia.old.report.sections import tidy

    check_format(format)
    if section and format in ("csv", "json"):
        raise EpidemiaError(
            f"--section {section} selects tables, and --format {format} prints every part: leave "
            "one of the two away"
        )
    write = None if html is None else _site_writer(html)
    dates = _pairs("--cutoff", cutoff, "MODEL=2024-06")
    read = _report(results, size, published, pair, informative, where)
    screen = format == "table" and not (full or effects or section)
    if not (screen or section == "notes"):
        _say_notes(read)
    cutoffs = probing.cutoffs_of(dates, read)
    failed = None
    # First: whoever reads the tables may stop reading ('| head') before they end.
    if write is not None:
        try:
            write(read, cutoffs)
        except EpidemiaError as error:
            failed = error  # of the site alone
    from_samples: list[Any] = []
    notes: list[str] = []
    for chosen, read_part, findings_of in (
        (standardised, standard.read, lambda made: [standard.finding(made)]),
        (recalibrated, tilted.read, lambda made: [tilted.finding(made)]),
        (scales, others.read, lambda made: [others.finding(made), tilt.finding(made)]),
        (places, evenly.read, evenly.findings),
        (years, over_years.read, over_years.findings),
        (year_lived, at_home.read, at_home.findings),
        (people, guessed.read, guessed.findings),
        (wordings, worded.read, list),
    ):
        if chosen:
            made, more_notes = _made(read_part, read)
            from_samples += findings_of(made)
            notes += more_notes
    for note in dict.fromkeys(notes):
        print(f"note: {note}", file=sys.stderr)
    probed = probing.probed(read, cutoffs) if probe or cutoffs else probing.Probe([], [], [])
    for note in probed.notes:
        print(f"note: {note}", file=sys.stderr)
    of_probe = probing.findings(probed)
    if format in ("json", "csv"):
        findings = [*from_samples, *tuning_tables.findings(tuning.read(read)), *of_probe]
        more = [row for finding in findings for row in tidy(finding)]
        if format == "json":
            print(output.as_json(read, more))
        else:
            print(output.as_csv(read, more), end="")
    elif screen:
        from lm_eval_epidemia.old.findings.summary import summary
        from lm_eval_epidemia.old.report.screen import WIDTH, lines

        show_lines(lines(summary(read, results), None if wide else min(report_width(wide), WIDTH)))
        asked = [finding for finding in (*from_samples, *of_probe) if finding.rows]
        show_sections(output.printed_of(asked, effects), report_width(wide))
    else:
        tuned = tuning_tables.tables(tuning.read(read), effects)
        learning = tuning_rows.learning_table(read)
        findings = [*from_samples, *tuned, *learning, *of_probe]
        tables = output.printed_of([finding for finding in findings if finding.rows], effects)
        sections = [*output.sections(read, effects), *tables]
        if section:
            _show_part(section, sections, read.notes, wide)
        elif format == "latex":
            print(output.as_latex(sections))
        else:
            show_sections(sections, report_width(wide))
    if failed is not None:
        raise failed


def share(
    results: Annotated[Path, Argument(help="A folder or file that lm_eval wrote (--output_path).")],
    folder: Annotated[
        Path, Argument(help="Folder to write: a new one, or one that this command wrote before.")
    ],
    dataset: Annotated[
        str | None,
        Option(help="Hub id of the exported questions, OWNER/NAME; .eval_results files need it."),
    ] = None,
    where: Where = None,
) -> None:
    """Write results for the Hub's leaderboards, and as Every Eval Ever records."""
    from lm_eval_epidemia.old.report.share import check
    from lm_eval_epidemia.old.report.share import share as write

    check(folder, dataset)
    shared = write(_say_notes(_report([results], where=where)), folder, dataset)
    for line in shared.lines:
        print(f"note: {line}", file=sys.stderr)
    print(f"{plural(shared.records, 'record')} of Every Eval Ever: {folder.resolve() / 'data'}")
    if dataset is None:
        print(
            "no .eval_results files: they need the Hub id of the exported questions (--dataset "
            "OWNER/NAME)"
        )
    else:
        files = plural(shared.results, "file")
        print(f"{files} for the models' repositories: {folder.resolve()}/MODEL/.eval_results")


def _made(of: Callable[[Any], tuple[Any, list[str]]], report: Any) -> tuple[Any, list[str]]:
    """Return a part of the report and its notes; on failure, nothing and the reasons as notes."""
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
        raise EpidemiaError(
            f"--section {name!r} is not in these results: expected {', '.join(kinds)}"
        )
    show_sections([section for section in sections if section.kind == name], report_width(wide))


def _site_writer(out: Path) -> Callable[..., None]:
    """Return the function that writes the site; check `out` before any result is read."""
    with needs("report", "the site"):
        from lm_eval_epidemia.old.report.site import MARKER, build_site
    check_rewritable(out, MARKER)

    def write(report: Any, cutoffs: Sequence[Any] = ()) -> None:
        index = build_site(report, out, cutoffs)
        # Beside a report that is read by a program, this is no part of it.
        print(f"the site is in {out.resolve()}: open {index}", file=sys.stderr)

    return write


@site_app.command("build")
def site_build(
    results: _RESULTS,
    out: Annotated[Path, Option(help="Folder to write: a new one, or one that holds a site.")],
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: Informative = False,
    where: Where = None,
) -> None:
    """Write a static site with leaderboard, method, explorer, figures and surveys."""
    write = _site_writer(out)
    write(_say_notes(_report(results, size, published, pair, informative, where)))


def plot(
    name: Annotated[str, Argument(help="Name of a figure; 'list' prints them all.")],
    results: Annotated[
        list[Path] | None, Argument(help="Folders or files that lm_eval wrote (--output_path).")
    ] = None,
    out: Annotated[Path | None, Option(help="File to write: .svg, .png, .pdf or .json.")] = None,
    task: Annotated[str | None, Option(help="Task to draw, for figures that show one.")] = None,
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: Informative = False,
    where: Where = None,
) -> None:
    """Save a figure of the site for a paper."""
    from lm_eval_epidemia.old.report import figures

    if name == "list":
        for known, figure in figures.FIGURES.items():
            print(f"{known}: {figure.says}")
        return
    if name in figures.FIGURES and figures.FIGURES[name].needs_results and not results:
        raise EpidemiaError(
            f"{name} shows results: give the folder that lm_eval wrote (--output_path)"
        )
    path = figures.save(
        name,
        lambda: _say_notes(_report(results or [], size, published, pair, informative, where)),
        out,
        task,
    )
    print(f"{name} is in {path.resolve()}")
