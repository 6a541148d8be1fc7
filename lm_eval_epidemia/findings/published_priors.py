"""The published models' priors: their answers, judged here, and what the paper prints of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR
from lm_eval_epidemia.benchmarks.prior.judged import Judged, stated_as
from lm_eval_epidemia.benchmarks.prior.judgements import (
    JudgedTask,
    everything,
    known_of,
    mean,
    win_draws,
    win_rate,
)
from lm_eval_epidemia.benchmarks.prior.quantities import answers, store
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.system import BASE
from lm_eval_epidemia.findings.ablations import AskedRun
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Row
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol

MARK = "answers published by others (OpenEstimate, 2025; other wording), judged here"

#: The experiment whose runs stand beside others where they were asked directly.
_COMPARED = "model_family_comparison"

#: What the paper prints, which is not what its published answers come to: CRPS ratios; the win
#: rates of o4-mini against N = 5 and N = 30, of its priors and its posteriors.
PRINTED = {
    "gpt-4o": {"crps_ratio": 1.86},
    "meta-llama-3-70b": {"crps_ratio": 2.76},
    "qwen3-235b-a22b-fp8-tput": {"crps_ratio": 1.65},
    "o3-mini": {"crps_ratio": 1.35},
    "o4-mini": {
        "crps_ratio": 1.17,
        "wins_5": 0.743,
        "wins_30": 0.378,
        "posterior_wins_5": 0.704,
        "posterior_wins_30": 0.504,
    },
}


class _JudgedRun(NamedTuple):
    """A published run: of which experiment, how it was asked, and what was said."""

    experiment: str
    model: str
    settings: dict[str, str]
    known: JudgedTask


@lru_cache(maxsize=1)
def _judged(_fingerprint: str) -> tuple[_JudgedRun, ...]:
    truth = store.load(answers.PUBLISHED)
    everywhere = np.ones(len(truth.quantities), dtype=bool)
    return tuple(
        _JudgedRun(
            run.experiment,
            run.model,
            _settings(run),
            known_of(truth, stated_as(run.priors), everywhere),
        )
        for run in answers.runs(truth)
    )


def _settings(run: answers.PublishedRun) -> dict[str, str]:
    """Return settings as `ablations` has them."""
    is_temperature = run.temperature_or_effort[0].isdigit()
    return {
        "protocol": run.protocol.replace("-", "_"),
        "system prompt": run.system_prompt,
        "temperature": run.temperature_or_effort if is_temperature else "",
        "reasoning effort": "" if is_temperature else run.temperature_or_effort,
    }


def _all() -> tuple[_JudgedRun, ...]:
    return _judged(store.load(answers.PUBLISHED).fingerprint)


def entries(tasks: Iterable[Asked]) -> list[Entry]:
    """Return the published models as they answered the given tasks, judged here.

    Parameters
    ----------
    tasks : iterable of Asked
        Others are left out. Of `answers.PUBLISHED` there are answers in three ways.

    Returns
    -------
    list of Entry
        Marked as references; with errors over quantities.
    """
    wanted, by_model = set(tasks), dict[str, Entry]()
    for run in _all():
        asked = Asked(answers.PUBLISHED, run.settings["protocol"])
        # The plain protocol was asked of all models in one experiment, the others in another.
        plain = asked.way == PRIOR.plain.name
        usual = run.settings["system prompt"] == BASE and plain == (run.experiment == _COMPARED)
        if asked in wanted and usual:
            plainly = Entry(run.model, protocol=Protocol(published=True), reference=True)
            entry = by_model.setdefault(run.model, plainly)
            entry.scores[asked] = TaskScore(
                win_rate(run.known), win_draws(run.known), said=run.known
            )
    return list(by_model.values())


def _are_shown(shown: Sequence[Entry]) -> bool:
    return any(
        entry.reference and any(asked.task == answers.PUBLISHED for asked in entry.scores)
        for entry in shown
    )


def runs(shown: Sequence[Entry]) -> list[AskedRun]:
    """Return the published runs that differ in how models were asked, if others are shown."""
    if not _are_shown(shown):
        return []
    return [
        AskedRun(run.model, answers.PUBLISHED, run.settings, run.known, published=True)
        for run in _all()
        if run.experiment != _COMPARED
    ]


#: Columns: what heads them, what they are called in `PRINTED`, digits, and of whom they are means.
_COLUMNS: list[tuple[str, str, int, Callable[[Judged], Array]]] = [
    ("CRPS ratio", "crps_ratio", 2, lambda judged: judged.crps_ratio),
    ("wins, N = 5", "wins_5", 3, lambda judged: judged.wins[:, 0]),
    ("wins, N = 30", "wins_30", 3, lambda judged: judged.wins[:, -1]),
    ("posterior wins, N = 5", "posterior_wins_5", 3, lambda judged: judged.posterior_wins[:, 0]),
    ("posterior wins, N = 30", "posterior_wins_30", 3, lambda judged: judged.posterior_wins[:, -1]),
]


def finding(shown: Sequence[Entry]) -> Finding:
    """Return the table of what the paper prints beside what its answers come to."""
    columns = [Column("model")]
    for title, name, digits, _ in _COLUMNS:
        columns.append(Column(name, digits=digits, form="plain", title=title))
        columns.append(Column(f"{name} printed", digits=digits, form="plain", title="printed"))
    rows = []
    for run in _all() if _are_shown(shown) else ():
        paper = PRINTED.get(run.model)
        if run.experiment != _COMPARED or paper is None:
            continue
        cells: dict[str, Cell] = {"model": f"{run.model} (published)"}
        for _, name, _, of in _COLUMNS:
            cells[name] = mean(run.known, everything(run.known), of(run.known.dropped))
            cells[f"{name} printed"] = paper.get(name)
        rows.append(Row(cells))
    return Finding(
        "published priors",
        "Priors: published answers judged here, beside what the paper prints",
        columns,
        rows,
        "Replies that could not be read are dropped, as there. The paper's aggregates are not "
        "those of the answers that were released with it; no run stands behind them here.",
    )
