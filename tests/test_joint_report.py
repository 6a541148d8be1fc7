"""The report's errors, claims and scales from the joint replicates that result files hold."""

import math

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from report_parts import COCAINE, EMPLOYER, HEROIN, NOBODY, SALARY, by, scored, table, write
from report_parts import said as run
from scipy import stats

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import mean
from lm_eval_epidemia.findings.compare import compare_scores, standings
from lm_eval_epidemia.findings.references import score_population
from lm_eval_epidemia.report.cards import render_card
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score.joint import Draws, own_errors
from lm_eval_epidemia.score.score import Anchors, zero_distance
from lm_eval_epidemia.surveys.catalogue import find_record

TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "reports.yaml").read_text("utf-8"))
DRUGS = [name for name, _ in find_tasks("epidemia_low_nsduh")][:6]
VIEWS = "epidemia_low_gss_political_view_by_age"
BLS = "epidemia_low_bls_sex_by_occupation"
NSDUH, ACS, OTHER = "nsduh_2022 3f2a", "acs_2024 77aa", "nsduh_2022 b"


def said(sample, *at, asking=0.0):
    """What our hook writes of a task: draws of its score, and of that against the population."""
    at = dict(zip(("score", "score_population"), at, strict=False))
    return {"sample": sample, **at, "asking": dict.fromkeys(at, asking)}


def put(folder, joint, model="m", score=40.0, **metrics):
    """A result file of tasks by what the hook writes of them, if anything."""
    given = {"score": score, "seen": 1.0, **metrics}
    row = {f"{name},none": x for name, x in given.items()} if metrics else (score, 9.0)
    drawn = {task: of for task, of in joint.items() if of}
    written = {"replicates": drawn} if drawn else None
    return write(folder, dict.fromkeys(joint, row), model, epidemia=written)


# What is read.


TWO, THREE, OF_OTHER = said(NSDUH, "41 42"), said(NSDUH, "41 42 43"), said(OTHER, "41 42 43")
APART = "different replicates of one survey"


UNKNOWN, OLDER = math.nan, {"m": {COCAINE: None, HEROIN: None}}
ACS_TOO = {"m": {COCAINE: TWO, SALARY: said(ACS, "41 43")}, "m ": {HEROIN: OF_OTHER}}
NOT_KNOWN = [
    (OLDER, [UNKNOWN] * 2, "N/A.* for 2 tasks .*older version.* run it again"),
    ({"m": {COCAINE: THREE, HEROIN: None}}, [1, UNKNOWN], f"N/A.* for 1 task .{HEROIN}.* no draws"),
    # Neither joint nor independent: a mean over both would have a wrong error.
    (ACS_TOO, [UNKNOWN, UNKNOWN, math.sqrt(2)], f"no errors .N/A. for 2 tasks.*{APART}"),
    # Else their comparison reads as nothing but ties.
    ({"a": {HEROIN: THREE}, "b": {HEROIN: OF_OTHER}}, [1, 1], f"{APART} .*count as ties"),
    ({"a": {HEROIN: THREE}, "b": {HEROIN: TWO}}, [1], "b.*2 and 3 draws of one sample .nsd"),
]


@pytest.mark.parametrize(("files", "errors", "says"), NOT_KNOWN)
def test_where_errors_are_not_known_scores_stand_and_a_note_says_why(tmp_path, files, errors, says):
    for model, joint in files.items():
        put(tmp_path / model, joint, model.strip())
    results = read_results([tmp_path])
    assert results.notes["text"].str.contains(says).tolist() == [True]
    assert own_errors([*results.scores["draws"]]) == pytest.approx(errors, nan_ok=True)
    # The mean of a known and an unknown error is unknown.
    found = table("leaderboard", tmp_path).query("kind == 'run'")
    assert {*found["value"]} == {40.0} and found["error"].isna().any() == np.isnan(errors).any()


