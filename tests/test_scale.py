"""Reports of many models: arrays over all pairs say what one pair after another says."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.old.findings.comparison import compare_entries
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.old.findings.verdicts import verdicts
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys.catalogue import all_tasks

LOW = sorted(name for name in all_tasks() if name.startswith("epidemia_low_"))
HIGH = sorted(name for name in all_tasks() if name.startswith("epidemia_high_"))


def models(number: int, tasks: list[str], random: np.random.Generator, faults: bool) -> list[Entry]:
    """Make models of differing skill; with `faults` some share draws with nobody, or are twins."""
    entries = []
    for place in range(number):
        skill, scores = random.uniform(0, 2), {}
        for task in tasks:
            value = float(np.clip(50 + 10 * skill + random.normal(0, 4), 0, 100))
            at = np.clip(value + random.normal(0, 2, 20), 0, 100)
            sample = f"{task.split('_')[2]}_2022 {int(faults and random.random() < 0.01)}"
            drawn = Draws(sample, at, float(random.choice([0, 1.0])), at + random.normal(0, 1, 20))
            exact = Draws("", np.array([]), 0.0)
            uncut = value * random.uniform(0.8, 1.4)
            known = {"l1": (100 - value) / 100, "score_population": min(uncut, 100.0)}
            scores[Asked(task, "letters")] = TaskScore(
                value,
                exact if task.split("_")[2] in ("bls", "fbi") else drawn,
                known,
                None
                if faults and random.random() < 0.005
                else Draws(sample, at * 0.9, uncut=uncut),
            )
        if faults and entries and random.random() < 0.3:
            scores = entries[-1].scores
        entries.append(
            Entry(f"model-{place if random.random() < 0.9 else 0}", twin=place, scores=scores)
        )
    return entries


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["low", "high", "few"]))
def test_all_pairs_at_once_are_single_pairs(seed: int, faults: bool, which: str) -> None:
    random = np.random.default_rng(seed)
    tasks = {"low": LOW[::4], "high": HIGH[::6], "few": LOW[:3]}[which]
    column = "epidemia_high" if which == "high" else "epidemia_low"
    entries = models(9, tasks, random, faults)
    asked = sorted(entries[0].scores)
    pool = Pool(entries, dict.fromkeys(tasks, 0.05))
    of = verdicts(entries, column, asked, pool)
    expected = np.zeros_like(of)
    for i, j in combinations(range(len(entries)), 2):
        verdict = compare_entries(entries[i], entries[j], column, asked, pool).verdict
        expected[i, j] = {"better": 1, "worse": -1}.get(verdict, 0)
        expected[j, i] = -expected[i, j]
    assert (of == expected).all()
