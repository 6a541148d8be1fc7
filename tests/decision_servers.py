"""Decision endpoints on 127.0.0.1, scripted: what each option gets is known, and they fail as told.

Requests and answers as in the sources of vllm 0.33.0 (`entrypoints/openai/decisions`,
`generate/structured_decisions`), sglang 0.5.23 (`systemone`, `openai/serving_decisions.py`), openai
3.57.0 (`types/decision*.py`) and litellm 1.110.2 (`types/decisions.py`: what Jev, llama.cpp and
Ollama have in common; the source of these three was not at hand).
"""

import json
import math
import sys
import threading
import time
import unicodedata
import zlib
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from home_servers import TELLS, Refused, must
from pydantic import BaseModel, Field, TypeAdapter, ValidationError


class Strict(BaseModel, extra="forbid", strict=True):
    pass


def blank(text):
    return not (text.strip() if isinstance(text, str) else text)


class Asked(NamedTuple):
    """A question, whatever the form: `type` is choice, yes-no or score."""

    type: str
    name: str
    state: Any
    instructions: Any
    options: tuple


# System One.

Text = str | dict[str, Any] | list[Any]


class Criteria(Strict):
    true: Text | None = None
    false: Text | None = None


class Noul(Strict):
    type: Literal["noul"]
    instructions: Text | None = None
    criteria: Criteria | None = None


class Choice(Strict):
    type: Literal["choice"]
    instructions: Text | None = None
    criteria: dict[str, Text | None] = Field(min_length=1)


class Score(Strict):
    type: Literal["score"]
    instructions: Text | None = None
    criteria: list[Text] = Field(min_length=1, max_length=10)


Question = Annotated[Noul | Choice | Score, Field(discriminator="type")]


class SystemOne(BaseModel, strict=True):
    model: str
    state: Text
    questions: dict[Annotated[str, Field(min_length=1)], Question] = Field(min_length=1)


class StrictSystemOne(SystemOne, extra="forbid"):  # vLLM
    instructions: str | None = None


#: What the forms call the types of questions.
TYPES = {**dict.fromkeys(("noul", "predicate", "yes_no"), "yes-no"), "choice": "choice"}
TYPES["score"] = "score"


def read_systemone(server, body):
    sent = server.check(StrictSystemOne if server.kind == "vllm" else SystemOne, body)
    for name, one in sent.questions.items():
        if one.type == "noul":
            options = ("Yes", "No")
            sides = (one.criteria or Criteria()).model_dump().values()
            must(not all(map(blank, (one.instructions, *sides))), f"{name}: nothing is asked")
        else:
            options = tuple(one.criteria)
        if server.kind == "sglang":
            distinct(options) if one.type == "choice" else must(not any(map(blank, options)))
        must(server.kind != "vllm" or one.type != "score" or len(options) > 1, "needs two levels")
        yield Asked(TYPES[one.type], name, sent.state, one.instructions, options)


def distinct(names):
    """As SGLang checks the names of options."""
    must(len({name.strip().casefold() for name in names}) == len(names), "repeats another option")
    must(not any(map(blank, names)), "option names must be nonempty")
    controls = any(unicodedata.category(one) in ("Cc", "Zl", "Zp") for one in "".join(names))
    must(not controls, "must not contain control or line break characters")


def write_systemone(server, asked, p):
    mass = {"x_label_mass": server.mass} if server.kind == "sglang" else {}
    confidence = {"confidence": server.confidence(p)}
    if asked.type == "yes-no":
        more = {"probabilities": {"yes": p[0], "no": p[1]}, **confidence}
        return {"type": "noul", "noul": p[0], **mass, **(more if server.kind == "vllm" else {})}
    if asked.type == "choice":
        chosen = {"type": "choice", "choice": asked.options[p.index(max(p))]}
        return chosen | confidence | {"probabilities": by_name(asked.options, p)} | mass
    levels = [str(level) for level in range(len(p))]
    found = {"type": "score", "score": expected(p), "legend": by_name(levels, asked.options)}
    return found | confidence | {"probabilities": by_name(levels, p)} | mass


def by_name(names, p):
    return dict(zip(names, p, strict=True))


def expected(p):
    return math.fsum(level * x for level, x in enumerate(p))


