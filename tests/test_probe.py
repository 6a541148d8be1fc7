"""The memorisation probe: matching, the error of a difference, and what the report says."""

import json
import math
import shutil
from io import StringIO

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import recorded
from test_fresh import RECORD, people
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.observation.fresh.make import make, plan
from lm_eval_epidemia.benchmarks.observation.probe import LEAST, Alike, contrast, nearest
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import explorer
from lm_eval_epidemia.old.findings import probe as probing
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.results.results import read_results
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


# The report.

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
    return tmp_path / "results"


def report(*arguments):
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_report_is_what_the_files_say(results):
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
    published = [name for name in told if "mood" in name]
    fresh = [name for name in value if "_fresh_" in name]
    pairs = {}
    for name in published:
        near = [one for one in fresh if abs(ratio[one] - ratio[name]) <= 0.1]
        alike = [one for one in near if len(all_tasks()[one].given) == 1] or near
        if near:
            pairs[name] = min(alike, key=lambda one: abs(ratio[one] - ratio[name]))
    assert len(pairs) >= 2
    difference = np.mean([value[a] - value[b] for a, b in pairs.items()])
    moved = np.mean([at[a] - at[b] for a, b in pairs.items()], axis=0)

    found = probing.probed(make_report(read_results([results])))
    (one,) = found.slices
    assert one.survey == "gss 2024" and one.way == "letters" and not found.notes
    assert one.contrast.pairs == len(pairs) and one.contrast.used == len({*pairs.values()})
    assert one.contrast.difference == pytest.approx(difference)
    assert one.contrast.survey == pytest.approx(moved.std(ddof=1), rel=1e-4)
    assert one.asked == len(told) and one.apart == 4 - len(told)
    assert one.asked > one.contrast.pairs  # of happiness there is no fresh task


