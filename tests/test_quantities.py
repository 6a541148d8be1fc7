"""Sets of quantities: the published one, the store, draws, estimators."""

import json
import re
import runpy
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, raw_file
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_epidemia.benchmarks.prior.quantities import published, store, wording
from lm_eval_epidemia.benchmarks.prior.quantities import quantity as samples
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    DRAWS,
    SIZES,
    STEPS,
    SampleDesign,
    estimate_domain,
    span,
)
from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.sampling import Sample, count_shares, design_variance

NHANES = "epidemia_prior_nhanes"
MAKER = runpy.run_path(str(REPOSITORY / "benchmarks" / "published_quantities.py"))
SHIPPED = ["nhanes", "gss", "meps", "nsduh", "scf"]


@pytest.fixture
def openestimate():
    return raw_file("openestimate", "variables.parquet").parent


# The published set.


def test_the_published_set_is_what_the_published_files_say(openestimate, tmp_path):
    """Record and draws, to the byte; and every number of the list of variables."""
    path = store.write_quantities(tmp_path, MAKER["made_from"](openestimate), published=True)
    shipped = paths.shipped_groundtruth() / "quantities" / "nhanes.json"
    assert store._table(store.load_set_file(path)).equals(
        store._table(store.load_quantities(NHANES))
    )
    old, new = json.loads(shipped.read_text()), json.loads(path.read_text())
    for record in (old, new):  # Another pyarrow writes its own name into the draws.
        del record["sha256"], record["draws"]
    assert old == new
    listed = pd.read_parquet(openestimate / "variables.parquet").set_index("variable")
    truth = store.load_quantities(NHANES)
    columns = {"sd": "std", "family": "ground_truth_distribution_type"}
    for field in ("mean", "sd", "se", "n", "difficulty", "family"):
        theirs = listed.loc[truth.column("name"), columns.get(field, field)]
        assert (truth.column(field) == theirs).all()


def test_corrected_draws_of_the_published_set_are_the_first_people_counted_alike(openestimate):
    people = pd.read_parquet(openestimate / "baseline_samples.parquet")
    corrected = store.load_quantities(NHANES).baselines["corrected"]
    for name, size, trial in (("easy_4", 10, 3), ("hard_7", 30, 24), ("WeightKg", 5, 0)):
        drawn = people.query("variable == @name and n == @size and trial == @trial")
        value = drawn.sort_values("draw")["value"].to_numpy()[:size]
        q = list(store.load_quantities(NHANES).column("name")).index(name)
        at = (q, SIZES.index(size), trial)
        assert corrected.mean[at] == pytest.approx(value.mean(), rel=1e-12)
        assert corrected.variance[at] == pytest.approx(value.var(), rel=1e-9)
        assert corrected.size[at] == size


def test_the_74_are_14_marginals_and_20_of_each_difficulty():
    truth = store.load_quantities(NHANES)
    assert Counter(truth.column("difficulty")) == {"base": 14, "easy": 20, "medium": 20, "hard": 20}
    assert Counter(truth.column("family")) == {"normal": 42, "beta": 32}
    marginals = {each.base: each for each in truth.quantities if not each.conditions}
    for quantity in truth.quantities:
        marginal = marginals[quantity.base]
        shown = (quantity.marginal_mean, quantity.marginal_sd, quantity.low, quantity.high)
        assert shown == (marginal.mean, marginal.sd, marginal.low, marginal.high)


def test_wordings_of_the_74_say_people_survey_year_unit_and_every_bound():
    for quantity in store.load_quantities(NHANES).quantities:
        said = quantity.wording
        assert said.startswith("the proportion who" if quantity.family == "beta" else "the mean")
        assert "(NHANES) 2017-2018" in said and "United States" in said
        asked = (quantity.base, *(condition.variable for condition in quantity.conditions))
        age = max(getattr(published.VARIABLES[name], "age", 18) for name in asked)
        assert f"adults aged {age} and over" in said
        assert not quantity.unit or f"(in {quantity.unit})" in said
        assert "spouse" not in said
        for condition in quantity.conditions:
            assert condition.phrase in said
        assert not re.search(r"\d\.\d{5,}", said)  # 1.4124999999999999


