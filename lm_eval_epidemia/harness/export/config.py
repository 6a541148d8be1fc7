"""A config of an exported repository: a group of tasks, asked in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from lm_eval_epidemia.core.paths import read_yaml


@lru_cache(maxsize=1)
def texts() -> dict[str, Any]:
    """Return the texts of the card and the Croissant file."""
    return dict(read_yaml(__package__, "about.yaml"))


class Config(NamedTuple):
    """A group's entry in the card and the Croissant file.

    Attributes
    ----------
    name : str
        The group's name in lm-eval.
    schema : pyarrow.Schema
        Schema of all its files.
    columns : dict of str to list of str
        Columns filled, by split: "test" and, if truths are exported, "truth".
    tasks : list of str
    prompts : int
    """

    name: str
    schema: pa.Schema
    columns: Mapping[str, Sequence[str]]
    tasks: Sequence[str]
    prompts: int

    def files(self, split: str) -> str:
        """Return the pattern of a split's files."""
        return f"data/{self.name}/{split}" + ("/*.parquet" if split == "test" else ".parquet")
