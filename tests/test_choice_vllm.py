"""`choice-vllm` against lm-eval's own `vllm`, in the environment that has vLLM on CPU.

EPIDEMIA_TEST_VLLM names it; `.ci/run` makes it, and CONTRIBUTING.md says how.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import evaluate
from test_choice_hf import mmlu_style  # noqa: F401

pytest.importorskip("torch")

TASKS = ["epidemia_low_nsduh_cocaine_ever_by_age", "epidemia_low_acs_employer_by_race"]


@pytest.fixture(scope="module")
def engine(tiny_llama, tmp_path_factory):
    """Ask one engine through lm-eval: its answers and its counters."""
    venv = os.environ.get("EPIDEMIA_TEST_VLLM")
    if not venv or not Path(venv, "bin", "vllm").is_file():
        pytest.skip("needs vLLM in a virtual environment named by EPIDEMIA_TEST_VLLM")
    out = tmp_path_factory.mktemp("engine") / "out.json"

    def ask(model, tasks, *more):
        script = Path(__file__).with_name("vllm_engine.py")
        done = subprocess.run(
            [f"{venv}/bin/python", script, tiny_llama, out, model, ",".join(tasks), *more],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(out.read_text())
        return found["answers"], found["counters"], done.stderr + done.stdout

    return ask


def assert_same(ours, theirs, atol):
    assert ours.keys() == theirs.keys()
    for task, rows in ours.items():
        for one, other in zip(rows, theirs[task], strict=True):
            assert np.allclose([x for x, _ in one], [x for x, _ in other], atol=atol, rtol=0)
            if atol < 1e-5:
                assert [greedy for _, greedy in one] == [greedy for _, greedy in other]


def test_the_stock_backend_and_transformers_give_the_same(engine, tiny_llama, mmlu_style):  # noqa: F811
    """One letter after plain text: one read per prompt, partly from the prefix cache."""
    tasks = [*TASKS, "lettered", "continued"]
    include = f"include={mmlu_style}"
    stock, before, _ = engine("vllm", tasks, include)
    ours, counters, _ = engine("choice-vllm", tasks, include)
    assert_same(ours, stock, 1e-6)
    # The stock backend asks for log-probabilities of the prompt, which no cache can give.
    assert before["vllm:prefix_cache_queries"] == 0
    assert counters["vllm:prefix_cache_hits"] > 0.2 * counters["vllm:prefix_cache_queries"] > 0
    found = evaluate(
        TASKS, model="hf", model_args=f"pretrained={tiny_llama},dtype=float32", device="cpu",
        batch_size=16, log_samples=True,
    )["samples"]  # fmt: skip
    here = {
        task: [
            [(float(x), str(greedy) == "True") for x, greedy in sample["filtered_resps"]]
            for sample in sorted(found[task], key=lambda sample: sample["doc_id"])
        ]
        for task in TASKS
    }
    assert_same({task: ours[task] for task in TASKS}, here, 1e-4)


def test_a_chat_template_whose_line_break_goes_to_the_answer(engine):
    """Two tokens, the first shared by all choices: two reads per prompt."""
    stock, _, _ = engine("vllm", TASKS[:1], "chat")
    ours, counters, _ = engine("choice-vllm", TASKS[:1], "chat")
    assert_same(ours, stock, 1e-6)
    assert counters["vllm:prefix_cache_hits"] > 0.4 * counters["vllm:prefix_cache_queries"]


def test_an_older_vllm_says_so_and_gives_the_same(engine):
    """Its most probable tokens do not hold all letters of a random model: the stock path."""
    ours, _, said = engine("choice-vllm", TASKS[:1], "old")
    new, _, _ = engine("choice-vllm", TASKS[:1])
    assert_same(ours, new, 1e-6)
    assert "does not return the log-probabilities of given tokens (0.32 does)" in said
