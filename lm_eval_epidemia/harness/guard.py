"""Checks and repairs between lm-eval and a model while it answers our prompts.

lm-eval sends outdated prompts from ``--cache_requests``, shortens prompts that exceed the context,
and gives every request to a server the same seed. If a chat endpoint is asked for
log-probabilities, or a server fails, it stops with an unclear error. For our tasks only, the
wrapper of ``evaluate`` refuses, repairs or explains these cases, and gives groups correct standard
errors (`group_errors`). Runs without our tasks are unchanged, and the model itself is not modified.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any
from unittest import mock

from lm_eval_epidemia.ask.bounds import is_withheld
from lm_eval_epidemia.benchmarks import WAYS, list_leaves
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.harness import answer_cache, group_errors, hooks, written_replies
from lm_eval_epidemia.harness.discovery import pause_collector, resume_collector

_WITHOUT_LOG_PROBABILITIES = (
    "{model} gives no log-probabilities of prompts, which {task} needs: use --model choice-api, "
    "or a group in which the model writes its answer: epidemia_low_stated, epidemia_low_sampled, "
    "epidemia_high_closed; for priors, epidemia_prior ('epidemia cost GROUP' shows its cost)"
)


def wrap_evaluate(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``lm_eval.evaluator.evaluate`` to guard the model's answers to our prompts.

    Parameters
    ----------
    evaluate : callable
        Takes a model and the tasks of a run, as `lm` and `task_dict` or by position.
    """

    @functools.wraps(evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(("lm", "task_dict"), args, strict=False)), **kwargs}
        ours = _our_tasks(given.get("task_dict"))
        _check_tasks(given.get("lm"), given.get("task_dict"))
        with _claimed(given, bool(ours)), ExitStack() as stack:
            if not ours or "lm" not in given:
                return evaluate(*args, **kwargs)
            for name, task in ours.items():
                _check_metrics(name, task)
                _check_samples(name, task, (given.get("samples") or {}).get(name, ()))
            noted = group_errors.Noted({}, {}, {}, {})
            watched = _Watched(given["lm"], frozenset(ours), noted.answered)
            stack.enter_context(pause_collector())
            for name, task in ours.items():
                stack.enter_context(_asking_whole_cells(task, given.get("limit")))
                stack.enter_context(group_errors.record_answers(task, name, noted))
            kwargs.pop("lm", None)
            results = evaluate(watched, *args[1:], **kwargs)
            group_errors.write_errors(results, noted, given["task_dict"])
            _note_prefix(results, ours)
            if not getattr(_behind_the_cache(given["lm"]), "tells_mass", True):
                group_errors.deny_mass(results)
            return results

    return wrapper


def _note_prefix(results: Any, ours: Iterable[str]) -> None:
    """Record the text that begins the answers, not the template that lm-eval makes it of."""
    for name in ours:
        config = (results or {}).get("configs", {}).get(name, {})
        if text := (config.get("metadata") or {}).get("gen_prefix"):
            config["gen_prefix"] = text


def _check_tasks(lm: Any, tasks: Any) -> None:
    """Let a model of ours refuse what it cannot answer, before it is asked anything."""
    model = _behind_the_cache(lm)
    if (check := getattr(type(model), "check_tasks", None)) is not None:
        check(model, _every_task(tasks))


def _claimed(given: Mapping[str, Any], ours: bool) -> AbstractContextManager[None]:
    """Let no other model use the file of ``--use_cache``, in runs of ours and with our files."""
    model = _behind_the_cache(lm := given.get("lm"))
    file = None if model is lm else getattr(lm, "dbdict", None)
    if file is None or not (ours or answer_cache.record_of(file)):
        return nullcontext()
    return answer_cache.claim_file(file, answer_cache.list_dependencies(model, given))


def _every_task(tasks: Any) -> Iterator[Any]:
    """Yield the tasks of a run, ours and others, in either layout that lm-eval knows.

    Parameters
    ----------
    tasks : dict
        Tasks by name, or by name or group such dicts. Groups and lists of names may stand among
        them; the tasks of a group stand there too.
    """
    from lm_eval.api.task import Task

    # By types alone: whatever is odd about somebody's task is not ours to say.
    for value in tasks.values() if isinstance(tasks, Mapping) else ():
        if issubclass(type(value), Mapping):
            yield from _every_task(value)
        elif issubclass(type(value), Task):
            yield value


