"""A config of an exported repository: a group of tasks, asked in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa


class Config(NamedTuple):
    """What the card and the Croissant file say of a group.

    Attributes
    ----------
    name : str
        As lm-eval names the group.
    schema : pyarrow.Schema
        Of all its files.
    columns : dict of str to list of str
        By split, "test" and, where what is true is exported, "truth": what it fills.
    tasks : list of str
    prompts : int
    """

    name: str
    schema: pa.Schema
    columns: Mapping[str, Sequence[str]]
    tasks: Sequence[str]
    prompts: int

    def files(self, split: str) -> str:
        """Return where the files of a split lie, as a pattern."""
        return f"data/{self.name}/{split}" + ("/*.parquet" if split == "test" else ".parquet")
