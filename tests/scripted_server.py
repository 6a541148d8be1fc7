"""A scripted OpenAI-compatible server on 127.0.0.1: what it says is known, and it fails as told.

Log-probabilities of its vocabulary follow from the prompt. Faults are named by a function of the
prompt and of how often it was asked; a server is stopped by the one that started it.

    python scripted_server.py PORT_FILE DELAY

serves, without faults, in a process of its own (for measurements); GET /asked says how often it was
asked.
"""

import json
import sys
import threading
import time
import zlib
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from lm_eval_epidemia.models.server_kinds import PROBE

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"
#: Tokens by id: letters in three spellings, words, and the two of an unlikely word.
VOCABULARY = [
    *LETTERS,
    *(f" {one}" for one in LETTERS),
    *(f"{one}." for one in LETTERS),
    *(f" word{i}" for i in range(80)),
    "Answer:",
    " zy",
    "zzyva",
]
ID = {token: number for number, token in enumerate(VOCABULARY)}


@lru_cache(maxsize=100_000)
def logprobs(text, spread=2.5):
    """Log-probability of every token after a text: letters a little likelier than words."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    logits = rng.normal(0, spread, len(VOCABULARY))
    logits[:72] += 1.5
    return logits - np.log(np.exp(logits).sum())


def truth(text, choice):
    """Log-probability of a token."""
    return float(logprobs(text)[ID[choice]])


def added(text, letter):
    """Log-probability of all spellings of a letter."""
    return float(
        np.log(sum(np.exp(truth(text, one)) for one in (letter, f" {letter}", f"{letter}.")))
    )


def likeliest(text, n):
    found = logprobs(text)
    return [(VOCABULARY[i], float(found[i])) for i in np.argsort(-found)[:n]]


def tokens_of(text):
    """Greedily, the longest token first; other characters are one token each."""
    found, at = [], 0
    while at < len(text):
        for length in range(8, 0, -1):
            if (piece := text[at : at + length]) in ID:
                found.append(ID[piece])
                break
        else:
            length, _ = 1, found.append(1000 + ord(text[at]))
        at += length
    return found


def failing(status, message, headers=None, **more):
    return status, {"error": {"message": message, **more}}, headers or {}


#: Faults by name that are always the same: status, body and headers.
FAULTS = {
    "429": failing(429, "slow down", {"Retry-After": "0.05"}),
    "500": failing(500, "down"),
    "503": failing(503, "down"),
    "quota": failing(429, "pay", code="insufficient_quota"),
    "declined": failing(400, "logprobs are not supported with this model"),
    "long": failing(400, "maximum context length is 10 tokens"),
}


class Scripted(ThreadingHTTPServer):
    """Answers chat completions and completions.

    Parameters
    ----------
    fault : callable
        From a prompt and the number of times it was asked to the name of a fault or None, or to a
        status, a body and pairs of headers.
    ids : bool
        Whether token ids are heeded, and told.
    most : int
        Likeliest tokens that may be asked for.
    models : set
        That it knows.
    key : str
        That it wants.
    says : tuple
        What it answers to GET /api/version: status, body, pairs of headers; or None, and it drops
        the connection.
    alike : bool
        Whether its chat is answered as plain text.
    """

    daemon_threads, request_queue_size = True, 256

    def __init__(
        self,
        fault=lambda text, times: None,
        ids=False,
        most=20,
        key="",
        usage=True,
        delay=0.0,
        models=("any",),
        says=(404, b""),
        alike=False,
    ):
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault, self.ids, self.most, self.key, self.usage = fault, ids, most, key, usage
        self.delay, self.models, self.says, self.versions = delay, models, says, []
        self.alike = alike
        self.lock = threading.Lock()
        self.asked, self.answered, self.faults = Counter(), Counter(), Counter()
        self.payloads, self.times = [], []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def url(self, chat=True):
        path = "chat/completions" if chat else "completions"
        return f"http://127.0.0.1:{self.server_address[1]}/v1/{path}"

    def handle_error(self, *_):  # a client that was killed
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/api/version":
            self.server.versions.append(dict(self.headers))
            if self.server.says is None:
                self.close_connection = True
                return None
            status, body, *headers = self.server.says
            return self.send_bytes(status, body, dict(headers))
        self.send(200, len(self.server.payloads))

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
            said = f"Incorrect key: {self.headers.get('Authorization')}"
            return self.send(401, {"error": {"message": said}})
        if self.path == "/tokenize":
            if not server.ids:
                return self.send(404, {"error": "no such address"})
            return self.send(200, {"tokens": tokens_of(body["prompt"])})
        if body["model"] not in server.models:
            return self.send(404, {"error": {"message": f"The model `{body['model']}` is unknown"}})
        chat = "chat" in self.path
        text = body["messages"][-1]["content"] if chat else body["prompt"]
        text = text if isinstance(text, str) else str(text)
        if text == PROBE:  # asked beside the prompts: not counted, and without faults
            n = min((body.get("top_logprobs") if chat else body.get("logprobs")) or 1, server.most)
            of_chat = chat and not server.alike
            reply = self.reply(None, f"{text} in a chat" if of_chat else text, n, chat, body)
            return self.send(200, reply | {"usage": {}})
        with server.lock:
            server.asked[text] += 1
            server.payloads.append(body)
            server.times.append(time.monotonic())
            fault = server.fault(text, server.asked[text])
            server.faults[fault] += fault is not None
        if server.delay:
            time.sleep(server.delay)
        if body.get("echo") and fault is None:
            return self.send(200, echoed(body["prompt"]))
        n = (body.get("top_logprobs") if chat else body.get("logprobs")) or 1
        if n > server.most:
            return self.send(400, {"error": {"message": f"logprobs: at most {server.most}"}})
        # Before it is sent: whoever has the answer finds it counted.
        if fault in (None, "fewer", "duplicate"):
            with server.lock:
                server.answered[text] += 1
        self.fail(fault, self.reply(fault, text, n, chat, body))

    def reply(self, fault, text, n, chat, body):
        top = likeliest(text, max(n, 1))
        said = top[0][0]
        if self.server.ids and body.get("logprob_token_ids"):
            named = dict.fromkeys([*body["logprob_token_ids"], ID[said]])
            top = [(VOCABULARY[i], float(logprobs(text)[i])) for i in named]
        if body.get("return_tokens_as_token_ids") and self.server.ids:
            top = [(f"token_id:{ID[token]}", x) for token, x in top]
            said = f"token_id:{ID[said]}"
        top = top[:n] if n < len(top) and not body.get("logprob_token_ids") else top
        if fault == "fewer":
            top = top[:3]
        if fault == "alone":
            top = [(said, 0.0)]
        if fault == "nan":
            top = [(token, float("nan")) for token, _ in top]
        if fault == "duplicate":
            top = [top[0], *top]
        if fault == "thinks":
            said, top = "<think>", [(f" t{i}", -1.0 - i) for i in range(n)]
        shown = [{"token": token, "logprob": x} for token, x in top]
        told = {"tokens": [said], "token_logprobs": [top[0][1]], "top_logprobs": [dict(top)]}
        if chat:
            told = {"content": [{"token": said, "logprob": top[0][1], "top_logprobs": shown}]}
        choice = {
            "index": 0,
            "logprobs": None if fault == "null" else told,
            "finish_reason": "content_filter" if fault == "filtered" else "length",
        }
        choice |= {"message": {"role": "assistant", "content": said}} if chat else {"text": said}
        found = {"id": "x", "model": body["model"]}
        found["choices"] = [] if fault == "empty" else [choice]
        if self.server.usage:
            found["usage"] = {"total_tokens": 11, "prompt_tokens": 10, "completion_tokens": 1}
        return found

    def fail(self, fault, reply):
        if isinstance(fault, tuple):
            status, body, *headers = fault
            self.send_bytes(status, body, dict(headers))
        elif fault == "reset":
            self.close_connection = True
        elif fault in FAULTS:
            self.send(*FAULTS[fault])
        elif fault == "429 date":
            when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
            self.send(429, {"error": "slow down"}, {"Retry-After": when})
        elif fault == "json":
            self.send_bytes(200, b'{"choices": [{"ind')
        elif fault == "drop":
            self.send_bytes(200, json.dumps(reply).encode(), cut=True)
        elif fault == "drip":
            self.send_bytes(200, json.dumps(reply).encode(), drip=0.05)
        else:
            self.send(200, reply)

    def send(self, status, answer, headers=None):
        self.send_bytes(status, json.dumps(answer).encode(), headers)

    def send_bytes(self, status, sent, headers=None, cut=False, drip=0.0):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if cut:
            self.wfile.write(sent[: len(sent) // 2])
            self.close_connection = True
        elif drip:
            for byte in sent:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(drip)
        else:
            self.wfile.write(sent)
        self.wfile.flush()


def echoed(prompt):
    """What lm-eval's `local-completions` reads: a log-probability of each token of the prompt."""
    tokens = len(prompt[0] if isinstance(prompt[0], list) else prompt) + 1
    one = {"token_logprobs": [-1.0] * tokens, "top_logprobs": [{"x": -1.0}] * tokens}
    return {"choices": [{"index": 0, "logprobs": one}]}


@contextmanager
def scripted(**arguments):
    """Serve until the block ends."""
    server = Scripted(**arguments)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def main(port_file, delay):
    with scripted(ids=True, delay=float(delay)) as server:
        Path(port_file).write_text(str(server.server_address[1]))
        server.thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
