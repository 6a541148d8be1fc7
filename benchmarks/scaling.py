"""How the time of choice-hf grows: with prompts, choices, length, processes.

    python benchmarks/scaling.py [--most 1000000]

First everything but the model: requests are tokenized, grouped, put into batches and answered, the
forward pass replaced by nothing. Then with the `tiny` model of throughput.py, one thing varied at a
time. Two processes are two halves of the prompts with a core each.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import throughput


def requests(rows: list[tuple[str, list[str]]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    flat = [(context, choice) for context, choices in rows for choice in choices]
    return [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(flat)]


def loaded(folder: Path) -> Any:
    import lm_eval.api.registry as registry

    import lm_eval_epidemia

    lm_eval_epidemia.task_manager()
    lm = registry.get_model("choice-hf")(
        pretrained=str(folder), dtype="float32", device="cpu", batch_size=16
    )
    lm.loglikelihood(requests([("Warm-up", [" A", " B"])] * 4), disable_tqdm=True)
    return lm


def seconds(lm: Any, rows: list[tuple[str, list[str]]]) -> float:
    made = requests(rows)
    started = time.perf_counter()
    lm.loglikelihood(made, disable_tqdm=True)
    return time.perf_counter() - started


def half(folder: str, rows: list[tuple[str, list[str]]], ready: Any, out: Any) -> None:
    import torch

    torch.set_num_threads(1)
    lm = loaded(Path(folder))
    ready.wait()
    out.put(seconds(lm, rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=100_000)
    most = parser.parse_args().most
    folder = Path(tempfile.mkdtemp(prefix="epidemia-"))
    try:
        throughput.make_model(folder, "tiny", "float32")
        lm = loaded(folder)
        read = type(lm)._read
        type(lm)._read = lambda self, batch: [
            [(0.0, False)] * len(one.last) for one in batch.questions
        ]
        print("| everything but the model | seconds | microseconds per prompt |\n|--:|--:|--:|")
        number = 1000
        while number <= most:
            took = seconds(lm, throughput.questions(folder, number, 8, 110))
            print(f"| {number:,} prompts | {took:.2f} | {1e6 * took / number:.0f} |", flush=True)
            number *= 10
        type(lm)._read = read
        print(
            "\n| prompts | choices | tokens (about) | seconds | prompts/s |\n|--:|--:|--:|--:|--:|"
        )
        varied = [(n, 8, 110) for n in (200, 800, 3200)]
        varied += [(400, k, 110) for k in (2, 4, 24)] + [(200, 8, t) for t in (400, 790)]
        for number, choices, tokens in varied:
            took = seconds(lm, throughput.questions(folder, number, choices, tokens))
            print(
                f"| {number} | {choices} | {tokens} | {took:.1f} | {number / took:.0f} |",
                flush=True,
            )
        rows = throughput.questions(folder, 1600, 8, 110)
        context = multiprocessing.get_context("spawn")
        for parts in ([rows], [rows[::2], rows[1::2]]):
            ready, out = context.Barrier(len(parts)), context.Queue()
            children = [
                context.Process(target=half, args=(str(folder), part, ready, out)) for part in parts
            ]
            for child in children:
                child.start()
            took = max(out.get() for _ in children)
            for child in children:
                child.join()
            print(f"{len(parts)} process(es) of one thread: {took:.1f} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
