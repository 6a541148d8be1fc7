"""The servers people run at home, scripted: the forms of each, what it refuses, and faults.

Written after the sources of ollama/ollama, ggml-org/llama.cpp, ml-explore/mlx-lm and
sgl-project/sglang. A chat is answered as `templated` text, whose log-probabilities are other ones.
"""

import json
import math
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml
from conftest import REPOSITORY
from scripted_server import ID, VOCABULARY, likeliest, logprobs, tokens_of

SERVERS = yaml.safe_load((REPOSITORY / "tests/data/servers.yaml").read_text())
#: What each says of itself, by path.
TELLS, NAMES = SERVERS["tells"], SERVERS["names"]
#: Faults in which a sampler leaves so many tokens; the others are not shown, or as -9999.
AFTER_SAMPLING = {"greedy": 1, "alone": 1, "nucleus": 3}


class Refused(Exception):
    """A status and the words that go with it; status 0 drops the connection."""


def templated(messages):
    return "".join(f"<|{one['role']}|>{one['content']}" for one in messages) + "<|assistant|>"


def must(holds, words="invalid request", status=400):
    if not holds:
        raise Refused(status, words)


def content_of(pairs, said):
    listed = [{"token": token, "logprob": x, "bytes": list(token.encode())} for token, x in pairs]
    return [{"token": said, "logprob": pairs[0][1] if pairs else 0, "top_logprobs": listed}]


def usage(text):
    n = len(tokens_of(text))
    return {"prompt_tokens": n, "completion_tokens": 1, "total_tokens": n + 1}


class Home(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kind, fault=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.fault, self.lock = kind, fault, threading.Lock()
        self.asked, self.bodies, self.generated = Counter(), [], 0
        #: GETs that a model is still loading for.
        self.loading = 0
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def root(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_):
        pass

    def url(self, chat):
        plain = "/api/generate" if self.kind == "ollama" else "/v1/completions"
        return self.root + ("/v1/chat/completions" if chat else plain)

    # What is shown, and what goes wrong with it.

    def shown(self, text, n):
        """The n likeliest tokens, as this server shows them under its fault."""
        with self.lock:
            self.generated += 1
            number = self.generated
        pairs = likeliest(text, n)
        # A real vocabulary is never exhausted.
        pairs += [(f" rare{i}", -60.0 - i) for i in range(n - len(pairs))]
        return self.spoilt(pairs, number), pairs[0][0]

    def spoilt(self, pairs, number):
        fault = self.fault
        if fault == "unsorted":
            return pairs[::-1]
        if fault == "positive":
            return [(token, -x) for token, x in pairs]
        if fault == "probabilities":
            return [(token, math.exp(x)) for token, x in pairs]
        if fault == "numbers":
            return [(str(1000 + i), x) for i, (_, x) in enumerate(pairs)]
        if fault == "sentencepiece":
            return [(token.replace(" ", "▁"), x) for token, x in pairs]
        if fault == "bytes":
            return [(f"<0x{40 + i}>" if "word" in t else t, x) for i, (t, x) in enumerate(pairs)]
        if fault == "unrepeatable":  # every other answer is flatter
            flat = 0.5 if number % 2 else 1.0
            total = math.fsum(math.exp(x * flat) for _, x in pairs)
            return [(t, x * flat - math.log(total)) for t, x in pairs]
        if fault == "nan":
            return [(token, math.nan) for token, _ in pairs]
        if fault in AFTER_SAMPLING:
            left = sorted(pairs, key=lambda pair: -pair[1])[: AFTER_SAMPLING[fault]]
            total = math.log(math.fsum(math.exp(x) for _, x in left))
            others = [(t, -9999.0) for t, x in pairs if (t, x) not in left and fault == "greedy"]
            return [(token, x - total) for token, x in left] + others
        return pairs


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

    @property
    def server_version(self):
        return "BaseHTTP/0.6" if self.server.kind == "mlx" else "uvicorn"

    def log_message(self, *_):
        pass

    def reply(self, status, answer):
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)
        self.wfile.flush()

    def do_GET(self):
        if self.server.loading > 0 and self.path != "/v1/models":
            self.server.loading -= 1
            error = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
            return self.reply(503, {"error": error})
        answer = TELLS[self.server.kind].get(self.path)
        self.reply(200 if answer else 404, answer or {"error": "not found"})

    def do_POST(self):
        server, fault = self.server, self.server.fault
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = POSTS[server.kind].get(self.path)
        if answers is None:
            return self.reply(404, {"error": "not found"})
        if self.path != "/tokenize":
            server.bodies.append((self.path, body))
            if fault in ("400", "404", "500"):
                return self.reply(int(fault), {"error": {"message": "something is wrong"}})
            if fault == "html":
                return self.reply(200, b"<html>Welcome</html>")
            if fault == "model":
                return self.reply(404, {"error": "model 'any' not found"})
        try:
            self.reply(200, answers(server, body))
        except Refused as error:
            status, words = error.args
            if not status:
                self.close_connection = True
                return None
            self.reply(status, {"error": {"message": words}})


