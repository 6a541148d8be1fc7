"""An estimator is one class: what it is fitted on, how often, and what its spread means."""

import re

import numpy as np
import pytest
from conftest import raw_file
from toy_survey import RECORD, build, declare, people

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate import boosted, estimators, prepare, published, store
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate.check import find_faults
from lm_eval_epidemia.estimate.estimator import Prepared, estimate_task
from lm_eval_epidemia.estimate.estimators import Boosting, Contradicted, Counts, estimator_of
from lm_eval_epidemia.estimate.sampling import Sample
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.microdata import load_microdata
from lm_eval_epidemia.surveys.tables import PublishedTable

LOW = "epidemia_low_nsduh_heroin_ever_by_age"
HIGH = "epidemia_high_nsduh_cocaine_ever_by_sex_race"


@pytest.fixture
def data(nsduh_parquet):
    return load_microdata(find_record("nsduh"), nsduh_parquet)


def test_every_shipped_truth_has_the_estimator_and_the_parameters_that_would_serve_it_now():
    for key, truth in store.read_registry(paths.shipped_groundtruth()).items():
        for name, entry in truth["tasks"].items():
            if name in all_tasks():
                table = entry["estimator"] == published.Published.name
                answers = len(entry["levels"])
                now = estimator_of(declared_task(name), answers)
                now = published.Published() if table else now
                registered = entry["estimator"], entry["parameters"]
                assert registered == (now.name, now.parameters), (key, name)


def test_what_the_estimators_say_of_themselves():
    assert (Counts().replicates(200), Boosting().replicates(200)) == (200, 100)
    assert Counts().lacks(1) == Boosting().lacks(5) == ""
    assert "takes 5, one for each fold" in Boosting().lacks(4)


def test_two_answers_under_several_conditions_are_boosted():
    for given, answers, served in (
        ([], 2, Counts),
        (["sex"], 2, Counts),
        (["sex", "race"], 2, Boosting),
        (["sex", "race"], 3, Counts),
        (["sex", "race", "age"], 4, Counts),
    ):
        task = declared_task(HIGH).model_copy(update={"given": tuple(given)})
        assert type(estimator_of(task, answers)) is served


#: Who used marijuana and heroin (2 % of all), how many, and who of them used cocaine: as in NSDUH.
RARE = [(0, 0, 24_000, 120), (0, 1, 60, 24), (1, 0, 15_000, 3_900), (1, 1, 800, 736)]


def rare_condition():
    """A task of four cells, one of whose conditions 2 % of the people have."""
    task = declared_task(HIGH).model_copy(update={"given": ("marijuana_ever", "heroin_ever")})
    n, yes = (np.array(RARE)[:, column] for column in (2, 3))
    outcome = np.concatenate([np.arange(of) < number for of, number in zip(n, yes, strict=True)])
    sample = Sample(np.ones(n.sum()), None, None, int(n.sum()))
    return Prepared(
        survey="nsduh_2022",
        task=task,
        estimator=Boosting(),
        levels=("No", "Yes"),
        given=[("No", "No"), ("No", "Yes"), ("Yes", "No"), ("Yes", "Yes")],
        columns={},
        weights=n / n.sum(),
        dropped={},
        absent=[],
        adjustments=[],
        features=np.array(RARE)[:, :2],
        sample=sample,
        cell=np.repeat(np.arange(4), n),
        outcome=outcome.astype(np.int64),
    )


def test_a_rare_condition_is_kept_and_a_build_that_loses_it_stops(monkeypatch):
    ready = rare_condition()
    # Counted .92 of 800: two standard errors are .019. A limit of one row a leaf gives .29.
    assert ready.estimator.estimate(ready)[3, 1] == pytest.approx(736 / 800, abs=0.019)
    boosted._binned.cache_clear()
    monkeypatch.setitem(boosted.AGGREGATED, "min_data_in_leaf", 1)
    with pytest.raises(Contradicted, match=r"Yes, Yes: 0\.290, counted 0\.920"):
        estimate_task(ready, ("iid",), 8)
    boosted._binned.cache_clear()
    # Where a tenth of the people are in small cells, counts are no judge.
    monkeypatch.setattr(estimators, "COUNTABLE", 20_000)
    assert estimate_task(ready, ("iid",), 8)["entry"]["cells"] == 4
    boosted._binned.cache_clear()


