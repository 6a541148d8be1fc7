"""What a run of low + high takes besides the model.

    python benchmarks/overhead.py [--tasks GROUP,GROUP] [--prompts 400] [--model PATH]

In seconds of processor time, which on a shared machine says more than the clock. First
`lm_eval.simple_evaluate` with `choice-hf` on every task of the groups, the forward pass replaced by
nothing: loading tasks, prompts, tokenizing, batches, metrics, standard errors. Then one task on a
model (a random Llama of 100 million parameters, if none is given), forward passes included, and the
share of the time that was not theirs.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import throughput

os.environ["LMEVAL_LOG_LEVEL"] = "ERROR"

#: A task with eight answers, and what a 100-million-parameter Llama looks like.
TASK = "epidemia_low_acs_salary_by_age"
SHAPE = {
    "vocab_size": 32_000,
    "hidden_size": 768,
    "intermediate_size": 2_048,
    "num_hidden_layers": 7,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "max_position_embeddings": 2048,
}


def evaluate(folder: Path, tasks: list[str], limit: int | None = None) -> tuple[float, float, int]:
    """Return seconds of processor time in all and in the model, and the prompts of a run."""
    from lm_eval import simple_evaluate

    import lm_eval_epidemia
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    manager = lm_eval_epidemia.task_manager()
    lm = ChoiceHF(pretrained=str(folder), dtype="float32", device="cpu", batch_size=16)
    inside, prompts, honest = 0.0, 0, type(lm)._read

    def timed(self: Any, batch: Any) -> Any:
        nonlocal inside, prompts
        started = time.process_time()
        found = honest(self, batch)
        inside += time.process_time() - started
        prompts += len(batch.questions)
        return found

    type(lm)._read = timed  # type: ignore[method-assign]
    try:
        started = time.process_time()
        simple_evaluate(lm, tasks=tasks, task_manager=manager, limit=limit)
        return time.process_time() - started, inside, prompts
    finally:
        type(lm)._read = honest  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", default="epidemia_low,epidemia_high")
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--model", type=Path, help="a real model in place of a random Llama")
    options = parser.parse_args()
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    folder = Path(tempfile.mkdtemp(prefix="epidemia-"))
    try:
        throughput.make_model(folder, "tiny", "float32")
        honest = ChoiceHF._read
        # Uniform answers: scores are computed as ever.
        ChoiceHF._read = lambda _self, batch: [  # type: ignore[method-assign]
            [(-3.0, False)] * len(one.last) for one in batch.questions
        ]
        took, _, prompts = evaluate(folder, options.tasks.split(","))
        ChoiceHF._read = honest  # type: ignore[method-assign]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{options.tasks}: {prompts:,} prompts, {took:.1f} s without the model, "
            f"peak {peak:,.0f} MB"
        )
        if options.model:
            model, name = options.model, options.model.name
        else:
            throughput.SHAPES["100m"] = SHAPE
            throughput.make_model(folder, "100m", "float32")
            model, name = folder, "100 million parameters"
        took, inside, prompts = evaluate(model, [TASK], options.prompts)
        print(
            f"{name}: {prompts} prompts in {took:.1f} s, of which the model "
            f"{inside:.1f} s; the rest is {100 * (1 - inside / took):.1f} %"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
