"""``epidemia run``: lm-eval's own command line, with an index of our tasks unless others are asked.

lm-eval indexes 14,000 task files before every run. When every requested task is ours, reading our
own is enough.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path

import yaml

from lm_eval_epidemia.elicit.modes import MODES, asks, in_mode
from lm_eval_epidemia.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.harness.yamls import GROUPS, task_path
from lm_eval_epidemia.surveys.record import all_tasks

__all__ = ["check_tasks", "only_ours", "run"]


def _known() -> set[str]:
    """Names of the groups and tasks available here."""
    return {path.stem for path in task_path().glob("**/*.yaml")}


def only_ours(tasks: list[str]) -> bool:
    """Tell whether all requested tasks are named as ours are: no other index is needed."""
    return bool(tasks) and all(
        name.startswith("epidemia_") and not name.endswith(".yaml") for name in tasks
    )


def check_tasks(tasks: list[str]) -> None:
    """Refuse a task name of ours that does not exist or has no ground truth, saying what to do."""
    known = _known()
    for name in tasks:
        if any(fnmatch(one, name) for one in known):
            continue
        for mode in MODES:
            for task in all_tasks().values():
                if name == in_mode(task.name, mode) and asks(mode, task):
                    store.load(task.name)  # raises, and says which file is needed
        if name in {in_mode(group, mode) for group in GROUPS for mode in MODES}:
            raise EpidemiaError(f"{name} has no available task; see 'epidemia tasks list'")
        raise EpidemiaError(f"no task or group {name!r} ({nearest(name, known)})")


def _requested() -> list[str]:
    """Read the requested tasks from ``sys.argv``, with lm-eval's parser and its --config file."""
    from lm_eval._cli import HarnessCLI

    parsed = HarnessCLI().parse_args()
    tasks = parsed.tasks
    if not tasks and parsed.config and Path(parsed.config).is_file():
        tasks = (yaml.safe_load(Path(parsed.config).read_text(encoding="utf-8")) or {}).get("tasks")
    listed = tasks if isinstance(tasks, list) else [tasks] if tasks else []
    return [name for item in listed for name in str(item).split(",") if name]


def run(arguments: list[str]) -> None:
    """Run lm-eval with the given command-line arguments.

    Parameters
    ----------
    arguments : list of str
        What would follow ``lm_eval run``.
    """
    import lm_eval.models
    import lm_eval.tasks
    from lm_eval.__main__ import cli_evaluate

    sys.argv = ["lm_eval", "run", *arguments]
    tasks = _requested()
    discovery.extend_models(lm_eval.models)
    if only_ours(tasks):
        if not any(argument.startswith("--include_path") for argument in arguments):
            check_tasks(tasks)
        # lm-eval looks the class up here for each run; it has no flag for leaving its index out.
        lm_eval.tasks.TaskManager = discovery.task_manager
    else:
        discovery.extend_tasks(lm_eval.tasks.manager)
    # Last: its import takes longest, and a misspelt task is refused before it.
    import lm_eval.evaluator

    discovery.extend_evaluator(lm_eval.evaluator)
    cli_evaluate()
