"""The questions of a group for Inspect, in lm-eval's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.elicit.variants import Variant

#: Ways of asking available in Inspect, and the generation arguments of each.
GENERATED: dict[str, dict[str, Any]] = {
    "letters": {"temperature": 0.0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20},
    "stated": {"temperature": 0.0, "max_tokens": 1024},
}

#: Of the orderings of letters, unless others are asked for: each answer once in each position.
BALANCED = "balanced"


def questions(
    group: str, way: str, surveys: Sequence[str], orderings: str | int
) -> Iterator[dict[str, Any]]:
    """Yield the questions of a group.

    Parameters
    ----------
    group : str
        ``"epidemia_low"`` or ``"epidemia_high"``.
    way : {"letters", "stated"}
    surveys : sequence of str
        Only these surveys; all if empty.
    orderings : str or int
        As in ``--metadata``; only for letters.

    Yields
    ------
    dict
        A row of the task's split, and its ``survey``, ``way``, ``levels`` and their true shares
        ``p``.

    Raises
    ------
    EpidemiaError
        If there is no such way or survey, or the way does not use `orderings`.
    """
    if way not in GENERATED:
        raise EpidemiaError(f"way={way!r} is not available here ({nearest(way, GENERATED)})")
    if way != "letters" and orderings != BALANCED:
        raise EpidemiaError(f"orderings does not change the way {way!r}: leave it out")
    entries = [entry for entry in OBSERVATION.asked(way) if entry.group == group]
    here = {entry.facets["survey"] for entry in entries}
    if unknown := [name for name in surveys if name not in here]:
        raise EpidemiaError(f"{group} has no survey {unknown[0]!r} ({nearest(unknown[0], here)})")
    variant = Variant.of({"orderings": orderings} if way == "letters" else {})
    for entry in entries:
        if (survey := entry.facets["survey"]) in (surveys or here):
            truth = OBSERVATION.ways[way].load(entry.name)
            more = {"survey": survey, "way": way, "levels": list(truth.levels)}
            for row in split(entry.name, way, variant):
                yield {**row, **more, "p": truth.p[row["cell"]].tolist()}
