"""What stands between lm-eval and a model: of our runs everything, of other people's nothing."""

import copy
import functools
import gc
import logging
from unittest import mock

import dill
import lm_eval.caching.cache
import lm_eval.evaluator
import pytest
from conftest import evaluate, in_a_process
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks.manager import TaskManager

import lm_eval_epidemia
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, in_way, list_leaves
from lm_eval_epidemia.core import extras
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import arguments, discovery, guard, yamls

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"
CLOSED = "epidemia_high_nsduh_marijuana_ever_by_age_sex"
INTERVENTION, PRIOR = "epidemia_intervention_tuebingen", "epidemia_prior"
#: A task of each way of asking.
ASKED = {
    "letters": TASK,
    "likelihood": in_way(TASK, "likelihood"),
    "sampled": in_way(TASK, "sampled"),
    "closed": in_way(CLOSED, "closed"),
    "rag": in_way("epidemia_high_meps_insured_by_education_race", "rag"),
}


@pytest.fixture(scope="module", autouse=True)
def few_tasks(tmp_path_factory):
    """A folder of task files with no more than is asked: 1,083 are read for every manager."""

    @functools.cache
    def folder_of(variant):
        folder, files = tmp_path_factory.mktemp("task_yamls"), {}
        for name in (*ASKED.values(), "epidemia_prior_nhanes"):
            leaf = list_leaves()[name]
            rendered = leaf.benchmark, leaf.entry, WAYS[leaf.way]
            base = leaf.benchmark.base + rendered[2].suffix
            files[base] = yamls._base(rendered[0], rendered[2], None, variant)
            files[f"{name}.yaml"] = yamls._format_task(*rendered, base, None, variant)
        for name, text in files.items():
            (folder / name).write_text(text)
        return folder

    with mock.patch.object(
        discovery, "task_path", lambda asked=None: folder_of(asked or Variant())
    ):
        yield


# The cache of requests, which knows nothing of --metadata.


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "requests"
    monkeypatch.setattr(lm_eval.caching.cache, "PATH", str(folder))
    return folder


def run(task, **arguments):
    """What was put to a model that prefers letters near the top, and its scores."""
    model = "kind=noisy,noise=0.3,position_bias=0.3"
    ran = evaluate([task], model_args=model, log_samples=True, **arguments)
    rows = sorted(ran["samples"][task], key=lambda sample: sample["doc_id"])
    return [(row["doc"], row["arguments"]) for row in rows], ran["results"][task]


CHAT = {"apply_chat_template": True, "system_instruction": "Answer briefly."}


@pytest.mark.parametrize(
    ("mode", "settings", "before", "after"),
    [
        ("letters", {}, {}, {"orderings": 1}),
        ("letters", CHAT, {"gen_prefix": "The answer is"}, {}),
        ("closed", CHAT, {}, {"fewshot": 1}),
    ],
)
def test_requests_of_ours_are_not_kept(mode, settings, before, after, cache):
    task = ASKED[mode]
    run(task, metadata=before, cache_requests=True, **settings)
    fresh = run(task, metadata=after, **settings)
    assert run(task, metadata=after, cache_requests=True, **settings) == fresh
    assert not cache.exists()


def test_cached_requests_of_other_documents_and_of_other_settings_of_generation(cache):
    """lm-eval pairs the answers of the first three prompts with whatever --samples selects."""
    whole, some = run(TASK), run(TASK, samples={TASK: [4, 5, 6]})
    assert run(TASK, cache_requests=True) == whole
    assert run(TASK, cache_requests=True, samples={TASK: [4, 5, 6]}) == some
    assert run(TASK, cache_requests=True) == whole
    assert run(TASK, cache_requests=True, limit=5) == run(TASK, limit=5)
    closed = ASKED["closed"]
    run(closed, cache_requests=True)
    asked, _ = run(closed, cache_requests=True, gen_kwargs={"max_gen_toks": 7})
    assert asked[0][1][0][1]["max_gen_toks"] == 7


