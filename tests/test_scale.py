"""Reports of many models: arrays over all pairs say what one pair after another says."""

from itertools import combinations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from report_parts import scored

from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.pool import Pool
from lm_eval_epidemia.findings.ranks import verdicts
from lm_eval_epidemia.results.choose import KEY
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys.catalogue import all_tasks

LOW = sorted(name for name in all_tasks() if name.startswith("epidemia_low_"))
HIGH = sorted(name for name in all_tasks() if name.startswith("epidemia_high_"))


def models(number, tasks, random, faults):
    """Make models of differing skill; with `faults` some share draws with nobody, or are twins."""
    made = []
    for run in range(number):
        skill, rows = random.uniform(0, 2), []
        for task in tasks:
            value = float(np.clip(50 + 10 * skill + random.normal(0, 4), 0, 100))
            at = np.clip(value + random.normal(0, 2, 20), 0, 100)
            survey = task.split("_")[2]
            sample = f"{survey}_2022 {int(faults and random.random() < 0.01)}"
            drawn = Draws(sample, at, float(random.choice([0, 1.0])), at + random.normal(0, 1, 20))
            uncut = value * random.uniform(0.8, 1.4)
            unknown = faults and random.random() < 0.005
            exact = survey in ("bls", "fbi")
            rows.append(
                {
                    "value": value,
                    "l1": (100 - value) / 100,
                    "score_population": min(uncut, 100.0),
                    "draws": Draws("", np.array([]), 0.0) if exact else drawn,
                    "population": None if unknown else Draws(sample, at * 0.9, uncut=uncut),
                }
            )
        of = scored(dict.fromkeys(tasks, 0.0), run=run).assign(**pd.DataFrame(rows))
        twin = faults and made and random.random() < 0.3
        of = made[-1].assign(run=run) if twin else of
        made.append(of.assign(model=f"model-{run if random.random() < 0.9 else 0}"))
    return made


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["low", "high", "few"]))
def test_all_pairs_at_once_are_single_pairs(seed, faults, which):
    random = np.random.default_rng(seed)
    tasks = {"low": LOW[::4], "high": HIGH[::6], "few": LOW[:3]}[which]
    group = "epidemia_high" if which == "high" else "epidemia_low"
    made = models(9, tasks, random, faults)
    scores = pd.concat(made, ignore_index=True)
    pool = Pool(scores, dict.fromkeys(tasks, 0.05))
    asked = sorted(zip(*(made[0][name] for name in KEY), strict=True))
    of = verdicts(scores, group, range(len(made)), asked, pool)
    expected = np.zeros_like(of)
    for i, j in combinations(range(len(made)), 2):
        verdict = compare(made[i], made[j], pool).verdict
        expected[i, j] = {"better": 1, "worse": -1}.get(verdict, 0)
        expected[j, i] = -expected[i, j]
    assert (of == expected).all()
