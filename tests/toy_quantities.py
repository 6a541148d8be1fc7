"""Sets of invented quantities whose baselines are what samples of their people tell."""

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities import quantity
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import DRAWS, SIZES


def toy(families, seed=0, task="epidemia_prior_toy"):
    """Quantities of these families, of means about 50 (or .1 to .9), people's sd 10."""
    rng, listed = np.random.default_rng(seed), []
    for number, family in enumerate(families):
        share = family == "beta"
        mean = float(rng.uniform(0.1, 0.9) if share else rng.uniform(40, 60))
        sd = (mean * (1 - mean)) ** 0.5 if share else 10.0
        middle, spread, high = (0.5, 0.5, 1.0) if share else (50.0, 12.0, 100.0)
        asked = (f"toy_{number}", "Toy", (), family, "", "the mean of a toy")
        truth = (mean, sd / 20, sd, 400)
        listed.append(quantity.Quantity(*asked, *truth, middle, spread, 0.0, high))
    mean, variance = np.empty((2, len(listed), len(SIZES), DRAWS))
    for place, each in enumerate(listed):
        for at, size in enumerate(SIZES):
            if each.family == "beta":
                people = rng.random((DRAWS, size)) < each.mean
            else:
                people = rng.normal(each.mean, each.sd, (DRAWS, size))
            mean[place, at], variance[place, at] = people.mean(axis=1), people.var(axis=1)
    size = np.broadcast_to(np.array(SIZES, dtype=float)[:, None], mean.shape).copy()
    baselines = {"corrected": quantity.Samples(mean, variance, size)}
    about = ("toy", "2020", "Toys", {})
    return quantity.Quantities(task, *about, tuple(listed), baselines, "corrected", "0123456789ab")
