"""The site of many models: how long it takes to build, how large it is, how fast its pages open.

    python benchmarks/site.py [--models 20] [--tasks epidemia_low,epidemia_high,epidemia_extra]

One run of a noisy respondent is made with lm-eval (or given with ``--run``); every model is that
run under another name, its sample files linked: each is read and computed for every model all the
same. Pages are opened from the file system in Chromium, each three times in a context of its own;
the median counts. Also, a sample file of 2 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lm_eval_epidemia.findings import FINDINGS, find
from lm_eval_epidemia.report.site import build_site
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.published import add_published
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import read_elicited

os.environ["HF_HUB_OFFLINE"] = "1"
LARGE = "epidemia_low_acs_salary_by_age"


def peak() -> float:
    """Megabytes of this process and of its largest child, at most so far."""
    mine, child = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return mine + 2 * child


def copies(run: Path, folder: Path, number: int) -> None:
    """Put a run there `number` times, as if of different models."""
    (results,) = run.rglob("results_*.json")
    found = json.loads(results.read_text())
    for place in range(number):
        there = folder / f"model-{place:02d}"
        there.mkdir()
        name = f"Some-Model-{place + 1}B" + ("-Instruct" if place % 2 else "")
        found["config"] |= {"model_args": {"pretrained": name}, "model_num_parameters": 1e9}
        for row in found["results"].values():
            if "score,none" in row:  # distinct, so that ranks are
                row["score,none"] = max(row["score,none"] - place, 0.0)
        (there / results.name).write_text(json.dumps(found))
        for samples in results.parent.glob("samples_*.jsonl"):
            os.link(samples, there / samples.name)


def made(tasks: str, folder: Path) -> Path:
    """Run a noisy respondent with lm-eval."""
    command = [sys.executable, "-m", "lm_eval_epidemia", "run", "--model", "epidemia-baseline"]
    command += ["--model_args", "kind=noisy,noise=0.5", "--tasks", tasks, "--log_samples"]
    subprocess.run([*command, "--output_path", str(folder)], check=True, capture_output=True)
    return folder


def opened(site: Path, pages: dict[str, str]) -> None:
    """Print when pages are there, and when their first table or chart is, in milliseconds.

    Parameters
    ----------
    site : Path
    pages : dict of str to str
        Addresses, each with what must be there.
    """
    from playwright.sync_api import sync_playwright

    print(f"{'page':44} {'DOMContentLoaded':>17} {'drawn':>8}")
    with sync_playwright() as started:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for page, wanted in pages.items():
            loaded, drawn = [], []
            for _ in range(3):
                tab = browser.new_context().new_page()
                began = time.perf_counter()
                tab.goto(f"file://{site}/{page}")
                tab.wait_for_selector(wanted, timeout=120_000)
                drawn.append(1000 * (time.perf_counter() - began))
                timing = "performance.getEntriesByType('navigation')[0]"
                loaded.append(tab.evaluate(f"{timing}.domContentLoadedEventEnd"))
                tab.close()
            times = statistics.median(loaded), statistics.median(drawn)
            print(f"{page[:44]:44} {times[0]:17.0f} {times[1]:8.0f}")
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--tasks", default="epidemia_low,epidemia_high,epidemia_extra")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--run", type=Path, help="a run with samples, instead of a new one")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="epidemia-site-"))
    try:
        run = options.run or made(options.tasks, work / "run")
        (work / "results").mkdir()
        copies(run, work / "results", options.models)
        read = sum(path.stat().st_size for path in (work / "results").rglob("*")) / 1e9
        started = time.perf_counter()
        results = add_published(read_results([work / "results"]))
        tables = [find(name)(results) for name in FINDINGS]
        tasks = results.scores["task"].nunique()
        print(f"{options.models} models, {tasks} tasks, {read:.1f} GB of results and samples")
        print(f"report: {len(tables)} findings in {time.perf_counter() - started:.1f} s")
        build_site(results, work / "site")
        whole = time.perf_counter() - started
        print(f"site: {whole:.1f} s in all, peak {peak():,.0f} MB over its processes")
        sizes = {
            path.relative_to(work / "site"): path.stat().st_size
            for path in (work / "site").rglob("*")
            if path.is_file()
        }
        page = [
            Path("index.html"),
            *(Path("assets") / name for name in ("site.css", "site.js")),
        ]
        print(f"first page with all it loads: {sum(sizes[one] for one in page) / 1e6:.2f} MB")
        for one in sorted(sizes, key=lambda path: -sizes[path])[:4]:
            print(f"  {one}: {sizes[one] / 1e6:.2f} MB")
        print(f"whole site: {sum(sizes.values()) / 1e6:.1f} MB")
        task = next(iter(results.scores["task"][results.scores["way"] == "letters"]))
        model = next(str(path) for path in sizes if path.name.startswith("model-"))
        tables = "html[data-ready=yes]"
        pages = {"index.html": tables, "explorer.html": tables, model: tables}
        opened(work / "site", {**pages, f"task.html#task={task}": "#distribution svg.marks"})
        if not options.gigabytes:
            return
        (samples,) = run.rglob(f"samples_{LARGE}_2*")
        with (work / "large.jsonl").open("wb") as file:
            text = samples.read_bytes()
            while file.tell() < options.gigabytes * 1e9:
                file.write(text)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started = time.perf_counter()
        read_elicited(work / "large.jsonl", LeafKey(LARGE, "letters"))
        took = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"a sample file of {options.gigabytes:g} GB: {took:.1f} s, peak grew by "
            f"{after - before:,.0f} MB"
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
