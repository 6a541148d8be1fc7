"""Prompts per second of the stock backends and of choice-hf and choice-vllm, in one run.

    python benchmarks/throughput.py [--config mini|tiny|llama-8b] [--prompts N] [--choices K]
                                    [--tokens T] [--backends hf,...] [--batch-size N] [--dtype D]
    python benchmarks/throughput.py --model FOLDER --tasks NAME,... [--prompts N] [--backends ...]
    python benchmarks/throughput.py --model FOLDER --tasks NAME,... --paper [--batch-size N]

A model is made on the spot from a config, with random weights: `tiny` (a 32,000-word vocabulary,
for a CPU), `mini` (1,000 words: what is left is the backend's own time) or `llama-8b` (the shape of
Llama 3 8B in bfloat16, for a GPU). Prompts are questions of
the package, with K answers and about T tokens. Each backend runs in a process of its own, so that
peak memory is its own, and is warmed up with a few prompts first. `floor` is the model alone,
reading the same tokens once in the same batches: nothing can be faster without sharing prefixes.

vLLM is used where it can be imported; its counters say how much came from the prefix cache.

With `--model` and `--tasks` the first N prompts of each task are read by a model that is there, in
one process, one path after the other: `hf`, and `choice-hf` with all prompts as rows, all as a
tree, and each as its cost model chooses. Seconds are the processor's. Peak memory takes a process
for each: give it with `--backends "choice-hf rows,choice-hf tree,choice-hf"`. `--paper` runs no
model: the multiply-adds of the same paths, of all prompts of the tasks or groups, for the model and
for the shape of Llama 3 8B.
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
#: `choice-hf` with all prompts on one path, by the name of a backend.
PATHS = {"choice-hf rows": "rows", "choice-hf tree": "tree"}

SHAPES: dict[str, dict[str, Any]] = {
    "mini": {
        "vocab_size": 1_000,
        "hidden_size": 64,
        "head_dim": 32,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
    },
    "tiny": {
        "vocab_size": 32_000,
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 2048,
    },
    "llama-8b": {
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 8192,
    },
}


def make_model(folder: Path, shape: str, dtype: str) -> None:
    """Save a random Llama of a shape, with a tokenizer trained on the package's questions."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.models.tiny import make_tiny_llama

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

    from lm_eval_epidemia.benchmarks.splits import split

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


def prompts_of(task: str, number: int | None = None) -> list[tuple[str, list[str]]]:
    """Return the first prompts of a task and their choices."""
    from lm_eval_epidemia.benchmarks.splits import split

    rows = split(task)
    rows = rows.select(range(min(number, len(rows)))) if number else rows
    return [(row["prompt"], [f" {c}" for c in row["choices"]]) for row in rows]


