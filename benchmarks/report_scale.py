"""Processor time and memory of `epidemia report` by the number of models, of simulated results.

    python benchmarks/report_scale.py [--models 10,100,1000] [--formats table,csv]

Four noisy respondents are asked `epidemia_low` and `epidemia_high` by lm-eval. A simulated model
has, in every task, the numbers and draws of one of them, moved by a chance of its own: their sizes
and number are those of a run, no two models are equal, and the score is that of the distance.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.score import Anchors

#: How far off the respondents are, in log-odds.
NOISE = (0.1, 0.35, 0.6, 0.9)

EPIDEMIA = [sys.executable, "-m", "lm_eval_epidemia"]


def respondents(folder: Path, tasks: str = "epidemia_low,epidemia_high") -> list[Path]:
    """Run lm-eval for every respondent and return the result files."""
    for seed, noise in enumerate(NOISE):
        arguments = ["--model", "epidemia-baseline", "--model_args", f"kind=noisy,{noise=},{seed=}"]
        to = ["--tasks", tasks, "--output_path", str(folder / str(seed))]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        subprocess.run(
            [*EPIDEMIA, "run", *arguments, *to], check=True, capture_output=True, env=environment
        )
    return sorted(folder.rglob("results_*.json"))


def simulate(runs: Sequence[Path], folder: Path, number: int, seed: int = 0) -> int:
    """Write the result files of so many models into a folder; return their bytes.

    Parameters
    ----------
    runs : sequence of Path
        Result files of the same tasks, the better respondents first.
    folder : Path
    number : int
    seed : int
    """
    files = [json.loads(run.read_text(encoding="utf-8")) for run in runs]
    known = [_moveable(file) for file in files]
    random, written = np.random.default_rng(seed), 0
    for model in range(number):
        file = files[0] | {"model_name": f"simulated/model-{model:04d}"}
        file["config"] |= {"model_args": {"pretrained": file["model_name"]}}
        skill = random.uniform(0, len(runs) - 1)
        for task in known[0]:
            respondent = int(np.clip(round(random.normal(skill, 0.7)), 0, len(runs) - 1))
            row, of_task = known[respondent][task].moved(random.normal(1, 0.05))
            file["results"][task], file["epidemia"]["replicates"][task] = row, of_task
        path = folder / f"model-{model:04d}" / f"results_{model:04d}.json"
        path.parent.mkdir(parents=True)
        written += path.write_text(json.dumps(file, indent=2), encoding="utf-8")
    return written


class _Moveable(NamedTuple):
    """A task of a respondent: its row, its draws, and of which distances its scores are."""

    row: dict[str, Any]
    of_task: dict[str, Any]
    draws: dict[str, np.ndarray]
    anchors: Anchors

    def moved(self, factor: float) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return row and draws at another distance: all numbers move as the score does."""
        l1 = min(self.row["l1,none"] * factor, 2.0)
        score = float(self.anchors.score(l1))
        by = score - self.row["score,none"]
        at = {name: self.draws[name] + by for name in self.draws}
        text = {
            name: " ".join(map("{:.4f}".format, x if name == "less_bias" else x.clip(0, 100)))
            for name, x in at.items()
        }
        less_bias = {"less_bias": {"score": text.pop("less_bias")}} if "less_bias" in text else {}
        against = float(np.clip(self.row["score_population,none"] + by, 0, 100))
        row = self.row | {"l1,none": l1, "score,none": score, "score_population,none": against}
        return row, self.of_task | text | less_bias


def _moveable(file: dict[str, Any]) -> dict[str, _Moveable]:
    tasks = {}
    for task, of_task in file["epidemia"]["replicates"].items():
        texts = {name: of_task[name] for name in ("score", "score_population")}
        texts |= {"less_bias": of_task["less_bias"]["score"]} if of_task["sample"] else {}
        draws = {name: np.array(text.split(), dtype=float) for name, text in texts.items()}
        anchors = Anchors.of(store.load_truth(task))
        tasks[task] = _Moveable(file["results"][task], of_task, draws, anchors)
    return tasks


class Cost(NamedTuple):
    """What a command took: seconds of processor time and on the clock, peak memory in MB."""

    processor: float
    clock: float
    memory: float


def report(results: Path, form: str, out: Path) -> Cost:
    """Measure `epidemia report` in a process of its own."""
    started = time.perf_counter()
    with out.open("wb") as file:
        child = subprocess.Popen(
            [*EPIDEMIA, "report", str(results), "--format", form],
            stdout=file,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"epidemia report {results}: exit status {child.returncode}")
    spent = time.perf_counter() - started
    return Cost(usage.ru_utime + usage.ru_stime, spent, usage.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="10,100,1000")
    parser.add_argument("--formats", default="table,csv")
    parser.add_argument("--runs", type=Path, help="result files of respondents, made before")
    parser.add_argument("--keep", type=Path, help="a folder for the results, which is kept")
    options = parser.parse_args()
    work = options.keep or Path(tempfile.mkdtemp(prefix="epidemia-report-"))
    try:
        runs = sorted(options.runs.rglob("results_*.json")) if options.runs else []
        runs = runs or respondents(work / "runs")
        print("| models | MB of results | format | processor, s | clock, s | peak, MB |")
        print("|--:|--:|---|--:|--:|--:|", flush=True)
        for number in map(int, options.models.split(",")):
            results = work / str(number)
            if not results.exists():
                simulate(runs, results, number)
            size = sum(path.stat().st_size for path in results.rglob("*.json")) / 1e6
            for form in options.formats.split(","):
                cost = report(results, form, work / "out")
                print(
                    f"| {number:,} | {size:,.1f} | {form} | {cost.processor:.1f} | "
                    f"{cost.clock:.1f} | {cost.memory:,.0f} |",
                    flush=True,
                )
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
