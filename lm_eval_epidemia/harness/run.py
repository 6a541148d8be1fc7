"""``epidemia run``: lm-eval's own command line, with an index of our tasks unless others are asked.

lm-eval indexes 14,000 task files before every run. When every requested task is ours, reading our
own is enough.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.harness.pin import check_lm_eval

__all__ = ["only_ours", "run"]


def only_ours(tasks: list[str]) -> bool:
    """Tell whether all requested tasks are named as ours are: no other index is needed."""
    return bool(tasks) and all(
        name.startswith("epidemia_") and not name.endswith(".yaml") for name in tasks
    )


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
    check_lm_eval()
    tasks = _requested()
    discovery.extend_models(lm_eval.models)
    if only_ours(tasks):
        if not any(argument.startswith("--include_path") for argument in arguments):
            for name in tasks:
                members(name)  # refuses a name that does not exist, or has no ground truth here
        # lm-eval looks the class up here for each run; it has no flag for leaving its index out.
        lm_eval.tasks.TaskManager = discovery.task_manager
    else:
        discovery.extend_tasks(lm_eval.tasks.manager)
    # Last: its import takes longest, and a misspelt task is refused before it.
    import lm_eval.evaluator

    discovery.extend_evaluator(lm_eval.evaluator)
    cli_evaluate()
