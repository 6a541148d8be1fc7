"""Fits on aggregates against fits on records: do they agree, and how much faster are they?

    python benchmarks/aggregation.py --raw nsduh_2022.parquet [--tasks 33]

For each high-dimensional task: weighted mean |difference| between the record-level fit under two
fold seeds, and between the aggregated and the record-level fit under one seed. The aggregates are
good enough when the second is no larger than the first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import lightgbm as lgb
import numpy as np

from lm_eval_epidemia.estimate import boosted
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import load_microdata


def fit_records(weight, cell, outcome, fold, features):
    """The reference: LightGBM on one row per record, with its default limits on counts."""
    rows = features[cell].astype(np.float64)
    weight = weight * len(weight) / weight.sum()
    predicted = np.empty(len(rows))
    for k in range(boosted.FOLDS):
        inside, outside = fold != k, fold == k
        train = lgb.Dataset(
            rows[inside],
            outcome[inside],
            weight=weight[inside],
            categorical_feature=list(range(rows.shape[1])),
            params=boosted.PARAMETERS,
        )
        valid = lgb.Dataset(
            rows[outside], outcome[outside], weight=weight[outside], reference=train
        )
        model = lgb.train(
            boosted.PARAMETERS,
            train,
            boosted.ROUNDS,
            valid_sets=[valid],
            callbacks=[lgb.early_stopping(boosted.PATIENCE, verbose=False)],
        )
        predicted[outside] = model.predict(rows[outside])
    total = np.bincount(cell, weights=weight, minlength=len(features))
    yes = np.bincount(cell, weights=weight * predicted, minlength=len(features)) / total
    return np.column_stack([1 - yes, yes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--survey", default="nsduh")
    parser.add_argument("--tasks", type=int, default=10**6)
    options = parser.parse_args()
    data = load_microdata(find_record(options.survey), options.raw)
    tasks = [t for t in data.record.all_tasks if len(t.given) > 1 and data.can_estimate(t)]
    seconds = {"records": 0.0, "aggregates": 0.0}
    print(f"{'task':<62}{'cells':>6}{'records, two seeds':>20}{'aggregates vs records':>23}")
    gaps = []
    for task in tasks[: options.tasks]:
        ready = prepare(data, task)
        units = ready.sample.units
        folds = [boosted.assign_folds(units, np.random.default_rng(seed)) for seed in (0, 1)]
        arguments = (ready.sample.weight, ready.cell, ready.outcome)
        start = time.perf_counter()
        first = fit_records(*arguments, folds[0], ready.features)
        seconds["records"] += time.perf_counter() - start
        second = fit_records(*arguments, folds[1], ready.features)
        start = time.perf_counter()
        fast = boosted.fit_aggregated(*arguments, folds[0], ready.features)
        seconds["aggregates"] += time.perf_counter() - start
        seeds = float(ready.weights @ np.abs(first - second)[:, 1])
        gap = float(ready.weights @ np.abs(first - fast)[:, 1])
        gaps.append((seeds, gap))
        print(f"{task.name:<62}{len(ready.weights):>6}{seeds:>20.5f}{gap:>23.5f}", flush=True)
    mean_seeds, mean_gap = np.mean(gaps, axis=0)
    print(f"{'mean':<68}{mean_seeds:>20.5f}{mean_gap:>23.5f}")
    ratio = seconds["records"] / seconds["aggregates"]
    print(f"time per fit: records / aggregates = {ratio:.1f}")


if __name__ == "__main__":
    main()
