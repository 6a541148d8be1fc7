"""The effect of settings on a model's priors: paired runs that differ in one setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.judged import Stated
from lm_eval_epidemia.benchmarks.prior.metrics import JudgedTask
from lm_eval_epidemia.benchmarks.prior.quantities import answers
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.parts import numbers_of
from lm_eval_epidemia.findings.priors import stated
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

#: By how columns of runs call it.
_COLUMNS = {
    **{"system": "system prompt", "system_prompt": "system prompt"},
    "reasoning_effort": "reasoning effort",
}


def ablations(results: Results) -> Finding:
    """What changes in a model's priors if it is asked in another way or with another setting."""
    runs, settings = _runs(results)
    rows: list[dict[str, Any]] = []
    same, paired = [], set[int]()
    for first, other, key in _pairs(runs, settings):
        if (numbers := _difference(first["said"], other["said"])) is None:
            continue
        paired |= {first["at"], other["at"]}
        says = f"{key}: {first[key] or 'none'} -> {other[key] or 'none'}"
        way, whose = first["protocol"], {"run": first["run"], "task": first["task"]}
        if key != "protocol" and WAYS[way].suffix:
            whose["task"] = in_way(first["task"], way)
        if first["published"]:
            whose |= {"model": first["model"], "kind": "published", "settings": "published"}
        if key != "protocol" and _same(first["said"].stated, other["said"].stated):
            same.append(f"{first['model']}, {says}")
        rows.append({**whose, "differs in": says, **numbers})
    alone = _alone(runs[~runs.index.isin(paired)], runs, settings)
    left_out = [f"no other run differs in exactly one setting: {few(alone)}"] if alone else []
    table = pd.DataFrame(rows) if rows else []
    made = make_finding("ablations", table, results.runs, instead=left_out)
    says = f" All answers are the same, so the model probably ignored the setting: {few(same)}."
    return replace(made, note=made.note + says * bool(same))


def _runs(results: Results) -> tuple[pd.DataFrame, list[str]]:
    """Return what runs were asked; published ones too, where others are shown; and all settings.

    ``rank`` is the lower the more usual the settings are.
    """
    given = results.runs.drop(columns=[*NOT_SETTINGS], errors="ignore").astype(str)
    # Either of two columns says what system prompt there was.
    given = given.rename(columns=_COLUMNS).T.groupby(level=0, sort=False).agg(" ".join).T
    settings = [*dict.fromkeys([*USUAL, *given])]
    scores = stated(results)[["run", "task", "way", "said"]].rename(columns={"way": "protocol"})
    is_published = scores["run"].map(results.runs["kind"]) == "published"
    runs = scores[~is_published].join(given.join(results.runs["model"]), on="run")
    runs = runs.reindex(columns=[*dict.fromkeys([*runs, *settings])]).assign(published=False)
    for key, values in USUAL.items():
        runs[key] = runs[key].fillna("").astype(str).str.strip().replace("", values[0])
    others = [
        {"model": of.model, "said": of.known, **of.settings}
        for of in (stating() if is_published.any() else ())
        if of.experiment != COMPARED
    ]
    of_others = pd.DataFrame(others).assign(run=-1, task=answers.PUBLISHED, published=True)
    runs = pd.concat([runs, of_others], ignore_index=True) if others else runs
    runs[settings] = runs[settings].fillna("")
    runs["rank"] = [
        [(row[key] not in USUAL.get(key, ("",)), row[key]) for key in settings]
        for row in runs.to_dict("records")
    ]
    return runs.reset_index(drop=True).rename_axis("at"), settings


def _pairs(
    runs: pd.DataFrame, settings: list[str]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], str]]:
    """Pair runs of a model and task that differ in one setting, each with the most usual one."""
    pairs = []
    for key in settings:
        rest = [name for name in settings if name != key]
        for _, several in runs.groupby(["published", "model", "task", *rest], sort=False):
            first, *others = several.sort_values("rank").reset_index().to_dict("records")
            pairs += [(first, other, key) for other in others if other[key] != first[key]]
    yield from sorted(pairs, key=lambda pair: (pair[0]["published"], pair[0]["model"]))


def _difference(usual: JudgedTask, other: JudgedTask) -> dict[str, float] | None:
    """Subtract over the quantities that both were asked; None if there are fewer than two."""
    first, second = (known.truth.column("name") for known in (usual, other))
    _, here, there = np.intersect1d(first, second, return_indices=True)
    if len(here) < 2:
        return None
    mine, theirs = usual.judged, other.judged
    before, after = mine.ratio[here], theirs.ratio[there]
    read = other.dropped.ratio[there] - usual.dropped.ratio[here]
    means = {
        "error_ratio": before,
        "then": after,
        "difference": after - before,
        "wins": theirs.wins[there, 0] - mine.wins[here, 0],
    }
    numbers: dict[str, float] = {}
    unread = 1 - float(mine.answered[here].mean()), 1 - float(theirs.answered[there].mean())
    if any(unread):
        numbers |= {"unread": unread[0], "unread_then": unread[1]}
        means["where_read"] = read[np.isfinite(read)]
    for name, of in means.items():
        for kind, number in numbers_of(pooled(of, np.arange(len(of)))).items():
            numbers[name if kind == "value" else f"{name}_{kind}"] = number
    return numbers


def _same(one: Any, other: Any) -> bool:
    """Return whether all readable written priors are equal."""
    if not (isinstance(one, Stated) and isinstance(other, Stated)) or np.isnan(one.a).all():
        return False
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _alone(unpaired: pd.DataFrame, runs: pd.DataFrame, settings: list[str]) -> list[str]:
    """Say of runs in no pair what they differ in from the most usual one of the others."""
    alone = []
    own = runs[runs["run"] >= 0]
    for at, run in unpaired[unpaired["run"] >= 0].iterrows():
        others = own[(own["model"] == run["model"]) & (own["task"] == run["task"])].drop(index=at)
        if len(others):
            usual = others.sort_values("rank").iloc[0]
            told = [f"{key} {run[key] or 'none'}" for key in settings if usual[key] != run[key]]
            alone.append(f"{run['model']} ({', '.join(told)})")
    return [*dict.fromkeys(alone)]
