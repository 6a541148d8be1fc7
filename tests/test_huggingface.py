"""A real Hugging Face model through lm-eval's own `hf` backend: tiny, random, made on the spot."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import evaluate
from rounding import log_probability, metric
from test_harness import recompute

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors

pytest.importorskip("torch")

TASKS = ["epidemia_low_nsduh", "epidemia_high_nsduh_cocaine_ever_by_age_sex"]


def lm_eval(*arguments, launcher=()):
    """Run lm-eval's command line; `epidemia run` spares the tests lm-eval's own index."""
    command = [*(launcher or [sys.executable, "-m"]), "lm_eval_epidemia.cli", "run"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def results_in(folder):
    (path,) = folder.rglob("results_*.json")
    return json.loads(path.read_text())


def samples_in(folder, task):
    (path,) = folder.rglob(f"samples_{task}_[0-9]*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def hf(model, out, *more, launcher=()):
    lm_eval(
        "--model",
        "hf",
        "--model_args",
        f"pretrained={model},dtype=float32",
        "--tasks",
        ",".join(TASKS),
        "--device",
        "cpu",
        "--batch_size",
        16,
        "--output_path",
        out,
        "--log_samples",
        *more,
        launcher=launcher,
    )
    return results_in(out)


@pytest.mark.parametrize("more", [(), ("--apply_chat_template",)])
def test_a_transformer_is_scored_and_its_scores_can_be_recomputed(tiny_llama, tmp_path, more):
    results = hf(tiny_llama, tmp_path, *more)
    tasks = [name for name in results["results"] if "_by_" in name]
    assert len(tasks) == 6 + 1
    for name in tasks:
        row, samples = results["results"][name], samples_in(tmp_path, name)
        assert 0 <= row["score,none"] <= 100
        assert 0 < row["choice_mass,none"] <= 1
        assert row["seen,none"] == 1
        expected = recompute(samples, store.load(name))
        assert row["score,none"] == pytest.approx(expected, abs=1e-6)
        context = samples[0]["arguments"]["gen_args_0"]
        if more:
            assert context["arg_0"].startswith("<|user|>")
            assert context["arg_0"].endswith("<|assistant|>\n")
            assert context["arg_1"] == "A"
        else:
            assert context["arg_0"] == samples[0]["doc"]["prompt"]
            assert context["arg_1"] == " A"


def test_two_processes_give_the_scores_of_one(tiny_llama, tmp_path):
    one = hf(tiny_llama, tmp_path / "one")
    two = hf(
        tiny_llama,
        tmp_path / "two",
        launcher=[
            sys.executable,
            "-m",
            "accelerate.commands.launch",
            "--cpu",
            "--num_processes",
            "2",
            "--num_machines",
            "1",
            "--mixed_precision",
            "no",
            "--dynamo_backend",
            "no",
            "-m",
        ],
    )
    for name, row in one["results"].items():
        if "_by_" in name:
            found = [
                [(float(x), greedy) for x, greedy in sample["filtered_resps"]]
                for sample in samples_in(tmp_path / "one", name)
            ]
            anchors = Anchors.of(store.load(name))
            apart = log_probability(x for answer in found for x, _ in answer)
            for metric_name, value in row.items():
                if isinstance(value, float):
                    may = metric(metric_name, apart, anchors.zero - anchors.perfect)
                    assert two["results"][name][metric_name] == pytest.approx(value, abs=may)
    assert two["n-samples"] == one["n-samples"]


def test_log_probabilities_are_the_models_own(tiny_llama):
    """The elicited distribution against transformers called by hand."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    name = "epidemia_low_nsduh_heroin_ever_by_race"
    results = evaluate(
        [name],
        model="hf",
        model_args=f"pretrained={tiny_llama},dtype=float32",
        device="cpu",
        log_samples=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    rows = list(split(name))
    for row, sample in zip(rows, results["samples"][name], strict=True):
        whole = [tokenizer(row["prompt"] + f" {letter}").input_ids for letter in "AB"]
        shared = tokenizer(row["prompt"]).input_ids
        assert all(ids[: len(shared)] == shared and len(ids) == len(shared) + 1 for ids in whole)
        with torch.no_grad():
            logits = model(torch.tensor([shared])).logits[0, -1]
        logprobs = torch.log_softmax(logits.double(), -1)
        expected = [float(logprobs[ids[-1]]) for ids in whole]
        found = [response[0] for response in sample["filtered_resps"]]
        assert np.allclose(found, expected, atol=log_probability(expected), rtol=0)
