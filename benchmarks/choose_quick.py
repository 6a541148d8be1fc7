"""Choose the cells of `epidemia_quick`, freeze them, and say how well they predict.

    python benchmarks/choose_quick.py            # chooses, writes quick.yaml, prints the tables
    python benchmarks/choose_quick.py --check    # prints the tables for the quick.yaml there is

Respondents of random kinds (`quick_respondents.drawn`) are asked everything. Of each outcome, cells
are taken one by one: next the one that says most of what the others leave open of the distance of
its tasks from the truth, in least squares with weights of 0 or more; over outcomes, where the next
cell lowers the variance of the mean of both groups most, until there are 250. Falling curves turn
distances into scores. Other respondents of the same kinds give the errors, by how far off those are
that are predicted alike. At the ends of the scale random kinds are few, and unlike what is there:
respondents that err about as the survey does (`nearly_right`) have a part in the curves of the
groups, and they and those `at_a_loss` have one in the errors. The tables are of respondents that
had no part in this: the classes of `TESTED`, mixes of them from survey to survey, and respondents
with the scores that were published of seven models, task by task; the models' answers were not
published.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from quick_respondents import TESTED, Outcome, bias_of, drawn, to_scores
from scipy.optimize import nnls

import lm_eval_epidemia
from lm_eval_epidemia.benchmarks.observation import OBSERVATION, quick
from lm_eval_epidemia.core.store import seal_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.published import find_observed
from lm_eval_epidemia.surveys.record import MAX_LEVELS

#: Of the pairs of orderings, of those that choose, of those that give errors, of those that test.
SEEDS = {"orderings": 1, "choose": 20261124, "errors": 20261125, "test": 20261128}
CHOOSING, ERRORS, AT_END, TESTING, PER_MODEL = 2500, 2500, 400, 100, 40
CELLS, MOST = 250, 40
#: Where an error of the relative distance begins to count less, the larger it is.
NEAR = 0.2
TASKS = {"epidemia_quick_low": "epidemia_low", "epidemia_quick_high": "epidemia_high"}
KNOTS = np.array([0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.1, 1.3, 1.6, 2.2])
PREDICTED = np.array([0, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 98, 100])
#: Of respondents of the kinds that choose; other kinds are predicted less well.
WITHIN = 0.97
#: The error looks at the share of each kind that is predicted most alike: of random kinds, which
#: are all over the scale, and of kinds that are at one of its ends. Of these, not further away than
#: so many points.
ALIKE, ALIKE_AT_END, AWAY = 0.1, 0.2, 10
LOST = np.array([0, 3, 6, 10, 20, 35, 50, 65, 75, 82, 88, 92, 96, 100.0])
FILE = Path(lm_eval_epidemia.__file__).parent / "benchmarks" / "observation" / quick.FILE


class Simulated(NamedTuple):
    """What respondents, N of them, come to, for each outcome: scores (N, T), D / D_zero (N, T),
    and distances (N, C)."""

    scores: list[np.ndarray]
    relative: list[np.ndarray]
    distances: list[np.ndarray]


def outcomes_of(group: str) -> list[Outcome]:
    by_outcome = defaultdict(list)
    for entry in OBSERVATION.asked("letters"):
        if entry.group == group and store.vintages(entry.name, "shipped"):
            by_outcome[entry.outcome].append(store.load_truth(entry.name, state="shipped"))
    return [
        Outcome(" ".join(name), tuple(truths), [SEEDS["orderings"], number])
        for number, (name, truths) in enumerate(by_outcome.items())
    ]


def ask(outcomes, believe, rng):
    """Ask a respondent everything: its scores and distances by outcome."""
    bias = bias_of(MAX_LEVELS, rng.choice([0, 0.2, 0.6, 1.2]) * rng.random(), rng)
    noise = rng.choice([0, 0.2, 0.8]) * rng.random()
    scores, relative, distances = [], [], []
    for outcome in outcomes:
        levels = outcome.p.shape[1]
        full, pair, apart = outcome.asked(believe(outcome), bias[:levels], noise, rng)
        d = outcome.distances(full)
        scores.append(outcome.scores(d))
        relative.append((outcome.of_tasks(d) / [a.zero for a in outcome.anchors]).mean())
        off = quick.OFF if levels > 2 else 0.0
        distances.append((outcome.distances(pair) - off * apart).astype(np.float32))
    return scores, relative, distances


def simulated(outcomes, respondents) -> Simulated:
    asked = [ask(outcomes, believe, rng) for believe, rng in respondents]
    parts = zip(*asked, strict=True)
    return Simulated(*([np.array(of) for of in zip(*part, strict=True)] for part in parts))


def of_random_kinds(seed, number):
    """Respondents whose errors are of any size, more or less alike over outcomes."""
    for n in range(number):
        rng = np.random.default_rng([seed, n])
        size, uneven = np.exp(rng.uniform(np.log(0.03), np.log(5))), rng.choice([0, 0.5, 1, 1.5])
        more = [rng.choice(of) for of in ([0, 0.3, 0.8, 1], [0, 0.2, 0.4], [0, 0, 1, 2])]

        def believe(outcome, rng=rng, size=size, uneven=uneven, more=more):
            return drawn(outcome, size * np.exp(uneven * rng.normal()), rng, *more)

        yield believe, rng


def nearly_right(seed, number):
    """Respondents whose errors are about as large as the survey's own."""
    for n in range(number):
        rng = np.random.default_rng([seed, 1, n])
        size = np.exp(rng.uniform(np.log(0.005), np.log(0.1)))
        yield (lambda o, rng=rng, size=size: drawn(o, size, rng, lost=0, sampled=1)), rng