def test_shown_thresholds_part_the_same_people(openestimate):
    """No value that was drawn of a variable lies between a published bound and the shown one."""
    people = pd.read_parquet(openestimate / "baseline_samples.parquet")
    drawn = {name: one["value"].to_numpy() for name, one in people.groupby("variable")}
    listed = pd.read_parquet(openestimate / "variables.parquet")
    bound, side = r"(\d+(?:\.\d+)?)", "(more than|at least|at most|less than)"
    rounded = 0
    for row, one in zip(listed.itertuples(), store.load_quantities(NHANES).quantities, strict=True):
        told = row.description.partition(", given ")[2].split(", and ")
        for text, condition in zip(told, one.conditions, strict=False):
            published_bounds = re.findall(f"(?:than|to) {bound}", text)
            shown = re.findall(f"{side} {bound}", condition.phrase)
            values = drawn[condition.variable]
            for a, (side_of_b, b) in zip(published_bounds, shown, strict=True):
                rounded += float(a) != float(b)
                sharp = side_of_b in ("at least", "less than")
                above = values >= float(b) if sharp else values > float(b)
                assert ((values > float(a)) == above).all()
    assert rounded >= 4


# All sets that ship.


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_are_whole(name):
    truth = store.load_quantities(store.PREFIX + name)
    assert truth.task in store.list_available() and len(truth.fingerprint) == 12
    assert len(set(truth.column("name"))) == len(truth.quantities)
    assert len(set(truth.column("wording"))) == len(truth.quantities)
    assert set(truth.baselines) == {"corrected", "published"}
    assert truth.scored == ("published" if name == "nhanes" else "corrected")
    shape = (len(truth.quantities), len(SIZES), DRAWS)
    for kind, baseline in truth.baselines.items():
        assert all(each.shape == shape for each in baseline)
        assert (baseline.variance >= 0).all()
        sizes = np.array(SIZES)[None, :, None]
        if kind == "corrected":
            assert (baseline.size == sizes).all()
        else:  # Kish's size of a small slice may not reach N.
            small = (truth.column("n") < 100)[:, None, None]
            assert ((baseline.size >= sizes) | (small & (baseline.size > sizes / 3))).all()
    for quantity in truth.quantities:
        assert quantity.n >= 30 and quantity.se > 0 and quantity.sd > 0
        step = (quantity.high - quantity.low) / STEPS
        assert quantity.low <= quantity.marginal_mean <= quantity.high
        assert float(f"{step:.2g}") == pytest.approx(step, rel=1e-9)
        if quantity.family == "beta":
            assert (quantity.low, quantity.high) == (0, 1)
            # A weighted share: the spread between people follows from it.
            mean = quantity.mean
            assert quantity.sd == pytest.approx((mean * (1 - mean)) ** 0.5, rel=1e-9)


def test_draws_of_shipped_sets_scatter_around_the_truth():
    """Corrected means are unbiased: over all, their errors in standard errors have mean 0."""
    for name in SHIPPED[1:]:
        truth = store.load_quantities(store.PREFIX + name)
        mean, sd = truth.column("mean"), truth.column("sd")
        error = truth.baselines["corrected"].mean - mean[:, None, None]
        z = error / (sd[:, None, None] / np.sqrt(SIZES)[None, :, None])
        assert abs(z.mean()) < 4 / np.sqrt(z.size)
        assert z.std() == pytest.approx(1, abs=0.1)


def test_given_says_what_each_quantity_is_about():
    truth = store.load_quantities(NHANES)
    place = list(truth.column("name")).index("easy_2")
    assert truth.given[place] == ["quantity: BloodCadmiumUgl", "BloodLeadUgdl: 3rd quarter"]


# The store.


@pytest.fixture
def own(home):
    """A set of the user's, written from a shipped one."""
    made = store.load_quantities(store.PREFIX + "gss")._replace(task="epidemia_prior_mine")
    return store.write_quantities(store.find_built_folder(), made)


