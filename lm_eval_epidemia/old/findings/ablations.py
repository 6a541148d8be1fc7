"""The effect of settings on a model's priors: paired runs that differ in one setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR, WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.judged import Stated
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.old.findings.rows import ALIKE, Cell, Column, Finding, Row
from lm_eval_epidemia.results.entry import Entry, leaf
from lm_eval_epidemia.score.estimates import Estimate, pooled

#: What a run is told apart by, in the order of the table, and what is usual; where nothing is said
#: the first of these.
USUAL = {
    "protocol": ("direct",),
    "system prompt": ("base",),
    "temperature": ("0.5",),
    "reasoning effort": ("", "medium"),
}

#: By how lm-eval's arguments call it.
_ARGUMENTS = {"temperature": "temperature", "reasoning_effort": "reasoning effort"}


class AskedRun(NamedTuple):
    """A task in one run of a model.

    Attributes
    ----------
    model : str
    task : str
        Without the way.
    settings : mapping of str to str
        By the keys of `USUAL`, and any other setting that separates scores.
    known : JudgedTask
    published : bool
    """

    model: str
    task: str
    settings: Mapping[str, str]
    known: JudgedTask
    published: bool = False


class Difference(NamedTuple):
    """Two runs that differ in one setting.

    Attributes
    ----------
    one, other : AskedRun
        The usual one first.
    differs : str
        The setting, a key of `AskedRun.settings`.
    same : bool
        Whether all statements are equal in both.
    before, after, change, wins : Estimate
        The error ratio of each, the second minus the first, and the change in the share of wins
        against the smallest samples; paired over the quantities that both were asked.
    unread : float, float
        Shares of unreadable replies in each, which count as a flat prior.
    where_read : Estimate
        `change` over readable replies alone.
    """

    one: AskedRun
    other: AskedRun
    differs: str
    same: bool
    before: Estimate
    after: Estimate
    change: Estimate
    wins: Estimate
    unread: tuple[float, float]
    where_read: Estimate

    @property
    def says(self) -> str:
        """The difference in words: "temperature: 0.5 -> 1.0"."""
        ends = (run.settings.get(self.differs, "") or "none" for run in (self.one, self.other))
        return f"{self.differs}: {' -> '.join(ends)}"


def runs_of(entries: Iterable[Entry]) -> list[AskedRun]:
    """Return the tasks of the runs, with their settings."""
    runs = []
    for entry in entries:
        for asked, score in sorted(entry.scores.items()):
            if leaf(asked).benchmark is PRIOR and score.said is not None and not entry.reference:
                settings = _settings(entry, asked.way)
                runs.append(AskedRun(entry.model, asked.task, settings, score.said))
    return runs


def _settings(entry: Entry, way: str) -> dict[str, str]:
    """Return how an entry was asked, and any other setting that separates its scores."""
    protocol, variant = entry.protocol, dict(entry.protocol.variant)
    system = variant.pop("system_prompt", protocol.system_prompt[:8] or "base")
    drawn = {_ARGUMENTS.get(key, key): value for key, value in protocol.drawn}
    return {
        **{key: usual[0] for key, usual in USUAL.items()},
        "examples": protocol.num_fewshot,
        "version": protocol.task_version,
        "part": str(protocol.incomplete) + protocol.limit,
        "chat template": str(entry.chat),
        **dict((*entry.settings, *entry.details)),
        **variant,
        **drawn,
        "protocol": way,
        "system prompt": system,
    }


def _usual_first(run: AskedRun) -> tuple[tuple[bool, str], ...]:
    return tuple(
        (value not in USUAL.get(key, ("", "False")), value) for key, value in run.settings.items()
    )


def differences(runs: Sequence[AskedRun]) -> list[Difference]:
    """Pair runs of a model and task that differ in one setting, each with the most usual one."""
    pairs = []
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        alike: dict[tuple[object, ...], list[AskedRun]] = {}
        for run in runs:
            rest = tuple(sorted((k, v) for k, v in run.settings.items() if k != key))
            alike.setdefault((run.published, run.model, run.task, rest), []).append(run)
        for several in alike.values():
            first, *others = sorted(several, key=_usual_first)
            others = [run for run in others if run.settings.get(key) != first.settings.get(key)]
            pairs += [pair for other in others if (pair := _paired(first, other, key)) is not None]
    return sorted(pairs, key=lambda pair: (pair.one.published, pair.one.model))


def _paired(usual: AskedRun, other: AskedRun, key: str) -> Difference | None:
    """Subtract over the quantities that both were asked; None if there are fewer than two."""
    first, second = (
        np.array([quantity.name for quantity in run.known.truth.quantities])
        for run in (usual, other)
    )
    _, here, there = np.intersect1d(first, second, return_indices=True)
    if len(here) < 2:
        return None
    mine, theirs = usual.known.judged, other.known.judged
    ratios = mine.ratio[here], theirs.ratio[there]
    places = np.arange(len(here))
    read = other.known.dropped.ratio[there] - usual.known.dropped.ratio[here]
    is_read = np.isfinite(read)
    return Difference(
        usual,
        other,
        key,
        _same(usual.known.stated, other.known.stated),
        pooled(ratios[0], places),
        pooled(ratios[1], places),
        pooled(ratios[1] - ratios[0], places),
        pooled(theirs.wins[there, 0] - mine.wins[here, 0], places),
        (1 - float(mine.answered[here].mean()), 1 - float(theirs.answered[there].mean())),
        pooled(read[is_read], places[is_read]),
    )


def _same(stated: Any, other: Any) -> bool:
    """Return whether all readable written priors are equal."""
    return (
        isinstance(stated, Stated)
        and isinstance(other, Stated)
        and not np.isnan(stated.a).all()
        and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(stated, other, strict=True))
    )


def _note(runs: Sequence[AskedRun], pairs: Sequence[Difference]) -> str:
    """Say which settings had no effect, and which runs are in no pair and why."""
    note = ""
    if same := [
        f"{pair.one.model}, {pair.says}"
        for pair in pairs
        if pair.same and pair.differs != "protocol"
    ]:
        note += (
            f" All answers are the same, so the model probably ignored the setting: {few(same)}."
        )
    paired = [run for pair in pairs for run in (pair.one, pair.other)]
    alone = []
    for run in runs:
        several = [
            r for r in runs if (r.model, r.task) == (run.model, run.task) and not r.published
        ]
        if run.published or len(several) < 2 or any(run is r for r in paired):
            continue
        usual = min((r for r in several if r is not run), key=_usual_first).settings
        differs = [
            key for key in {**usual, **run.settings} if usual.get(key) != run.settings.get(key)
        ]
        told = ", ".join(f"{key} {run.settings.get(key) or 'none'}" for key in differs)
        alone.append(f"{run.model} ({told})")
    if alone:
        note += (
            " Without a row, because no other run differs in exactly one setting: "
            f"{few(list(dict.fromkeys(alone)))}."
        )
    return note


_RATIO = Column("", digits=3, least=ALIKE)

COLUMNS = (
    Column("model"),
    Column("task"),
    Column("differs in"),
    _RATIO._replace(name="error ratio"),
    _RATIO._replace(name="then"),
    _RATIO._replace(name="difference", metric=PRIOR.primary, signed=True),
    _RATIO._replace(name="wins, N = 5", signed=True),
    Column("unread"),
    _RATIO._replace(name="where read", signed=True),
)


def _row(pair: Difference) -> Row:
    run = pair.one
    cells: dict[str, Cell] = {
        "model": run.model + (" (published)" if run.published else ""),
        "task": _task(pair),
        "differs in": pair.says,
        "error ratio": pair.before,
        "then": pair.after,
        "difference": pair.change,
        "wins, N = 5": pair.wins,
    }
    if any(pair.unread):
        cells |= {"unread": "{:.0%} -> {:.0%}".format(*pair.unread), "where read": pair.where_read}
    facts = {"model": run.model, "reference": run.published}
    return Row(cells, name=f"{pair.other.task} / {pair.says}", facts=facts)


def finding(runs: Sequence[AskedRun]) -> Finding:
    """Return the table of `differences`."""
    pairs = differences(runs)
    return Finding(
        "ablation",
        "Priors: what the asking changes (± standard error)",
        COLUMNS,
        list(map(_row, pairs)),
        (
            "Pairs of runs of one model that differ in one setting; the second of each pair is the "
            "most usual one. Both differences, of the error ratio and of the share of quantities "
            "on which the prior beats 5 real answers, are paired over quantities. Below 0 the "
            "error ratio is better. Unreadable replies count as a flat prior: 'unread' gives their "
            "shares, 'where read' the difference of the ratios without them."
        )
        + _note(runs, pairs),
        leading=3,
    )


def _task(pair: Difference) -> str:
    """Name the task of both, and the way of asking if it is the same."""
    way = pair.one.settings["protocol"]
    if pair.differs == "protocol" or not WAYS[way].suffix:
        return pair.one.task
    return in_way(pair.one.task, way)