def compare_paths(options: argparse.Namespace) -> None:
    """Print processor time and tokens of each path, task by task."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer

    from lm_eval_epidemia.models.choice_hf import ChoiceHF
    from lm_eval_epidemia.models.prefix_tree import Pack, packs

    cuda = torch.cuda.is_available()
    clock = time.perf_counter if cuda else time.process_time
    computed: list[tuple[bool, int]] = []

    class Counting(ChoiceHF):
        def _read(self, batch: Any) -> Any:
            computed.append((isinstance(batch, Pack), batch.cost))
            return super()._read(batch)

    arguments = {
        "dtype": options.dtype,
        "batch_size": options.batch_size,
        "device": "cuda" if cuda else "cpu",
    }
    ours = Counting(pretrained=options.model, **arguments)
    stock = HFLM(
        pretrained=ours.model,
        tokenizer=AutoTokenizer.from_pretrained(options.model),
        **{**arguments, "batch_size": 16 if options.batch_size == "auto" else options.batch_size},
    )

    def run(lm: Any, pairs: list[tuple[str, str]], path: str | None = None) -> Any:
        made = [Instance("loglikelihood", {}, pair, n) for n, pair in enumerate(pairs)]
        computed.clear()
        ours.only_path = path
        started = clock()
        answers = lm.loglikelihood(made, disable_tqdm=True)
        if cuda:
            torch.cuda.synchronize()
        return clock() - started, [float(x) for x, _ in answers], list(computed)

    warm = [(f"Warm-up {n}, a few words more", choice) for n in range(4) for choice in (" A", " B")]
    for path in ("rows", "tree", None):
        run(ours, warm, path)
    print(
        "| task | answers | prompts | tokens | distinct | rows: tokens | tree: tokens | "
        "hf: s | rows: s | tree: s | chosen | choice-hf: s | hf / choice-hf | rows / choice-hf | "
        "computed / distinct | largest difference |"
    )
    print("|---|" + "--:|" * 15)
    better = 0
    tasks = options.tasks.split(",")
    for task in tasks:
        asked = prompts_of(task, options.prompts)
        pairs = [(context, choice) for context, choices in asked for choice in choices]
        lengths = [ours.tok_encode(context) for context, _ in asked]
        distinct = packs_distinct(lengths, packs)
        rows, by_rows, row_batches = run(ours, pairs, "rows")
        chosen, answers, batches = run(ours, pairs)
        tree, by_tree, packed = run(ours, pairs, "tree")
        plain, expected, _ = run(stock, pairs) if options.stock else (float("nan"), by_rows, [])
        trees = sum(is_tree for is_tree, _ in batches)
        kind = "tree" if trees == len(batches) else "rows" if not trees else "both"
        better += kind == ("tree" if tree < rows else "rows")
        apart = max(
            abs(a - b) for found in (answers, by_tree) for a, b in zip(found, expected, strict=True)
        )
        cost, row_cost, tree_cost = (
            sum(n for _, n in one) for one in (batches, row_batches, packed)
        )
        print(
            f"| {task.removeprefix('epidemia_')} | {len(asked[0][1])} | {len(asked)} | "
            f"{sum(map(len, lengths)):,} | {distinct:,} | {row_cost:,} | {tree_cost:,} | "
            f"{plain:.1f} | {rows:.1f} | {tree:.1f} | {kind} | {chosen:.1f} | "
            f"{plain / chosen:.2f} | {rows / chosen:.2f} | {cost / distinct:.2f} | "
            f"{apart:.1e} |",
            flush=True,
        )
    print(f"\nThe faster of tree and rows was chosen in {better} of {len(tasks)} tasks.")


def packs_distinct(prompts: list[list[int]], packs: Any) -> int:
    """Return how many tokens are left when shared beginnings are computed once."""
    from lm_eval_epidemia.models.choices import Question

    endless = sys.maxsize
    whole = packs([Question(one, 0, [n], [0]) for n, one in enumerate(prompts)], endless, endless)
    return sum(pack.cost for pack in whole)


def on_paper(options: argparse.Namespace) -> None:
    """Print multiply-adds of stock, rows, tree and what the cost model chooses."""
    from transformers import AutoConfig, AutoTokenizer, LlamaConfig

    from lm_eval_epidemia.benchmarks import find_tasks
    from lm_eval_epidemia.models.choices import Batch, Question
    from lm_eval_epidemia.models.prefix_tree import (
        Costs,
        Pack,
        cost_of_pack,
        cost_of_rows,
        packs,
        plan_paths,
    )

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    shapes = {
        "the model": AutoConfig.from_pretrained(options.model),
        "Llama 3 8B": LlamaConfig(**SHAPES["llama-8b"]),
    }
    print(
        "| prompts of | model | tokens | distinct | computed | share in trees | hf / choice-hf | "
        "rows / choice-hf | hf / rows |\n|---|---|" + "--:|" * 7
    )
    for name in options.tasks.split(","):
        lists = []
        for task, _ in find_tasks(name):
            contexts = [context for context, _ in prompts_of(task)]
            lists += tokenizer(contexts, add_special_tokens=False)["input_ids"]
        asked = [Question(one, 0, [n], [0]) for n, one in enumerate(lists)]
        distinct, total = packs_distinct(lists, packs), sum(map(len, lists))
        for title, config in shapes.items():
            width, layers = config.hidden_size, config.num_hidden_layers
            depth = getattr(config, "head_dim", None) or width // config.num_attention_heads
            kv = config.num_key_value_heads * depth
            feed = 3 * width * config.intermediate_size
            weights = layers * (2 * width * width + 2 * width * kv + feed)
            head = width * config.vocab_size
            costs = Costs(weights, 2 * layers * width)
            limit = (
                65_536
                if options.batch_size == "auto"
                else int(options.batch_size) * max(map(len, lists))
            )
            reads = max(1, limit * 4 * width // config.vocab_size)
            plans = [
                plan_paths(asked, limit, reads, True, sys.maxsize, costs, path)
                for path in (None, "rows")
            ]
            chosen, rows = (
                len(asked) * head
                + sum(
                    cost_of_pack(one, costs) if isinstance(one, Pack) else cost_of_rows(one, costs)
                    for one in plan
                )
                for plan in plans
            )
            stock = sum(
                len(one.tokens) * head + cost_of_rows(Batch([one], 0), costs) for one in asked
            )
            packed = sum(one.cost for one in plans[0] if isinstance(one, Pack))
            computed = sum(one.cost for one in plans[0])
            print(
                f"| {name} | {title} | {total:,} | {distinct:,} | {computed:,} | "
                f"{packed / computed:.2f} | {stock / chosen:.2f} | {rows / chosen:.2f} | "
                f"{stock / rows:.2f} |",
                flush=True,
            )


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
    lm = get_model("choice-hf" if name in PATHS else name)(**arguments)
    if name in PATHS:
        lm.only_path = PATHS[name]

    def requests(rows: list[tuple[str, list[str]]]) -> list[Any]:
        flat = [(context, choice) for context, choices in rows for choice in choices]
        return [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(flat)]

    tokens = [lm.tok_encode(context) for context, _ in asked]
    if backend == "floor":

        def run(rows: list[tuple[str, list[str]]]) -> Any:
            ids = sorted((lm.tok_encode(context) for context, _ in rows), key=len, reverse=True)
            start, budget = 0, int(options.batch_size) * len(ids[0])
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
    parser.add_argument("--batch-size", default="16")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--model", help="a folder made before, instead of --config")
    parser.add_argument("--tasks", help="with --model: tasks whose prompts are read")
    parser.add_argument("--paper", action="store_true", help="count, run nothing")
    parser.add_argument("--no-stock", dest="stock", action="store_false", help="leave `hf` out")
    options = parser.parse_args()
    if options.tasks and not options.model:
        parser.error("--tasks needs --model")
    if options.paper:
        return on_paper(options)
    if options.tasks and options.backends == ",".join(BACKENDS):
        return compare_paths(options)
    context = multiprocessing.get_context("spawn")
    folder = Path(options.model or tempfile.mkdtemp(prefix="epidemia-"))
    found: dict[str, dict[str, Any]] = {}
    try:
        if not options.model:
            make_model(folder, options.config, options.dtype)
        asked = (
            [one for task in options.tasks.split(",") for one in prompts_of(task, options.prompts)]
            if options.tasks
            else questions(folder, options.prompts, options.choices, options.tokens)
        )
        from transformers import AutoTokenizer

        lengths = [
            len(i)
            for i in AutoTokenizer.from_pretrained(folder)([a for a, _ in asked])["input_ids"]
        ]
        print(
            f"{len(asked)} prompts, {len(asked[0][1])} choices, "
            f"{sum(lengths) / len(lengths):.0f} tokens on average"
        )
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
        cells = [
            f"{one[c]:,.2f}"
            if c == "from prefix cache" and c in one
            else f"{one[c]:,.0f}"
            if c in one
            else ""
            for c in columns
        ]
        share = f"{floor / one['seconds']:.2f}" if floor else ""
        gap = (
            f"{max(abs(a - b) for a, b in zip(one['answers'], reference, strict=True)):.1e}"
            if reference and one["answers"]
            else ""
        )
        print(f"| {backend} | " + " | ".join(cells) + f" | {share} | {gap} |")


if __name__ == "__main__":
    main()
