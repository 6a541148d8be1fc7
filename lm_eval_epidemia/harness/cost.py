"""What a group costs before anything is spent: prompts, requests and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.splits import split
from lm_eval_epidemia.elicit.variants import FEWEST_SAMPLES, Variant, unknown_keys
from lm_eval_epidemia.elicit.ways import WAYS
from lm_eval_epidemia.errors import EpidemiaError

__all__ = ["Cost", "cost", "letters_of_several_tokens", "tokenizer"]


class Cost(NamedTuple):
    """What one group or task takes.

    Attributes
    ----------
    name : str
    tasks : int
    prompts : int
        Texts put to the model.
    requests : int
        What lm-eval makes of them: one per letter where log-probabilities are asked for, one per
        prompt where the model writes. `choice-api` sends one per prompt.
    characters : int
        Of all prompts.
    tokens : int or None
        Of all prompts, each counted once; None without a tokenizer. Of sampled answers, counted for
        `FEWEST_SAMPLES` per cell and scaled up.
    distinct : int or None
        Of these, the tokens that do not stand in a beginning shared with another prompt of the
        task: what is left to compute where shared beginnings are computed once.
    written : int
        Tokens that the model may write at most; 0 where it does not.
    """

    name: str
    tasks: int
    prompts: int
    requests: int
    characters: int
    tokens: int | None
    distinct: int | None
    written: int


def tokenizer(name: str | Path) -> Any:
    """Load a Hugging Face tokenizer, by the name of its model or from a folder."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise EpidemiaError(
            "counting tokens needs transformers: pip install 'lm-eval-epidemia[hf]'"
        ) from None
    try:
        return AutoTokenizer.from_pretrained(str(name))
    except (OSError, ValueError) as error:
        raise EpidemiaError(
            f"--tokenizer {name}: expected a folder with a tokenizer or the name of a model on the "
            f"Hugging Face Hub ({str(error).splitlines()[0]})"
        ) from None


def letters_of_several_tokens(tokenizer: Any) -> list[str]:
    """Return the letters that are not one token after a prompt.

    lm-eval then scores a letter by the log-probabilities of all its tokens: the same quantity, at a
    forward pass per letter.
    """
    before = tokenizer("Answer:", add_special_tokens=False)["input_ids"]
    return [
        letter
        for letter in LETTERS
        if len(tokenizer(f"Answer: {letter}", add_special_tokens=False)["input_ids"])
        != len(before) + 1
    ]


def _count(tokenizer: Any, prompts: Sequence[str]) -> tuple[int, int]:
    """Count the tokens of all prompts, and those that begin two prompts next in order."""
    batches = (prompts[start : start + 1000] for start in range(0, len(prompts), 1000))
    found = sorted(ids for batch in batches for ids in tokenizer(list(batch))["input_ids"])
    shared = 0
    for one, other in pairwise(found):
        for place in range(min(len(one), len(other))):
            if one[place] != other[place]:
                break
            shared += 1
    return sum(map(len, found)), shared


def cost(
    names: Iterable[str],
    tokenizer: Any = None,
    metadata: dict[str, Any] | None = None,
    max_gen_toks: int = 1024,
) -> list[Cost]:
    """Count what groups or tasks take, without a model.

    Parameters
    ----------
    names : iterable of str
        Groups, tasks, patterns or surveys, for example ``epidemia_high_closed``.
    tokenizer : optional
        Of Hugging Face; without it tokens are not counted.
    metadata : dict, optional
        As for ``lm_eval --metadata``: the variant of the prompts.
    max_gen_toks : int
        Tokens that the model may write per answer.

    Returns
    -------
    list of Cost
        One per name. What a chat template adds is not counted.
    """
    if max_gen_toks < 1:
        raise EpidemiaError(f"--max-gen-toks {max_gen_toks}: a model must write at least 1 token")
    if wrong := unknown_keys(metadata or {}):
        raise EpidemiaError(wrong)
    variant, lines = Variant.of(metadata), []
    for name in names:
        asked = members(name)
        prompts = requests = characters = tokens = shared = written = 0
        for task, name_of_way in track(asked, name, console=Console(stderr=True), transient=True):
            counted, times, way = variant, 1.0, WAYS[name_of_way]
            # The answers of a cell differ in an ordering and a number.
            if "n_samples" in way.columns:
                counted = variant._replace(n_samples=FEWEST_SAMPLES)
                times = variant.n_samples / FEWEST_SAMPLES
            rows = split(task, way.name, counted)
            texts = rows["prompt"][:]
            here = round(len(texts) * times)
            prompts += here
            requests += here * (1 if way.generated else len(rows[0]["choices"]))
            characters += round(sum(map(len, texts)) * times)
            if tokenizer:
                counted_tokens = _count(tokenizer, texts)
                tokens += round(counted_tokens[0] * times)
                shared += round(counted_tokens[1] * times)
            written += here * max_gen_toks if way.generated else 0
        lines.append(
            Cost(name, len(asked), prompts, requests, characters,
                 tokens if tokenizer else None, tokens - shared if tokenizer else None, written)
        )  # fmt: skip
    return lines
