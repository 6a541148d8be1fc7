"""A real Hugging Face model through lm-eval's own `hf` backend: tiny, random, made on the spot."""

import json
import sys

import numpy as np
import pytest
from conftest import in_a_process, recorded
from rounding import log_probability
from test_harness import recompute

from lm_eval_epidemia.estimate import store

torch = pytest.importorskip("torch")

TASKS = ["epidemia_low_nsduh_heroin_ever_by_race", "epidemia_high_nsduh_cocaine_ever_by_age_sex"]

#: Starts a module of Python in two processes that share the work.
TWO_PROCESSES = [sys.executable, "-m", "accelerate.commands.launch", "--cpu"]
TWO_PROCESSES += ["--num_processes", "2", "--num_machines", "1"]
TWO_PROCESSES += ["--mixed_precision", "no", "--dynamo_backend", "no", "-m"]


def lm_eval(*arguments, launcher=()):
    """Run lm-eval's command line; `epidemia run` spares the tests lm-eval's own index."""
    start = launcher or [sys.executable, "-m"]
    done = in_a_process("lm_eval_epidemia", "run", *arguments, start=start)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def results_in(folder):
    (path,) = folder.rglob("results_*.json")
    return json.loads(path.read_text())


def samples_in(folder, task):
    (path,) = folder.rglob(f"samples_{task}_[0-9]*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.rounding
@pytest.mark.parametrize("chat", [False, True])
def test_a_transformer_is_scored_and_its_scores_can_be_recomputed(tiny_llama, tmp_path, chat):
    """The elicited distribution is also that of transformers, called by hand."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    how = {"model_args": f"pretrained={tiny_llama},dtype=float32", "device": "cpu"}
    recorded(tmp_path, TASKS, model="hf", batch_size=16, apply_chat_template=chat, **how)
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    network = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    for name in TASKS:
        row, samples = results_in(tmp_path)["results"][name], samples_in(tmp_path, name)
        assert 0 <= row["score,none"] <= 100
        assert 0 < row["choice_mass,none"] <= 1
        assert row["seen,none"] == 1
        expected = recompute(samples, store.load_truth(name))
        assert row["score,none"] == pytest.approx(expected, abs=1e-6)
        for sample in samples[:8]:
            prompt, arguments = sample["doc"]["prompt"], sample["arguments"]["gen_args_0"]
            context, choice = arguments["arg_0"], arguments["arg_1"]
            if chat:
                assert context.startswith("<|user|>") and context.endswith("<|assistant|>\n")
                assert prompt in context and choice == "A"
                continue
            assert context == prompt and choice == " A"
            shared = tokenizer(prompt).input_ids
            whole = [tokenizer(f"{prompt} {letter}").input_ids for letter in "AB"]
            assert all(ids[:-1] == shared for ids in whole)
            with torch.no_grad():
                logits = network(torch.tensor([shared])).logits[0, -1]
            logprobs = torch.log_softmax(logits.double(), -1)
            by_hand = [float(logprobs[ids[-1]]) for ids in whole]
            answer = [float(logprob) for logprob, _ in sample["filtered_resps"]]
            assert np.allclose(answer, by_hand, atol=log_probability(by_hand), rtol=0)
