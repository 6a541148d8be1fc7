"""Is a model found out that knows published slices better than fresh ones, and nobody else?

    EPIDEMIA_HOME=FOLDER python benchmarks/probe.py [--seeds 200] [--noise 0.5]

FOLDER holds sets of fresh tasks (`epidemia tasks fresh`), of the vintages whose published tasks
ship. Three respondents, whose beliefs are drawn anew for every seed and scored without lm-eval:

knows      the published tasks' truth, and P(Y) alone elsewhere
equal      noise of one size on the truth's log-probabilities, everywhere
uneven     the same, but the size of the noise differs from task to task

The first must be found out; of the others, at most 5 % may be said to know either better.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict

import numpy as np
from scipy import stats

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks.observation import respondents
from lm_eval_epidemia.benchmarks.observation.fresh import short
from lm_eval_epidemia.benchmarks.observation.measured import Measured, Part, part_of
from lm_eval_epidemia.benchmarks.observation.probe import Alike, contrast, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.probe import PUBLISHED
from lm_eval_epidemia.surveys.catalogue import all_tasks
from lm_eval_epidemia.surveys.fresh import FreshTask

#: Standard deviation of the logarithm of the noise of `uneven`.
UNEVEN = 0.5

MEASURES = {
    "score": lambda one: (one.score, one.score_draws),
    "score_population": lambda one: (one.score_population, one.score_population_draws),
}


def believes(part: Part, who: str, is_fresh: bool, noise: float, seed: int) -> np.ndarray:
    truth = part.truth
    if who == "knows":
        return respondents.mean(truth.weights, truth.p) if is_fresh else truth.p
    if who == "uneven":
        rng = np.random.default_rng([seed, 1, zlib.crc32(truth.task.encode())])
        noise = noise * float(np.exp(UNEVEN * rng.standard_normal()))
    return respondents.answers(truth, "noisy", noise, seed)


def interval(k: int, n: int) -> str:
    found = stats.binomtest(k, n).proportion_ci(method="exact")
    return f"{100 * k / n:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--noise", type=float, default=0.5)
    options = parser.parse_args()
    here = store.available()
    sets = {
        (t.survey, here[n].vintage)
        for n, t in all_tasks().items()
        if isinstance(t, FreshTask) and n in here
    }
    tasks: dict[bool, list[tuple[Part, Alike]]] = {True: [], False: []}
    for name, task in all_tasks().items():
        if name not in here or not (task.kind in PUBLISHED or isinstance(task, FreshTask)):
            continue
        truth = store.load(name)
        if (truth.survey, truth.vintage) in sets:
            part = part_of(truth)
            if short(part.anchors.zero, part.anchors.perfect):
                continue  # as the report leaves them out
            scale = part.anchors
            alike = Alike((truth.survey, task.outcome), len(task.given), scale.mean, scale.zero)
            tasks[isinstance(task, FreshTask)].append((part, alike))
    published, fresh = tasks[False], tasks[True]
    places = nearest([alike for _, alike in published], [alike for _, alike in fresh])
    pairs = [(p, place) for p, place in zip(published, places, strict=True) if place is not None]
    used = sorted({place for _, place in pairs})
    print(
        f"{len(published)} published tasks, {len(pairs)} matched with {len(used)} of {len(fresh)} "
        f"fresh ones, {', '.join(sorted(f'{s} {v}' for s, v in sets))}"
    )
    print(
        "| respondent | measure | published | fresh | error | survey alone | said to know "
        "published better | fresh better |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for who, seeds in (("knows", 1), ("equal", options.seeds), ("uneven", options.seeds)):
        found = defaultdict(list)
        for seed in range(seeds):
            measured = [
                Measured(part, Elicited(believes(part, who, is_fresh, options.noise, seed)))
                for is_fresh, parts in (
                    (False, [part for (part, _), _ in pairs]),
                    (True, [fresh[place][0] for place in used]),
                )
                for part in parts
            ]
            place = [used.index(place) for _, place in pairs]
            for measure, of in MEASURES.items():
                values, draws = zip(*map(of, measured), strict=True)
                n = len(pairs)
                found[measure].append(contrast(values[:n], values[n:], place, draws[:n], draws[n:]))
        for measure, all_seeds in found.items():
            means = [
                np.mean([getattr(one, field) for one in all_seeds])
                for field in ("first", "second", "error", "survey")
            ]
            above = sum(one.side > 0 for one in all_seeds)
            below = sum(one.side < 0 for one in all_seeds)
            print(
                f"| {who} | {measure} | "
                + " | ".join(f"{x:.1f}" for x in means)
                + f" | {interval(above, seeds)} | {interval(below, seeds)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
