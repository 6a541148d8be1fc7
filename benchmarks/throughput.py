"""Prompts per second of the stock backends and of choice-hf and choice-vllm, in one run.

    python benchmarks/throughput.py [--config mini|tiny|llama-8b] [--prompts N] [--choices K]
                                    [--tokens T] [--backends hf,...] [--batch-size N] [--dtype D]

A model is made on the spot from a config, with random weights: `tiny` (a 32,000-word vocabulary,
for a CPU), `mini` (1,000 words: what is left is the backend's own time) or `llama-8b` (the shape of
Llama 3 8B in bfloat16, for a GPU). Prompts are questions of
the package, with K answers and about T tokens. Each backend runs in a process of its own, so that
peak memory is its own, and is warmed up with a few prompts first. `floor` is the model alone,
reading the same tokens once in the same batches: nothing can be faster without sharing prefixes.

vLLM is used where it can be imported; its counters say how much came from the prefix cache.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

BACKENDS = ("floor", "hf", "hf without cache", "choice-hf", "vllm", "choice-vllm")

SHAPES: dict[str, dict[str, Any]] = {
    "mini": {
        "vocab_size": 1_000, "hidden_size": 64, "head_dim": 32, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
    },
    "tiny": {
        "vocab_size": 32_000, "hidden_size": 256, "intermediate_size": 688,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
        "max_position_embeddings": 2048,
    },
    "llama-8b": {
        "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
}  # fmt: skip


def make_model(folder: Path, shape: str, dtype: str) -> None:
    """Save a random Llama of a shape, with a tokenizer trained on the package's questions."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from lm_eval_epidemia.elicit.splits import split
    from lm_eval_epidemia.harness.tiny import make_tiny_llama

    texts = [t for name in TEXTS for t in split(name)["prompt"][:200]]
    make_tiny_llama(folder, texts)
    torch.manual_seed(0)
    torch.set_default_dtype(getattr(torch, dtype))
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(LlamaConfig(**SHAPES[shape], bos_token_id=0, eos_token_id=1))
    model.save_pretrained(folder)


#: Tasks whose questions are asked, by their number of answers.
BY_CHOICES = {
    2: "epidemia_high_meps_insured_by_age_education_race",
    4: "epidemia_low_acs_employer_by_age",
    7: "epidemia_low_meps_expenditure_by_age_group",
    8: "epidemia_low_acs_salary_by_age",
    24: "epidemia_low_acs_education_by_age",
}
TEXTS = tuple(BY_CHOICES.values())


