"""Tables of what models were asked: declared once, filled by any runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.findings.finding import ALIKE_NOTE, Cell, Column, Finding, Row, columns_of
from lm_eval_epidemia.results.entry import Entry


class Table(NamedTuple):
    """A table: what it is called, what fills it, what it says of itself.

    Attributes
    ----------
    kind, title : str
        As of a `Finding`.
    rows : callable
        From an entry to what stands of it in the table, as of `row_of`.
    note : str
    other : Column
        As which parts are declared that are not among `columns`.
    columns : sequence of Column
    about : str
        Heads the column of what rows are about, where there is one.
    """

    kind: str
    title: str
    rows: Callable[[Entry], Iterable[Row]]
    note: str
    other: Column
    columns: Sequence[Column] = ()
    about: str = ""

    def over(self, entries: Iterable[Entry]) -> Finding:
        """Return the table of some entries."""
        rows = [row for entry in entries for row in self.rows(entry)]
        leading = [Column("model"), Column("group", title="asked")]
        if self.about:
            leading.append(Column("about", title=self.about))
        declared = {column.name: column for column in (*leading, *self.columns)}
        parts = columns_of(rows, declared, self.other)
        columns = [*leading, *(column for column in parts if column not in leading)]
        return Finding(
            self.kind, self.title, columns, rows, self.note, len(leading), silent=ALIKE_NOTE
        )


def row_of(
    entry: Entry,
    group: str,
    base: str,
    cells: Mapping[str, Cell],
    about: str = "",
    metrics: Mapping[str, str] = {},
    long: bool = False,
) -> Row:
    """Return a row on a group, whose name is shown without what it begins with (`base`)."""
    asked = group.removeprefix(base).strip("_").replace("_", " ") or "plain"
    leading = {"group": asked, **({"about": about} if about else {})}
    return Row({**leading, **cells}, entry, group, about, metrics=metrics, long=long)