def test_what_is_written_is_read_again_to_the_last_digit(own):
    truth, again = (
        store.load_quantities(store.PREFIX + "gss"),
        store.load_quantities("epidemia_prior_mine"),
    )
    assert again.quantities == truth.quantities
    for kind, baseline in truth.baselines.items():
        for a, b in zip(baseline, again.baselines[kind], strict=True):
            np.testing.assert_array_equal(a, b)
    one = store.list_declared()["epidemia_prior_mine"]
    assert one.state == "built here" and not one.published
    assert next(iter(store.list_declared())) == NHANES
    assert store.list_declared()[NHANES].published


def test_the_fingerprint_changes_with_either_file(own):
    before = store.load_quantities("epidemia_prior_mine")
    record = store.write_quantities(own.parent, before._replace(title="Another"))
    assert store.load_set_file(record).fingerprint != before.fingerprint
    moved = {k: b._replace(mean=b.mean + 1e-9) for k, b in before.baselines.items()}
    record = store.write_quantities(own.parent, before._replace(baselines=moved))
    assert store.load_set_file(record).fingerprint != before.fingerprint


def test_damaged_files_are_refused_and_left_out(own, caplog):
    draws = own.with_suffix(".draws.parquet")
    record, content = own.read_text(), draws.read_bytes()
    for text, table, message in (
        ("{", content, "is not a record of quantities"),
        ('{"schema": 1}', content, "Field required"),
        (record.replace("0.37", "0.38", 1), content, "was changed after it was written"),
        (record, content[:-9], "is not the file that mine.json was written with"),
        (record, None, "mine.draws.parquet, the baselines of .* is missing"),
    ):
        own.write_text(text)
        draws.unlink() if table is None else draws.write_bytes(table)
        caplog.clear()
        notices.forget()
        with pytest.raises(EpidemiaError, match=message) as error:
            store.load_quantities("epidemia_prior_mine")
        assert "epidemia quantities new" in str(error.value)
        assert "epidemia_prior_mine" not in store.list_available()
        assert NHANES in store.list_available()
        assert "epidemia_prior_mine is left out" in caplog.text


# Draws, ends of the grid, quarters.


def test_sums_of_a_draw_golden():
    """Values 0, 1, 1 with weights 1, 1, 2: mean 3/4, variance 3/16, Kish 16/6."""
    value, weight = np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 2.0])
    assert samples.weight_twice(value, weight) == pytest.approx((3 / 4, 3 / 16, 16 / 6))
    assert samples.count_alike(value) == pytest.approx((2 / 3, 2 / 9, 3))


def test_published_draws_go_on_until_kish_reaches_n_or_nobody_is_left():
    rng = np.random.default_rng(0)
    value, weight = rng.normal(size=40), rng.gamma(1, size=40)
    found = samples.draw_samples(value, weight, np.random.default_rng(1))
    most = samples.kish(weight)
    for size, of_size in zip(SIZES, found["published"], strict=True):
        for one in of_size:
            assert one.size >= size or one.size == pytest.approx(most)
    assert found == samples.draw_samples(value, weight, np.random.default_rng(1))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.sampled_from([None, 0.0]))
def test_ends_of_the_grid_hold_two_standard_deviations_and_have_few_digits(mean, sd, least):
    if least is not None and mean + 2 * sd <= 1e-3:
        mean = abs(mean)
    low, high = span(mean, sd, least)
    step, rounding = (high - low) / STEPS, 1e-9 * (abs(mean) + sd)
    assert low <= (mean - 2 * sd if least is None else max(0, mean - 2 * sd)) + rounding
    assert high >= mean + 2 * sd - rounding
    assert least is None or low >= 0
    # One step of slack at each end, and the next step of two digits, at most.
    assert step <= 1.6 * 4 * sd / (STEPS - 1) + 1e-12
    assert float(f"{step:.2g}") == pytest.approx(step, rel=1e-6)


@given(
    st.lists(st.integers(-500, 500), min_size=8, max_size=60, unique=True), st.floats(0.05, 0.95)
)
def test_the_roundest_number_parts_the_same_values(values, quantile):
    value = np.array(values) / 8
    cut = float(np.quantile(value, quantile))
    shown = wording.roundest(value, cut)
    assert ((value <= shown) == (value <= cut)).all()
    exact = value[value <= cut].max()
    digits, at_most = (len(f"{x:.15g}".strip("-0.").replace(".", "")) for x in (shown, exact))
    assert digits <= max(at_most, 1)