def at_a_loss(seed, number):
    """Respondents to whom all answers are about equally likely."""
    for n in range(number):
        rng = np.random.default_rng([seed, 2, n])
        share, size = rng.uniform(0, 0.05), np.exp(rng.uniform(np.log(0.03), np.log(5)))

        def believe(outcome, rng=rng, share=share, size=size):
            levels = outcome.p.shape[1]
            return share * drawn(outcome, size, rng, lost=0) + (1 - share) / levels

        yield believe, rng


def of_class(name, number):
    for n in range(number):
        rng = np.random.default_rng([SEEDS["test"], sum(name.encode()), n])
        yield (lambda outcome, rng=rng: TESTED[name](outcome, rng)), rng


def of_mixes(number):
    """Another class of `TESTED` in every survey."""
    for n in range(number):
        rng = np.random.default_rng([SEEDS["test"], n])
        kinds = defaultdict(lambda rng=rng: rng.choice(list(TESTED)))
        yield (lambda o, rng=rng, kinds=kinds: TESTED[kinds[o.name.split()[0]]](o, rng)), rng


def of_published(model, scores, number):
    for n in range(number):
        rng = np.random.default_rng([SEEDS["test"], sum(model.encode()), n])

        def believe(outcome, rng=rng):
            return to_scores(outcome, np.array([scores[t.task] for t in outcome.truths]), rng)

        yield believe, rng


# -- choosing -----------------------------------------------------------------------------------


def path_of(outcome: Outcome, distances, relative):
    """Take cells one by one; return them, the weights after each, and the variance left open.

    Least squares for the mean over tasks of D / D_zero: linear in the cells' distances, so that
    what is found for some respondents holds for others; in points near the truth and far from it.
    """
    zero = np.array([anchors.zero for anchors in outcome.anchors])[outcome.task]
    points = 1 / (NEAR + relative)
    x, y = distances / zero * points[:, None], relative * points
    norm = np.maximum(np.sqrt((x**2).sum(axis=0)), 1e-9)
    cells, weights, left, rest = [], [], [float((y**2).mean())], y
    while len(cells) < min(MOST, x.shape[1]):
        gain = rest @ x / norm
        gain[cells] = -np.inf
        cells.append(int(gain.argmax()))
        w, _ = nnls(x[:, cells], y)
        rest = y - x[:, cells] @ w
        weights.append(w / zero[cells])
        left.append(float((rest**2).mean()))
    return cells, weights, left


def chosen(paths, shares):
    """Return how many cells of each outcome, at least one."""
    numbers = [1] * len(paths)

    def gain(place):
        left, number = paths[place][2], numbers[place]
        more = number + 1 < len(left)
        return shares[place] ** 2 * (left[number] - left[number + 1]) if more else -1.0

    while sum(numbers) < CELLS:
        numbers[max(range(len(paths)), key=gain)] += 1
    return numbers


def curve_of(x, scores, knots) -> quick.Curve:
    """Fit a falling curve by least squares: 100 at the first knot, each step after it 0 or more."""
    ramps = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    steps, _ = nnls(ramps, 100 - scores)
    values = 100 - np.concatenate([[0], np.cumsum(steps)])
    return quick.Curve(tuple(knots.tolist()), tuple(values.clip(0).round(2).tolist()))


