"""The generator of quantities, the published ones recomputed, and their commands."""

import json
import os
import re
import shutil
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow
import pytest
from conftest import RAW, raw_file
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.benchmarks.prior.quantities import published, store, wording
from lm_eval_epidemia.benchmarks.prior.quantities.generate import (
    Refused,
    Slices,
    VariableLevel,
    generate,
)
from lm_eval_epidemia.benchmarks.prior.quantities.published import VARIABLES, YesNoVariable
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import seal_of
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.microdata import load_microdata

NHANES = "epidemia_prior_nhanes"

#: How the sets that ship were made: file, vintage.
SHIPPED = {
    "gss": ("GSS_2018_2021_2022_2024.parquet", "2022"),
    "meps": ("HC243_panel27_subset.parquet", "2022-panel27"),
    "nsduh": ("nsduh_2022.parquet", "2022"),
    "scf": ("scfp2022.parquet", "2022"),
}


def scf(families=400, seed=0):
    """Invented families in the official layout, five implicates each."""
    rng = np.random.default_rng(seed)
    n = families * 5
    family = np.repeat(np.arange(families), 5)

    def of_family(values):
        return np.asarray(values)[family]

    age = of_family(rng.integers(18, 96, families))
    assets = np.exp(rng.normal(8 + age / 20, 1, n)).round(-1)
    debt = np.where(of_family(rng.random(families) < 0.3), 0, rng.gamma(1, 3e4, n).round(-1))
    return pd.DataFrame(
        {
            "YY1": family + 1,
            "Y1": family * 10 + np.tile(np.arange(5), families),
            "WGT": of_family(rng.gamma(2, 3000, families)) / 5,
            "AGE": age,
            "HHSEX": of_family(rng.integers(1, 3, families)),
            "RACECL5": of_family(rng.integers(1, 6, families)),
            "EDCL": of_family(rng.integers(1, 5, families)),
            "HHOUSES": of_family(rng.random(families) < age[::5] / 100).astype(int),
            "FOODHOME": rng.gamma(4, 1500, n).round(-1) + 100,
            "FOODAWAY": rng.gamma(2, 1000, n).round(-1),
            "FOODDELV": 0,
            "ASSET": assets,
            "DEBT": debt,
            "NETWORTH": assets - debt,
        }
    )


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "rscfp2022.parquet"
    scf().to_parquet(path)
    return path


@pytest.fixture
def data(raw):
    return load_microdata(find_record("scf"), raw, "2022")


# The generator.


def test_difficulties_are_balanced_and_the_rules_kept(data):
    truth = generate(data, 22, 3)
    count = Counter(quantity.difficulty for quantity in truth.quantities)
    assert count == {"base": 6, "easy": 6, "medium": 5, "hard": 5}
    assert truth.task == "epidemia_prior_scf_3" and truth.scored == "corrected"
    assert len({quantity.wording for quantity in truth.quantities}) == 22
    for quantity in truth.quantities:
        assert quantity.n >= 30 and quantity.se > 0
        if quantity.conditions:
            apart = abs(quantity.mean - quantity.marginal_mean)
            assert apart > quantity.se
            assert apart > (0.05 if quantity.family == "beta" else 0.05 * abs(quantity.mean))
            names = [quantity.base.partition(" (")[0], *(name for name, *_ in quantity.conditions)]
            assert len(set(names)) == len(names)


def test_the_same_seed_gives_the_same_bytes_another_seed_others(data, tmp_path):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        store.write_quantities(tmp_path / folder, generate(data, 8, seed, "mine"))
    for name in ("mine.json", "mine.draws.parquet"):
        a, b, c = ((tmp_path / folder / name).read_bytes() for folder in "abc")
        assert a == b != c


def test_a_slice_is_what_its_words_say(data):
    """Found again in the raw columns, from the bounds in the text."""
    frame = scf()
    slices = Slices(data)
    given = (
        VariableLevel("assets", 3),
        VariableLevel("home_ownership", 0),
        VariableLevel("debt", 2),
    )
    quantity = slices.slice("hard_0", VariableLevel("food_expenditure", None), given).quantity
    dollars = re.findall(r"\$([\d,]+)", quantity.wording)
    over, low, high = (float(amount.replace(",", "")) for amount in dollars)
    there = frame.query(f"ASSET > {over} and HHOUSES == 1 and {low} < DEBT <= {high}")
    food = there["FOODHOME"] + there["FOODAWAY"] + there["FOODDELV"]
    assert quantity.mean == pytest.approx(np.average(food, weights=there["WGT"]))
    assert quantity.n == there["YY1"].nunique()
    # Quarters are of those whom the earlier conditions leave, not weighted.
    rich = frame[frame["ASSET"] > frame["ASSET"].quantile(0.75)]
    assert set(rich.index) == set(frame.index[frame["ASSET"] > over])
    owners = rich.loc[rich["HHOUSES"] == 1, "DEBT"]
    assert (there["DEBT"] > owners.quantile(0.5)).all()
    assert (there["DEBT"] <= owners.quantile(0.75)).all()
    assert quantity.wording.startswith(
        "the average expenditure on food in a year (in dollars, at home, delivered and eaten out) "
        "of a household in the United States in 2022 whose total assets are more than $"
    )
    assert " which owns its home and whose total debt is more than $" in quantity.wording
    assert quantity.wording.endswith(", according to the Survey of Consumer Finances (SCF), 2022")