def test_bounds_are_said_with_their_unit():
    for low, high, unit, text in (
        (0.92, 1.48, "ug/dL", "more than 0.92 and at most 1.48 ug/dL"),
        (None, 79.69999999999999, "kg", "less than 79.7 kg"),
        (1.4124999999999999, None, "kg", "at least 1.4125 kg"),
        (79.70000000000002, 90, "kg", "more than 79.7 and at most 90 kg"),
        (2716800, None, "$", "more than $2,716,800"),
        (-500.5, 12, "", "more than -500.5 and at most 12"),
        (None, -1200, "$", "at most -$1,200"),
    ):
        assert wording.format_bounds(low, high, unit) == text


# Estimators.


def test_estimates_golden():
    """Two strata of two PSUs; w y by hand.

    Stratum 0: PSU 0 has y = 1, 3 (w = 1, 1), PSU 1 y = 2 (w = 2). Stratum 1: PSU 2 has y = 4
    (w = 1), PSU 3 nobody of the domain. Sum w = 5, mean = (1 + 3 + 4 + 4) / 5 = 12/5.
    z: PSU 0: -7/5 + 3/5 = -4/5; PSU 1: 2 * (-2/5) = -4/5; PSU 2: 8/5; PSU 3: 0, about 4/5.
    Variance of the mean = (2 * 0 + 2 * 2 * (4/5)^2) / 25 = (8/25)^2, of 3 PSUs less 2 strata.
    Were there nobody else: PSU 2 is alone and adds nothing: 0, told by 4/5 of the weight.
    """
    value = np.array([1.0, 3, 2, 4, 100])
    domain = np.array([True, True, True, True, False])
    design = SampleDesign(
        np.array([1.0, 1, 2, 1, 1]), np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 3])
    )
    found = estimate_domain(value, domain, design)
    variance = ((1 - 2.4) ** 2 + (3 - 2.4) ** 2 + 2 * (2 - 2.4) ** 2 + (4 - 2.4) ** 2) / 5
    assert found == pytest.approx((2.4, variance**0.5, 8 / 25, 1, 1.0), abs=1e-12)
    members = estimate_domain(value[domain], domain[domain], design.of(domain))
    assert members == pytest.approx((2.4, variance**0.5, 0.0, 1, 0.8), abs=1e-12)
    # Without a design: n / (n - 1) * sum (w (y - mean))^2 / (sum w)^2, n with the fifth.
    z = np.array([-1.4, 0.6, -0.8, 1.6])
    alone = estimate_domain(value, domain, SampleDesign(design.weight))
    assert alone.se == pytest.approx((5 / 4 * (z**2).sum()) ** 0.5 / 5)
    assert alone.df == 3


def test_errors_of_shares_are_those_of_the_cells_of_a_task():
    """One variance for both: a share of a domain, and of a cell, some PSUs without members."""
    rng = np.random.default_rng(0)
    psu, cell, outcome = (rng.integers(0, most, 300) for most in (40, 6, 2))
    weight, stratum_of_psu = rng.gamma(2, size=300), np.arange(40) // 2
    p = count_shares(weight, cell, outcome, 6, 2)
    sample = Sample(weight, psu=psu, stratum_of_psu=stratum_of_psu)
    of_cells = np.sqrt(design_variance(sample, cell, outcome, p, 6, 2))[:, 1]
    design = SampleDesign(weight, stratum_of_psu[psu], psu)
    of_domains = [estimate_domain(outcome.astype(float), cell == c, design) for c in range(6)]
    assert len(np.unique(psu)) == 40 > len(np.unique(psu[cell == 0]))
    assert [one.se for one in of_domains] == pytest.approx(of_cells.tolist(), rel=1e-12)


