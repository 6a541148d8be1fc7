"""One model asked the same questions in several wordings, with the survey's error."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import WORDINGS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.compare import outcomes
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.mean import average
from lm_eval_epidemia.findings.pairs import comparable_scores, drop_setting, sort_compared
from lm_eval_epidemia.findings.references import score_known
from lm_eval_epidemia.results.choose import KEY, group_alike
from lm_eval_epidemia.results.read import Results

#: What the usual wording is called, and all in order.
USUAL = "usual"
ORDER = [USUAL, *filter(None, WORDINGS)]

#: In these settings runs may differ, too: they are those of single tasks, and compared with them.
APART = ("wording", "task_version", "truth")

#: Permutations of a test, and their seed.
PERMUTATIONS, SEED = 9_999, 34

#: A test that cannot give a p-value as small says nothing.
LEAST_P = 0.05


def wordings(results: Results) -> Finding:
    """One model in several wordings: its scores, and whether they differ more than by chance."""
    runs = results.runs
    known = score_known(results.scores, runs)["score"]
    scores = comparable_scores(results._replace(scores=results.scores.assign(known=known)))
    worded = runs.get("wording", pd.Series("", runs.index)).replace("", USUAL)
    scores = scores[~scores["group"].str.contains(" + ", regex=False)].assign(
        wording=scores["run"].map(worded), asked_as=drop_setting(scores["asked_as"], "wording")
    )
    rows: list[dict[Any, Any]] = []
    for alike in group_alike(runs, APART):
        of_model = scores[scores["run"].isin(alike)]
        # Of several runs in one wording, the one asked most.
        most = of_model.groupby(["wording", "run"])["task"].size().groupby("wording").idxmax()
        kept = of_model[of_model["run"].isin({run for _, run in most})]
        for group in sort_compared([*kept["group"]]):
            rows += _compare_wordings(kept[kept["group"] == group])
    return make_finding("wordings", rows, runs)


def _compare_wordings(of: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a model and group: every wording over the common tasks, and all."""
    wide = of.pivot(index=KEY, columns="wording", values="value").dropna()
    wide = wide[[wording for wording in ORDER if wording in wide]]
    if wide.shape[1] < 2 or wide.empty:
        return []
    common = of.set_index(KEY).loc[wide.index].reset_index()
    means = average(common, ["run", "group", "wording"]).set_index("wording").loc[wide.columns]
    rows = means.reset_index().rename(columns={"value": "score"}).to_dict("records")
    # What is known of the first run's tasks, as they were asked there.
    known = common[common["run"] == rows[0]["run"]].set_index(KEY)["known"].loc[wide.index]
    beats = wide.gt(known, axis="index")[known.notna()]
    flips = beats.any(axis="columns") & ~beats.all(axis="columns")
    clusters = outcomes(wide.index.to_frame(index=False))
    # Permuting all outcomes alike changes nothing.
    different = math.factorial(wide.shape[1]) ** (len({*clusters}) - 1)
    enough = different * LEAST_P >= 1
    together = {
        "run": rows[0]["run"],
        "group": rows[0]["group"],
        "wording": "all",
        "tasks": len(wide),
        "between": float(np.std(means["value"], ddof=1)),
        "flips": 100 * float(flips.mean()),
        "flips_tasks": len(beats),
        "p": permutation_p(wide.to_numpy().T, clusters) if enough else math.nan,
    }
    return [*rows, together]


def permutation_p(scores: Array, clusters: Iterable[Hashable]) -> float:
    """Test whether the means of wordings differ, by permutation.

    If they do not, the scores of a task are exchangeable between wordings. Tasks of one cluster
    share errors, and are permuted together. The statistic is the variance of the means.

    Parameters
    ----------
    scores : ndarray, shape (W, T)
    clusters : iterable of hashable, length T

    Returns
    -------
    float
        p-value, at least 1 / (`PERMUTATIONS` + 1).
    """
    at = pd.factorize(pd.Series([*clusters], dtype=object))[0]
    number = int(at.max()) + 1
    sums = np.stack([np.bincount(at, row, number) for row in scores])
    observed = sums.sum(axis=1).var()
    rng = np.random.default_rng(SEED)
    order = rng.random((PERMUTATIONS, len(scores), number)).argsort(axis=1)
    drawn = np.take_along_axis(sums[None], order, axis=1).sum(axis=2).var(axis=1)
    # Sums in another order differ in their last digits.
    as_large = int((drawn >= observed - 1e-9 * max(observed, 1.0)).sum())
    return (1 + as_large) / (1 + PERMUTATIONS)