@pytest.mark.parametrize(("damage", "says"), TABLES["damaged draws"])
def test_damaged_blocks_leave_their_file_out(tmp_path, damage, says):
    """Each made an error that was wrong, infinite, or a traceback."""
    put(tmp_path / "good", {COCAINE: THREE})
    whole = said(OTHER, "1 2")
    block = damage and {"replicates": {HEROIN: whole, COCAINE: whole | damage}}
    path = write(tmp_path / "bad", dict.fromkeys((COCAINE, HEROIN), (40.0, 9.0)), epidemia=block)
    results = read_results([tmp_path])
    (note,) = results.notes["text"]
    assert f"{path} is not a result file" in note and says in note
    assert own_errors([*results.scores["draws"]]) == pytest.approx([1])


# What is computed.


def test_errors_of_means_and_slices_by_brute_force():
    """Two surveys and an exact table: the mean is taken anew at every replicate of each survey."""
    rng = np.random.default_rng(5)
    shared = rng.normal(0, 2, 50)
    cocaine, heroin = 40 + shared, 60 + shared + rng.normal(0, 0.5, 50)
    salary = 50 + rng.normal(0, 3, 30)
    drawn = [Draws(NSDUH, cocaine, 0.3), Draws(NSDUH, heroin, 0.4), Draws(ACS, salary)]
    drawn.append(Draws("", np.array([])))
    one = scored({COCAINE: 41.0, HEROIN: 59.0, SALARY: 52.0, BLS: 90.0}, drawn)
    at_nsduh, at_acs = (cocaine + heroin + 52 + 90) / 4, (41 + 59 + salary + 90) / 4
    asking = (0.3**2 + 0.4**2) / 16
    error = math.sqrt(at_nsduh.var(ddof=1) + at_acs.var(ddof=1) + asking)
    found = mean.average(one, ["group"]).iloc[0]
    assert (found["value"], found["tasks"], found["error"]) == pytest.approx((60.5, 4, error))
    errors = by(mean.average(mean.add_facets(one), ["survey"]), "survey", of="error")
    error = math.sqrt(np.var((cocaine + heroin) / 2, ddof=1) + 4 * asking)
    assert errors["nsduh"] == pytest.approx(error) and errors["bls"] == 0.0


def test_opposite_leans_that_are_equally_far_are_not_told_apart():
    """A sample 1.5 of its standard errors too high flatters whoever errs upward, in every task.

    Probabilities are 0.1 too high or too low; the survey came out .03 too high, its replicates by
    `off` more; the distance from it is 2 |.1 - .03|, and D_zero 1. Scores 86 and 74; errors 3.95
    each, wrong in opposite ways: of the difference 7.9, of the mean difference too, as all tasks
    are wrong together. 12 / 7.9 = 1.5 standard errors. Were errors independent, it would be
    sqrt(2) 3.95 / sqrt(6) = 2.28, and 12 of them 5.3: "better".
    """
    off = 0.02 * stats.norm.ppf((np.arange(100) + 0.5) / 100)
    at, other = (100 * (1 - 2 * abs(far)) for far in (0.1 - 0.03 - off, 0.1 + 0.03 + off))
    high = scored(dict.fromkeys(DRUGS, 86.0), Draws(NSDUH, at))
    low = scored(dict.fromkeys(DRUGS, 74.0), Draws(NSDUH, other), 1)
    found = compare_scores(high, low, NOBODY)
    expected = 12.0, 2 * 200 * off.std(ddof=1)
    assert (found.difference, found.corrected_error) == pytest.approx(expected)
    assert (found.verdict, found.wins, found.ties) == ("not shown", 0, 6)
    both = pd.concat([high, low])
    of = standings(both, "epidemia_low", {0: True, 1: True}, NOBODY)
    assert {(one.best, one.worst) for one in of.values()} == {(1, 2)}
    # Two that err alike differ by what does not depend on the sample: that is shown.
    alike = scored(dict.fromkeys(DRUGS, 84.0), Draws(NSDUH, at - 2), 1)
    shown = compare_scores(high, alike, NOBODY)
    assert (shown.verdict, shown.wins) == ("better here", 6) and shown.corrected_error < 1e-9


