"""A dataset on disk: rows in two splits, written completely or not at all."""

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

    Validation rows are other rows of the same kind: other people's notes, other draws of an answer.
    They show when a model begins to memorise its rows, but nothing about held-out cells, which have
    no row in either split. Rows that belong together (notes about one person, or a text drawn
    twice) are in the same split.

    Rows of ``distributions`` are not divided: both splits have all of them. Nothing in them is
    random, so a model can only memorise the truth, and a withheld prompt would be a condition that
    this control does not teach.

    Parameters
    ----------
    rows : mapping of str to sequence
        Columns, of equal length.
    rng : Generator
    together : sequence, optional
        A key for each row, shared by rows that belong together; default: its text.

    Raises
    ------
    EpidemiaError
        If too few of them differ to keep any for validation.
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
    """Choose a tenth of the rows, in this order, keeping rows that belong together."""
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
        Naming the files there.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise EpidemiaError(f"{out} is a file: give a folder")
    here = sorted(path.name for path in out.iterdir())
    if DATASET_CARD in here:
        raise EpidemiaError(f"{out} already holds a dataset: remove it, or give another folder")
    if here:
        raise EpidemiaError(f"{out} holds {few(here)}: give a new folder")


def save(out: Path, splits: datasets.DatasetDict, card: DatasetCard) -> Path:
    """Write a dataset and its card; return its folder, absolute.

    It is written beside the folder and moved, so a folder never holds half a dataset.

    Raises
    ------
    EpidemiaError
        As for `check_out`, or if the disk is full or fails.
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
