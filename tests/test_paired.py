"""Paired differences over documents: errors by explicit formulas, tests by other libraries."""

import math
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
from lm_eval.api.metrics import unweighted_mean_stderr
from scipy import integrate, linalg, stats

from lm_eval_epidemia.findings.documents import Matched, _compared
from lm_eval_epidemia.report.screen import _of_documents, _range, p_value
from lm_eval_epidemia.results.documents import MetricKey
from lm_eval_epidemia.score import clustered
from lm_eval_epidemia.score.clustered import (
    MCNEMAR,
    PAIRED_T,
    PairedAnswers,
    average_clusters,
    compare_paired,
    mcnemar,
)


def answers(differences, clusters=None, start=0):
    """Of continuous values: the second model has 0 everywhere."""
    rows = range(start, start + len(differences))
    return PairedAnswers(list(differences), [0.0] * len(differences), clusters or list(rows))


def test_right_and_wrong_answers_have_mcnemar_and_rows_of_one_document_do_not():
    """8 wins, 2 losses: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 = 2 * 56 / 1024; 5 of 10: all."""
    assert mcnemar(8, 2) == mcnemar(2, 8) == pytest.approx(112 / 1024)
    assert mcnemar(5, 5) == mcnemar(0, 0) == 1
    first, second = [1, 1, 1, 1, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 0, 0, 0, 0]
    result = compare_paired([PairedAnswers(first, second, range(9))])
    assert (result.wins, result.losses, result.test) == (6, 1, MCNEMAR)
    # 2 (C(7,0) + C(7,1)) / 2^7
    assert result.p == pytest.approx(16 / 128)
    assert (result.first, result.second) == (pytest.approx(7 / 9), pytest.approx(2 / 9))
    by_document = compare_paired([PairedAnswers(first, second, [0, 0, 1, 1, 2, 2, 3, 4, 5])])
    assert (by_document.test, by_document.clusters) == (PAIRED_T, 6)
    # Of tasks that count alike, whatever their rows, rows do not.
    tasks = [PairedAnswers(first, second, range(9)), PairedAnswers([1, 0], [0, 0], [9, 10])]
    assert [compare_paired(tasks, by_size).test for by_size in (True, False)] == [MCNEMAR, PAIRED_T]
    # What never varied has no error; right where the other is wrong, three times: 2 / 2^3.
    for tasks in ([answers([0.5] * 3)], [answers([2.0])], [answers([1, 2]), answers([3])]):
        assert math.isnan(compare_paired(tasks).of.error) and math.isnan(compare_paired(tasks).p)
    assert compare_paired([PairedAnswers([1, 1, 1], [0, 0, 0], range(3))]).p == 0.25


