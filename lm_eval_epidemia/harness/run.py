"""``epidemia run``: lm-eval's own command line, with an index of our tasks unless others are asked.

lm-eval indexes 14,000 task files before every run. When every requested task is ours, reading our
own is enough.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch

import yaml

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
        if name in all_tasks():
            store.load(name)  # raises, and says which file is needed
        if name in GROUPS:
            raise EpidemiaError(f"{name} has no available task; see 'epidemia tasks list'")
        raise EpidemiaError(f"no task or group {name!r} ({nearest(name, known)})")


def _requested(arguments: list[str]) -> list[str]:
    """Read --tasks from lm-eval arguments, with lm-eval's own parser and its --config file."""
    from lm_eval._cli import HarnessCLI

    parsed = HarnessCLI()._parser.parse_args(["run", *arguments])
    tasks = parsed.tasks
    if not tasks and parsed.config:
        with open(parsed.config, encoding="utf-8") as file:  # noqa: PTH123
            tasks = (yaml.safe_load(file) or {}).get("tasks")
    tasks = tasks or []
    listed = tasks if isinstance(tasks, list) else [tasks]
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

    tasks = _requested(arguments)
    discovery.extend_models(lm_eval.models)
    if only_ours(tasks):
        check_tasks(tasks)
        # lm-eval looks the class up here for each run; it has no flag for leaving its index out.
        lm_eval.tasks.TaskManager = discovery.task_manager
    else:
        discovery.extend_tasks(lm_eval.tasks.manager)
    sys.argv = ["lm_eval", "run", *arguments]
    cli_evaluate()
