"""``epidemia demo``: baselines, and models (a tiny random one, where torch is), through lm-eval."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import atomic_write, check_writable
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.models.loading import Given, check_model
from lm_eval_epidemia.models.tiny import make_tiny_llama

DEMO_GROUPS = ("epidemia_low", "epidemia_high")

#: The survey whose tasks models answer.
SURVEY = "nsduh"

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
    baseline = arguments["model"] == "epidemia-baseline"
    results = simple_evaluate(
        tasks=groups, task_manager=manager, log_samples=not baseline, **arguments
    )
    folder = out / re.sub(r"\W+", "_", name).strip("_")
    samples = results.pop("samples", {})
    with atomic_write(folder / "results_demo.json") as temporary:
        temporary.write_text(json.dumps(results, indent=2, default=handle_non_serializable))
    kept = [task for task in KEPT if task in results["results"]]
    if baseline:
        # Asked again: with the samples of every task, lm-eval would need many times the memory.
        samples = simple_evaluate(tasks=kept, task_manager=manager, **arguments)["samples"]
    for task in kept:
        lines = (json.dumps(sample, default=handle_non_serializable) for sample in samples[task])
        with atomic_write(folder / f"samples_{task}_demo.jsonl") as temporary:
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Line(
        name,
        {
            group: (
                results["results"][group]["score,none"],
                results["results"][group]["score_stderr,none"],
            )
            for group in groups
        },
    )


def _asked(name: str, out: Path, groups: list[str], **arguments: Any) -> Line:
    """Evaluate a model on the tasks of one survey, whose scores stand for the groups' here."""
    line = _evaluate(
        f"{name}, {SURVEY} only", out, [f"{group}_{SURVEY}" for group in groups], **arguments
    )
    return Line(line.respondent, dict(zip(groups, line.scores.values(), strict=True)))


class _Model(NamedTuple):
    """A model that the user names: the line's name, where it lies, whether it has a template."""

    name: str
    given: Given
    chat: bool


def _models(named: Sequence[str]) -> list[_Model]:
    """Check the models that the user names, before anything is evaluated."""
    if twice := sorted({one for one in named if list(named).count(one) > 1}):
        raise EpidemiaError(f"--model {twice[0]} is given more than once")
    short = [Path(one).name for one in named]
    found = []
    for one, name in zip(named, short, strict=True):
        given = Given.of(one)
        found.append(_Model(one if short.count(name) > 1 else name, given, check_model(given)))
    return found


def _ask(model: _Model, out: Path, groups: list[str], limit: int | None) -> Line:
    """Let a model answer through choice-hf, in its chat template if it has one."""
    import torch

    gpu = torch.cuda.is_available()
    arguments = {"pretrained": model.given.pretrained, "dtype": "auto" if gpu else "float32"}
    if model.given.gguf_file:
        arguments["gguf_file"] = model.given.gguf_file
    return _asked(
        f"{model.name} (choice-hf{', chat' if model.chat else ''})",
        out,
        groups,
        model="choice-hf",
        model_args=arguments,
        device="cuda" if gpu else "cpu",
        batch_size="auto" if gpu else 16,
        apply_chat_template=model.chat,
        limit=limit,
    )


def _ask_tiny(out: Path, groups: list[str], limit: int | None) -> Line:
    task = next(name for name in store.available() if name.startswith(f"epidemia_high_{SURVEY}"))
    with (
        tempfile.TemporaryDirectory(prefix="epidemia-") as folder,
        Console(stderr=True).status("a tiny random transformer through lm-eval's hf backend"),
    ):
        tiny = make_tiny_llama(Path(folder) / "tiny-random-llama", split(task)["prompt"])
        return _asked(
            "tiny random Llama (hf)",
            out,
            groups,
            model="hf",
            model_args={"pretrained": str(tiny), "dtype": "float32"},
            device="cpu",
            batch_size=64,
            limit=limit,
        )


def demo(out: Path, limit: int | None = None, models: Sequence[str] = ()) -> list[Line]:
    """Evaluate the demonstration's respondents on the available tasks of both groups.

    Parameters
    ----------
    out : Path
        Folder for lm-eval's results, one file per respondent.
    limit : int, optional
        Prompts per task for models; all of them by default.
    models : sequence of str
        Folders, ``.gguf`` files or ids of the Hugging Face Hub. Each answers through `choice-hf`,
        on a GPU if there is one, in its chat template if it has one.

    Returns
    -------
    list of Line
        Where no model is named, and torch and transformers are installed, the last is of a tiny
        random transformer. Models answer the tasks of one survey: on a CPU, all 73,000 prompts
        would take even the tiny one a quarter of an hour.

    Raises
    ------
    EpidemiaError
        If `out` cannot be written, or a model cannot be read; before anything is evaluated, where
        that can be known.
    """
    named = _models(models)
    check_writable(out)
    available = store.available()
    groups = [g for g in DEMO_GROUPS if any(name.startswith(f"{g}_") for name in available)]
    lines = []
    for name, arguments in track(RESPONDENTS.items(), "baselines", console=Console(stderr=True)):
        lines.append(
            _evaluate(name, out, groups, model="epidemia-baseline", model_args=dict(arguments))
        )
    for model in named:
        Console(stderr=True).print(f"{model.given} through choice-hf", highlight=False)
        lines.append(_ask(model, out, groups, limit))
    if not named and find_spec("torch") and find_spec("transformers"):
        lines.append(_ask_tiny(out, groups, limit))
    return lines
