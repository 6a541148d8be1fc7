"""What is checked and mended between lm-eval and a model while it answers our prompts.

lm-eval passes over keys of ``--metadata`` that nobody knows, sends the prompts that
``--cache_requests`` kept whatever was asked since, shortens a prompt that does not fit into the
context, gives every request to a server the same seed, and stops with an error of its own where a
chat endpoint is asked for log-probabilities or a server fails. For our tasks, and only for these,
the wrappers of ``simple_evaluate`` and ``evaluate`` refuse, mend or explain that, and give groups
of them the errors that they have (`group_errors`). A run without a
task of ours goes past them as it came, and the model itself is not touched by either.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, leaves
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.console import print_anything
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant, unknown_keys
from lm_eval_epidemia.harness import collector, group_errors, hooks, structured
from lm_eval_epidemia.harness.kept import check_file, refuse_served
from lm_eval_epidemia.harness.keys import refuse_keys
from lm_eval_epidemia.harness.missing import refuse_missing
from lm_eval_epidemia.harness.servers import refuse_template
from lm_eval_epidemia.harness.unheeded import unheeded

_WITHOUT_LOG_PROBABILITIES = (
    "{model} gives no log-probabilities of a prompt, which {task} needs. --model choice-api needs "
    "those of the first token of its answer only. Or ask for a group in which the model writes its "
    "answer: epidemia_low_stated, epidemia_high_stated, epidemia_low_sampled, "
    "epidemia_high_sampled, epidemia_high_closed or epidemia_high_rag, of priors epidemia_prior "
    "('epidemia cost GROUP' says what it takes)"
)

#: Groups of which a run says how many tasks have a truth here.
COUNTED = ("epidemia_low", "epidemia_high")


# Before a run: its arguments.


def checked(simple_evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``lm_eval.evaluator.simple_evaluate`` so that what our tasks would not heed is refused.

    Here, before a model is loaded, the user's own metadata can still be told from the arguments of
    the model, which lm-eval mixes into it.

    Parameters
    ----------
    simple_evaluate : callable
    """

    @functools.wraps(simple_evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            given = inspect.signature(simple_evaluate).bind_partial(*args, **kwargs).arguments
        except TypeError:
            given = {}  # lm-eval says better what is wrong with them
        if given.get("model") == "choice-api":
            refuse_keys(_model_args(given))  # lm-eval logs them next
            check_file(given.get("use_cache"))
        tasks = given.get("tasks") or []
        tasks = tasks if isinstance(tasks, (list, tuple)) else [tasks]
        names = [_name(task) for task in tasks]
        refuse_missing(tasks, given.get("task_manager"))
        # A run of others does not even read what is ours, which may be damaged.
        if ours := list(dict.fromkeys(name for name in names if name.startswith("epidemia_"))):
            _check_arguments(given, ours, alone=len(ours) == len(set(names)))
            _say_what_ships(ours)
        return simple_evaluate(*args, **kwargs)

    return wrapper


def _say_what_ships(names: Iterable[str]) -> None:
    """Say how many tasks of the two groups that most people ask have a truth here."""
    available, counts = OBSERVATION.available(), []
    for name in names:
        of_group = [
            leaf
            for leaf in leaves().values()
            if leaf.group == name
            and leaf.entry.group in COUNTED
            and WAYS[leaf.way].asks(leaf.entry.declared)
        ]
        here = sum(leaf.entry.name in available for leaf in of_group)
        if here < len(of_group):
            counts.append(f"{here} of the {len(of_group)} tasks of {name}")
    if counts:
        # Through lm-eval's own logger, which shows what is no warning.
        logging.getLogger("lm_eval.epidemia").info(
            "%s are asked: the others need survey files that do not ship ('epidemia tasks list' "
            "names them)",
            ", ".join(counts),
        )


def _check_arguments(given: Mapping[str, Any], names: Sequence[str], alone: bool) -> None:
    """Refuse what our tasks of these names would not heed.

    Where others are asked too, not `alone`, it may be meant for those: then it is a warning.
    """
    print_anything()  # lm-eval's tables have arrows
    if given.get("model") == "local-completions":
        _check_server(_model_args(given))
    for wrong in _unheeded(given, names):
        if alone:
            raise EpidemiaError(wrong)
        notices.warn("arguments not heeded", f"our tasks do not heed this: {wrong}")


def _check_server(model_args: Mapping[str, Any]) -> None:
    """Refuse a server that would put a chat template around the plain text of our prompts."""
    url, server = model_args.get("base_url"), model_args.get("server", "auto")
    refuse_template(str(url), str(server), model_args.get("verify_certificate", True))


def _name(task: Any) -> str:
    """Return the name of a requested task or group, which may be written out or loaded already."""
    with suppress(Exception):  # somebody's task may be anything
        if isinstance(task, Mapping):
            return str(task.get("task") or task.get("group"))
        return str(getattr(task, "task_name", None) or getattr(task, "name", None) or task)
    return ""


def _model_args(given: Mapping[str, Any]) -> Any:
    """Return the arguments of a run's model, however they were written."""
    model_args = given.get("model_args") or {}
    if isinstance(model_args, str):
        from lm_eval.utils import simple_parse_args_string

        return simple_parse_args_string(model_args)
    return model_args


def _unheeded(given: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Say what is wrong with the arguments of a run of our tasks, which have these names."""
    model_args, metadata = _model_args(given), given.get("metadata") or {}
    manager = given.get("task_manager")
    read = metadata if manager is None else getattr(manager, "metadata", None) or {}
    Variant.of(metadata)  # before the model is loaded
    own = {key: value for key, value in {**read, **metadata}.items() if key not in model_args}
    if wrong := unknown_keys(own):
        yield wrong
    without_effect = unheeded(own, names)
    yield from without_effect.by_all
    for said in without_effect.by_some:
        notices.warn("metadata without effect", said)
    for key in Variant._fields:
        if key in metadata and metadata[key] != read.get(key):
            yield (
                f"metadata={{{key!r}: {metadata[key]!r}}} given to simple_evaluate is not read "
                "where a task_manager is given too: give it to task_manager(metadata=...)"
            )
    if shots := given.get("num_fewshot"):
        yield (
            f"num_fewshot {shots} would be passed over: our tasks have no examples of their own. "
            "Solved examples of other surveys are had with --metadata "
            f"'{{\"fewshot\": {shots}}}', of tasks about surveys alone"
        )


# During a run: its requests.


def guarded(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``lm_eval.evaluator.evaluate`` so that the model's answers to our prompts are guarded.

    Parameters
    ----------
    evaluate : callable
        Takes a model and the tasks of a run, as `lm` and `task_dict` or in this order.
    """

    @functools.wraps(evaluate)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(("lm", "task_dict"), args, strict=False)), **kwargs}
        ours = _our_tasks(given.get("task_dict"))
        _check_tasks(given.get("lm"), given.get("task_dict"), ours)
        if not ours or "lm" not in given:
            return evaluate(*args, **kwargs)
        for name, task in ours.items():
            _check_metrics(name, task)
        watched = _Watched(given["lm"], frozenset(ours))
        noted = group_errors.Noted({}, {}, {})
        with collector.at_rest(), ExitStack() as stack:
            for name, task in ours.items():
                stack.enter_context(_building_what_is_asked(task))
                stack.enter_context(group_errors.noting(task, name, noted))
            if "lm" in kwargs:
                results = evaluate(*args, **{**kwargs, "lm": watched})
            else:
                results = evaluate(watched, *args[1:], **kwargs)
        group_errors.write(results, noted, given["task_dict"])
        _note_prefix(results, ours)
        return results

    return wrapper