def error_of(random, *at_ends) -> quick.Curve:
    """Of those of each kind that are predicted most alike, `WITHIN` are within 1.96 errors.

    Each kind is its predicted and its true scores; the largest of the kinds' errors is taken.
    """

    def errors(predicted, true, share, away):
        for at in PREDICTED:
            apart = np.abs(predicted - at)
            alike = np.argsort(apart)[: int(share * len(true))]
            off = np.abs(predicted - true)[alike]
            yield np.quantile(off, WITHIN) / 1.96 if apart[alike[-1]] <= away else 0.0

    kinds = [(*random, ALIKE, np.inf), *((*kind, ALIKE_AT_END, AWAY) for kind in at_ends)]
    largest = np.max([list(errors(*kind)) for kind in kinds], axis=0)
    return quick.Curve(tuple(map(float, PREDICTED)), tuple(largest.round(2).tolist()))


def choose(groups: dict[str, list[Outcome]]) -> dict[str, quick.Choice]:
    outcomes = [outcome for of in groups.values() for outcome in of]
    sizes = {name: sum(len(o.truths) for o in of) for name, of in groups.items()}
    shares = [len(o.truths) / sizes[name] for name, of in groups.items() for o in of]
    first = simulated(outcomes, of_random_kinds(SEEDS["choose"], CHOOSING))
    paths = [path_of(*each) for each in zip(outcomes, first.distances, first.relative, strict=True)]
    numbers, made = chosen(paths, shares), []
    for outcome, (cells, weights, _), number, d, scores in zip(
        outcomes, paths, numbers, first.distances, first.scores, strict=True
    ):
        cells, weights = cells[:number], weights[number - 1].round(5)
        starts = np.searchsorted(outcome.task, np.arange(len(outcome.truths)))
        listed = tuple(
            quick.QuickCell(
                (truth := outcome.truths[outcome.task[cell]]).task,
                truth.given[cell - starts[outcome.task[cell]]],
                tuple(outcome.orders[2][cell].tolist()),
                float(weight),
            )
            for cell, weight in zip(cells, weights, strict=True)
        )
        curve = curve_of(d[:, cells] @ weights, scores.mean(axis=1), KNOTS)
        made.append(quick.QuickOutcome(outcome.name, len(outcome.truths), listed, curve))
    choices, start = {}, 0
    for name, of in groups.items():
        end = start + len(of)
        none = quick.Curve((0.0, 100.0), (100.0, 0.0))
        choices[name] = quick.Choice(TASKS[name], tuple(made[start:end]), none, none)
        start = end
    right = simulated(outcomes, nearly_right(SEEDS["choose"], AT_END))
    results = [predictions(groups, choices, asked) for asked in (first, right)]
    for name, choice in choices.items():
        predicted, true = (np.concatenate([of[name][n] for of in results]) for n in (0, 1))
        choices[name] = choice._replace(score=curve_of(100 - predicted, true, LOST))
    kinds = (
        of_random_kinds(SEEDS["errors"], ERRORS),
        nearly_right(SEEDS["errors"], AT_END),
        at_a_loss(SEEDS["errors"], AT_END),
    )
    results = [predictions(groups, choices, simulated(outcomes, kind)) for kind in kinds]
    return {
        name: choice._replace(error=error_of(*(of[name][:2] for of in results)))
        for name, choice in choices.items()
    }


def predictions(groups, choices, asked: Simulated):
    """Return by task the predicted and the true score of each respondent, and the stated error."""
    results, start = {}, 0
    for name, of in groups.items():
        choice, columns, true = choices[name], [], 0.0
        tasks = sum(own.tasks for own in choice.outcomes)
        for outcome, own in zip(of, choice.outcomes, strict=True):
            number = start + of.index(outcome)
            where = {
                (truth.task, given): place
                for place, (truth, given) in enumerate(
                    (truth, given) for truth in outcome.truths for given in truth.given
                )
            }
            places = [where[cell.task, cell.given] for cell in own.cells]
            columns.append(asked.distances[number][:, places])
            true = true + asked.scores[number].sum(axis=1) / tasks
        start += len(of)
        predicted = choice.predict(np.concatenate(columns, axis=1).astype(float))
        results[name] = predicted, true, choice.error(predicted)
    return results


