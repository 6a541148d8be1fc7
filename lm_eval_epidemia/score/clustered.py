"""Does a mean difference hold beyond the outcomes, or the documents, it was seen in?

Tasks on one outcome are alike, so that an outcome is one observation. Outcomes are few and have
unequal numbers of tasks: the errors are those made for that, CR2 (Bell and McCaffrey 2002), and,
where other comparisons show how much such differences vary, a moderated t (Smyth 2004).

Two models that answer the same documents find the same ones hard. So what counts is how the
difference varies between documents (Miller 2024, arXiv:2411.00640), not how the two scores do, as
in a z-test of two independent scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from lm_eval_epidemia.core.distance import Array

#: A variance counts as at least this share of the median one, when a prior is fitted (as in limma).
SMALLEST = 1e-5


class Clustered(NamedTuple):
    """A mean over clusters of tasks.

    Attributes
    ----------
    mean, error : float
        Its standard error; NaN with one cluster.
    freedom : float
        Degrees of freedom of the error; 0 with one cluster.
    """

    mean: float
    error: float
    freedom: float

    def reach(self, confidence: float) -> float:
        """Half the length of the interval, by Student's t; NaN if there is none."""
        if not self.freedom > 0:
            return math.nan
        return self.error * float(special.stdtrit(self.freedom, (1 + confidence) / 2))