def test_one_row_a_document_is_the_paired_t_of_scipy():
    """A matrix of 20,000 documents would take 3.2 GB."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.01, 1, 20_000), rng.normal(0, 1, 20_000)
    result, scipy = (
        compare_paired([PairedAnswers(first, second, range(20_000))]),
        stats.ttest_rel(first, second),
    )
    assert result.test == PAIRED_T and result.of.freedom == pytest.approx(19_999)
    assert result.p == pytest.approx(scipy.pvalue)
    reach = result.of.reach(0.95)
    ends = [result.of.mean - reach, result.of.mean + reach]
    assert ends == pytest.approx([*scipy.confidence_interval(0.95)])


def test_rows_of_one_document_are_one_observation():
    """d = 2, 1, 0, -1 of documents a, a, b, c: mean 1/2, sums off it 2, -1/2, -3/2.

    Cluster g adds ``S_g / (T sqrt(1 - n_g / T))``, T = 4: 2 / (4 sqrt(1/2)), -.5 / (4 sqrt(3/4)),
    -1.5 / (4 sqrt(3/4)). Squares: 1/2, 1/48, 9/48.
    """
    result = compare_paired([answers([2, 1, 0, -1], ["a", "a", "b", "c"])])
    assert result.of.mean == 0.5
    assert result.of.error**2 == pytest.approx(1 / 2 + 1 / 48 + 9 / 48)
    # Every row twice says nothing new: error and freedom stay what they were.
    d = np.random.default_rng(2).normal(size=12)
    twice = [*np.repeat(range(12), 2)]
    once, twice = compare_paired([answers(d)]), compare_paired([answers(np.repeat(d, 2), twice)])
    assert twice.of == pytest.approx(once.of) and twice.p == pytest.approx(once.p)
    assert once.of.freedom == pytest.approx(11)
    # Two tasks with the same rows: their mean is as uncertain as either alone, not less.
    both, apart = (compare_paired([answers(d), answers(d, start=start)]) for start in (0, 12))
    assert both.of.error == pytest.approx(once.of.error) and both.of.freedom == pytest.approx(11)
    assert apart.of.error == pytest.approx(once.of.error / math.sqrt(2))
    assert (both.clusters, apart.clusters) == (12, 24)


def test_groups_weigh_tasks_as_lm_eval_does():
    rng = np.random.default_rng(3)
    sizes = np.array([12, 30, 7])
    values = [rng.normal(mean, 1, size) for mean, size in enumerate(sizes)]
    tasks = [answers(of, start=100 * number) for number, of in enumerate(values)]
    means, errors = ([of(each) for each in values] for of in (np.mean, stats.sem))
    even, pooled = compare_paired(tasks, by_size=False), compare_paired(tasks)
    assert even.of.mean == pytest.approx(np.mean(means))
    # lm-eval's own error of a mean of means, of the differences.
    assert even.of.error == pytest.approx(unweighted_mean_stderr(errors))
    rows = np.concatenate(values)
    assert pooled.of.mean == pytest.approx(rows.mean())
    # Welch and Satterthwaite, of variances v_t with n_t - 1 degrees of freedom each.
    v = (sizes / 49 * errors) ** 2
    assert pooled.of.error == pytest.approx(math.sqrt(v.sum()))
    assert pooled.of.freedom == pytest.approx(v.sum() ** 2 / (v**2 / (sizes - 1)).sum())
    # Over tasks: as means they are three observations; by size, three clusters of rows.
    assert even.over_tasks.error == pytest.approx(stats.sem(means))
    assert pooled.over_tasks == pytest.approx(
        average_clusters(rows, [*np.repeat([0, 1, 2], sizes)])
    )


def over(of, clustered_by=""):
    """The row of a task of which everything but the answers is left open."""
    file = SimpleNamespace(higher_is_better={"task": {"acc": True}})
    metric, task = MetricKey("acc", ""), SimpleNamespace(task="task", file=file)
    pair = Matched(task, task, {metric: of}, clustered_by, ([], []), [])
    return _compared("task", [pair], metric, False)


def test_an_interval_ends_where_the_scale_does_and_too_few_have_none():
    """8 of 9 won: mean 8/9, error (1/3) / sqrt(9), t of 8 degrees of freedom at .975 2.306."""
    right = over(PairedAnswers([1] * 8 + [0], [0] * 9, range(9)))
    assert (right["low"], right["high"]) == (pytest.approx(8 / 9 - 2.306 / 9, abs=1e-4), 1.0)
    assert right["verdict"] == "better"
    said = _of_documents(SimpleNamespace(**right), "one", "other")
    assert "task, acc, 9 documents: one is better: " in said
    # Of numbers without a scale it goes on.
    assert over(answers([80.0] * 8 + [0]))["high"] > 90
    few = over(PairedAnswers([1] * 7, [0] * 6 + [1], range(7)))
    assert few["too_few"] == "too few documents" and np.isnan([few["low"], few["high"]]).all()
    assert few["p"] == 2 / 2**6 and few["verdict"] == "better"  # of McNemar
    # Nine clusters, of which one has nearly all rows: no t knows how such a mean varies.
    d = [1.0, 0.0] * 100 + [1.0, 0.5] * 4
    uneven = over(answers(d, ["long"] * 200 + [f"short {n}" for n in range(8)]), "passage")
    assert uneven["freedom"] < 4 and uneven["clusters"] == 9 and math.isnan(uneven["p"])
    assert (uneven["too_few"], uneven["verdict"]) == ("too few clusters by passage", "not shown")
    said = _of_documents(SimpleNamespace(**uneven), "one", "other")
    assert "208 rows, 9 by passage: no difference" in said
    # Where all differ alike, it is not for want of documents.
    assert not over(answers([0.5] * 20))["too_few"]


def test_p_values_and_intervals_have_more_digits_at_the_edge():
    shown = {0.0862: "0.086", 1.0: "1.000", 0.00099: "< 0.001", 0.0: "< 0.001", math.nan: ""}
    shown |= {0.0499: "0.0499", 0.05003: "0.05003", 0.049996: "0.049996", 0.05: "0.050"}
    assert {p: p_value(p) for p in shown} == shown
    assert _range(0.0012, 0.31, 3) == "0.001 to 0.310"
    assert _range(0.0003, 0.31, 3) == "0.0003 to 0.3100"
    assert _range(-12.0, -0.04, 1, -1) == "0.04 to 12.00" and _range(0, 1, 1) == "0.0 to 1.0"


# Tests over outcomes: CR2 and Satterthwaite's degrees of freedom, the prior, the moderated t.


Prior = namedtuple("Prior", "freedom variance")


def prior_of(variances, freedom):
    logs = np.log(variances)
    return Prior(*map(float, clustered.priors_from(logs.mean(), logs.var(ddof=1), freedom)))


#: Tasks by outcome: those of `epidemia_joint`, of low and high together, equal ones, two.
LAYOUTS = [(3, 2, 2, 1, 1), (13, 13, 13, 14, 5, 3, 1, 1), (4, 4, 4, 4), (5, 1)]


@pytest.mark.parametrize("sizes", LAYOUTS)
def test_cr2_and_its_freedom_are_those_of_the_matrices(sizes):
    """Bell and McCaffrey as they define it: A_g by matrix square root, P from all of I - H."""
    clusters = np.repeat(range(len(sizes)), sizes)
    tasks = len(clusters)
    values = np.random.default_rng(1).normal(size=tasks)
    ones = np.ones((tasks, 1))
    rest = np.eye(tasks) - ones @ ones.T / tasks
    terms, vectors = [], []
    for g in range(len(sizes)):
        at = clusters == g
        adjusted = linalg.inv(linalg.sqrtm(rest[np.ix_(at, at)]).real)
        terms.append((ones[at].T @ adjusted @ (rest @ values)[at] / tasks).item())
        vectors.append(rest[:, at] @ adjusted @ ones[at].ravel() / tasks)
    p = np.array(vectors) @ np.array(vectors).T
    found = clustered.average_clusters(values, clusters)
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(math.sqrt(sum(x * x for x in terms)))
    assert found.freedom == pytest.approx(np.trace(p) ** 2 / np.trace(p @ p))


def test_cr2_by_hand():
    """Two clusters of 1 and 3 tasks with values 4; 0, 1, 3: mean 2, sums of deviations 2 and -2.

    Variance: (2^2 / (1 - 1/4) + 2^2 / (1 - 3/4)) / 16 = (16/3 + 16) / 16 = 4/3. Freedom: 16 / (1 +
    9 + 2 * 1 * 9 / (3 * 1)) = 1.
    """
    found = clustered.average_clusters([4.0, 0.0, 1.0, 3.0], "abbb")
    assert found == pytest.approx((2.0, math.sqrt(4 / 3), 1.0))
    # t(0.975, 1) = 12.7062.
    assert found.reach(0.95) == pytest.approx(12.7062 * math.sqrt(4 / 3), rel=1e-5)


def test_equal_clusters_are_a_t_test_of_their_means():
    values = np.random.default_rng(2).normal(size=12)
    found = clustered.average_clusters(values, np.tile(range(4), 3))
    means = values.reshape(3, 4).mean(axis=0)
    assert found == pytest.approx((means.mean(), stats.sem(means), 3.0))
    alone = clustered.average_clusters([1.0, 2.0], "aa")
    assert alone.mean == 1.5 and math.isnan(alone.error) and math.isnan(alone.reach(0.95))
    assert alone.freedom == 0


def test_the_variance_is_unbiased_for_independent_tasks():
    """E sum_g (c_g S_g / T)^2 = v / T: 20,000 draws, so a mean square is known to 1 %."""
    layout = clustered.Layout(np.repeat(range(5), (3, 2, 2, 1, 1)))
    values = np.random.default_rng(3).normal(size=(20_000, 9))
    squares = (layout.residuals(values) ** 2).sum(axis=1)
    assert squares.mean() == pytest.approx(1 / 9, rel=4 * squares.std() / squares.mean() / 141)
    # And the chi-square that has its two moments has `freedom` degrees of freedom.
    assert 2 * squares.mean() ** 2 / squares.var() == pytest.approx(layout.freedom, rel=0.1)


def test_the_prior_has_the_moments_of_the_variances():
    """Integrals over the density of scipy's F, not the polygamma functions that the fit solves."""
    freedom = 3.0
    variances = 2.5 * stats.f(freedom, 6).rvs(40, random_state=4)
    prior = prior_of(variances, freedom)
    density = stats.f(freedom, prior.freedom).pdf

    def moment(power, center=0.0):
        def of(x):
            return (x - center) ** power * density(math.exp(x)) * math.exp(x)

        return integrate.quad(of, -40, 40, points=[0.0], limit=400)[0]

    logs, middle = np.log(variances), moment(1)
    assert math.log(prior.variance) + middle == pytest.approx(logs.mean(), abs=1e-6)
    assert moment(2, middle) == pytest.approx(logs.var(ddof=1), abs=1e-6)


def test_variances_that_differ_by_chance_alone_have_one_value():
    """Their logarithms vary less than those of a chi-square: trigamma(3/2) = 0.935."""
    prior = prior_of([1.0, 1.1, 0.9], 3.0)
    assert prior.freedom == math.inf
    # A chi-square of 3 over 3 has E log = digamma(1.5) - log(1.5) = 0.03649 - 0.40547 = -0.36898.
    expected = math.exp(np.log([1.0, 1.1, 0.9]).mean() + 0.36898)
    assert prior.variance == pytest.approx(expected, rel=1e-5)
