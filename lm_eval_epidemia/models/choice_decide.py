"""``--model choice-decide``: a decision endpoint, one typed question per prompt.

Of a prompt with options, what is given becomes the question's state and what is asked its
instructions, in the same words. The server gives each option a probability: these are the letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.prompts import ONE_LETTER
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, list_leaves
from lm_eval_epidemia.benchmarks.observation.other_scales import is_typed
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.keys import refuse_keys
from lm_eval_epidemia.models.decisions import ServedDecisions, TypedQuestion
from lm_eval_epidemia.models.loading import read_arguments
from lm_eval_epidemia.models.served import Prompt, PromptAnswer, ServedLM, ServedSettings, task_of

#: Lines of prompts that say how to answer, which a decision endpoint says itself.
YES_OR_NO = "Answer with Yes or No."
REQUESTS = (ONE_LETTER, YES_OR_NO)

#: The state of a question that says everything.
NO_STATE = "Consider this question."

#: Between what is given and what is asked.
_BETWEEN = re.compile(r"(?<=[.?!]) (?=[A-Z])")

_OPTION = re.compile(r"([A-Z])\. (.+)")


class ChoiceDecideSettings(ServedSettings):
    """The arguments of `ChoiceDecide`, which says what they are."""

    form: Literal["auto", "systemone", "openai", "sglang"] = "auto"


class Shown(NamedTuple):
    """What a prompt shows.

    Attributes
    ----------
    state, instructions : str
        What is given, and what is asked.
    options : dict of str to str
        By letter; Yes and No are their own.
    """

    state: str
    instructions: str
    options: dict[str, str]


def split_prompt(text: str) -> Shown | None:
    """Split a prompt that ends with "Answer:"; None if it shows no options."""
    *lines, last = text.split("\n")
    request = lines.pop() if lines and lines[-1] in REQUESTS else ""
    options: dict[str, str] = {}
    while lines and (shown := _OPTION.fullmatch(lines[-1])):
        options = {shown[1]: shown[2], **options}
        lines.pop()
    if request == YES_OR_NO:
        options = {"Yes": "Yes", "No": "No"}
    elif [*options] != [*LETTERS[: len(options)]]:
        return None
    if last != "Answer:" or not lines or len({*options.values()}) < max(len(options), 2):
        return None
    given, *asked = _BETWEEN.split(lines.pop(), maxsplit=1)
    state = "\n".join([*lines, given] if asked else lines).strip()
    return Shown(state or NO_STATE, (asked or [given])[0], options)


class ChoiceDecide(ServedLM):
    """A decision endpoint that answers multiple-choice requests with probabilities.

    Parameters
    ----------
    base_url : str
        Ends in ``/systemone`` or ``/decisions``.
    form : {"auto", "systemone", "openai", "sglang"}
        The form of requests; by default the one that the server answers.
    model, num_concurrent, max_cost_tokens, timeout, max_retries, pause, api_key_env, header_env, \
verify_certificate, ca_cert_path
        As of `ChoiceAPI`.
    """

    name, most_declined = "choice-decide", 1.0

    def __init__(self, **arguments: Any) -> None:
        refuse_keys(self.name, arguments)
        given = read_arguments(self.name, ChoiceDecideSettings, arguments)
        url = urlsplit(given.base_url)
        if url.scheme not in ("http", "https") or not url.path.endswith(
            ("/systemone", "/decisions")
        ):
            raise EpidemiaError(
                f"choice-decide: base_url={given.base_url}: expected a URL that begins with http "
                "and ends in /v1/systemone or /v1/decisions"
            )
        super().__init__(given)
        self.served = ServedDecisions(self.endpoint, self.model, given.max_cost_tokens, given.form)
        #: By task, the type of its questions (``--metadata typed``).
        self._typed: dict[str, str] = {}

    @property
    def tells_mass(self) -> bool:
        """Whether the server tells how much probability all options have together."""
        return bool(self.get_model_info()["choice_decide"].get("label_mass"))

    def check_tasks(self, tasks: Iterable[Any]) -> None:
        """Refuse tasks without options, and note how the others are asked.

        Parameters
        ----------
        tasks : iterable of lm_eval.api.task.Task
        """
        for task in tasks:
            name = str(task.config.task)
            leaf = list_leaves().get(name)
            way = WAYS[leaf.way] if leaf else None
            # Of several draws of an answer there is one here.
            is_one = way is not None and "choices" in way.columns and not way.drawn
            if task.OUTPUT_TYPE == "loglikelihood_rolling" or (
                task.OUTPUT_TYPE == "generate_until" and not is_one
            ):
                raise self._unsuited(name)
            if leaf:
                self._typed[name] = Variant.of(task.config.metadata).typed

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Answer requests, one question at a time for all its options."""
        asked = [(request, request.args[1].strip()) for request in requests]
        return self.ask_letters(self._group(asked), requests, disable_tqdm)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Write the likeliest of the options that a prompt shows; nothing where it is declined."""
        replies = [""] * len(requests)

        def take(prompt: Prompt, answered: PromptAnswer) -> Iterator[tuple[Any, Any]]:
            for number, choice in prompt.requests:
                if not answered.declined and answered.letters[choice][1]:
                    options = split_prompt(requests[number].args[0]).options  # type: ignore[union-attr]
                    replies[number] = next(
                        letter for letter, option in options.items() if option == answered.began
                    )
                    yield requests[number].args, replies[number]

        asked = [(request, "") for request in requests]
        self.ask_all(self._group(asked), take, disable_tqdm, "generate_until")
        return replies

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        raise self._unsuited(task_of(requests))

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> str:
        raise EpidemiaError(
            "choice-decide: the server puts its own template around a question: leave out "
            "--apply_chat_template"
        )

    def _group(self, requests: Sequence[tuple[Any, str]]) -> list[Prompt]:
        """Group requests by the question that answers them.

        Parameters
        ----------
        requests : sequence of (Instance, str)
            And the letter that is wanted; empty for the likeliest.
        """
        prompts: dict[TypedQuestion, Prompt] = {}
        for number, (request, letter) in enumerate(requests):
            shown = split_prompt(request.args[0])
            if shown is None or (letter and letter not in shown.options):
                raise self._unsuited(task_of([request]))
            asked = self._to_question(shown, request)
            prompt = prompts.setdefault(asked, Prompt(asked, asked.options, []))
            wanted = [shown.options[letter]] if letter else asked.options
            prompt.requests.extend((number, asked.options.index(option)) for option in wanted)
        return [*prompts.values()]

    def _to_question(self, shown: Shown, request: Any) -> TypedQuestion:
        """Return what is asked, of the type that ``--metadata typed`` wants where it can be."""
        options = tuple(shown.options.values())
        typed, doc = self._typed.get(request.task_name, ""), request.doc
        if not typed or not is_typed(typed, doc["task"], options):
            return TypedQuestion(shown.state, shown.instructions, options)
        levels: tuple[str, ...] = ("Yes", "No")
        if typed == "score":
            _, levels = zip(*sorted(zip(doc["order"], options, strict=True)), strict=True)
        return TypedQuestion(shown.state, shown.instructions, levels, typed)

    def _unsuited(self, task: str) -> EpidemiaError:
        return EpidemiaError(
            f"choice-decide only asks prompts that show their options (A. ..., B. ...) or end in "
            f"'{YES_OR_NO}', not those of {task}: run that task separately, with another model"
        )
