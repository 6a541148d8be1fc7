"""``intervention`` and its kin: does U cause V, in a causal graph, before and after do(X)?

Four questions, each answered by the log-probabilities of Yes and No, or in writing: plain; with the
intervention under a made-up name (``substitution``); about the graph alone (``retrieval``); and
about the world, without a graph (``knowledge``).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval_epidemia.ask.replies.forms import answer_text
from lm_eval_epidemia.ask.responses import CHOICE_MASS, WRITTEN, logprobs_of
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.ask.way import Answer, Way
from lm_eval_epidemia.benchmarks.intervention import questions
from lm_eval_epidemia.benchmarks.intervention.questions import (
    CausalQuestion,
    GraphQuestions,
    GraphTask,
)
from lm_eval_epidemia.core.distance import Array

#: What can be answered, yes first.
CHOICES = ("Yes", "No")

_ONE_WORD = "Answer with Yes or No.\nAnswer:"
_TAGGED = "Answer with <answer>yes</answer> or <answer>no</answer>."

_NUMBERS = (
    *("two", "three", "four", "five", "six", "seven"),
    *("eight", "nine", "ten", "eleven", "twelve"),
)


def _model(prompt: CausalQuestion, names: dict[str, str]) -> str:
    """Describe a causal graphical model with all that is known of it."""
    number, (*first, last) = _NUMBERS[len(names) - 2], names.values()
    over = "with" if len(names) == 2 else "whose structure is a directed acyclic graph over"
    edges = " ".join(
        f"{names[cause]} causes {names[result]}." for cause, result in prompt.scene.graph.edges
    )
    return (
        f"Consider a causal graphical model {over} {number} variables: "
        f"{', '.join(first)} and {last}. {edges} "
        "No other causal relations hold between these variables.\n"
    )


# A reply that stops at the closing tag does not have it, or not whole.
_TAG = re.compile(r"<answer>(.*?)(?:</answer>|</?[a-z]*\Z|\Z)", re.DOTALL)
# An underscore around a word is markup.
_WORD = re.compile(r"(?<![^\W_])(yes|no)(?![^\W_])")


def yes_or_no(reply: str) -> float:
    """Read yes or no out of what a model wrote.

    Parameters
    ----------
    reply : str
        Reasoning in tags of its own is left out, and case does not matter.

    Returns
    -------
    float
        1 for yes, -1 for no. The first ``<answer>`` holds exactly one of the words, with white
        space at most around it; without a tag, the first whole word of the two counts. Otherwise
        NaN.
    """
    text = unicodedata.normalize("NFKC", answer_text(reply)).lower()
    tag = _TAG.search(text)
    answer = tag[1].strip() if tag else (word[1] if (word := _WORD.search(text)) else "")
    return {"yes": 1.0, "no": -1.0}.get(answer, math.nan)


class Intervention(Way):
    """Does a cause have an effect in a causal graph, before and after an intervention?

    Attributes
    ----------
    written : bool
        Whether the answer is written; else the log-probabilities of Yes and No are read.
    intervenes : bool
        Whether it asks before and after interventions.
    """

    name = "intervention"
    intervenes = True
    diagnostics = {"choice_mass": CHOICE_MASS}
    request = _ONE_WORD

    def __init__(self, written: bool = False) -> None:
        if written:
            self.name, self.suffix = f"{self.name}_written", f"{self.suffix}_written"
            self.diagnostics, self.request = WRITTEN, _TAGGED
            self.temperature, self.unread = 0.0, "wrong"

    def load(self, task: str) -> GraphQuestions:
        return questions.make_questions(task)

    def described(self, truth: GraphQuestions) -> list[list[str]]:
        return truth.given

    def worded(self, prompt: CausalQuestion, names: dict[str, str], values: dict[str, str]) -> str:
        """Ask a question in the names of the variables and of their values."""
        asked = f"does {names[prompt.cause]} cause {names[prompt.result]}?"
        if (node := prompt.intervened) is None:
            return f"{_model(prompt, names)}In this causal graphical model, {asked}\n"
        return (
            f"{_model(prompt, names)}Suppose that the perfect intervention "
            f"do({names[node]} = {values[node]}) was performed.\n"
            f"In this intervened causal graphical model, {asked}\n"
        )

    def rows(self, truth: GraphQuestions, variant: Variant) -> Iterator[dict[str, Any]]:
        for cell, prompt in enumerate(truth.prompts):
            named = prompt.scene.lettered() if variant.names == "letters" else prompt.scene.named
            nodes = prompt.scene.graph.nodes
            names, values = (dict(zip(nodes, these, strict=True)) for these in named[:2])
            yield {"cell": cell, "prompt": self.worded(prompt, names, values) + self.request}

    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the log-probabilities of yes and no; of a reply 1 or -1, NaN if it is neither."""
        if self.generated:
            return self.answer(row, yes_or_no(str(responses[0])))
        return self.answer(row, logprobs_of(responses, row))

    def choices(self, truth: GraphQuestions) -> Sequence[str]:
        return CHOICES

    def believed(self, belief: Array, row: Any) -> Array:
        return belief


class Substitution(Intervention):
    """The intervention under a made-up name."""

    name = "substitution"
    suffix = "_substitution"

    def asks(self, task: GraphTask) -> bool:
        return not task.nodes

    def worded(self, prompt: CausalQuestion, names: dict[str, str], values: dict[str, str]) -> str:
        """Name the operation by a made-up word, and say what it does instead."""
        if (node := prompt.intervened) is None:
            return super().worded(prompt, names, values)
        operation = prompt.scene.named.operation
        return (
            f"{_model(prompt, names)}Let {operation}(variable = value) be the operation that sets "
            "the variable to the value, deletes every edge of the graph that points into the "
            "variable, and leaves everything else as it was.\n"
            f"Suppose that {operation}({names[node]} = {values[node]}) was applied.\n"
            f"In the causal graphical model that results, does {names[prompt.cause]} cause "
            f"{names[prompt.result]}?\n"
        )


class Retrieval(Intervention):
    """About the graph alone."""

    name = "retrieval"
    suffix = "_retrieval"
    intervenes = False

    def asks(self, task: GraphTask) -> bool:
        return not task.nodes

    def load(self, task: str) -> GraphQuestions:
        return questions.retrieval(task)


class Knowledge(Intervention):
    """About the world, without a graph."""

    name = "knowledge"
    suffix = "_knowledge"
    intervenes = False

    def asks(self, task: GraphTask) -> bool:
        return task.names != "random"

    def load(self, task: str) -> GraphQuestions:
        return questions.knowledge(task)

    def worded(self, prompt: CausalQuestion, names: dict[str, str], values: dict[str, str]) -> str:
        return (
            "Think of how things are connected in the real world.\n"
            f"Does {names[prompt.cause]} cause {names[prompt.result]}?\n"
        )


#: Each beside its written form.
WAYS: dict[str, Intervention] = {
    way.name: way
    for kind in (Intervention, Substitution, Retrieval, Knowledge)
    for way in (kind(), kind(written=True))
}
