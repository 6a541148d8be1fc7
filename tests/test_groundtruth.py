"""Ground truth: official figures, independent routes, building, and files with hashes."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, shipped_as_built
from toy_survey import DESIGNED, EVERY_KIND, RECORD, build, contents, declare, people

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import boosted, registry, store
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate.check import find_all_faults, find_faults
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.estimate.sampling import rng_of
from lm_eval_epidemia.surveys.catalogue import find_record, find_task
from lm_eval_epidemia.surveys.microdata import load_microdata

#: NSDUH 2022, ages 12+, lifetime use: share and design-based standard error, in per cent.
OFFICIAL = {
    "marijuana": (46.9, 0.52),
    "cocaine": (15.1, 0.35),
    "heroin": (2.4, 0.13),
    "alcohol": (78.36, 0.34),
    "cigarettes": (51.60, 0.45),
}


def shipped_tasks():
    return store.read_registry(paths.shipped_groundtruth())["nsduh_2022"]["tasks"]


def test_shipped_truth_has_the_official_figures():
    for drug, (share, error) in OFFICIAL.items():
        kind = "low" if drug in {"marijuana", "cocaine", "heroin"} else "extra"
        for condition in ("age", "race"):
            name = f"epidemia_{kind}_nsduh_{drug}_ever_by_{condition}"
            truth = store.load_truth(name)
            assert 100 * float(truth.weights @ truth.p[:, 0]) == pytest.approx(share, abs=0.05)
            assert 100 * shipped_tasks()[name]["marginal_se"][0] == pytest.approx(error, rel=0.15)


def test_every_high_truth_has_the_marginal_of_the_low_one():
    """Boosting is calibrated in the large: its weighted mean is the weighted share."""
    for name, entry in shipped_tasks().items():
        if entry["estimator"] == "lightgbm":
            truth, share = store.load_truth(name), entry["marginal"][0]
            assert float(truth.weights @ truth.p[:, 0]) == pytest.approx(share, abs=0.003)


def test_shipped_truth_is_whole():
    places = store.list_available()
    kinds = Counter(find_task(name).kind for name in places)
    assert [
        kinds[kind] for kind in ("low", "high", "extra", "joint", "world", "years", "people")
    ] == [*(63, 44, 54, 16, 15, 11, 6)]
    # P(Y) of every outcome of these, where the source is no published table, and of one year.
    tables = {"bls", "brfss", "census2000", "factbook", "fbi", "ipeds"}
    tables |= {"blstrend", "brfsstrend", "gsstrend"}
    asked = [find_task(name) for name in places if find_task(name).survey not in tables]
    outcomes = {(t.survey, t.outcome) for t in asked}
    assert {(t.survey, t.outcome) for t in asked if t.kind == "marginal"} == outcomes
    assert kinds["marginal"] == len(outcomes)
    assert find_all_faults() == {name: [] for name in places}


def test_tasks_apart_have_the_replicates_of_the_others():
    """P(Y) of everybody varies as a mean over cells does; of other draws, not at all alike."""
    beside, apart = {}, []
    for name, places in store.all_places().items():
        for place in places:
            truth = store.load_truth(name, place.vintage)
            if find_task(name).kind in store.APART:
                apart.append((place.key, truth))
            elif find_task(name).kind in ("low", "extra"):
                beside.setdefault((truth.survey, truth.vintage), []).append(truth)
    compared = set()
    for key, truth in apart:
        others = beside[truth.survey, truth.vintage]
        assert {other.sample for other in others} == {truth.sample}, truth.task
        outcome = find_task(truth.task).outcome
        same = [t for t in others if find_task(t.task).outcome == outcome and len(t.given[0]) == 1]
        if find_task(truth.task).kind == "marginal" and same:
            compared.add(key)
            drawn = [t.weights @ t.replicates[:, :, 0].T for t in (truth, *same)]
            best = max(np.corrcoef(drawn[0], other)[0, 1] for other in drawn[1:])
            assert best > 0.8, (truth.task, truth.vintage, best)
    assert len(compared) >= 8


def test_nsduh_uses_every_record():
    for entry in shipped_tasks().values():
        drawn = {scheme: b["replicates"] for scheme, b in entry["bootstrap"].items()}
        iid = 200 if entry["estimator"] == "bins" else 100
        assert drawn == {"iid": iid, "design": 100, "population": 100}
        assert entry["replicates"]["number"] == 100
        assert entry["dropped"] == {}
        assert entry["records"] == 59_069


def test_d_perfect_is_the_asked_quantile():
    truth = store.load_truth("epidemia_low_nsduh_heroin_ever_by_age")
    for scheme in ("iid", "design"):
        assert truth.d_perfect(0.975, scheme) > truth.d_perfect(scheme=scheme) > 0
        below = (truth.distances[scheme] <= truth.d_perfect(scheme=scheme)).mean()
        assert below == pytest.approx(0.95, abs=0.01)


def test_counts_agree_with_pandas_on_the_raw_file(raw_nsduh):
    frame = pd.read_parquet(raw_nsduh)
    frame["yes"] = frame["IRCOCAGE"] < 991
    grouped = frame.groupby("NEWRACE2_4grp")
    shares = grouped.apply(lambda g: np.average(g["yes"], weights=g["ANALWT2_C"]))
    truth = store.load_truth("epidemia_low_nsduh_cocaine_ever_by_race")
    assert truth.p[:, 0] == pytest.approx(shares.to_numpy(), rel=1e-12)
    weights = grouped["ANALWT2_C"].sum() / frame["ANALWT2_C"].sum()
    assert truth.weights == pytest.approx(weights.to_numpy(), rel=1e-12)
    assert truth.n.tolist() == grouped.size().tolist()


def test_standard_errors_agree_with_samplics_on_the_raw_file(raw_nsduh):
    samplics = pytest.importorskip("samplics")
    frame = pd.read_parquet(raw_nsduh)
    estimator = samplics.TaylorEstimator(samplics.PopParam.mean)
    estimator.estimate(
        y=(frame["IRMJAGE"] < 991).to_numpy(float),
        samp_weight=frame["ANALWT2_C"].to_numpy(),
        stratum=frame["VESTR_C"].to_numpy(),
        psu=(frame["VESTR_C"] * 10 + frame["VEREP"]).to_numpy(),
        domain=frame["AGE3"].to_numpy(),
    )
    truth = store.load_truth("epidemia_low_nsduh_marijuana_ever_by_age")
    p = truth.p[:, 0]
    ours = np.sqrt(p * (1 - p) / truth.n_eff)
    theirs = np.array([estimator.stderror[age] for age in range(1, 12)])
    # A cell never counts for more than its records, so ours may be the larger.
    capped = np.sqrt(p * (1 - p) / truth.n)
    assert ours == pytest.approx(np.maximum(theirs, capped), rel=1e-6)


def test_aggregated_fits_agree_with_fits_on_records(raw_nsduh, monkeypatch):
    """As closely as two record-level fits with other fold seeds agree with each other."""
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    from aggregation import fit_records

    high = find_task("epidemia_high_nsduh_cocaine_ever_by_sex_race")
    ready = prepare(load_microdata(find_record("nsduh"), raw_nsduh), high)
    records = ready.sample.weight, ready.cell, ready.outcome
    units, generators = ready.sample.units, map(np.random.default_rng, (0, 1))
    folds = [boosted.assign_folds(units, generator) for generator in generators]
    fast = boosted.fit_aggregated(*records, folds[0], ready.features)
    first, second = (fit_records(*records, fold, ready.features) for fold in folds)
    seeds, gap = (ready.weights @ abs(first - other)[:, 1] for other in (second, fast))
    assert gap <= seeds


def test_folds_keep_units_together():
    units = np.repeat(np.arange(103), 5)
    fold = boosted.assign_folds(units, np.random.default_rng(0)).reshape(103, 5)
    assert (fold == fold[:, :1]).all()
    sizes = np.bincount(fold[:, 0])
    assert sizes.max() - sizes.min() <= 1


@pytest.fixture
def toy(home, tmp_path):
    """The raw file of the toy survey, whose record is left to the test."""
    people(800).to_csv(tmp_path / "toy.csv", index=False)
    return tmp_path / "toy.csv"


def test_builds_are_byte_identical_on_any_number_of_processes(home, tmp_path, toy):
    declare(home, EVERY_KIND, "gss")
    built = {}
    for jobs in (1, 2):
        build(toy, tmp_path / f"{jobs}", "gss", jobs=jobs, replicates=4)
        built[jobs] = contents(tmp_path / f"{jobs}")
    assert built[1] == built[2]
    names = [f"gss_2020.{table}.parquet" for table in ("cells", "bootstrap", "replicates")]
    places = ("", "marginal/", "joint/")
    assert set(built[1]) == {f"{f}{name}" for f in places for name in (*names, "registry.json")}


def test_a_relative_folder_is_meant_from_where_the_build_starts(home, tmp_path, toy, monkeypatch):
    """Processes that an earlier build started are still where that one was."""
    boosted_task = next(line for line in RECORD.splitlines() if "[region, sex]" in line)
    declare(home, RECORD.replace(boosted_task, ""))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        build(toy, Path("out"), jobs=2)
    assert contents(tmp_path / "first" / "out") == contents(tmp_path / "second" / "out")


def test_only_one_scheme_can_be_asked_for(home, toy, monkeypatch):
    monkeypatch.setattr(boosted, "ROUNDS", 4)
    declare(home, DESIGNED)
    build(toy, bootstrap=["design"])
    truth = store.load_truth("epidemia_extra_toy_happy_by_sex")
    assert set(truth.distances) == {"design"}
    assert truth.d_perfect() == truth.d_perfect(scheme="design") > 0
    # What was not estimated is absent: Kish's size is known for counts, not for boosted cells.
    cells = pd.read_parquet(store.built_groundtruth() / "toy_2020.cells.parquet")
    entries = store.read_registry(store.built_groundtruth())["toy_2020"]["tasks"]
    boosted_ones = {name for name, entry in entries.items() if entry["estimator"] == "lightgbm"}
    assert boosted_ones == {"epidemia_extra_toy_happy_by_region_sex"}
    assert (cells["n_eff_iid"].isna() == cells["task"].isin(boosted_ones)).all()
    with pytest.raises(EpidemiaError, match="no 'iid' bootstrap"):
        truth.d_perfect(scheme="iid")


HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"


def test_damaged_ground_truth_is_named(home):
    """The truth that ships as the user's own: another record, altered, missing, damaged."""
    folder = shipped_as_built("nsduh_2022")
    truth = store.read_registry(folder)["nsduh_2022"]
    for table, damage, said in (
        ("cells", lambda path, content: path.write_bytes(content + b" "), r"was changed.*rebuild"),
        ("bootstrap", lambda path, content: path.unlink(), r"bootstrap\.parquet is missing"),
    ):
        path = folder / f"nsduh_2022.{table}.parquet"
        content = path.read_bytes()
        damage(path, content)
        with pytest.raises(EpidemiaError, match=said):
            store.load_truth(HEROIN)
        path.write_bytes(content)
    assert find_faults(HEROIN) == []
    changed = json.loads(json.dumps(truth))
    changed["tasks"][HEROIN]["levels"] = ["Yes", "Nope"]
    registry.write_registry(folder, {"nsduh_2022": registry.add_seals(changed)})
    assert find_faults(HEROIN) == [
        "levels of heroin_ever unknown to the record: ['Nope'] (nearest: No)"
    ]
    for text, said in (("{", r"registry\.json is damaged"), ('{"schema": 99}', "should be 3")):
        (folder / "registry.json").write_text(text)
        look_at_disk()
        with pytest.raises(EpidemiaError, match=said):
            store.list_available()


def test_bootstrap_distances_are_those_of_the_truth(nsduh_parquet):
    """D(P, P^(b)) recomputed for one replicate from its seed."""
    ready = prepare(load_microdata(find_record("nsduh"), nsduh_parquet), find_task(HEROIN))
    made = building.estimate_task(ready, ("iid",), 5)
    rng = rng_of(HEROIN, 1, 3)
    drawn = rng.choice(len(ready.cell), len(ready.cell))
    p = np.array([row["p"] for row in made["cells"]])
    again = np.zeros_like(p)
    for cell in range(len(p)):
        inside = drawn[ready.cell[drawn] == cell]
        weight, yes = ready.sample.weight[inside], ready.outcome[inside] == 0
        again[cell] = [weight[yes].sum() / weight.sum(), weight[~yes].sum() / weight.sum()]
    assert made["distances"]["iid"][3] == pytest.approx(float(distance(ready.weights, again, p)))
