"""Cards of fine-tuning datasets and tuned models: one JSON file in each folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import atomic_write

#: In the folder that `epidemia finetune notes` writes, beside Hugging Face's own files.
DATASET_CARD = "epidemia_dataset.json"
#: In the folder of an adapter or of tuned weights.
TUNED_CARD = "epidemia_finetune.json"
#: Beside it: ``step, epoch, split, loss``, one row per value; split is train or validation.
LOSSES = "losses.csv"

#: What a dataset is of, and the columns of its rows.
KINDS: dict[str, tuple[str, ...]] = {
    "notes": ("text",),
    "statements": ("text",),
    "shuffled": ("text",),
    # Prompt and completion (" A"), the loss is on the completion.
    "answers": ("prompt", "completion"),
    # The letters (" A", " B") and P(Y | X) over them, as displayed.
    "distributions": ("prompt", "choices", "p"),
}


@dataclass(frozen=True)
class DatasetCard:
    """The source and contents of a fine-tuning dataset.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    survey, vintage : str
    fingerprint : str
        Fingerprint of the survey's truths used to make it (`GroundTruth.fingerprint`).
    raw : dict of str to str
        Names of the raw files and their sha256; empty for the kinds made from truths alone.
    seed : int
    rows : dict of str to int
        By split, train and validation.
    tasks : list of str
        The tasks that it teaches about (without the suffix of a way), except held-out ones.
    held_out : dict of str to list of int
        Numbers of the cells held out of training, by task; all cells if a whole task is held out.
    facts : list of str
        Variables that each note states; empty for kinds other than notes.
    writer : str
        ``template``, or the model that wrote the notes.
    counts : dict of str to int
        Counts from making it: notes rewritten or dropped, by reason.
    """

    kind: str
    survey: str
    vintage: str
    fingerprint: str
    seed: int
    rows: dict[str, int]
    tasks: list[str]
    raw: dict[str, str] = field(default_factory=dict)
    held_out: dict[str, list[int]] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    writer: str = "template"
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuned:
    """How a model was tuned: base, data and settings.

    Attributes
    ----------
    base : str
        The model as given: a name or a folder.
    how : str
        ``lora`` or ``full``.
    dataset : DatasetCard
    settings : dict
        Of the trainer: epochs, lr, batch_size, seed, r, max_length, ...
    steps, best_step : int
        Optimiser steps run, and the step of the kept checkpoint.
    best_loss, last_loss : float
        Validation loss at that step and at the last evaluation.
    versions : dict of str to str
        Of torch, transformers, trl, peft.
    """

    base: str
    how: str
    dataset: DatasetCard
    settings: dict[str, Any]
    steps: int
    best_step: int
    best_loss: float
    last_loss: float
    versions: dict[str, str] = field(default_factory=dict)


Card = TypeVar("Card", DatasetCard, Tuned)

#: Where each lies, and the command that makes it.
_PLACES = {DatasetCard: (DATASET_CARD, "notes"), Tuned: (TUNED_CARD, "train")}


def write_card(folder: Path, card: DatasetCard | Tuned) -> Path:
    """Write the card of a folder; return its path."""
    path = folder / _PLACES[type(card)][0]
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(asdict(card), indent=2) + "\n", encoding="utf-8")
    return path


def read_card(folder: Path, kind: type[Card]) -> Card:
    """Read the card of a dataset, or that of an adapter or of tuned weights.

    Raises
    ------
    EpidemiaError
        If the folder has none, or another program wrote it.
    """
    name, command = _PLACES[kind]
    path, mend = folder / name, f"run 'epidemia finetune {command}'"
    try:
        return checked_card(json.loads(path.read_text(encoding="utf-8")), kind)
    except OSError as error:
        why = f"cannot be read ({error.strerror or error}): {mend} to make such a folder"
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"is not JSON ({error}): {mend} again"
    except ValueError as error:
        why = f"is not a card of this version ({error}): {mend} again"
    raise EpidemiaError(f"{path} {why}")


def checked_card(read: Any, kind: type[Card]) -> Card:
    """Build a card from JSON; ValueError if it is not a card of this version."""
    card: Card = msgspec.convert(read, kind)
    unknown, dataset = read.keys() - vars(card).keys(), vars(card).get("dataset", card)
    if isinstance(card, Tuned):
        unknown |= read["dataset"].keys() - vars(dataset).keys()
    if unknown:
        raise ValueError(f"it has unknown keys: {', '.join(sorted(unknown))}")
    if dataset.kind not in KINDS:
        raise ValueError(f"kind {dataset.kind!r}, expected one of {', '.join(KINDS)}")
    return card
