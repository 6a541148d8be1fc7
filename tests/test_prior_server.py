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

#: Of the first cell, whose family is normal and whose unit is cm: five replies at a time.
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


@pytest.mark.parametrize("first", range(0, len(REPLIES), 5))
def test_every_reply_is_read_or_counted(endpoint, first):  # noqa: F811
    replies = dict(
        zip(split(TASK, "direct")["prompt"][:5], REPLIES[first : first + 5], strict=True)
    )
    server = endpoint(lambda text, _times: (200, replies[text][0]))
    found = evaluate(
        [TASK],
        model="local-chat-completions",
        apply_chat_template=True,
        limit=5,
        model_args=f"base_url={server.url},model=tiny,num_concurrent=2,max_retries=1",
    )
    row = found["results"][TASK]
    expected = [expected for _, expected in replies.values()]
    assert row["answered,none"] == sum(each is not None for each in expected) / 5
    stated = said(found["epidemia"]["said"][TASK], store.load(TASK))
    unread = (math.nan, math.nan)
    assert np.array_equal(
        np.column_stack([stated.a[0], stated.b[0]]),
        [unread if each is None else each for each in expected],
        equal_nan=True,
    )
    # Another seed for each, or all five estimates would be drawn alike.
    assert len(server.seeds) == 5
    assert store.load(TASK).quantities[0].family == "normal"


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