def _note_prefix(results: Any, ours: Iterable[str]) -> None:
    """Record the text that begins the answers, not the template that lm-eval makes it of."""
    for name in ours:
        config = (results or {}).get("configs", {}).get(name, {})
        if text := (config.get("metadata") or {}).get("gen_prefix"):
            config["gen_prefix"] = text


def _check_tasks(lm: Any, tasks: Any, ours: Mapping[str, Any]) -> None:
    """Let a model of ours refuse what it cannot answer, before it is asked anything."""
    model = _behind_the_cache(lm)
    if (check := getattr(type(model), "check_tasks", None)) is not None:
        check(model, _every_task(tasks))
    elif model is not lm and ours:
        refuse_served(lm.dbdict)


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
    found: dict[str, Any] = {}
    for one in _every_task(tasks):
        with suppress(Exception):
            config = getattr(one, "config", None)
            name, metadata = getattr(config, "task", None), getattr(config, "metadata", None)
            if str(name).startswith("epidemia_") and "truth" in (metadata or {}):
                found[str(name)] = one
    return found


def _check_metrics(name: str, task: Any) -> None:
    """Refuse a task file that lacks metrics which the reading of answers returns.

    lm-eval would take the mean of the answers at the end of the run, and fail.
    """
    listed, leaf = task.aggregation(), leaves().get(name)
    ours = getattr(task.config.process_results, "__module__", "") == hooks.__name__
    if leaf is None or not ours or "bypass" in listed:  # --predict_only
        return
    if lacking := [metric for metric in leaf.metrics if metric not in listed]:
        raise EpidemiaError(
            f"the file of {name} was written by another version, it has no {', '.join(lacking)}: "
            "write it anew with 'epidemia tasks write FOLDER' or 'epidemia export', or leave out "
            "--include_path"
        )


