"""Is the slope of the calibration line that of the population? Surveys are drawn, and it is fitted.

    python benchmarks/calibration_line.py --data FOLDER [--surveys 100] [--boosted 20] [--jobs 2]

The population is the shipped truth. A respondent that knows it has slope 1 there and tilt 0; others
flatten or overstate its differences or lean to one side. Each survey is drawn anew, with replicates
of its own, and `score.calibration_line` is fitted to it; plain is the same without its correction.

counted   PSUs within strata with replacement (`redraw.py`), replicates by Rao and Wu.
boosted   outcomes of all records drawn from the fitted truth, fitted anew, and so is each
          replicate; every second task of MEPS and SCF, every fifth of NSDUH.
stored    a replicate of the shipped truth stands for a survey, and its own are the other
          replicates, moved: for ACS, BRFSS and NHIS, whose files are large or not here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
from redraw import GROUPS, SEED, factors, fitted, redrawable, sharpened, tilted, with_replicates
from tqdm import tqdm

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.estimators import draw_outcomes, intraclass_correlation
from lm_eval_epidemia.score.calibration_line import CalibrationLine, fit_line, moments
from lm_eval_epidemia.score.scales import fill_sizes
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task

#: How far the population-knower may be from 1.
BOUND = 0.05
#: Replicates of a boosted survey, each fitted anew.
REFITTED = 12
#: Surveys whose stored replicates stand for surveys, and the group that most of their tasks are in.
STORED = {"acs": "epidemia_low", "brfss": "epidemia_low", "nhis": "epidemia_extra"}
#: Every which of a survey's boosted tasks is simulated.
STEPS = {"meps": 2, "scf": 2, "nsduh": 5}


KNOWER = "knows the population"
RESPONDENTS = {
    KNOWER: lambda truth: truth.p,
    "flattens": lambda truth: sharpened(truth, 0.6),
    "overstates": lambda truth: sharpened(truth, 1.5),
    "leans": lambda truth: tilted(truth, 0.5),
}


class Survey(NamedTuple):
    """A task in one drawn survey, by its name: P(Y | X), (C, K), at its replicates, (B, C, K)."""

    sample: str
    truth: store.GroundTruth
    p: np.ndarray
    replicates: np.ndarray


def through(surveys: list[Survey], respondent, corrected: bool = True) -> CalibrationLine:
    """Fit the line to what a respondent says of tasks."""
    return fit_line(
        [
            moments(
                s.truth.weights,
                s.p,
                respondent(s.truth),
                fill_sizes(s.truth.p, s.truth.n_eff),
                s.replicates if corrected else s.replicates[:0],
                s.sample * corrected,
            )
            for s in surveys
        ]
    )


def of_counted(options) -> Iterator[tuple[str, str, list[list[Survey]]]]:
    """Draw counted tasks of each survey again and again, with replicates of each."""
    for number, (survey, tasks) in enumerate(redrawable(options.data, GROUPS[0]).items()):
        rng = np.random.default_rng([SEED, 6, number])
        surveys = [
            [Survey(survey, t.truth, p[0], p[1:]) for t, p in zip(tasks, estimates, strict=True)]
            for estimates in with_replicates(tasks, rng, options.surveys, options.replicates)
        ]
        yield survey, "counted", surveys


def _refitted(survey, task, key) -> Survey:
    """Draw a survey from the fitted population of a boosted task, fit it and its replicates."""
    ready, truth, rng = task.ready, task.truth, np.random.default_rng(key)
    alike = intraclass_correlation(ready.sample, ready.cell, ready.outcome, truth.p)
    outcome = draw_outcomes(ready.sample, ready.cell, truth.p, alike, rng)
    ready, weight = replace(ready, outcome=outcome), ready.sample.weight
    seeds = boosted.seeds_of_survey(ready.units)
    replicates = [
        fitted(ready, weight * f[task.psu], seeds, (*key, b))
        for b, f in enumerate(factors(task.strata, rng, REFITTED, task.fewer))
    ]
    return Survey(survey, truth, fitted(ready, weight, boosted.SEEDS, key), np.array(replicates))


def of_boosted(options) -> Iterator[tuple[str, str, list[list[Survey]]]]:
    """Draw some boosted tasks of each survey again and again."""
    for number, (survey, tasks) in enumerate(redrawable(options.data, GROUPS[1]).items()):
        tasks = tasks[:: STEPS[survey]]
        calls = [
            joblib.delayed(_refitted)(f"{survey}, boosted", task, (SEED, 7, number, s))
            for s in range(options.boosted)
            for task in tasks
        ]
        made = joblib.Parallel(options.jobs, return_as="generator")(calls)
        flat = list(tqdm(made, survey, len(calls), leave=False))
        yield survey, "boosted", [flat[i : i + len(tasks)] for i in range(0, len(flat), len(tasks))]


def of_stored(_options) -> Iterator[tuple[str, str, list[list[Survey]]]]:
    """Take the stored replicates as surveys."""
    for survey, group in STORED.items():
        names = [n for n, _ in find_tasks(group) if declared_task(n).survey == survey]
        truths = [store.load_truth(name) for name in names if store.is_available(name)]
        surveys = []
        for b in range(0, 100, 5):
            others = [j for j in range(100) if j != b]
            surveys.append(
                [
                    Survey(survey, t, r[b], np.clip(r[b] + r[others] - t.p, 0, 1))
                    for t, r in ((t, t.replicates) for t in truths)
                ]
            )
        yield survey, "stored", surveys


class Fits(NamedTuple):
    """What a respondent's line is in the population, and in each drawn survey, with its error."""

    exact: CalibrationLine
    slopes: np.ndarray
    tilts: np.ndarray
    errors: np.ndarray


