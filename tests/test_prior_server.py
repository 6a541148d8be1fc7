"""A chat server on 127.0.0.1 that sends every kind of reply: each is read as specified, or counted.

Through lm-eval's own client, ``local-chat-completions``.
"""

import math
import shlex

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, evaluate
from scripted_server import scripted
from test_endpoint import seeds, sent

from lm_eval_epidemia.benchmarks.prior import ways as priors
from lm_eval_epidemia.benchmarks.prior.judged import baseline_errors
from lm_eval_epidemia.benchmarks.prior.metrics import read_answers
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.harness import run as harness_run

TASK = "epidemia_prior_nhanes"

REPLIES = yaml.safe_load((REPOSITORY / "tests" / "data" / "prior_replies.yaml").read_text("utf-8"))


def ask(reply, model="tiny", of="local-chat-completions", more="", **how):
    """Ask a server that replies so; return the results, and what it was sent."""
    with scripted(fault=lambda text, times: sent(reply(text)), models=(model,)) as server:
        given = f"base_url={server.url()},model={model}{more}"
        results = evaluate([TASK], model=of, apply_chat_template=True, model_args=given, **how)
    return results, server


def test_every_reply_is_read_or_counted():
    number = len(REPLIES)
    replies = dict(zip(split(TASK, "direct")["prompt"][:number], REPLIES, strict=True))
    results, server = ask(
        lambda text: replies[text][0],
        more=",num_concurrent=2,max_retries=1",
        limit=number // priors.REPEATS,
    )
    expected = [parameters for _, parameters in REPLIES]
    read = sum(parameters is not None for parameters in expected)
    assert results["results"][TASK]["answered,none"] == pytest.approx(read / number)
    stated = read_answers(results["epidemia"]["said"][TASK], store.load_quantities(TASK))
    unread = (math.nan, math.nan)
    np.testing.assert_equal(
        np.stack([stated.a[:3].ravel(), stated.b[:3].ravel()], axis=1),
        np.array([parameters or unread for parameters in expected], dtype=float),
    )
    # Another seed for each, or all five estimates of a cell would be drawn alike.
    assert len(seeds(server)) == number
    assert {one.family for one in store.load_quantities(TASK).quantities[:3]} == {"normal"}


def test_a_system_prompt_reaches_the_server():
    how = {"limit": 1, "metadata": {"system_prompt": "conservative"}}
    heard = ask(lambda text: "<prior>100, 2</prior>", **how)[1].payloads[0]
    assert [one["role"] for one in heard["messages"]] == ["system", "user"]
    assert heard["messages"][0]["content"].startswith("You are a careful statistician")
    assert heard["temperature"] == 0.5 and "seed" in heard


def test_a_temperature_that_lm_eval_does_not_send_is_told(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    how = {"of": "openai-chat-completions", "limit": 1, "gen_kwargs": "temperature=0.2"}
    _, server = ask(lambda text: "<prior>100, 2</prior>", model="o4-mini", **how)
    assert [body["temperature"] for body in server.payloads] == [1] * priors.REPEATS
    assert "sends temperature 1 to o4-mini instead of 0.2" in caplog.text


#: How many times as far off as five answers this model is, by how it is asked; temperatures it
#: passes over.
OFF = {None: 1, "low": 2, "high": 0.5, "conservative": 1.5}


@pytest.fixture
def opinionated():
    """A served model that is off by a known factor, which effort and system prompt decide."""
    truth, asked = store.load_quantities(TASK), split(TASK, "direct")["prompt"][:10]
    errors = baseline_errors(truth)[:, 0]
    of_prompt = {text: place // 5 for place, text in enumerate(asked)}

    def reply(_text, _times):
        body = server.payloads[-1]
        *system, user = (message["content"] for message in body["messages"])
        how = body.get("reasoning_effort") or ("conservative" if system else None)
        place = of_prompt[user["text"] if isinstance(user, dict) else user]
        mean = truth.quantities[place].mean + OFF[how] * errors[place]
        return sent(f"<prior>{mean:.12g}, {errors[place]:.6g}</prior>")

    with scripted(fault=reply, models=("tiny",)) as server:
        yield server


@pytest.mark.slow
def test_settings_as_the_page_has_them_reach_the_server(
    opinionated, epidemia, tmp_path, monkeypatch
):
    """What docs/guides/priors.md tells to type changes what the server gets."""
    monkeypatch.setattr(harness_run, "has_only_ours", lambda tasks: True)
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)
    from test_commands import commands_of  # which needs torch

    page = REPOSITORY / "docs" / "guides" / "priors.md"
    lines = [line for line in commands_of(page) if line.startswith("lm_eval --model local-chat")]
    bodies = []
    again = lines[0].replace("max_gen", "temperature=0.50,max_gen")
    apart = lines[-1].replace("max_gen", "temperature=0.7,max_gen")
    apart = apart.replace("conservative", "superforecaster")
    for line in [*lines, again, apart]:
        line = line.replace("NAME", "tiny").replace("URL", opinionated.url())
        words = shlex.split(line.replace("epidemia_prior", TASK).replace("results/", str(tmp_path)))
        assert epidemia("run", *words[1:], "--limit", "2").returncode == 0
        body = opinionated.payloads[-1]
        bodies.append((body["temperature"], body.get("reasoning_effort"), len(body["messages"])))
        assert body["max_tokens"] == 16384
    assert bodies == [
        (0.5, None, 1),
        (0.2, None, 1),
        (0.5, "high", 1),
        (0.5, None, 2),
        (0.5, None, 1),
        (0.7, None, 2),
    ]
