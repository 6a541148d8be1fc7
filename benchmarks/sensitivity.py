"""How the truth and the anchors move with what could have been chosen otherwise.

    python benchmarks/sensitivity.py nsduh=nsduh_2022.parquet scf=scfp2022.parquet ...

Per survey, over its tasks with several conditions: the fit under another seed of the folds, under
10 folds instead of 5, and on records instead of aggregates; over all its shipped tasks: the 97.5 %
quantile instead of the 95 %, and the design bootstrap instead of the i.i.d. one. Each line is the
mean over the tasks of the distance between the two truths, of the change of D_zero, D_mean and
D_perfect, and of the change of what the mean respondent scores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from aggregation import fit_records
from tqdm import tqdm

from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import load_microdata


def moved(truth, p, perfect):
    """Distance to the shipped truth, changes of the anchors, change of the score of the mean."""
    before = scoring.Anchors.of(truth)
    after = scoring.anchors(truth.weights, p, perfect)
    scores = [float(scoring.scale_distance(a.mean, a.zero, a.perfect)) for a in (before, after)]
    return (
        float(distance(truth.weights, p, truth.p)),
        after.zero - before.zero,
        after.mean - before.mean,
        after.perfect - before.perfect,
        scores[1] - scores[0],
    )


def refitted(ready, seed, folds, fit):
    fold = boosted.assign_folds(ready.sample.units, np.random.default_rng(seed), folds)
    return fit(ready.sample.weight, ready.cell, ready.outcome, fold, ready.features)


def variations(survey, raw):
    """Yield the name of each variation and what it does to each task."""
    data = load_microdata(find_record(survey), raw)
    several = [t for t in data.record.all_tasks if len(t.given) > 1 and data.can_estimate(t)]
    found = {"another seed": [], "10 folds": [], "records, same folds": []}
    for task in tqdm(several, survey, leave=False):
        ready, truth = prepare(data, task), store.load_truth(task.name)
        perfect = truth.d_perfect()
        other = refitted(ready, 99, 5, boosted.fit_aggregated)
        found["another seed"].append(moved(truth, other, perfect))
        ten = refitted(
            ready, 99, 10, lambda *arguments: boosted.fit_aggregated(*arguments, folds=10)
        )
        found["10 folds"].append(moved(truth, ten, perfect))
        # Against the fit on aggregates with the same folds, so that only the fit differs.
        records = refitted(ready, 99, 5, fit_records)
        fitted = scoring.anchors(truth.weights, other, perfect)
        on_records = scoring.anchors(truth.weights, records, perfect)
        scores = [
            float(scoring.scale_distance(a.mean, a.zero, a.perfect)) for a in (fitted, on_records)
        ]
        found["records, same folds"].append(
            (
                float(distance(truth.weights, records, other)),
                on_records.zero - fitted.zero,
                on_records.mean - fitted.mean,
                0.0,
                scores[1] - scores[0],
            )
        )
    yield from found.items()
    shipped = [t for t in data.record.all_tasks if data.can_estimate(t)]
    truths = [store.load_truth(task.name) for task in shipped]
    yield "97.5 % quantile", [moved(t, t.p, t.d_perfect(0.975)) for t in truths]
    if all("design" in truth.distances for truth in truths):
        yield "design bootstrap", [moved(t, t.p, t.d_perfect(scheme="design")) for t in truths]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", nargs="+", help="SURVEY=FILE")
    options = parser.parse_args()
    header = ["survey", "instead", "tasks", "D to the truth", "D_zero", "D_mean", "D_perfect"]
    print(f"| {' | '.join(header)} | score of mean |\n|---|---|--:|--:|--:|--:|--:|--:|")
    for given in options.raw:
        survey, path = given.split("=", 1)
        for name, rows in variations(survey, Path(path)):
            if not rows:
                continue
            values = np.array(rows)
            d, zero, mean, perfect, score = values.mean(axis=0)
            print(
                f"| {survey} | {name} | {len(rows)} | {d:.4f} | {zero:+.4f} | {mean:+.4f} | "
                f"{perfect:+.4f} | {score:+.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
