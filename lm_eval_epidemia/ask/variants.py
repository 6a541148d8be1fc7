"""Variants of a prompt, chosen with lm-eval's ``--metadata`` and recorded in its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lm_eval_epidemia.ask.orderings import design_of
from lm_eval_epidemia.ask.prompts import WORDINGS
from lm_eval_epidemia.core.errors import EpidemiaError, suggest

#: The name of none.
BASE = "base"

#: By name.
SYSTEM_PROMPTS = {
    BASE: "",
    "conservative": (
        "You are a careful statistician who would rather admit too much uncertainty than too "
        "little. Where your knowledge of a number is thin or second-hand, state a wide "
        "distribution: being surprised by the truth is worse than having been vague."
    ),
    "superforecaster": (
        "You are a forecaster with an outstanding record of calibrated estimates. You start from "
        "base rates and comparable groups, adjust them step by step for what is special about the "
        "case, look for reasons why you may be wrong, and state distributions that are as narrow "
        "as your evidence allows and no narrower: half of your 50 % intervals hold the truth."
    ),
}


#: Answers per cell of a sampled task: below, nothing can be said of their spread.
FEWEST_SAMPLES, MOST_SAMPLES = 8, 1_000

MOST_EXAMPLES = 50

#: How often a prompt is put at most until what is written can be read.
MOST_TRIES = 20

#: The values that some keys can have, and how an error names them.
_KNOWN: dict[str, tuple[tuple[Any, ...], str]] = {
    "leading_space": ((None, True, False), "true or false"),
    "names": (("", "letters"), "letters, or nothing"),
    "structured": (("", "json", "regex"), "json or regex"),
    "system_prompt": (
        tuple(SYSTEM_PROMPTS),
        f"{', '.join(SYSTEM_PROMPTS)}, or your own text with --system_instruction",
    ),
    "typed": (("", "yes-no", "score"), "yes-no or score, or nothing"),
    "wording": (tuple(WORDINGS), f"{', '.join(filter(None, WORDINGS))}, or nothing"),
}


class Variant(NamedTuple):
    """The variant of a run's prompts.

    Attributes
    ----------
    orderings : str or int, optional
        Design of the orderings, see `ask.orderings`.
    n_samples : int
        Answers per cell of a sampled task.
    fewshot : int
        Solved examples from other surveys' tasks before each question.
    gen_prefix : str
        Beginning of the model's answer, for example "The answer is".
    leading_space : bool, optional
        Whether the letter scored is " A" or "A". By default lm-eval decides: " A" after plain text
        or a `gen_prefix`, "A" after a chat template.
    names : str
        Names of the variables of causal graphs: "" for words, "letters" for single letters if names
        are random.
    system_prompt : str
        Name of the system prompt for a model that writes priors, see `ask.variants.SYSTEM_PROMPTS`.
    structured : str
        The form that a server enforces on a written distribution: "" for none, "json" or "regex".
    tries : int
        The most tries of a written answer until it can be read.
    wording : str
        Wording of questions about surveys, one of `prompts.WORDINGS`: "" for the default.
    typed : str
        The type of a decision endpoint's questions where the outcome allows it: "yes-no" or
        "score"; "" for a choice among the answers.
    """

    orderings: str | int | None = None
    n_samples: int = 100
    fewshot: int = 0
    gen_prefix: str = ""
    leading_space: bool | None = None
    names: str = ""
    system_prompt: str = BASE
    structured: str = ""
    tries: int = 1
    wording: str = ""
    typed: str = ""

    @property
    def in_task_files(self) -> dict[str, Any]:
        """The part that is written in task files; empty for the files that ship."""
        keys = ("gen_prefix", "leading_space", "system_prompt", "structured", "tries")
        values = {key: getattr(self, key) for key in keys}
        return {key: value for key, value in values.items() if value != self._field_defaults[key]}

    @classmethod
    def of(cls, metadata: Mapping[str, Any] | None) -> Variant:
        """Read a variant from metadata, which may contain other keys too.

        Parameters
        ----------
        metadata : mapping, optional
            As passed by lm-eval: ``--metadata`` and the arguments of the model.

        Raises
        ------
        EpidemiaError
            If a value is not allowed for its key.
        """
        given = metadata or {}
        if not isinstance(given, Mapping):
            raise EpidemiaError(f"metadata {metadata!r}: expected values by name, a dict")
        chosen = cls(**{key: given[key] for key in cls._fields if given.get(key) is not None})
        if chosen.orderings is not None:
            design_of(2, chosen.orderings)
        _check_integer("n_samples", chosen.n_samples, FEWEST_SAMPLES, MOST_SAMPLES)
        _check_integer("fewshot", chosen.fewshot, 0, MOST_EXAMPLES)
        _check_integer("tries", chosen.tries, 1, MOST_TRIES)
        if not isinstance(chosen.gen_prefix, str) or chosen.gen_prefix != chosen.gen_prefix.strip():
            prefix = f"gen_prefix {chosen.gen_prefix!r}"
            raise EpidemiaError(f"{prefix}: expected a text without spaces around it")
        for name, (known, expected) in _KNOWN.items():
            if (value := getattr(chosen, name)) not in known:
                raise EpidemiaError(f"{name} {value!r} is not known: expected {expected}")
        if chosen.wording and chosen.fewshot:
            raise EpidemiaError("solved examples have no wording: give one of wording and fewshot")
        if chosen.structured == "json" and chosen.fewshot:
            raise EpidemiaError("solved examples are written in lines: give structured regex")
        if chosen.gen_prefix and chosen.leading_space is not None:
            raise EpidemiaError("a letter after gen_prefix has a space: leave out leading_space")
        return chosen


def unknown_keys(keys: Iterable[str]) -> str:
    """Return which keys of ``--metadata`` are unknown, with similar ones; empty if none.

    Only for keys that a user wrote: what lm-eval passes also contains the model's arguments.
    """
    unknown = [str(key) for key in keys if key not in Variant._fields]
    if not unknown:
        return ""
    hints = ", ".join(f"{key!r} ({suggest(key, Variant._fields)})" for key in unknown)
    return f"--metadata has no key {hints}"


def _check_integer(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise EpidemiaError(f"{name} {value!r}: expected a whole number from {least} to {most}")
