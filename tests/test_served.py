"""`choice-api` where something is wrong: with the server, the arguments, the cache, the keys."""

import json
import logging
import math
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
import yaml
from conftest import REPOSITORY, evaluate
from scripted_server import scripted
from test_choice_api import KEY, TASK, TEXTS, ask, cached, model, plain, requests

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import arguments, server_facts
from lm_eval_epidemia.harness.keys import headers, mask_keys
from lm_eval_epidemia.models.choice_api import ChoiceAPI
from lm_eval_epidemia.models.endpoint import Endpoint
from lm_eval_epidemia.models.served import count_tokens
from lm_eval_epidemia.models.server_replies import BadReply
from lm_eval_epidemia.results.read import read_results

TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "servers.yaml").read_text("utf-8"))


def always(*reply):
    return lambda text, times: reply


def refusal(fault, texts=TEXTS, **arguments):
    """What a run ends with."""
    with scripted(fault=fault) as server:
        with pytest.raises(EpidemiaError) as raised:
            ask(server, plain(texts), **arguments)
        return str(raised.value), server.asked.total()


# Ollama, which puts a chat template around plain text.

OLLAMA = (200, b'{"version":"0.12.11"}')


def test_plain_text_for_ollama_is_refused_before_any_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with scripted(says=OLLAMA, key=KEY) as server:
        with pytest.raises(EpidemiaError, match=r"is an Ollama server 0\.12\.11: ") as end:
            ask(server, plain(TEXTS))
        ways = ("/api/generate", "--apply_chat_template", "/v1/chat/completions", "server=openai")
        for said in ways:
            assert said in str(end.value)
        assert not server.payloads and len(server.versions) == 1
        assert KEY not in str(server.versions) + str(end.value)
        # Who knows better says so.
        lm = ChoiceAPI(base_url=server.url(False), model="any", server="openai")
        assert len(lm.loglikelihood(plain(TEXTS), disable_tqdm=True)) == 160
        assert len(server.versions) == 1


@pytest.mark.parametrize("chat", [False, True])
def test_a_template_is_seen_where_letters_are_read_by_ids_too(chat):
    """Both forms are asked for the same ids, so that they can be compared."""
    with (
        scripted(ids=True, alike=True) as server,
        pytest.raises(EpidemiaError, match="the same answer after plain text and in a chat"),
    ):
        lm = model(server, chat=chat)
        message = lm.apply_chat_template([{"role": "user", "content": "Which?"}]) if chat else "Q:"
        lm.loglikelihood(requests([(message, "A" if chat else " A")]), disable_tqdm=True)


@pytest.mark.parametrize(
    "says",
    [
        (404, b""),
        (200, b"<html>Hello</html>"),
        (200, b"[1]"),
        (200, b'{"version": 3}'),
        (200, b"{"),
        (200, b"\xff"),
        (200, b"[" * 990),
        (401, b"{}"),
        (500, b'{"version": "1"}'),
        None,
        (302, b"", ("Location", "/api/version?again")),
    ],
)
def test_other_servers_are_asked_once_what_they_are_and_then_as_ever(says):
    with scripted(says=says) as server:
        assert len(ask(server, plain(TEXTS))) == 160
        assert len(server.versions) == 1 and server.asked == dict.fromkeys(TEXTS, 1)


def test_a_server_that_says_it_bit_by_bit_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(server_facts, "PATIENCE", 0.3)
    returned, dripped = threading.Event(), threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            for _ in range(200):  # 10 s
                connection.sendall(b"a")
                if returned.wait(0.05):
                    return
            dripped.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        server_facts.check_template(f"http://127.0.0.1:{listener.getsockname()[1]}/v1/completions")
        returned.set()
        thread.join()
    assert not dripped.is_set()


