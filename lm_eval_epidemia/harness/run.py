"""``epidemia run``: lm-eval's command line, indexing only our tasks unless others are requested.

lm-eval indexes 14,000 task files before every run. If every requested task is ours, reading ours is
enough.
"""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import extract_tb

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import discovery
from lm_eval_epidemia.harness.discovery import check_lm_eval

#: Where lm-eval refuses what it was given, with a traceback: folders (of its tasks, those who read
#: them and not what is below) and files.
_ARGUMENTS = ("_cli", "config", "tasks", "api/registry.py", "api/model.py")


def has_only_ours(tasks: list[str]) -> bool:
    """Tell whether all requested tasks have names like ours, so that no other index is needed."""
    return bool(tasks) and all(
        name.startswith("epidemia_") and not name.endswith(".yaml") for name in tasks
    )


def _configured(path: str) -> str | list[str] | None:
    """Return the tasks of lm-eval's --config file."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    try:
        tasks = EvaluatorConfig.load_yaml_config(path).get("tasks")
    except (OSError, TypeError, ValueError) as error:
        raise EpidemiaError(f"--config {path}: {' '.join(str(error).split())}") from None
    listed = tasks if isinstance(tasks, list) else [tasks or ""]
    if not all(isinstance(name, str) for name in listed):
        raise EpidemiaError(
            f"--config {path} has tasks: {tasks!r}: expected a list such as [epidemia_low]"
        )
    return tasks


def _requested() -> list[str]:
    """Read the requested tasks from ``sys.argv``, with lm-eval's parser and its --config file."""
    from lm_eval._cli import HarnessCLI

    try:
        parsed = HarnessCLI().parse_args()
    except ValueError as error:  # braces that are no JSON
        raise EpidemiaError(str(error)) from None
    tasks = parsed.tasks
    if parsed.config and tasks is None:
        tasks = _configured(parsed.config)
    listed = [tasks] if isinstance(tasks, str) else tasks
    if not listed or not any(name.strip() for name in listed):
        raise EpidemiaError(
            f"--tasks {','.join(listed or [])!r}: expected names such as epidemia_low,epidemia_high"
        )
    return split_names(listed)


def _is_of_arguments(error: BaseException) -> bool:
    """Tell whether an error came out of lm-eval's reading of its arguments, not out of a model."""
    import lm_eval

    raised_in = Path(extract_tb(error.__traceback__)[-1].filename)
    places = [Path(lm_eval.__file__).parent / name for name in _ARGUMENTS]
    return raised_in in places or raised_in.parent in places


def run_lm_eval(arguments: list[str]) -> None:
    """Run lm-eval with the given command-line arguments.

    Parameters
    ----------
    arguments : list of str
        As they would follow ``lm_eval run``.
    """
    import lm_eval.models
    import lm_eval.tasks
    from lm_eval.__main__ import cli_evaluate

    sys.argv = ["lm_eval", "run", *arguments]
    check_lm_eval()
    tasks = _requested()
    discovery.extend_models(lm_eval.models)
    if has_only_ours(tasks):
        if not any(argument.startswith("--include_path") for argument in arguments):
            for name in tasks:
                find_tasks(name)  # refuses a name that does not exist, or has no ground truth here
        # lm-eval looks the class up here for each run; it has no flag for leaving its index out.
        lm_eval.tasks.TaskManager = discovery.task_manager
    else:
        discovery.extend_tasks(lm_eval.tasks.manager)
    # Last: its import takes longest, and a misspelt task is refused before it.
    import lm_eval.evaluator

    discovery.extend_evaluator(lm_eval.evaluator)
    try:
        cli_evaluate()
    except (TypeError, ValueError) as error:
        if isinstance(error, EpidemiaError) or not _is_of_arguments(error):
            raise
        raise EpidemiaError(str(error)) from None
