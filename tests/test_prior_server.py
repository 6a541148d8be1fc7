"""A chat server on 127.0.0.1 that sends every kind of reply: each is read as specified, or counted.

Through lm-eval's own client, ``local-chat-completions``.
"""

import json
import math

import numpy as np
import pytest
from conftest import evaluate
from test_endpoint import endpoint  # noqa: F401 (a fixture)

from lm_eval_epidemia.benchmarks.prior.metrics import said
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.splits import split

TASK = "epidemia_prior_nhanes"

#: Five replies to each of the first three cells, which are normal; the unit of the first is cm.
REPLIES = [
    ("Adults vary.\n<prior>100, 2</prior>", (100, 2)),
    ("<prior>1.2 million cm, 1,200</prior>", (1.2e6, 1200)),
    ("<prior>55%, 3%</prior>", None),
    ("<think><prior>1, 2</prior></think>It is <prior>mean=100, std=3</prior>", (100, 3)),
    ("<prior>1, 2</prior> No, <prior>100, 4</prior>", (100, 4)),
    ("So <prior>100, 5</pri", (100, 5)),
    ("<prior>１００, ６</prior>", (100, 6)),  # noqa: RUF001
    ("<prior>100, -2</prior>", None),
    ("<prior>100, 0</prior>", None),
    ("<prior>nan, 2</prior>", None),
    ("<prior>100</prior>", None),
    ("<think>perhaps <prior>100, 2</prior>", None),
    ("I'm sorry, but I cannot know that.", None),
    ("", None),
    ("100, 2", None),
]


def test_every_reply_is_read_or_counted(endpoint):  # noqa: F811
    number = len(REPLIES)
    replies = dict(zip(split(TASK, "direct")["prompt"][:number], REPLIES, strict=True))
    server = endpoint(lambda text, _times: (200, replies[text][0]))
    results = evaluate(
        [TASK],
        model="local-chat-completions",
        apply_chat_template=True,
        limit=number,
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
        limit=5,
        model_args=f"base_url={server.url},model=tiny",
        metadata={"system_prompt": "conservative"},
    )
    assert [one["role"] for one in heard[0]["messages"]] == ["system", "user"]
    assert heard[0]["messages"][0]["content"].startswith("You are a careful statistician")
    assert heard[0]["temperature"] == 0.5
    assert "seed" in json.dumps(heard[0])
