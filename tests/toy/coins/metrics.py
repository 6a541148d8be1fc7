"""The toy benchmark's metric: mean squared error of the probability, lower is better."""

import numpy as np
from lm_eval_epidemia.benchmarks.coins.coin import TASKS

from lm_eval_epidemia.elicit.intervals import MIDPOINTS
from lm_eval_epidemia.elicit.responses import softmax
from lm_eval_epidemia.elicit.way import Metric


def squared_error(answers):
    coin = TASKS[answers[0].task]
    stated = softmax(np.array([answer.value for answer in answers])) @ MIDPOINTS
    true = np.array([coin.p(answer.cell + 1) for answer in answers])
    return float(((stated - true) ** 2).mean())


def metrics_of(way):
    return {"squared_error": Metric(squared_error, False, 0, 1), **way.diagnostics}
