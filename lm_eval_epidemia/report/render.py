"""Write a finding: tidy for programs, rounded and in words for people."""

from __future__ import annotations

import re
import textwrap
from io import StringIO
from itertools import product
from typing import Any, Literal, NamedTuple

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lm_eval_epidemia.benchmarks import list_groups
from lm_eval_epidemia.findings.finding import Column, Finding

To = Literal["text", "csv", "json", "latex", "html"]

#: Columns of a screen, and the room that names and other texts in a table take at least.
WIDTH, NAMES, TEXTS = 100, 20, 14

#: Texts that name the rows of a spread table: of these there is one row.
NAMING = ("model", "settings", "group", "asked")

#: Columns of a spread table that hold for a whole row: these come last.
LAST = ("choice_mass", "than_next")

#: More columns than any line has.
MANY = 10_000

#: What a spreadsheet takes for a formula, at the beginning of a cell.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

#: What LaTeX does not know by itself.
IN_LATEX = {"±": r"$\pm$", "…": r"\dots{}", "\N{REPLACEMENT CHARACTER}": "?"}


class Shown(NamedTuple):
    """The table that people see: texts; columns may have equal titles."""

    titles: list[str]
    rows: list[list[str]]

    def is_text(self, place: int) -> bool:
        """Whether a column holds words, which fold, and no numbers."""
        # No number, with all that is written behind it, is so long.
        return any(re.match(r"[^-+\d<]|.{40}", row[place]) for row in self.rows)


def render(finding: Finding, to: To, whole: bool = False, width: int | None = WIDTH) -> str:
    """Write a finding.

    Parameters
    ----------
    finding : Finding
    to : {"text", "csv", "json", "latex", "html"}
    whole : bool
        Whether people see its details, too.
    width : int or None
        Columns of the screen, for text; None: as many as the table needs.
    """
    if to == "csv":
        texts = finding.table.select_dtypes(["object", "string"])
        told = {str(name): of.map(_without_formula) for name, of in texts.items()}
        return str(finding.table.assign(**told).to_csv(index=False, lineterminator="\n"))
    if to == "json":
        return str(finding.table.to_json(orient="records", double_precision=15, force_ascii=False))
    shown = for_people(finding, whole)
    if to == "text":
        return _text(finding, shown, width)
    table = pd.DataFrame(shown.rows, columns=shown.titles)
    if to == "html":
        return str(table.to_html(index=False, escape=True, border=0, classes="finding"))
    return _latex(finding, table)


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def for_people(finding: Finding, whole: bool = False) -> Shown:
    """Return the table that people see, without details unless the whole is wanted."""
    table = finding.table
    if finding.details and not whole:
        table = table[table[finding.details].fillna("") == ""]
    columns = {name: column for name, column in finding.columns.items() if name in table}
    written = {name: format_column(table, name, column) for name, column in columns.items()}
    titles = {name: column.title or name for name, column in columns.items()}
    if finding.across:
        values = [*table[finding.across]]
        over = [value for value in dict.fromkeys([*finding.over, *values]) if value in values]
        shown = _spread(written, titles, values, over)
    else:
        rows = [list(row) for row in zip(*written.values(), strict=True)]
        shown = Shown([*titles.values()], rows)
    kept = [n for n in range(len(shown.titles)) if any(row[n] for row in shown.rows)]
    return Shown([shown.titles[n] for n in kept], [[row[n] for n in kept] for row in shown.rows])


def _spread(
    written: dict[str, list[str]], titles: dict[str, str], across: list[str], over: list[str]
) -> Shown:
    """Make a column of each value of a column; a row is what texts name."""
    named = [name for name in titles if name in NAMING]
    values = [name for name in titles if name not in (*NAMING, *LAST)]
    last = [name for name in titles if name in LAST]
    rows: dict[tuple[str, ...], dict[tuple[str, str], str]] = {}
    for place, title in enumerate(across):
        cells = rows.setdefault(tuple(written[name][place] for name in named), {})
        cells |= {(title, name): written[name][place] for name in values}
        cells |= {("", name): written[name][place] for name in last if written[name][place]}
    order = [*product(over, values), *product([""], last)]
    heads = [title if name == values[0] else titles[name] for title, name in order]
    return Shown(
        [*(titles[name] for name in named), *heads],
        [[*names, *(cells.get(key, "") for key in order)] for names, cells in rows.items()],
    )


def format_column(table: pd.DataFrame, name: str, column: Column) -> list[str]:
    """Write the cells of a column; nothing for what is not known."""
    values = table[name]
    if not pd.api.types.is_float_dtype(values):
        whole = pd.api.types.is_integer_dtype(values)
        return [f"{x:,}" if whole else "" if pd.isna(x) else str(x) for x in values]
    digits = [column.digits] * len(table)
    if column.digits is None:
        # Of several groups together the first says how; others are written as lm-eval does.
        known = {group: of.digits for group, of in list_groups().items()}
        digits = [known.get(group.split(" + ")[0], 4) for group in table["group"]]
    beside = [column.error, *(column.interval or ("", "")), column.count]
    numbers = [[*table[of]] if of in table else [None] * len(table) for of in beside]
    return [_format_number(column, *of) for of in zip(values, digits, *numbers, strict=True)]


