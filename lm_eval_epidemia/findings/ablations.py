"""The effect of settings on a model's priors: paired runs that differ in one setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.judged import Stated
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask
from lm_eval_epidemia.benchmarks.prior.quantities import answers
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled, who
from lm_eval_epidemia.findings.parts import ALIKE_NOTE, unless_alike
from lm_eval_epidemia.findings.priors import RUN, stated
from lm_eval_epidemia.results.published import COMPARED, stating
from lm_eval_epidemia.results.read import NOT_SETTINGS, Results
from lm_eval_epidemia.score.estimates import pooled

#: What a run is told apart by, and what is usual; where nothing is said the first of these.
USUAL = {
    "protocol": ("direct",),
    "system prompt": ("base",),
    "temperature": ("0.5",),
    "reasoning effort": ("", "medium"),
}

#: By how columns of runs call it; either of the two says what system prompt there was.
_COLUMNS = {
    "system": "system prompt",
    "system_prompt": "system prompt",
    "reasoning_effort": "reasoning effort",
}


class AskedRun(NamedTuple):
    """A task in one run of a model.

    Attributes
    ----------
    run : int
        -1 for a published one that is not among the runs.
    model : str
    task : str
        Without the way.
    settings : mapping of str to str
        By the keys of `USUAL`, and any other setting of runs.
    known : JudgedTask
    published : bool
    """

    run: int
    model: str
    task: str
    settings: Mapping[str, str]
    known: JudgedTask
    published: bool = False


def ablations(results: Results) -> Finding:
    """What changes in a model's priors if it is asked in another way or with another setting."""
    runs = _runs(results)
    rows: list[dict[str, Any]] = []
    same, paired = [], set()
    for first, other, key in _pairs(runs):
        if (numbers := _difference(first.known, other.known)) is None:
            continue
        paired |= {id(first), id(other)}
        ends = (run.settings.get(key, "") or "none" for run in (first, other))
        says = f"{key}: {' -> '.join(ends)}"
        way = first.settings["protocol"]
        is_named = key == "protocol" or not WAYS[way].suffix
        whose = {"run": first.run, "task": first.task if is_named else in_way(first.task, way)}
        if first.published:
            whose |= {"model": first.model, "kind": "published", "settings": "published"}
        if key != "protocol" and _same(first.known.stated, other.known.stated):
            same.append(f"{first.model}, {says}")
        rows.append({**whose, "differs in": says, **numbers})
    columns = {**WHO, "task": Column(), "differs in": Column(), **_NUMBERS}
    table = who(pd.DataFrame(rows), results.runs) if rows else tabled([], columns, results.runs)
    note = (
        "Pairs of runs of one model that differ in one setting; the second of each pair is the "
        "most usual one. Both differences, of the error ratio and of the share of quantities on "
        "which the prior beats 5 real answers, are paired over quantities. Below 0 the error ratio "
        "is better. Unreadable replies count as a flat prior: 'unread' gives their shares, 'where "
        "read' the difference of the ratios without them." + ALIKE_NOTE
    )
    if same:
        note += (
            f" All answers are the same, so the model probably ignored the setting: {few(same)}."
        )
    alone = _alone(runs, paired)
    left_out = [f"no other run differs in exactly one setting: {few(alone)}"] if alone else []
    if not rows and not left_out:
        left_out = [f"{RUN} twice, with another setting, such as --gen_kwargs temperature=1"]
    return Finding(
        "ablations",
        "Priors: what the asking changes (± standard error)",
        table,
        columns,
        note,
        left_out=left_out,
    )


#: The numbers of a pair.
_NUMBERS = {
    "error_ratio": Column("error ratio", 3, error="error_ratio_error"),
    "then": Column("then", 3, error="then_error"),
    "difference": Column("difference", 3, signed=True, error="difference_error"),
    "wins": Column("wins, N = 5", 3, signed=True, error="wins_error"),
    "unread": Column("unread", 2),
    "unread_then": Column("then unread", 2),
    "where_read": Column("where read", 3, signed=True, error="where_read_error"),
}


