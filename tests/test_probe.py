"""The memorisation probe: matching, the error of a difference, and what the report says."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import recorded
from test_fresh import RECORD, people

from lm_eval_epidemia.benchmarks.observation.fresh import make, plan
from lm_eval_epidemia.benchmarks.observation.probe import LEAST, Alike, contrast, nearest
from lm_eval_epidemia.core.store import look
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import probe as probing
from lm_eval_epidemia.results.choose import with_cutoffs
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

# Matching.


def test_matches_are_the_nearest_within_outcome_and_conditions():
    ones = [
        Alike("a", 1, 0.50, 1),  # 0.02 from the second, 0.03 from the first
        Alike("a", 2, 0.50, 1),  # none with two: the nearest of the outcome, 0.01 away
        Alike("a", 1, 0.70, 1),  # nothing within 0.1
        Alike("b", 1, 0.62, 1),  # just within
        Alike("c", 1, 0.50, 1),  # another outcome
        Alike("a", 3, 0.49, 1),  # the only one with three, though another is nearer
    ]
    among_a = [Alike("a", 1, 0.53, 1), Alike("a", 1, 0.48, 1), Alike("a", 3, 0.51, 1)]
    others = [*among_a, Alike("b", 1, 0.525, 1)]
    assert nearest(ones, others) == [1, 2, None, 3, None, 2]
    assert nearest(ones, []) == [None] * 6 and nearest([], others) == []
    # Of equally near ones the first.
    assert nearest([ones[0]], [Alike("a", 1, 0.4375, 1), Alike("a", 1, 0.5625, 1)]) == [0]


def test_scales_of_another_length_are_no_match():
    one = Alike("a", 1, 0.2, 0.2)
    # Equally far in D_mean / D_zero: the length decides; beyond a factor of 1.25 there is no match.
    assert nearest([one], [Alike("a", 1, 0.24, 0.24), Alike("a", 1, 0.22, 0.22)]) == [1]
    assert nearest([one], [Alike("a", 1, 0.24, 0.24), Alike("a", 1, 0.26, 0.26)]) == [0]
    assert nearest([one], [Alike("a", 1, 0.26, 0.26), Alike("a", 1, 0.15, 0.15)]) == [None]
    # hypot(0.05 / 0.1, log 1.1 / log 1.25) and hypot(0.08 / 0.1, 0)
    found = [one.apart(other) for other in (Alike("a", 1, 0.209, 0.22), Alike("a", 1, 0.184, 0.2))]
    assert found == pytest.approx([np.hypot(0.5, np.log(1.1) / np.log(1.25)), 0.8])


# The error.


def drawn(rng, sample, *, size=40, spread=1.0, asking=0.0):
    return Draws(sample, spread * rng.standard_normal(size), asking)


def test_the_error_in_these_tasks_is_that_of_a_weighted_sum():
    """By the covariance matrix of all tasks, sample by sample, instead of by sums of draws."""
    rng = np.random.default_rng(1)
    common = rng.standard_normal(40)
    first = [Draws("s 1", common + one.at, 0.3) for one in (drawn(rng, "s 1") for _ in range(3))]
    second = [Draws("s 1", common + rng.standard_normal(40), 0.2), drawn(rng, "t 1", asking=0.4)]
    values, others, place = [60.0, 50, 43], [40.0, 45], [0, 0, 1]
    found = contrast(values, others, place, first, second)
    # Weights 1/3 each against 2/3 and 1/3.
    weights = np.array([1 / 3, 1 / 3, 1 / 3, -2 / 3, -1 / 3])
    at = np.stack([one.at for one in (*first, *second)])
    same = np.cov(at[:4])
    variance = weights[:4] @ same @ weights[:4] + weights[4] ** 2 * at[4].var(ddof=1)
    variance += (weights**2) @ np.array([0.3, 0.3, 0.3, 0.2, 0.4]) ** 2
    assert found.survey == pytest.approx(math.sqrt(variance))
    # (60 - 40 + 50 - 40 + 43 - 45) / 3
    assert found.difference == pytest.approx(28 / 3) and found.first == 51 and found.used == 2
    assert found.error > found.survey


def test_tasks_that_differ_by_more_than_sampling_widen_it():
    """Exact truths: differences 10, 20, 30 have variance 100; of distinct pairs sigma^2 is half of
    it, and the error sqrt(100 / 3); Student's t with 2 degrees of freedom is 4.3027."""
    exact = [Draws("", np.empty(0))] * 3
    found = contrast([40.0, 50, 60], [30.0] * 3, [0, 1, 2], exact, exact)
    assert found.survey == 0 and found.error == pytest.approx(10 / math.sqrt(3))
    assert found.low == pytest.approx(20 - 4.30265 * 10 / math.sqrt(3), abs=1e-4)
    # One fresh task for all: its own chance does not show in the differences, and counts whole.
    found = contrast([40.0, 50, 60], [30.0], [0, 0, 0], exact, exact[:1])
    assert found.error == pytest.approx(math.sqrt(100 * (1 / 3 + 1)))
    # Nothing differs: no error, and no claim.
    same = contrast([30.0] * 3, [30.0] * 3, [0, 1, 2], exact, exact)
    assert same.error == 0 and same.side == 0