def questions(folder: Path, number: int, choices: int, tokens: int) -> list[tuple[str, list[str]]]:
    """Return prompts and their choices; longer prompts get words before, shorter ones are cut."""
    from transformers import AutoTokenizer

    from lm_eval_epidemia.elicit.splits import split

    rows = split(BY_CHOICES[choices])
    # One after the other, as a run has them: a question stands in all its orders.
    chosen = [rows[place % len(rows)] for place in range(number)]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    length = len(tokenizer(chosen[0]["prompt"]).input_ids)
    filler = "" if tokens <= length else "In this survey, " * ((tokens - length) // 4)
    # Each its own beginning where there are more than the task has questions.
    return [
        (f"{place // len(rows) or ''}{filler}{row['prompt']}", [f" {c}" for c in row["choices"]])
        for place, row in enumerate(chosen)
    ]


def measure(
    backend: str, folder: Path, asked: list[tuple[str, list[str]]], options: Any
) -> dict[str, Any]:
    """Time one backend on all prompts, after a warm-up."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import get_model

    import lm_eval_epidemia

    lm_eval_epidemia.task_manager()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    arguments: dict[str, Any] = {"pretrained": str(folder), "dtype": options.dtype}
    if "vllm" in backend:
        arguments |= {"batch_size": "auto", "enforce_eager": not cuda, "disable_log_stats": False}
        arguments |= {} if cuda else {"block_size": 32}
    else:
        arguments |= {"batch_size": options.batch_size, "device": device}
    if backend == "hf without cache":
        arguments["logits_cache"] = False
    name = {"floor": "choice-hf", "hf without cache": "hf"}.get(backend, backend)
    lm = get_model(name)(**arguments)

    def requests(rows: list[tuple[str, list[str]]]) -> list[Any]:
        flat = [(context, choice) for context, choices in rows for choice in choices]
        return [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(flat)]

    tokens = [lm.tok_encode(context) for context, _ in asked]
    if backend == "floor":

        def run(rows: list[tuple[str, list[str]]]) -> Any:
            ids = sorted((lm.tok_encode(context) for context, _ in rows), key=len, reverse=True)
            start, budget = 0, options.batch_size * len(ids[0])
            started = time.perf_counter()
            while start < len(ids):
                batch = ids[start : start + max(1, budget // len(ids[start]))]
                start += len(batch)
                padded = torch.zeros(len(batch), len(batch[0]), dtype=torch.long)
                for row, one in enumerate(batch):
                    padded[row, : len(one)] = torch.tensor(one)
                with torch.no_grad():
                    lm.model.model(padded.to(device))
            if cuda:
                torch.cuda.synchronize()
            return time.perf_counter() - started
    else:

        def run(rows: list[tuple[str, list[str]]]) -> Any:
            made = requests(rows)
            started = time.perf_counter()
            run.answers = lm.loglikelihood(made, disable_tqdm=True)  # type: ignore[attr-defined]
            return time.perf_counter() - started

    run([(f"Warm-up {context}", choices) for context, choices in asked[:16]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    seconds = run(asked)
    found = {
        "seconds": seconds,
        "prompts/s": len(asked) / seconds,
        "tokens/s": sum(map(len, tokens)) / seconds,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "growth MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }
    if cuda:
        found["GPU MB"] = torch.cuda.max_memory_allocated() / 2**20
    if "vllm" in backend:
        counters = {m.name: m.value for m in lm.model.get_metrics() if hasattr(m, "value")}
        queries = counters.get("vllm:prefix_cache_queries", 0)
        found["from prefix cache"] = counters.get("vllm:prefix_cache_hits", 0) / max(queries, 1)
    found["answers"] = [] if backend == "floor" else [float(x) for x, _ in run.answers]  # type: ignore[attr-defined]
    return found


def _child(out: str, backend: str, folder: str, asked: Any, options: Any) -> None:
    Path(out).write_text(json.dumps(measure(backend, Path(folder), asked, options)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", choices=SHAPES, default="tiny")
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--choices", type=int, choices=BY_CHOICES, default=8)
    parser.add_argument("--tokens", type=int, default=110)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--model", help="a folder made before, instead of --config")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    folder = Path(options.model or tempfile.mkdtemp(prefix="epidemia-"))
    found: dict[str, dict[str, Any]] = {}
    try:
        if not options.model:
            make_model(folder, options.config, options.dtype)
        asked = questions(folder, options.prompts, options.choices, options.tokens)
        from transformers import AutoTokenizer

        lengths = [len(i) for i in AutoTokenizer.from_pretrained(folder)([a for a, _ in asked])[
            "input_ids"]]  # fmt: skip
        print(f"{len(asked)} prompts, {len(asked[0][1])} choices, "
              f"{sum(lengths) / len(lengths):.0f} tokens on average")  # fmt: skip
        for backend in options.backends.split(","):
            if "vllm" in backend:
                try:
                    import vllm  # noqa: F401
                except ImportError:
                    print(f"{backend}: vLLM is not installed here", file=sys.stderr)
                    continue
            out = folder / "measured.json"
            out.unlink(missing_ok=True)
            child = context.Process(
                target=_child, args=(str(out), backend, str(folder), asked, options)
            )
            child.start()
            child.join()
            if child.exitcode or not out.exists():
                print(f"{backend}: failed", file=sys.stderr)
                continue
            found[backend] = json.loads(out.read_text())
    finally:
        if not options.model:
            shutil.rmtree(folder, ignore_errors=True)
    floor = found.get("floor", {}).get("seconds")
    reference = next((found[b]["answers"] for b in ("hf", "vllm") if b in found), None)
    known = ("prompts/s", "tokens/s", "growth MB", "peak MB", "GPU MB", "from prefix cache")
    columns = [column for column in known if any(column in one for one in found.values())]
    print("| backend | " + " | ".join(columns) + " | share of the floor | largest difference |")
    print("|---|" + "--:|" * (len(columns) + 2))
    for backend, one in found.items():
        cells = [f"{one[c]:,.2f}" if c == "from prefix cache" and c in one
                 else f"{one[c]:,.0f}" if c in one else "" for c in columns]  # fmt: skip
        share = f"{floor / one['seconds']:.2f}" if floor else ""
        gap = (
            f"{max(abs(a - b) for a, b in zip(one['answers'], reference, strict=True)):.1e}"
            if reference and one["answers"]
            else ""
        )
        print(f"| {backend} | " + " | ".join(cells) + f" | {share} | {gap} |")


if __name__ == "__main__":
    main()
