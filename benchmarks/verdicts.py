"""Are "better here" and "better" true? Equals that are told apart, and how often others are.

    python benchmarks/verdicts.py --data FOLDER [--part here|better] [--jobs 2]

FOLDER has the survey files under the names in `redraw.FILES`. Two parts:

here     How often "better here" is said of pairs of equals: equal in the population, or equal in
         `score`. And how often of pairs that differ, with and without the score against the
         population in the rule.
better   How often "better" is said of two models with the same mean, and of models that are 12 to
         45 points apart, with five others at hand, ten pairs; and how often by a t over outcomes
         alone, with and without CR2. How much models know varies between outcomes.

Pairs are fixed in `PAIRS`. Surveys of `epidemia_low` are drawn anew from their records by
`redraw.py`. Those of `epidemia_high` would each have to be boosted anew; they are the truth plus a
random mixture of its replicates' deviations, ``P + sum_b z_b (P^(b) - mean P) / sqrt(B - 1)``, z
standard normal. Every survey is drawn `--draws` times, and a redraw takes one draw of each survey,
all independent. What is claimed is the package's own doing: `Measured`, `results.compare`, whose
rule for these very tasks `_sides` repeats for many redraws at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
from redraw import (
    GROUPS,
    RESPONDENTS,
    SEED,
    DrawnPart,
    counted,
    factors,
    met,
    redrawable,
    run,
    scores,
    sharpened,
)
from scipy import stats
from scipy.optimize import brentq
from tqdm import tqdm

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import find_tasks, list_leaves
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.compare import CONFIDENCE, HERE, Pool, compare_scores, noise_of
from lm_eval_epidemia.results.decode import POPULATION
from lm_eval_epidemia.score.score import anchors, scale_distance, zero_distance

# -- respondents ------------------------------------------------------------------------------


CLASSES = {
    "up": RESPONDENTS["up"],
    "down": RESPONDENTS["down"],
    "noise": RESPONDENTS["noisy"],
    "noise 2": RESPONDENTS["noisy, other seed"],
    "flattened": lambda truth, strength: sharpened(truth, 1 / (1 + strength)),
    "overstated": lambda truth, strength: sharpened(truth, 1 + strength),
    "mean": RESPONDENTS["mean"],
}

#: A class and its strength, and the class that is made as good as it.
PAIRS = [
    (("up", 0.3), "down"),
    (("up", 0.3), "noise"),
    (("down", 0.3), "noise"),
    (("noise", 0.3), "noise 2"),
    (("mean", 0.0), "up"),
    (("mean", 0.0), "down"),
    (("mean", 0.0), "noise"),
    (("flattened", 0.3), "up"),
    (("flattened", 0.3), "down"),
    (("flattened", 0.3), "noise"),
    (("flattened", 0.3), "overstated"),
    (("noise", 0.1), "up"),
]

#: Pairs of which power is asked, and by how many points the second is worse in the population.
DIFFERENT = [PAIRS[0], PAIRS[1], PAIRS[3], PAIRS[7], PAIRS[9]]
APART = (4.0, 8.0)


def in_population(truth, q):
    return scale_distance(
        distance(truth.weights, truth.p, q), zero_distance(truth.weights, truth.p), 0.0
    )


def in_score(truth, q):
    return scores(truth, q, truth.p)


EQUAL_IN = {"population": in_population, "score": in_score}


def mean_of(measure, truths, respondent) -> float:
    name, strength = respondent
    return float(np.mean([measure(t, CLASSES[name](t, strength)) for t in truths]))


def as_good(measure, truths, first, name, less=0.0):
    """Return the class at the strength at which it is as good as the first, or worse by `less`."""
    aim = mean_of(measure, truths, first) - less

    def off(strength):
        return mean_of(measure, truths, (name, strength)) - aim

    return name, float(brentq(off, 1e-3, 20, xtol=1e-5))


# -- better here ------------------------------------------------------------------------------


class Sums(NamedTuple):
    """Sums over the tasks of one survey, of respondents (M), in draws of it (R).

    Attributes
    ----------
    score, mean, population : ndarray, shape (M, R)
        The score, its mean over the replicates, and the score against the population, not cut off.
    unbiased, against : ndarray, shape (M, R, B)
        Draws of the score less its bias, and of the score against the population.
    """

    score: np.ndarray
    mean: np.ndarray
    population: np.ndarray
    unbiased: np.ndarray
    against: np.ndarray


def _measured(truth, ps, qs) -> Sums:
    """Score respondents (M, C, K) in one task of redrawn surveys (R, C, K)."""
    size = len(truth.replicates)
    one = [np.zeros((len(qs), len(ps))) for _ in range(3)]
    sums = Sums(*one, *(np.zeros((len(qs), len(ps), size)) for _ in range(2)))
    whole, weights = np.ones(len(truth.weights), dtype=bool), truth.weights
    deviations = truth.replicates - truth.p
    for r, p in enumerate(ps):
        ends = anchors(weights, p, truth.d_perfect())
        # Its replicates deviate from it as the shipped ones do from the truth.
        part = DrawnPart(replace(truth, p=p), whole, weights, p, ends, p + deviations)
        for m, q in enumerate(qs):
            measured = Measured(part, Elicited(q))
            draws, against = measured.score_draws, measured.score_population_draws
            sums.score[m, r], sums.mean[m, r] = measured.score, draws.at.mean()
            sums.population[m, r] = measured.score_population_uncut
            sums.unbiased[m, r], sums.against[m, r] = draws.unbiased.at, against.at
    return sums


def _surveys(options, group):
    """Draw every survey anew: by survey, truths and their P(Y | X), (R, C, K)."""
    if group == GROUPS[0]:
        for number, (survey, tasks) in enumerate(redrawable(options.data, group).items()):
            rng = np.random.default_rng([SEED, 11, number])
            factor = factors(tasks[0].strata, rng, options.draws, tasks[0].fewer)
            yield survey, [(task.truth, counted(task, factor)) for task in tasks]
        return
    by_survey: dict[str, list[store.GroundTruth]] = {}
    for name, _ in find_tasks(group):
        truth = store.load_truth(name)
        by_survey.setdefault(truth.survey, []).append(truth)
    for number, (survey, truths) in enumerate(by_survey.items()):
        rng = np.random.default_rng([SEED, 12, number])
        z = rng.standard_normal((options.draws, len(truths[0].replicates)))
        z /= np.sqrt(z.shape[1] - 1)
        # Of the deviations from their mean: what boosting shifts in every replicate is no chance.
        yield (
            survey,
            [
                (t, t.p + np.tensordot(z, t.replicates - t.replicates.mean(axis=0), axes=1))
                for t in truths
            ],
        )


def _sides(pair, surveys: Sequence[Sums], tasks: int, chosen):
    """Say which side is claimed in each redraw, by the rule and without the population; (N, 2)."""
    first, second = pair
    of = np.zeros((5, chosen.shape[1]))
    for survey, draws in zip(surveys, chosen, strict=True):
        score, mean, population, *spread = (x[first] - x[second] for x in survey)
        variances = (x.var(axis=-1, ddof=1) for x in spread)
        of += np.array([score, mean, population, *variances])[:, draws]
    score, mean, population = of[:3] / tasks
    here, there = np.sqrt(of[3:]) / tasks
    side = np.where(score > 0, 1, -1)
    alone = np.minimum(side * score, side * (2 * score - mean)) > HERE * here
    both = alone & (side * population > HERE * there)
    return np.stack([side * both, side * alone], axis=-1)


def _error(claimed, chosen, draws) -> float:
    """Standard error of a share, in per cent: of the redraws, and of what draws they share.

    Each survey has R draws, each in m of the N redraws: ``p (1 - p) / N + sum_s (var_r p_sr - p (1
    - p) / m) / R``, p_sr the share in the redraws that have draw r of survey s, no term below 0.
    """
    share, number = claimed.mean(), chosen.shape[1]
    binomial = share * (1 - share)
    variance = binomial / number
    for survey in chosen:
        of_draw = np.bincount(survey, claimed, minlength=draws) * draws / number
        variance += max(of_draw.var(ddof=1) - binomial * draws / number, 0) / draws
    return 100 * float(np.sqrt(variance))


def part_here(options) -> bool:
    """How often equals are told apart, and how often others are."""
    print("| group | pair | one | other | said, per cent | error | without the population |")
    print("|---|---|---|---|--:|--:|--:|")
    rows = [row for group in GROUPS for row in _of_group(options, group)]
    far = stats.norm.ppf(1 - 0.05 / sum(row[0] in EQUAL_IN for row in rows))
    holds = True
    for equal, bound in (("population", 7), ("score", 8)):
        of = np.array([row[1:] for row in rows if row[0] == equal])
        above = int((of[:, 0] - far * of[:, 1] > bound).sum())
        holds &= above == 0
        (average, _, old), (most, _, old_most) = of.mean(axis=0), of.max(axis=0)
        print(
            f'false "better here", equal in {equal}: {average:.1f} % on average, {most:.1f} at '
            f"most (without the population {old:.1f} and {old_most:.1f}); significantly above "
            f"{bound}: {above} of {len(of)} pairs: {met(above == 0)}"
        )
    new, _, old = np.mean([row[1:] for row in rows if row[0] not in EQUAL_IN], axis=0)
    print(f"power {new:.1f} % (without {old:.1f}; 95 % of that): {met(new >= 0.95 * old)}")
    return holds and new >= 0.95 * old


def _of_group(options, group):
    """Yield of each pair what it is, how often it is told apart, the error, and by the old rule."""
    drawn = dict(_surveys(options, group))
    truths = [truth for tasks in drawn.values() for truth, _ in tasks]
    pairs = [
        (equal, first, as_good(measure, truths, first, second))
        for equal, measure in EQUAL_IN.items()
        for first, second in PAIRS
    ]
    pairs += [
        (f"{less:g} points apart", first, as_good(in_population, truths, first, second, less))
        for less in APART
        for first, second in DIFFERENT
    ]
    who = list(dict.fromkeys(respondent for _, *both in pairs for respondent in both))
    calls = [
        joblib.delayed(_measured)(truth, ps, [CLASSES[name](truth, s) for name, s in who])
        for tasks in drawn.values()
        for truth, ps in tasks
    ]
    made = joblib.Parallel(options.jobs, return_as="generator")(calls)
    sums: dict[str, Sums] = {}
    for truth, of in zip(truths, tqdm(made, group, len(calls)), strict=True):
        before = sums.get(truth.survey)
        sums[truth.survey] = of if before is None else Sums(*map(np.add, before, of))
    rng = np.random.default_rng([SEED, 13])
    # Each draw of a survey is in equally many redraws.
    chosen = np.tile(np.arange(options.draws), (len(sums), options.redraws // options.draws))
    chosen = rng.permuted(chosen, axis=1)
    for kind, first, second in pairs:
        pair = who.index(first), who.index(second)
        sides = _sides(pair, list(sums.values()), len(truths), chosen)
        # Of two that differ the first is better: only that is right.
        claimed = sides != 0 if kind in EQUAL_IN else sides == 1
        said, before = 100 * claimed.mean(axis=0)
        error = _error(claimed[:, 0], chosen, options.draws)
        names = " | ".join(f"{name} {strength:.3g}" for name, strength in (first, second))
        numbers = f"{said:.1f} | {error:.1f} | {before:.1f}"
        print(f"| {group} | {kind} | {names} | {numbers} |", flush=True)
        yield kind, said, error, before


# -- better -----------------------------------------------------------------------------------

#: Noise of the better of the two. With it and the first of `SPREADS`, a t over outcomes is as good
#: on `epidemia_high` as an audit of 0.1.0 found it: 19 and 31 % at 33 and 45 points.
STRENGTH = 0.5
#: How far the logarithm of a model's noise varies between outcomes: from and to, a model each.
SPREADS = {"as audited": (0.4, 0.4), "wider": (0.3, 0.7)}
#: Noise of the other models lies between these, and so many are there.
OTHERS, NUMBER = (0.15, 1.5), 5
#: Points between the two; what is said of them has bounds where the spread is as audited.
DIFFERENCES = (0, 12, 21, 33, 45)
#: Models that are averaged to find the noise of one that is so much worse.
AVERAGED = 60


def _own(rng, strength, spread, outcomes):
    """Draw a model: its noise in each outcome is its own. Noise by task, and its seed."""
    names = sorted(set(outcomes))
    factors = np.exp(rng.uniform(*spread) * rng.standard_normal(len(names)))
    factor = dict(zip(names, factors, strict=True))
    return [strength * factor[outcome] for outcome in outcomes], int(rng.integers(2**31))


def _asked(run, parts, own, with_draws):
    """Return a model's scores as results have them; draws take longest, and few are looked at."""
    rows, (noise, seed) = [], own
    for part, strength in zip(parts, noise, strict=True):
        measured = Measured(part, Elicited(simulate_answers(part.truth, "noisy", strength, seed)))
        row = {"run": run, "model": run, "task": part.truth.task, "way": "letters", "seen": 1.0}
        row |= {"asked_as": "", "value": measured.score, "l1": measured.l1}
        row |= {"draws": None, "population": None, POPULATION: np.nan}
        if with_draws:
            row |= {"draws": measured.score_draws, POPULATION: measured.score_population}
            row |= {"population": measured.score_population_draws}
        rows.append(row)
    return pd.DataFrame(rows)


