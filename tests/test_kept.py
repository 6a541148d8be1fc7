"""The file of `--use_cache` belongs to one model; results that cannot be saved are said."""

import gc
import logging
import threading
from contextlib import ExitStack

import pytest
from conftest import evaluate, full_disk
from scripted_server import scripted

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import arguments
from lm_eval_epidemia.models.baseline import Baseline

TASK = "epidemia_low_nsduh_heroin_ever_by_race"  # 8 prompts, 2 letters
TRUTH = {"model": "epidemia-baseline", "model_args": "kind=truth"}

SEVERAL = "epidemia_low_acs_employer_by_sex"  # 48 prompts, 4 letters

#: What the second run has other than the first, and what its refusal says.
OTHERS = {
    "kind": ({"model_args": "kind=mean"}, "kind=truth, but this run has kind=mean"),
    "an argument more": ({"model_args": "kind=truth,seed=1"}, "seed=not given.* has seed=1"),
    "template": ({"apply_chat_template": True}, "apply_chat_template=False, but .*=True"),
    "system": ({"system_instruction": "Hm"}, "system_instruction=, but .*=Hm"),
    "choice-api": (
        {"model": "choice-api", "model_args": "base_url=http://h/v1/completions,model=any"},
        "--model=epidemia-baseline, but this run has --model=choice-api",
    ),
    "own object": ({"model": Baseline("mean"), "model_args": None}, "but .*--model=Baseline"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_the_answers_of_one_run_are_not_those_of_another(what, tmp_path):
    cache = {"use_cache": f"{tmp_path}/new/kept"}
    found = evaluate([TASK], **TRUTH, **cache)["results"]
    other, said = OTHERS[what]
    with pytest.raises(EpidemiaError, match=said) as raised:
        evaluate([TASK], **{**TRUTH, **other}, **cache)
    assert "kept_rank0.db" in str(raised.value) and "\n" not in str(raised.value)
    # The same run goes on, however many are asked at a time.
    assert evaluate([TASK], **TRUTH, **cache, batch_size=7)["results"] == found


@pytest.mark.parametrize("model", ["hf", "choice-hf"])
def test_two_checkpoints_under_one_name_are_two_models(model, tiny_llama, tmp_path):
    import shutil

    from transformers import AutoModelForCausalLM

    folder = shutil.copytree(tiny_llama, tmp_path / "model")
    given = {"model": model, "device": "cpu", "use_cache": f"{tmp_path}/kept", "limit": 2}
    given["model_args"] = f"pretrained={folder},dtype=float32"
    first = evaluate([TASK], **given)["results"]
    assert evaluate([TASK], **given)["results"] == first
    trained = AutoModelForCausalLM.from_pretrained(folder)
    trained.lm_head.weight.data += 0.01
    trained.save_pretrained(folder)
    with pytest.raises(EpidemiaError, match="holds answers with weights="):
        evaluate([TASK], **given)


@pytest.mark.parametrize(
    ("model", "task"), [("choice-api", TASK), ("local-chat-completions", f"{TASK}_stated")]
)
def test_served_models_have_names_and_may_move(model, task, tmp_path, caplog):
    def run(server, name):
        return evaluate(
            [task],
            model=model,
            apply_chat_template=True,
            model_args=f"base_url={server.url()},model={name}",
            use_cache=f"{tmp_path}/kept",
        )

    with scripted(models=("one", "other")) as server, scripted(models=("one",)) as elsewhere:
        first = run(server, "one")["results"]
        asked = server.asked.total()
        with pytest.raises(EpidemiaError, match="model=one, but this run has model=other"):
            run(server, "other")
        assert run(elsewhere, "one")["results"] == first
        assert (server.asked.total(), elsewhere.asked.total()) == (asked, 0)
        assert f"read at {server.url()}; they are used as answers of" in caplog.text


def test_two_runs_at_once_do_not_mix(tmp_path, monkeypatch):
    """The second begins while the first has answered nothing."""
    letters, began, go_on = Baseline._letters, threading.Event(), threading.Event()

    def waits(self, request):
        began.set()
        assert go_on.wait(60)
        return letters(self, request)

    monkeypatch.setattr(Baseline, "_letters", waits)
    cache, found = {"use_cache": f"{tmp_path}/kept"}, []
    first = threading.Thread(target=lambda: found.append(evaluate([TASK], **TRUTH, **cache)))
    first.start()
    assert began.wait(60)
    try:
        with pytest.raises(EpidemiaError, match="kind=truth, but this run has kind=mean"):
            evaluate([TASK], **{**TRUTH, "model_args": "kind=mean"}, **cache)
    finally:
        go_on.set()
        first.join()
    assert found[0]["results"][TASK]["score,none"] == 100


def test_a_run_without_an_answer_leaves_the_file_to_anybody(tmp_path, monkeypatch):
    cache = {"use_cache": f"{tmp_path}/kept"}
    with monkeypatch.context() as patched:
        patched.setattr(Baseline, "_letters", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            evaluate([TASK], **TRUTH, **cache)
    evaluate([TASK], model_args="kind=mean", **cache)


def test_a_file_that_does_not_say_whose_it_is(tmp_path, mmlu_style):
    """Of a run without our tasks, or of an earlier version; others may go on with it."""
    from sqlitedict import SqliteDict

    with SqliteDict(f"{tmp_path}/kept_rank0.db", autocommit=True) as kept:
        kept["a key"] = (-1.0, True)
    with pytest.raises(EpidemiaError, match="holds 1 answers, but not whose they are"):
        evaluate([TASK], **TRUTH, use_cache=f"{tmp_path}/kept")
    others = {"include_path": str(mmlu_style), "model": "dummy", "model_args": ""}
    evaluate(["lettered"], **others, use_cache=f"{tmp_path}/kept")
    evaluate([TASK], **TRUTH, use_cache=f"{tmp_path}/ours")
    with pytest.raises(EpidemiaError, match="--model=epidemia-baseline, but this run"):
        evaluate(["lettered"], **others, use_cache=f"{tmp_path}/ours")


# Places that cannot be written.

BEFORE, DURING = (arguments, "_check_run"), (Baseline, "_letters")
SAYS = {
    (BEFORE, "--output_path"): "^cannot write .*: .*; ",
    (BEFORE, "--use_cache"): "^cannot write .*: .*; ",
    (DURING, "--output_path"): "--output_path.*cannot be written",
    (DURING, "--use_cache"): "--use_cache.*cannot be written",
}


@pytest.fixture
def limit(monkeypatch):
    """Let files grow to so many bytes only, from the first call of a function on."""
    with ExitStack() as disk:

        def limit(owner, name, room):
            usual = getattr(owner, name)

            def limited(*given, **more):
                disk.enter_context(full_disk(room))
                return usual(*given, **more)

            monkeypatch.setattr(owner, name, limited)

        yield limit


@pytest.mark.parametrize(
    ("room", "when", "option", "path"),
    [
        (10**7, BEFORE, "--output_path", "file/below"),
        (10**7, BEFORE, "--output_path", "file/x.json"),
        (20_000, BEFORE, "--output_path", "out"),
        (4_000, DURING, "--output_path", "out"),
        (60_000, DURING, "--output_path", "out"),
        (10**7, BEFORE, "--use_cache", "file/below"),
        (20_000, BEFORE, "--use_cache", "kept"),
        (9_000, DURING, "--use_cache", "kept"),
    ],
)
def test_what_cannot_be_written_ends_the_run(
    room, when, option, path, tmp_path, limit, capsys, caplog
):
    from lm_eval.loggers import EvaluationTracker

    caplog.set_level(logging.INFO, "lm_eval")
    (tmp_path / "file").write_text("")
    tracker, given = EvaluationTracker(), {}
    if option == "--use_cache":
        given["use_cache"] = f"{tmp_path}/{path}"
    else:
        tracker.output_path = f"{tmp_path}/{path}"

    def run():  # as lm_eval does
        found = evaluate([SEVERAL], **TRUTH, **given, evaluation_tracker=tracker, log_samples=True)
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples(task_name=SEVERAL, samples=samples[SEVERAL])

    limit(*when, room)
    with pytest.raises(EpidemiaError, match=SAYS[when, option]) as raised:
        run()
    assert "\n" not in str(raised.value)
    is_asked = "Running loglikelihood requests" in caplog.text
    assert is_asked == (when == DURING)
    # The numbers of hours of computing are not lost with their file.
    assert ("|score" in capsys.readouterr().out) == (room == 4_000)
    assert room != 60_000 or list(tmp_path.rglob("results_*.json"))


# Keys.


def test_keys_are_masked_in_every_log_of_a_run(monkeypatch, caplog):
    """lm-eval logs the headers of each failed request."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging, "_logRecordFactory", logging.getLogRecordFactory())
    monkeypatch.setenv("OPENAI_API_KEY", key := "sk-test-0123456789abcdef")
    with scripted(fault=lambda text, times: "500") as server, pytest.raises(Exception, match="500"):
        evaluate(
            [f"{TASK}_stated"],
            model="local-chat-completions",
            apply_chat_template=True,
            limit=2,
            model_args=f"base_url={server.url()},model=any,num_concurrent=2,max_retries=1",
        )
    assert "ClientResponseError" in caplog.text and "Bearer ***" in caplog.text
    gc.collect()  # what asyncio tells of tasks, after the run
    assert "exception was never retrieved" in caplog.text and key not in caplog.text