def fit(surveys: list[list[Survey]], respondent) -> Fits:
    """Fit a respondent's line in each survey, and in the population that they are drawn from."""
    population = [s._replace(p=s.truth.p) for s in surveys[0]]
    lines = [through(tasks, respondent) for tasks in surveys]
    return Fits(
        through(population, respondent, corrected=False),
        np.array([one.slope for one in lines]),
        np.array([one.tilt for one in lines]),
        np.array([np.sqrt(sum(at[1].var(ddof=1) for at in one.draws.values())) for one in lines]),
    )


def mean_of(values, spec: str = ".3f") -> str:
    """Write a mean over surveys and its Monte Carlo error."""
    return f"{np.mean(values):{spec}} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


def table_row(name: str, kind: str, surveys: list[list[Survey]]) -> float:
    """Print a row of the table; return the slope of who knows the population."""
    fits = {who: fit(surveys, respondent) for who, respondent in RESPONDENTS.items()}
    knows, *others = fits.values()
    plain = [through(s, RESPONDENTS[KNOWER], False).slope for s in surveys]
    covers = np.abs(knows.slopes - 1) <= 1.96 * knows.errors
    # Slopes and tilts are corrected; in brackets what they are in the population.
    cells = [
        name,
        f"{len(surveys[0])} {kind}",
        f"{np.mean(plain):.3f}",
        mean_of(knows.slopes),
        mean_of(knows.tilts, "+.3f"),
        f"{100 * covers.mean():.0f}",
        *(f"{mean_of(f.slopes)} ({f.exact.slope:.2f})" for f in others),
        f"{mean_of(fits['leans'].tilts, '+.3f')} ({fits['leans'].exact.tilt:+.2f})",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)
    return float(np.mean(knows.slopes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the survey files")
    parser.add_argument("--surveys", type=int, default=100, help="drawn of counted tasks")
    parser.add_argument("--boosted", type=int, default=20, help="drawn of boosted tasks")
    parser.add_argument("--replicates", type=int, default=100, help="of each drawn survey")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    print(
        "| survey | tasks | knows the population: plain | corrected | its tilt | slope ± 1.96 "
        "errors covers 1, per cent | flattens | overstates | leans | tilt of who leans |"
    )
    print("|---|---|" + "--:|" * 8)
    outside, single, kept = [], [], {}
    for source in (of_counted, of_stored, of_boosted):
        for survey, kind, surveys in source(options):
            slope = table_row(survey, kind, surveys)
            kept[survey, kind] = surveys[: options.boosted]
            if abs(slope - 1) > BOUND:
                outside.append(f"{survey}, {kind} ({slope:.3f})")
            tasks = [s.truth for s in surveys[0]]
            if kind == "counted":
                for k, truth in enumerate(tasks):
                    of_task = [[drawn_anew[k]] for drawn_anew in surveys]
                    each = [
                        [through(s, RESPONDENTS[KNOWER], c).slope for s in of_task]
                        for c in (False, True)
                    ]
                    single.append((*map(np.nanmean, each), truth.task))
    # As they are asked: the groups, and everything of a survey together.
    low, high = ([of for (_, k), of in kept.items() if k == w] for w in ("counted", "boosted"))
    together = {GROUPS[0]: low, GROUPS[1]: high}
    for survey in STEPS:
        together[survey] = [of for (name, _), of in kept.items() if name == survey]
    for name, parts in together.items():
        whole = [
            [s for part in drawn_anew for s in part] for drawn_anew in zip(*parts, strict=True)
        ]
        table_row(name, "together", whole)
    print("\nThe population-knower in single counted tasks, least and most:")
    for k, what in enumerate(("plain", "corrected")):
        ordered = sorted(single, key=itemgetter(k))
        ends = [f"{of_task[k]:.2f} ({of_task[2]})" for of_task in (ordered[0], ordered[-1])]
        print(f"{what} {' to '.join(ends)}")
    missed = "; ".join(outside)
    print(
        f"Slope 1 ± {BOUND} of the population-knower: "
        + (f"bound NOT met in {missed}" if outside else "bound met in every survey")
    )


if __name__ == "__main__":
    main()