def test_shares_are_of_one_level_with_its_phrase(data):
    quantity = Slices(data).slice("base_0", VariableLevel("race", 1), ()).quantity
    assert quantity.base == "race (Black or African American)" and quantity.family == "beta"
    assert quantity.wording == (
        "the probability that the reference person is Black, for a randomly chosen household in "
        "the United States in 2022, according to the Survey of Consumer Finances (SCF), 2022"
    )
    assert quantity.mean == pytest.approx(np.average(scf()["RACECL5"] == 2, weights=scf()["WGT"]))
    assert quantity.mean == quantity.marginal_mean and (quantity.low, quantity.high) == (0, 1)


def test_slices_that_tell_nothing_are_refused(data, tmp_path):
    slices = Slices(data)
    frame = scf()
    frame["HHOUSES"] = (frame["YY1"] <= 9).astype(int)
    frame.loc[frame["YY1"] > 100, "DEBT"] = 0
    frame.to_parquet(tmp_path / "scf.parquet")
    odd = Slices(load_microdata(find_record("scf"), tmp_path / "scf.parquet", "2022"))
    owns = "home_ownership"
    for where, base, given, message in (
        (slices, (owns, 0), [("age", 0), ("race", 0), ("education", 0)], "more are needed"),
        (slices, ("sex", 0), [("race", 2)], "from the marginal"),
        (slices, ("net_worth", None), [("assets", 3), ("net_worth", 3)], "hardly anything"),
        (slices, (owns, 0), [(owns, 0)], "all are alike"),
        (odd, (owns, 0), [], "fewer than 10 people are counted"),
        (odd, ("debt", None), [], "have one value"),
        (odd, ("assets", None), [("debt", 1)], "no quarters"),
    ):
        with pytest.raises(Refused, match=message):
            where.slice("x", VariableLevel(*base), tuple(VariableLevel(*one) for one in given))


def test_families_follow_from_the_values():
    from lm_eval_epidemia.benchmarks.prior.quantities.generate import family_of

    value = np.exp(np.random.default_rng(0).normal(size=999))
    ones = np.ones(999)
    assert family_of(value, value, ones) == "lognormal"
    assert family_of(np.append(value, 0), value, ones) == "normal"
    assert family_of(value, value - 1, ones) == "normal"  # the variable can be negative
    assert family_of(value, np.log(value) + 9, ones) == "normal"  # and this one is not skewed


def test_more_than_a_survey_holds_is_an_error(data):
    for n, seed, message in (
        (400, 0, r"has only \d+ suitable quantities of difficulty 'base'.*fewer with --n"),
        (3, 0, "--n 3: expected 4 or more"),
        (8, -1, "expected 0 or more"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            generate(data, n, seed)


def few(folder, families):
    frame = scf()
    frame[frame["YY1"] <= families].to_parquet(folder / "few.parquet")
    return load_microdata(find_record("scf"), folder / "few.parquet", "2022")


def test_the_difficulty_of_which_there_are_too_few_is_named(tmp_path):
    """Under three conditions 90 families leave no 30."""
    message = "has only 0 suitable quantities of difficulty 'hard', not 2: ask for fewer with --n"
    with pytest.raises(EpidemiaError, match=message):
        generate(few(tmp_path, 90), 8)


def test_weights_that_must_be_raked_are_refused():
    nhis = find_record("nhis")
    vintage = next(v for v, entry in nhis.vintages.items() if entry.adjustments)
    raw = next(RAW.glob(f"nhis/*{'unweighted' if 'unweighted' in vintage else ''}*.parquet"), None)
    if raw is None:
        pytest.skip("needs a real survey file beside the checkout")
    with pytest.raises(EpidemiaError, match="must be raked"):
        generate(load_microdata(nhis, raw, vintage), 8)


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("mine", "the survey 'mine', 2022"),
        ("Own panel", "the survey 'Own panel', 2022"),
        ("salaries_final", "the survey 'salaries_final', 2022"),
        ("Panel of Jobs, wave 2", "the Panel of Jobs (OWNPANEL), 2022"),
    ],
)
def test_a_survey_without_a_title_is_called_by_its_name(title, named):
    own = find_record("scf").model_copy(update={"title": title, "survey": "ownpanel"})
    assert wording.name_survey(own, "2022") == named


