"""Joint replicates: what is drawn, how it is kept, and that it has the variance of the design."""

import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import raw_file
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_survey import DESIGNED, build, declare, people
from truths import HEROIN, enter

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, estimators, prepare, sampling, store
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
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.microdata import load_microdata


def test_the_matrix_is_a_hadamard_matrix():
    found = sampling.hadamard()
    assert set(np.unique(found)) == {-1, 1}
    assert (found @ found.T == 100 * np.eye(100)).all()
    assert (found[0] == 1).all()


def test_two_psus_of_a_stratum_are_balanced_over_the_replicates():
    """One of two, twice its weight; of two strata all four pairs equally often."""
    stratum_of_psu = np.array([3, 0, 1, 0, 1, 3, 2, 2])
    drawn = np.array([sampling.multiplicities(stratum_of_psu, "toy_2020", b) for b in range(100)])
    assert set(np.unique(drawn)) == {0, 2}
    for stratum in range(4):
        assert (drawn[:, stratum_of_psu == stratum].sum(axis=1) == 2).all()
    assert (drawn.mean(axis=0) == 1).all()
    one, other = drawn[:, 1] - 1, drawn[:, 2] - 1
    assert one @ other == 0
    # The next hundred are others.
    others = [sampling.multiplicities(stratum_of_psu, "toy_2020", b + 100) for b in range(100)]
    assert (np.array(others) != drawn).any()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_larger_strata_are_drawn_as_rao_and_wu_do(seed):
    """n - 1 of n, with replacement, times n / (n - 1): a stratum keeps its weight."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, 12)
    stratum_of_psu = rng.permutation(np.repeat(3 * np.arange(12) + 5, sizes))
    drawn = sampling.multiplicities(stratum_of_psu, f"toy_{seed}", seed % 100)
    for stratum, size in zip(3 * np.arange(12) + 5, sizes, strict=True):
        times = drawn[stratum_of_psu == stratum] * (size - 1) / size
        assert times == pytest.approx(np.rint(times))
        assert times.sum() == pytest.approx(size - 1)


@pytest.mark.parametrize(("psus", "rel"), [(2, 0.05), (4, 0.6)])
def test_the_spread_of_the_replicates_is_the_design_based_variance(psus, rel):
    """Of two PSUs exactly, but for the divisor 99 and a ratio's curvature; of more, by chance.

    The relative standard deviation of a variance from 100 draws is sqrt(2 / 99) = 14 %; 0.6 is more
    than four of them.
    """
    sample, _, outcome = complex_sample(2, strata=24, psus=psus, records=60)
    cell = np.zeros(len(outcome), int)
    p = sampling.count_shares(sample.weight, cell, outcome, 1, 2)
    target = sampling.design_variance(sample, cell, outcome, p, 1, 2)[0, 1]
    draws = [
        sampling.count_shares(
            sampling.replicate_weights(sample, "toy_2020", b, 100), cell, outcome, 1, 2
        )[0, 1]
        for b in range(100)
    ]
    assert np.var(draws, ddof=1) == pytest.approx(target, rel=rel)


def test_standard_errors_of_marginals_are_the_official_ones():
    """NSDUH and NHANES, from the real files: Taylor linearisation, which the agencies publish."""
    files = raw_file("nsduh", "nsduh_2022.parquet"), raw_file("nhanes", "DEMO_L.parquet").parent
    for survey, file in zip(("nsduh", "nhanes"), files, strict=True):
        data = load_microdata(find_record(survey), [file])
        tasks = [t for t in data.record.all_tasks if data.can_estimate(t) and len(t.given) == 1]
        assert len(tasks) >= 4
        for task in tasks:
            ready = prepare.prepare(data, task)
            everyone = {"cell": np.zeros_like(ready.cell), "weights": np.ones(1)}
            everyone = replace(ready, given=ready.given[:1], **everyone)
            joint = everyone.estimator.joint(everyone, ready.marginal[None], 100)
            found = joint.at[:, 0].std(axis=0, ddof=1)
            assert found == pytest.approx(ready.marginal_se, rel=0.1), task.name


def test_own_replicate_weights_have_the_agencys_variance():
    """Successive differences, 4 / 80 sum (p_r - p)^2 (Census Bureau, PUMS Accuracy of the Data)."""
    data = load_microdata(find_record("nsduh"), [raw_file("nsduh", "nsduh_2022.parquet")])
    ready = prepare.prepare(data, declared_task(HEROIN))
    rng = np.random.default_rng(3)
    shape = (80, len(ready.weights), 2)
    p = ready.estimator.estimate(ready)
    totals = 1000 * p * (1 + 0.05 * rng.standard_normal(shape))
    sample = sampling.Sample(ready.sample.weight, replicate_totals=totals, replicate_scale=4 / 80)
    joint = ready.estimator.joint(replace(ready, sample=sample), p, 100)
    estimates = totals / totals.sum(axis=2, keepdims=True)
    census = 4 / 80 * ((estimates - p) ** 2).sum(axis=0)
    assert joint.at.var(axis=0, ddof=1) == pytest.approx(census)
    # So has any combination of tasks, which is what joint replicates are for.
    total = joint.at[:, :, 0].sum(axis=1).var(ddof=1)
    moved = (estimates - p)[:, :, 0].sum(axis=1)
    assert total == pytest.approx(4 / 80 * (moved**2).sum())


def test_a_mixture_of_more_replicates_than_are_kept_is_right_on_average():
    found = sampling.mixture("toy_2020", 100, 160)
    assert found.mean(axis=0) == pytest.approx(np.zeros(160), abs=1e-12)
    assert found.std(axis=0, ddof=1) == pytest.approx(np.ones(160))
    exact = sampling.mixture("toy_2020", 100, 80)
    assert exact.T @ exact / 99 == pytest.approx(np.eye(80), abs=1e-12)


def test_weights_of_replicates_give_the_same_as_their_totals():
    """Of records, for an estimator that is fitted on them: linear in the weights."""
    rng = np.random.default_rng(0)
    weight, outcome = rng.gamma(2.0, 1.0, 500), rng.integers(0, 2, 500)
    replicates = weight[:, None] * (1 + 0.1 * rng.standard_normal((500, 80)))
    sample = sampling.Sample(weight, replicate_weights=replicates, replicate_scale=4 / 80)
    totals = [sampling.replicate_weights(sample, "toy_2020", b, 100) @ outcome for b in range(100)]
    moved = replicates.T @ outcome - weight @ outcome
    assert np.var(totals, ddof=1) == pytest.approx(4 / 80 * (moved**2).sum())


def test_replicate_b_is_the_same_sample_for_every_task():
    """Families of SCF: whoever is drawn is drawn in all tasks, with all implicates."""
    data = load_microdata(find_record("scf"), [raw_file("scf", "scfp2022.parquet")])
    tasks = [t for t in data.record.all_tasks if data.can_estimate(t)][:4]
    times = np.full((100, data.unit.max() + 1), np.nan)
    for task in tasks:
        sample = prepare.prepare(data, task).sample
        for b in (0, 1, 99):
            found = np.rint(sampling.replicate_weights(sample, data.key, b, 100) / sample.weight)
            known = times[b, sample.unit]
            assert (np.isnan(known) | (known == found)).all()
            times[b, sample.unit] = found
    # As many as there are, with replacement.
    assert np.nansum(times[0]) == pytest.approx(data.unit.max() + 1, rel=0.01)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_replicates_are_kept_to_a_small_part_of_their_spread(seed, levels):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(levels), 7)
    at = rng.dirichlet(np.ones(levels), (50, 7))
    steps, step = sampling.quantised(p, at)
    assert steps.shape == (7, levels - 1, 50)
    back = p[:, :-1] + (steps * step).transpose(2, 0, 1)
    # Half a step, 1 / 65534 of the largest deviation, which is at most 1; and rounding.
    assert np.abs(back - at[..., :-1]).max() <= 0.5 * step * (1 + 1e-9)
    assert step <= 1 / 32767


def test_a_truth_has_its_replicates_when_they_are_asked_for(home):
    enter(0.25)
    truth = store.load_truth(HEROIN, "2023")
    assert truth.replicates.shape == (100, 11, 2)
    assert truth.replicates.sum(axis=2) == pytest.approx(1)
    # Steps of 1e-6, up to 99 of them.
    assert 0 < np.abs(truth.replicates - truth.p).max() < 1e-4
    assert truth.sample.startswith("nsduh_2023 ")
    with pytest.raises(ValueError, match="read-only"):
        truth.replicates[0] = 0


def test_tasks_of_one_survey_share_a_sample_and_exact_tables_have_none():
    counted, fitted = map(
        store.load_truth, (HEROIN, "epidemia_high_nsduh_cocaine_ever_by_sex_race")
    )
    assert counted.sample == fitted.sample and counted.replicates.shape == (100, 11, 2)
    # Without fold luck: the mean of 100 draws, and what boosting shrinks in a bootstrap sample.
    spread = fitted.replicates.std(axis=0, ddof=1)
    assert (np.abs(fitted.replicates.mean(axis=0) - fitted.p) < 2 * spread).all()
    table = store.load_truth(
        next(n for n in store.list_available() if n.startswith("epidemia_low_bls_"))
    )
    assert (table.sample, table.replicates.shape[0]) == ("", 0)


# What is refused.


def test_a_stratum_with_one_psu_is_refused(home, tmp_path, monkeypatch):
    declare(home, DESIGNED)
    frame = people(400)
    frame.loc[frame.STRATUM[0] == frame.STRATUM, "PSU"] = 1
    raw = tmp_path / "toy.csv"
    frame.to_csv(raw, index=False)
    with pytest.raises(EpidemiaError) as caught:
        build(raw, tmp_path)
    psu = r"1 of 20 strata .STRATUM. have a single PSU:"
    assert re.search(rf"{psu} .*merge each with a neighbour", str(caught.value))
    # The way out that it names: nobody looks at the design.
    schemes = ["iid", "population"]
    monkeypatch.setattr(boosted, "ROUNDS", 2)
    truth = store.load_truth(build(raw, bootstrap=schemes, replicates=4).tasks[0])
    assert set(truth.distances) == set(schemes) and len(truth.replicates) == 2


# Surveys drawn anew from what was estimated.


def test_drawn_outcomes_have_the_probability_and_the_correlation_asked_for():
    """40,000 PSUs of 2 records: the standard error of their correlation is about 0.005."""
    rng = np.random.default_rng(5)
    psus = 40_000
    psu = np.repeat(np.arange(psus), 2)
    sample = sampling.Sample(np.ones(2 * psus), psu=psu, stratum_of_psu=np.arange(psus) // 2)
    cell, p = np.zeros(2 * psus, int), np.array([[0.7, 0.3]])
    drawn = estimators.draw_outcomes(sample, cell, p, 0.25, rng)
    assert drawn.mean() == pytest.approx(0.3, abs=0.01)
    assert np.corrcoef(drawn[::2], drawn[1::2])[0, 1] == pytest.approx(0.25, abs=0.03)
    # And back: the moment estimate finds it.
    found = estimators.intraclass_correlation(sample, cell, drawn, p)
    assert found == pytest.approx(0.25, abs=0.03)


def test_records_of_a_unit_have_one_number():
    """Implicates of a family: in one cell they answer alike."""
    unit = np.repeat(np.arange(200), 5)
    sample = sampling.Sample(np.ones(1000), unit=unit)
    p = np.array([[0.5, 0.5]])
    drawn = estimators.draw_outcomes(sample, np.zeros(1000, int), p, 0.0, np.random.default_rng(1))
    by_unit = drawn.reshape(200, 5)
    assert (by_unit == by_unit[:, :1]).all()
    assert 0.3 < drawn.mean() < 0.7
    assert estimators.intraclass_correlation(sample, np.zeros(1000, int), drawn, p) == 0


# Sampling error: golden values, and samplics as an independent route.


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