def test_a_task_that_counts_contradict_is_skipped_alone(home, tmp_path, monkeypatch):
    """Where nothing depends on anything a fit is nearer to the truth than counts of many cells."""
    rng = np.random.default_rng(1)
    frame = people(20_000).assign(REGION=rng.integers(1, 13, 20_000))
    frame["HAPPY"] = rng.integers(0, 2, 20_000)
    frame.to_csv(tmp_path / "toy.csv", index=False)
    levels = [f"{{label: R{n}, phrase: lives in {n}, codes: [{n}]}}" for n in range(1, 13)]
    regions = rf"\1 [{', '.join(levels)}]\2"
    declare(home, re.sub(r"(?s)(REGION\n    levels:).*?(\n  sex:)", regions, RECORD))
    name = "epidemia_extra_toy_happy_by_region_sex"
    assert name in build(tmp_path / "toy.csv").tasks
    half = 0.5 * store.load_truth(name).p
    monkeypatch.setattr(Boosting, "fit", lambda *_: half + np.array([0.5, 0.0]))
    built = build(tmp_path / "toy.csv", replicates=10)
    assert name not in built.tasks and "epidemia_extra_toy_happy_by_sex" in built.tasks
    assert built.skipped[name].startswith(f"{name}: the boosted P(No) is 0.5")
    assert name not in store.list_available()


@pytest.mark.parametrize("n_eff", [[50.0, 200.0], [np.inf, np.inf]])
def test_a_published_table_is_taken_as_it_is(n_eff, monkeypatch):
    """With intervals: multinomial draws of the table's design; without: no sampling error."""
    p, weights = np.array([[0.3, 0.7], [0.6, 0.4]]), np.array([0.25, 0.75])
    names = "heroin_ever", ("age",), ("Yes", "No"), (("Young",), ("Old",))
    table = PublishedTable(*names, weights, p, np.array(n_eff), {}, ())
    monkeypatch.setattr(published, "load_tables", lambda *_: [table])
    task = declared_task(LOW)
    shares = published.load_shares(find_record("nsduh"), "2022", (), [task])[task]
    made = estimate_task(shares, shares.schemes, 400)
    entry, has_error = made["entry"], bool(np.isfinite(n_eff).all())
    known, unknown = ("design", "iid") if has_error else ("iid", "design")
    assert [(row["p"], row["n"]) for row in made["cells"]] == [(row, 0) for row in p.tolist()]
    assert [row[f"n_eff_{known}"] for row in made["cells"]] == n_eff
    assert [row[f"n_eff_{unknown}"] for row in made["cells"]] == [None, None]
    assert (entry["estimator"], entry["records"]) == ("published table", 0)
    assert entry["marginal"] == pytest.approx([0.25 * 0.3 + 0.75 * 0.6, 0.25 * 0.7 + 0.75 * 0.4])
    assert set(made["distances"]) == ({"design", "population"} if has_error else set())
    assert len(made["replicates"]) == (2 if has_error else 0)
    assert ("replicates" in entry) == has_error
    if has_error:
        assert entry["replicates"]["number"] == len(made["replicates"][0]["steps"]) == 200
        assert made["distances"]["design"] == made["distances"]["population"]
        # Mean |error| of a share is sqrt(2 / pi * p (1 - p) / n), and a binary cell has two.
        errors = 2 * np.sqrt(2 / np.pi * p[:, 0] * p[:, 1] / n_eff)
        assert np.mean(made["distances"]["design"]) == pytest.approx(weights @ errors, rel=0.1)


class Pooled(Counts):
    """Another estimator: half of what was counted in a cell, half of what everyone says."""

    name = "pooled"
    parameters = {"share": 0.5}

    def fit(self, ready, weight, rng):
        p = super().fit(ready, weight, rng)
        return 0.5 * p + 0.5 * np.bincount(ready.cell, weights=weight) @ p / weight.sum()


def test_another_estimator_is_a_class_and_a_line(home, nsduh_parquet, monkeypatch):
    """Served in `estimator_of`, it is built, registered and checked as the others are."""
    monkeypatch.setattr(prepare, "estimator_of", lambda task, answers: Pooled())
    built = building.build_survey("nsduh", nsduh_parquet, replicates=4, progress=False)
    tasks = store.read_registry(store.built_groundtruth())["nsduh_2023"]["tasks"]
    assert {entry["estimator"] for entry in tasks.values()} == {"pooled"}
    assert tasks[HIGH]["parameters"] == {"share": 0.5}
    assert [name for name in built.tasks if find_faults(name)] == []
    truth = store.load_truth(HIGH)
    assert float(truth.weights @ truth.p[:, 0]) == pytest.approx(tasks[HIGH]["marginal"][0])


def test_a_sampled_unit_is_one_observation_to_every_estimator():
    """SCF's five implicates of a family: sizes are of families, never of records."""
    data = load_microdata(find_record("scf"), raw_file("scf", "scfp2022.parquet"))
    families = len(np.unique(data.unit))
    for name in ("home_ownership_by_age", "home_ownership_by_age_race"):
        task = next(t for t in data.record.all_tasks if t.name.endswith(f"scf_{name}"))
        cells = estimate_task(prepare.prepare(data, task), ("iid",), 4)["cells"]
        assert all(0 < row["n_eff_iid"] <= families for row in cells)
        assert sum(row["n"] for row in cells) >= families
