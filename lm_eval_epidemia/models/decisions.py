"""Decision endpoints: typed questions, answered with a probability per option and no text.

Three forms of requests exist, two of them on one path (`FORMS`). So each is tried on a question of
ours, and the one whose answer has its fields is taken; a server may ignore what it does not know.

Probabilities may be rounded. How finely is seen from the digits of all answers so far, and what was
rounded away is bounded (`ask.bounds.Within`): a rounded 0 is not 0. ``confidence`` means something
else at every server and is never read as a probability.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

from lm_eval_epidemia.ask.bounds import Within
from lm_eval_epidemia.ask.responses import LOG_ZERO
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError, plural
from lm_eval_epidemia.models import server_kinds
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.served import Prompt, PromptAnswer, Served
from lm_eval_epidemia.models.server_kinds import MLX, OTHER, VLLM
from lm_eval_epidemia.models.server_replies import BadReply, Declined, Filtered

#: The version of how a prompt is split into what is given and what is asked (`TypedQuestion`).
VERSION = 1

#: What the question is called in a request, which has only one.
NAME = "question"

#: Answers with more decimals are not rounded.
MOST_DIGITS = 8

#: How far from 1 the probabilities of an answer may sum besides what rounding explains.
SLACK = 1e-3

_logger = logging.getLogger("lm_eval_epidemia")


class TypedQuestion(NamedTuple):
    """A question as decision endpoints take it.

    Attributes
    ----------
    state : str
        What is given: "Consider a person who is 30 to 34 years old."
    instructions : str
        What is asked: "Has this person ever used marijuana?"
    options : tuple of str
        In the order in which they are shown.
    type : str
        "choice"; "yes-no", whose options are Yes and No; or "score", whose options are levels.
    """

    state: str
    instructions: str
    options: tuple[str, ...]
    type: str = "choice"


#: Questions of which no answer is certain: each is asked twice before the first prompt.
PROBES = tuple(
    TypedQuestion(f"Consider a {thing}.", f"Where does this {thing} stand?", options)
    for thing, options in {
        "chair": ("In a kitchen", "In a garden"),
        "bicycle": ("In a street", "In a cellar", "In a shop"),
        "lamp": ("On a desk", "On a shelf", "On the floor", "On a window sill"),
        "tree": ("In a forest", "In a park"),
        "boat": ("In a harbour", "On a lake", "On a river"),
    }.items()
)


class Decision(NamedTuple):
    """What an answer says.

    Attributes
    ----------
    p : tuple of float
        The probability of each option.
    mass : float or None
        The probability of all their labels among all tokens, where it is told.
    confidence : float or None
        Something else at every server; at vLLM the largest of `p` times `mass`.
    choice : object
        The option that it names as its choice, if it names one.
    """

    p: tuple[float, ...]
    mass: float | None = None
    confidence: float | None = None
    choice: Any = None


class Form(NamedTuple):
    """A form of requests.

    Attributes
    ----------
    types : mapping
        What it calls the types of questions.
    body : callable
        From the model's name and a question, with its type as this form calls it, to a request.
    read : callable
        From a reply and a question to its `Decision`; raises `BadReply` or `Filtered`.
    path : str
        How addresses end that take it.
    """

    types: Mapping[str, str]
    body: Callable[[str, TypedQuestion], dict[str, Any]]
    read: Callable[[Any, TypedQuestion], Decision]
    path: str


def _number(value: Any, what: str) -> float:
    """Check that a value is a probability."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise BadReply(f"an answer whose {what} is no number from 0 to 1")
    return float(value)


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadReply(f"an answer without {what}")
    return value


def _by_option(told: Mapping[Any, Any], names: Sequence[str]) -> tuple[float, ...]:
    """Return the probabilities of named options, which may come in any order."""
    if told.keys() != {*names}:
        raise BadReply("an answer whose options are not those that were asked for")
    return tuple(_number(told[name], "probability") for name in names)


