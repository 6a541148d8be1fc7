"""Paired differences over documents: errors by explicit formulas, tests by other libraries."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from lm_eval.api.metrics import unweighted_mean_stderr
from scipy import stats

from lm_eval_epidemia.findings.documents import Matched, _compared
from lm_eval_epidemia.report.versus import _of_documents, _range, p_value
from lm_eval_epidemia.results.documents import Metric
from lm_eval_epidemia.score.outcomes import clustered
from lm_eval_epidemia.score.paired import MCNEMAR, PAIRED_T, Answers, mcnemar, paired


def answers(differences, clusters=None, start=0):
    """Of continuous values: the second model has 0 everywhere."""
    rows = range(start, start + len(differences))
    return Answers(list(differences), [0.0] * len(differences), clusters or list(rows))


def test_mcnemar_is_the_exact_binomial_test():
    """8 wins, 2 losses: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 = 2 * 56 / 1024; 5 of 10: all."""
    assert mcnemar(8, 2) == mcnemar(2, 8) == pytest.approx(112 / 1024)
    assert mcnemar(5, 5) == mcnemar(0, 0) == 1
    # 1, 1, ..., 1 of six tosses and its mirror image.
    assert mcnemar(6, 0) == pytest.approx(2 / 64)
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    for wins, losses in ((8, 2), (30, 51), (1, 0), (7, 6)):
        table = [[100, wins], [losses, 3]]
        assert mcnemar(wins, losses) == pytest.approx(tables.mcnemar(table, exact=True).pvalue)


def test_right_and_wrong_answers_have_mcnemar_and_rows_of_one_document_do_not():
    first, second = [1, 1, 1, 1, 0, 1, 0, 1, 1], [0, 0, 1, 0, 1, 0, 0, 0, 0]
    result = paired([Answers(first, second, range(9))])
    assert (result.wins, result.losses, result.test) == (6, 1, MCNEMAR)
    # 2 (C(7,0) + C(7,1)) / 2^7
    assert result.p == pytest.approx(16 / 128)
    assert (result.first, result.second) == (pytest.approx(7 / 9), pytest.approx(2 / 9))
    by_document = paired([Answers(first, second, [0, 0, 1, 1, 2, 2, 3, 4, 5])])
    assert (by_document.test, by_document.clusters) == (PAIRED_T, 6)
    # Of tasks that count alike, whatever their rows, rows do not.
    tasks = [Answers(first, second, range(9)), Answers([1, 0], [0, 0], [9, 10])]
    assert [paired(tasks, by_size).test for by_size in (True, False)] == [MCNEMAR, PAIRED_T]


def test_one_row_a_document_is_the_paired_t_of_scipy():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.3, 1, 40), rng.normal(0, 1, 40)
    result, scipy = paired([Answers(first, second, range(40))]), stats.ttest_rel(first, second)
    assert result.test == PAIRED_T and result.of.freedom == pytest.approx(39)
    assert result.p == pytest.approx(scipy.pvalue)
    interval = scipy.confidence_interval(0.95)
    reach = result.of.reach(0.95)
    assert [result.of.mean - reach, result.of.mean + reach] == pytest.approx([*interval])


def test_rows_of_one_document_are_one_observation():
    """d = 2, 1, 0, -1 of documents a, a, b, c: mean 1/2, sums off it 2, -1/2, -3/2.

    Cluster g adds ``S_g / (T sqrt(1 - n_g / T))``, T = 4: 2 / (4 sqrt(1/2)), -.5 / (4 sqrt(3/4)),
    -1.5 / (4 sqrt(3/4)). Squares: 1/2, 1/48, 9/48.
    """
    result = paired([answers([2, 1, 0, -1], ["a", "a", "b", "c"])])
    assert result.of.mean == 0.5
    assert result.of.error**2 == pytest.approx(1 / 2 + 1 / 48 + 9 / 48)
    # Every row twice says nothing new: error and freedom stay what they were.
    rng = np.random.default_rng(2)
    d = rng.normal(size=12)
    once, twice = (
        paired([answers(d)]),
        paired([answers(np.repeat(d, 2), [*np.repeat(range(12), 2)])]),
    )
    assert twice.of == pytest.approx(once.of) and twice.p == pytest.approx(once.p)
    assert once.of.freedom == pytest.approx(11)


def test_groups_weigh_tasks_as_lm_eval_does():
    rng = np.random.default_rng(3)
    sizes = (12, 30, 7)
    starts = (0, 12, 42)
    tasks = [
        answers(rng.normal(m, 1, n), start=s)
        for m, n, s in zip((0, 1, 2), sizes, starts, strict=True)
    ]
    means = np.array([np.mean(task.first) for task in tasks])
    errors = np.array([stats.sem(task.first) for task in tasks])
    even, pooled = paired(tasks, by_size=False), paired(tasks)
    assert even.of.mean == pytest.approx(means.mean())
    # lm-eval's own error of a mean of means, of the differences.
    assert even.of.error == pytest.approx(unweighted_mean_stderr(list(errors)))
    shares = np.array(sizes) / 49
    assert pooled.of.mean == pytest.approx(np.concatenate([t.first for t in tasks]).mean())
    assert pooled.of.error == pytest.approx(math.sqrt(((shares * errors) ** 2).sum()))
    # Welch and Satterthwaite, of variances v_t with n_t - 1 degrees of freedom each.
    v = (shares * errors) ** 2
    welch = v.sum() ** 2 / (v**2 / (np.array(sizes) - 1)).sum()
    assert pooled.of.freedom == pytest.approx(welch)
    # Over tasks: as means they are three observations; by size, three clusters of rows.
    assert even.over_tasks.error == pytest.approx(stats.sem(means))
    labels = np.repeat([0, 1, 2], sizes)
    rows = np.concatenate([t.first for t in tasks])
    assert pooled.over_tasks == pytest.approx(clustered(rows, [*labels]))
    # Two tasks of one size are weighted alike either way.
    two = [tasks[0], answers(rng.normal(size=12), start=12)]
    assert paired(two, by_size=False).of == pytest.approx(paired(two).of)


def test_a_document_of_two_tasks_is_one_observation():
    """Two tasks with the same rows: their mean is as uncertain as either alone, not less."""
    d = np.random.default_rng(4).normal(size=15)
    one, both = paired([answers(d)]), paired([answers(d), answers(d)])
    apart = paired([answers(d), answers(d, start=15)])
    assert both.of.error == pytest.approx(one.of.error) and both.of.freedom == pytest.approx(14)
    assert apart.of.error == pytest.approx(one.of.error / math.sqrt(2))
    assert (both.clusters, apart.clusters) == (15, 30)


def test_what_never_varied_has_no_error():
    for tasks in ([answers([0.5, 0.5, 0.5])], [answers([2.0])], [answers([1, 2]), answers([3])]):
        result = paired(tasks)
        assert math.isnan(result.of.error) and math.isnan(result.p)
    # Right where the other is wrong, three times: 2 / 2^3.
    assert paired([Answers([1, 1, 1], [0, 0, 0], range(3))]).p == 0.25


def test_many_documents_need_no_matrix():
    """20,000 clusters: a matrix of them would take 3.2 GB."""
    d = np.random.default_rng(5).normal(size=20_000)
    of = paired([answers(d)]).of
    assert of.error == pytest.approx(stats.sem(d)) and of.freedom == pytest.approx(19_999)


def over(of, clustered_by=""):
    """The row of a task of which everything but the answers is left open."""
    file = SimpleNamespace(higher_is_better={"task": {"acc": True}})
    metric, task = Metric("acc", ""), SimpleNamespace(task="task", file=file)
    return _compared(
        "task", [Matched(task, task, {metric: of}, clustered_by, ([], []), [])], metric, False
    )


def test_an_interval_ends_where_the_scale_does():
    """8 of 9 won: mean 8/9, error (1/3) / sqrt(9), t of 8 degrees of freedom at .975 2.306."""
    right = over(Answers([1] * 8 + [0], [0] * 9, range(9)))
    assert (right["low"], right["high"]) == (pytest.approx(8 / 9 - 2.306 / 9, abs=1e-4), 1.0)
    assert right["verdict"] == "better"
    assert "task, acc, 9 documents: one is better: " in _of_documents(
        SimpleNamespace(**right), "one", "other"
    )
    # Of numbers without a scale it goes on.
    assert over(answers([80.0] * 8 + [0]))["high"] > 90


def test_too_few_documents_or_clusters_have_no_interval():
    few = over(Answers([1] * 7, [0] * 6 + [1], range(7)))
    assert few["too_few"] == "too few documents" and np.isnan([few["low"], few["high"]]).all()
    assert few["p"] == 2 / 2**6 and few["verdict"] == "better"  # of McNemar
    # Nine clusters, of which one has nearly all rows: no t knows how such a mean varies.
    d = [1.0, 0.0] * 100 + [1.0, 0.5] * 4
    uneven = over(answers(d, ["long"] * 200 + [f"short {n}" for n in range(8)]), "passage")
    assert uneven["freedom"] < 4 and uneven["clusters"] == 9
    assert uneven["too_few"] == "too few clusters by passage" and math.isnan(uneven["p"])
    assert uneven["verdict"] == "not shown"
    said = _of_documents(SimpleNamespace(**uneven), "one", "other")
    assert "208 rows, 9 by passage: no difference" in said
    # Where all differ alike, it is not for want of documents.
    assert not over(answers([0.5] * 20))["too_few"]


def test_p_values_have_three_digits_and_more_at_the_edge():
    shown = {0.0862: "0.086", 1.0: "1.000", 0.00099: "< 0.001", 0.0: "< 0.001", math.nan: ""}
    shown |= {0.0499: "0.0499", 0.05003: "0.05003", 0.049996: "0.049996", 0.05: "0.050"}
    assert {p: p_value(p) for p in shown} == shown


def test_an_interval_shows_on_which_side_of_0_it_ends():
    assert _range(0.0012, 0.31, 3) == "0.001 to 0.310"
    assert _range(0.0003, 0.31, 3) == "0.0003 to 0.3100"
    assert _range(-12.0, -0.04, 1, -1) == "0.04 to 12.00" and _range(0, 1, 1) == "0.0 to 1.0"
