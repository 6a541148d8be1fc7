"""Turn the rows of a fine-tuning dataset into tokens, and these into batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.results.card import KINDS

#: How far shares may be from summing to 1.
ROUNDING = 1e-6

#: What the loss does not look at.
IGNORED = -100


def encoded(kind: str, rows: Any, tokenizer: Any, longest: int) -> Any:
    """Turn rows into tokens.

    Parameters
    ----------
    kind : str
        A key of `card.KINDS`.
    rows : datasets.Dataset
    tokenizer : PreTrainedTokenizerBase
    longest : int
        Tokens that the model takes; a longer row is an error and is never cut.

    Returns
    -------
    datasets.Dataset
        ``input_ids`` and ``labels``. A text ends with the end-of-text token, and all its tokens
        count. For a prompt, ``labels`` are the last tokens of the choices that may follow it, and
        ``p`` their target probabilities; a drawn answer has one label. If all choices begin with
        the same tokens (such as a separate space), these are at the end of ``input_ids``.

    Raises
    ------
    EpidemiaError
        If a row is too long, has an answer that its prompt does not offer, or invalid shares, or if
        choices differ in more than their last token.
    """
    import datasets

    encoded_rows = []
    for row in rows:
        if "prompt" in KINDS[kind]:
            choices, p = row.get("choices", [row.get("completion")]), row.get("p", [1.0])
            _check_asked(row, choices, p)
            ids, labels = _choices(row["prompt"], choices, tokenizer)
            encoded_rows.append({"input_ids": ids, "labels": labels, "p": p})
        else:
            ids = [*tokenizer(row["text"])["input_ids"], tokenizer.eos_token_id]
            encoded_rows.append({"input_ids": ids, "labels": ids})
        if len(ids) > longest:
            raise EpidemiaError(
                f"a row has {len(ids)} tokens, but the model takes {longest}: {str(row)[:80]}"
            )
    return datasets.Dataset.from_list(encoded_rows)


def _check_asked(row: Mapping[str, Any], choices: list[str], p: list[float]) -> None:
    """Refuse a row that was changed into something that none of our prompts has."""
    shown = str(row)[:200]
    if strange := [choice for choice in choices if f"\n{choice.strip()}. " not in row["prompt"]]:
        raise EpidemiaError(
            f"a row was changed: its prompt does not offer {few(strange)}; make the dataset again: "
            f"{shown}"
        )
    if len(p) != len(choices) or min(p) < 0 or abs(sum(p) - 1) > ROUNDING:
        raise EpidemiaError(
            f"a row was changed: its shares {p} are not {len(choices)} shares that sum to 1; "
            f"make the dataset again: {shown}"
        )


def _choices(prompt: str, choices: list[str], tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens before each choice's last one, and the last ones, split as in lm-eval."""
    before = tokenizer(prompt)["input_ids"]
    after = [tokenizer(prompt + choice)["input_ids"][len(before) :] for choice in choices]
    if not all(after) or len({tuple(tokens[:-1]) for tokens in after}) > 1:
        raise EpidemiaError(
            f"with this tokenizer the choices {choices} differ in more than their last token: soft "
            "labels need one token each; use kind 'answers'"
        )
    return [*before, *after[0][:-1]], [tokens[-1] for tokens in after]


def padded(pad: int) -> Any:
    """Return a function that combines rows into a batch, padded on the right."""

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def filled(name: str, value: float, kind: Any = torch.long) -> Any:
            columns = [torch.tensor(row[name], dtype=kind) for row in rows]
            return pad_sequence(columns, batch_first=True, padding_value=value)

        ids, length = (
            filled("input_ids", pad),
            torch.tensor([len(row["input_ids"]) for row in rows]),
        )
        batch = {
            "input_ids": ids,
            "labels": filled("labels", IGNORED),
            "attention_mask": (torch.arange(ids.shape[1]) < length[:, None]).long(),
        }
        if "p" in rows[0]:
            batch["p"] = filled("p", 0.0, torch.float32)
        return batch

    return collate