def test_lm_evals_own_plain_completions_of_ollama_are_refused_too():
    with scripted(says=OLLAMA) as server:
        given = {
            "tasks": ["epidemia_high_closed"],
            "model": "local-completions",
            "model_args": f"base_url={server.url(False)},model=any",
        }
        run = arguments.wrap_simple_evaluate(lambda model=None, model_args=None, tasks=None: "run")
        with pytest.raises(EpidemiaError, match="is an Ollama server"):
            run(**given)
        assert len(server.versions) == 1
        # Who knows better, a chat, and others' tasks
        assert run(**{**given, "model_args": given["model_args"] + ",server=openai"}) == "run"
        assert run(**{**given, "model_args": f"base_url={server.url()},model=any"}) == "run"
        assert run(**{**given, "tasks": ["mmlu"]}) == "run"
        assert len(server.versions) == 1 and not server.payloads


def test_lm_evals_own_chat_completions_are_told_what_to_use_instead():
    with scripted() as server:
        how = {"model": "local-chat-completions", "limit": 2}
        how["model_args"] = f"base_url={server.url()},model=any"
        said = "LocalChatCompletion gives no log-probabilities.*epidemia_low_sampled"
        with pytest.raises(EpidemiaError, match=said):
            evaluate([TASK], apply_chat_template=True, **how)
        said = "accepts chat messages, not plain text: add --apply_chat_template"
        with pytest.raises(EpidemiaError, match=said):
            evaluate([f"{TASK}_sampled"], **how)


# Pauses.


@pytest.mark.parametrize("others", [0, 1])
def test_a_rate_limit_that_lets_others_through_ends_no_run(others, monkeypatch):
    """A prompt that loses its turn to another 20 times is only late."""
    endpoint, asked = Endpoint("http://127.0.0.1:1/v1/completions", {}, tries=2, pause=0.001), []

    def posted(url, content):
        asked.append(url)
        endpoint._through += others
        if len(asked) < 20:
            raise BadReply("HTTP 429", "slow down", limits=True)
        return "answered"

    monkeypatch.setattr(endpoint, "_posted", posted)
    if others:
        assert endpoint.ask({}, str) == "answered" and len(asked) == 20
    else:
        with pytest.raises(EpidemiaError, match="in 2 tries"):
            endpoint.ask({}, str)


