"""Write a finding: tidy for programs, rounded and in words for people."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from io import StringIO
from typing import Literal

import pandas as pd

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.findings.finding import Column, Finding

To = Literal["text", "csv", "json", "latex", "html"]

#: Columns of a screen, and the room that a text in a table takes at least and at most.
WIDTH, LEAST, MOST = 100, 12, 44

#: What a spreadsheet takes for a formula, at the beginning of a cell.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

#: What LaTeX does not know by itself.
IN_LATEX = {"±": r"$\pm$", "…": r"\dots{}", "\N{REPLACEMENT CHARACTER}": "?"}


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
        return str(_without_formulas(finding.table).to_csv(index=False, lineterminator="\n"))
    if to == "json":
        return str(finding.table.to_json(orient="records", double_precision=15, force_ascii=False))
    table = for_people(finding, whole)
    if to == "html":
        return str(table.to_html(index=False, escape=True, border=0, classes="finding"))
    if to == "latex":
        return _latex(finding, table)
    return _text(finding, table, width)


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    texts = table.select_dtypes(["object", "string"]).columns
    return table.assign(
        **{name: table[name].map(lambda x: f"'{x}" if _is_formula(x) else x) for name in texts}
    )


def _is_formula(value: object) -> bool:
    return isinstance(value, str) and value.startswith(FORMULA)


def for_people(finding: Finding, whole: bool = False) -> pd.DataFrame:
    """Return the table that people see: texts, named columns, none that is empty."""
    table = finding.table
    if finding.details and not whole:
        table = table[table[finding.details].isin(["", None]) | table[finding.details].isna()]
    columns = {name: column for name, column in finding.columns.items() if name in table}
    written = pd.DataFrame(
        {name: _written(table, name, column) for name, column in columns.items()}
    )
    if finding.across:
        written = _spread(written, table[finding.across], [*columns])
    titles = {name: column.title or name for name, column in columns.items()}
    written = written.rename(columns=titles)
    return written.loc[:, (written != "").any()] if len(written) else written


def _spread(written: pd.DataFrame, across: pd.Series, columns: list[str]) -> pd.DataFrame:
    """Make a column of each value of a column; rows are named by the texts before the first."""
    values = [name for name in columns if name not in ("model", "settings", "group", "asked")]
    named = [name for name in columns if name not in values and name != across.name]
    titles = list(dict.fromkeys(across))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for names, title, row in zip(
        written[named].itertuples(index=False, name=None),
        across,
        written[values].to_dict("records"),
        strict=True,
    ):
        cells = rows.setdefault(names, dict(zip(named, names, strict=True)))
        cells |= {
            title if name == values[0] else f"{title} {name}": text for name, text in row.items()
        }
    order = [title if v == values[0] else f"{title} {v}" for title in titles for v in values]
    return pd.DataFrame(list(rows.values()), columns=[*named, *order]).fillna("")


def _written(table: pd.DataFrame, name: str, column: Column) -> pd.Series:
    """Write the cells of a column; nothing for what is not known."""
    values = table[name]
    if not pd.api.types.is_float_dtype(values):
        texts = values.map("{:,}".format) if pd.api.types.is_integer_dtype(values) else values
        return texts.fillna("").astype(str)
    digits = (
        pd.Series(column.digits, table.index)
        if column.digits is not None
        else table["group"].map({group: of.digits for group, of in groups().items()})
    )
    beside = [table[column.error]] if column.error in table else []
    ends = [table[end] for end in column.interval]
    counts = [table[column.count]] if column.count else []
    return pd.Series(
        [
            _number(column, int(places), *numbers)
            for places, *numbers in zip(
                digits,
                values,
                *(beside or [[float("nan")] * len(table)]),
                *(ends or [[float("nan")] * len(table)] * 2),
                *(counts or [[None] * len(table)]),
                strict=True,
            )
        ],
        table.index,
        dtype=object,
    )


def _number(
    column: Column,
    digits: int,
    value: float,
    error: float,
    low: float,
    high: float,
    count: float | None,
) -> str:
    if pd.isna(value):
        return ""
    sign = "+" if column.signed else ""
    # No -0.0: that is 0.
    text = f"{round(value, digits) + 0:{sign},.{digits}f}{column.unit}"
    if not pd.isna(error):
        text += f" ± {error:.{digits}f}"
    if not pd.isna(low):
        text += f" ({low:{sign}.{digits}f} to {high:{sign}.{digits}f})"
    return text if count is None or pd.isna(count) else f"{text} ({count:.0f})"


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


def _text(finding: Finding, table: pd.DataFrame, width: int | None) -> str:
    """Set title, table and note; columns without room are named."""
    parts = [textwrap.fill(finding.title, width or len(finding.title) + 1)]
    if len(table):
        shown, missing = _fitting(table, width)
        parts.append(_drawn(shown, width))
        if missing:
            parts.append(_filled(f"No room for {', '.join(missing)}: --wide shows all.", width))
    if finding.note:
        parts.append(_filled(finding.note, width))
    return "\n".join(parts) + "\n"


def _filled(text: str, width: int | None) -> str:
    return textwrap.indent(textwrap.fill(text, (width or WIDTH) - 2), "  ")


def _widths(table: pd.DataFrame) -> Mapping[str, tuple[int, int]]:
    """Return how many columns of the screen each column takes at least, and at most."""
    return {
        title: (min(wide, LEAST) if _is_text(table[title]) else wide, wide)
        for title in table
        for wide in [max(len(line) for line in (*table[title], *str(title).split(" ")))]
    }


def _is_text(column: pd.Series) -> bool:
    """Whether a column folds: it holds words, and no numbers."""
    return bool(column.str.contains(r"^[^-+\d<]", regex=True).any())


def _fitting(table: pd.DataFrame, width: int | None) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the last columns until a table fits."""
    shown, missing = list(table), list[str]()
    least = {title: least for title, (least, _) in _widths(table).items()}
    while (
        width is not None
        and len(shown) > 2
        and sum(least[title] + 2 for title in shown) - 2 > width
    ):
        missing.insert(0, shown.pop())
    return table[shown], missing


def _drawn(table: pd.DataFrame, width: int | None) -> str:
    """Draw a table with rich, which folds and aligns."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title, (least, most) in _widths(table).items():
        is_text = _is_text(table[title])
        drawn.add_column(
            Text(str(title)),
            justify="left" if is_text else "right",
            overflow="fold",
            min_width=least,
            max_width=most if width is None else min(most, MOST),
            no_wrap=not is_text and " " not in str(title),
        )
    for row in table.itertuples(index=False):
        drawn.add_row(*map(Text, row))
    needed = sum(most + 2 for _, most in _widths(table).values())
    console = Console(width=width or needed, file=StringIO(), color_system=None)
    console.print(drawn)
    return str(console.file.getvalue()).rstrip("\n")  # type: ignore[attr-defined]
