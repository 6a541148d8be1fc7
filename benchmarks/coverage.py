"""Are the errors true? Surveys are drawn again and again, and what is claimed is held against them.

    python benchmarks/coverage.py --data FOLDER [--part errors|population|another] [--jobs 2]

FOLDER has the survey files under the names in `redraw.FILES`. Three parts:

errors      The true standard deviation of a group's mean over redrawn surveys, over the stated one.
population  How often score_population +- 1.96 errors covers the score against the population.
another     How often a respondent that knows the population reaches 100 on the scale of another
            survey.

Surveys are redrawn by `redraw.py`, not by the package's own code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
from redraw import (
    GROUPS,
    RESPONDENTS,
    SEED,
    STRENGTH,
    DrawnPart,
    Redrawable,
    fitted,
    met,
    redrawable,
    redrawn,
    run,
    scores,
    with_replicates,
)
from tqdm import tqdm

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation.measured import Measured
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import boosted, store
from lm_eval_epidemia.estimate.estimators import draw_outcomes, intraclass_correlation
from lm_eval_epidemia.score.joint import Draws, joint_error
from lm_eval_epidemia.score.score import anchors, position, scale_distance, zero_distance

Z = 1.96


# -- errors -----------------------------------------------------------------------------------


def part_errors(options) -> bool:
    """The spread of a group's mean over redrawn surveys, over the error that is stated of it."""
    print("| surveys | group | respondent | score | true sd | stated | ratio | as if independent |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    ratios: dict[str, list[float]] = {"redrawn": [], "twice": []}

    def row(surveys, group, name, value, true, stated, alone):
        ratios[surveys].append(true / stated)
        print(
            f"| {surveys} | {group} | {name} | {value:.1f} | {true:.2f} | {stated:.2f} | "
            f"{true / stated:.2f} | {true / alone:.2f} |",
            flush=True,
        )

    for group in GROUPS:
        tasks = [one for found in redrawn(options, group).values() for one in found]
        for name in ("up", "down", "noisy", "mean"):
            at, draws, value = [], [], []
            for truth, p in tasks:
                q = RESPONDENTS[name](truth, STRENGTH)
                at.append(scores(truth, q, p))
                value.append(float(scores(truth, q, truth.p)))
                draws.append(Draws(truth.sample, scores(truth, q, truth.replicates)))
            alone = np.sqrt(sum(one.at.var(ddof=1) for one in draws)) / len(draws)
            true = np.mean(at, axis=0).std(ddof=1)
            row("redrawn", group, name, np.mean(value), true, joint_error(draws), alone)
    for name, (value, at, stated, alone) in _simulated_twice(options).items():
        row("twice", GROUPS[0], name, value, at.std(ddof=1), stated.mean(), alone.mean())
    bounded, own = ratios.values()
    holds = all(0.85 <= ratio <= 1.15 for ratio in bounded)
    print(
        f"true sd / stated: {min(bounded):.2f} to {max(bounded):.2f} (0.85 to 1.15): {met(holds)}"
    )
    print(
        f"stated by simulated surveys from replicates of their own: {min(own):.2f} to "
        f"{max(own):.2f} (no bound: their own noise flattens the kinks of |p - q|)"
    )
    return holds


def _simulated_twice(options):
    """Draw surveys, and from each its own replicates: what each would itself have stated.

    The population is the shipped sample, each of its strata without end; a survey draws all of a
    stratum's PSUs with replacement, its replicates are Rao and Wu's of what it drew.
    """
    names = ("up", "down", "noisy", "mean")
    found = {name: np.zeros((3, options.surveys)) for name in names}
    values, count = dict.fromkeys(names, 0.0), 0
    for number, tasks in enumerate(redrawable(options.data, GROUPS[0]).values()):
        rng = np.random.default_rng([SEED, 1, number])
        answered = {name: [RESPONDENTS[name](t.truth, STRENGTH) for t in tasks] for name in names}
        count += len(tasks)
        for name in names:
            pairs = zip(tasks, answered[name], strict=True)
            values[name] += sum(float(scores(t.truth, q, t.truth.p)) for t, q in pairs)
        surveys = with_replicates(tasks, rng, options.surveys, options.replicates)
        for s, p in enumerate(tqdm(surveys, total=options.surveys, leave=False)):
            for name in names:
                at = np.array(
                    [
                        scores(t.truth, q, one)
                        for t, q, one in zip(tasks, answered[name], p, strict=True)
                    ]
                )
                found[name][0, s] += at[:, 0].sum()
                found[name][1, s] += at[:, 1:].sum(axis=0).var(ddof=1)
                found[name][2, s] += at[:, 1:].var(axis=1, ddof=1).sum()
    return {
        name: (values[name] / count, sums / count, np.sqrt(joint) / count, np.sqrt(alone) / count)
        for name, (sums, joint, alone) in found.items()
    }


# -- the score against the population ---------------------------------------------------------

#: Counted tasks of small and of large surveys.
COUNTED = [
    f"epidemia_low_{name}"
    for name in (
        "gss_political_view_by_age",
        "gss_party_by_race",
        "gss_party_by_education",
        "scf_net_worth_by_age",
        "scf_home_ownership_by_age",
        "meps_office_visits_by_age_group",
        "meps_expenditure_by_race",
        "meps_insured_by_age_group",
        "nhanes_diabetes_by_age",
        "nsduh_cocaine_ever_by_age",
        "nsduh_heroin_ever_by_age",
        "acs_salary_by_age",
    )
]
ASKED = [("up", 0.3), ("down", 0.3), ("noisy", 0.3), ("noisy, other seed", 0.6), ("mean", 0.0)]


def part_population(options) -> bool:
    """Whether score_population +- 1.96 errors covers the score against the population.

    The shipped P(Y | X) is the population; every cell of a survey is a multinomial sample of its
    effective size, and the survey's replicates are i.i.d. bootstrap samples of it.
    """
    print(
        "| task | respondent | in the population | score_population | sd | stated | covered, "
        "per cent | score, 0.1.0 |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    found = []
    for number, task in enumerate(COUNTED):
        truth, rng = store.load_truth(task), np.random.default_rng([SEED, 4, number])
        asked = {}
        for name, strength in ASKED:
            q = RESPONDENTS[name](truth, strength)
            aim = float(
                position(distance(truth.weights, truth.p, q), zero_distance(truth.weights, truth.p))
            )
            if 10 <= aim <= 90:
                asked[name, strength] = q, aim
        said = {key: [] for key in asked}
        size = np.maximum(np.rint(truth.n_eff), 1).astype(np.int64)
        for _ in tqdm(range(options.surveys), task, leave=False):
            p = rng.multinomial(size, truth.p) / size[:, None]
            drawn = rng.multinomial(size, p, (options.replicates, len(size))) / size[:, None]
            whole = np.ones(len(size), dtype=bool)
            part = DrawnPart(
                replace(truth, p=p), whole, truth.weights, p, anchors(truth.weights, p, 0.0), drawn
            )
            for key, (q, _) in asked.items():
                one = Measured(part, Elicited(q))
                error = joint_error([one.score_population_draws])
                # What 0.1.0 claimed of the score, here without D_perfect.
                plain = float(scale_distance(one.l1, part.anchors.zero, 0.0))
                before = joint_error([one.score_draws])
                said[key].append((one.score_population, error, plain, before))
        for (name, strength), (_, aim) in asked.items():
            value, error, plain, before = np.array(said[name, strength]).T
            covered = 100 * (np.abs(value - aim) <= Z * error).mean()
            plainly = 100 * (np.abs(plain - aim) <= Z * before).mean()
            found.append((covered, plainly))
            print(
                f"| {task.removeprefix('epidemia_low_')} | {name} {strength} | {aim:.1f} | "
                f"{value.mean():.1f} | {value.std(ddof=1):.2f} | {error.mean():.2f} | "
                f"{covered:.1f} | {plainly:.1f} |",
                flush=True,
            )
    covered, plainly = np.array(found).T
    holds = 92 <= np.median(covered) <= 98 and (covered > 85).mean() >= 0.9
    for what, of in (("score_population", covered), ("score, as 0.1.0 claimed", plainly)):
        print(
            f"{what}: {len(of)} mid-scale cases, median coverage {np.median(of):.1f} %, above 85 % "
            f"in {100 * (of > 85).mean():.0f} % of them, least {of.min():.0f} %"
        )
    print(f"score_population, median 92 to 98 and nine of ten above 85: {met(holds)}")
    return holds


# -- another survey ---------------------------------------------------------------------------

KNOWN = [
    f"epidemia_high_{name}"
    for name in (
        "meps_insured_by_age_race",
        "meps_insured_by_education_sex",
        "meps_insured_by_age_education_sex_race",
        "scf_home_ownership_by_age_education_sex_race",
        "nsduh_cocaine_ever_by_sex_race",
        "nsduh_cocaine_ever_by_age_education_sex_race",
    )
]


def _another(task: Redrawable, key) -> float:
    """Draw a survey from the estimated population, estimate it anew: D(P_s, P)."""
    ready, truth = task.ready, task.truth
    alike = intraclass_correlation(ready.sample, ready.cell, ready.outcome, truth.p)
    rng = np.random.default_rng(key)
    outcome = draw_outcomes(ready.sample, ready.cell, truth.p, alike, rng)
    # As the estimate itself: the mean over all choices of folds.
    p = fitted(replace(ready, outcome=outcome), ready.sample.weight, boosted.SEEDS, key)
    return float(distance(truth.weights, p, truth.p))


def part_another(options) -> bool:
    """How often a population-knower reaches 100: each survey simulated, each fitted anew."""
    print(
        "| task | D_perfect, iid | reaches 100, per cent | D_perfect, another survey | reaches "
        "100, per cent | from | to |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    shares, inside = [], []
    everything = redrawable(options.data, GROUPS[1])
    tasks = {t.truth.task: t for found in everything.values() for t in found}
    for number, name in enumerate(KNOWN):
        truth, replicates = tasks[name].truth, len(tasks[name].truth.distances["population"])
        calls = [
            joblib.delayed(_another)(tasks[name], (SEED, 5, number, s))
            for s in range(options.surveys)
        ]
        made = joblib.Parallel(options.jobs, return_as="generator")(calls)
        d = np.array(list(tqdm(made, name, len(calls), leave=False)))
        iid, other = truth.d_perfect(), truth.d_perfect(scheme="population")
        share = 100 * (d <= other).mean()
        # Both the quantile and the share are of a limited number of simulated surveys.
        reach = Z * 100 * np.sqrt(0.95 * 0.05 * (1 / len(d) + 1 / replicates))
        shares.append(share)
        inside.append(92 - reach <= share <= 98 + reach)
        print(
            f"| {name.removeprefix('epidemia_high_')} | {iid:.4f} | {100 * (d <= iid).mean():.1f} "
            f"| {other:.4f} | {share:.1f} | {share - reach:.1f} | {min(share + reach, 100):.1f} |",
            flush=True,
        )
    holds = 92 <= np.mean(shares) <= 98 and all(inside)
    print(
        f"a population-knower reaches 100 in {np.mean(shares):.1f} % of surveys, "
        f"{min(shares):.1f} to {max(shares):.1f} (92 to 98, up to Monte Carlo error): {met(holds)}"
    )
    return holds


PARTS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "errors": part_errors,
    "population": part_population,
    "another": part_another,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the survey files")
    parser.add_argument("--redraws", type=int, default=100, help="surveys redrawn (errors)")
    parser.add_argument("--surveys", type=int, default=200, help="surveys simulated (the others)")
    parser.add_argument("--replicates", type=int, default=100, help="of each simulated survey")
    run(parser, PARTS)


if __name__ == "__main__":
    main()