@contextmanager
def _building_what_is_asked(task: Any) -> Iterator[None]:
    """Let a task build its requests anew where those that lm-eval kept ask something else.

    lm-eval keys its cache of requests by the name of the task, the template and the system prompt,
    not by ``--metadata``, ``--gen_kwargs``, ``--samples`` or the ground truth.
    """
    build, before = task.build_all_requests, vars(task).get("build_all_requests")

    def build_all_requests(*args: Any, **kwargs: Any) -> None:
        build(*args, **kwargs)
        kept = kwargs.get("cache_requests") and not kwargs.get("rewrite_requests_cache")
        if kept and not _asks_the_same(task, **kwargs):
            notices.warn(
                "cached requests of other prompts",
                f"{task.config.task}: the requests that --cache_requests kept are of other prompts "
                "(other --metadata, --gen_kwargs, --samples or ground truth); they were built anew",
            )
            build(*args, **{**kwargs, "rewrite_requests_cache": True})

    task.build_all_requests = build_all_requests
    try:
        yield
    finally:
        del task.build_all_requests
        if before is not None:  # a run within a run
            task.build_all_requests = before


def _asks_the_same(
    task: Any,
    rank: int = 0,
    world_size: int = 1,
    limit: int | None = None,
    samples: list[int] | None = None,
    system_instruction: str | None = None,
    apply_chat_template: bool = False,
    fewshot_as_multiturn: bool = False,
    chat_template: Callable[..., Any] | None = None,
    **_: Any,
) -> bool:
    """Tell whether a task's requests are those of its rows, put as the task's file has it now.

    Each request must have been made from the row that its answer will be paired with. What is done
    to a row is the same for all of a cache, so one is built again and compared whole.
    """
    kept = defaultdict(list)
    for request in task.instances:
        kept[request.doc_id].append(request)
    # lm-eval's own choice of rows, from a plain list: a dataset gives one by one 15 times slower.
    docs = task.eval_docs
    listed = docs.to_list() if hasattr(docs, "to_list") else docs
    chosen = type(task).doc_iterator(
        SimpleNamespace(eval_docs=listed, config=task.config),
        rank=rank,
        limit=limit,
        world_size=world_size,
        samples=samples,
    )
    rows = dict(chosen)
    for number, row in rows.items():
        # The requests of a row, one per letter, usually share one object.
        made_from = {id(request.doc): request.doc for request in kept[number]}.values()
        if not made_from or any(doc != row for doc in made_from):
            return False
    for number, row in list(rows.items())[:1]:
        context = task.fewshot_context(
            row,
            num_fewshot=task.config.num_fewshot or 0,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
            gen_prefix=task.doc_to_prefix(row),
        )
        built = task.construct_requests(
            doc=row,
            ctx=context,
            metadata=(task.config.task, number, task.config.repeats),
            apply_chat_template=apply_chat_template,
            chat_template=chat_template,
        )
        built = built if isinstance(built, list) else [built]
        if [request.args for request in kept[number]] != [request.args for request in built]:
            return False
    return True


