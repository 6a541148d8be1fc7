"""How wide tables are, in columns of a terminal: some letters take two, others none."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.cells import cell_len


def widest(cells: Iterable[str]) -> int:
    """Return how wide a column of such cells is; a cell may have several lines."""
    return max((cell_len(line) for cell in cells for line in cell.split("\n")), default=0)


def taken(widths: Collection[int], gap: int, edges: int = 0) -> int:
    """Return how wide a table is: its columns, what is between any two, and what is around all."""
    return sum(widths) + gap * max(len(widths) - 1, 0) + edges
