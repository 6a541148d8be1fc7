"""The published models' priors: their answers, scored here, and the authors' printed numbers.

``published_priors.csv`` has a row per figure: the authors' printed number, and that of their
released results for sets that do not ship. Source: alanarenda/openestimate (MIT License).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR
from lm_eval_epidemia.benchmarks.prior.judged import Judged, mean_of, stated_as
from lm_eval_epidemia.benchmarks.prior.judgements import (
    JudgedTask,
    known_of,
    win_draws,
    win_rate,
)
from lm_eval_epidemia.benchmarks.prior.metrics import in_quarters, worth, worth_in_words
from lm_eval_epidemia.benchmarks.prior.quantities import answers, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX
from lm_eval_epidemia.elicit.system import BASE
from lm_eval_epidemia.old.findings.ablations import AskedRun
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Row, number
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol

MARK = "answers published by others (OpenEstimate, 2025; other wording), scored here"

#: The experiment whose runs stand beside others where they were asked directly.
_COMPARED = "model_family_comparison"

#: Sets that the paper is about, and the tasks that ask them: two are the user's own, imported.
TASKS = {name: f"{PREFIX}{name}" for name in ("nhanes", "glassdoor", "pitchbook")}

#: Ways in which the authors asked: with a given family, and with one of the model's choice.
_WAYS = ("direct", "direct_choice")


class Claim(NamedTuple):
    """A figure of the published study.

    Attributes
    ----------
    measure : str
    set : str
        A key of `TASKS`.
    model : str
    printed : str
        The authors' printed number; empty without one.
    released : str
        The number from their released results, for sets that do not ship; empty if that needs draws
        which may not be redistributed, and for NHANES, which is computed here.
    """

    measure: str
    set: str
    model: str
    printed: str
    released: str


@lru_cache(maxsize=1)
def claims() -> tuple[Claim, ...]:
    """Return the figures of ``published_priors.csv``."""
    text = (files(__package__) / "published_priors.csv").read_text(encoding="utf-8")
    return tuple(Claim(**row) for row in csv.DictReader(text.splitlines()))


class _JudgedRun(NamedTuple):
    """A published run: its experiment, settings and answers."""

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
    """Return settings in the form of `ablations`."""
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
    """Return the published models' answers to the given tasks, scored here.

    Parameters
    ----------
    tasks : iterable of Asked
        Others are left out. `answers.PUBLISHED` has answers in three ways; the two sets that users
        import have shares of wins, without errors.

    Returns
    -------
    list of Entry
        Marked as references; with errors over quantities.
    """
    wanted, by_model = set(tasks), dict[str, Entry]()

    def of_model(model: str) -> Entry:
        plainly = Entry(model, protocol=Protocol(published=True), reference=True)
        return by_model.setdefault(model, plainly)

    for claim in claims():
        asked = Asked(TASKS.get(claim.set, ""), PRIOR.plain.name)
        if asked in wanted and claim.measure == f"prior beats {SIZES[0]}" and claim.released:
            of_model(claim.model).scores[asked] = TaskScore(float(claim.released))
    for run in _all():
        asked = Asked(answers.PUBLISHED, run.settings["protocol"])
        # The plain protocol was asked of all models in one experiment, the others in another.
        plain = asked.way == PRIOR.plain.name
        usual = run.settings["system prompt"] == BASE and plain == (run.experiment == _COMPARED)
        if asked in wanted and usual:
            of_model(run.model).scores[asked] = TaskScore(
                win_rate(run.known), win_draws(run.known), said=run.known
            )
    return list(by_model.values())


def _are_shown(shown: Sequence[Entry], tasks: Collection[str] = (answers.PUBLISHED,)) -> bool:
    return any(
        entry.reference and any(asked.task in tasks for asked in entry.scores) for entry in shown
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


def _first_quarter(judged: Judged) -> float:
    """Return the share of truths in the lowest quarter of the prior; 0.25 if calibrated."""
    return float(mean_of(mean_of(in_quarters(judged.position), axis=1)[:, 0]))


def _worth(known: JudgedTask) -> str:
    value = worth(mean_of(known.dropped.wins, axis=0))
    return "" if math.isnan(value) else worth_in_words(value)


def _share(field: str, place: int) -> Callable[[JudgedTask], float]:
    """Return a function for how often samples of a size are beaten, by a field of `Judged`."""
    return lambda known: float(mean_of(getattr(known.dropped, field)[:, place]))


#: What a claim's measure comes to; replies that could not be read are dropped, as there.
_MEASURES: dict[str, Callable[[JudgedTask], float | str]] = {
    "CRPS ratio": lambda known: float(mean_of(known.dropped.crps_ratio)),
    **{f"prior beats {size}": _share("wins", n) for n, size in enumerate(SIZES)},
    **{f"posterior beats {size}": _share("posterior_wins", n) for n, size in enumerate(SIZES)},
    "error ratio": lambda known: float(mean_of(known.dropped.ratio)),
    "in the first quarter": lambda known: _first_quarter(known.dropped),
    "the same with failures counted": lambda known: _first_quarter(known.judged),
    "worth answers": _worth,
}


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else number(value, 3)


def finding(shown: Sequence[Entry]) -> Finding:
    """Return the table of published numbers, with those of the released answers and of runs."""
    listed = claims() if _are_shown(shown, TASKS.values()) else ()
    compared = (
        {run.model: run.known for run in _all() if run.experiment == _COMPARED} if listed else {}
    )
    rows = []
    for (measure, name), same in groupby(listed, itemgetter(0, 1)):
        compute = _MEASURES.get(measure)
        for claim in same:
            given = claim.released
            if name == "nhanes" and compute:
                given = _written(compute(compared[claim.model]))
            cells: dict[str, Cell] = {
                "measure": measure,
                "set": name,
                "model": claim.model,
                "printed": claim.printed,
                "released": given,
            }
            rows.append(Row(cells, long=not claim.printed))
        asked = [Asked(TASKS[name], way) for way in _WAYS] if compute else []
        for entry, key in ((e, a) for e in shown for a in asked if not e.reference):
            if compute and (score := entry.scores.get(key)) and score.said is not None:
                model = entry.name + f", {key.way}" * (key.way != PRIOR.plain.name)
                here = {"measure": measure, "set": name, "model": model}
                rows.append(Row({**here, "here": _written(compute(score.said))}))
    return Finding(
        "published priors",
        "Priors: published numbers against those of the released answers",
        list(map(Column, ("measure", "set", "model", "printed", "released", "here"))),
        rows,
        "Unreadable replies are dropped, as in the paper. Printed: the paper and the tables of "
        "its repository (commit 375ca15), from runs in which models chose the family themselves, "
        "as in direct_choice here. Released: answers in a given family (commit 4c4c975). NHANES "
        "is scored here; the other sets are as their results state, and blank if that needs draws "
        "that may not be redistributed. Here: your runs of these sets.",
        leading=3,
    )
