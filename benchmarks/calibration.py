"""Is the calibration error right? Surveys are drawn from the shipped truths, and it is measured.

    python benchmarks/calibration.py [--surveys 100]

The population is the shipped truth of `epidemia_low`. A stored replicate of every survey stands for
one that was drawn, with all its tasks, and the other replicates, moved, are its own: what tasks of
a survey share is kept. Respondents know the population, or err in a known way; their calibration
error in the population is known. Coverage: 1.96 errors to either side.
"""

import argparse
from types import SimpleNamespace

import numpy as np
from redraw import sharpened, tilted
from tqdm import tqdm

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.benchmarks.observation.measured import Part
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.calibration import measure_calibration

SEED = 55

RESPONDENTS = {
    "knows the population": lambda truth: truth.p,
    "leans a little": lambda truth: tilted(truth, 0.05),
    "leans": lambda truth: tilted(truth, 0.5),
    "flattens": lambda truth: sharpened(truth, 0.6),
    "noise of .3": lambda truth: simulate_answers(truth, "noisy", 0.3),
}


def drawn(truth: store.GroundTruth, number: int | None) -> Part:
    """Return a task in the population, or with a replicate of its survey in place of its truth."""
    p, at = truth.p, truth.replicates[:0]
    if number is not None and len(truth.replicates):
        p = np.clip(truth.replicates[number], 0, 1)
        others = np.delete(truth.replicates, number, axis=0)
        at = np.clip(p + others - truth.p, 0, 1)
    made = SimpleNamespace(
        task=truth.task, p=p, n_eff=truth.n_eff, sample=truth.sample * (len(at) > 0), replicates=at
    )
    return Part(made, np.ones(len(p), bool), truth.weights, p, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surveys", type=int, default=100, help="how often all are drawn")
    options = parser.parse_args()
    truths = [store.load_truth(name) for name, _ in find_tasks("epidemia_low")]
    names, rng = sorted({truth.sample for truth in truths}), np.random.default_rng(SEED)
    print("| respondent | true | plain | corrected | ± covers it, % | tilt (off) | slope (off) |")
    print("|---|" + "--:|" * 6)
    for who, respondent in RESPONDENTS.items():
        told = [Elicited(respondent(truth)) for truth in truths]
        exact = measure_calibration([*zip([drawn(t, None) for t in truths], told, strict=True)])
        rows = []
        for _ in tqdm(range(options.surveys), who, leave=False):
            number = dict(zip(names, rng.integers(100, size=len(names)), strict=True))
            parts = [drawn(truth, number[truth.sample]) for truth in truths]
            rows.append(measure_calibration([*zip(parts, told, strict=True)]))
        of = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        covers = []
        for x in ("ece", "tilt", "slope"):
            off, error = of[x] - exact[x], of[f"{x}_error"]
            covers.append(f"{100 * np.mean(abs(off) <= 1.96 * error):.0f}")
            if x != "ece":
                covers[-1] += f" ({off.mean():+.4f}, error {error.mean():.4f})"
        numbers = (100 * exact["ece"], *(100 * of[x].mean() for x in ("ece_plain", "ece")))
        print(f"| {' | '.join([who, *(f'{x:.2f}' for x in numbers), *covers])} |", flush=True)


if __name__ == "__main__":
    main()