def reply_systemone(server, model, answers, told, tokens):
    found = {"model": model, "answers": by_name([one.name for one in told], answers)}
    if server.kind == "vllm":
        known = {"label_mass": server.mass, "argmax_is_label": True}
        found |= {"id": "decision-1", "object": "structured_decision", "created": 1}
        found |= {"diagnostics": {one.name: known for one in told}, "joint": None}
    return found | {"usage": {"input_tokens": tokens, "output_tokens": int(server.kind == "vllm")}}


# OpenAI's form.


class Value(Strict):
    value: str | bool
    description: str = ""


class Level(Strict):
    label: str
    description: str = ""


class OfOpenAI(Strict):
    instructions: str
    name: str = None


class Predicate(OfOpenAI):
    type: Literal["predicate"]


class Choices(OfOpenAI):
    type: Literal["choice"]
    choices: list[Value] = Field(min_length=2, max_length=255)


class Levels(OfOpenAI):
    type: Literal["score"]
    levels: list[Level] = Field(min_length=2, max_length=10)


class Decisions(Strict):
    model: str
    input: str
    questions: list[Annotated[Predicate | Choices | Levels, Field(discriminator="type")]] = Field(
        min_length=1, max_length=200
    )


def read_openai(server, body):
    sent = server.check(Decisions, body)
    for one in sent.questions:
        options = ("Yes", "No")
        if one.type == "choice":
            options = tuple(each.value for each in one.choices)
            typed = {(type(option), option) for option in options}
            must(len(typed) == len(options), "choice values must be distinct")
        if one.type == "score":
            options = tuple(each.label for each in one.levels)
        yield Asked(TYPES[one.type], one.name, sent.input, one.instructions, options)


def write_openai(server, asked, p):
    if server.refuses(asked):
        return {"type": "refusal", "name": asked.name}
    if asked.type == "yes-no":
        return {"type": "predicate", "name": asked.name, "probability": p[0]}
    key, listed = ("value", "label")[asked.type == "score"], []
    for level, (option, x) in enumerate(zip(asked.options, p, strict=True)):
        more = {"value": level} if asked.type == "score" else {}
        listed.append({**more, key: option, "probability": x})
    found = {"type": asked.type, "name": asked.name, "probabilities": listed}
    top = asked.options[p.index(max(p))]
    chosen = {"choice": top} if asked.type == "choice" else {"score": expected(p)}
    return found | chosen | {"confidence": server.confidence(p)}