def test_cached_requests_of_other_people_are_theirs(cache, mmlu_style):
    """lm-eval's cache of a task that is not ours is used as lm-eval uses it, in a mixed run too."""
    manager = lm_eval_epidemia.task_manager(include_path=str(mmlu_style))
    asked = []

    class Counted(Answering):
        def loglikelihood(self, requests):
            asked.append([r for r in requests if r.task_name == "lettered"])
            return super().loglikelihood(requests)

    arguments = {"tasks": ["lettered", TASK], "task_manager": manager, "cache_requests": True}
    lm_eval.evaluator.simple_evaluate(Counted(), **arguments)
    (file,) = [path for path in cache.iterdir() if "lettered" in path.name]
    kept = dill.loads(file.read_bytes())
    for request in kept[0]:
        request.arguments = ("changed", request.arguments[1])
    file.write_bytes(dill.dumps(kept))
    lm_eval.evaluator.simple_evaluate(Counted(), **arguments)
    assert asked[1][0].args[0] == "changed" != asked[0][0].args[0]


# The model, which stays as it is.


class Answering(LM):
    """Answers from the text alone."""

    tokenizer_name = "none"

    def loglikelihood(self, requests):
        return [(-(hash(request.args) % 1000) / 100 - 5, False) for request in requests]

    def generate_until(self, requests):
        return ["ABC"[hash(request.args[0]) % 3] for request in requests]

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


class Slotted:
    """What lm-eval takes for a model, without a dictionary for attributes of its own."""

    __slots__ = ()
    rank, world_size, tokenizer_name = 0, 1, "none"
    loglikelihood = Answering.loglikelihood


def scores(lm, tasks, include=None, unguarded=False):
    """Evaluate with tasks of ours and others', with our wrapper or without it."""
    manager = lm_eval_epidemia.task_manager(include_path=include)
    loaded = manager.load(tasks)
    for task in loaded["tasks"].values():
        task.set_fewshot_seed(1234)  # as simple_evaluate does
    evaluating = lm_eval.evaluator.evaluate
    evaluating = evaluating.__wrapped__ if unguarded else evaluating
    return evaluating(lm=lm, task_dict=loaded)["results"]


def test_a_method_of_the_instance_is_asked_and_stays():
    lm, asked = Answering(), []

    def own(requests):
        asked.append(len(requests))
        return Answering.loglikelihood(lm, requests)

    lm.loglikelihood = own
    lm.generate_until = generating = lambda requests: ["A"] * len(requests)
    first = scores(lm, [TASK])
    assert scores(lm, [TASK]) == first
    assert asked == [44, 44]
    assert lm.loglikelihood is own and lm.generate_until is generating
    assert scores(Slotted(), [TASK]) == first


def test_an_error_and_a_run_within_a_run_leave_the_model_as_it_was():
    lm, inner = Answering(), []

    def failing(requests):
        raise RuntimeError("no memory")

    lm.loglikelihood = failing
    before = dict(vars(lm))
    with pytest.raises(RuntimeError, match="no memory"):
        scores(lm, [TASK])
    assert vars(lm) == before

    loaded = lm_eval_epidemia.task_manager().load([TASK])

    def nested(requests):
        if not inner:
            inner.append(None)
            inner[0] = lm_eval.evaluator.evaluate(lm=lm, task_dict=loaded)["results"]
        return Answering.loglikelihood(lm, requests)

    lm.loglikelihood = nested
    before = dict(vars(lm))
    lm_eval.evaluator.evaluate(lm=lm, task_dict=loaded)
    assert inner[0] == scores(Answering(), [TASK])
    assert vars(lm) == before
    assert "build_all_requests" not in vars(loaded["tasks"][TASK])


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_the_collector_rests_but_for_the_model(on, monkeypatch):
    """Requests are many and no garbage; what a model leaves behind may hold an accelerator."""
    seen, honest = [], ConfigurableTask.process_results

    def scored(*given):
        seen.append(("score", gc.isenabled()))
        return honest(*given)

    class Watching(Answering):
        def loglikelihood(self, requests):
            seen.append(("model", gc.isenabled(), gc.get_freeze_count() > 0))
            return super().loglikelihood(requests)

    class Failing(Answering):
        def loglikelihood(self, requests):
            raise RuntimeError("no memory")

    monkeypatch.setattr(ConfigurableTask, "process_results", scored)
    try:
        if not on:
            gc.disable()
        expected = scores(Answering(), [TASK])
        seen.clear()
        assert scores(Watching(), [TASK]) == expected
        assert seen[0] == ("model", True, True) and set(seen[1:]) == {("score", False)}
        assert gc.isenabled() == on and gc.get_freeze_count() == 0
        with pytest.raises(RuntimeError, match="no memory"):
            scores(Failing(), [TASK])
        assert gc.isenabled() == on and gc.get_freeze_count() == 0
    finally:
        gc.enable()