def _our_tasks(tasks: Any) -> dict[str, Any]:
    """Return our tasks among those of a run, by name."""
    ours: dict[str, Any] = {}
    for task in _every_task(tasks):
        with suppress(Exception):  # one that has no such configuration is not ours
            name = str(task.config.task)
            if name.startswith("epidemia_") and "truth" in task.config.metadata:
                ours[name] = task
    return ours


def _check_metrics(name: str, task: Any) -> None:
    """Refuse a task file that lacks metrics which the reading of answers returns.

    lm-eval would take the mean of the answers at the end of the run, and fail.
    """
    listed, leaf = task.aggregation(), list_leaves().get(name)
    ours = getattr(task.config.process_results, "__module__", "") == hooks.__name__
    if leaf is None or not ours or "bypass" in listed:  # --predict_only
        return
    if lacking := [metric for metric in leaf.metrics if metric not in listed]:
        raise EpidemiaError(
            f"the task file of {name} is from another version, without {', '.join(lacking)}: write "
            "it again ('epidemia tasks write' or 'epidemia export'), or leave out --include_path"
        )


def _check_samples(name: str, task: Any, numbers: Sequence[int]) -> None:
    """Refuse numbers of prompts that a task does not have."""
    prompts = len(task.eval_docs)
    if beyond := [number for number in numbers if number >= prompts]:
        raise EpidemiaError(
            f"--samples asks {name} for prompt {beyond[0]}: it has prompts 0 to {prompts - 1}"
        )


def _asking_whole_cells(task: Any, limit: float | None) -> AbstractContextManager[Any]:
    """Let a limit count cells, and a task build its requests anew.

    lm-eval's limit counts prompts, and a cell counts only if all its prompts are answered: whole
    cells are asked. lm-eval keys its cache of requests (``--cache_requests``) by the name of the
    task, the template and the system prompt, not by ``--metadata``, ``--gen_kwargs``, ``--samples``
    or the ground truth; and ours are built in less time than the cache takes to be read.
    """
    build, rows = task.build_all_requests, task.doc_iterator
    whole = {"limit": _prompts_of(task, limit)} if limit else {}

    def doc_iterator(**kwargs: Any) -> Any:
        return rows(**{**kwargs, **whole})

    def build_all_requests(*args: Any, **kwargs: Any) -> None:
        build(*args, **{**kwargs, **whole, "cache_requests": False})

    return mock.patch.multiple(
        task, build_all_requests=build_all_requests, doc_iterator=doc_iterator
    )


def _prompts_of(task: Any, limit: float) -> int:
    """Return how many prompts the first cells of a task have, or the first share of its cells."""
    cells = list(task.eval_docs["cell"])
    first = list(dict.fromkeys(cells))
    number = math.ceil(len(first) * limit) if limit < 1 else int(limit)
    return cells.index(first[number]) if number < len(first) else len(cells)


