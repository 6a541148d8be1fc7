"""Do two models differ on documents that both answered? A paired difference, its error, a test.

Two models answer the same documents, and find the same ones hard. So what counts is how the
difference varies between documents (Miller 2024, arXiv:2411.00640), not how the two scores do, as
in a z-test of two independent scores.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from scipy import special

from lm_eval_epidemia.score.outcomes import Clustered, Layout, clustered

#: What tests are called.
MCNEMAR, PAIRED_T = "McNemar, exact", "paired t"


class Answers(NamedTuple):
    """What two models have in the rows of one task that both answered.

    Attributes
    ----------
    first, second : sequence of float, length N
        A metric of each row; at least one.
    clusters : sequence of hashable, length N
        Rows of the same are one observation: of one document, or of one passage. A cluster may have
        rows in several tasks.
    """

    first: Sequence[float]
    second: Sequence[float]
    clusters: Sequence[Hashable]

    @property
    def differences(self) -> list[float]:
        """The first's less the second's, row by row."""
        return [one - other for one, other in zip(self.first, self.second, strict=True)]


class Paired(NamedTuple):
    """How two models differ over the rows of some tasks.

    Attributes
    ----------
    first, second : float
        The metric of each.
    of : Clustered
        Their difference, with its error over documents of these tasks.
    over_tasks : Clustered
        The same, with its error over tasks.
    clusters : int
        How many different ones there are.
    wins, losses : int
        Rows in which the first has the higher value, and in which the second has.
    p : float
        Of a two-sided test of no difference; NaN if nothing can be tested.
    test : str
        `MCNEMAR` or `PAIRED_T`.
    most : float
        The largest difference there can be: 1 of values within 0 and 1; else infinite.
    """

    first: float
    second: float
    of: Clustered
    over_tasks: Clustered
    clusters: int
    wins: int
    losses: int
    p: float
    test: str
    most: float


def paired(tasks: Sequence[Answers], by_size: bool = True) -> Paired:
    """Compare two models over the documents of tasks.

    The test is McNemar's exact one where rows are 0 or 1, each a cluster of its own, and count
    alike; else Student's t of the mean difference.

    Parameters
    ----------
    tasks : sequence of Answers
        At least one.
    by_size : bool
        Whether every row counts alike, or every task.
    """
    rows = [len(task.first) for task in tasks]
    by_size = by_size or len(set(rows)) == 1
    weights = [count / sum(rows) if by_size else 1 / len(tasks) for count in rows]
    first, second = (
        math.fsum(w * math.fsum(of) / len(of) for w, of in zip(weights, values, strict=True))
        for values in ([task.first for task in tasks], [task.second for task in tasks])
    )
    differences = [d for task in tasks for d in task.differences]
    clusters = [cluster for task in tasks for cluster in task.clusters]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    of = _over_documents(tasks, weights)
    values = {x for task in tasks for x in (*task.first, *task.second)}
    if values <= {0, 1} and len(set(clusters)) == len(clusters) and by_size:
        p, test = mcnemar(wins, losses), MCNEMAR
    else:
        p, test = _by_t(of), PAIRED_T
    over_tasks = _over_tasks(tasks, by_size)
    most = 1.0 if all(0 <= x <= 1 for x in values) else math.inf
    return Paired(first, second, of, over_tasks, len(set(clusters)), wins, losses, p, test, most)


def _over_documents(tasks: Sequence[Answers], weights: Sequence[float]) -> Clustered:
    """Average differences, with the error over documents of these same tasks.

    ``D = sum_t w_t mean_t``. Within a task the error is CR2 over clusters (`outcomes.Layout`): with
    one row for each it is ``sd / sqrt(N)``, and a paired t with N - 1 degrees of freedom. Tasks are
    fixed, so their variances add: ``sum_g (sum_t w_t r_tg)^2``, where r_tg is what cluster g adds
    in task t; a document of two tasks counts as one. Degrees of freedom are Welch and
    Satterthwaite's, ``(sum_t v_t)^2 / sum_t (v_t^2 / f_t)`` with ``v_t = w_t^2 sum_g r_tg^2``, at
    most the number of clusters less one.

    There is no error (NaN, 0 degrees of freedom) where a task has one cluster, or where all rows
    differ alike: what never varied does not tell how far it may.
    """
    means, variances, freedoms = [], [], []
    added: dict[Hashable, float] = defaultdict(float)
    for task, weight in zip(tasks, weights, strict=True):
        layout, differences = Layout(task.clusters), task.differences
        means.append(weight * math.fsum(differences) / len(differences))
        freedoms.append(layout.freedom)
        if layout.freedom:
            parts = weight * layout.residuals(differences)
            variances.append(float((parts**2).sum()))
            for cluster, part in zip(dict.fromkeys(task.clusters), parts.tolist(), strict=True):
                added[cluster] += part
    mean, error = math.fsum(means), math.sqrt(math.fsum(x * x for x in added.values()))
    if not all(freedoms) or not error > 0:
        return Clustered(mean, math.nan, 0.0)
    squares = (v * v / f for v, f in zip(variances, freedoms, strict=True))
    freedom = math.fsum(variances) ** 2 / math.fsum(squares)
    return Clustered(mean, error, min(freedom, len(added) - 1))


def _over_tasks(tasks: Sequence[Answers], by_size: bool) -> Clustered:
    """Average differences, with the error over tasks: would other tasks show it too?

    CR2 with a task as a cluster. Where every row counts alike these are the clusters of all rows;
    where every task does, its mean is one row.
    """
    if by_size:
        labels = [number for number, task in enumerate(tasks) for _ in task.first]
        return clustered([d for task in tasks for d in task.differences], labels)
    means = [math.fsum(task.differences) / len(task.first) for task in tasks]
    return clustered(means, range(len(means)))


def mcnemar(wins: int, losses: int) -> float:
    """Test whether of two models one is right where the other is wrong more often.

    Without a difference each such row is the toss of a coin: p is that of the two-sided exact
    binomial test of `wins` in ``wins + losses`` tosses (McNemar 1947); 1 if there are none.
    """
    if not wins + losses:
        return 1.0
    from scipy import stats  # a third of what a report takes to start

    return float(stats.binomtest(wins, wins + losses, 0.5).pvalue)


def _by_t(of: Clustered) -> float:
    if not of.freedom > 0:
        return math.nan
    return 2 * float(special.stdtr(of.freedom, -abs(of.mean) / of.error))
