"""What the start-up hook costs, and how soon `epidemia run` is ready beside `lm_eval run`.

    python benchmarks/startup.py [--runs 40]

Run it where the package is installed. Commands alternate, so that a drifting machine hits all
alike; medians are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
RUN = ["--model", "epidemia-baseline", "--model_args", "kind=truth", "--tasks", TASK]


def alternate(commands: dict[str, tuple[list[str], dict[str, str]]], runs: int) -> dict[str, float]:
    """Median wall-clock seconds of each command, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for name, (command, environment) in commands.items():
                start = time.perf_counter()
                subprocess.run(
                    command,
                    env={**os.environ, **environment},
                    cwd=folder,
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def milestones(command: list[str]) -> tuple[float, float]:
    """Seconds until lm-eval knows its tasks, and until it builds the first request."""
    start, known = time.perf_counter(), 0.0
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as p:
        assert p.stderr is not None
        for line in p.stderr:
            if "Selected Tasks:" in line:
                known = time.perf_counter() - start
            if "Building contexts" in line:
                building = time.perf_counter() - start
                p.kill()
                return known, building
    raise RuntimeError(f"{command} built no request")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()

    nothing = [sys.executable, "-c", "pass"]
    found = alternate(
        {
            "hook active": (nothing, {}),
            "switched off": (nothing, {"EPIDEMIA_AUTOLOAD": "0"}),
            "no .pth files": ([sys.executable, "-S", "-c", "pass"], {}),
        },
        options.runs,
    )
    print("interpreter start, median of", options.runs)
    for name, seconds in found.items():
        print(f"  {name:<16}{1000 * seconds:8.2f} ms")
    code = (
        "import time, sys; t = time.perf_counter(); "
        "sys.modules.pop('lm_eval_epidemia_startup', None); t = time.perf_counter(); "
        "import lm_eval_epidemia_startup; print(time.perf_counter() - t)"
    )
    imports = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(options.runs)
    ]
    print(f"  import of the hook alone: {1000 * statistics.median(imports):.2f} ms")

    runs = {
        "epidemia run": [sys.executable, "-m", "lm_eval_epidemia", "run", *RUN],
        "lm_eval run": [sys.executable, "-m", "lm_eval", "run", *RUN],
    }
    times = {name: [milestones(command) for _ in range(5)] for name, command in runs.items()}
    medians = {
        name: [statistics.median(t) for t in zip(*v, strict=True)] for name, v in times.items()
    }
    print("from the command on, median of 5      tasks known   first request")
    for name, (known, building) in medians.items():
        print(f"  {name:<34}{known:11.2f} s{building:14.2f} s")
    ratios = [a / b for a, b in zip(medians["lm_eval run"], medians["epidemia run"], strict=True)]
    print(f"  lm_eval run / epidemia run {ratios[0]:19.1f}{ratios[1]:16.1f}")


if __name__ == "__main__":
    main()
