"""A dataset on disk: rows in two splits, written as a whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.paths import writing
from lm_eval_epidemia.results.card import DATASET_CARD, DatasetCard, write_card

if TYPE_CHECKING:
    import datasets

#: The share of rows in the validation split (not stated in the study).
VALIDATION = 0.1

#: Rows below which the validation split would be empty or nearly all.
FEWEST = 10


def divided(
    rows: Mapping[str, Sequence[Any]],
    rng: np.random.Generator,
    together: Sequence[Any] | None = None,
) -> datasets.DatasetDict:
    """Divide rows at random into ``train`` and ``validation`` (10 %).

    Validation is of other rows of the same making: other people's notes, other draws of an answer.
    It tells when a model begins to know its rows by heart, and nothing about what is held out: of
    that no row is in either split. Rows that belong together (notes about one person, or a text
    that was drawn twice) are in one of the splits only.

    Rows of ``distributions`` are not divided: both splits have them all. Nothing in them is drawn,
    so there is nothing to know by heart that is not the truth, and a prompt kept back would be a
    condition that the control does not teach.

    Parameters
    ----------
    rows : mapping of str to sequence
        Columns, of equal length.
    rng : Generator
    together : sequence, optional
        Of each row, what others have that belong to it; its text if not given.

    Raises
    ------
    EpidemiaError
        If so few of them differ that none can be kept for validation.
    """
    import datasets

    size = len(next(iter(rows.values())))
    order = rng.permutation(size).tolist()
    parts = {"train": order, "validation": order}
    if "p" not in rows:
        alike = together or rows.get("text", range(size))
        if not (kept := _kept_back(order, alike)):
            what, how = "text", "a lower --n or more --tasks"
            if together:
                what, how = "person", "a higher --n or a lower --per-person"
            raise EpidemiaError(
                f"each {what} has {min(Counter(alike).values())} of the {size} rows or more, and "
                f"the validation split has a tenth of the rows: give {how}"
            )
        parts = {"train": [k for k in order if k not in kept], "validation": sorted(kept)}
    kinds = {
        "text": datasets.Value("string"),
        "prompt": datasets.Value("string"),
        "completion": datasets.Value("string"),
        "choices": datasets.Sequence(datasets.Value("string")),
        "p": datasets.Sequence(datasets.Value("float64")),
    }
    return datasets.DatasetDict(
        {
            name: datasets.Dataset.from_dict(
                {column: [values[k] for k in sorted(part)] for column, values in rows.items()},
                features=datasets.Features({column: kinds[column] for column in rows}),
            )
            for name, part in parts.items()
        }
    )


def _kept_back(order: Sequence[int], together: Sequence[Any]) -> set[int]:
    """Choose a tenth of the rows, in this order, with all that belong together or none."""
    copies: dict[Any, list[int]] = {}
    for k in order:
        copies.setdefault(together[k], []).append(k)
    kept: set[int] = set()
    for rows in copies.values():
        if len(kept) + len(rows) <= round(VALIDATION * len(order)):
            kept.update(rows)
    return kept


def check_out(out: Path) -> None:
    """Refuse a folder that is not new or empty, before any work is done.

    Raises
    ------
    EpidemiaError
        Naming what is there.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise EpidemiaError(f"{out} is a file: give a folder")
    here = sorted(path.name for path in out.iterdir())
    if DATASET_CARD in here:
        raise EpidemiaError(f"{out} holds a dataset already: remove it, or give another folder")
    if here:
        raise EpidemiaError(f"{out} holds {few(here)}: give a new folder")


def save(out: Path, splits: datasets.DatasetDict, card: DatasetCard) -> Path:
    """Write a dataset and its card; return its folder, absolute.

    It is put together beside the folder and moved: a folder with half a dataset is never there.

    Raises
    ------
    EpidemiaError
        As `check_out`, or if the disk does not take it.
    """
    out = out.resolve()
    check_out(out)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            splits.save_to_disk(staging / "new")
            write_card(staging / "new", card)
            (staging / "new").rename(out)  # over an empty folder, too
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return out
