"""Fine-tuning on notes over several seeds: notes, training and asking, one seed after the other.

    nice python benchmarks/finetuning_seeds.py OUT --model MODEL --raw nsduh_2022.parquet

The defaults are the published study's set-up but for model and writer: 2,500 template notes, ten on
each person, six epochs at 5e-5, all weights. On one thread with AVX-512 BF16 a step of a model of
135M parameters takes some 10 s, the whole seven hours and 6 GB. Stopped at any time, the same
command goes on; `epidemia report OUT/results` then has a row of the seeds.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lm_eval_epidemia.results.card import DATASET_CARD, LOSSES, TUNED_CARD

TASKS = "epidemia_low_nsduh,epidemia_low_nsduh_likelihood"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--raw", required=True)
    parser.add_argument("--kind", default="notes")
    parser.add_argument("--n", type=int, default=2500)
    parser.add_argument("--per-person", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--train", default="--full --epochs 6 --lr 5e-5 --dtype bfloat16")
    given = parser.parse_args()
    ask(given.out / "results" / "base", f"pretrained={given.model}")
    for seed in given.seeds:
        name = f"{given.kind}-{given.n}-seed-{seed}"
        data, tuned = given.out / "data" / name, given.out / "tuned" / name
        if not (data / DATASET_CARD).exists():
            made = f"nsduh --kind {given.kind} --n {given.n} --per-person {given.per_person}"
            epidemia("notes", *made.split(), "--seed", seed, "--raw", given.raw, "--out", data)
        if not (tuned / TUNED_CARD).exists():
            how = given.train.split()
            on = "--model", given.model, "--data", data, "--seed", seed, "--out", tuned
            epidemia("train", *how, *on)
        is_adapter = (tuned / "adapter_config.json").exists()
        weights = f"{given.model},peft={tuned}" if is_adapter else tuned
        results = given.out / "results" / name
        ask(results, f"pretrained={weights}")
        for file in (TUNED_CARD, LOSSES):
            shutil.copy(tuned / file, results / file)


def epidemia(*words):
    run(sys.executable, "-m", "lm_eval_epidemia", "finetune", *words)


def ask(results, arguments):
    """Ask the six tasks, unless it was done."""
    if not [*results.glob("**/results_*.json")]:
        how = "--model", "choice-hf", "--model_args", f"{arguments},dtype=float32"
        lm_eval = Path(sys.executable).parent / "lm_eval"
        run(lm_eval, *how, "--tasks", TASKS, "--output_path", results, "--log_samples")


def run(*words):
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run([str(word) for word in words], check=True, env=one_thread)


if __name__ == "__main__":
    main()