def _runs(results: Results) -> list[AskedRun]:
    """Return what runs were asked, and how; published ones too, where others are shown."""
    runs, made = results.runs, []
    columns = [str(name) for name in runs if name not in (*NOT_SETTINGS, "bases", "cutoff")]
    shown = False
    for run, task, way, known in stated(results)[["run", "task", "way", "said"]].itertuples(
        index=False
    ):
        if runs["kind"][run] == "published":
            shown = True
            continue
        given = {_COLUMNS.get(name, name): str(runs[name][run]) for name in columns}
        system = [str(runs[name][run]) for name in ("system_prompt", "system") if name in runs]
        given |= {"system prompt": " ".join(system).strip(), "protocol": way}
        usual = {key: given.get(key) or values[0] for key, values in USUAL.items()}
        settings = usual | {key: value for key, value in given.items() if key not in USUAL}
        made.append(AskedRun(run, runs["model"][run], task, settings, known))
    if shown:
        made += [
            AskedRun(-1, of.model, answers.PUBLISHED, of.settings, of.known, published=True)
            for of in stating()
            if of.experiment != COMPARED
        ]
    return made


def _usual_first(run: AskedRun) -> tuple[tuple[bool, str], ...]:
    return tuple((value not in USUAL.get(key, ("",)), value) for key, value in run.settings.items())


def _pairs(runs: Sequence[AskedRun]) -> Iterator[tuple[AskedRun, AskedRun, str]]:
    """Pair runs of a model and task that differ in one setting, each with the most usual one."""
    pairs = []
    for key in dict.fromkeys(key for run in runs for key in run.settings):
        alike: dict[tuple[object, ...], list[AskedRun]] = {}
        for run in runs:
            rest = tuple(sorted((k, v) for k, v in run.settings.items() if k != key))
            alike.setdefault((run.published, run.model, run.task, rest), []).append(run)
        for several in alike.values():
            first, *others = sorted(several, key=_usual_first)
            pairs += [
                (first, other, key)
                for other in others
                if other.settings.get(key) != first.settings.get(key)
            ]
    yield from sorted(pairs, key=lambda pair: (pair[0].published, pair[0].model))


def _difference(usual: JudgedTask, other: JudgedTask) -> dict[str, float] | None:
    """Subtract over the quantities that both were asked; None if there are fewer than two."""
    first, second = (
        np.array([quantity.name for quantity in known.truth.quantities]) for known in (usual, other)
    )
    _, here, there = np.intersect1d(first, second, return_indices=True)
    if len(here) < 2:
        return None
    mine, theirs = usual.judged, other.judged
    before, after, places = mine.ratio[here], theirs.ratio[there], np.arange(len(here))
    read = other.dropped.ratio[there] - usual.dropped.ratio[here]
    is_read = np.isfinite(read)
    means = {
        "error_ratio": pooled(before, places),
        "then": pooled(after, places),
        "difference": pooled(after - before, places),
        "wins": pooled(theirs.wins[there, 0] - mine.wins[here, 0], places),
    }
    numbers: dict[str, float] = {}
    unread = 1 - float(mine.answered[here].mean()), 1 - float(theirs.answered[there].mean())
    if any(unread):
        numbers |= {"unread": unread[0], "unread_then": unread[1]}
        means["where_read"] = pooled(read[is_read], places[is_read])
    for name, of in means.items():
        known = unless_alike(of)
        numbers |= {name: of.value, f"{name}_error": known.error}
        numbers |= dict(zip((f"{name}_low", f"{name}_high"), known.interval, strict=True))
    return numbers


def _same(stated: Any, other: Any) -> bool:
    """Return whether all readable written priors are equal."""
    return (
        isinstance(stated, Stated)
        and isinstance(other, Stated)
        and not np.isnan(stated.a).all()
        and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(stated, other, strict=True))
    )


def _alone(runs: Sequence[AskedRun], paired: set[int]) -> list[str]:
    """Say which runs are in no pair, and what they differ in from the most usual one."""
    alone = []
    for run in runs:
        others = [r for r in runs if (r.model, r.task) == (run.model, run.task) and r is not run]
        others = [r for r in others if not r.published]
        if run.published or not others or id(run) in paired:
            continue
        usual = min(others, key=_usual_first).settings
        differs = [
            key for key in {**usual, **run.settings} if usual.get(key) != run.settings.get(key)
        ]
        told = ", ".join(f"{key} {run.settings.get(key) or 'none'}" for key in differs)
        alone.append(f"{run.model} ({told})")
    return [*dict.fromkeys(alone)]
