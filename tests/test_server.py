"""A real OpenAI-compatible server on 127.0.0.1: vLLM on CPU, serving a tiny model.

It lives in a virtual environment of its own, which EPIDEMIA_TEST_VLLM names; `.ci/run` makes it,
and CONTRIBUTING.md says how.
"""

import numpy as np
import pytest
from conftest import evaluate
from rounding import log_probability, metric
from vllm_server import serving

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors

pytest.importorskip("torch")

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"
GROUP = "epidemia_low_nsduh"
SAMPLES = 40


@pytest.fixture(scope="module")
def served(lettered_llama, vllm_venv, tmp_path_factory):
    """The base URL of a server that is up."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(lettered_llama, vllm_venv, log, "tiny") as url:
        yield url


def logprobs(results, task):
    """By cell and ordering: the log-probabilities of the letters."""
    return {
        (sample["doc"]["cell"], tuple(sample["doc"]["order"])): [
            float(response[0]) for response in sample["filtered_resps"]
        ]
        for sample in results["samples"][task]
    }


def chat(served, tasks, concurrent=16, **arguments):
    return evaluate(
        tasks,
        model="local-chat-completions",
        apply_chat_template=True,
        model_args=f"base_url={served}/chat/completions,model=tiny,num_concurrent={concurrent}",
        **arguments,
    )


def test_log_probabilities_of_a_server_are_those_of_the_weights(served, lettered_llama):
    there = evaluate(
        [GROUP],
        model="local-completions",
        log_samples=True,
        model_args=f"base_url={served}/completions,model=tiny,tokenizer={lettered_llama},"
        "tokenized_requests=True,num_concurrent=4",
    )
    here = evaluate(
        [GROUP],
        model="hf",
        log_samples=True,
        device="cpu",
        batch_size=16,
        model_args=f"pretrained={lettered_llama},dtype=float32",
    )
    tasks = [name for name in here["results"] if "_by_" in name]
    assert len(tasks) == 6
    for task in tasks:
        ours, theirs = logprobs(here, task), logprobs(there, task)
        assert ours.keys() == theirs.keys()
        apart = log_probability(x for answer in ours.values() for x in answer)
        assert np.allclose([ours[k] for k in ours], [theirs[k] for k in ours], atol=apart, rtol=0)
        anchors = Anchors.of(store.load(task))
        for name in ("score", "l1", "choice_mass", "order_bias"):
            expected = here["results"][task][f"{name},none"]
            may = metric(name, apart, anchors.zero - anchors.perfect)
            assert there["results"][task][f"{name},none"] == pytest.approx(expected, abs=may)


def letter_probabilities(model, prompts):
    """P(A) of the next token after each prompt in the chat template, by transformers alone."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "AB"]
    found = []
    for prompt in prompts:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        with torch.no_grad():
            ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
            probabilities = torch.softmax(network(ids).logits[0, -1].double(), -1)
        found.append([float(probabilities[letter]) for letter in letters])
    return np.array(found)


def test_sampled_answers_of_a_chat_endpoint_are_draws_from_its_log_probabilities(
    served, lettered_llama
):
    """Every request with the same seed would answer a cell nearly always alike."""
    name = f"{TASK}_sampled"
    results = chat(
        served,
        [name],
        log_samples=True,
        metadata={"n_samples": SAMPLES},
        gen_kwargs={"max_gen_toks": 1},
    )
    row, samples = results["results"][name], results["samples"][name]
    p = letter_probabilities(lettered_llama, [sample["doc"]["prompt"] for sample in samples])
    mass, truth = p.sum(axis=1), store.load(TASK)
    assert mass.min() > 0.5 and row["answered,none"] > 0.9
    expected = p[:, 0] / mass
    read = np.array([sample["filtered_resps"][0].strip() in {"A", "B"} for sample in samples])
    said_a = np.array([sample["filtered_resps"][0].strip() == "A" for sample in samples])
    # Draws, cell by cell and in all: the count of A within four standard deviations.
    cells = np.array([sample["doc"]["cell"] for sample in samples])
    for chosen in (read, *(read & (cells == cell) for cell in range(len(truth.weights)))):
        sd = np.sqrt((expected * (1 - expected))[chosen].sum())
        assert abs(said_a[chosen].sum() - expected[chosen].sum()) < 4 * sd
    # And as spread as independent draws: 11 cells' deviations, chi-squared over its degrees.
    z = [
        (said_a[m].sum() - expected[m].sum()) / np.sqrt((expected * (1 - expected))[m].sum())
        for m in (read & (cells == cell) for cell in range(len(truth.weights)))
    ]
    assert 0.2 < np.mean(np.square(z)) < 2.5
    # The score by log-probabilities, of the same model under the same template.
    exact = evaluate(
        [TASK],
        model="hf",
        device="cpu",
        batch_size=16,
        apply_chat_template=True,
        model_args=f"pretrained={lettered_llama},dtype=float32",
    )["results"][TASK]
    assert abs(row["score,none"] - exact["score,none"]) <= 3 * np.hypot(
        row["score_stderr,none"], exact["score_stderr,none"]
    )


def test_a_probability_written_by_a_chat_endpoint(served):
    results = chat(
        served,
        ["epidemia_high_nsduh_rag"],
        limit=4,
        log_samples=True,
        gen_kwargs={"max_gen_toks": 1},
    )
    rows = {name: row for name, row in results["results"].items() if name.endswith("_rag")}
    assert len(rows) == 8 + 1
    for row in rows.values():
        assert 0 <= row["score,none"] <= 100 and 0 < row["answered,none"] <= 1


def test_a_chat_endpoint_asked_for_log_probabilities_names_the_group_to_use(served):
    with pytest.raises(
        EpidemiaError,
        match=r"LocalChatCompletion gives no log-probabilities.*"
        "epidemia_low_sampled",
    ):
        chat(served, [TASK])


def test_a_chat_endpoint_without_a_chat_template(served):
    with pytest.raises(
        EpidemiaError, match="accepts chat messages, not plain text: add --apply_chat_tem"
    ):
        evaluate(
            [f"{TASK}_sampled"],
            model="local-chat-completions",
            limit=2,
            model_args=f"base_url={served}/chat/completions,model=tiny",
        )


def test_priors_of_a_chat_endpoint(served):
    """The tiny model writes letters: nothing can be read, and the flat prior stands for it."""
    from lm_eval_epidemia.benchmarks.prior.judged import flat, judge
    from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities

    name = "epidemia_prior_nhanes_mean_variance"
    # One at a time: vLLM 0.32 on CPU stops where a prompt with a seed is computed in parts.
    results = chat(served, [name], concurrent=1, log_samples=True, gen_kwargs={"max_gen_toks": 1})
    row, samples = results["results"][name], results["samples"][name]
    assert len({sample["doc"]["prompt"] for sample in samples}) == len(samples) == 74 * 5
    assert row["answered,none"] == 0 and np.isnan(row["error_ratio_published,none"])
    truth = quantities.load("epidemia_prior_nhanes")
    expected = judge(truth, flat(truth)).ratio.mean()
    assert row["error_ratio,none"] == pytest.approx(expected, rel=1e-12)
    assert all(row[f"win_rate_{size},none"] == 0 for size in (5, 10, 20, 30))