# The forms.


def choices(server, prompt, told, **more):
    chosen = [] if server.fault == "empty" else [{"index": 0, "logprobs": told, **more}]
    return {"choices": chosen, "usage": usage(prompt)}


def chat(most, check=lambda body: None):
    def answers(server, body):
        check(body)
        text = templated(body["messages"])
        if server.fault == "never":
            text = body["messages"][-1]["content"]
        n = body.get("top_logprobs", 0)
        must(0 < n <= most, f"top_logprobs must be at most {most}")
        must(body["logprobs"] is True)
        pairs, said = server.shown(text, n)
        told = None if server.fault == "dropped" else {"content": content_of(pairs, said)}
        told = {"content": []} if server.fault == "short" else told
        found = choices(server, text, told, message={"role": "assistant", "content": said})
        if server.fault == "cut":
            found["usage"]["prompt_tokens"] = 4096
        return found

    return answers


def plain(most):
    def answers(server, body):
        text = body["prompt"]
        if server.fault == "twice":
            text = templated([{"role": "user", "content": text}])
        n = body.get("logprobs")
        must(type(n) is int and n <= most, f"logprobs: at most {most}")
        pairs, said = server.shown(text, n)
        told = {"tokens": [said], "top_logprobs": [dict(pairs)]}
        told = None if server.fault == "dropped" else told
        told = {"tokens": [said], "top_logprobs": []} if server.fault == "short" else told
        return choices(server, text, told, text=said)

    return answers


def ollama_generate(server, body):
    must(not (body.get("raw") and (body.get("template") or body.get("system"))), "raw mode")
    text = body["prompt"]
    if not body.get("raw") or server.fault == "twice":
        text = templated([{"role": "user", "content": text}])
    return ollama(server, body, text)


def ollama_chat(server, body):
    never = server.fault == "never"
    text = body["messages"][-1]["content"] if never else templated(body["messages"])
    return ollama(server, body, text)


def ollama(server, body, text):
    """Fields that it does not know are passed over."""
    must(body.get("top_logprobs", 0) <= 20, "top_logprobs must be between 0 and 20")
    must(body.get("stream") is False)
    pairs, said = server.shown(text, body["top_logprobs"])
    n, most = len(tokens_of(text)), body["options"].get("num_ctx", 4096)
    n = most if server.fault == "cut" else min(n, most)
    found = {"response": said, "done": True, "prompt_eval_count": n, "eval_count": 1}
    if server.fault not in ("dropped", "empty"):
        told = [] if server.fault == "short" else content_of(pairs, said)
        found["logprobs"] = told
    return found


