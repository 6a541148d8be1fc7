"""Shell completion: names of tasks, groups and surveys."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from typer import Context

from lm_eval_epidemia.core import paths


def _of_list(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Offer names for the last of a list such as ``A,B``."""

    def offered(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = sorted(name for name in names() if name.startswith(last))
        return [f"{before}{comma}{name}" for name in known]

    return offered


def _surveys() -> Iterable[str]:
    from lm_eval_epidemia.surveys.catalogue import records

    return records()


def _tasks() -> Iterable[str]:
    """Return shipped and declared tasks, without the benchmarks, which take a second to load."""
    from lm_eval_epidemia.surveys.catalogue import all_tasks, own_surveys
    from lm_eval_epidemia.surveys.fresh import FreshTask

    shipped = (file.stem for file in paths.shipped_task_yamls().rglob("epidemia_*.yaml"))
    tasks = all_tasks()
    fresh = (task.part for task in tasks.values() if isinstance(task, FreshTask))
    return {*shipped, *tasks, *fresh, *(f"epidemia_{name}" for name in own_surveys())}


def _models() -> Iterable[str]:
    return ("choice-api", "choice-hf", "choice-vllm", "epidemia-baseline", "hf", "vllm")


surveys = _of_list(_surveys)
tasks = _of_list(_tasks)
names = _of_list(lambda: [*_tasks(), *_surveys()])


def of_lm_eval(context: Context, incomplete: str) -> list[str]:
    """Offer what follows ``--tasks`` and ``--model`` of `epidemia run`."""
    option = ["", *(context.params.get("arguments") or [])][-1]
    offered = {"--tasks": tasks, "-t": tasks, "--model": _of_list(_models), "-M": _of_list(_models)}
    return offered[option](incomplete) if option in offered else []