class Layout:
    """Which tasks are of one cluster.

    Parameters
    ----------
    clusters : sequence of hashable, length T
        The cluster of each task.
    """

    def __init__(self, clusters: Sequence[Hashable]) -> None:
        places = {cluster: place for place, cluster in enumerate(dict.fromkeys(clusters))}
        index = np.array([places[cluster] for cluster in clusters], dtype=int)
        self.sizes: Array = np.bincount(index).astype(float)
        # Clusters side by side: sums over them need no matrix, which of documents would be huge.
        self._order = np.argsort(index, kind="stable")
        self._starts = np.searchsorted(index[self._order], np.arange(len(places)))

    def residuals(self, values: ArrayLike) -> Array:
        """Return what each cluster adds to the mean, its own part being known: adjusted sums.

        ``S_g / (T sqrt(1 - n_g / T))``, S_g being the sum over cluster g of what its tasks are off
        the mean. They are linear in `values`; the sum of their squares is the CR2 variance.

        Parameters
        ----------
        values : array_like, shape (..., T)

        Returns
        -------
        ndarray, shape (..., G)
        """
        values = np.asarray(values, dtype=float)
        tasks = values.shape[-1]
        off = values - values.mean(axis=-1, keepdims=True)
        sums = np.add.reduceat(off[..., self._order], self._starts, axis=-1)
        return np.asarray(sums / (tasks * np.sqrt(1 - self.sizes / tasks)))

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom of the CR2 variance; 0 with one cluster.

        The mean is a regression on a column of ones, with hat matrix H = 11'/T. CR2 multiplies the
        residuals of cluster g by ``A_g = (I - 11'/T)^(-1/2)``, and ``A_g 1 = c_g 1`` with ``c_g =
        (1 - n_g / T)^(-1/2)``. So the variance is ``sum_g (c_g S_g / T)^2``. Where tasks are
        independent and of equal variance v, the terms ``c_g S_g / T`` have covariances ``v P_gh``,
        ``P_gg = n_g / T^2`` and ``P_gh = -c_g c_h n_g n_h / T^3``. Hence the variance is unbiased,
        and the chi-square with the same two moments has ``(tr P)^2 / tr(P P)`` degrees of freedom:

            T^2 / (sum_g n_g^2 + sum_{g != h} n_g^2 n_h^2 / ((T - n_g) (T - n_h)))

        which is G - 1 where all n_g are equal (Bell and McCaffrey, Survey Methodology 28, 2002;
        Pustejovsky and Tipton, JBES 36, 2018).
        """
        if len(self.sizes) < 2:
            return 0.0
        tasks, squares = self.sizes.sum(), self.sizes**2
        pairs = squares / (tasks - self.sizes)
        return float(tasks**2 / (squares.sum() + pairs.sum() ** 2 - (pairs**2).sum()))


def average_clusters(values: Sequence[float], clusters: Sequence[Hashable]) -> Clustered:
    """Average over tasks, with the CR2 error of the mean over clusters of them.

    Parameters
    ----------
    values : sequence of float, length T
        At least one.
    clusters : sequence of hashable, length T

    Returns
    -------
    Clustered
    """
    layout = Layout(clusters)
    mean = math.fsum(values) / len(values)
    if not layout.freedom:
        return Clustered(mean, math.nan, 0.0)
    error = math.sqrt(float((layout.residuals(values) ** 2).sum()))
    return Clustered(mean, error, layout.freedom)


def _inverse_trigamma(x: Array) -> Array:
    """Solve trigamma(y) = x > 0, by Newton's method on 1 / trigamma, which is convex."""
    y = 0.5 + 1 / x
    for _ in range(50):
        trigamma = special.polygamma(1, y)
        step = trigamma * (1 - trigamma / x) / special.polygamma(2, y)
        y = y + step
        if (-step / y < 1e-10).all():
            break
    return np.asarray(y)


def priors_from(mean: ArrayLike, variance: ArrayLike, freedom: float) -> tuple[Array, Array]:
    """Fit priors of variances by the moments of their logarithms.

    Each variance is s0^2 times an inverse chi-square over its freedom, d0.

    If ``s^2 ~ s0^2 F(d, d0)``, then ``e = log s^2 - digamma(d / 2) + log(d / 2)`` has mean ``log
    s0^2 - digamma(d0 / 2) + log(d0 / 2)`` and variance ``trigamma(d / 2) + trigamma(d0 / 2)``
    (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004, section 6.2; what
    limma's ``fitFDist`` computes).

    Parameters
    ----------
    mean, variance : array_like, shape (...)
        Of the logarithms; NaN if nothing is known, of which no prior is known.
    freedom : float
        d > 0, of each variance.

    Returns
    -------
    freedom, variance : ndarray, shape (...)
        d0 > 0, infinite if the variances do not differ more than by chance; and s0^2.
    """
    half = freedom / 2
    mean = np.asarray(mean) - special.digamma(half) + math.log(half)
    excess = np.asarray(variance) - special.polygamma(1, half)
    differ = excess > 0
    own = _inverse_trigamma(np.where(differ, excess, 1.0))
    shift = np.where(differ, special.digamma(own) - np.log(own), 0.0)
    return np.where(differ, 2 * own, math.inf + 0 * excess), np.exp(mean + shift)


#: What tests are called.
MCNEMAR, PAIRED_T = "McNemar, exact", "paired t"


class PairedAnswers(NamedTuple):
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


def compare_paired(tasks: Sequence[PairedAnswers], by_size: bool = True) -> Paired:
    """Compare two models over the documents of tasks.

    The test is McNemar's exact one where rows are 0 or 1, each a cluster of its own, and count
    alike; else Student's t of the mean difference.

    Parameters
    ----------
    tasks : sequence of PairedAnswers
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
        t = -abs(of.mean) / of.error if of.freedom > 0 else math.nan
        p, test = 2 * float(special.stdtr(of.freedom, t)), PAIRED_T
    over_tasks = _over_tasks(tasks, by_size)
    most = 1.0 if all(0 <= x <= 1 for x in values) else math.inf
    return Paired(first, second, of, over_tasks, len(set(clusters)), wins, losses, p, test, most)


def _over_documents(tasks: Sequence[PairedAnswers], weights: Sequence[float]) -> Clustered:
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


def _over_tasks(tasks: Sequence[PairedAnswers], by_size: bool) -> Clustered:
    """Average differences, with the error over tasks: would other tasks show it too?

    CR2 with a task as a cluster. Where every row counts alike these are the clusters of all rows;
    where every task does, its mean is one row.
    """
    if by_size:
        labels = [number for number, task in enumerate(tasks) for _ in task.first]
        return average_clusters([d for task in tasks for d in task.differences], labels)
    means = [math.fsum(task.differences) / len(task.first) for task in tasks]
    return average_clusters(means, range(len(means)))


def mcnemar(wins: int, losses: int) -> float:
    """Test whether of two models one is right where the other is wrong more often.

    Without a difference each such row is the toss of a coin: p is that of the two-sided exact
    binomial test of `wins` in ``wins + losses`` tosses (McNemar 1947); 1 if there are none.
    """
    if not wins + losses:
        return 1.0
    from scipy import stats  # a third of what a report takes to start

    return float(stats.binomtest(wins, wins + losses, 0.5).pvalue)