def test_one_pair_none_and_unknown_draws_make_no_claim():
    exact = Draws("", np.empty(0))
    one = contrast([90.0], [10.0], [0], [exact], [exact])
    assert one.difference == 80 and math.isnan(one.error) and one.side == 0
    none = contrast([], [50.0], [], [], [exact])
    assert none.pairs == 0 and math.isnan(none.difference) and none.side == 0
    unknown = contrast([90.0, 91], [10.0, 11], [0, 1], [exact, None], [exact, exact])
    assert math.isnan(unknown.survey) and unknown.side == 0


@pytest.mark.parametrize("place", [[0, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 0, 1, 1, 2, 3], [0] * 8])
@pytest.mark.parametrize("common", [0.0, 4.0])
def test_intervals_hold_what_they_promise(place, common):
    """Simulated: scores vary by task and with the survey, which moves all of its tasks at once."""
    rng = np.random.default_rng(5)
    n, m, runs, sampling = len(place), max(place) + 1, 1500, 2.0
    covered, errors, differences = 0, [], []
    for _ in range(runs):
        # The survey's replicates are drawn as it was itself: in common, and task by task.
        shared = common * rng.standard_normal(60)
        moved = sampling * rng.standard_normal((n + m, 60))
        at = moved + np.where(np.arange(n + m) < n, 1.0, -1.0)[:, None] * shared
        error = sampling * rng.standard_normal(n + m)
        error += np.where(np.arange(n + m) < n, 1.0, -1.0) * common * rng.standard_normal()
        score = 50 + 6 * rng.standard_normal(n + m) + error
        draws = [Draws("s", moves) for moves in at]
        found = contrast(score[:n], score[n:], place, draws[:n], draws[n:])
        covered += found.low <= 0 <= found.high
        errors.append(found.error**2)
        differences.append(found.difference)
    assert np.mean(errors) == pytest.approx(np.var(differences), rel=0.15)
    # With t the interval is exact without a common part, and too wide by some with one.
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / runs) < covered / runs < 1.0


# The finding.

SURVEY = "gss"


@pytest.fixture(autouse=True)
def compares_few(monkeypatch):
    """The toy survey has few fresh tasks."""
    monkeypatch.setattr(probing, "LEAST", 1)


def declared(folder, home):
    """The toy survey in the place of the GSS: its tasks are published ones, in two vintages."""
    listed = yaml.safe_load(RECORD)
    listed |= {"survey": SURVEY, "replaces": SURVEY}
    year = {"year": 2020, "files": [{"name": "toy.csv"}], "page": "https://example.org/toy"}
    listed["vintages"] = {
        str(one): {**year, "year": one, "select": [{"column": "YEAR", "codes": [one]}]}
        for one in (2024, 2020)
    }
    pairs = (("mood", "sex"), ("mood", "region"), ("mood", "age"), ("happy", "region"))
    low = [{"outcome": outcome, "given": [given], "title": "t"} for outcome, given in pairs]
    listed["tasks"] = {"low": low}
    surveys, raw = home / "surveys", folder / "toy.csv"
    surveys.mkdir(parents=True)
    (surveys / "gss.yaml").write_text(yaml.safe_dump(listed, sort_keys=False))
    look()
    both = [people(seed).assign(YEAR=year) for seed, year in ((3, 2020), (4, 2024))]
    pd.concat(both).to_csv(raw, index=False)
    return raw


