"""Invented joint replicates for the truths that ship: what is tested does not depend on which."""

import zlib

import numpy as np
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from lm_eval_epidemia.estimate import store

NUMBER = 100


def invented(name, place, _stamp):
    """A shift that all tasks of a survey have in common, and one of their own; (B, C, K)."""
    truth = store.load_truth(name, place.vintage, place.state)
    shift = [
        np.random.default_rng(zlib.crc32(seed.encode())).standard_normal((NUMBER, *shape))
        for seed, shape in ((place.key, (1, 1)), (name, truth.p.shape))
    ]
    error = np.sqrt(truth.p * (1 - truth.p) / truth.n_eff[:, None])
    found = np.clip(truth.p + error * (shift[0] + shift[1]) / 2**0.5, 1e-6, 1)
    return found / found.sum(axis=2, keepdims=True)


def sample(place, _truth, entry):
    return f"{place.key} invented" if entry["bootstrap"] else ""


def install(replace):
    """Give the store invented replicates; `replace` takes what `setattr` does."""
    store._load_truth.cache_clear()
    replace(store, "_replicates", invented)
    replace(store, "_sample", sample)


@register_model("hashing")
class Hashing(LM):
    """A model that answers every task, and always the same; letters are unlikely but not much."""

    def __init__(self, **_options):
        super().__init__()

    def loglikelihood(self, requests, disable_tqdm=False):
        return [
            (-3 - zlib.crc32("".join(one.args).encode()) % 997 / 500, False) for one in requests
        ]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        raise NotImplementedError

    def generate_until(self, requests, disable_tqdm=False):
        raise NotImplementedError


class Says(LM):
    """A model that writes what a function of the prompt returns."""

    loglikelihood = loglikelihood_rolling = None

    def __init__(self, reply):
        super().__init__()
        self.reply = reply

    def generate_until(self, requests):
        return [self.reply(request.args[0]) for request in requests]