class _Watched:
    """A model as lm-eval sees it during a run of ours: what it is asked goes through our checks.

    A stand-in, as lm-eval's own cache of responses is one, so that the model stays as it is: with
    methods or slots of its own, in several runs at a time, after an error.
    """

    def __init__(self, lm: Any, ours: frozenset[str]) -> None:
        self.__lm, self.__ours = lm, ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__lm, name)

    @collector.at_work()
    def loglikelihood(self, requests: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        ours = [request for request in requests if request.task_name in self.__ours]
        if not ours:
            return self.__lm.loglikelihood(requests, *args, **kwargs)
        _check_lengths(self.__lm, ours)
        with _explained(self.__lm):
            try:
                found = self.__lm.loglikelihood(requests, *args, **kwargs)
            except (NotImplementedError, AssertionError) as error:
                refused = isinstance(error, NotImplementedError) or "loglikelihoods" in str(error)
                if not refused:
                    raise
                model, task = type(_behind_the_cache(self.__lm)).__name__, ours[0].task_name
                raise EpidemiaError(
                    _WITHOUT_LOG_PROBABILITIES.format(model=model, task=task)
                ) from error
            return _one_each(found, requests)

    @collector.at_work()
    def loglikelihood_rolling(self, *args: Any, **kwargs: Any) -> Any:
        return self.__lm.loglikelihood_rolling(*args, **kwargs)  # of others' tasks

    @collector.at_work()
    def generate_until(self, requests: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        ours = [request for request in requests if request.task_name in self.__ours]
        if not ours:
            return self.__lm.generate_until(requests, *args, **kwargs)
        _check_lengths(self.__lm, ours)
        _check_chat(self.__lm, ours)
        model = _behind_the_cache(self.__lm)
        drawn = {id(request) for request in ours if "sample" in request.doc}
        if not hasattr(model, "_create_payload"):  # no server, no seeds
            drawn = set()
        written = {id(request): structured.structure_of(request) for request in ours}
        first = next((request for request in ours if written[id(request)]), None)
        if first is not None:
            with structured.held(model, written[id(first)], first.task_name):
                structured.refuse_declined(model, first)
        # Drawn ones apart from the others, whose seed stays that of the run.
        parts: dict[tuple[bool, str], list[Any]] = defaultdict(list)
        for request in requests:
            parts[id(request) in drawn, written.get(id(request), "")].append(request)
        said: dict[tuple[bool, str], Iterator[Any]] = {}
        with _explained(self.__lm):
            for (is_drawn, structure), part in sorted(parts.items()):
                with (
                    _own_seeds(model) if is_drawn else nullcontext(),
                    structured.held(model, structure, part[0].task_name),
                ):
                    found = self.__lm.generate_until(part, *args, **kwargs)
                said[is_drawn, structure] = iter(_one_each(found, part))
        return [
            next(said[id(request) in drawn, written.get(id(request), "")]) for request in requests
        ]


def _behind_the_cache(lm: Any) -> Any:
    """Return the model itself, where lm-eval's cache of responses stands before it."""
    from lm_eval.api.model import CachingLM

    # By its type alone: a run without a task or model of ours goes on as it came.
    return lm.lm if issubclass(type(lm), CachingLM) else lm


def _one_each(found: Iterable[Any], requests: Sequence[Any]) -> list[Any]:
    """Refuse answers that are not as many as the requests: nobody knows which is whose."""
    if not isinstance(found, Iterable):
        raise EpidemiaError(
            f"the model gave {found!r} to {len(requests)} requests: expected a list of answers"
        )
    answers = list(found)
    if len(answers) != len(requests):
        raise EpidemiaError(
            f"the model gave {len(answers)} answers to {len(requests)} requests: nothing is scored"
        )
    return answers


@contextmanager
def _explained(lm: Any) -> Iterator[None]:
    """Add to an error of a model behind a server what became of the answers before it."""
    try:
        yield
    except Exception as error:
        model = _behind_the_cache(lm)
        if hasattr(model, "_create_payload") and not isinstance(error, EpidemiaError):
            # A connection's errors are OSErrors or a library's own; these come from reading.
            unread = isinstance(error, (ValueError, LookupError, TypeError, AssertionError))
            if unread and not isinstance(error, OSError):
                note = (
                    "lm-eval could not read what the server answered. One that gives fewer choices "
                    "than it was sent prompts can be asked one at a time (batch_size=1); answers "
                    "may then stand beside the wrong prompts in the file of --use_cache: delete it"
                )
            elif model is not lm:
                note = (
                    "what was answered before this is in the file of --use_cache: the same command "
                    "goes on from there"
                )
            else:
                note = (
                    "what was answered before this is lost; with --use_cache PATH lm-eval keeps "
                    "each answer, and the same command goes on where it stopped"
                )
            _add_note(error, f"epidemia: {note}")
        raise


def _add_note(error: Exception, note: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:  # Python 3.10
        logging.getLogger("lm_eval_epidemia").error(note)


class _Seeded:
    """A server's ``_create_payload`` that gives every text a seed of its own.

    One seed for all would draw all answers with the same random number. In place as long as some
    run asks for sampled answers.
    """

    lock = threading.Lock()

    def __init__(self, model: Any) -> None:
        self.create_payload, self.runs = model._create_payload, 0
        #: What the instance itself had, to be put back; its class's method is not.
        self.before = vars(model).get("_create_payload")

    def __call__(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        payload = self.create_payload(messages, *args, **kwargs)
        if isinstance(payload, dict) and isinstance(payload.get("seed"), int):
            payload["seed"] = (payload["seed"] + zlib.crc32(str(messages).encode())) % 2**31
        return payload


@contextmanager
def _own_seeds(model: Any) -> Iterator[None]:
    """Let a model behind a server send seeds of their own; afterwards it is as it was."""
    with _Seeded.lock:
        if not isinstance(model._create_payload, _Seeded):
            model._create_payload = _Seeded(model)
        seeded = model._create_payload
        seeded.runs += 1
    try:
        yield
    finally:
        with _Seeded.lock:
            seeded.runs -= 1
            if not seeded.runs:
                del model._create_payload
                if seeded.before is not None:
                    model._create_payload = seeded.before


def _check_chat(lm: Any, ours: Sequence[Any]) -> None:
    """Refuse plain text for a chat endpoint before anything is sent."""
    model = type(_behind_the_cache(lm))
    chat = any(kind.__name__ == "LocalChatCompletion" for kind in model.__mro__)
    if chat and isinstance(ours[0].args[0], str):
        raise EpidemiaError(
            f"{ours[0].task_name}: {model.__name__} takes messages, not plain text: add "
            "--apply_chat_template"
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
                f"{request.task_name}: a prompt of {tokens(context)} tokens and {room} do not fit "
                f"into the model's context of {longest}; nothing is shortened. Give the model a "
                "longer one (--model_args max_length=..., where it can)"
                + ("" if isinstance(answer, str) else " or lower --gen_kwargs max_gen_toks=...")
                + ", or ask with fewer 'fewshot' examples"
            )
