"""Endpoints that fail in the usual ways, on 127.0.0.1: nothing is lost, nothing made up."""

import gc
import json
import math
import threading
import traceback
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import evaluate

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
NAME = f"{TASK}_sampled"
SAMPLES = 8


class Endpoint(ThreadingHTTPServer):
    """Answers with `reply(text, times asked)`: a status and, if 200, what the model said."""

    daemon_threads, path = True, "/v1/chat/completions"

    def __init__(self, reply):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.asked, self.seeds = reply, Counter(), Counter()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}{self.path}"

    def respond(self, body):
        text = body["messages"][-1]["content"]
        self.asked[text] += 1
        self.seeds[body["seed"]] += 1
        status, said = self.reply(text, self.asked[text])
        choice = {"index": 0, "message": {"role": "assistant", "content": said}}
        return status, {"choices": [choice]} if status == 200 else {"error": said}


class Completions(Endpoint):
    """Answers prompts of tokens with `reply(requests so far, prompts)`: a status and choices.

    Status 0 ends the connection without an answer.
    """

    path = "/v1/completions"

    def respond(self, body):
        self.asked["requests"] += 1
        self.seeds[body["seed"]] += 1
        status, choices = self.reply(self.asked["requests"], body["prompt"])
        return status, {"choices": [{"index": i, **one} for i, one in enumerate(choices)]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            status, answer = self.server.respond(body)
        if not status:
            self.close_connection = True
            return
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    started = []

    def start(reply, kind=Endpoint):
        started.append(kind(reply))
        return started[-1]

    yield start
    for one in started:
        one.shutdown()
        one.server_close()
    # lm-eval leaves failed tasks of asyncio behind, which format their tracebacks when they are
    # collected; while pytest parses what it imports, that is an error in Python 3.11.
    gc.collect()


def chat(server, **arguments):
    return evaluate(
        [NAME],
        model="local-chat-completions",
        apply_chat_template=True,
        log_samples=True,
        model_args=f"base_url={server.url},model=any,num_concurrent=8,max_retries=3",
        metadata={"n_samples": SAMPLES},
        **arguments,
    )


def prompts():
    return split(TASK, "sampled", Variant(n_samples=SAMPLES))["prompt"][:]


def test_rate_limits_errors_and_empty_replies(endpoint):
    rows = prompts()
    said = dict.fromkeys(rows, "A")
    said[rows[0]], said[rows[1]], said[rows[2]] = "", None, "Ich weiß es nicht."
    fails = {rows[3]: 429, rows[4]: 500, rows[5]: 503}

    def reply(text, times):
        return (fails[text], "slow down") if text in fails and times == 1 else (200, said[text])

    server = endpoint(reply)
    found = chat(server)
    row, samples = found["results"][NAME], found["samples"][NAME]
    assert len(samples) == len(rows)
    assert row["answered,none"] == pytest.approx(1 - 3 / len(rows))
    assert {s["doc"]["prompt"] for s in samples if s["filtered_resps"][0] != "A"} == set(rows[:3])
    assert {text: server.asked[text] for text in fails} == dict.fromkeys(fails, 2)
    assert sum(server.asked.values()) == len(rows) + 3
    # Every prompt has a seed of its own, the same when it is asked again.
    assert len(server.seeds) == len(rows)


def test_a_run_that_an_endpoint_ends_goes_on_from_its_cache(endpoint, tmp_path):
    rows, state = prompts(), {"served": 0, "down": False}

    def reply(text, times):
        state["served"] += 1
        return (503, "down") if state["down"] or state["served"] > 20 else (200, "B")

    server = endpoint(reply)
    with pytest.raises(Exception, match="503"):
        chat(server, use_cache=str(tmp_path / "responses"))
    first = {text for text, times in server.asked.items()}
    assert len(first) >= 20
    answered, state["served"] = dict(server.asked), -(10**6)
    found = chat(server, use_cache=str(tmp_path / "responses"))
    assert found["results"][NAME]["answered,none"] == 1
    again = {text for text in rows if server.asked[text] > answered.get(text, 0)}
    assert len(again) == len(rows) - 20


def test_other_requests_keep_the_seed_of_the_run(endpoint):
    server = endpoint(lambda text, times: (200, "C"))
    found = evaluate(
        ["epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"],
        apply_chat_template=True,
        model="local-chat-completions",
        limit=3,
        model_args=f"base_url={server.url},model=any",
    )
    assert server.seeds == {1234: 3}
    assert found["results"]["epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"]["seen,none"] > 0


# A server of completions, asked for the log-probabilities of the prompt.

LETTERS = "epidemia_low_nsduh_cocaine_ever_by_age"


def completions(server, tokenizer, tasks=(LETTERS,), concurrent=1, batch=4, **arguments):
    return evaluate(
        list(tasks),
        model="local-completions",
        batch_size=batch,
        log_samples=True,
        model_args=f"base_url={server.url},model=any,tokenizer_backend=huggingface,max_retries=1,"
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
def test_log_probabilities_that_no_model_has(last, mass, said, endpoint, tiny_llama, caplog):
    """None: a server that ignores `echo` returns those of the generated token only."""
    generated = {"token_logprobs": [-0.3], "top_logprobs": [{"a": 0.0}]}

    def reply(_, prompts):
        if last is None:
            return 200, [{"logprobs": generated}] * len(prompts)
        return 200, echoed(prompts, last)

    row = completions(endpoint(reply, Completions), tiny_llama)["results"][LETTERS]
    assert row["choice_mass,none"] == pytest.approx(mass, nan_ok=True)
    assert math.isnan(row["score,none"]) == math.isnan(row["l1,none"]) == bool(said)
    assert f"{LETTERS}: " * bool(said) in caplog.text and said in caplog.text
    assert ("its score is NaN" in caplog.text) == bool(said)


@pytest.mark.parametrize(("status", "concurrent"), [(500, 1), (500, 4), (0, 1), (0, 4)])
def test_a_server_that_fails_says_what_became_of_the_answers(
    status, concurrent, endpoint, tiny_llama, tmp_path
):
    down = [True]

    def reply(number, prompts):
        return (status if down and number > 5 else 200), echoed(prompts, math.log(0.5))

    def run(server, **arguments):
        return completions(server, tiny_llama, concurrent=concurrent, **arguments)

    with pytest.raises(Exception) as lost:
        run(endpoint(reply, Completions))
    assert not isinstance(lost.value, EpidemiaError)  # lm-eval's own
    said = "".join(traceback.format_exception(lost.value))
    assert said.strip().splitlines()[-1] == (
        "epidemia: the answers so far are lost. With --use_cache PATH lm-eval keeps each answer, "
        "and the same command continues where it stopped"
    )
    cache = {"use_cache": str(tmp_path / "responses")}
    server = endpoint(reply, Completions)
    with pytest.raises(type(lost.value)) as kept:
        run(server, **cache)
    said = "".join(traceback.format_exception(kept.value))
    assert said.strip().splitlines()[-1].startswith("epidemia: the answers so far are in")
    down.clear()
    found = run(server, **cache)
    assert found["results"][LETTERS]["seen,none"] == 1
    if concurrent == 1:  # 44 letters in requests of four: the five answered are not sent again
        assert sum(server.seeds.values()) == 6 + (11 - 5)


@pytest.mark.parametrize("concurrent", [1, 4])
def test_fewer_choices_than_prompts(concurrent, endpoint, tiny_llama):
    server = endpoint(lambda _, prompts: (200, echoed(prompts[:1], -1.0)), Completions)
    with pytest.raises(ValueError, match="zip") as short:
        completions(server, tiny_llama, concurrent=concurrent)
    said = "".join(traceback.format_exception(short.value))
    assert "send one prompt at a time (batch_size=1)" in said.splitlines()[-1]
    again = completions(server, tiny_llama, concurrent=concurrent, batch=1)
    assert again["results"][LETTERS]["seen,none"] == 1


def test_sampled_prompts_sent_as_tokens_have_their_own_seeds(endpoint, tiny_llama):
    """And in the same run, others keep theirs."""
    server = endpoint(lambda _, prompts: (200, [{"text": "A"}] * len(prompts)), Completions)
    closed = "epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"
    found = completions(
        server,
        tiny_llama,
        [NAME, closed],
        batch=1,
        metadata={"n_samples": SAMPLES},
        gen_kwargs={"max_gen_toks": 4},
    )
    sampled, others = (len(found["samples"][name]) for name in (NAME, closed))
    assert server.seeds.pop(1234) == others
    assert len(server.seeds) == sampled == len(prompts())
    answers = [one["filtered_resps"] for name in (NAME, closed) for one in found["samples"][name]]
    assert answers == [["A"]] * (sampled + others)
