"""``epidemia demo``: baselines, and a tiny random transformer where torch is, through lm-eval."""

from __future__ import annotations

import json
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.elicit.splits import split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.harness.tiny import make_tiny_llama
from lm_eval_epidemia.paths import atomic_write, check_writable

__all__ = ["DEMO_GROUPS", "Line", "demo"]

DEMO_GROUPS = ("epidemia_low", "epidemia_high")

#: The survey whose tasks the tiny transformer answers.
TINY_SURVEY = "nsduh"

#: Respondents of the demonstration, best first.
RESPONDENTS: dict[str, dict[str, Any]] = {
    "truth": {"kind": "truth"},
    "noisy (0.3)": {"kind": "noisy", "noise": 0.3},
    "noisy (1)": {"kind": "noisy", "noise": 1.0},
    "mean": {"kind": "mean"},
    "zero_one": {"kind": "zero_one"},
    "uniform": {"kind": "uniform"},
}


#: The tasks whose samples are kept, so that the site of the demonstration shows their conditions.
KEPT = (
    "epidemia_low_nsduh_marijuana_ever_by_age",
    "epidemia_low_gss_political_view_by_age",
    "epidemia_low_scf_net_worth_by_education",
    "epidemia_high_nsduh_marijuana_ever_by_age_sex",
    "epidemia_high_scf_home_ownership_by_age_race",
)


class Line(NamedTuple):
    """One line of the leaderboard: a respondent and its (score, standard error) by group."""

    respondent: str
    scores: dict[str, tuple[float, float]]


def _evaluate(name: str, out: Path, groups: list[str], **arguments: Any) -> Line:
    from lm_eval import simple_evaluate
    from lm_eval.utils import handle_non_serializable

    manager = discovery.task_manager()
    results = simple_evaluate(tasks=groups, task_manager=manager, log_samples=False, **arguments)
    folder = out / re.sub(r"\W+", "_", name).strip("_")
    with atomic_write(folder / "results_demo.json") as temporary:
        temporary.write_text(json.dumps(results, indent=2, default=handle_non_serializable))
    # Asked again: with the samples of every task, lm-eval would need many times the memory.
    kept = [task for task in KEPT if task in results["results"]]
    samples = simple_evaluate(tasks=kept, task_manager=manager, **arguments)["samples"]
    for task, found in samples.items():
        lines = (json.dumps(sample, default=handle_non_serializable) for sample in found)
        with atomic_write(folder / f"samples_{task}_demo.jsonl") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Line(
        name,
        {
            group: (results["results"][group]["score,none"],
                    results["results"][group]["score_stderr,none"])
            for group in groups
        },
    )  # fmt: skip


def demo(out: Path, limit: int | None = None) -> list[Line]:
    """Evaluate the demonstration's respondents on the available tasks of both groups.

    Parameters
    ----------
    out : Path
        Folder for lm-eval's results, one file per respondent.
    limit : int, optional
        Prompts per task for the tiny transformer; all of them by default.

    Returns
    -------
    list of Line
        The transformer is there only where torch and transformers are installed. It answers the
        tasks of one survey: on a CPU, all 73,000 prompts would take it a quarter of an hour.

    Raises
    ------
    EpidemiaError
        If `out` cannot be written; before anything is evaluated, where that can be known.
    """
    check_writable(out)
    available = store.available()
    groups = [g for g in DEMO_GROUPS if any(name.startswith(f"{g}_") for name in available)]
    lines = []
    for name, arguments in track(RESPONDENTS.items(), "baselines", console=Console(stderr=True)):
        lines.append(
            _evaluate(name, out, groups, model="epidemia-baseline", model_args=dict(arguments))
        )
    if find_spec("torch") and find_spec("transformers"):
        task = next(name for name in available if name.startswith(f"epidemia_high_{TINY_SURVEY}"))
        with (
            tempfile.TemporaryDirectory(prefix="epidemia-") as folder,
            Console(stderr=True).status("a tiny random transformer through lm-eval's hf backend"),
        ):
            tiny = make_tiny_llama(Path(folder) / "tiny-random-llama", split(task)["prompt"])
            model = {"pretrained": str(tiny), "dtype": "float32"}
            line = _evaluate(
                f"tiny random Llama (hf), {TINY_SURVEY} only", out,
                [f"{group}_{TINY_SURVEY}" for group in groups], model="hf", model_args=model,
                device="cpu", batch_size=64, limit=limit,
            )  # fmt: skip
            lines.append(
                Line(line.respondent, dict(zip(groups, line.scores.values(), strict=True)))
            )
    return lines