def reply_openai(server, model, answers, told, tokens):
    usage = {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}
    usage["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0}
    usage["output_tokens_details"] = {"reasoning_tokens": 0}
    return {"model": model, "answers": answers, "usage": usage}


# SGLang's own form.


class Named(Strict):
    name: str
    description: Text | None = None


class OfSGLang(Strict):
    id: str
    question: Text


class YesNo(OfSGLang):
    type: Literal["yes_no"]
    yes: Text | None = None
    no: Text | None = None


class Options(OfSGLang):
    type: Literal["choice"]
    options: list[Named] = Field(min_length=2, max_length=26)


class Scale(OfSGLang):
    type: Literal["score"]
    levels: list[Text] = Field(min_length=2, max_length=10)


class SGLang(Strict):
    input: Text
    questions: list[Annotated[YesNo | Options | Scale, Field(discriminator="type")]] = Field(
        min_length=1
    )
    temperature: float = Field(1.0, gt=0)
    prompt_format_version: Literal[1] | None = None
    return_prompt_token_ids: bool = False
    model: str = "default"


def read_sglang(server, body):
    sent = server.check(SGLang, body)
    must(not blank(sent.input), "input must not be blank")
    must(len({one.id for one in sent.questions}) == len(sent.questions), "repeats another question")
    for one in sent.questions:
        must(not blank(one.id) and not blank(one.question), "must not be blank")
        options = ("Yes", "No")
        if one.type == "choice":
            distinct(options := tuple(each.name for each in one.options))
        if one.type == "score":
            must(not any(map(blank, one.levels)), "must not be blank")
            options = tuple(one.levels)
        yield Asked(TYPES[one.type], one.id, sent.input, one.question, options)


def write_sglang(server, asked, p):
    wire, names = asked.type.replace("-", "_"), asked.options
    if asked.type != "choice":
        names = ("yes", "no") if asked.type == "yes-no" else map(str, range(len(p)))
    found = {"type": wire, "probabilities": by_name(names, p), "label_mass": server.mass}
    if asked.type == "choice":
        found["choice"] = asked.options[p.index(max(p))]
    return found | ({"score": expected(p)} if asked.type == "score" else {})


def reply_sglang(server, model, answers, told, tokens):
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    found = {"object": "decisions", "model": model, "prompt_format_version": 1, "usage": usage}
    return found | {"answers": by_name([one.name for one in told], answers)}


# The kinds.

SYSTEM_ONE = (read_systemone, write_systemone, reply_systemone)
OPENAI = (read_openai, write_openai, reply_openai)
PATHS = {
    "vllm": {"/v1/systemone": SYSTEM_ONE, "/v1/decisions": OPENAI},
    "jev": {"/v1/systemone": SYSTEM_ONE},
    "llama.cpp": {"/v1/systemone": SYSTEM_ONE},
    "ollama": {"/v1/systemone": SYSTEM_ONE},
    "openai": {"/v1/decisions": OPENAI},
    "sglang": {
        "/v1/systemone": SYSTEM_ONE,
        "/v1/decisions": (read_sglang, write_sglang, reply_sglang),
    },
}
#: The most options of a choice (SGLang's own form has 26), and of bytes of a request.
MOST = {"vllm": 26}
MOST_BYTES = {"ollama": 65536}
#: What says that a request is not as it should be.
INVALID = {"sglang": 400, "vllm": 400, "openai": 400, "jev": 422}
#: After the name of an option that JSON is to have twice: taken away when it is written.
AGAIN = "\uffff"
SAYS = {**TELLS, "vllm": {"/version": {"version": "0.33.0"}}}
SAYS["vllm"]["/v1/models"] = {"object": "list", "data": [{"id": "any", "owned_by": "vllm"}]}


def hashed(state, instructions, options, kind):
    """A probability of each option: of its name and the question, not of its place."""
    seeds = [zlib.crc32(f"{state}|{instructions}|{option}".encode()) for option in options]
    weights = np.exp([np.random.default_rng(seed).normal(0, 1.5) for seed in seeds])
    return [float(x) for x in weights / weights.sum()]


class Decider(ThreadingHTTPServer):
    """Answers typed questions.

    Parameters
    ----------
    kind : str
        One of `PATHS`.
    p : callable
        From state, instructions, options and type to the probability of each option.
    digits : int, optional
        Decimals that probabilities are rounded to; Jev's are 2.
    mass : float
        Of all labels, where it is told.
    fault : callable
        From a question and the number of times it was asked to None or an entry of `data/
        decision_faults.yaml`.
    refuses : callable
        Whether a question is refused (OpenAI's form).
    key, models, usage, delay
        As of `scripted_server.Scripted`.
    serves : bool
        Whether the model it has can decide; else it answers 501.
    """

    daemon_threads, request_queue_size = True, 256

    def __init__(
        self,
        kind,
        p=hashed,
        digits=None,
        mass=0.9,
        fault=lambda asked, times: None,
        refuses=lambda asked: False,
        key="",
        models=("any",),
        usage=True,
        delay=0.0,
        serves=True,
    ):
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.p, self.mass, self.fault, self.refuses = kind, p, mass, fault, refuses
        self.digits = 2 if kind == "jev" and digits is None else digits
        self.key, self.models, self.usage, self.delay = key, models, usage, delay
        self.serves = serves
        self.asked, self.bodies, self.gets, self.lock = Counter(), [], [], threading.Lock()
        self.answered = Counter()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, path="systemone"):
        return f"http://127.0.0.1:{self.server_address[1]}/v1/{path}"

    def handle_error(self, *where):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that was killed
            super().handle_error(*where)

    def confidence(self, p):
        """At vLLM p(top) * label_mass; elsewhere how far the top stands above uniform."""
        if self.kind == "vllm":
            return max(p) * self.mass
        return (len(p) * max(p) - 1) / max(len(p) - 1, 1)

    def check(self, form, body):
        try:
            return TypeAdapter(form).validate_python(body)
        except ValidationError as error:
            raise Refused(INVALID.get(self.kind, 400), str(error).replace("\n", " ")) from None

    def answer(self, path, body):
        """Return what is sent: a status, a body, and headers."""
        read, write, put = PATHS[self.kind][path]
        must(self.serves, "The model does not support the Decisions API", 501)
        told = list(read(self, body))
        known = self.kind == "sglang" or body["model"] in self.models
        must(known, f"The model `{body['model']}` does not exist.", 404)
        answers, fault = [], None
        for asked in told:
            most = MOST.get(self.kind, 255)
            must(len(asked.options) <= most, f"at most {most} options for this model")
            p = list(self.p(asked.state, asked.instructions, asked.options, asked.type))
            p = p if self.digits is None else [round(x, self.digits) for x in p]
            with self.lock:
                self.asked[asked] += 1
                fault = fault or self.fault(asked, self.asked[asked])
            answers.append(write(self, asked, p))
        tokens = sum(len(str(one)) // 4 for one in told)
        reply = put(self, body["model"], answers, told, tokens)
        if not self.usage:
            del reply["usage"]
        if fault is None:
            self.answered.update(told)
        return reply, fault


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    server_version = "uvicorn"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.gets.append(dict(self.headers))
        found = SAYS.get(self.server.kind, {}).get(self.path)
        self.send(200 if found else 404, found or {"error": "not found"})

    def do_POST(self):
        server, sent = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        key, fault = self.headers.get("Authorization"), None
        try:
            must(self.path in PATHS[server.kind], "Not Found", 404)
            must(not server.key or key == f"Bearer {server.key}", f"Incorrect key: {key}", 401)
            most = MOST_BYTES.get(server.kind, math.inf)
            must(len(sent) <= most, "http: request body too large", 413)
            body = json.loads(sent)
            server.bodies.append((self.path, body))
            reply, fault = server.answer(self.path, body)
        except Refused as error:
            status, words = error.args
            return self.send(status, {"error": {"message": words, "code": status}})
        time.sleep(server.delay)
        self.fail(reply, fault) if fault else self.send(200, reply)

    def fail(self, reply, fault):
        """Send an answer with a fault: of the connection, of the status, or of what it says."""
        if fault.get("reset"):
            self.close_connection = True
        elif fault.get("half"):
            self.send(200, reply, cut=True)
        elif "status" in fault:
            self.send(fault["status"], fault.get("body", {}), fault.get("headers", {}))
        else:
            time.sleep(fault.get("delay", 0))
            self.send(200, spoil(reply, fault))

    def send(self, status, answer, headers=None, cut=False):
        sent = (answer if isinstance(answer, str) else write_json(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent[: len(sent) // 2] if cut else sent)
        self.wfile.flush()
        self.close_connection = self.close_connection or cut


def spoil(reply, fault):
    """Return an answer as a fault changes it: its entries are named after what they change."""
    reply = {**reply, **fault.get("reply", {})}
    answers = reply.get("answers")
    if answers and "reply" not in fault:
        listed = isinstance(answers, list)
        ((name, answer),) = enumerate(answers) if listed else answers.items()
        answer = spoil_answer(answer, fault)
        reply["answers"] = [answer] if listed else {fault.get("name", name): answer}
    if "mass" in fault and "diagnostics" in reply:
        reply["diagnostics"] = {key: {"label_mass": fault["mass"]} for key in answers}
    return {key: x for key, x in reply.items() if key not in fault.get("lacks", ())}


def spoil_answer(answer, fault):
    answer, told = dict(answer), answer.get("probabilities")
    if "name" in fault and "name" in answer:
        answer["name"] = fault["name"]
    for mass in {"label_mass", "x_label_mass"} & answer.keys():
        answer[mass] = fault.get("mass", answer[mass])
    single = "noul" if "noul" in answer else "probability"
    if single in answer and "p" in fault:
        answer[single] = fault["p"][0]
    elif told:
        key = next((k for k in ("label", "value") if isinstance(told, list) and k in told[0]), "")
        pairs = [(x[key], x["probability"]) for x in told] if key else [*told.items()]
        pairs = spoil_pairs(pairs, fault)
        as_list = [{key: name, "probability": x} for name, x in pairs]
        answer["probabilities"] = as_list if key else dict(pairs)
    answer |= fault.get("answer", {})
    return {key: x for key, x in answer.items() if key not in fault.get("without", ())}


def spoil_pairs(pairs, fault):
    """Change probabilities, in the order of the options, and names of options."""
    names, p = [name for name, _ in pairs], [x for _, x in pairs]
    p = [*fault.get("p", p)]
    if "rename" in fault:
        names[-1] = fault["rename"]
    pairs = list(zip(names + ["More"] * (len(p) - len(names)), p, strict=False))
    if fault.get("twice"):
        pairs.append((f"{names[0]}{AGAIN}", p[0]))
    return pairs[::-1] if fault.get("reverse") else pairs


def write_json(answer):
    return json.dumps(answer).replace(json.dumps(AGAIN)[1:-1], "")


@contextmanager
def deciding(kind, **arguments):
    """Serve until the block ends."""
    server = Decider(kind, **arguments)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