@pytest.mark.parametrize(
    "named", ["0", "-5", "nan", "inf", "bananas", "²", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_a_pause_that_is_none_is_the_usual_one(named):
    with scripted(fault=always(429, b"{}", ("Retry-After", named.encode().decode("latin-1")))) as s:
        with pytest.raises(EpidemiaError, match="in 4 tries; the last error: HTTP 429"):
            ask(s, plain(TEXTS[:1]), max_retries=3, pause=0.1)
        between = [b - a for a, b in zip(s.times, s.times[1:], strict=False)]
    # At least half of 0.1, 0.2 and 0.4 s.
    assert [x >= least for x, least in zip(between, (0.05, 0.1, 0.2), strict=True)] == [True] * 3


# The server's words.


DEEP = [[200, "[" * 100_000], "an answer that is not JSON"]


@pytest.mark.parametrize(("reply", "said"), [DEEP, *TABLES["words"]])
def test_what_the_server_said_is_in_the_last_line(reply, said):
    status, text, *headers = reply
    found, _ = refusal(always(status, text.encode(), *map(tuple, headers)), max_retries=0, pause=0)
    assert "\n" not in found and len(found) < 700
    assert re.search(said, found), found


@pytest.mark.parametrize("tries", [0, 1, 5])
def test_no_log_probabilities_are_found_out_in_any_number_of_tries(tries):
    found, asked = refusal(lambda text, times: "null", max_retries=tries)
    assert "gives no log-probabilities" in found and asked == min(3, tries + 1)


class Silent(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_error(500)

    def log_message(self, *_):
        pass


def test_a_certificate_that_is_not_trusted_is_not_asked_twice(tmp_path):
    pem = tmp_path / "self.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command += " -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command += f" -keyout {pem} -out {tmp_path / 'cert.pem'}"
    if subprocess.run(command.split(), capture_output=True, check=False).returncode:
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.handle_error = lambda *_: None
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        given = {
            "base_url": f"https://127.0.0.1:{server.server_address[1]}/v1/completions",
            "model": "any",
            "max_retries": 0,
            "pause": 0.01,
        }
        began = time.monotonic()
        with pytest.raises(EpidemiaError, match=r"not trusted.*ca_cert_path=FILE") as raised:
            ChoiceAPI(**given | {"max_retries": 9, "pause": 60}).loglikelihood(plain(TEXTS[:1]))
        assert time.monotonic() - began < 30 and "\n" not in str(raised.value)
        for trusting in ({"ca_cert_path": tmp_path / "cert.pem"}, {"verify_certificate": False}):
            with pytest.raises(EpidemiaError, match="HTTP 500"):
                ChoiceAPI(**given, **trusting).loglikelihood(plain(TEXTS[:1]))
    finally:
        server.shutdown()
        server.server_close()


# Letters that are not the answer.


def thinking(n, mass):
    """A model that thinks first, with letters of a probability in all among its likeliest."""
    top = [{"token": "<think>", "logprob": math.log1p(-2 * mass)}]
    top += [{"token": f" {one}", "logprob": math.log(mass / 4)} for one in "ABCD"]
    top += [{"token": f" w{i}", "logprob": math.log(mass / 100)} for i in range(15)]
    told = {"tokens": ["<think>"], "top_logprobs": [{one["token"]: one["logprob"] for one in top}]}
    return json.dumps({"choices": [{"logprobs": told}], "usage": {"total_tokens": 11}}).encode()


def test_letters_among_the_likeliest_that_are_never_the_answer_are_refused(tmp_path):
    found, asked = refusal(always(200, thinking(4, 2e-4)))
    assert "enable_thinking=False" in found and "'<think>'" in found and asked <= 34
    with scripted(fault=always(200, thinking(4, 0.01))) as server:  # one in a hundred: a base model
        assert len(ask(server, plain(TEXTS))) == 160
    with scripted(fault=always(200, thinking(4, 1e-7))) as server:
        lm = cached(model(server), str(tmp_path / "kept"))
        with pytest.raises(EpidemiaError) as raised:
            lm.loglikelihood(plain(TEXTS))
    # Nothing was written, and nothing says so.
    assert "--use_cache" not in str(raised.value) and len(lm.dbdict) == 0


def test_one_spelling_that_the_model_never_writes():
    def said(text):
        told = {"tokens": ["A"], "top_logprobs": [{"A": -0.1, "B": -3.0, "x": -9.0}]}
        return json.dumps({"choices": [{"logprobs": told}], "usage": {"total_tokens": 3}}).encode()

    found, _ = refusal(always(200, said("")), variants="one")
    assert "in the one spelling that variants=one reads" in found and "variants=sum" in found


# How the letters in a file were read; whose they are, see test_kept.py.


def test_letters_of_other_tokens_are_refused_and_the_file_says_how_they_were_read(tmp_path):
    path = str(tmp_path / "kept")
    with scripted(ids=True) as exact, scripted() as top:
        cached(model(exact), path).loglikelihood(plain(TEXTS[:20]))
        with pytest.raises(EpidemiaError, match="variants=one, but this run has variants=sum"):
            cached(model(top), path).loglikelihood(plain(TEXTS))
        again = model(exact)
        cached(again, path).loglikelihood(plain(TEXTS[:20]))
        assert exact.asked.total() == 20
        assert again.get_model_info()["choice_api"] == {
            "letters_read_by": "token ids",
            "variants": "one",
            "tokens": 0,
            "declined": 0,
            "server": "not known",
            "repeatable": True,
            "asked_again": {},
        }
        both = str(tmp_path / "both")
        cached(model(exact, variants="one"), both).loglikelihood(plain(TEXTS[:5]))
        other = model(top, variants="one")
        cached(other, both).loglikelihood(plain(TEXTS))
        assert other.get_model_info()["choice_api"]["letters_read_by"] == "token ids and top 20"


def test_a_chat_endpoint_is_told_from_plain_text_in_reports(tmp_path):
    from report_parts import write

    for name, kind, url in (
        ("a", "choice-api", "http://h/v1/completions"),
        ("b", "choice-api", "http://h/v1/chat/completions"),
        ("c", "openai-chat-completions", ""),
    ):
        config = {"model": kind, "model_args": {"model": "m", "base_url": url}}
        write(tmp_path / name, {TASK: (40.0, 3.0)}, config=config)
        (chat,) = read_results([tmp_path / name]).runs.get("chat_template", [""])
        assert chat == ("yes" if name != "a" else "")


def test_files_that_cannot_be_written(tmp_path):
    (tmp_path / "folder_rank0.db").mkdir()
    (tmp_path / "text_rank0.db").write_text("not a database, and longer than sixteen bytes")
    with sqlite3.connect(tmp_path / "whole.db") as whole:
        whole.execute("CREATE TABLE unnamed (key TEXT, value BLOB)")
        whole.executemany("INSERT INTO unnamed VALUES (?, ?)", [("k" * 64, b"v" * 200)] * 100)
    damaged = (tmp_path / "whole.db").read_bytes()[:6000]
    (tmp_path / "damaged_rank0.db").write_bytes(damaged)
    for name, said in (
        ("damaged", "or is damaged"),
        ("text", "is no database that can be written, or is dam"),
        ("folder", "is no database that can be written"),
    ):
        with scripted() as server, pytest.raises(EpidemiaError, match=said) as raised:
            evaluate(
                [TASK],
                model="choice-api",
                use_cache=str(tmp_path / name),
                model_args=f"base_url={server.url(False)},model=any",
            )
        assert str(tmp_path / name) in str(raised.value) and server.asked.total() == 0


def test_a_file_that_takes_no_more_ends_the_run_in_a_line(tmp_path, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("lm_eval_epidemia.models.served.remember", full)
    with scripted() as server:
        lm = cached(model(server, num_concurrent=2), str(tmp_path / "kept"))
        with pytest.raises(EpidemiaError, match=r"--use_cache.*cannot be written: .*disk is full"):
            lm.loglikelihood(plain(TEXTS))
        assert server.asked.total() < 10


def test_a_run_that_the_user_stops_keeps_whole_prompts_and_says_so(tmp_path, monkeypatch, caplog):
    """As by Ctrl-C, after eight answers; what is under way is waited for."""
    affordable = ChoiceAPI._affordable

    def stops(self, running):
        if server.answered.total() >= 8:
            raise KeyboardInterrupt
        return affordable(self, running)

    monkeypatch.setattr(ChoiceAPI, "_affordable", stops)
    with scripted() as server:
        lm = cached(model(server), str(tmp_path / "kept"))
        with pytest.raises(KeyboardInterrupt):
            lm.loglikelihood(plain(TEXTS))
    answered = server.answered.total()
    assert 8 <= answered < 40 and len(lm.dbdict) == 4 * answered
    assert "unfinished requests" in caplog.text
    assert (
        f"interrupted. {answered} of 40 prompts were answered; the answers are in the"
        in caplog.text
    )


# Tasks and arguments.


def test_a_model_that_takes_no_temperature_is_refused_with_a_way_out():
    words = b'{"error": {"message": "Unsupported value: temperature does not support 0"}}'
    found, asked = refusal(always(400, words))
    assert "reasoning models" in found and "epidemia_low_stated" in found and asked < 10


def test_tasks_that_need_more_than_letters_are_refused_before_the_first_request():
    with scripted() as server:
        arguments = f"base_url={server.url(False)},model=any"
        for written in (f"{TASK}_stated", f"{TASK}_sampled"):
            with pytest.raises(EpidemiaError, match=f"{written} needs: run that task separately"):
                evaluate([TASK, written], model="choice-api", model_args=arguments)
        assert server.asked.total() == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("base_url", f"http://h/v1/completions?api_key={KEY}", r"accepts no key in base_url"),
        ("base_url", f"http://h/v1/completions?x=1&sig={KEY}", r"accepts no key in base_url"),
        ("api_key_env", KEY, "variable named by api_key_env is not set"),
        ("header_env", KEY, "variable named by header_env is not set"),
    ],
)
def test_a_key_in_an_argument_is_refused_and_not_shown(name, value, said, caplog):
    caplog.set_level(logging.DEBUG)
    given = {"base_url": "http://h/v1/completions", "model": "any", name: value}
    with pytest.raises(EpidemiaError, match=said) as raised:
        ChoiceAPI(**given)
    assert KEY not in str(raised.value)
    with pytest.raises(EpidemiaError, match=said):
        evaluate([TASK], model="choice-api", model_args=given)
    assert KEY not in caplog.text


def test_an_address_with_a_query_that_is_no_key():
    url = "https://h/deployments/m/chat/completions?api-version=2024-10-21"
    assert ChoiceAPI(base_url=url, model="any").chat


def test_keys_that_no_header_can_hold(monkeypatch):
    for value in ("sk-\nabcdef", "sk-äöüabcdef"):
        monkeypatch.setenv("MY_KEY", value)
        with pytest.raises(EpidemiaError, match="MY_KEY contains a line break or") as raised:
            headers("choice-api", "MY_KEY", None)
        assert "abcdef" not in str(raised.value)
    monkeypatch.setenv("MY_HEADER", "Two Words: x")
    with pytest.raises(EpidemiaError, match="'Name: value'"):
        headers("choice-api", "OPENAI_API_KEY", "MY_HEADER")


@pytest.mark.parametrize("key", ["abcd", "a/b+c=d&e<f", 'quo"te\\s', "sk-test-0123"])
def test_a_key_is_hidden_in_every_way_of_writing_it(key):
    sent = {"Authorization": f"Bearer {key}"}
    for written in (key, json.dumps(key), quote(key), quote(key, safe="")):
        found = mask_keys(f"Bearer token {written} is wrong", sent)
        assert "***" in found and written.strip('"') not in found and "Bearer token" in found
    assert mask_keys("Bearer a", {"X": "Bearer a"}) == "Bearer a"


@pytest.mark.parametrize(("usage", "tokens"), TABLES["usage"])
def test_tokens_however_they_are_told(usage, tokens):
    assert count_tokens(usage) == tokens


# Interrupted.

KILLED = """
import os, signal, sys
sys.path[:0] = {path}
from test_choice_api import cached
from lm_eval_epidemia.models.choice_api import ChoiceAPI
from lm_eval_epidemia.models.choices import remember
model = ChoiceAPI(base_url="http://h/v1/completions", model="any")
lm = cached(model, sys.argv[1])
def answered():
    yield ("question", " A"), (-1.0, True)
    lm.dbdict.conn.select_one("SELECT 1")  # answered when all before it is done
    os.kill(os.getpid(), signal.SIGKILL)
    yield ("question", " B"), (-2.0, False)
remember(model, answered())
"""


@pytest.mark.slow
def test_the_letters_of_a_prompt_are_kept_together_or_not_at_all(tmp_path):
    from sqlitedict import SqliteDict

    program = [sys.executable, "-c", KILLED.format(path=sys.path), str(tmp_path / "kept")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr[-800:]
    with SqliteDict(str(tmp_path / "kept")) as kept:
        assert len(kept) == 0


def test_dates_far_away_are_waited_for_by_the_user():
    far = (datetime.now(timezone.utc) + timedelta(days=9)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    found, asked = refusal(always(429, b"{}", ("Retry-After", far)))
    assert "asks to wait" in found and asked == 1
