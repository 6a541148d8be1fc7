"""Reports of many models: arrays over all pairs say what one pair after another says."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from report_parts import scored

from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.pool import Pool
from lm_eval_epidemia.findings.ranks import verdicts
from lm_eval_epidemia.results.choose import KEY
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys.catalogue import all_tasks

LOW, HIGH = (
    sorted(name for name in all_tasks() if name.startswith(f"epidemia_{group}_"))
    for group in ("low", "high")
)


def model(run, tasks, random, faults):
    """A model of some skill; with faults, some tasks are of other samples, or of no population."""
    made = scored(dict.fromkeys(tasks, 0.0), run=run, model=f"model-{run % 8}")
    made["value"] = np.clip(random.normal(50 + 10 * random.uniform(0, 2), 4, len(tasks)), 0, 100)
    made["l1"] = 1 - made["value"] / 100
    for row, (task, value) in enumerate(zip(tasks, made["value"], strict=True)):
        survey, at = task.split("_")[2], np.clip(random.normal(value, 2, 20), 0, 100)
        sample = f"{survey} {int(faults and random.random() < 0.01)}"
        drawn = Draws(sample, at, random.choice([0, 1.0]), at + random.normal(0, 1, 20))
        population = Draws(sample, at * 0.9, uncut=value * random.uniform(0.8, 1.4))
        made.loc[row, "score_population"] = min(population.uncut, 100)
        made.at[row, "draws"] = Draws("", np.array([]), 0.0) if survey == "bls" else drawn
        made.at[row, "population"] = None if faults and random.random() < 0.005 else population
    return made


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("tasks", [LOW[::4], HIGH[::6], LOW[:3]], ids=["low", "high", "few"])
def test_all_pairs_at_once_are_single_pairs(tasks, faults):
    for seed in range(2):
        random = np.random.default_rng(seed)
        made = [model(run, tasks, random, faults) for run in range(9)]
        if faults:  # and twins
            made[4] = made[3].assign(run=4)
        scores = pd.concat(made, ignore_index=True)
        pool = Pool(scores, dict.fromkeys(tasks, 0.05))
        asked = sorted(zip(*(made[0][name] for name in KEY), strict=True))
        group = "_".join(tasks[0].split("_")[:2])
        expected = np.zeros((9, 9))
        for i, j in combinations(range(9), 2):
            verdict = compare(made[i], made[j], pool).verdict
            expected[i, j] = {"better": 1, "worse": -1}.get(verdict, 0)
            expected[j, i] = -expected[i, j]
        assert (verdicts(scores, group, range(9), asked, pool) == expected).all()
        assert expected.any() == (len(tasks) > 3)