def llama_completion(server, body):
    """Fields that it does not know are passed over, the model's name among them."""
    text = body["prompt"]
    if server.fault == "twice":
        text = templated([{"role": "user", "content": text}])
    pairs, said = server.shown(text, body.get("n_probs", 0))
    found = {"content": said, "tokens_predicted": 1, "tokens_evaluated": len(tokens_of(text))}
    found["truncated"] = server.fault == "cut"
    if body.get("post_sampling_probs") or server.fault == "sampled":
        probs = [{"token": said, "prob": 1.0, "top_probs": [{"token": said, "prob": 1.0}]}]
        return found | {"completion_probabilities": probs}
    if server.fault not in ("dropped", "empty"):
        told = [] if server.fault == "short" else content_of(pairs, said)
        found["completion_probabilities"] = told
    return found


def mlx(is_chat):
    """What it does not take it answers by dropping the connection; its lists are in no order."""

    def answers(server, body):
        must(isinstance(body.get("logprobs", False), bool), status=0)
        must(0 < body.get("top_logprobs", 1) <= 10, status=0)
        text = templated(body["messages"]) if is_chat else body["prompt"]
        if server.fault == "twice" and not is_chat:
            text = templated([{"role": "user", "content": text}])
        if server.fault == "never" and is_chat:
            text = body["messages"][-1]["content"]
        pairs, _ = server.shown(text, body["top_logprobs"])
        pairs = [(token.replace(" ", "Ġ"), x) for token, x in pairs[3:] + pairs[:3]]
        listed = [{"id": 7, "token": token, "logprob": x} for token, x in pairs]
        told = {"content": [dict(listed[0], top_logprobs=listed)]}
        told = {"content": [{}]} if server.fault == "short" else told
        if server.fault == "old":
            numbers = {str(100 + i): x for i, (_, x) in enumerate(pairs)}
            told = {"tokens": [100], "token_logprobs": [-1.0], "top_logprobs": [numbers]}
        return choices(server, text, None if server.fault == "dropped" else told, text="?")

    return answers


def sglang_generate(server, body):
    """Fields beside `sampling_params` are passed over, those in it are not."""
    known = {"max_new_tokens", "temperature", "top_p", "top_k"}
    must(set(body["sampling_params"]) <= known, "unexpected keyword argument")
    text, ids = body["text"], body.get("token_ids_logprob")
    said = likeliest(text, 1)[0]
    named = [(VOCABULARY[one], float(logprobs(text)[one])) for one in ids]
    with server.lock:
        server.generated += 1
    pairs = dict(zip(ids, (x for _, x in server.spoilt(named, server.generated)), strict=True))
    if server.fault == "unsorted":
        pairs = {one: float(logprobs(text)[one]) for one in reversed(ids)}
    told = {"prompt_tokens": len(tokens_of(text)), "completion_tokens": 1}
    if body.get("return_logprob") and server.fault not in ("dropped", "empty"):
        told["output_token_logprobs"] = [[said[1], ID[said[0]], None]]
        told["output_token_ids_logprobs"] = [[[x, one, None] for one, x in pairs.items()]]
        if server.fault == "short":
            told["output_token_ids_logprobs"] = [[]]
    return {"text": said[0], "meta_info": told}


def tokenize(server, body):
    return {"tokens": tokens_of(body["prompt"])}


CHAT, PLAIN = "/v1/chat/completions", "/v1/completions"
POSTS = {
    "ollama": {"/api/generate": ollama_generate, "/api/chat": ollama_chat, CHAT: chat(20)},
    "llama.cpp": {"/completion": llama_completion, PLAIN: plain(1000), CHAT: chat(1000)},
    "mlx": {PLAIN: mlx(False), CHAT: mlx(True)},
    "sglang": {
        "/generate": sglang_generate,
        "/tokenize": tokenize,
        PLAIN: plain(20),
        CHAT: chat(20),
    },
    "lmstudio": {PLAIN: plain(20), CHAT: chat(20)},
}


@contextmanager
def home(kind, fault=None):
    """Serve until the block ends."""
    server = Home(kind, fault)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
