"""The commands that report results: ``epidemia report``, ``plot``, ``share``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Format, Informative, Texts, Where, Wide
from lm_eval_epidemia.cli.printing import report_width
from lm_eval_epidemia.core.errors import EpidemiaError, plural
from lm_eval_epidemia.core.extras import needs

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


def read_runs(
    results: list[Path],
    where: list[str] | None = None,
    informative: bool = False,
    sizes: list[str] | None = None,
    pairs: list[str] | None = None,
    published: bool = False,
) -> Any:
    """Read result files, and choose among them as the options say."""
    from lm_eval_epidemia.results import choose
    from lm_eval_epidemia.results.published import add_published
    from lm_eval_epidemia.results.read import read_results
    from lm_eval_epidemia.results.tuned import add_cards

    if not results:
        raise EpidemiaError(
            "no results are named: give the folder that lm_eval wrote (--output_path)"
        )
    made = read_results(results)
    if conditions := choose.conditions_of(where or []):
        made = choose.keep_where(made, conditions)
    made = choose.keep_informative(made) if informative else made
    given = dict(text.rpartition("=")[::2] for text in sizes or [])
    made = choose.set_sizes(made, {name: choose.model_size(text) for name, text in given.items()})
    models = [*made.runs["model"]]
    paired = [choose.pair_in(text, models) for text in pairs or []]
    made = add_cards(choose.add_bases(made, paired), paired)
    return add_published(made) if published else made


def print_notes(results: Any) -> Any:
    """Print the notes on results to stderr."""
    from lm_eval_epidemia.findings.leaderboard import list_notes

    for note in list_notes(results):
        print(f"note: {note}", file=sys.stderr)
    return results


def report(
    results: Annotated[
        list[Path] | None, Argument(help="Folders or files that lm_eval wrote (--output_path).")
    ] = None,
    show: Annotated[
        str | None,
        Option(help="Findings to print, such as survey,pairs; 'all' or 'help' (lists them)."),
    ] = None,
    where: Where = None,
    html: Annotated[Path | None, Option(help="Also write the site into this folder.")] = None,
    format: Format = "table",
    wide: Wide = False,
    published: _PUBLISHED = False,
    informative: Informative = False,
    size: _SIZES = None,
    pair: _PAIRS = None,
) -> None:
    """Say on one screen which model knows the world best, and with what evidence.

    Everything else is a finding, by name: --show help lists them, --show all prints them.
    """
    from lm_eval_epidemia.findings import FINDINGS, find

    if show == "help":
        for name in FINDINGS:
            print(f"{name}: {(find(name).__doc__ or '').splitlines()[0]}")
        return
    names = list(FINDINGS) if show == "all" else [n.strip() for n in (show or "").split(",") if n]
    makers = {name: find(name) for name in names}
    if html is not None:
        from lm_eval_epidemia.core.folders import check_rewritable

        with needs("report", "the site"):
            from lm_eval_epidemia.report.site import MARKER, build_site
        check_rewritable(html, MARKER)
    made = read_runs(results or [], where, informative, size, pair, published)
    # First: whoever reads the tables may stop reading ('| head') before they end.
    if html is not None:
        index = build_site(made, html)
        # Beside a report that is read by a program, this is no part of it.
        print(f"the site is in {html.resolve()}: open {index}", file=sys.stderr)
    if format == "table" and not names:
        from lm_eval_epidemia.findings.headline import make_headline
        from lm_eval_epidemia.report.screen import WIDTH, screen

        width = None if wide else min(report_width(), WIDTH)
        print(screen(make_headline(made, results or []), width), end="")
        return
    if names != ["notes"]:
        print_notes(made)
    findings = {
        name: make(made) for name, make in (makers or {"leaderboard": find("leaderboard")}).items()
    }
    if show != "all" and all(finding.table.empty for finding in findings.values()):
        why = dict.fromkeys(text for finding in findings.values() for text in finding.left_out)
        raise EpidemiaError("\n".join(why) or "these results have nothing to show of this")
    _print(findings, format, wide, whole=wide or format != "table")


def _print(findings: dict[str, Any], format: str, wide: bool, whole: bool) -> None:
    """Print findings in one form; of several, csv has the name in its first column."""
    import pandas as pd

    from lm_eval_epidemia.report.render import render

    filled = {name: of for name, of in findings.items() if len(of.table)} or findings
    for note in dict.fromkeys(note for of in findings.values() for note in of.left_out):
        print(f"note: {note}", file=sys.stderr)
    if format == "json":
        parts = (f'"{name}": {render(of, "json")}' for name, of in filled.items())
        print("{" + ",\n".join(parts) + "}")
    elif format == "csv" and len(filled) > 1:
        from lm_eval_epidemia.findings.finding import Finding

        tables = [of.table.assign(finding=name) for name, of in filled.items()]
        together = pd.concat(tables, ignore_index=True)
        columns = ["finding", *(name for name in together if name != "finding")]
        print(render(Finding("all", "", together[columns]), "csv"), end="")
    else:
        to: Any = "text" if format == "table" else format
        width = None if wide else report_width()
        print("\n".join(render(of, to, whole, width) for of in filled.values()), end="")


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
    from lm_eval_epidemia.report.share import check_target
    from lm_eval_epidemia.report.share import share_runs as write

    check_target(folder, dataset)
    shared = write(print_notes(read_runs([results], where)), folder, dataset)
    for line in shared.lines:
        print(f"note: {line}", file=sys.stderr)
    print(f"{plural(shared.records, 'record')} of Every Eval Ever: {folder.resolve() / 'data'}")
    if dataset is None:
        print("no .eval_results files: they need the questions' Hub id (--dataset OWNER/NAME)")
    elif shared.results:
        files = plural(shared.results, "file")
        print(f"{files} for the models' repositories: {folder.resolve()}/MODEL/.eval_results")


def plot(
    name: Annotated[str, Argument(help="Name of a figure; 'list' prints them all.")],
    results: Annotated[
        list[Path] | None, Argument(help="Folders or files that lm_eval wrote (--output_path).")
    ] = None,
    out: Annotated[Path | None, Option(help="File to write: .svg, .png, .pdf or .json.")] = None,
    task: Annotated[str | None, Option(help="Task to draw, for figures that show one.")] = None,
    width: Annotated[int, Option(help="Points: a column of a paper has about 240.")] = 504,
    size: _SIZES = None,
    pair: _PAIRS = None,
    published: _PUBLISHED = False,
    informative: Informative = False,
    where: Where = None,
) -> None:
    """Save a figure of a finding for a paper."""
    from lm_eval_epidemia.report.figures import CHARTS, save

    if name == "list":
        for known, chart in CHARTS.items():
            print(f"{known}: {chart.says}")
        return
    path = save(
        name,
        lambda: print_notes(read_runs(results or [], where, informative, size, pair, published)),
        out or Path(f"{name}.svg"),
        task,
        width,
    )
    print(f"{name} is in {path.resolve()}")
