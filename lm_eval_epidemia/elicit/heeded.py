"""Which tasks each key of ``--metadata`` changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import DistributionWay, Way

#: By key: a function of a way and a declared task that tells whether the key changes the prompts.
HEEDED: Mapping[str, Callable[[Way, Any], bool]] = {
    "orderings": lambda way, task: "design" in way.columns,
    "n_samples": lambda way, task: "n_samples" in way.columns,
    "fewshot": lambda way, task: isinstance(way, DistributionWay),
    "gen_prefix": lambda way, task: True,
    # A letter that is written has no delimiter before it.
    "leading_space": lambda way, task: not way.generated,
    "names": lambda way, task: getattr(task, "names", "") == "random",
    "system_prompt": lambda way, task: way.system_prompts,
    "structured": lambda way, task: way.is_structured,
    "tries": lambda way, task: way.generated,
    "wording": lambda way, task: isinstance(way, DistributionWay),
}


def asked_for(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys with a value other than the default; a number of answers always counts."""
    for key, usual in Variant._field_defaults.items():
        value = metadata.get(key)
        if value is not None and (value != usual or key == "n_samples"):
            yield key
