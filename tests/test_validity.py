"""Is the shipped truth right? Official figures, independent routes, and the published lists."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, raw_file

from lm_eval_epidemia.benchmarks import describe_union, list_unions
from lm_eval_epidemia.benchmarks.observation import STANDIN
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

DATA = Path(__file__).parent / "data"


ACS = "acs2024_1yr_pums_person.parquet"


def truth(short):
    """A truth by its name without the prefix: 'low scf home_ownership by age'."""
    return store.load_truth("epidemia_" + short.replace(" ", "_"))


def test_official_figures():
    for figure in yaml.safe_load((DATA / "official_figures.yaml").read_text()):
        found = store.load_truth(figure["task"])
        p = found.p[:, found.levels.index(figure["level"])]
        given = figure.get("given")
        ours = found.weights @ p if given is None else p[found.given.index((given,))]
        assert 100 * ours == pytest.approx(figure["is"], abs=figure["within"]), figure


def raw_frame(survey, *files, **how):
    """The raw file; several are those of NHANES, joined by person."""
    first, *others = (pd.read_parquet(raw_file(survey, name), **how) for name in files)
    for other in others:
        first = first.merge(other, on="SEQN", how="left")
    return first.astype(float)


def test_nhanes_obesity():
    """40.3 % of those aged 20 or older (NCHS data brief): 40.27 in the raw file."""
    frame = raw_frame("nhanes", "DEMO_L.parquet", "BMX_L.parquet")
    frame = frame[(frame["RIDAGEYR"] >= 20) & frame["BMXBMI"].notna()]
    obese = np.average(frame["BMXBMI"] >= 30, weights=frame["WTMEC2YR"])
    assert 100 * obese == pytest.approx(40.3, abs=0.05)
    # The shipped truth has the share by BMI class among adults 18 or older.
    found = truth("low nhanes age by bmi")
    classes = [given[0] for given in found.given]
    shares = dict(zip(classes, found.weights, strict=True))
    assert 100 * sum(v for k, v in shares.items() if "obesity" in k) == pytest.approx(39.6, abs=0.5)


def test_acs_bachelors_degree_or_higher():
    """36.9 % of those aged 25 or older, 2024; the shipped task is of those aged 25 to 65."""
    frame = raw_frame("acs", ACS, columns=["AGEP", "SCHL", "PWGTP"])
    degree, weight = frame["SCHL"] >= 21, frame["PWGTP"]
    older = frame["AGEP"] >= 25
    assert 100 * np.average(degree[older], weights=weight[older]) == pytest.approx(36.9, abs=0.05)
    middle = older & (frame["AGEP"] <= 65)
    found = truth("low acs education by age")
    ours = found.weights @ found.p[:, 20:].sum(axis=1)
    assert ours == pytest.approx(np.average(degree[middle], weights=weight[middle]), rel=1e-12)


def test_brfss_effective_size_is_that_of_the_interval():
    """Alabama 2023: 15.7 % (14.4 to 17.0): se = 2.6 / 3.92 points, n = p (1 - p) / se^2."""
    found = truth("low brfss diabetes by state")
    alabama = found.given.index(("Alabama",))
    assert found.n_eff[alabama] == pytest.approx(0.157 * 0.843 / (0.026 / 3.92) ** 2)
    assert ("Kentucky",) not in found.given and ("Guam",) in found.given
    assert set(found.distances) == {"design", "population"} and found.d_perfect() > 0


# Independent routes: plain pandas on the raw file, once per survey with microdata.


AGES = [17, 29, 39, 49, 59, 69, 80]


#: Expressions of `frame`, which is the raw file, or its records that were asked.
ROUTES = yaml.safe_load((DATA / "pandas_routes.yaml").read_text())


@pytest.mark.parametrize("task", ROUTES)
def test_counts_agree_with_pandas_on_the_raw_file(task):
    route = ROUTES[task]
    frame = raw_frame(*route["files"]).query(route.get("asked", "index >= 0"))
    columns = {
        name: eval(route[name], {"frame": frame, "pd": pd, "inf": np.inf})
        for name in ("given", "outcome", "weight")
    }
    frame = pd.DataFrame(columns).astype({"weight": float})
    table = frame.dropna().groupby(["given", "outcome"], observed=True)["weight"].sum().unstack()
    table = table.fillna(0).to_numpy()
    found = store.load_truth(task)
    assert found.p == pytest.approx(table / table.sum(axis=1, keepdims=True), rel=1e-9, abs=1e-15)
    assert found.weights == pytest.approx(table.sum(axis=1) / table.sum(), rel=1e-9)


def test_standard_errors_agree_with_samplics_on_nhanes():
    """The second survey with strata and PSUs; NSDUH is in test_groundtruth.py."""
    samplics = pytest.importorskip("samplics")
    frame = raw_frame("nhanes", "DEMO_L.parquet", "DIQ_L.parquet")
    diabetes = frame["DIQ010"]
    asked = (frame["RIDAGEYR"] >= 18) & diabetes.isin([1, 2, 3]) & (frame["WTMEC2YR"] > 0)
    age = pd.cut(frame["RIDAGEYR"], AGES, labels=False)
    estimator = samplics.TaylorEstimator(samplics.PopParam.mean)
    estimator.estimate(
        y=diabetes.isin([1, 3]).to_numpy(float),
        samp_weight=frame["WTMEC2YR"].to_numpy(),
        stratum=frame["SDMVSTRA"].to_numpy(),
        psu=(frame["SDMVSTRA"] * 10 + frame["SDMVPSU"]).to_numpy(),
        domain=np.where(asked, age, -1),
    )
    found = truth("low nhanes diabetes by age")
    p = found.p[:, 0]
    theirs = np.array([estimator.stderror[float(group)] for group in range(6)])
    capped = np.sqrt(p * (1 - p) / found.n)
    ours = np.sqrt(p * (1 - p) / found.n_eff)
    assert ours == pytest.approx(np.maximum(theirs, capped), rel=1e-6)


# The published lists.


def closed_subset():
    with (DATA / "tasks_high.csv").open() as file:
        return {int(row["number"]): row["closed_subset"] == "yes" for row in csv.DictReader(file)}


def test_at_most_250_cells_is_the_closed_subset_for_the_official_variables():
    """With the levels of the official files, the rule reproduces all 94 marks."""
    published = closed_subset()
    for task in all_tasks().values():
        if task.kind == "high":
            ways = [find_record(task.survey).variables[name][0] for name in task.given]
            cells = int(np.prod([len(way.levels) for way in ways]))
            assert (cells <= 250) == published[task.number], (task.name, cells)


def test_where_the_shipped_cells_differ_from_the_closed_subset():
    """NSDUH 2022 records race and education more coarsely: two tasks have fewer cells."""
    published = closed_subset()
    differ = {
        task.name: len(store.load_truth(task.name).given)
        for task in all_tasks().values()
        if task.kind == "high"
        and task.name in store.list_available()
        and (len(store.load_truth(task.name).given) <= 250) != published[task.number]
    }
    assert differ == {
        "epidemia_high_nsduh_marijuana_ever_by_age_education_race": 140,
        "epidemia_high_nsduh_cocaine_ever_by_age_education_race": 140,
    }


PAGE = REPOSITORY / "docs" / "evidence" / "anchors.md"


def score_of_mean(name):
    return scoring.Anchors.of(store.load_truth(name)).score_of_mean


def test_the_page_has_the_mean_baseline_as_it_is():
    """The published mean baseline is 46 over 94 tasks; ours is of the 44 at hand."""
    page, scores = PAGE.read_text(), {}
    for name in store.list_available():
        key = name.split("_")[1], store.load_truth(name).survey
        scores.setdefault(key, []).append(score_of_mean(name))
    high = {survey: values for (kind, survey), values in scores.items() if kind == "high"}
    for survey, values in high.items():
        assert f"| {survey} | {len(values)} | {np.mean(values):.1f} |" in page
    every = [value for values in high.values() for value in values]
    assert len(every) == 44
    assert f"| all that ship | 44 | {np.mean(every):.1f} |" in page
    # The other 50 by what stands in for them: NHIS for BRFSS, lifetime for past-month cigarettes.
    names = [
        n for n in store.list_available() if "extra_nsduh_cig" in n and all_tasks()[n].given[1:]
    ]
    stand_ins = [*every, *scores["extra", "nhis"], *map(score_of_mean, names)]
    assert len(stand_ins) == 94
    assert f"| with stand-ins | 94 | {np.mean(stand_ins):.1f} |" in page


def test_each_waiting_published_task_has_one_stand_in():
    """Of the same conditions; what the group says of itself is counted here."""
    high = {task.number: task for task in all_tasks().values() if task.kind == "high"}
    stand_ins = [task for task in all_tasks().values() if task.stands_for]
    missing = {number for number, task in high.items() if task.name not in store.list_available()}
    assert {task.stands_for for task in stand_ins} == missing and len(stand_ins) == 50
    assert all(task.given == high[task.stands_for].given for task in stand_ins)
    assert sum(task.survey == "nhis" for task in stand_ins) == 39
    kept = {task.name for number, task in high.items() if number not in missing}
    asked = kept | {task.name for task in stand_ins}
    assert list_unions()[STANDIN] == asked and len(asked) == 94 and len(kept) == 44
    # Where a way asks a part of them, there is no such group.
    ways = [name.removeprefix(STANDIN) for name in list_unions()]
    assert ways == ["", "_likelihood", "_sampled", "_stated"]
    assert "39" in describe_union(f"{STANDIN}_stated") and describe_union("epidemia_high") == ""


def test_no_shipped_task_is_uninformative():
    """The page lists none; a task that cannot tell good from ignorant would stand there."""
    for name in store.list_available():
        found = store.load_truth(name)
        assert scoring.Anchors.of(found).informative, name


def test_every_registered_truth_says_where_it_comes_from():
    truths = store.read_registry(paths.shipped_groundtruth())
    assert len(truths) == 23
    for entry in truths.values():
        assert all(len(file["sha256"]) == 64 for file in entry["raw"])
        assert entry["source"]["licence"] and entry["source"]["citation"]
        for found in entry["tasks"].values():
            assert {"dropped", "absent", "adjustments", "bootstrap", "estimator"} <= set(found)
    work = truths["acs_2024"]["tasks"]["epidemia_low_acs_salary_by_sex"]
    assert work["adjustments"][0]["applied"] is True
    assert truths["acs_2024"]["tasks"]["epidemia_low_acs_education_by_sex"]["adjustments"] == []