def _named(reply: Any, asked: TypedQuestion, types: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the answer to our question, in forms that name answers."""
    answers = _mapping(_mapping(reply, "answers").get("answers"), "answers")
    if answers.keys() != {NAME}:
        raise BadReply("an answer to another question")
    return _of_type(answers[NAME], asked, types)


def _of_type(answer: Any, asked: TypedQuestion, types: Mapping[str, str]) -> Mapping[str, Any]:
    known = _mapping(answer, "an answer to the question")
    if known.get("type") == "refusal":
        raise Filtered("the model refuses to answer")
    if known.get("type") != types[asked.type]:
        raise BadReply("an answer of another type than the question")
    return known


def _maybe(told: Any, what: str) -> float | None:
    """Check a sum of probabilities that may be missing; rounding may carry it above 1."""
    if isinstance(told, float) and 1 < told <= 1 + SLACK:
        return 1.0
    return None if told is None else _number(told, what)


def _yes_no(told: Any, asked: TypedQuestion) -> tuple[float, ...]:
    """Return the probabilities of Yes and No, in the order of the options."""
    yes = _number(told, "probability")
    return tuple(yes if option == "Yes" else 1 - yes for option in asked.options)


# System One: TypeSafe's Jev, vLLM, SGLang, llama.cpp, Ollama, LiteLLM and hosts.

_SYSTEM_ONE = {"choice": "choice", "yes-no": "noul", "score": "score"}


def _systemone_body(model: str, asked: TypedQuestion) -> dict[str, Any]:
    criteria: Any = {
        "choice": dict.fromkeys(asked.options),
        "yes-no": None,
        "score": [*asked.options],
    }[asked.type]
    question = {"type": _SYSTEM_ONE[asked.type], "instructions": asked.instructions}
    questions = {NAME: {**question, "criteria": criteria}}
    return {"model": model, "state": asked.state, "questions": questions}


def _read_systemone(reply: Any, asked: TypedQuestion) -> Decision:
    answer = _named(reply, asked, _SYSTEM_ONE)
    beside = reply.get("diagnostics")
    beside = beside.get(NAME) if isinstance(beside, dict) else None
    told = beside.get("label_mass") if isinstance(beside, dict) else answer.get("x_label_mass")
    if asked.type == "yes-no":
        return Decision(_yes_no(answer.get("noul"), asked), _maybe(told, "label_mass"))
    p = _mapping(answer.get("probabilities"), "probabilities")
    names: Sequence[str] = asked.options
    if asked.type == "score" and p.keys() != {*names}:
        names = [str(level) for level in range(len(names))]
    mass = _maybe(told, "label_mass")
    return Decision(_by_option(p, names), mass, choice=answer.get("choice"))


# OpenAI's Decisions, also of vLLM, Fireworks and LiteLLM.

_OPENAI = {"choice": "choice", "yes-no": "predicate", "score": "score"}


def _openai_body(model: str, asked: TypedQuestion) -> dict[str, Any]:
    options: dict[str, Any] = {
        "choice": {"choices": [{"value": option} for option in asked.options]},
        "yes-no": {},
        "score": {"levels": [{"label": option} for option in asked.options]},
    }[asked.type]
    question = {"type": _OPENAI[asked.type], "name": NAME, "instructions": asked.instructions}
    return {"model": model, "input": asked.state, "questions": [{**question, **options}]}


def _read_openai(reply: Any, asked: TypedQuestion) -> Decision:
    answers = _mapping(reply, "answers").get("answers")
    if not isinstance(answers, list) or len(answers) != 1:
        raise BadReply("an answer without answers, or with several to one question")
    if _mapping(answers[0], "an answer to the question").get("name") != NAME:
        raise BadReply("an answer to another question")
    answer = _of_type(answers[0], asked, _OPENAI)
    if asked.type == "yes-no":
        return Decision(_yes_no(answer.get("probability"), asked))
    key, told = "value" if asked.type == "choice" else "label", {}
    listed = answer.get("probabilities")
    for each in listed if isinstance(listed, list) else ():
        option = _mapping(each, "probabilities").get(key)
        if not isinstance(option, str) or option in told:
            raise BadReply("an answer whose options are not those that were asked for")
        told[option] = each.get("probability")
    p = _by_option(told, asked.options)
    confidence = _maybe(answer.get("confidence"), "confidence")
    return Decision(p, confidence=confidence, choice=answer.get("choice"))


# SGLang's own, on the path of OpenAI's.

_SGLANG = {"choice": "choice", "yes-no": "yes_no", "score": "score"}


def _sglang_body(model: str, asked: TypedQuestion) -> dict[str, Any]:
    options: Any = {
        "choice": {"options": [{"name": option} for option in asked.options]},
        "yes-no": {},
        "score": {"levels": [*asked.options]},
    }[asked.type]
    question = {"id": NAME, "type": _SGLANG[asked.type], "question": asked.instructions}
    return {"model": model, "input": asked.state, "questions": [{**question, **options}]}


def _read_sglang(reply: Any, asked: TypedQuestion) -> Decision:
    answer = _named(reply, asked, _SGLANG)
    p = _mapping(answer.get("probabilities"), "probabilities")
    mass = _maybe(answer.get("label_mass"), "label_mass")
    if asked.type == "yes-no":
        by_name = dict(zip(("yes", "no"), _by_option(p, ("yes", "no")), strict=True))
        return Decision(tuple(by_name[option.lower()] for option in asked.options), mass)
    levels = [str(level) for level in range(len(asked.options))]
    names = levels if asked.type == "score" else asked.options
    return Decision(_by_option(p, names), mass, choice=answer.get("choice"))


#: By name, in the order in which they are tried.
FORMS = {
    "systemone": Form(_SYSTEM_ONE, _systemone_body, _read_systemone, "/systemone"),
    "openai": Form(_OPENAI, _openai_body, _read_openai, "/decisions"),
    "sglang": Form(_SGLANG, _sglang_body, _read_sglang, "/decisions"),
}


def count_decimals(x: float) -> int:
    """Return the decimals that a number is written with: 2 of 0.25, 5 of 1e-05."""
    return max(-int(Decimal(repr(x)).as_tuple().exponent), 0)


def _half(decimals: int) -> float:
    """Return the most that rounding to so many decimals changes a probability by."""
    return 10.0**-decimals / 2 if decimals <= MOST_DIGITS else 0.0


class ServedDecisions(Served):
    """A served model that answers typed questions with probabilities.

    Parameters
    ----------
    endpoint, model, most
        See `Served`.
    form : str
        "auto", or a name of `FORMS`.
    """

    def __init__(self, endpoint: Endpoint, model: str, most: int | None, form: str) -> None:
        super().__init__(endpoint, model, most)
        path = endpoint.url.partition("?")[0]
        self._tried = (
            [form] if form != "auto" else [n for n in FORMS if path.endswith(FORMS[n].path)]
        )
        #: The name of the form; known once the first question is answered.
        self.form = ""
        #: By type, the most decimals of any answer.
        self._decimals = Counter[str]()
        #: The version of prompts that the server tells.
        self._format = ""
        #: Whether the probability of all labels is told.
        self.has_mass = False
        #: Answers that choose another option than the likeliest.
        self.contradicted = 0
        #: Names of the models that answered, the first of them first.
        self.models: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        return bool(self.form)

    @property
    def read_by(self) -> str:
        return f"{self.form} decisions" if self.form else ""

    @property
    def variant(self) -> dict[str, str]:
        return {"form": self.form or "not known", "version": str(VERSION)}

    @property
    def way_out(self) -> str:
        return ""

    @property
    def digits(self) -> int | None:
        """Decimals that the server rounds to, as far as its answers tell; None if it does not."""
        least = min(self._decimals.values(), default=MOST_DIGITS + 1)
        return least if least <= MOST_DIGITS else None

    @property
    def checked(self) -> dict[str, Any]:
        more: dict[str, Any] = {"prompt_format_version": self._format} if self._format else {}
        of_answers = {"digits": self.digits, "label_mass": self.has_mass}
        more |= {"contradicted": self.contradicted} if self.contradicted else {}
        more |= {"answered_by": " and ".join(self.models)} if self.models else {}
        return {**super().checked, **more, **(of_answers if self.is_ready else {})}

    def ask(self, prompt: Prompt) -> PromptAnswer:
        if not self.form:
            self._find_form()
        return self._to_letters(self._decide(prompt.context, self.form), prompt.context)

    def _find_form(self) -> None:
        """Find the form by the first of the probes, and ask all of them twice."""
        url, name, said = self.endpoint.url, self._tried[0], {}
        found = self.endpoint.until(
            lambda: server_kinds.find_server(url, "auto", self.endpoint.verify), url
        )
        # MLX-LM, told by Python's HTTP header alone, takes no decisions.
        self.found = found._replace(server=OTHER) if found.server is MLX else found
        # Twice: an answer may be spoilt.
        for name in self._tried * 2 if len(self._tried) > 1 else ():
            try:
                self._decide(PROBES[0], name, is_trial=True)
                break
            except Filtered:  # in this form
                break
            except Declined as error:
                said[name] = str(error)
        else:
            if said:
                told = "; ".join(f"{name}: {words}" for name, words in said.items())
                raise EpidemiaError(
                    f"{url} answers in no known form of decisions ({told}): check base_url and "
                    "model, or name the form with form=openai or form=sglang"
                )
        once, again = ([self._probe(each, name) for each in PROBES] for _ in range(2))
        pairs = chain(*(zip(*pair, strict=False) for pair in zip(once, again, strict=True)))
        self.apart, self.form = max((abs(x - y) for x, y in pairs), default=None), name
        self._say()

    def _probe(self, asked: TypedQuestion, form: str) -> tuple[float, ...]:
        """Return what a probe gets; nothing where it is refused."""
        try:
            return self._decide(asked, form).p
        except Filtered:
            return ()

    def _say(self) -> None:
        told = [f"it is asked in the form {self.form}"]
        if self.apart is not None and self.apart > server_kinds.REPEATS:
            told.append(f"not repeatable: asked twice, it was {self.apart:.2f} apart")
        if self.digits is not None:
            told.append(f"its probabilities are rounded to {plural(self.digits, 'digit')}")
        log = _logger.warning if len(told) > 1 else _logger.info
        log("epidemia: %s is %s; %s", self.endpoint.url, self.server or "a server", "; ".join(told))

    def _decide(self, asked: TypedQuestion, form: str, is_trial: bool = False) -> Decision:
        """Send a question until its answer can be read; in a trial, of another form is declined."""
        body = FORMS[form].body(self.model, asked)

        def read(reply: Any) -> Decision:
            self.counts &= self.count(reply) > 0
            try:
                decided = FORMS[form].read(reply, asked)
            except BadReply as error:
                if is_trial:
                    raise Declined(str(error)) from None
                raise
            total, is_vllm = math.fsum(decided.p), self.found and self.found.server is VLLM
            if is_vllm and decided.confidence is not None and total:
                mass = min(decided.confidence / max(decided.p), 1.0)
                decided = decided._replace(mass=mass)
            written = decided.p[:1] if asked.type == "yes-no" else decided.p
            decimals = max(self._decimals[asked.type], *map(count_decimals, written))
            if not total:
                raise BadReply("probabilities that are all 0")
            if abs(total - 1) > SLACK + len(decided.p) * _half(decimals):
                raise BadReply("probabilities that do not sum to 1")
            with self._lock:
                self._decimals[asked.type] = max(self._decimals[asked.type], decimals)
                self.has_mass |= decided.mass is not None
                self._hold_against(decided, asked)
                self._note_model(reply.get("model"))
                if isinstance(told := reply.get("prompt_format_version"), (str, int)):
                    self._format = re.sub(r"[^\w.-]", "", str(told))[:20]
            return decided

        # A token is at least a byte.
        return self.post(body, read, self.longest if self.form else len(str(body).encode()))

    def _note_model(self, told: Any) -> None:
        """Note which model answered; warn where a second one does."""
        name = self.endpoint.scrubbed(told) if isinstance(told, str) else ""
        # Not more than two: a server may write another name into every answer.
        if name and name not in self.models and len(self.models) < 2:
            self.models += (name,)
            if len(self.models) > 1:
                which, url = " and ".join(self.models), self.endpoint.url
                _logger.warning("epidemia: %s answers as %s: ask a server of one model", url, which)

    def _hold_against(self, decided: Decision, asked: TypedQuestion) -> None:
        """Count an answer that chooses another option than its probabilities do."""
        p = dict(zip(asked.options, decided.p, strict=True))
        chosen = p.get(decided.choice) if isinstance(decided.choice, str) else None
        if chosen is not None and chosen < max(decided.p):
            self.contradicted += 1
            notices.warn(
                "choices that are not the likeliest",
                f"{self.endpoint.url} chooses another option than its probabilities do: they are "
                "what is scored, and 'contradicted' in the results counts such answers",
            )

    def _to_letters(self, decided: Decision, asked: TypedQuestion) -> PromptAnswer:
        """Return what lm-eval takes: log-probabilities, of all tokens where `mass` is told."""
        half, total = _half(digits := self._decimals[asked.type]), math.fsum(decided.p)
        mass = 1.0 if decided.mass is None else decided.mass
        likeliest = max(decided.p)

        def log(p: float) -> float:
            return math.log(p * mass / total) if p * mass > 0 else LOG_ZERO

        def bound(p: float) -> float:
            return Within(log(p), log(p - half), log(min(p + half, 1.0)), True, digits)

        letters = [(bound(p) if half else log(p), p == likeliest) for p in decided.p]
        return PromptAnswer(letters, asked.options[decided.p.index(likeliest)])
