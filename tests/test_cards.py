"""Data cards are what record and registry say; vintages live side by side."""

import re

import numpy as np
import pytest
from conftest import REPOSITORY
from typer.testing import CliRunner

from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.report.cards import render_card
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, find_task, records


def test_every_record_has_a_card_and_the_page_of_cards_names_it():
    page = (REPOSITORY / "docs" / "reference" / "surveys.md").read_text()
    listed = re.search(r"prints one of (.+)\. <!--", page)[1].split(", ")
    assert listed == sorted(records())
    for survey in listed:
        text = render_card(find_record(survey))
        assert text.startswith("# ") and f"epidemia survey card {survey}" in text
        assert not re.findall(r"\{\w+\}", text), "left to be filled in"


def test_a_card_says_where_the_truth_comes_from():
    acs = render_card(find_record("acs"))
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
    brfss = render_card(find_record("brfss"))
    waiting = sum(one.survey == "brfss" for one in all_tasks().values()) - 1
    assert f"{waiting} tasks wait for [LLCP2023XPT.zip](https://www.cdc.gov/" in brfss
    assert "`epidemia_low_brfss_diabetes_by_state`: Kentucky, Pennsylvania" in brfss
    said = {line.split(" | ")[1]: line for line in brfss.splitlines() if "| diabetes |" in line}
    assert "they have diabetes, even if only during pregnancy? |" in said["`DIABETE4` (2023)"]
    assert "apart from diabetes only" in said["`DIABETE4` (2023-published)"]
    assert "published tables, taken as they are" in render_card(find_record("bls"))


def test_vintages_live_side_by_side():
    name = "epidemia_low_gss_party_by_race"
    assert store.vintages(name) == ["2022", "2024", "2021", "2018"]
    assert store.load_truth(name).vintage == "2022"
    assert not np.array_equal(store.load_truth(name).p, store.load_truth(name, "2018").p)
    with pytest.raises(
        EpidemiaError, match=r"no ground truth of 2023 here.*only of none|no vintage"
    ):
        store.load_truth("epidemia_low_nsduh_heroin_ever_by_age", "2024")
    with pytest.raises(EpidemiaError, match=r"for 2023 here, only for 2022: epidemia groundtruth"):
        store.load_truth("epidemia_low_nsduh_heroin_ever_by_age", "2023")


def test_anchors_of_a_bootstrap_that_some_tasks_lack():
    """ACS has no design here: of several tasks it is left out and counted, alone it is refused."""
    found = CliRunner().invoke(
        app, ["anchors", "acs", "nhanes", "bls", "--bootstrap", "design", "--quantile", "0.975"]
    )
    assert found.exit_code == 0, found.output
    surveys = [find_task(name).survey for name in store.list_available()]
    acs, others = surveys.count("acs"), surveys.count("nhanes") + surveys.count("bls")
    assert f"{acs} of {acs + others} tasks lack a design bootstrap" in found.output
    assert "epidemia_low_nhanes_diabetes_by_age" in found.output
    assert "epidemia_low_bls_sex_by_occupation" in found.output and "_acs_" not in found.output
    with pytest.raises(EpidemiaError, match="has no 'design' bootstrap"):
        CliRunner().invoke(app, ["anchors", "acs", "--bootstrap", "design"], catch_exceptions=False)
