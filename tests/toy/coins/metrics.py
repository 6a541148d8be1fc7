"""The toy benchmark's metric: mean squared error of the probability, lower is better."""

import numpy as np
from lm_eval_epidemia.benchmarks.coins.coin import TASKS

from lm_eval_epidemia.ask.responses import softmax
from lm_eval_epidemia.benchmarks.benchmark import Measurement
from lm_eval_epidemia.benchmarks.observation.likelihood import MIDPOINTS


def measure(answers):
    coin = TASKS[answers[0].task]
    stated = softmax(np.array([answer.value for answer in answers])) @ MIDPOINTS
    true = np.array([coin.p(answer.cell + 1) for answer in answers])
    return Measurement({"squared_error": float(((stated - true) ** 2).mean())})