def _format_number(
    column: Column, value: float, digits: int, error: Any, low: Any, high: Any, count: Any
) -> str:
    """Write a number with what is known of it: ``+54.8 ± 1.2``, ``54.8 (52.1 to 57.5)``."""
    if pd.isna(value):
        return ""
    spec = f"{'+' if column.signed else ''},.{digits}f"
    # No -0.0: that is 0.
    text = f"{round(value, digits) + 0:{spec}}{column.unit}"
    text += "" if pd.isna(error) else f" ± {error:,.{digits}f}"
    text += "" if pd.isna(low) else f" ({low:{spec}} to {high:{spec}})"
    return text if pd.isna(count) else f"{text} ({count:.0f})"


def _latex(finding: Finding, table: pd.DataFrame) -> str:
    text: str = table.to_latex(
        index=False,
        escape=True,
        caption=re.sub(r"([_%])", r"\\\1", finding.title),
        column_format="l" + "r" * (len(table.columns) - 1),
    )
    # A [ or * after the end of a row would be its argument.
    text = re.sub(r"^([\[*])", r"{\1}", text, flags=re.MULTILINE)
    for shown_as, written in IN_LATEX.items():
        text = text.replace(shown_as, written)
    return text


def _text(finding: Finding, shown: Shown, width: int | None) -> str:
    """Set title, table and note; columns without room are named."""
    kept, missing = fit_width(shown, width)
    listed = ", ".join(dict.fromkeys(missing))
    notes = [f"No room for {listed}: --wide shows all." if missing else "", finding.note]
    wide = (width or WIDTH) - 2
    folded = [textwrap.fill(note, wide, break_on_hyphens=False) for note in notes if note]
    table = [draw_table(kept, width)] if shown.rows else []
    title = textwrap.fill(finding.title, width or MANY)
    parts = [title, *table, *(textwrap.indent(note, "  ") for note in folded)]
    return "\n".join(parts) + "\n"


def _widths(shown: Shown) -> list[tuple[int, int]]:
    """Return how many columns of the screen each column takes at least, and at most."""
    widths = []
    for place, title in enumerate(shown.titles):
        most = max(cell_len(line) for line in (title, *(row[place] for row in shown.rows)))
        least = max(map(cell_len, re.split(r"(?<=_)| ", title)), default=0)
        if shown.is_text(place):
            least = max(least, min(most, TEXTS if place else NAMES))
        else:
            least = max([least, *(cell_len(row[place]) for row in shown.rows)])
        widths.append((least, most))
    return widths


def fit_width(shown: Shown, width: int | None) -> tuple[Shown, list[str]]:
    """Leave out the last columns until a table fits."""
    kept, widths = len(shown.titles), _widths(shown)
    while width and kept > 2 and sum(least + 2 for least, _ in widths[:kept]) - 2 > width:
        kept -= 1
    rows = [row[:kept] for row in shown.rows]
    return Shown(shown.titles[:kept], rows), shown.titles[kept:]


def draw_table(shown: Shown, width: int | None, folds: bool = True) -> str:
    """Draw a table with rich, which aligns and folds; or cut texts, each row being a line."""
    widths = _widths(shown)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    spare = (width or MANY) - sum(least + 2 for least, _ in widths) + 2
    wides = []
    for place, (title, (least, most)) in enumerate(zip(shown.titles, widths, strict=True)):
        is_text = shown.is_text(place)
        wide = min(most, least + spare) if is_text else least
        spare -= wide - least
        wides.append(wide if is_text and not folds else MANY)
        justify: Any = "left" if is_text else "right"
        table.add_column(Text(_folded(title, wide)), justify=justify, overflow="fold", width=wide)
    for row in shown.rows:
        table.add_row(*(Text(cut_text(*of)) for of in zip(row, wides, strict=True)))
    console = Console(width=width or MANY, file=StringIO(), color_system=None)
    lines = console.render_lines(table, pad=False)
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def _folded(title: str, wide: int) -> str:
    """Fold a title at spaces, and behind underscores, where names of groups have no spaces."""
    lines = [""]
    for part in re.split(r"(?<=[_ ])", title):
        if cell_len(lines[-1] + part.rstrip()) > wide:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines if line)


def cut_text(text: str, wide: int) -> str:
    """Cut a long text in the middle: what tells names apart is often at their ends."""
    if cell_len(text) <= wide:
        return text
    head = (wide - 1) // 3
    tail = set_cell_size(text[::-1], wide - 1 - head)[::-1]
    return f"{set_cell_size(text, head).rstrip()}…{tail.lstrip()}"
