"""`choice-vllm` against lm-eval's own `vllm`, in the environment that has vLLM on CPU.

EPIDEMIA_TEST_VLLM names it; `.ci/run` makes it, and CONTRIBUTING.md says how.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rounding
from conftest import evaluate, in_a_process
from vllm_server import serving

from lm_eval_epidemia.ask.responses import softmax
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.models.choices import Question

pytest.importorskip("torch")

TASKS = ["epidemia_low_nsduh_cocaine_ever_by_age", "epidemia_low_acs_employer_by_race"]
OTHERS = ["lettered", "continued"]


@pytest.fixture(scope="module")
def start(tiny_llama, vllm_venv, tmp_path_factory):
    """Ask one engine through lm-eval, in a process of its own; it takes half a minute to start."""
    out = tmp_path_factory.mktemp("engine") / "out.json"

    def run(model, tasks, *more):
        script = Path(__file__).with_name("vllm_engine.py")
        words = [script, tiny_llama, out, model, ",".join(tasks), *more]
        path = {"PATH": f"{vllm_venv}/bin:{os.environ['PATH']}"}
        start = [f"{vllm_venv}/bin/python"]
        return in_a_process(*words, start=start, env={**os.environ, **path}), out

    return run


@pytest.fixture(scope="module")
def engine(start):
    """The same, when nothing fails: its answers, its counters and what it said."""

    def ask(*arguments):
        done, out = start(*arguments)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(out.read_text())
        return found["answers"], found["counters"], done.stderr + done.stdout

    return ask


@pytest.fixture(scope="module")
def usual(engine, mmlu_style):
    """What choice-vllm answers when nothing is special."""
    return engine("choice-vllm", [*TASKS, *OTHERS], f"include={mmlu_style}")


@pytest.fixture
def without_vllm(monkeypatch):
    """choice-vllm over lm-eval's class in name only, so that no vLLM is needed."""

    class Engine:
        def __init__(self, pretrained, batch_size=1, data_parallel_size=1, **more):
            self.batch_size, self.data_parallel_size = batch_size, data_parallel_size
            self.cache_hook = SimpleNamespace(dbdict=None)

    ours, stock = "lm_eval_epidemia.models.choice_vllm", "lm_eval.models.vllm_causallms"
    monkeypatch.setitem(sys.modules, stock, SimpleNamespace(VLLM=Engine))
    monkeypatch.delitem(sys.modules, ours, raising=False)
    yield importlib.import_module(ours)
    del sys.modules[ours]


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, "auto"),
        ({"batch_size": None}, "auto"),
        ({"batch_size": 1}, "auto"),  # lm-eval's command line, where none was given
        ({"batch_size": "1"}, "1"),
        ({"batch_size": 8}, 8),
    ],
)
def test_the_engine_batches_where_no_batch_size_is_given(without_vllm, given, size):
    assert without_vllm.ChoiceVLLM(pretrained="m", **given).batch_size == size


@pytest.mark.parametrize(("engines", "submissions"), [(1, [8192, 8192, 1]), (2, [16385])])
def test_engines_that_are_built_for_each_submission_get_one(without_vllm, engines, submissions):
    lm, sizes = without_vllm.ChoiceVLLM(pretrained="m", data_parallel_size=engines), []
    lm._asked = lambda batch: sizes.append(len(batch)) or [[(-1.0, False)]] * len(batch)
    questions = [Question([number], 0, [number], [0]) for number in range(16385)]
    answers = [None] * len(questions)
    assert lm._answer(questions, [(("", ""), [], [])] * len(questions), answers, True) == []
    assert sizes == submissions and answers == [(-1.0, False)] * len(questions)


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for task, rows in ours.items():
        rounding.assert_same(rows, theirs[task])


def test_the_stock_backend_and_transformers_give_the_same(engine, usual, tiny_llama, mmlu_style):
    """One letter after plain text: one read per prompt, partly from the prefix cache."""
    stock, before, _ = engine("vllm", [*TASKS, *OTHERS], f"include={mmlu_style}")
    ours, counters, _ = usual
    assert_same(ours, stock)
    # The stock backend asks for log-probabilities of the prompt, which no cache can give.
    assert before["vllm:prefix_cache_queries"] == 0
    assert counters["vllm:prefix_cache_hits"] > 0.2 * counters["vllm:prefix_cache_queries"] > 0
    found = evaluate(
        TASKS,
        model="hf",
        model_args=f"pretrained={tiny_llama},dtype=float32",
        device="cpu",
        batch_size=16,
        log_samples=True,
    )["samples"]
    here = {
        task: [
            [(float(x), str(greedy) == "True") for x, greedy in sample["filtered_resps"]]
            for sample in sorted(found[task], key=lambda sample: sample["doc_id"])
        ]
        for task in TASKS
    }
    assert_same({task: ours[task] for task in TASKS}, here)


def test_a_chat_template_whose_line_break_goes_to_the_answer(engine):
    """Two tokens, the first shared by all choices: two reads per prompt."""
    stock, _, _ = engine("vllm", TASKS[:1], "chat")
    ours, counters, _ = engine("choice-vllm", TASKS[:1], "chat")
    assert_same(ours, stock)
    assert counters["vllm:prefix_cache_hits"] > 0.4 * counters["vllm:prefix_cache_queries"]


