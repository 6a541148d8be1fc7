"""Makes our tasks and models known to lm-eval.

Called by the start-up hook when lm-eval's modules are imported, by ``epidemia run``, and by
``lm_eval_epidemia.task_manager()``. Other people's runs pass through here too: they are left
unchanged, and our own failures are only warnings.
"""

from __future__ import annotations

import functools
import gc
import inspect
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import ModuleType
from typing import Any

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import REGISTRY
from lm_eval_epidemia.harness.yamls import task_path

#: Our models, in the form of lm-eval's registry: loaded when first used.
MODELS = {
    "epidemia-baseline": "lm_eval_epidemia.models.baseline:Baseline",
    "choice-hf": "lm_eval_epidemia.models.choice_hf:ChoiceHF",
    "choice-api": "lm_eval_epidemia.models.choice_api:ChoiceAPI",
    "choice-decide": "lm_eval_epidemia.models.choice_decide:ChoiceDecide",
    "choice-vllm": "lm_eval_epidemia.models.choice_vllm:ChoiceVLLM",
}


def _list_paths(include_path: Any) -> list[Any]:
    """Write an ``include_path``, which may be None, one path or several, as a list."""
    if not include_path:
        return []
    return list(include_path) if isinstance(include_path, (list, tuple)) else [include_path]


def _knows(manager: Any, folder: Path) -> bool:
    """Tell whether a built ``TaskManager`` has tasks from a folder."""
    # lm-eval 0.5 keeps the index to itself.
    index = getattr(manager, "task_index", None) or getattr(manager, "_task_index", {})
    files = (getattr(entry, "yaml_path", None) for entry in index.values())
    return any(folder.resolve() in Path(file).resolve().parents for file in files if file)


@contextmanager
def _unsaid(of: Callable[[str], bool]) -> Iterator[None]:
    """Keep lm-eval, in this thread, from logging some of what it meets while it indexes tasks."""
    thread = threading.get_ident()

    def is_shown(entry: logging.LogRecord) -> bool:
        return entry.thread != thread or not of(entry.getMessage())

    loggers = [logging.getLogger(f"lm_eval.tasks.{name}") for name in ("manager", "_index")]
    for logger in loggers:
        logger.addFilter(is_shown)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_shown)


def _replaced_by_us(message: str) -> bool:
    """Tell whether lm-eval warns that a file written here takes the place of the one that ships."""
    folders = paths.shipped_task_yamls(), paths.home() / "task_yamls"
    return all(f"{folder}{os.sep}" in message for folder in folders)


def _warn_left_out(error: Exception) -> None:
    """Say why our tasks are missing: somebody may be running others, and must not be stopped."""
    reason = str(error)
    if not isinstance(error, EpidemiaError):
        reason = f"{type(error).__name__}: {(reason.splitlines() or [''])[0]}"
        with suppress(Exception):  # where even the name of the folder cannot be told
            if (registry := store.built_groundtruth() / REGISTRY).exists():
                reason += f". {registry} may be damaged: move it elsewhere"
        reason += ", or silence this with EPIDEMIA_AUTOLOAD=0"
    notices.warn("tasks left out", f"our tasks could not be added to lm-eval: {reason}")


def extend_tasks(manager: ModuleType) -> None:
    """Make every ``TaskManager`` that indexes lm-eval's tasks index ours too.

    Our folder comes after lm-eval's and before the user's ``include_path``, so that a user's task
    of the same name wins. ``TaskManager(include_defaults=False)`` is unchanged, and so is a manager
    that finds our current folder by itself. A manager that finds the shipped files through an entry
    point gets the user's own files, or those of a variant, in their place.

    Parameters
    ----------
    manager : module
        ``lm_eval.tasks.manager``.
    """
    original = manager.TaskManager.__init__
    if hasattr(original, "_epidemia"):
        return
    signature = inspect.signature(original)
    if not {"include_path", "include_defaults"} <= signature.parameters.keys():
        notices.warn(
            "tasks left out",
            f"lm-eval has a TaskManager{signature} that we do not know: give --include_path "
            '"$(epidemia path)"',
        )
        return

    def finds_unaided(given: inspect.BoundArguments, folder: Path) -> bool:
        """Tell whether lm-eval finds a folder by itself; 0.4.13 does not."""
        bare = object.__new__(manager.TaskManager)
        needed = {
            name: value
            for name, value in given.arguments.items()
            if signature.parameters[name].default is inspect.Parameter.empty
        }
        needed |= {next(iter(needed)): bare, "include_defaults": False}
        alone = inspect.BoundArguments(signature, needed)
        try:
            with _unsaid(lambda message: True):
                original(*alone.args, **alone.kwargs)
            return _knows(bare, folder)
        except Exception:
            return False  # it cannot be asked this way; with our folder it may still work

    def with_ours(given: inspect.BoundArguments) -> list[Any] | None:
        """Return the paths to index, including ours; None if there is nothing to add."""
        defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
        asked = {**defaults, **given.arguments}
        if not asked["include_defaults"]:
            return None
        try:
            variant = Variant.of(asked.get("metadata"))
        except Exception:  # meant for other tasks; ours refuse it when they are loaded
            variant = Variant()
        ours, theirs = task_path(variant), _list_paths(asked["include_path"])
        # lm-eval warns of every task seen twice.
        named = any(Path(path).resolve() == ours.resolve() for path in theirs)
        return None if named or finds_unaided(given, ours) else [ours, *theirs]

    def built(self: Any, given: inspect.BoundArguments) -> bool:
        """Build a manager with our folder; return whether that succeeded."""
        try:
            if (offered := with_ours(given)) is None:
                return False
            asked = given.arguments.get("include_path")
            given.arguments["include_path"] = offered
            with _unsaid(_replaced_by_us):
                original(*given.args, **given.kwargs)
            if getattr(self, "include_path", None) is offered:
                self.include_path = asked
            return True
        except Exception as error:
            _warn_left_out(error)
            return False

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with pause_collector():
            with suppress(TypeError):  # of the caller: lm-eval complains of it below
                given = signature.bind(self, *args, **kwargs)
                if built(self, given):
                    return
            original(self, *args, **kwargs)

    __init__._epidemia = True  # type: ignore[attr-defined]
    manager.TaskManager.__init__ = __init__


