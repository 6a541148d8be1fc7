"""The cost of a group before it is run: prompts, requests and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.ask.variants import FEWEST_SAMPLES, Variant
from lm_eval_epidemia.benchmarks import WAYS, find_tasks, in_way
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.harness.arguments import find_unheeded


class Cost(NamedTuple):
    """The cost of one group or task.

    Attributes
    ----------
    name : str
    tasks : int
    prompts : int
        Texts put to the model.
    requests : int
        Requests that lm-eval makes of them: one per letter for log-probabilities; one per prompt
        where the model writes (if its first reply can be read). `choice-api` sends one per prompt.
    characters : int
        Of all prompts.
    tokens : int or None
        Of all prompts, each counted once; None without a tokenizer. For sampled answers, counted
        for `FEWEST_SAMPLES` per cell and scaled up.
    distinct : int or None
        The tokens outside the beginnings that prompts of a task share: the work that is left if
        shared beginnings are computed once.
    written : int
        The most tokens that the model may write; 0 if it writes none.
    leaves : mapping of str to Cost
        The cost of each of its tasks, by lm-eval's names; empty for a single task.
    """

    name: str
    tasks: int
    prompts: int
    requests: int
    characters: int
    tokens: int | None
    distinct: int | None
    written: int
    leaves: Mapping[str, Cost] = MappingProxyType({})


def tokenizer(name: str | Path) -> Any:
    """Load a Hugging Face tokenizer, by the name of its model or from a folder."""
    with needs("hf", "counting tokens"):
        from transformers import AutoTokenizer
    try:
        return AutoTokenizer.from_pretrained(str(name))
    except (OSError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise EpidemiaError(
            f"--tokenizer {name}: expected a folder with a tokenizer or a Hub id ({said})"
        ) from None


def _count(tokenizer: Any, prompts: Sequence[str]) -> tuple[int, int]:
    """Count the tokens of all prompts, and those that begin two prompts next in order."""
    batches = (prompts[start : start + 1000] for start in range(0, len(prompts), 1000))
    tokens = sorted(ids for batch in batches for ids in tokenizer(list(batch))["input_ids"])
    shared = (
        sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(*pair, strict=False)))
        for pair in pairwise(tokens)
    )
    return sum(map(len, tokens)), sum(shared)


def cost(
    names: Iterable[str],
    tokenizer: Any = None,
    metadata: dict[str, Any] | None = None,
    max_gen_toks: int = 1024,
) -> list[Cost]:
    """Count the cost of groups or tasks, without a model.

    Parameters
    ----------
    names : iterable of str
        Groups, tasks, patterns or surveys, for example ``epidemia_high_closed``.
    tokenizer : optional
        A Hugging Face tokenizer; without it tokens are not counted.
    metadata : dict, optional
        As for ``lm_eval --metadata``: selects the variant of the prompts.
    max_gen_toks : int
        The most tokens that the model may write per answer.

    Returns
    -------
    list of Cost
        One per name, in their order. Tokens that a chat template adds are not counted.
    """
    if max_gen_toks < 1:
        raise EpidemiaError(f"--max-gen-toks {max_gen_toks}: a model must write at least 1 token")
    if faults := list(find_unheeded(metadata or {}, names := list(dict.fromkeys(names)))):
        raise EpidemiaError("; ".join(faults))
    variant, lines, counted = Variant.of(metadata), list[Cost](), dict[str, Cost]()
    for name in names:
        asked = {in_way(*member): member for member in find_tasks(name)}
        for leaf in track(asked, name, console=Console(stderr=True), transient=True):
            if leaf not in counted:
                counted[leaf] = _of_one(leaf, *asked[leaf], variant, tokenizer, max_gen_toks)
        lines.append(add_costs(name, {leaf: counted[leaf] for leaf in asked}))
    return lines


def _of_one(
    name: str, task: str, way_name: str, variant: Variant, tokenizer: Any, max_gen_toks: int
) -> Cost:
    """Count the cost of a task in one way of asking."""
    way, times = WAYS[way_name], 1.0
    # The answers of a cell differ in an ordering and a number.
    if "n_samples" in way.columns:
        times = variant.n_samples / FEWEST_SAMPLES
        variant = variant._replace(n_samples=FEWEST_SAMPLES)
    rows = split(task, way_name, variant)
    texts = rows["prompt"][:]
    prompts = round(len(texts) * times)
    tokens = shared = 0
    if tokenizer:
        tokens, shared = (round(number * times) for number in _count(tokenizer, texts))
    return Cost(
        name,
        tasks=1,
        prompts=prompts,
        requests=prompts * (1 if way.generated else len(rows[0]["choices"])),
        characters=round(sum(map(len, texts)) * times),
        tokens=tokens if tokenizer else None,
        distinct=tokens - shared if tokenizer else None,
        written=prompts * max_gen_toks * variant.tries if way.generated else 0,
    )


def add_costs(name: str, leaves: Mapping[str, Cost]) -> Cost:
    """Add up the costs of tasks, each task once."""
    sums = (
        None if None in column else sum(column)
        for column in zip(*(leaf[1:8] for leaf in leaves.values()), strict=True)
    )
    return Cost._make((name, *sums, leaves))
