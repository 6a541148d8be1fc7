"""Early stopping on the fold that is predicted: what would an inner split change?

    python benchmarks/folds.py nsduh=nsduh_2022.parquet scf=scfp2022.parquet ... [--tasks 4]

The published protocol stops boosting where the fold that is about to be predicted is met best: the
fold has had a say in its own prediction. Instead, the next fold, or a tenth of the training part,
decides when to stop and is not trained on. Per survey, means over tasks; each truth is the mean
over five choices of folds, the same for all three. Distances are in units of D_perfect; beside
them is that between one choice of folds and another in the published protocol.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lightgbm as lgb
import numpy as np
from tqdm import tqdm

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import load_microdata

SEEDS = 5


def fit_stopped(ready, fold, stopping):
    """Fit as `boosted.fit_aggregated` does, but for who decides when to stop.

    `stopping` gives the records that do so for a fold; these are not trained on.
    """
    weight, cell, outcome = ready.sample.weight, ready.cell, ready.outcome
    weight = weight * len(weight) / weight.sum()
    cells, features = len(ready.features), ready.features.astype(np.float64)

    def totals(kept):
        flat = outcome[kept] * cells + cell[kept]
        return np.bincount(flat, weights=weight[kept], minlength=2 * cells)

    share = weight[outcome == 1].sum() / weight.sum()
    limit = boosted.MIN_RECORDS * share * (1 - share)
    options = {**boosted.PARAMETERS, **boosted.AGGREGATED, "min_sum_hessian_in_leaf": limit}
    rows, answers = np.tile(features, (2, 1)), np.repeat([0.0, 1.0], cells)
    names, yes = list(range(features.shape[1])), np.zeros(cells)
    for k in range(boosted.FOLDS):
        stops = stopping(k)
        train = lgb.Dataset(
            rows,
            answers,
            weight=totals((fold != k) & ~stops),
            categorical_feature=names,
            params=options,
        )
        valid = lgb.Dataset(rows, answers, weight=totals(stops), reference=train, params=options)
        model = lgb.train(
            options,
            train,
            boosted.ROUNDS,
            valid_sets=[valid],
            callbacks=[lgb.early_stopping(boosted.PATIENCE, verbose=False)],
        )
        held_out = np.bincount(cell[fold == k], weights=weight[fold == k], minlength=cells)
        yes += held_out * model.predict(features, num_iteration=model.best_iteration)
    yes /= np.bincount(cell, weights=weight, minlength=cells)
    return np.column_stack([1 - yes, yes])


def protocols(ready, seed):
    """Return P(Y | X) under the published protocol and under two inner splits."""
    rng = np.random.default_rng(seed)
    fold = boosted.assign_folds(ready.sample.units, rng)
    tenth = boosted.assign_folds(ready.sample.units, rng, 10) == 0
    published = fit_stopped(ready, fold, lambda k: fold == k)
    following = fit_stopped(ready, fold, lambda k: fold == (k + 1) % boosted.FOLDS)
    return published, following, fit_stopped(ready, fold, lambda k: (fold != k) & tenth)


def moved(truth, published, other):
    """D to the published protocol and of the latter to itself; changes of D_mean and of scores."""
    perfect, weights = truth.d_perfect(), truth.weights
    before, after = (scoring.anchors(weights, p.mean(axis=0), perfect) for p in (published, other))
    scores = [float(scoring.scale_distance(a.mean, a.zero, perfect)) for a in (before, after)]
    return (
        float(distance(weights, other.mean(axis=0), published.mean(axis=0))) / perfect,
        float(distance(weights, published, np.roll(published, 1, axis=0)).mean()) / perfect,
        after.mean - before.mean,
        scores[0],
        scores[1] - scores[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", nargs="+", help="SURVEY=FILE")
    parser.add_argument("--tasks", type=int, default=4, help="of each survey, evenly spread")
    options = parser.parse_args()
    header = ["survey", "stopped by", "tasks", "D / D_perfect", "two choices of folds", "D_mean"]
    print(f"| {' | '.join(header)} | score of mean | changes by | most |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for given in options.raw:
        survey, path = given.split("=", 1)
        data = load_microdata(find_record(survey), Path(path))
        several = [t for t in data.record.all_tasks if len(t.given) > 1 and data.can_estimate(t)]
        chosen = np.unique(np.linspace(0, len(several) - 1, options.tasks).round().astype(int))
        found = {"the next fold": [], "a tenth": []}
        for number in tqdm(chosen, survey, leave=False):
            truth, ready = store.load_truth(several[number].name), prepare(data, several[number])
            fits = [protocols(ready, seed) for seed in range(SEEDS)]
            published, *inner = (np.stack(p) for p in zip(*fits, strict=True))
            for name, other in zip(found, inner, strict=True):
                found[name].append(moved(truth, published, other))
        for name, rows in found.items():
            d, noise, mean, score, change = np.mean(rows, axis=0)
            most = max((row[4] for row in rows), key=abs)
            print(
                f"| {survey} | {name} | {len(rows)} | {d:.2f} | {noise:.2f} | {mean:+.4f} | "
                f"{score:.1f} | {change:+.2f} | {most:+.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