@pytest.fixture
def home_record(tmp_path, home):
    return declared(tmp_path, home)


def build(raw, vintage="2024"):
    building.build(SURVEY, raw, vintage=vintage, replicates=20, progress=False)


def drawn_set(raw, seed, vintage="2024", replace=False, **options):
    options = {"n": 6, "dimension": [1, 2], "outcomes": ["mood"], **options}
    planned = plan(
        SURVEY, [raw], seed=seed, vintage=vintage, replicates=20, progress=False, **options
    )
    return make(planned, replace=replace, progress=False)


def as_model(folder, model="m"):
    """Say that a run was of some model: respondents are told apart by their arguments."""
    for path in folder.rglob("results*.json"):
        found = json.loads(path.read_text())
        found["config"] |= {"model": "hf", "model_args": {"pretrained": model}}
        path.write_text(json.dumps(found))


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A home where published and fresh tasks are; runs of who knows averages only in the latter."""
    folder = tmp_path_factory.mktemp("probed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPIDEMIA_HOME", str(folder / "home"))
        look()
        raw = declared(folder, folder / "home")
        build(raw)
        assert drawn_set(raw, 7).is_joint
        recorded(folder / "results", ["epidemia_low_gss"], model_args="kind=noisy,noise=0.2")
        recorded(folder / "results", ["epidemia_fresh_gss_7"], model_args="kind=mean")
    as_model(folder / "results")
    return folder


@pytest.fixture
def results(probed, home, tmp_path):
    ours = shutil.ignore_patterns("task_yamls")  # which all homes share
    shutil.copytree(probed / "home", home, dirs_exist_ok=True, ignore=ours)
    shutil.copytree(probed, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("home"))
    look()
    return tmp_path / "results"


def probed_in(folder, *cutoffs):
    """Return the rows of the finding, and the texts beside it."""
    found = probing.probe(with_cutoffs(read_results([folder]), cutoffs))
    return [*found.table.itertuples()], "\n".join(found.left_out)


def test_the_finding_is_what_the_files_say(results):
    """Matches and errors are worked out anew from the files, by another route."""
    files = [json.loads(path.read_text()) for path in results.rglob("results*.json")]
    value, at = {}, {}
    for one in files:
        for name, said in one["epidemia"]["replicates"].items():
            value[name] = one["results"][name]["score_population,none"]
            at[name] = np.array(said["score_population"].split(), dtype=float)
            assert said["sample"] == store.load(name).sample
    scales = {name: Anchors.of(store.load(name)) for name in value}
    ratio = {name: one.mean / one.zero for name, one in scales.items()}
    apart = {name for name, one in scales.items() if one.zero - one.perfect > 0.5 * one.zero}
    told = [name for name in scales if "_low_" in name and name in apart]
    fresh = [name for name in value if "_fresh_" in name]
    pairs = {}
    for name in (name for name in told if "mood" in name):
        near = [one for one in fresh if abs(ratio[one] - ratio[name]) <= 0.1]
        alike = [one for one in near if len(all_tasks()[one].given) == 1] or near
        if near:
            pairs[name] = min(alike, key=lambda one: abs(ratio[one] - ratio[name]))
    assert len(pairs) >= 2
    difference = np.mean([value[a] - value[b] for a, b in pairs.items()])
    moved = np.mean([at[a] - at[b] for a, b in pairs.items()], axis=0)
    (one,), left_out = probed_in(results)
    assert (one.model, one.group, one.survey) == ("m", "epidemia_fresh", "gss 2024")
    assert not left_out and one.first > 50 and one.error > 0
    assert one.pairs == len(pairs) and one.used == len({*pairs.values()})
    assert one.difference == pytest.approx(difference)
    assert one.sampling == pytest.approx(moved.std(ddof=1), rel=1e-4)
    assert one.short == 4 - len(told)
    assert one.unmatched == len(told) - len(pairs) >= 1  # of happiness there is no fresh task


def test_few_fresh_tasks_are_counted_and_nothing_is_compared(results, monkeypatch):
    monkeypatch.setattr(probing, "LEAST", LEAST)
    (one,), left_out = probed_in(results)
    assert LEAST == 10 and 0 < one.used < LEAST and one.pairs >= 2
    assert np.isnan([one.first, one.difference, one.error, one.low, one.sampling]).all()
    assert one.verdict == "too few fresh tasks"
    assert left_out.startswith(
        f"probe, gss 2024: no comparison: the {one.pairs} published tasks that have a match share "
        f"{one.used} different fresh ones, and 10 are needed. Ask more"
    )
    assert "errors of the probe are not known" not in left_out


def test_with_other_replicates_errors_are_independent(home_record, tmp_path):
    """The fresh set is made first: there are no replicates of published tasks to share."""
    assert not drawn_set(home_record, 7).is_joint
    build(home_record)
    out = tmp_path / "results"
    recorded(out, ["epidemia_low_gss", "epidemia_fresh_gss_7"], model_args="kind=noisy,noise=0.3")
    found = read_results([out])
    assert not [note for note in found.notes["text"] if "different replicates" in note]
    samples = {draws.sample.split()[0] for draws in found.scores["draws"]}
    assert samples == {"gss_2024", "gss_2024-fresh"}
    (one,), _ = probed_in(out)
    assert one.sampling > 0


def test_fresh_tasks_that_are_not_here_are_named(results, home):
    for path in (home / "fresh" / "gss_7").iterdir():
        path.unlink()
    look()
    rows, left_out = probed_in(results)
    assert not rows and "no fresh task was asked" in left_out
    (note,) = read_results([results]).notes["text"]
    assert "these fresh tasks are not here. Make the set again with 'epidemia" in note


def test_another_set_of_the_same_names_is_not_compared(results, tmp_path):
    """Two runs on the same names are two, once the set was made anew from other options."""
    raw = tmp_path / "toy.csv"
    made = drawn_set(raw, 8)
    made.folder.rename(made.folder.with_name("gss_9"))
    drawn_set(raw, 7, n=5, replace=True)
    runs = read_results([results]).runs
    assert len(runs) == 2 and any("truth 2024" in name for name in runs["name"])
    assert not probed_in(results)[0]


# Vintages.


def test_vintages_on_either_side_of_a_cutoff(home_record, tmp_path):
    drawn_set(home_record, 7, "2020", n=40, dimension=[1, 2])
    drawn_set(home_record, 8, "2024", n=40, dimension=[1, 2])
    out = tmp_path / "results"
    recorded(out, ["epidemia_fresh_gss_7"], model_args="kind=noisy,noise=0.1")
    recorded(out, ["epidemia_fresh_gss_8"], model_args="kind=uniform")
    as_model(out)
    scores = read_results([out]).scores
    before, after = (
        {
            frozenset((task.outcome, *task.given)): value
            for name, value in zip(scores["task"], scores["score_population"], strict=True)
            if (task := all_tasks()[name]).seed == seed
        }
        for seed in (7, 8)
    )
    apart = [before[key] - after[key] for key in before.keys() & after.keys()]
    (one,), _ = probed_in(out, ("m", "2023-06"))
    assert one.survey == "gss 2020, 2024" and one.cutoff == "2023-06"
    assert one.pairs == len(apart) > 3 and one.difference == pytest.approx(np.mean(apart))
    assert one.verdict == "before known better"
    # A year is before a cutoff when it has ended.
    for cutoff, there in {"2020-11": 0, "2020-12": 1, "2024-11": 1, "2024-12": 0}.items():
        rows, left_out = probed_in(out, ("m", cutoff))
        assert len(rows) == there
        assert (f"no task was asked about vintages on both sides of {cutoff}" in left_out) != there


def test_cutoffs_that_cannot_be_meant(results, epidemia):
    for given, said in {
        "m": "--cutoff 'm': expected MODEL=2024-06",
        "m=2024": "expected a month",
        "m=2024-13": "expected a month",
        "n=2024-06": "--cutoff n=2024-06: expected one of m",
    }.items():
        done = epidemia("report", results, "--show", "probe", "--cutoff", given)
        assert done.returncode and said in done.stderr
