"""Sampling error: golden values, and samplics as an independent route."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.estimate.sampling import (
    Sample,
    bootstrap_weights,
    count_shares,
    design_effective_size,
    design_variance,
    kish_size,
    replicate_draws,
    unit_count,
)


def test_kish_golden():
    # (1 + 1 + 2)^2 / (1 + 1 + 4) = 16 / 6; equal weights give the count.
    weight = np.array([1.0, 1.0, 2.0, 5.0, 5.0])
    sizes = kish_size(Sample(weight), np.array([0, 0, 0, 1, 1]), 2)
    assert sizes == pytest.approx([16 / 6, 2.0])


def test_design_variance_golden():
    """One stratum, two PSUs, two records each, weight 1; answers (1, 1) and (1, 0).

    p = 3/4. z totals: PSU 1: (1/4 + 1/4) / 4 = 1/8; PSU 2: (1/4 - 3/4) / 4 = -1/8; mean 0.
    Variance = 2 / (2 - 1) * (1/64 + 1/64) = 1/16.
    """
    sample = Sample(np.ones(4), psu=np.array([0, 0, 1, 1]), stratum_of_psu=np.array([0, 0]))
    outcome, cell = np.array([1, 1, 1, 0]), np.zeros(4, int)
    p = count_shares(sample.weight, cell, outcome, 1, 2)
    assert p[0] == pytest.approx([0.25, 0.75])
    variance = design_variance(sample, cell, outcome, p, 1, 2)
    assert variance[0] == pytest.approx([1 / 16, 1 / 16])
    # n_eff = (2 * 3/16) / (2 / 16) = 3
    size = design_effective_size(p, variance, np.array([4.0]), np.array([4.0]))
    assert size == pytest.approx([3.0])


def complex_sample(seed, strata=6, psus=3, records=40):
    rng = np.random.default_rng(seed)
    psu = np.repeat(np.arange(strata * psus), records)
    effect = rng.normal(0, 0.8, strata * psus)[psu]
    outcome = (rng.normal(0, 1, len(psu)) + effect > 0).astype(int)
    cell = rng.integers(0, 3, len(psu))
    weight = rng.gamma(2.0, 50.0, len(psu))
    return Sample(weight, psu=psu, stratum_of_psu=np.arange(strata * psus) // psus), cell, outcome


def test_design_variance_agrees_with_samplics():
    samplics = pytest.importorskip("samplics")
    sample, cell, outcome = complex_sample(1)
    p = count_shares(sample.weight, cell, outcome, 3, 2)
    ours = np.sqrt(design_variance(sample, cell, outcome, p, 3, 2))[:, 1]
    estimator = samplics.TaylorEstimator(samplics.PopParam.mean)
    estimator.estimate(
        y=outcome.astype(float),
        samp_weight=sample.weight,
        stratum=sample.stratum_of_psu[sample.psu],
        psu=sample.psu,
        domain=cell,
    )
    theirs = np.array([estimator.stderror[c] for c in range(3)])
    assert ours == pytest.approx(theirs, rel=1e-9)
    assert p[:, 1] == pytest.approx([estimator.point_est[c] for c in range(3)], rel=1e-12)


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_bootstrap_weights_keep_records_of_a_unit_together_and_the_total(seed):
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(30), 5)
    weight = np.repeat(rng.gamma(2, 1, 30), 5)
    drawn = bootstrap_weights(Sample(weight, unit=unit), rng) / weight
    by_unit = drawn.reshape(30, 5)
    assert (by_unit == by_unit[:, :1]).all()
    assert by_unit[:, 0].sum() == 30


def uneven_sample(seed):
    """Strata of one to fifteen PSUs, in no order, with numbers that leave gaps."""
    rng = np.random.default_rng(seed)
    stratum_of_psu = rng.permutation(np.repeat(3 * np.arange(40) + 5, rng.integers(1, 16, 40)))
    psu = rng.integers(0, len(stratum_of_psu), 4000)
    sample = Sample(rng.gamma(2.0, 50.0, 4000), psu=psu, stratum_of_psu=stratum_of_psu)
    return sample, rng.integers(0, 7, 4000), rng.integers(0, 3, 4000)


def test_design_variance_is_summed_stratum_by_stratum():
    """To the bit, as it was when the truth that ships was made."""
    for seed in range(5):
        sample, cell, outcome = uneven_sample(seed)
        p = count_shares(sample.weight, cell, outcome, 7, 3)
        totals = np.zeros((len(sample.stratum_of_psu), 7, 3))
        np.add.at(totals, (sample.psu, cell, outcome), sample.weight)
        in_cell = totals.sum(axis=2, keepdims=True)
        z = (totals - p * in_cell) / in_cell.sum(axis=0)
        variance = np.zeros((7, 3))
        for stratum in np.unique(sample.stratum_of_psu):
            own = z[sample.stratum_of_psu == stratum]
            if (size := len(own)) > 1:
                variance += size / (size - 1) * ((own - own.mean(axis=0)) ** 2).sum(axis=0)
        assert design_variance(sample, cell, outcome, p, 7, 3).tobytes() == variance.tobytes()


def test_cells_without_weight_in_a_replicate_get_everyones_distribution():
    p = count_shares(np.array([1.0, 3.0]), np.array([0, 0]), np.array([0, 1]), 2, 2)
    assert p == pytest.approx(np.array([[0.25, 0.75], [0.25, 0.75]]))


def test_kish_counts_sampled_units():
    """Two families of five equal implicates are two observations, not ten."""
    unit = np.repeat([0, 1], 5)
    sample = Sample(np.repeat([1.0, 3.0], 5), unit=unit)
    # Family weights 5 and 15: (5 + 15)^2 / (25 + 225) = 1.6.
    assert kish_size(sample, np.zeros(10, int), 1) == pytest.approx([1.6])
    assert unit_count(sample, np.zeros(10, int), 1).tolist() == [2]
    # Implicates that fall into two cells: the family counts in both.
    cell = np.array([0, 0, 0, 1, 1] * 2)
    assert unit_count(sample, cell, 2).tolist() == [2, 2]


def test_replicate_weights_give_the_published_variance_formula():
    """Successive difference replication: variance = 4/R sum (p_r - p)^2."""
    rng = np.random.default_rng(0)
    totals = rng.uniform(50, 100, (80, 3, 2))
    p = np.array([[0.4, 0.6], [0.5, 0.5], [0.55, 0.45]])
    sample = Sample(np.ones(1), replicate_totals=totals, replicate_scale=4 / 80)
    estimates = totals / totals.sum(axis=2, keepdims=True)
    expected = 4 / 80 * ((estimates - p) ** 2).sum(axis=0)
    draws = replicate_draws(sample, p)
    assert ((draws - p) ** 2).mean(axis=0) == pytest.approx(expected)
