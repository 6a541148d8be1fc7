"""Endpoints that fail in the usual ways, on 127.0.0.1: nothing is lost, nothing made up."""

import gc
import json
import math
import traceback
from collections import Counter
from contextlib import contextmanager

import pytest
from conftest import evaluate
from scripted_server import scripted

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
NAME = f"{TASK}_sampled"
SAMPLES = 8


@pytest.fixture(autouse=True, scope="module")
def collected():
    """lm-eval leaves failed tasks of asyncio behind, which format their tracebacks when they are
    collected; while pytest parses what it imports, that is an error in Python 3.11."""
    yield
    gc.collect()


def sent(*choices, status=200):
    """A reply with these choices; those of a chat are texts."""
    told = [
        {"index": i, **(one if isinstance(one, dict) else {"message": {"content": one}})}
        for i, one in enumerate(choices)
    ]
    return status, json.dumps({"choices": told}).encode()


def seeds(server):
    return Counter(body["seed"] for body in server.payloads)


def chat(server, **arguments):
    return evaluate(
        [NAME],
        model="local-chat-completions",
        apply_chat_template=True,
        log_samples=True,
        model_args=f"base_url={server.url()},model=any,num_concurrent=8,max_retries=3",
        metadata={"n_samples": SAMPLES},
        **arguments,
    )


def prompts():
    return split(TASK, "sampled", Variant(n_samples=SAMPLES))["prompt"][:]


def test_rate_limits_errors_and_empty_replies():
    rows = prompts()
    said = dict.fromkeys(rows, "A")
    said[rows[0]], said[rows[1]], said[rows[2]] = "", None, "Ich weiß es nicht."
    fails = {rows[3]: "429", rows[4]: "500", rows[5]: "503"}

    def reply(text, times):
        return fails[text] if text in fails and times == 1 else sent(said[text])

    with scripted(fault=reply) as server:
        found = chat(server)
    row, samples = found["results"][NAME], found["samples"][NAME]
    assert len(samples) == len(rows)
    assert row["answered,none"] == pytest.approx(1 - 3 / len(rows))
    assert {s["doc"]["prompt"] for s in samples if s["filtered_resps"][0] != "A"} == set(rows[:3])
    assert {text: server.asked[text] for text in fails} == dict.fromkeys(fails, 2)
    assert server.asked.total() == len(rows) + 3
    # Every prompt has a seed of its own, the same when it is asked again.
    assert len(seeds(server)) == len(rows)


def test_a_run_that_an_endpoint_ends_goes_on_from_its_cache(tmp_path):
    rows, up = prompts(), iter(range(20))
    with scripted(fault=lambda *_: sent("B") if next(up, None) is not None else "503") as server:
        with pytest.raises(Exception, match="503"):
            chat(server, use_cache=str(tmp_path / "responses"))
        assert len(server.asked) >= 20
        answered, server.fault = Counter(server.asked), lambda *_: sent("B")
        found = chat(server, use_cache=str(tmp_path / "responses"))
    assert found["results"][NAME]["answered,none"] == 1
    again = {text for text in rows if server.asked[text] > answered[text]}
    assert len(again) == len(rows) - 20


CLOSED = "epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"


def test_other_requests_keep_the_seed_of_the_run():
    with scripted(fault=lambda *_: sent("C")) as server:
        given = {
            "model": "local-chat-completions",
            "model_args": f"base_url={server.url()},model=any",
        }
        found = evaluate([CLOSED], apply_chat_template=True, limit=3, **given)
    assert seeds(server) == {1234: 3} and found["results"][CLOSED]["seen,none"] > 0


# A server of completions, asked for the log-probabilities of the prompt.

LETTERS = "epidemia_low_nsduh_cocaine_ever_by_age"


def completions(server, tokenizer, tasks=(LETTERS,), concurrent=1, batch=4, **arguments):
    return evaluate(
        list(tasks),
        model="local-completions",
        batch_size=batch,
        log_samples=True,
        model_args=f"base_url={server.url(False)},model=any,tokenizer_backend=huggingface,max_retries=1,"
        f"tokenizer={tokenizer},num_concurrent={concurrent}",
        **arguments,
    )


def echoed(prompts, last):
    """What a server returns with `echo`: the prompt's tokens, then one that it generated."""
    for prompt in prompts:
        logprobs = [*[-1.0] * (len(prompt) - 1), last, -1.0]
        yield {
            "logprobs": {"token_logprobs": logprobs, "top_logprobs": [{"a": 0.0}] * len(logprobs)}
        }