def test_the_command_prints_it_and_writes_it(results, tmp_path, monkeypatch):
    assert "Memorisation" not in report(results).stdout
    shown = report(results, "--probe").stdout
    assert "Memorisation probe: published against fresh tasks" in shown and "gss 2024" in shown
    csv, listed = (report(results, "--probe", "--format", kind).stdout for kind in ("csv", "json"))
    for rows in (pd.read_csv(StringIO(csv)), pd.DataFrame(json.loads(listed)["rows"])):
        rows = rows[rows.kind == "probe"].set_index("metric")
        assert rows.loc["score_population, published", "value"] > 50
        assert rows.loc["score_population, difference", "group"] == "epidemia_fresh"
        assert rows.loc["unmatched", "value"] >= 1
        assert rows.loc["score_population, difference", "stderr"] > 0
    assert "Memorisation" in report(results, "--probe", "--format", "latex").stdout
    monkeypatch.setattr(explorer, "_listed", lambda report: [])  # hundreds of tasks
    report(results, "--html", tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Memorisation probe: published against fresh tasks" in page


def test_few_fresh_tasks_are_counted_and_nothing_is_compared(results, monkeypatch):
    monkeypatch.setattr(probing, "LEAST", LEAST)
    (one,) = probing.probed(make_report(read_results([results]))).slices
    assert LEAST == 10 and 0 < one.contrast.used < LEAST and one.contrast.pairs >= 2
    assert math.isnan(one.contrast.difference) and math.isnan(one.contrast.low)
    assert one.verdict == "too few fresh tasks"
    done = report(results, "--probe", "--format", "csv")
    rows = pd.read_csv(StringIO(done.stdout))
    rows = rows[rows.kind == "probe"].set_index("metric")
    assert rows.loc["fresh ones used", "value"] == one.contrast.used
    assert not [metric for metric in rows.index if metric.startswith("score_population")]
    assert (
        f"probe, gss 2024: no comparison: the {one.contrast.pairs} published tasks that "
        f"have a match share {one.contrast.used} different fresh ones, and 10 are needed. Ask more"
    ) in done.stderr
    assert "errors of the probe are not known" not in done.stderr
    shown = report(results, "--probe").stdout
    assert "too few fresh tasks" in shown and " nan " not in shown


def test_with_other_replicates_errors_are_independent(home_record, tmp_path):
    """The fresh set is made first: there are no replicates of published tasks to share."""
    assert not drawn_set(home_record, 7).is_joint
    build(home_record)
    out = tmp_path / "results"
    recorded(out, ["epidemia_low_gss", "epidemia_fresh_gss_7"], model_args="kind=noisy,noise=0.3")
    found = make_report(read_results([out]))
    assert not [note for note in found.notes if "different replicates" in note]
    (one,) = probing.probed(found).slices
    entry = found.runs[0]
    assert all(score.draws is not None for score in entry.scores.values())
    samples = {score.draws.sample.split()[0] for score in entry.scores.values()}
    assert samples == {"gss_2024", "gss_2024-fresh"}
    assert one.contrast.survey > 0


def test_fresh_tasks_that_are_not_here_are_named(results, home):
    for path in (home / "fresh" / "gss_7").iterdir():
        path.unlink()
    done = report(results, "--probe", "--full")
    assert "these fresh tasks are not here. Make the set again with 'epidemia" in done.stderr
    assert "no fresh task was asked" in done.stderr and "Memorisation" not in done.stdout


def test_another_set_of_the_same_names_is_not_compared(results, tmp_path):
    """Two runs on the same names are two rows, once the set was made anew from other options."""
    raw = tmp_path / "toy.csv"
    made = drawn_set(raw, 8)
    made.folder.rename(made.folder.with_name("gss_9"))
    drawn_set(raw, 7, n=5, replace=True)
    found = make_report(read_results([results]))
    assert len(found.runs) == 2
    assert any("truth 2024" in entry.name for entry in found.runs)
    assert not probing.probed(found).slices


# Vintages.


def test_vintages_on_either_side_of_a_cutoff(home_record, tmp_path):
    drawn_set(home_record, 7, "2020", n=40, dimension=[1, 2])
    drawn_set(home_record, 8, "2024", n=40, dimension=[1, 2])
    out = tmp_path / "results"
    recorded(out, ["epidemia_fresh_gss_7"], model_args="kind=noisy,noise=0.1")
    recorded(out, ["epidemia_fresh_gss_8"], model_args="kind=uniform")
    as_model(out)
    found = make_report(read_results([out]))
    (cutoff,) = probing.cutoffs_of([("m", "2023-06")], found)
    (one,), notes = probing.vintages(found, [cutoff])
    assert not notes and one.survey == "gss 2020, 2024" and one.cutoff == "2023-06"
    before, after = (
        {
            frozenset((task.outcome, *task.given)): score.metrics["score_population"]
            for entry in found.runs
            for asked, score in entry.scores.items()
            if (task := all_tasks()[asked.task]).seed == seed
        }
        for seed in (7, 8)
    )
    apart = [before[key] - after[key] for key in before.keys() & after.keys()]
    assert one.contrast.pairs == len(apart) > 3
    assert one.contrast.difference == pytest.approx(np.mean(apart))
    assert one.verdict == "before known better"
    shown = report(out, "--cutoff", "m=2023-06").stdout
    assert "vintages before and after a cutoff" in shown and "before known better" in shown
    # All before: nothing to compare.
    late = report(out, "--cutoff", "m=2025-01")
    assert "no task was asked about vintages on both sides of 2025-01" in late.stderr
    assert "vintages before" not in late.stdout


def test_a_year_is_before_a_cutoff_when_it_has_ended():
    assert probing.Cutoff("m", 2024, 12).is_before(2024)
    assert not probing.Cutoff("m", 2024, 11).is_before(2024)
    assert probing.Cutoff("m", 2024, 1).is_before(2023)


def test_cutoffs_that_cannot_be_meant(home_record, tmp_path):
    build(home_record)
    recorded(tmp_path / "results", ["epidemia_low_gss"], model_args="kind=mean")
    as_model(tmp_path / "results")
    for given, said in {
        "m": "--cutoff 'm': expected MODEL=2024-06",
        "m=2024": "expected a year and month",
        "m=2024-13": "expected a year and month",
        "n=2024-06": "no model 'n'",
    }.items():
        with pytest.raises(EpidemiaError, match=said):
            report(tmp_path / "results", "--cutoff", given)
