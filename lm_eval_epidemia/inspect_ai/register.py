"""Files for the register of community evals (inspect_evals): one per task, at a pinned commit.

``tests/data/inspect_register.schema.json`` is its schema.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from lm_eval_epidemia.ask.orderings import design_of, orderings
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import store

#: The commit is of this folder.
CHECKOUT = Path(__file__).parents[2]

#: Stand for the commit outside of a checkout, and for the public address where it has none.
UNKNOWN, NOWHERE = "COMMIT", "https://github.com/OWNER/lm-eval-epidemia"

#: Of the orderings of letters, unless others are asked for: each answer once in each position.
BALANCED = "balanced"

#: By task: what is known of the people asked about.
KNOWN = {"epidemia_low": "one condition", "epidemia_high": "two to five conditions"}


def write_register(folder: Path) -> str:
    """Write ``<task>/eval.yaml`` for each task.

    Parameters
    ----------
    folder : Path
        That of a checkout of inspect_evals, ``register``, or any other.

    Returns
    -------
    str
        The remaining steps.

    Raises
    ------
    EpidemiaError
        If a different entry exists, since it may have been edited.
    """
    commit = _git("rev-parse", "HEAD") or UNKNOWN
    origin = _git("remote", "get-url", "origin").removesuffix(".git")
    address = origin if urlsplit(origin).scheme == "https" else NOWHERE
    texts = {}
    for task, known in KNOWN.items():
        path, entry = folder / task / "eval.yaml", _entry(task, known, address, commit)
        texts[path] = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1000)
        if path.is_file() and path.read_text(encoding="utf-8") != texts[path]:
            raise EpidemiaError(
                f"{path} exists and differs from the new version: delete it, or give another folder"
            )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    left = f"push commit {commit[:12]} before you submit them"
    if commit == UNKNOWN:
        left = f"replace {UNKNOWN} with the public commit, since {CHECKOUT} is not a git checkout"
    if address == NOWHERE:
        left += ", and replace OWNER with the owner of the public repository"
    return f"{len(KNOWN)} entries of the register are in {folder.resolve()}: {left}"


def _entry(task: str, known: str, address: str, commit: str) -> dict[str, object]:
    owner = urlsplit(address).path.split("/")[1]
    return {
        "full_title": f"Epidemia: Survey Distributions Given {known.title()}",
        "common_title": task,
        "paper_title": "Epidemiology of Large Language Models: A Benchmark for Observational "
        "Distribution Knowledge",
        "description": "Tests whether a language model knows how often things happen: its answers "
        f"to multiple-choice questions about people, given {known}, are read as probabilities and "
        "compared with what large US surveys found, from 0 (knows nothing) to 100 (cannot be told "
        "from the survey), with standard errors from the surveys' replicates.",
        "arxiv": "https://arxiv.org/abs/2511.03070",
        "source": {
            "repository_url": address,
            "repository_commit": commit,
            "maintainers": [owner],
            "comment": f"lm-eval-epidemia {__version__}, task version "
            f"{OBSERVATION.groups_version}; install the extra: pip install '.[inspect]'",
        },
        "contributors": [owner],
        "tasks": [
            {
                "name": task,
                "dataset_samples": _size(task),
                "task_path": "lm_eval_epidemia/inspect_ai/tasks.py",
            }
        ],
        "tags": ["surveys", "probability", "calibration", "logprobs"],
    }


def _size(group: str) -> int:
    """Return how many samples the task has as the package ships."""
    places, size = store.list_available(), 0
    for entry in OBSERVATION.asked("letters"):
        if entry.group == group and places[entry.name].state == "shipped":
            truth = store.load_truth(entry.name)
            levels = len(truth.levels)
            size += len(truth.given) * len(orderings(levels, design_of(levels, BALANCED)))
    return size


def _git(*arguments: str) -> str:
    """Return what git says of the checkout; nothing where it says nothing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(CHECKOUT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