def test_other_peoples_tasks_are_answered_as_without_us(mmlu_style):
    others, lm = ["lettered", "continued"], Answering()
    alone = scores(lm, others, mmlu_style, unguarded=True)
    assert scores(lm, others, mmlu_style) == alone
    mixed = scores(lm, [*others, TASK, ASKED["closed"]], mmlu_style)
    assert {name: mixed[name] for name in others} == alone


def test_a_run_without_our_tasks_goes_past_us():
    """The very arguments arrive; the model is not even looked at."""

    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was looked at")

    lm, tasks, options = Untouchable(), {"tasks": {"mine": object()}}, {"limit": None, "new": 1}
    seen = guard.wrap_evaluate(lambda *args, **kwargs: (args, kwargs))
    args, kwargs = seen(lm, tasks, **options)
    assert args[0] is lm and args[1] is tasks and kwargs == options
    args, kwargs = seen(lm=lm, task_dict=tasks)
    assert kwargs["lm"] is lm and kwargs["task_dict"] is tasks and not args
    for odd in (None, [], {"tasks": None}, {"tasks": {"a": None}}, {"a": {"b": {"c": 3}}}):
        assert seen(lm, odd) == ((lm, odd), {})
    args, kwargs = seen(lm, {"tasks": {"mine": lm}})
    assert args[0] is lm and not kwargs
    checked = arguments.wrap_simple_evaluate(lambda tasks, **more: tasks)
    assert checked([lm], metadata={"ordering": 1})[0] is lm
    assert checked("mine", num_fewshot=2) == "mine" and checked(None) is None


def test_a_dummy_model_needs_no_tokenizer(mmlu_style):
    """Its tokenizer would come from the network: neither other tasks nor ours need it."""
    manager = TaskManager(include_path=str(mmlu_style), include_defaults=False)
    ran = lm_eval.evaluator.simple_evaluate("dummy", tasks=["lettered"], task_manager=manager)
    assert ran["results"]["lettered"]["sample_len"] == 16
    assert evaluate([TASK], model="dummy", model_args="")["results"][TASK]["seen,none"] == 1


def test_a_server_has_its_payload_back_after_a_run():
    class Server:
        def _create_payload(self, messages, *, seed=7, **more):
            return {"messages": messages, "seed": seed}

    lm = Server()
    plain, own = lm._create_payload("a"), copy.copy(vars(lm))
    with guard._own_seeds(lm, 0):
        assert lm._create_payload("a")["seed"] not in (7, lm._create_payload("b")["seed"])
    assert lm._create_payload("a") == plain and vars(lm) == own
    lm._create_payload = patched = lambda messages, **more: {"seed": 3}
    with pytest.raises(KeyError), guard._own_seeds(lm, 0):
        assert lm._create_payload("a")["seed"] != 3
        raise KeyError
    assert lm._create_payload is patched


# Arguments that our tasks would not heed.


def simple(tasks, **given):
    """As `lm_eval run` calls it: the arguments of the model are mixed into the metadata."""
    metadata = {"kind": "truth", **given.pop("metadata", {})}
    include = given.pop("include", None)
    manager = lm_eval_epidemia.task_manager(include_path=include, metadata=metadata)
    model = Answering() if "lettered" in tasks else "epidemia-baseline"
    how = {"model_args": {"kind": "truth"}, "metadata": metadata, "limit": 2, **given}
    return lm_eval.evaluator.simple_evaluate(model, tasks=tasks, task_manager=manager, **how)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metadata": {"ordering": 1}}, r"no key 'ordering' \(nearest: orderings"),
        ({"metadata": {"few_shot": 1, "orderings": 1}}, r"no key 'few_shot' \(nearest: fewshot"),
        ({"metadata": {"max_seq_lengths": [1]}}, r"'max_seq_lengths' \(known: fewshot, gen_p"),
        ({"num_fewshot": 2}, r"num_fewshot 2 would be ignored.*'\{\"fewshot\": 2\}'"),
    ],
)
def test_arguments_that_our_tasks_do_not_heed(given, message, mmlu_style, caplog):
    with pytest.raises(EpidemiaError, match=message):
        simple([TASK], **given)
    # Somebody else's task in the run may know the key, and takes its own examples.
    caplog.clear()
    ran = simple([TASK, "lettered"], include=str(mmlu_style), **given)
    assert "our tasks ignore this" in caplog.text
    assert ran["n-shot"] == {TASK: 0, "lettered": given.get("num_fewshot", 2)}
    caplog.clear()
    simple(["lettered"], include=str(mmlu_style), **given)
    assert "epidemia" not in caplog.text


