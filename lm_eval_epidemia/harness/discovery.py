"""How lm-eval comes to know our tasks and models.

Called by the start-up hook when lm-eval's modules are imported, by ``epidemia run``, and by
``lm_eval_epidemia.task_manager()``. Where lm-eval scans entry points itself, the hook does nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from lm_eval_epidemia import notices
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.harness.guard import checked, guarded
from lm_eval_epidemia.harness.yamls import task_path

__all__ = [
    "MODELS",
    "extend_evaluator",
    "extend_models",
    "extend_tasks",
    "forget_cached_requests",
    "task_manager",
]

#: Our models, as lm-eval's registry takes them: loaded when first used.
MODELS = {
    "epidemia-baseline": "lm_eval_epidemia.harness.baseline:Baseline",
    "choice-hf": "lm_eval_epidemia.harness.choice_hf:ChoiceHF",
    "choice-vllm": "lm_eval_epidemia.harness.choice_vllm:ChoiceVLLM",
}


def _scans_entry_points(module: ModuleType) -> bool:
    """Tell whether this lm-eval looks for plugins itself (0.4.13 does not)."""
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    return re.search(r"entry_points|plugin", source, re.IGNORECASE) is not None


def _listed(include_path: Any) -> list[Any]:
    """Write an ``include_path``, which may be None, one path or several, as a list."""
    paths = include_path if isinstance(include_path, (list, tuple)) else [include_path]
    return [path for path in paths if path]


def _ours(theirs: list[Any], metadata: Any) -> list[Path]:
    """Return our folder, unless the user named it too: lm-eval warns of every task seen twice."""
    try:
        variant = Variant.of(metadata)
    except EpidemiaError:
        variant = (
            Variant()
        )  # may be meant for somebody's tasks; ours refuse it when they are loaded
    try:
        ours = task_path(variant)
    except (EpidemiaError, OSError) as error:
        # Somebody may be running other tasks: a damaged ground truth must not stop them.
        notices.warn("tasks left out", f"our tasks cannot be offered to lm-eval: {error}")
        return []
    return [] if any(Path(path).resolve() == ours.resolve() for path in theirs) else [ours]


def extend_tasks(manager: ModuleType) -> None:
    """Make every ``TaskManager`` that indexes lm-eval's own tasks index ours too.

    Our folder comes after lm-eval's and before the user's ``include_path``, so that a user's task
    of the same name wins. ``TaskManager(include_defaults=False)`` stays without ours.

    Parameters
    ----------
    manager : module
        ``lm_eval.tasks.manager``.
    """
    if _scans_entry_points(manager) or hasattr(manager.TaskManager, "_epidemia"):
        return
    original = manager.TaskManager.__init__

    @functools.wraps(original)
    def __init__(
        self: Any,
        verbosity: Any = None,
        include_path: Any = None,
        include_defaults: bool = True,
        metadata: Any = None,
    ) -> None:
        paths = _listed(include_path)
        if include_defaults:
            paths = [*_ours(paths, metadata), *paths]
        original(self, verbosity, paths, include_defaults, metadata)
        self.include_path = include_path

    manager.TaskManager.__init__ = __init__
    manager.TaskManager._epidemia = True


def extend_models(_models: ModuleType | None = None) -> None:
    """Enter our models in lm-eval's registry.

    Parameters
    ----------
    _models : module, optional
        ``lm_eval.models``, whose import fills the registry first.
    """
    from lm_eval.api.registry import model_registry

    if _models is not None and _scans_entry_points(_models):
        return
    for name, target in MODELS.items():
        if name not in model_registry:
            model_registry.register(name, target=target)


def extend_evaluator(evaluator: Any) -> None:
    """Guard the answers to our prompts, see `harness.guard`.

    Parameters
    ----------
    evaluator : module
        ``lm_eval.evaluator``.
    """
    if not hasattr(evaluator, "_epidemia"):
        evaluator.simple_evaluate = checked(evaluator.simple_evaluate)
        evaluator.evaluate = guarded(evaluator.evaluate)
        evaluator._epidemia = True


def task_manager(**kwargs: Any) -> Any:
    """Return a ``TaskManager`` with our tasks only, plus the user's ``include_path``.

    Parameters
    ----------
    **kwargs
        As ``lm_eval.tasks.TaskManager`` takes them.
    """
    import lm_eval.evaluator
    import lm_eval.models
    from lm_eval.tasks.manager import TaskManager

    extend_models(lm_eval.models)
    extend_evaluator(lm_eval.evaluator)
    theirs = _listed(kwargs.pop("include_path", None))
    kwargs.setdefault("include_defaults", False)
    ours = task_path(Variant.of(kwargs.get("metadata")))
    return TaskManager(include_path=[ours, *theirs], **kwargs)


def forget_cached_requests(tasks: Iterable[str]) -> None:
    """Delete what ``lm_eval --cache_requests`` stored for some tasks.

    lm-eval keys that cache by task name, so after a change of ground truth it would pair old
    prompts with new cells without noticing.
    """
    from lm_eval.caching.cache import delete_cache

    for name in tasks:
        delete_cache(f"requests-{name}-")