CLAIMS = [
    # 3 above; 1 over the replicates, so what is corrected is 3 - (1 - 3).
    (60.0, [57, 59, 57, 59], None, (5, math.sqrt(4 / 3), "better here", 2, 0)),
    # 3 above; 5 over the replicates: 1 is left, which is less than 1.96 errors.
    (60.0, [61, 63, 61, 63], None, (1, math.sqrt(4 / 3), "not shown", 0, 2)),
    # 1 above; 5 over the replicates: the correction turns it round.
    (58.0, [61.9, 62.1, 61.9, 62.1], None, (-3, 0.2 / math.sqrt(3), "not shown", 0, 2)),
    # The error is that of the corrected draws; the plain ones would say 0.
    (61.0, [61] * 4, [60, 62, 60, 62], (4, math.sqrt(4 / 3), "better here", 2, 0)),
]


@pytest.mark.parametrize(("score", "at", "unbiased", "expected"), CLAIMS)
def test_a_claim_is_of_the_corrected_difference(score, at, unbiased, expected):
    """Sampling error moves a respondent near the truth more than one that is far from it."""
    drawn = Draws(NSDUH, np.array(at), less_bias=unbiased and np.array(unbiased))
    one = scored({COCAINE: score, HEROIN: score}, drawn)
    one["population"] = [drawn._replace(less_bias=None)] * 2
    other = scored({COCAINE: 57.0, HEROIN: 57.0}, Draws(NSDUH, np.full(4, 57.0)), 1)
    found = compare_scores(one, other, NOBODY)
    told = found.corrected, found.corrected_error, found.verdict, found.wins, found.ties
    assert told[:2] == pytest.approx(expected[:2]) and told[2:] == expected[2:]


@pytest.mark.parametrize("draws", [None, Draws("nsduh_2022 other", np.array([70.0, 71.0]))])
def test_where_replicates_are_not_known_nothing_is_claimed(draws):
    """Of one task only: the difference over all is not known, that of the others is."""
    drawn = [Draws(of, np.array([50.0, 51.0])) for of in (NSDUH, NSDUH, ACS)]
    one = scored(dict.fromkeys((COCAINE, HEROIN, EMPLOYER), 90.0), drawn)
    other = one.assign(run=1, value=10.0, score_population=10.0)
    assert compare_scores(one, other, NOBODY).verdict == "better here"
    other.at[1, "draws"] = draws
    found = compare_scores(one, other, NOBODY)
    assert np.isnan([found.corrected_error, found.corrected]).all()
    assert (found.verdict, found.wins, found.ties, found.losses) == ("not shown", 2, 1, 0)


def test_means_against_the_population_are_cut_off_and_tasks_are_not():
    """130 and 60, the first shown as 100, have the mean 95; 130 and 90: 100, not 110.

    1, 2, 3 have the variance 1. Unknown without draws. Differences are those of the means.
    """
    at, made = np.array([1.0, 2.0, 3.0]), []
    for a, b, value in ((99.0, 99.0, 99), (130.0, 60.0, 95), (130.0, 90.0, 100)):
        one = scored({COCAINE: a, HEROIN: b}, [Draws(NSDUH, at, uncut=x) for x in (a, b)])
        one["score_population"] = one["value"].clip(upper=100)
        (found,) = mean.population_mean(one, ["run"]).to_dict("records")
        expected = value, value - 1.96, min(value + 1.96, 100)
        assert (found["value"], found["low"], found["high"]) == pytest.approx(expected)
        made.append(one)
    assert (
        compare_scores(made[1], made[2], NOBODY).population == -15
    )  # before the cut-off of the mean
    (found,) = mean.population_mean(made[0].assign(population=None), ["run"]).to_dict("records")
    assert found["value"] == 99 and math.isnan(found["low"])


# Scales.


