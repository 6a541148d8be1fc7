"""Raking and rescaling: known margins are met, and the shipped adjustments can be recomputed."""

import numpy as np
import pandas as pd
import pytest
from conftest import raw_file
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.adjust import Target, adjust, rake
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata, load_microdata
from lm_eval_epidemia.surveys.variable import Level, Rake, Rescale, Variable


def test_raking_by_hand():
    """Two by two, start weights 1: with independent margins the answer is their product.

    Margins (0.7, 0.3) and (0.6, 0.4) of 4 records: 4 x (0.42, 0.28, 0.18, 0.12).
    """
    row, column = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    targets = [Target(row, np.array([0.7, 0.3])), Target(column, np.array([0.6, 0.4]))]
    assert rake(np.ones(4), targets) == pytest.approx([1.68, 1.12, 0.72, 0.48])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_margins_are_met_the_sum_is_kept_and_the_odds_ratios_too(seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(2, 5, 2)
    cell = np.concatenate([np.arange(rows * columns), rng.integers(0, rows * columns, 60)])
    weight = rng.gamma(2, 1, len(cell)) + 0.05
    truth = rng.gamma(3, 1, (rows, columns)) + 0.2
    truth /= truth.sum()
    margins = [truth.sum(axis=axis) for axis in (1, 0)]
    raked = rake(weight, list(map(Target, (cell // columns, cell % columns), margins)))
    assert raked.sum() == pytest.approx(weight.sum())
    table, before = (
        np.bincount(cell, weights=of, minlength=rows * columns).reshape(rows, columns)
        for of in (raked, weight)
    )
    for axis, margin in zip((1, 0), margins, strict=True):
        assert table.sum(axis=axis) / table.sum() == pytest.approx(margin, abs=2e-5)
    odds, kept = (t[0, 0] * t[1, 1] / t[0, 1] / t[1, 0] for t in (before, table))
    assert kept == pytest.approx(odds, rel=1e-9)


def test_margins_that_not_all_records_meet():
    # A record without the variable keeps its weight.
    cell = np.array([0, 1, 1, MISSING])
    raked = rake(np.ones(4), [Target(cell, np.array([0.5, 0.5]))])
    assert raked == pytest.approx([1.5, 0.75, 0.75, 1.0])
    # A cell without records is spread over the others.
    raked = rake(np.ones(2), [Target(np.array([0, 1]), np.array([0.6, 0.2, 0.2]))])
    assert raked == pytest.approx([1.5, 0.5])
    targets = [Target(np.array([0, 1]), np.array(share)) for share in ([0.5, 0.5], [0.9, 0.1])]
    with pytest.raises(EpidemiaError, match="margins contradict each other"):
        rake(np.ones(2), targets)


def small_microdata():
    """60 people of two sexes in three regions, with weights."""
    rng = np.random.default_rng(8)
    variables = {}
    for name, number in (("sex", 2), ("region", 3)):
        levels = (Level(label=str(n), phrase=f"has {n}", codes=[n]) for n in range(number))
        variables[name] = Variable(column=name.upper(), levels=tuple(levels))
    numbers = {
        name: rng.integers(0, len(way.levels), 60).astype(np.int16)
        for name, way in variables.items()
    }
    nothing = dict.fromkeys(("replicates", "strata", "psu", "unit"))
    return Microdata(
        record=find_record("gss"),
        vintage="2022",
        files={"people.csv": ""},
        variables=variables,
        levels=numbers,
        weight_column="W",
        weight=rng.gamma(3, 10, 60),
        columns={},
        **nothing,
    )


def test_a_rake_of_the_cells_does_not_leak_into_a_later_rake_of_both():
    data, task = small_microdata(), find_record("gss").all_tasks[0]
    sexes = {"variables": ["sex"], "shares": [0.1, 0.9]}
    regions = {"variables": ["region"], "shares": [0.2, 0.3, 0.5]}
    cells = Rake(reason="cells", cells_only=True, margins=[sexes])
    both = Rake(reason="both", margins=[regions])
    scaled = Rescale(method="rescale", reason="scale", total=1000.0)
    alone = adjust(data, [both], task)
    found = adjust(data, [cells, both], task)
    # P(Y | X) knows nothing of the sexes, P(X) of both margins in turn.
    assert found.weight == pytest.approx(alone.weight, rel=1e-12)
    by_sex = rake(data.weight, [Target(data.levels["sex"], np.array([0.1, 0.9]))])
    in_turn = rake(by_sex, [Target(data.levels["region"], np.array([0.2, 0.3, 0.5]))])
    assert found.cell_weight == pytest.approx(in_turn)
    assert [note["for"] for note in found.notes] == ["P(X)", "P(X)", "P(Y | X)"]
    assert found.notes[2]["weight_effect"] == alone.notes[0]["weight_effect"]
    # The other way round, and with a scale between, there is nothing to leak.
    turned = adjust(data, [both, scaled, cells], task)
    assert turned.weight / turned.weight.sum() == pytest.approx(alone.weight / alone.weight.sum())
    rescaled = adjust(data, [scaled, both], task)
    assert rescaled.cell_weight is rescaled.weight
    assert [note.get("for") for note in rescaled.notes] == [None, "P(X) and P(Y | X)"]
    # Without conditions P(Y) is the population's: what is known of its cells weighs the records.
    of_all = adjust(data, [cells, both], task.model_copy(update={"given": ()}))
    assert of_all.weight == pytest.approx(found.cell_weight)
    assert of_all.cell_weight is of_all.weight
    assert [note["for"] for note in of_all.notes] == ["P(Y)", "P(Y)"]


@pytest.fixture(scope="module")
def acs():
    path = raw_file("acs", "acs2024_1yr_pums_person.parquet")
    return load_microdata(find_record("acs"), path)


def test_acs_work_agrees_with_an_independent_poststratification(acs):
    """SOURCE.json of the file gives three national rates after its own post-stratification of the
    49 states to all 51 by age, sex, race, Hispanic origin and education."""

    def adjusted_for(outcome):
        task = next(t for t in acs.record.all_tasks if t.outcome == outcome)
        return adjust(acs, acs.record.vintages["2024"].adjustments, task)

    education, adjusted = adjusted_for("education"), adjusted_for("employment_status")
    assert education.weight is acs.weight and education.notes == []
    weight, esr = adjusted.weight, acs.columns["ESR"]
    adult = acs.columns["AGEP"] >= 16
    total = weight[adult].sum()
    civilian = weight[np.isin(esr, [1, 2])].sum()
    unemployed = weight[esr == 3].sum()
    armed = weight[np.isin(esr, [4, 5])].sum()
    assert total == pytest.approx(276_271_809, rel=1e-4)
    assert civilian / total == pytest.approx(0.60966, abs=3e-4)
    assert unemployed / (civilian + unemployed) == pytest.approx(0.04444, abs=2e-4)
    assert (civilian + unemployed + armed) / total == pytest.approx(0.64270, abs=3e-4)
    (note,) = adjusted.notes
    assert note["applied"] and note["margins"][0]["share_in_cells_without_a_record"] < 1e-5


def test_nhis_margins_are_those_of_the_acs(acs):
    """The shares written in nhis.yaml, from the raw ACS file by plain pandas."""
    columns = ["PWGTP", "AGEP", "SEX", "RAC1P", "HISP", "SCHL"]
    frame = pd.read_parquet(raw_file("acs", "acs2024_1yr_pums_person.parquet"), columns=columns)
    frame = frame.astype("float64").query("AGEP >= 18")
    ages = [18, 25, 35, 45, 55, 65, 75, 80, 200]
    frame["age"] = pd.cut(frame["AGEP"], ages, right=False, labels=False)
    frame["sex"] = frame["SEX"] - 1
    race = frame["RAC1P"].map({1: 0, 2: 1, 6: 2, 3: 3, 4: 3, 5: 3}).fillna(5)
    frame["race"] = race.where(frame["HISP"] == 1, 4)
    frame["education"] = pd.cut(frame["SCHL"], [0, 15, 17, 20, 24], labels=False)
    (rule,) = find_record("nhis").vintages["2021-unweighted"].adjustments
    for margin in rule.margins:
        totals = frame.groupby(list(margin.variables))["PWGTP"].sum().unstack()
        expected = (totals / totals.to_numpy().sum()).to_numpy()
        assert np.array(margin.shares) == pytest.approx(expected, abs=6e-7), margin.variables


def test_nhis_weights_meet_the_margins_and_only_weigh_the_cells():
    path = raw_file("nhis", "nhis2021_sample_adult_unweighted.parquet")
    data = load_microdata(find_record("nhis"), path)
    rules = data.record.vintages["2021-unweighted"].adjustments
    adjusted = adjust(data, rules, data.record.all_tasks[0])
    assert (adjusted.weight == 1).all()
    asked = [data.levels[name] != MISSING for name in ("age", "sex", "race", "education")]
    complete = np.all(asked, axis=0)
    frame = pd.DataFrame(data.levels)[complete].assign(weight=adjusted.cell_weight[complete])
    for margin in rules[0].margins:
        totals = frame.groupby(list(margin.variables))["weight"].sum().unstack()
        found = (totals / frame["weight"].sum()).to_numpy()
        assert found == pytest.approx(np.array(margin.shares), abs=2e-5)
    # Another raking of the same file, to more margins, is in the data folder: the same picture.
    diabetes = data.levels["diabetes"]
    known = diabetes != MISSING
    share = np.average(diabetes[known] == 0, weights=adjusted.cell_weight[known])
    assert share == pytest.approx(0.096, abs=0.002)
    # And so has the truth of everybody that ships.
    everyone = store.load_truth("epidemia_marginal_nhis_diabetes")
    assert everyone.p[0, 0] == pytest.approx(share, abs=1e-9)


def test_rescaling_gives_the_known_total_and_the_same_shares():
    path = raw_file("meps", "HC243_panel27_subset.parquet")
    data = load_microdata(find_record("meps"), path)
    assert data.vintage == "2022-panel27"
    rules = data.record.vintages[data.vintage].adjustments
    adjusted = adjust(data, rules, data.record.all_tasks[0])
    assert adjusted.weight.sum() == pytest.approx(333e6)
    assert adjusted.weight / adjusted.weight.sum() == pytest.approx(data.weight / data.weight.sum())
    assert adjusted.notes[0]["factor"] == pytest.approx(333e6 / 132_218_029, rel=1e-6)