class _Watched:
    """A model as lm-eval sees it during a run of ours: what it is asked goes through our checks.

    A stand-in, as lm-eval's own cache of responses is one, so that the model stays as it is: with
    methods or slots of its own, in several runs at a time, after an error.
    """

    def __init__(self, lm: Any, ours: frozenset[str], answered: dict[str, float]) -> None:
        self.__lm, self.__ours, self.__answered = lm, ours, answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__lm, name)

    @resume_collector()
    def loglikelihood(self, requests: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        lm, ours = self.__lm, [request for request in requests if request.task_name in self.__ours]
        if not ours:
            return lm.loglikelihood(requests, *args, **kwargs)
        _check_lengths(lm, ours)
        with _explained(lm):
            try:
                answers = lm.loglikelihood(requests, *args, **kwargs)
            except (NotImplementedError, AssertionError) as error:
                is_of_chat = "loglikelihoods" in str(error)
                if not (isinstance(error, NotImplementedError) or is_of_chat):
                    raise
                model, task = type(_behind_the_cache(lm)).__name__, ours[0].task_name
                message = _WITHOUT_LOG_PROBABILITIES.format(model=model, task=task)
                raise EpidemiaError(message) from error
            answers = _one_each(answers, requests)
        self.__answered |= _note_declined(lm, requests, answers)
        return answers

    @resume_collector()
    def loglikelihood_rolling(self, *args: Any, **kwargs: Any) -> Any:
        return self.__lm.loglikelihood_rolling(*args, **kwargs)  # of others' tasks

    @resume_collector()
    def generate_until(self, requests: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        lm, ours = self.__lm, [request for request in requests if request.task_name in self.__ours]
        if not ours:
            return lm.generate_until(requests, *args, **kwargs)
        _check_lengths(lm, ours)
        _check_chat(lm, ours)
        model = _behind_the_cache(lm)
        if hasattr(model, "_create_payload") and not isinstance(ours[0].args[0], str):
            _note_temperature(model, ours[0])
        for request in ours:
            if structure := written_replies.structure_of(request):
                written_replies.refuse_form(model, structure, request.task_name)
                break
        names = dict.fromkeys(request.task_name for request in ours)
        ways = {name: WAYS[list_leaves()[name].way] for name in names if name in list_leaves()}
        with _explained(lm):
            return written_replies.ask_until_read(
                requests, ways, lambda asked, tried: self.__written(asked, tried, *args, **kwargs)
            )

    def __written(
        self, requests: Sequence[Any], tried: int, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Ask requests apart whose replies are drawn, held to a form, or of others' tasks."""
        lm, model = self.__lm, _behind_the_cache(self.__lm)
        # Drawn ones of a server apart from the others, whose seed stays that of the run.
        has_seeds = hasattr(model, "_create_payload")
        parts: dict[tuple[bool, bool, str], list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            is_ours = request.task_name in self.__ours
            is_drawn = is_ours and ("sample" in request.doc or tried > 0)
            structure = written_replies.structure_of(request) if is_ours else ""
            parts[is_ours, has_seeds and is_drawn, structure].append(place)
        replies: dict[int, Any] = {}
        for (is_ours, is_drawn, structure), places in sorted(parts.items()):
            part = [requests[place] for place in places]
            with (
                _own_seeds(model, tried) if is_drawn else nullcontext(),
                written_replies.allow_form(model, structure),
                written_replies.keep_thoughts(model if is_ours else None) as told,
            ):
                texts = _one_each(lm.generate_until(part, *args, **kwargs), part)
            for place, request, reply in zip(places, part, texts, strict=True):
                replies[place] = told(request.args[0], reply) if is_ours else reply
        return [replies[place] for place in range(len(requests))]


def _behind_the_cache(lm: Any) -> Any:
    """Return the model itself, where lm-eval's cache of responses stands before it."""
    from lm_eval.api.model import CachingLM

    # By its type alone: a run without a task or model of ours goes on as it came.
    return lm.lm if issubclass(type(lm), CachingLM) else lm


def _one_each(answers: Iterable[Any] | None, requests: Sequence[Any]) -> list[Any]:
    """Refuse answers that are not as many as the requests: nobody knows which is whose."""
    answers = list(answers or ())
    if len(answers) != len(requests):
        raise EpidemiaError(
            f"expected an answer to each of {len(requests)} requests, but got {len(answers)}"
        )
    return answers


def _note_declined(lm: Any, requests: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
    """Count the prompts that a server declined, now or when the cache was written.

    Returns
    -------
    dict of str to float
        By task, the share of prompts that it answered; empty if it declined none.
    """
    declined: dict[str, dict[Any, bool]] = defaultdict(dict)
    for request, answer in zip(requests, answers, strict=True):
        declined[request.task_name][request.args[0]] = is_withheld([answer])
    by_task = {task: sum(each.values()) for task, each in declined.items()}
    if not (number := sum(by_task.values())):
        return {}
    _behind_the_cache(lm).declined = number
    prompts = sum(map(len, declined.values()))
    where = few([f"{task} ({times})" for task, times in by_task.items() if times])
    notices.warn(
        "declined prompts",
        f"the server (its model or content filter) declined {number:,} of {prompts:,} prompts, "
        f"left out as not asked: {where}; 'answered' in the results is the share of the others",
    )
    return {task: 1 - times / len(declined[task]) for task, times in by_task.items()}


_UNREAD = (
    "epidemia: lm-eval could not read the server's answer: if it has fewer choices than prompts, "
    "send one prompt at a time (batch_size=1), and delete the file of --use_cache"
)


@contextmanager
def _explained(lm: Any) -> Iterator[None]:
    """Add to an error of a model behind a server what became of the answers before it."""
    try:
        yield
    except Exception as error:
        model = _behind_the_cache(lm)
        if hasattr(model, "_create_payload") and not isinstance(error, EpidemiaError):
            # A connection's errors are OSErrors or a library's own; these come from reading.
            became = answer_cache.LOST if model is lm else answer_cache.KEPT
            note = f"epidemia: the answers so far are {became}"
            unread = isinstance(error, (ValueError, LookupError, TypeError, AssertionError))
            if unread and not isinstance(error, OSError):
                note = _UNREAD
            add = getattr(error, "add_note", logging.getLogger("lm_eval_epidemia").error)
            add(note)  # logged by Python 3.10
        raise


def _own_seeds(model: Any, tried: int) -> AbstractContextManager[Any]:
    """Let a model behind a server give every text, and every try of it, its own seed.

    One seed for all would draw all answers with the same random number.
    """
    create = model._create_payload

    def create_payload(messages: Any, *args: Any, **kwargs: Any) -> Any:
        payload = create(messages, *args, **kwargs)
        if isinstance(payload, dict) and isinstance(payload.get("seed"), int):
            own = zlib.crc32(str(messages).encode()) + tried
            payload["seed"] = (payload["seed"] + own) % 2**31
        return payload

    return mock.patch.object(model, "_create_payload", create_payload)


def _check_chat(lm: Any, ours: Sequence[Any]) -> None:
    """Refuse plain text for a chat endpoint before anything is sent."""
    model = type(_behind_the_cache(lm))
    chat = any(kind.__name__ == "LocalChatCompletion" for kind in model.__mro__)
    if chat and isinstance(ours[0].args[0], str):
        raise EpidemiaError(
            f"{model.__name__} accepts chat messages, not plain text: add --apply_chat_template"
        )


def _note_temperature(model: Any, request: Any) -> None:
    """Warn where lm-eval sends a server another temperature than the task or the user asks for."""
    asked = copy.deepcopy(request.args[1])
    wished = asked.get("temperature")
    payload = model._create_payload(
        [{"role": "user", "content": ""}], generate=True, gen_kwargs=asked
    )
    sent = payload.get("temperature") if isinstance(payload, dict) else wished
    if sent != wished:
        notices.warn(
            "temperature",
            f"lm-eval sends temperature {sent} to {model.model} instead of {wished}",
        )


#: How many tokens of a prompt and its answer fit beyond ``max_length``, by the name of a model's
#: class: `hf` does not feed the last one, and vLLM and SGLang want room to generate one.
_BEYOND = {"HFLM": 1, "VLLM": -1, "SGLangLM": -1}


def _check_lengths(lm: Any, ours: Sequence[Any]) -> None:
    """Refuse prompts that lm-eval would shorten to fit the model's context."""
    longest = getattr(lm, "max_length", None)
    if not isinstance(longest, int):
        return
    kinds = [kind.__name__ for kind in type(_behind_the_cache(lm)).__mro__]
    beyond = next((_BEYOND[kind] for kind in kinds if kind in _BEYOND), 0)
    tokens = functools.lru_cache(maxsize=1)(lambda text: len(lm.tok_encode(text)))
    for request in ours:
        context, answer = request.args[0], request.args[1]
        if not isinstance(context, str):
            return  # messages: the server counts them
        if isinstance(answer, str):
            room, after, most = f"the answer ({answer!r})", len(answer.encode()), longest + beyond
        else:
            after, most = int(answer.get("max_gen_toks", 0)), longest
            room = f"max_gen_toks={after}"
        # A token is at least a byte: most prompts fit whatever the tokenizer.
        if len(context.encode()) + after + 2 <= most:
            continue
        if getattr(lm, "tokenizer", None) is None:
            return
        needed = tokens(context) + after
        if needed > most and isinstance(answer, str) and hasattr(lm, "_encode_pair"):
            # Nearly full: counted as lm-eval cuts them, which takes longer.
            needed = sum(map(len, lm._encode_pair(context, answer)))
        if needed > most:
            raise EpidemiaError(
                f"{request.task_name}: a prompt of {tokens(context)} tokens and {room} exceed the "
                f"model's context of {longest} tokens: raise --model_args max_length=..., lower "
                "--gen_kwargs max_gen_toks=..., or use fewer 'fewshot' examples"
            )
