"""Places that a run writes to: found unwritable before its model loads, or said at its end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.replaced import replaced

#: Bytes that a place must take: about one file of results.
_ROOM = 2**20


def check_writable(given: str, folder: Path) -> None:
    """Refuse a place where no file can be written.

    Parameters
    ----------
    given : str
        The user's option, for the error.
    folder : Path
        Where files shall be; need not exist.
    """
    try:
        while not folder.exists():
            folder = folder.parent
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
            file.flush()
    except OSError as error:
        raise EpidemiaError(
            f"{given}: {folder} cannot be written ({error.strerror}): give another path, or free "
            "some space"
        ) from None


def watch(tracker: Any) -> None:
    """Refuse an ``--output_path`` that cannot be written; let a failed save end the run.

    lm-eval logs "Could not save results", and ends as if all were well.

    Parameters
    ----------
    tracker : lm_eval.loggers.EvaluationTracker, optional
    """
    given = getattr(tracker, "output_path", None)
    if not given:
        return
    path = Path(given)
    check_writable(f"--output_path {given}", path.parent if path.suffix == ".json" else path)

    def save(usual: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        from lm_eval.loggers import evaluation_tracker
        from lm_eval.utils import make_table

        logger = evaluation_tracker.eval_logger

        def warning(said: str, *more: Any) -> None:
            if not said.startswith("Could not save"):
                return logger.warning(said, *more)
            # lm-eval prints its tables after this.
            for column in {"results", "groups"} & kwargs.get("results", {}).keys():
                print(make_table(kwargs["results"], column))
            raise EpidemiaError(
                f"--output_path {given}: the results cannot be written ({sys.exc_info()[1]}): free "
                "some space or give another path (with --use_cache nothing is asked twice)"
            ) from None

        told: Any = logging.LoggerAdapter(logger, {})
        told.warning = warning
        with replaced(evaluation_tracker, eval_logger=told):
            usual(*args, **kwargs)

    for name in ("save_results_aggregated", "save_results_samples"):
        setattr(tracker, name, partial(save, getattr(tracker, name)))