def write(choices: dict[str, quick.Choice]) -> None:
    def curve(of: quick.Curve):
        return {"at": list(of.at), "values": list(of.values)}

    tasks = {
        name: {
            "predicts": choice.group,
            "score": curve(choice.score),
            "error": curve(choice.error),
            "outcomes": {
                outcome.name: {
                    "tasks": outcome.tasks,
                    "score": curve(outcome.score),
                    "cells": [
                        {
                            **cell._asdict(),
                            "given": list(cell.given),
                            "orderings": list(cell.orderings),
                        }
                        for cell in outcome.cells
                    ],
                }
                for outcome in choice.outcomes
            },
        }
        for name, choice in choices.items()
    }
    content = {"seeds": SEEDS, "seal": seal_of(tasks), "tasks": tasks}
    note = "# Written by benchmarks/choose_quick.py; do not edit.\n"
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=10_000)
    FILE.write_text(note + text, encoding="utf-8")


# -- what it is worth -----------------------------------------------------------------------------


def together(results):
    """Return the same of the mean of both groups, their errors independent."""
    predicted, true, errors = (np.array(part) for part in zip(*results.values(), strict=True))
    return predicted.mean(axis=0), true.mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / 2


def share(inside) -> str:
    p, n = inside.mean(), inside.size
    return f"{100 * p:.1f} ± {100 * max(np.sqrt(p * (1 - p) / n), 0.5 / n):.1f}"


def line(name, results) -> str:
    """A row: number, mean score, bias, |difference|, coverage of both groups and their mean."""
    parts = [*results.values(), together(results)]
    predicted, true, _ = parts[-1]
    off = np.abs(predicted - true)
    covers = [share(np.abs(p - t) <= 1.96 * e + 1e-9) for p, t, e in parts]
    mad = f"{off.mean():.1f} ± {off.std() / np.sqrt(len(off)):.1f}"
    bias = f"{(predicted - true).mean():+.1f}"
    return f"| {name} | {len(true)} | {true.mean():.1f} | {bias} | {mad} | {' | '.join(covers)} |"


def tables(groups, choices) -> None:
    outcomes = [outcome for of in groups.values() for outcome in of]
    tested = {name: of_class(name, TESTING) for name in TESTED}
    tested["another class in every survey"] = of_mixes(4 * TESTING)
    names = [t.task for o in outcomes for t in o.truths]
    for way in ("letters", "likelihood"):
        here: dict[str, dict[str, float]] = defaultdict(dict)
        for task, asked, model, value, _ in find_observed():
            if task in names and asked == way:
                here[model][task] = value
        for name, scores in here.items():
            if len(scores) >= len(names) - 1:
                mean = float(np.mean(list(scores.values())))
                model = f"{name}, {way}"
                scores = {task: scores.get(task, mean) for task in names}
                tested[f"published: {model}"] = of_published(model, scores, PER_MODEL)
    results = {
        name: predictions(groups, choices, simulated(outcomes, of)) for name, of in tested.items()
    }
    print("| respondents | number | full score | bias | mean \\|difference\\| ", end="")
    print("| covers low, % | high, % | mean, % |", "|---|" + "--:|" * 7, sep="\n")
    for name, of in results.items():
        print(line(name, of))
    pools = {
        "all classes": [of for name, of in results.items() if "published" not in name],
        "all published": [of for name, of in results.items() if "published" in name],
    }
    for name, pool in pools.items():
        joined = {
            task: tuple(
                np.concatenate(part) for part in zip(*(of[task] for of in pool), strict=True)
            )
            for task in choices
        }
        print(line(f"**{name}**", joined))
        for task, (p, t, _) in {**joined, "mean of both": together(joined)}.items():
            n, r = len(p), np.corrcoef(p, t)[0, 1]
            print(f"<!-- {name}, {task}: correlation {r:.4f} ± {(1 - r**2) / np.sqrt(n):.4f} -->")
    models = {}
    for name, of in results.items():
        if "published" in name:
            p, t, _ = together(of)
            models[name] = p.mean(), t.mean()
    p, t = np.array(list(models.values())).T
    print(f"<!-- means of {len(models)} published: correlation {np.corrcoef(p, t)[0, 1]:.4f} -->")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="keep the quick.yaml that is there")
    keep = parser.parse_args().check
    groups = {name: outcomes_of(group) for name, group in TASKS.items()}
    if not keep:
        write(choose(groups))
        quick.load_choices.cache_clear()
    choices = quick.load_choices()
    for name, choice in choices.items():
        print(f"{name}: {len(choice.cells)} cells, {2 * len(choice.cells)} prompts")
    tables(groups, choices)


if __name__ == "__main__":
    main()