def test_implicates_of_a_family_are_one_unit():
    """Five equal copies, each with a fifth of the weight, tell as much as one record."""
    rng = np.random.default_rng(0)
    value, weight = rng.normal(size=50), rng.gamma(2, size=50)
    everyone = np.ones(50, dtype=bool)
    single = estimate_domain(value, everyone, SampleDesign(weight))
    copied = estimate_domain(
        np.repeat(value, 5),
        np.repeat(everyone, 5),
        SampleDesign(np.repeat(weight / 5, 5), psu=np.repeat(np.arange(50), 5)),
    )
    assert copied == pytest.approx(single, rel=1e-12)


def test_replicate_weights_give_the_error_where_there_is_no_design():
    """Means 2, 4 and 2.5 in three replicates, 3 at the weight: variance = 4/9 * (1 + 1 + 1/4)."""
    value, everyone = np.array([2.0, 4.0]), np.ones(2, dtype=bool)
    replicates = np.array([[1, 0, 3], [0, 1, 1]], dtype=np.float32)
    found = estimate_domain(
        value, everyone, SampleDesign(np.ones(2), replicates=replicates, scale=4 / 9)
    )
    assert found == pytest.approx((3, 1, 1, 2, 1))


RECORDS = yaml.safe_load((REPOSITORY / "tests" / "data" / "quantity_slices.yaml").read_text())


@pytest.mark.parametrize("survey", RECORDS)
def test_shipped_errors_are_those_of_the_records(survey):
    """By pandas, from the files: all PSUs of the survey count, without members as a sum of 0."""
    record = RECORDS[survey]
    weight, strata, psu = record["design"]
    frame = pd.read_parquet(raw_file(survey, record["file"])).astype(float, errors="ignore")
    frame = frame[frame["year"] == 2022] if "year" in frame else frame
    truth = {q.name: q for q in store.load_quantities(store.PREFIX + survey).quantities}
    for name, (value, members) in record["slices"].items():
        there = frame.eval(members).fillna(False).astype(bool) & (frame[weight] > 0)
        w = frame[weight].where(there, 0.0)
        y = frame.eval(value).astype(float).where(there, 0.0)
        mean = (w * y).sum() / w.sum()
        sums = (w * (y - mean)).groupby([frame[strata], frame[psu]]).sum()
        by_stratum = sums.groupby(level=0)
        variance = (by_stratum.var(ddof=1) * by_stratum.size()).sum()
        members_of = there.groupby([frame[strata], frame[psu]]).sum()
        with_members = members_of[members_of > 0].groupby(level=0).size()
        assert len(with_members) and len(members_of) > with_members.sum()
        quantity = truth[name]
        assert quantity.n == there.sum()
        assert quantity.mean == pytest.approx(mean, rel=1e-9)
        assert quantity.se == pytest.approx(variance**0.5 / w.sum(), rel=1e-9)
        assert quantity.df == (with_members - 1).sum()


def test_intervals_golden():
    """t of 10 degrees of freedom at 97.5 %: 2.228139 (any table).

    Mean 5, error 1: 5 -+ 2.228. Share .2, error .04: log-odds log(1/4) -+ 2.228139 * .04 / .16.
    Lognormal 100, error 10: 100 exp(-+ .2228139).
    """

    def interval(*known):
        return tuple(samples.quantile(*known, share) for share in (0.025, 0.975))

    assert interval("normal", 5.0, 1.0, 10) == pytest.approx((2.771861, 7.228139), abs=1e-6)
    low, high = interval("beta", 0.2, 0.04, 10)
    odds = 0.25 * np.exp(2.228139 * 0.25 * np.array([-1, 1]))
    assert (low, high) == pytest.approx(tuple(odds / (1 + odds)), abs=1e-6)
    assert interval("lognormal", 100.0, 10.0, 10) == pytest.approx(
        (100 * np.exp(-0.2228139), 100 * np.exp(0.2228139)), abs=1e-4
    )
    # Without published degrees of freedom a normal one; an error of 0 leaves the truth alone.
    quantity = next(q for q in store.load_quantities(NHANES).quantities if q.family == "normal")
    assert quantity.df is None
    reach = 1.959964 * quantity.se
    ends = (quantity.mean - reach, quantity.mean + reach)
    assert quantity.interval == pytest.approx(ends, rel=1e-6)
    assert quantity._replace(se=0.0).interval == (quantity.mean, quantity.mean)
