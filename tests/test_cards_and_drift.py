"""Data cards are what record and registry say; vintages can be compared."""

import copy
import re
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY
from scipy import stats
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.observation.drift import (
    chance,
    drift,
    drifts,
    holm,
    p_value,
    together,
    unsure,
)
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import registry, store
from lm_eval_epidemia.estimate.joint import hadamard
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.surveys.catalogue import all_tasks, record, records, task


@pytest.mark.parametrize("survey", sorted(records()))
def test_cards_in_docs_are_generated(survey):
    page, text = REPOSITORY / "docs" / "surveys" / f"{survey}.md", card(record(survey))
    assert page.read_text() == text, "run: epidemia survey card --out docs/surveys"
    assert not re.findall(r"\{\w+\}", text), "left to be filled in"


def test_a_card_says_where_the_truth_comes_from():
    acs = card(record("acs"))
    for said in (
        "US Census Bureau",
        "weight `PWGTP`",
        "PWGTP1..80",
        "3,422,888 records",
        "**Adjustment**, rake (tasks on employment_status, employer, salary)",
        "employment_status missing: 572,448",
        "`epidemia_low_acs_salary_by_age`",
    ):
        assert said in acs
    brfss = card(record("brfss"))
    waiting = sum(one.survey == "brfss" for one in all_tasks().values()) - 1
    assert f"{waiting} tasks wait for [LLCP2023XPT.zip](https://www.cdc.gov/" in brfss
    assert "`epidemia_low_brfss_diabetes_by_state`: Kentucky, Pennsylvania" in brfss
    said = {line.split(" | ")[1]: line for line in brfss.splitlines() if "| diabetes |" in line}
    assert "they have diabetes, even if only during pregnancy? |" in said["`DIABETE4` (2023)"]
    assert "apart from diabetes only" in said["`DIABETE4` (2023-published)"]
    assert "published tables, taken as they are" in card(record("bls"))


def test_drift_is_the_distance_over_the_common_cells():
    name = "epidemia_low_bls_sex_by_occupation"
    found = drift(name, "2023", "2019")
    first, second = store.load(name, "2023"), store.load(name, "2019")
    common = [given for given in first.given if given in second.given]
    assert found.cells == 314 and found.common == len(common) < 314
    rows = [first.given.index(given) for given in common]
    others = [second.given.index(given) for given in common]
    weights = first.weights[rows] / first.weights[rows].sum()
    assert found.distance == pytest.approx(
        float(distance(weights, first.p[rows], second.p[others]))
    )
    assert 0 < found.score < 100


def test_drift_of_a_vintage_from_itself_is_none():
    found = drift("epidemia_low_gss_party_by_race", "2022", "2022")
    assert found.distance == 0 and found.score == 100 and found.p_value == 1


def test_chance_is_the_distance_of_two_samples_of_one_population():
    """One yes/no cell: D = 2 |e1 - e2|, and e1 - e2 is normal with variance .03^2 + .04^2 = .05^2.

    So P(D >= .196) = P(|z| >= 1.96) = .05; the deviations are the quantiles in the middle of 1,500
    equal shares, whose variance is .998 of a normal's.
    """
    z = stats.norm.ppf((np.arange(1500) + 0.5) / 1500)
    moved, other = 0.03 * z, 0.04 * z
    both = (np.stack([one, -one], axis=1)[:, None] for one in (moved, other))
    by_chance = chance(np.ones(1), *both)
    assert by_chance.shape == (1500 * 1500,)
    assert by_chance[1] == pytest.approx(2 * abs(moved[0] - other[1]))
    assert p_value(0.196, by_chance) == pytest.approx(0.05, abs=0.001)
    # Of 3 by chance two are no smaller, and the observed one: 3 of 4.
    assert p_value(2.0, np.array([1.0, 2, 3])) == 0.75
    assert np.isnan(p_value(np.nan, by_chance)) and np.isnan(p_value(1.0, np.empty(0)))


def test_fewer_strata_tell_chance_less_well():
    """One yes/no cell against an exact table, n strata of two PSUs, whose halves differ by z_h.

    Equal z: s_j / s is the root of the mean of n chi-squares of 3 degrees of freedom over 3: its
    square has mean 1 and variance 2 / (3 n), here of 100 draws. Normal z, 15 strata: the truth is
    off by 15 further ones, and |sum| >= 1.96 estimated sd has the probability of a t, .069; .05
    +- .007 of 1,000 samples with the factor.
    """
    exact, weights = np.zeros((1, 1, 2)), np.ones(1)

    def moved(z):
        of = hadamard()[1 : len(z) + 1].T @ z
        return np.stack([of, -of], axis=1)[:, None]

    for n in (1, 15, 60):
        square = unsure(weights, moved(np.ones(n)), exact) ** -2
        assert square.shape == (100,)
        assert square.mean() == pytest.approx(1, abs=4 * np.sqrt(2 / (300 * n)))
        assert square.var() == pytest.approx(2 / (3 * n), rel=0.75)
    rng = np.random.default_rng(0)
    shown = []
    for _ in range(1000):
        off, of = 2 * abs(rng.standard_normal(15).sum()), moved(rng.standard_normal(15))
        by_chance, factor = chance(weights, of, exact), unsure(weights, of, exact)
        shown.append([p_value(off, by_chance) <= 0.05, p_value(off, by_chance * factor) <= 0.05])
    plain, allowed = np.mean(shown, axis=0)
    assert abs(allowed - 0.05) <= 0.014 and plain - allowed >= 0.01
    # Too few replicates to tell; two exact tables.
    assert (unsure(weights, moved(np.ones(3))[:50], exact) == 1).all()
    assert (unsure(weights, exact, exact) == 1).all()


