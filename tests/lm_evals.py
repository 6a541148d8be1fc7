"""Other lm-evals than the installed one: its own code, a small index, and one file changed."""

import os
import shutil
from pathlib import Path

import lm_eval
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

_SIGNATURE = """        self,
        verbosity: str | None = None,
        include_path: str | Path | list[str | Path] | None = None,
        include_defaults: bool = True,
        metadata: dict[str, dict[str, Any] | str] | None = None,
    ) -> None:"""
_CALL = """            include_path=self.include_path,
            metadata=self.metadata or {},
"""
_DEFAULTS = """            all_paths.append(Path(__file__).parent)
"""

#: As pull request #4015 has it: entry points name packages, whose folders are read always, after
#: lm-eval's own tasks and before the user's.
_SCAN = """
import functools, importlib.metadata as md, importlib.util


@functools.cache
def discover_plugin_task_paths():
    found = []
    for entry in md.entry_points(group="lm_eval.tasks"):
        spec = importlib.util.find_spec(entry.value)
        found.append(Path(spec.submodule_search_locations[0]).resolve())
    return found


class TaskManager:
"""


def _swap(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


#: By name: how `tasks/manager.py` and the call in `config/evaluate_config.py` differ.
KINDS = {
    "as installed": ([], []),
    "extra keyword": (
        [
            (_SIGNATURE, _SIGNATURE.replace("    ) ->", "        strict: bool = False,\n    ) ->")),
            ("        self.include_path = include_path\n", ""),
        ],
        [(_CALL, _CALL + "            strict=True,\n")],
    ),
    "extra keyword that is needed": (
        [(_SIGNATURE, _SIGNATURE.replace("self,", "self,\n        workers: int,"))],
        [(_CALL, "            2,\n" + _CALL)],
    ),
    "keywords only": ([(_SIGNATURE, _SIGNATURE.replace("self,", "self,\n        *,"))], []),
    "renamed": (
        [
            (_SIGNATURE, _SIGNATURE.replace("include_path:", "task_dirs:")),
            ("        self.include_path = include_path\n", "        include_path = task_dirs\n"),
        ],
        [(_CALL, _CALL.replace("include_path=", "task_dirs="))],
    ),
    "one path only": (
        [
            (
                "        self.include_path = include_path\n",
                "        if isinstance(include_path, list):\n"
                '            raise TypeError("include_path: one folder")\n'
                "        self.include_path = include_path\n",
            )
        ],
        [],
    ),
    "entry points": (
        [
            ("\nclass TaskManager:\n", _SCAN),
            # Not indented under "if include_defaults:": read with lm-eval's own tasks or without.
            (_DEFAULTS, _DEFAULTS + "        all_paths += discover_plugin_task_paths()\n"),
        ],
        [],
    ),
}


def lm_eval_of(kind, folder):
    """Write an lm-eval with one task of its own into `folder`, and this package as a wheel has it.

    Returns the environment in which a new interpreter finds both, and the start-up module of this
    checkout instead of the one that was installed.
    """
    manager, config = KINDS[kind]
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
    for name, pairs in (("tasks/manager.py", manager), ("config/evaluate_config.py", config)):
        (package / name).write_text(_swap((real / name).read_text(), *pairs))
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