def test_an_older_vllm_says_so_and_gives_the_same(engine, usual):
    """Its most probable tokens do not hold all letters of a random model: the stock path."""
    ours, _, said = engine("choice-vllm", TASKS[:1], "old")
    assert_same(ours, {TASKS[0]: usual[0][TASKS[0]]})
    assert "cannot return the log-probabilities of given tokens (0.32 can)" in said


def test_a_run_that_is_killed_goes_on_where_it_stopped(start, engine, usual, tmp_path):
    """Killed before its fourth submission of 50 prompts: the first 150 are not asked again."""
    whole = {task: usual[0][task] for task in TASKS}
    prompts = sum(map(len, whole.values()))
    small = (f"cache={tmp_path / 'responses'}", "submission=50", f"log={tmp_path / 'read.txt'}")
    killed, _ = start("choice-vllm", TASKS, *small, "kill=3")
    assert killed.returncode == -signal.SIGKILL
    before = (tmp_path / "read.txt").read_text().splitlines()
    again, _, _ = engine("choice-vllm", TASKS, *small)
    asked = (tmp_path / "read.txt").read_text().splitlines()
    assert len(before) == 150 < prompts
    assert len(asked) == len(set(asked)) == prompts
    assert_same(again, whole)


# A decision endpoint: its prompts are known, so both must read the same probabilities.

DECIDED = {
    "": "epidemia_low_acs_employer_by_race",
    "yes-no": "epidemia_low_nsduh_cocaine_ever_by_age",
    "score": "epidemia_low_gss_party_by_race",
}
RENDERED = """task: rendered
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/rows.json}}}}
test_split: test
output_type: multiple_choice
doc_to_text: text
doc_to_choice: choices
doc_to_target: 0
metric_list: [{{metric: acc}}]
"""


@pytest.fixture(scope="module")
def tiny_qwen(tiny_llama, tmp_path_factory):
    """A random model of a kind that vLLM 0.32 takes decisions of; a label is one token."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    from lm_eval_epidemia.models.tiny import make_tiny_llama

    texts = [each["prompt"] for each in split(DECIDED["yes-no"])]
    folder = make_tiny_llama(tmp_path_factory.mktemp("qwen"), [*texts, *["yes", "no"] * 500])
    sizes = {"hidden_size": 64, "head_dim": 32, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 1024}
    sizes["vocab_size"] = len(AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(1)
    model = Qwen3ForCausalLM(Qwen3Config(**sizes, **heads, initializer_range=0.25, eos_token_id=1))
    model.save_pretrained(folder)
    return folder


def as_vllm_asks(prompt, typed, order):
    """The text that vLLM 0.32 makes of a question, and its labels by displayed position."""
    asked, *options, _ = prompt.split("\n")
    state, instructions = asked.split(". ", 1)
    options = [option.partition(". ")[2] for option in options]
    if typed == "yes-no":
        labels, lines, kind = [option.lower() for option in options], ["yes", "no"], "yes or no"
    elif typed == "score":
        labels, kind = [str(level) for level in order], "the number of one level"
        lines = [f"{level}: {options[order.index(level)]}" for level in range(len(options))]
    else:
        labels, kind = list("ABCDEFGH"[: len(options)]), "the letter of one option"
        lines = [f"{label}: {option}" for label, option in zip(labels, options, strict=True)]
    text = "\n".join([f"{state}.\n\nQuestion: {instructions}", *lines, f"Answer with {kind} only."])
    return {"text": text, "choices": labels}


def test_a_decision_server_gives_what_choice_vllm_gives(tiny_qwen, vllm_venv, tmp_path):
    rows, decided = [], []
    with serving(tiny_qwen, vllm_venv, tmp_path / "log.txt", "tiny") as url:
        for typed, task in DECIDED.items():
            found = evaluate(
                [task],
                model="choice-decide",
                model_args=f"base_url={url}/systemone,model=tiny,num_concurrent=2",
                metadata={"orderings": "balanced", **({"typed": typed} if typed else {})},
                limit=2,
                log_samples=True,
            )
            told = found["config"]["choice_decide"]
            assert told["form"] == "systemone" and told["server"].startswith("vLLM 0.32")
            assert told["label_mass"] and told["digits"] is None and told["repeatable"]
            for sample in found["samples"][task]:
                doc = sample["doc"]
                rows.append(as_vllm_asks(doc["prompt"], typed, doc["order"]))
                decided.append([float(x) for x, _ in sample["filtered_resps"]])
    assert len({row["text"] for row in rows}) < len(rows) == 18  # one score for all orders
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "rendered.yaml").write_text(RENDERED.format(folder=tmp_path))
    script, out = Path(__file__).with_name("vllm_engine.py"), tmp_path / "out.json"
    words = [script, tiny_qwen, out, "choice-vllm", "rendered", "chat", f"include={tmp_path}"]
    env = {**os.environ, "PATH": f"{vllm_venv}/bin:{os.environ['PATH']}"}
    done = in_a_process(*words, start=[f"{vllm_venv}/bin/python"], env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    read = json.loads(out.read_text())["answers"]["rendered"]
    # lm-eval counts the line break that ends the template as part of every answer.
    shares = (softmax(np.array([x for x, _ in row])) for row in read)
    for found, expected in zip(shares, map(np.array, decided), strict=True):
        assert found == pytest.approx(softmax(expected), abs=1e-4)