def test_holm_is_that_of_r():
    """p.adjust(c(.01, .04, .03, .005), "holm"): .03, .06, .06, .02; what is no test does not count.

    2 x .03 = .06 is the third; the fourth, 1 x .04, is no less than it.
    """
    assert holm([0.01, 0.04, np.nan, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, np.nan, 0.06, 0.02], nan_ok=True
    )
    assert holm([0.7, 0.6]) == [1.0, 1.0] and holm([]) == []


def test_drift_may_be_seen_or_not():
    """In 2021 the GSS was asked on the web. Before, any score below 100 looked like drift."""
    names = [name for name in store.available() if task(name).survey == "gss"]
    pairs = drifts(names)
    against = {test.other: test for test in together(pairs)}
    assert {other for other, test in against.items() if test.p_value <= 0.05} == {"2021"}
    assert all(test.tasks == 17 for test in against.values())
    by_year = [pair for pair in pairs if pair.other == "2024"]
    ratio = np.mean([pair.distance / pair.chance.mean() for pair in by_year])
    assert against["2024"].ratio == pytest.approx(ratio)
    shown = CliRunner().invoke(app, ["anchors", "gss", "bls", "--compare"]).output
    assert "51 tests." in shown and "6 comparisons could not be tested" in shown
    assert "gss 2022 against 2024, 17 tasks together" in shown and ": no drift seen" in shown
    assert "p = 0.0058 (0.0174 for 3 such tests): drift seen" in shown
    party = next(line for line in shown.splitlines() if "party_by_education" in line)
    assert " not seen " in party and " 84.7 " in party


def test_vintages_live_side_by_side():
    name = "epidemia_low_gss_party_by_race"
    assert store.vintages(name) == ["2022", "2024", "2021", "2018"]
    assert store.load(name).vintage == "2022"
    assert not np.array_equal(store.load(name).p, store.load(name, "2018").p)
    with pytest.raises(
        EpidemiaError, match=r"no ground truth of 2023 here.*only of none|no vintage"
    ):
        store.load("epidemia_low_nsduh_heroin_ever_by_age", "2024")
    with pytest.raises(EpidemiaError, match=r"for 2023 here, only for 2022: epidemia groundtruth"):
        store.load("epidemia_low_nsduh_heroin_ever_by_age", "2023")


def test_levels_that_changed_are_not_compared(home):
    """Race was asked in other groups: no distance, but the anchors of both."""
    shutil.copytree(paths.shipped_groundtruth(), store.built_groundtruth())
    folder = store.built_groundtruth()
    truths = copy.deepcopy(store.read_registry(folder))
    entry = truths["gss_2018"]["tasks"]["epidemia_low_gss_party_by_race"]
    entry["levels"] = ["Democratic Party", "None", "Republican Party"]
    truths["gss_2018"] = registry.sealed(truths["gss_2018"])
    registry.write_registry(folder, truths)
    found = drift("epidemia_low_gss_party_by_race", "2022", "2018")
    assert np.isnan(found.distance) and np.isnan(found.score)
    assert found.other_anchors.mean > 0


def test_anchors_of_a_bootstrap_that_some_tasks_lack():
    """ACS has no design here: of several tasks it is left out and counted, alone it is refused."""
    found = CliRunner().invoke(
        app, ["anchors", "acs", "nhanes", "bls", "--bootstrap", "design", "--quantile", "0.975"]
    )
    assert found.exit_code == 0, found.output
    surveys = [task(name).survey for name in store.available()]
    acs, others = surveys.count("acs"), surveys.count("nhanes") + surveys.count("bls")
    assert f"{acs} of {acs + others} tasks lack a design bootstrap" in found.output
    assert "epidemia_low_nhanes_diabetes_by_age" in found.output
    assert "epidemia_low_bls_sex_by_occupation" in found.output and "_acs_" not in found.output
    with pytest.raises(EpidemiaError, match="has no 'design' bootstrap"):
        CliRunner().invoke(app, ["anchors", "acs", "--bootstrap", "design"], catch_exceptions=False)


def test_samples_that_share_people_are_not_tested():
    """The panel that began in 2022 is in the file of 2023, too."""
    name = "epidemia_low_meps_insured_by_age_group"
    for pair in (("2022-panel27", "2023-adults"), ("2023-adults", "2022-panel27")):
        compared = drift(name, *pair)
        assert compared.distance > 0 and np.isnan(compared.p_value)