def test_every_subject_of_people_can_be_worded():
    for survey in ("acs", "gss", "meps", "nhanes", "nhis", "nsduh", "scf"):
        entry = find_record(survey)
        for vintage in entry.vintages:
            found = wording.subject_of(entry, vintage)
            assert found.noun in ("person", "household") and found.relative.startswith("who")


# What ships.


@pytest.mark.parametrize(
    "survey", ["scf", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gss", "meps"))]
)
def test_shipped_sets_are_what_the_command_makes(survey, tmp_path):
    """The same bytes from the raw file, where the same pyarrow writes them.

    Of nsduh it takes half a minute, by the same code.
    """
    file, vintage = SHIPPED[survey]
    raw = raw_file(survey, file)
    given = ["--vintage", vintage, "--n", "40", "--seed", "16", "--name", survey]
    run = ["quantities", "new", survey, "--raw", str(raw), *given, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 0, result.output
    shipped = paths.shipped_groundtruth() / "quantities"
    old = (shipped / f"{survey}.draws.parquet").read_bytes()
    here, there = tmp_path / f"{survey}.json", shipped / f"{survey}.json"
    if f"parquet-cpp-arrow version {pyarrow.__version__}".encode() in old:
        assert (tmp_path / f"{survey}.draws.parquet").read_bytes() == old
        assert here.read_bytes() == there.read_bytes()
    else:
        a, b = store.load_set_file(here), store.load_set_file(there)
        assert a.quantities == b.quantities and store._table(a).equals(store._table(b))


def test_shipped_sets_are_balanced_and_name_seed_and_files():
    for survey, (file, vintage) in SHIPPED.items():
        truth = store.load_quantities(store.PREFIX + survey)
        assert truth.vintage == vintage and truth.about["seed"] == "16"
        assert file in truth.about["files"]
        count = Counter(one.difficulty for one in truth.quantities)
        assert set(count.values()) == {10}
        raw = json.loads((paths.shipped_groundtruth() / "registry.json").read_text())["truths"]
        assert raw[f"{survey}_{vintage}"]["raw"][0]["sha256"] in truth.about["files"]


# The published quantities recomputed. The official files of 2017-2018 are not at hand: these are
# invented people in their layout.


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """Official files of invented people, with what the published code does to odd answers."""
    rng = np.random.default_rng(0)
    n = 3500
    seqn = np.arange(93703, 93703 + n)
    age = rng.integers(10, 81, n)
    folder = tmp_path_factory.mktemp("nhanes2017")
    tables = {name: {"SEQN": seqn} for name in published.FILES}
    tables["DEMO_J"] |= {
        "RIDAGEYR": age,
        "WTMEC2YR": np.where(rng.random(n) < 0.05, 0, rng.gamma(2, 2e4, n)),
        "SDMVSTRA": rng.integers(134, 149, n),
        "SDMVPSU": rng.integers(1, 3, n),
    }
    for variable in VARIABLES.values():
        if isinstance(variable, YesNoVariable):
            value = rng.choice([1.0, 2.0, 7.0, 9.0], n, p=[0.48, 0.5, 0.01, 0.01])
            value[age < variable.age] = np.nan
        else:
            value = rng.gamma(9, 9, n).round(1)
            value[rng.random(n) < 0.1] = np.nan
        tables[variable.file][variable.column] = value
    tables["DIQ_J"]["DIQ010"][:300] = 3.0
    for name, table in tables.items():
        pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")
    return folder


def test_published_quantities_are_recomputed_from_official_files(official, home):
    result = CliRunner().invoke(app, ["quantities", "build", "--raw", str(official)])
    assert result.exit_code == 0, result.output
    truth = store.load_quantities(NHANES)
    shipped = store.load_set_file(paths.shipped_groundtruth() / "quantities" / "nhanes.json")
    assert store.list_declared()[NHANES].state == "built here"
    assert [q.name for q in truth.quantities] == [q.name for q in shipped.quantities]
    ours, theirs = truth.baselines, shipped.baselines
    np.testing.assert_array_equal(ours["published"].mean, theirs["published"].mean)
    assert (ours["corrected"].mean != theirs["corrected"].mean).any()
    # By hand: diabetes counts borderline as yes and "don't know" as no; all examined adults.
    frame, *others = (
        pd.read_parquet(official / f"{name}.parquet").set_index("SEQN")
        for name in ("DEMO_J", "DIQ_J", "BMX_J", "PBCD_J", "DLQ_J")
    )
    frame = frame.join(others)
    frame = frame[(frame["RIDAGEYR"] >= 18) & (frame["WTMEC2YR"] > 0)]
    by_name = {one.name: one for one in truth.quantities}
    diabetes = by_name["DoctorToldYouHaveDiabetes"]
    assert diabetes.n == len(frame)
    told = np.average(frame["DIQ010"].isin([1, 3]), weights=frame["WTMEC2YR"])
    assert diabetes.mean == pytest.approx(told)
    # hard_13: weight | cadmium in the 4th quarter, depression medication, waist in the 1st.
    high = frame[frame["LBXBCD"] > np.nanpercentile(frame["LBXBCD"], 75)]
    medicated = high[high["DLQ150"] == 1]
    cut = np.nanpercentile(medicated["BMXWAIST"], 25)
    slim = medicated[(medicated["BMXWAIST"] <= cut) & medicated["BMXWT"].notna()]
    one = by_name["hard_13"]
    assert one.n == len(slim)
    assert one.mean == pytest.approx(np.average(slim["BMXWT"], weights=slim["WTMEC2YR"]))
    assert wording.format_bounds(None, float(cut), "cm") in one.wording


def test_what_official_files_lack_is_named(official, tmp_path):
    for name, change, message in (
        ("MCQ_J", None, "MCQ_J missing"),
        (
            "BMX_J",
            lambda frame: frame.rename(columns={"BMXWT": "BMXWGT"}),
            r"BMX_J.parquet lacks BMXWT \(nearest: BMXWGT",
        ),
        ("DEMO_J", lambda frame: frame.head(900), "30 are needed; are the files complete"),
    ):
        folder = shutil.copytree(official, tmp_path / name, copy_function=os.link)
        path = folder / f"{name}.parquet"
        frame = pd.read_parquet(path)
        path.unlink()
        if change:
            change(frame).to_parquet(path)
        with pytest.raises(EpidemiaError, match=message):
            published.rebuild_quantities([folder])


# Commands.


def test_the_command_makes_a_task_of_ones_own(raw, home):
    given = ["--raw", str(raw), "--n", "8", "--seed", "5", "--vintage", "2022"]
    result = CliRunner().invoke(app, ["quantities", "new", "scf", *given])
    assert result.exit_code == 0, result.output
    assert "task epidemia_prior_scf_5" in result.output
    assert str(home / "groundtruth" / "quantities" / "scf_5.json") in result.output
    assert re.search(r"hard .*2", result.output)
    assert len(store.load_quantities("epidemia_prior_scf_5").quantities) == 8
    listed = CliRunner().invoke(app, ["quantities", "list"]).output
    assert "epidemia_prior_scf_5" in listed and "built here" in listed
    assert "epidemia_prior_nhanes" in listed
    one = CliRunner().invoke(app, ["quantities", "list", "epidemia_prior_scf_5"]).output
    assert "hard_1" in one and "Survey of Consumer Finances" in one


def test_a_set_of_an_older_version_takes_no_name_that_ships(home, caplog):
    """0.1.0 wrote them: the group epidemia_prior_grid became a task, epidemia_prior was empty."""
    few = store.load_quantities("epidemia_prior_gss")
    for name in ("grid", "gss"):
        made = few._replace(task=store.PREFIX + name, title="Mine")
        with pytest.raises(EpidemiaError, match=f"the name {name}: epidemia_prior_{name} is"):
            store.write_quantities(store.find_built_folder(), made)
        # To another folder sets that ship are written, by who makes them.
        path = store.write_quantities(home / "elsewhere", few)
        record = {**json.loads(path.read_text()), "task": made.task, "title": "Mine"}
        del record["sha256"]
        record["sha256"] = seal_of(record)
        store.find_built_folder().mkdir(parents=True, exist_ok=True)
        (store.find_built_folder() / f"{name}.json").write_text(json.dumps(record))
        path.with_suffix(".draws.parquet").rename(
            store.find_built_folder() / f"{name}.draws.parquet"
        )
    assert store.PREFIX + "grid" not in store.list_declared()
    assert store.load_quantities("epidemia_prior_gss").title == few.title
    assert find_tasks("epidemia_prior_grid") == [("epidemia_prior_nhanes", "grid")]
    assert "epidemia_prior_gss is left out" in caplog.text
