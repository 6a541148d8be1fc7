"""A chat endpoint that fails in the usual ways, on 127.0.0.1: what is lost is nothing."""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from conftest import evaluate

from lm_eval_epidemia.elicit.splits import split
from lm_eval_epidemia.elicit.variants import Variant

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
NAME = f"{TASK}_sampled"
SAMPLES = 8


class Endpoint(ThreadingHTTPServer):
    """Answers with `reply(text, times asked)`: a status and, if 200, what the model said."""

    daemon_threads = True

    def __init__(self, reply):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.asked, self.seeds = reply, Counter(), Counter()
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1/chat/completions"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][-1]["content"]
        with self.server.lock:
            self.server.asked[text] += 1
            self.server.seeds[body["seed"]] += 1
            status, said = self.server.reply(text, self.server.asked[text])
        choice = {"index": 0, "message": {"role": "assistant", "content": said}}
        sent = json.dumps({"choices": [choice]} if status == 200 else {"error": said}).encode()
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

    def start(reply):
        started.append(Endpoint(reply))
        return started[-1]

    yield start
    for one in started:
        one.shutdown()
        one.server_close()


def chat(server, **arguments):
    return evaluate(
        [NAME], model="local-chat-completions", apply_chat_template=True, log_samples=True,
        model_args=f"base_url={server.url},model=any,num_concurrent=8,max_retries=3",
        metadata={"n_samples": SAMPLES}, **arguments,
    )  # fmt: skip


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
        ["epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"], apply_chat_template=True,
        model="local-chat-completions", limit=3, model_args=f"base_url={server.url},model=any",
    )  # fmt: skip
    assert server.seeds == {1234: 3}
    assert found["results"]["epidemia_high_nsduh_marijuana_ever_by_age_sex_closed"]["seen,none"] > 0