def test_scales_of_a_group(tmp_path):
    """D = .1, between the ends of every scale; the score against the population is the file's."""
    truth = store.load_truth(COCAINE)
    anchors, another = Anchors.of(truth), truth.d_perfect(scheme="population")
    tops = {"score": anchors.zero, "against uniform": anchors.uniform, "against mean": anchors.mean}
    of = {name: 100 * (top - 0.1) / (top - anchors.perfect) for name, top in tops.items()}
    of["without D_perfect"] = 100 * (1 - 0.1 / anchors.zero)
    of["another survey"] = 100 * (anchors.zero - 0.1) / (anchors.zero - another)
    of["population"] = 44
    joint = {COCAINE: said(NSDUH, "49 50 51", "-4 2 5", asking=0.5)}
    put(tmp_path / "all", joint, score=of["score"], l1=0.1, score_population=44.0)
    found = table("scale", tmp_path).query("kind == 'run'").set_index("scale")
    assert found["value"].to_dict() == pytest.approx(of)
    # Variances: of 49, 50, 51: 1; of -4, 2, 5: 21. Of other scales no draws are known.
    errors = (found["error"].dropna() ** 2 - 0.25).to_dict()
    assert errors == {"score": pytest.approx(1.0), "population": pytest.approx(21.0)}
    # Of a part the anchors are others; exact tables are known by every survey.
    put(tmp_path / "part", joint, "part", 50.0, l1=0.1, score_population=30.0, seen=0.5)
    found = {*table("scale", tmp_path / "part")["scale"]}
    assert "another survey" not in found and "population" in found
    put(tmp_path / "exact", {BLS: said("", "")}, score=50.0)
    found = by(table("scale", tmp_path / "exact"), "scale")
    assert {found[name] for name in ("score", "another survey", "without D_perfect")} == {50}


def test_barely_informative_tasks_are_said_and_can_be_left_out(tmp_path):
    """Less than a fifth of D_zero, .5, or within 1.96 errors: .3 is between those of .153, .154."""
    barely = "barely informative"
    at = {(0.3999, 0): "", (0.4001, 0): barely, (0.2, 0.153): "", (0.2, 0.154): barely}
    for (perfect, error), says in {**at, (0.5, 0): "uninformative"}.items():
        anchors = Anchors(0.5, math.nan, 0.4, perfect, error)
        assert (anchors.barely, anchors.said) == (bool(says), says), perfect
    gss = [name for name in store.list_available() if "_gss_" in name]
    tasks = {name for name in gss if Anchors.of(store.load_truth(name)).barely}
    told = run("anchors", "gss").stdout
    assert f"{len(tasks)} of {len(gss)} tasks are {barely}" in told and VIEWS in tasks
    assert f"({barely})" in render_card(find_record("gss"))
    put(tmp_path / "a", {COCAINE: said(NSDUH, "1 2")}, "a", 30.0)
    for model in ("a", "b"):
        put(tmp_path / model / "views", {VIEWS: said("gss_2022 9c1e", "1 2")}, model, 10.0)
    told = run("report", tmp_path, "--show", "leaderboard").stderr
    assert f"1 task is barely informative ({VIEWS})" in told
    found = table("leaderboard", tmp_path, informative=True).query("kind == 'run'")
    assert [*found["value"]] == [30.0]
    with pytest.raises(EpidemiaError, match=r"no task is left: 1 barely informative"):
        run("report", tmp_path / "b", "--informative")


def test_who_knows_the_population_gets_100_but_for_the_survey():
    """By hand: each replicate of a shipped survey in turn is the survey, the others its noise.

    The report's row has four partners of each replicate instead of 99, and its own replicate among
    the noise: two points of difference are allowed, of 5 that are missing in NHANES.
    """
    names, by_hand = [name for name, _ in find_tasks("epidemia_low_nhanes")], np.zeros(100)
    for truth in map(store.load_truth, names):
        noise = truth.replicates - truth.replicates.mean(axis=0)
        for b in range(100):
            one, others = truth.p + noise[b], truth.p + noise[b] + np.delete(noise, b, axis=0)
            far = distance(truth.weights, others, truth.p).mean()
            x = 2 * distance(truth.weights, one, truth.p) ** 2 - far**2
            scale = (
                2 * zero_distance(truth.weights, one) - zero_distance(truth.weights, others).mean()
            )
            by_hand[b] += 100 * (1 - np.sign(x) * abs(x) ** 0.5 / scale) / 4
    known, by_hand = score_population(names), by_hand.clip(0, 100)
    assert known["value"] == pytest.approx(by_hand.mean(), abs=2)
    assert (known["high"], known["tasks"], len(names)) == (100, 4, 4)
    assert known["low"] == pytest.approx(np.quantile(by_hand, 0.025), abs=5)
    # A table without sampling error: whoever knows it knows the population.
    exact = score_population([BLS])
    assert (exact["value"], exact["error"]) == (100, 0)
