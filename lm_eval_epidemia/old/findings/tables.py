"""Tables of tasks asked, declared once and filled from any runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from lm_eval_epidemia.old.findings.rows import ALIKE_NOTE, Cell, Column, Finding, Row, columns_of
from lm_eval_epidemia.results.entry import Entry


class Table(NamedTuple):
    """The declaration of a table: title, rows and note.

    Attributes
    ----------
    kind, title : str
        As in a `Finding`.
    rows : callable
        From an entry to its rows in the table, as from `row_of`.
    note : str
    other : Column
        Declares parts that are not among `columns`.
    columns : sequence of Column
    about : str
        Heading of the column with the rows' subject, if there is one.
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
    """Return a row for a group, whose name is shown without the prefix `base`."""
    asked = group.removeprefix(base).strip("_").replace("_", " ") or "plain"
    leading = {"group": asked, **({"about": about} if about else {})}
    return Row({**leading, **cells}, entry, group, about, metrics=metrics, long=long)
