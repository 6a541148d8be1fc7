"""Do language models know how the world is distributed?

The package plugs survey truths P(Y | X) into EleutherAI's lm-evaluation-harness. Data flow one
way through its rooms: ``surveys`` (records and microdata), ``estimate`` (ground truth), ``ask``
(questions), ``score`` (numbers), ``benchmarks``, ``harness`` (lm-eval), ``models``, ``results``,
``findings``, ``report``. CONTRIBUTING.md draws them.
In Python, start at ``lm_eval_epidemia.api``; the command ``epidemia`` is ``cli``.
"""

from __future__ import annotations

from typing import Any

from lm_eval_epidemia.core.version import __version__

__all__ = ["__version__", "task_manager"]


def task_manager(**kwargs: Any) -> Any:
    """Return an lm-eval ``TaskManager`` that knows the epidemia tasks and nothing else.

    Parameters
    ----------
    **kwargs
        Passed to ``lm_eval.tasks.TaskManager`` (``include_path``, ``metadata``).

    Returns
    -------
    lm_eval.tasks.TaskManager
        Ready in well under a second, since it does not index lm-eval's own 14,000 files. Pass it
        to ``lm_eval.simple_evaluate(task_manager=...)``.
    """
    from lm_eval_epidemia.harness import discovery

    return discovery.task_manager(**kwargs)