@contextmanager
def completing(reply):
    """Answer prompts of tokens by `reply(requests so far, prompts)`."""
    with scripted() as server:
        server.fault = lambda *_: reply(len(server.payloads), server.payloads[-1]["prompt"])
        yield server


@pytest.mark.parametrize(
    ("last", "mass", "said"),
    [
        (None, 2.0, "sum to more than 1, up to 2, first in cell 0"),
        (0.7, 2 * math.exp(0.7), "sum to more than 1, up to 4.03"),
        (1000.0, math.inf, "sum to more than 1, up to inf"),
        (math.inf, math.inf, "22 of 22 prompts got NaN or infinite"),
        (math.nan, math.nan, "22 of 22 prompts got NaN or infinite"),
        (-math.inf, 0.0, "22 of 22 prompts got NaN or infinite"),
        (math.log(0.5), 1.0, ""),
    ],
)
def test_log_probabilities_that_no_model_has(last, mass, said, tiny_llama, caplog):
    """None: a server that ignores `echo` returns those of the generated token only."""
    generated = {"logprobs": {"token_logprobs": [-0.3], "top_logprobs": [{"a": 0.0}]}}

    def reply(_, prompts):
        return sent(*([generated] * len(prompts) if last is None else echoed(prompts, last)))

    with completing(reply) as server:
        row = completions(server, tiny_llama)["results"][LETTERS]
    assert row["choice_mass,none"] == pytest.approx(mass, nan_ok=True)
    assert math.isnan(row["score,none"]) == math.isnan(row["l1,none"]) == bool(said)
    assert f"{LETTERS}: " * bool(said) in caplog.text and said in caplog.text
    assert ("its score is NaN" in caplog.text) == bool(said)


def last_line(error):
    return "".join(traceback.format_exception(error)).strip().splitlines()[-1]


@pytest.mark.parametrize(("fault", "concurrent"), [("500", 1), ("reset", 4)])
def test_a_server_that_fails_says_what_became_of_the_answers(
    fault, concurrent, tiny_llama, tmp_path
):
    fails = [fault]

    def reply(number, prompts):
        return fault if fails and number > 5 else sent(*echoed(prompts, math.log(0.5)))

    def run(server, **arguments):
        return completions(server, tiny_llama, concurrent=concurrent, **arguments)

    with completing(reply) as server, pytest.raises(Exception) as lost:
        run(server)
    assert not isinstance(lost.value, EpidemiaError)  # lm-eval's own
    assert last_line(lost.value) == (
        "epidemia: the answers so far are lost: with --use_cache PATH lm-eval keeps each answer, "
        "and the same command continues"
    )
    cache = {"use_cache": str(tmp_path / "responses")}
    with completing(reply) as server:
        with pytest.raises(type(lost.value)) as kept:
            run(server, **cache)
        assert last_line(kept.value).startswith("epidemia: the answers so far are in")
        fails.clear()
        found = run(server, **cache)
    assert found["results"][LETTERS]["seen,none"] == 1
    if concurrent == 1:  # 44 letters in requests of four: the five answered are not sent again
        assert len(server.payloads) == 6 + (11 - 5)


@pytest.mark.parametrize("concurrent", [1, 4])
def test_fewer_choices_than_prompts(concurrent, tiny_llama):
    with completing(lambda _, prompts: sent(*echoed(prompts[:1], -1.0))) as server:
        with pytest.raises(ValueError, match="zip") as short:
            completions(server, tiny_llama, concurrent=concurrent)
        assert "send one prompt at a time (batch_size=1)" in last_line(short.value)
        again = completions(server, tiny_llama, concurrent=concurrent, batch=1)
    assert again["results"][LETTERS]["seen,none"] == 1


def test_sampled_prompts_sent_as_tokens_have_their_own_seeds(tiny_llama):
    """And in the same run, others keep theirs."""
    how = {"metadata": {"n_samples": SAMPLES}, "gen_kwargs": {"max_gen_toks": 4}}
    with completing(lambda _, prompts: sent(*[{"text": "A"}] * len(prompts))) as server:
        found = completions(server, tiny_llama, [NAME, CLOSED], batch=1, **how)
    sampled, others = (len(found["samples"][name]) for name in (NAME, CLOSED))
    drawn = seeds(server)
    assert drawn.pop(1234) == others and len(drawn) == sampled == len(prompts())
    answers = [one["filtered_resps"] for name in (NAME, CLOSED) for one in found["samples"][name]]
    assert answers == [["A"]] * (sampled + others)