def extend_models(_models: ModuleType | None = None) -> None:
    """Add our models to lm-eval's registry, except those it already knows (from entry points).

    Parameters
    ----------
    _models : module, optional
        ``lm_eval.models``, whose import fills the registry first.
    """
    from lm_eval.api.registry import model_registry

    for name, target in MODELS.items():
        if name not in model_registry:
            model_registry.register(name, target=target)


def extend_evaluator(evaluator: Any) -> None:
    """Guard the answers to our prompts (`harness.guard`) and explain missing tasks.

    Parameters
    ----------
    evaluator : module
        ``lm_eval.evaluator``.
    """
    if not hasattr(evaluator.evaluate, "_epidemia"):
        # They take longer to import than our tasks to index, which is all that `lm_eval ls` needs.
        from lm_eval_epidemia.harness.arguments import wrap_process_tasks, wrap_simple_evaluate
        from lm_eval_epidemia.harness.guard import wrap_evaluate

        with suppress(ImportError, AttributeError):  # another lm-eval reads --tasks elsewhere
            from lm_eval.config.evaluate_config import EvaluatorConfig

            if not hasattr(EvaluatorConfig.process_tasks, "__wrapped__"):
                EvaluatorConfig.process_tasks = wrap_process_tasks(EvaluatorConfig.process_tasks)
        evaluator.simple_evaluate = wrap_simple_evaluate(evaluator.simple_evaluate)
        evaluator.evaluate = wrap_evaluate(evaluator.evaluate)
        evaluator.evaluate._epidemia = True
        program = Path(sys.argv[0])  # a script called lm_eval, or lm_eval/__main__.py
        if {program.stem, program.parent.name} & {"lm_eval", "lm-eval"}:
            sys.excepthook = _in_a_line(sys.excepthook)


def _in_a_line(usual: Callable[..., None]) -> Callable[..., None]:
    """Let the command `lm_eval` end with our errors as `epidemia` does: without a traceback."""

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, EpidemiaError):
            print(f"error: {error}", file=sys.stderr)
        else:
            usual(kind, error, trace)

    return hook


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
    theirs = _list_paths(kwargs.pop("include_path", None))
    kwargs.setdefault("include_defaults", False)
    ours = task_path(Variant.of(kwargs.get("metadata")))
    if not theirs and not kwargs["include_defaults"]:
        # Nothing to read in 0.4.13. A later lm-eval may find our tasks itself: once is enough.
        unaided = TaskManager(**kwargs)
        if _knows(unaided, ours):
            return unaided
    with _unsaid(_replaced_by_us):
        return TaskManager(include_path=[ours, *theirs], **kwargs)


def find_pin() -> Any:
    """Return this package's requirement of lm-eval (a `packaging` Requirement), without extras.

    None if the package runs from a checkout that is not installed.
    """
    from packaging.requirements import Requirement

    try:
        needed = map(Requirement, requires("lm-eval-epidemia") or ())
    except PackageNotFoundError:
        return None
    return next((pin for pin in needed if pin.name == "lm-eval" and not pin.extras), None)


@functools.cache
def check_lm_eval() -> None:
    """Warn once if the installed lm-eval is not the version that this package requires.

    ``tests/test_pin.py`` checks what can differ.
    """
    try:
        pin, installed = find_pin(), version("lm-eval")
    except PackageNotFoundError:
        return  # lm-eval from a checkout that is not installed
    if pin and not pin.specifier.contains(installed, True):
        notices.warn(
            "lm-eval",
            f"lm-eval {installed} is installed, but results need {pin}: pip install '{pin}'",
        )


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the collector in a block; restore its state afterwards."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def resume_collector() -> Iterator[None]:
    """Within `pause_collector`, let the collector run on objects created from here on."""
    was = gc.isenabled()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        if not was:
            gc.disable()
        gc.unfreeze()
