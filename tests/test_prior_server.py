"""A chat server on 127.0.0.1 that sends every kind of reply: each is read as specified, or counted.

Through lm-eval's own client, ``local-chat-completions``.
"""

import io
import json
import math
import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, evaluate
from test_endpoint import endpoint  # noqa: F401 (a fixture)

from lm_eval_epidemia.benchmarks.prior import ways as priors
from lm_eval_epidemia.benchmarks.prior.judged import baseline_errors
from lm_eval_epidemia.benchmarks.prior.metrics import said
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.harness import run as harness_run

TASK = "epidemia_prior_nhanes"

REPLIES = yaml.safe_load((REPOSITORY / "tests" / "data" / "prior_replies.yaml").read_text("utf-8"))


def test_every_reply_is_read_or_counted(endpoint):  # noqa: F811
    number = len(REPLIES)
    replies = dict(zip(split(TASK, "direct")["prompt"][:number], REPLIES, strict=True))
    server = endpoint(lambda text, _times: (200, replies[text][0]))
    results = evaluate(
        [TASK],
        model="local-chat-completions",
        apply_chat_template=True,
        limit=number // priors.REPEATS,
        model_args=f"base_url={server.url},model=tiny,num_concurrent=2,max_retries=1",
    )
    expected = [parameters for _, parameters in REPLIES]
    read = sum(parameters is not None for parameters in expected)
    assert results["results"][TASK]["answered,none"] == pytest.approx(read / number)
    stated = said(results["epidemia"]["said"][TASK], store.load(TASK))
    unread = (math.nan, math.nan)
    np.testing.assert_equal(
        np.stack([stated.a[:3].ravel(), stated.b[:3].ravel()], axis=1),
        np.array([parameters or unread for parameters in expected], dtype=float),
    )
    # Another seed for each, or all five estimates of a cell would be drawn alike.
    assert len(server.seeds) == number
    assert {one.family for one in store.load(TASK).quantities[:3]} == {"normal"}


def test_a_system_prompt_reaches_the_server(endpoint):  # noqa: F811
    heard = []
    server = endpoint(lambda text, _times: (200, "<prior>100, 2</prior>"))
    respond = server.respond
    server.respond = lambda body: (heard.append(body), respond(body))[1]
    evaluate(
        [TASK],
        model="local-chat-completions",
        apply_chat_template=True,
        limit=1,
        model_args=f"base_url={server.url},model=tiny",
        metadata={"system_prompt": "conservative"},
    )
    assert [one["role"] for one in heard[0]["messages"]] == ["system", "user"]
    assert heard[0]["messages"][0]["content"].startswith("You are a careful statistician")
    assert heard[0]["temperature"] == 0.5
    assert "seed" in json.dumps(heard[0])


def test_a_temperature_that_lm_eval_does_not_send_is_told(endpoint, monkeypatch, caplog):  # noqa: F811
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    heard = []
    server = endpoint(lambda text, _times: (200, "<prior>100, 2</prior>"))
    respond = server.respond
    server.respond = lambda body: (heard.append(body["temperature"]), respond(body))[1]
    evaluate(
        [TASK],
        model="openai-chat-completions",
        apply_chat_template=True,
        limit=1,
        model_args=f"base_url={server.url},model=o4-mini",
        gen_kwargs="temperature=0.2",
    )
    assert heard == [1] * priors.REPEATS
    assert "sends temperature 1 to o4-mini instead of 0.2" in caplog.text


#: How many times as far off as five answers this model is, by how it is asked; temperatures it
#: passes over.
OFF = {None: 1, "low": 2, "high": 0.5, "conservative": 1.5}


@pytest.fixture
def opinionated(endpoint):  # noqa: F811
    """A served model that is off by a known factor, which effort and system prompt decide."""
    truth, asked = store.load(TASK), split(TASK, "direct")["prompt"][:10]
    errors = baseline_errors(truth)[:, 0]
    of_prompt = {text: place // 5 for place, text in enumerate(asked)}
    server = endpoint(None)

    def respond(body):
        server.bodies.append(body)
        *system, user = (message["content"] for message in body["messages"])
        how = body.get("reasoning_effort") or ("conservative" if system else None)
        place = of_prompt[user["text"] if isinstance(user, dict) else user]
        mean = truth.quantities[place].mean + OFF[how] * errors[place]
        said = {"role": "assistant", "content": f"<prior>{mean:.12g}, {errors[place]:.6g}</prior>"}
        return 200, {"choices": [{"index": 0, "message": said}]}

    server.bodies, server.respond = [], respond
    return server


@pytest.mark.slow
def test_ablations_as_the_page_has_them(opinionated, epidemia, tmp_path, monkeypatch):
    """What docs/guides/priors.md tells to type changes what the server gets, and is told apart."""
    monkeypatch.setattr(harness_run, "only_ours", lambda tasks: True)
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
    from test_commands import commands_of  # which needs torch

    page = REPOSITORY / "docs" / "guides" / "priors.md"
    lines = [line for line in commands_of(page) if line.startswith("lm_eval --model local-chat")]
    sent = []
    again = lines[0].replace("max_gen", "temperature=0.50,max_gen")
    apart = lines[-1].replace("max_gen", "temperature=0.7,max_gen")
    apart = apart.replace("conservative", "superforecaster")
    for line in [*lines, again, apart]:
        line = line.replace("NAME", "tiny").replace("URL", opinionated.url)
        words = shlex.split(line.replace("epidemia_prior", TASK).replace("results/", str(tmp_path)))
        assert epidemia("run", *words[1:], "--limit", "2").returncode == 0
        body = opinionated.bodies[-1]
        sent.append((body["temperature"], body.get("reasoning_effort"), len(body["messages"])))
        assert body["max_tokens"] == 16384
    assert sent == [
        (0.5, None, 1),
        (0.2, None, 1),
        (1.0, None, 1),
        (0.5, "low", 1),
        (0.5, "high", 1),
        (0.5, None, 2),
        (0.5, None, 1),
        (0.7, None, 2),
    ]
    shown = epidemia("report", tmp_path, "--show", "ablations", "--format", "csv").stdout
    # 2 quantities, each off by a known factor: error ratios are these factors, without error.
    changes = {
        "temperature: 0.5 -> 0.2": ("1.000", "1.000", "+0.000"),
        "temperature: 0.5 -> 1": ("1.000", "1.000", "+0.000"),
        "reasoning effort: none -> low": ("1.000", "2.000", "+1.000"),
        "reasoning effort: none -> high": ("1.000", "0.500", "-0.500"),
        "system prompt: base -> conservative": ("1.000", "1.500", "+0.500"),
    }
    rows = pd.read_csv(io.StringIO(shown)).set_index("differs in")
    numbers = zip(rows["error_ratio"], rows["then"], rows["difference"], strict=True)
    told = [(f"{ratio:.3f}", f"{then:.3f}", f"{more:+.3f}") for ratio, then, more in numbers]
    assert dict(zip(rows.index, told, strict=True)) == changes
    told = epidemia("report", tmp_path, "--show", "ablations")
    unheeded = " ".join(told.stdout.split()).partition("probably ignored the setting: ")[2]
    assert "temperature: 0.5 -> 0.2" in unheeded and "effort" not in unheeded
    alone = told.stderr.partition("differs in exactly one setting: ")[2]
    assert alone.startswith("tiny (") and "superforecaster" in alone and "0.7" in alone