def _plain_t(one, other, outcomes) -> int:
    """Return the side that a cluster-robust t over outcomes says, with G - 1 degrees of freedom."""
    d = (one["value"] - other["value"]).to_numpy()
    names, index = np.unique(outcomes, return_inverse=True)
    sums = np.bincount(index, weights=d - d.mean())
    error = np.sqrt(len(names) / (len(names) - 1) * (sums**2).sum()) / len(d)
    far = stats.t.ppf((1 + CONFIDENCE) / 2, len(names) - 1) * error
    return int(d.mean() > far) - int(d.mean() < -far)


def _loaded(group):
    """Load a group: its tasks, and the outcome of each."""
    parts = [part_of(store.load_truth(name)) for name, _ in find_tasks(group)]
    return parts, [str(list_leaves()[part.truth.task].entry.outcome) for part in parts]


def _said(group, strengths, spread, keys):
    """Draw two models and others, and compare: the difference, and the side said by each rule.

    Last that of the interval of the difference alone, CR2 (`half_width`).
    """
    parts, outcomes = _loaded(group)
    noise = {part.truth.task: noise_of(part.truth) for part in parts}
    said = []
    for key in keys:
        rng = np.random.default_rng([SEED, 14, *key])
        others = np.exp(rng.uniform(*np.log(OTHERS), NUMBER))
        owned = [_own(rng, x, spread, outcomes) for x in (*strengths, *others)]
        one, other, *rest = (_asked(m, parts, x, False) for m, x in enumerate(owned))
        plain, side = _plain_t(one, other, outcomes), 0
        pool = Pool(pd.concat([one, other, *rest], ignore_index=True), noise)
        made = compare_scores(one, other, pool)
        across = made.low > 0 or made.high < 0 or made.l1_ratio_low > 1 or made.l1_ratio_high < 1
        if plain or across:
            one, other = (_asked(m, parts, owned[m], True) for m in range(2))
            verdict = compare_scores(one, other, pool).verdict
            side = {"better": 1, "worse": -1}.get(verdict, 0)
            plain *= verdict != "not shown"
        robust = np.sign(made.difference) * (abs(made.difference) > made.half_width)
        said.append((made.difference, side, plain, robust))
    return said


