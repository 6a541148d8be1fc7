"""Data cards are what record and registry say; vintages can be compared."""

import copy
import re
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.observation.drift import drift
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import registry, store
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
    assert found.distance == 0 and found.score == 100


def test_vintages_live_side_by_side():
    name = "epidemia_low_gss_party_by_race"
    assert [place.vintage for place in store.all_places()[name]] == ["2022", "2024", "2021", "2018"]
    assert store.load(name).vintage == "2022"
    assert not np.array_equal(store.load(name).p, store.load(name, "2018").p)
    with pytest.raises(
        EpidemiaError, match=r"no ground truth of 2023 here.*only of none|no vintage"
    ):
        store.load("epidemia_low_nsduh_heroin_ever_by_age", "2024")
    with pytest.raises(EpidemiaError, match=r"of 2023 here, only of 2022: epidemia groundtruth"):
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
    assert f"{acs} of {acs + others} tasks have no design bootstrap" in found.output
    assert "epidemia_low_nhanes_diabetes_by_age" in found.output
    assert "epidemia_low_bls_sex_by_occupation" in found.output and "_acs_" not in found.output
    with pytest.raises(EpidemiaError, match="has no 'design' bootstrap"):
        CliRunner().invoke(app, ["anchors", "acs", "--bootstrap", "design"], catch_exceptions=False)
