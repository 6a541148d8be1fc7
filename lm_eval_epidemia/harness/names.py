"""What a name on the command line means: a task, a group, a survey or a pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase

from lm_eval_epidemia.elicit.modes import MODES, Mode, asks, in_mode
from lm_eval_epidemia.errors import EpidemiaError, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.yamls import GROUPS
from lm_eval_epidemia.surveys.record import Task, all_tasks

__all__ = ["members"]


def _names(task: Task, mode: Mode) -> list[str]:
    """Under what names a task is asked in one way: its own and those of its groups."""
    return [in_mode(one, mode) for one in (task.name, task.group, f"{task.group}_{task.survey}")]


def members(name: str) -> list[tuple[str, Mode]]:
    """Spell out a name as the available tasks it means, and their way of asking.

    Parameters
    ----------
    name : str
        A task or group as lm-eval names it, a pattern (``epidemia_low_*``), or a survey: its tasks
        with letters.

    Returns
    -------
    list of (str, str)
        Name of the task without suffix, and the mode; at least one.

    Raises
    ------
    EpidemiaError
        If nothing is named so (with the nearest names), or no truth of it is here (with what it
        needs).
    """
    asked = [
        (task, mode, {*_names(task, mode), *([task.survey] if mode == "letters" else [])})
        for mode in MODES
        for task in all_tasks().values()
        if asks(mode, task)
    ]
    available = store.available()
    meant = [
        (task.name, mode)
        for task, mode, names in asked
        if any(fnmatchcase(one, name) for one in names)
    ]
    found = [(task, mode) for task, mode in meant if task in available]
    if found:
        return found
    if len(meant) == 1:
        store.load(meant[0][0])  # raises, and says which file is needed
    if meant or name in {in_mode(group, mode) for group in GROUPS for mode in MODES}:
        raise EpidemiaError(f"{name} has no available task; see 'epidemia tasks list'")
    known = {one for task, _, names in asked if task.name in available for one in names}
    raise EpidemiaError(f"no task or group {name!r} ({nearest(name, known)})")