@pytest.mark.parametrize(("samples", "said"), [({}, "{}"), ("rows.json", '"rows.json"')])
def test_samples_that_would_ask_all_or_nothing_are_refused(samples, said):
    with pytest.raises(EpidemiaError, match=f"--samples {said}: expected"):
        simple([TASK], limit=None, samples=samples)


def test_metadata_that_some_tasks_heed_is_a_line_for_the_others(mmlu_style, caplog):
    simple([TASK, ASKED["sampled"]], metadata={"n_samples": 8, "orderings": 1})
    said = [entry.message for entry in caplog.records if "does not change" in entry.message]
    assert len(said) == 2
    assert f"n_samples does not change {TASK}; it applies to" in said[1]
    assert f"orderings does not change {ASKED['sampled']}; it applies to" in said[0]
    prior = "epidemia_prior_nhanes"
    samples = simple([TASK, prior], metadata={"fewshot": 1})["samples"]
    asked = {name: rows[0]["doc"]["prompt"] for name, rows in samples.items()}
    assert asked[TASK].count("Answer:") == 2 and "Answer:" not in asked[prior]
    caplog.clear()
    simple([TASK], metadata={"system_prompt": "base", "names": "", "fewshot": 0, "wording": None})
    simple([TASK, "lettered"], include=str(mmlu_style), metadata={"names": "letters"})
    (said,) = (entry.message for entry in caplog.records if "does not change" in entry.message)
    assert f"our tasks ignore this: --metadata names does not change {TASK}; it applies to" in said


def test_arguments_that_are_heeded(caplog):
    ran = simple([TASK], metadata={"orderings": 1, "fewshot": 1}, num_fewshot=0)
    assert ran["configs"][TASK]["metadata"]["fewshot"] == 1
    assert "heed" not in caplog.text
    asked = {"tasks": [TASK], "task_manager": lm_eval_epidemia.task_manager()}
    with pytest.raises(EpidemiaError, match=r"'orderings': 1.*give it to task_manager\(metadata"):
        lm_eval.evaluator.simple_evaluate(
            "epidemia-baseline", "kind=truth", metadata={"orderings": 1}, **asked
        )


#: `epidemia run` with models whose libraries are missing, each in a fork of this process.
WITHOUT = """
import os, sys
from importlib.machinery import PathFinder
find, missing = PathFinder.find_spec, []
PathFinder.find_spec = lambda name, *more: None if name in missing else find(name, *more)
import lm_eval.evaluator
from lm_eval_epidemia.cli import main
for word in sys.argv[2:]:
    model, *missing = word.split(",")
    if os.fork() == 0:
        words = ["run", "--model", model, "--model_args", "pretrained=x", "--tasks", sys.argv[1]]
        sys.argv = ["epidemia", *words]
        main()
    os.write(2, b"ended %d\\n" % os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_model_whose_library_is_missing_names_the_extra():
    models = ["choice-hf,torch,vllm", "choice-vllm,torch,vllm", "choice-hf,transformers"]
    done = in_a_process("-c", WITHOUT, TASK, *models)
    *runs, rest = done.stderr.split("ended 2\n")
    assert len(runs) == len(models) and not rest and "Traceback" not in done.stderr
    for said, extra in zip(runs, ("hf", "vllm", "hf"), strict=True):
        assert extras.install(extra) in said.splitlines()[-1]


def test_a_run_says_once_how_many_of_the_declared_tasks_ship(caplog):
    check = arguments.wrap_simple_evaluate(lambda tasks: tasks)
    logger = logging.getLogger("lm_eval.epidemia")
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger="lm_eval.epidemia"):
            check(["epidemia_low", "epidemia_high", "epidemia_low_scf"])
            check(tasks=["mmlu", "epidemia_low_acs", "epidemia_extra"])
            check(tasks="epidemia_high_likelihood")
    finally:
        logger.removeHandler(caplog.handler)
    both, likelihood = dict.fromkeys(record.getMessage() for record in caplog.records)
    low, high = "63 of the 75 tasks of epidemia_low", "44 of the 94 tasks of epidemia_high"
    assert both.startswith(f"Only {low}, {high} are run") and "'epidemia tasks list'" in both
    assert likelihood.startswith("Only 44 of the 94 tasks of epidemia_high_likelihood are run")