def _worse_by(parts, outcomes, spread):
    """Return a function from points to the noise of models that are so much worse on average."""

    def value(strength):
        owned = [
            _own(np.random.default_rng([SEED, 15, seed]), strength, spread, outcomes)
            for seed in range(AVERAGED)
        ]
        each = [
            in_score(part.truth, simulate_answers(part.truth, "noisy", x, seed))
            for noise, seed in owned
            for part, x in zip(parts, noise, strict=True)
        ]
        return float(np.mean(each))

    strengths = np.exp(np.linspace(np.log(STRENGTH), np.log(8 * STRENGTH), 16))
    values = np.minimum.accumulate([value(strength) for strength in strengths])
    return lambda less: float(np.interp(less - values[0], -values, strengths))


def part_better(options) -> bool:
    """How often "better" is said of two models of the same mean, and of two that differ."""
    print(
        "| group | spread | points apart | better | worse | t over outcomes: better | worse | "
        "CR2: better | worse |"
    )
    print("|---|---|" + "--:|" * 7)
    holds = True
    for place, (group, name, models) in enumerate(
        (
            (GROUPS[1], "as audited", options.models),
            (GROUPS[1], "wider", options.models // 2),
            (GROUPS[0], "as audited", options.models // 2),
            ("epidemia_joint", "as audited", options.models),
        )
    ):
        spread, (parts, outcomes) = SPREADS[name], _loaded(group)
        noise_at = _worse_by(parts, outcomes, spread)
        for apart in DIFFERENCES:
            strengths = STRENGTH, noise_at(apart)
            # Of equals few are told apart, so that few draws have to be looked at.
            number = models * (1 if apart else 4)
            keys = [(place, apart, r) for r in range(number)]
            calls = [
                joblib.delayed(_said)(group, strengths, spread, keys[job :: 4 * options.jobs])
                for job in range(4 * options.jobs)
            ]
            made = joblib.Parallel(options.jobs)(calls)
            difference, *rules = np.array([pair for of in made for pair in of]).T
            shares = [100 * (rule == side).mean() for rule in rules for side in (1, -1)]
            numbers = " | ".join(f"{share:.1f}" for share in (difference.mean(), *shares))
            print(f"| {group} | {name} | {numbers} |", flush=True)
            if place == 0:
                better, size = shares[0], shares[0] + shares[1]
                # Up to twice the Monte Carlo error.
                far = 2 * float(np.sqrt(size * (100 - size) / number))
                bounds = {0: abs(size - 5) <= 2 + far, 33: better >= 50, 45: better >= 90}
                holds &= bounds.get(apart, True)
    print(f"high as audited: size 3 to 7 %, at least 50 and 90 % at 33 and 45: {met(holds)}")
    return holds


PARTS = {"here": part_here, "better": part_better}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the survey files, for here")
    parser.add_argument("--draws", type=int, default=80, help="of each survey")
    parser.add_argument("--redraws", type=int, default=2000, help="of all surveys at once")
    parser.add_argument(
        "--models", type=int, default=300, help="pairs of models of each kind, four times of equals"
    )
    run(parser, PARTS)


if __name__ == "__main__":
    main()
