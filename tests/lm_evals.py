"""Other lm-evals than the installed one: its own code, a small index, and one file changed."""

import os
import shutil
from pathlib import Path

import lm_eval
import yaml
from conftest import REPOSITORY

import lm_eval_epidemia

PACKAGE = Path(lm_eval_epidemia.__file__).parent
STARTUP = PACKAGE / "startup"

#: lm-eval's command line, with a model of somebody else: it knows how long everything is.
RUNNER = """
import lm_eval.evaluator
import lm_eval.models
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model


@register_model("steady")
class Steady(LM):
    def __init__(self, **options):
        super().__init__()

    def loglikelihood(self, requests, disable_tqdm=False):
        return [(-len(one.args[0]) / len(one.args[1]), False) for one in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [-1.0 * len(one.args[0]) for one in requests]

    def generate_until(self, requests, disable_tqdm=False):
        return [one.args[0][::-1] for one in requests]


cli_evaluate()
"""

#: By name: the lines of lm-eval's files that differ.
KINDS = yaml.safe_load((REPOSITORY / "tests/data/lm_evals.yaml").read_text())


def lm_eval_of(kind, folder):
    """Write an lm-eval with one task of its own into `folder`, and this package as a wheel has it.

    Returns the environment in which a new interpreter finds both, and the start-up module of this
    checkout instead of the one that was installed.
    """
    site, real = folder / "site", Path(lm_eval.__file__).parent
    package = site / "lm_eval"
    for part, changed in (
        ("", {"tasks", "config"}),
        ("tasks", {"manager.py"}),
        ("config", {"evaluate_config.py"}),
    ):
        (package / part).mkdir(parents=True)
        for entry in (real / part).iterdir():
            # Of the tasks, the modules only: the index shall be small.
            skipped = part == "tasks" and entry.suffix != ".py"
            if entry.name not in changed and entry.name != "__pycache__" and not skipped:
                (package / part / entry.name).symlink_to(entry)
    for name in ("tasks/manager.py", "config/evaluate_config.py"):
        text = (real / name).read_text()
        for swap in KINDS[kind]:
            if swap["file"] == name:
                assert text.count(swap["old"]) == 1, swap
                text = text.replace(swap["old"], swap["new"])
        (package / name).write_text(text)
    (package / "tasks" / "builtin.yaml").write_text("task: builtin\n")
    (site / "runner.py").write_text(RUNNER)
    ours = shutil.copytree(PACKAGE, site / "lm_eval_epidemia")
    for name in ("task_yamls", "groundtruth"):
        shutil.copytree(REPOSITORY / name, ours / name, dirs_exist_ok=True)
    return environment(site)


def environment(*first):
    """Return the environment with these folders, and this checkout's start-up module, in front."""
    given = os.environ.get("PYTHONPATH", "")
    folders = [*map(str, first), str(STARTUP), *filter(None, given.split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
