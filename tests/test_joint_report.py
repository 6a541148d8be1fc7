"""The report's errors, claims and scales from the joint replicates that result files hold."""

import json
import math
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.write import write_truth
from lm_eval_epidemia.old.findings import leaderboard, means, overview, ranks
from lm_eval_epidemia.old.findings.comparison import compare_entries
from lm_eval_epidemia.old.findings.reference import population_known_over
from lm_eval_epidemia.old.report import output
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.results.results import read_results
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.score.score import Anchors, zero
from lm_eval_epidemia.surveys.catalogue import record

DRUGS = [
    f"epidemia_low_nsduh_{drug}_ever_by_{given}"
    for given in ("age", "race")
    for drug in ("cocaine", "heroin", "marijuana")
]
COCAINE, HEROIN, MARIJUANA, *_ = DRUGS
EMPLOYER, SALARY = "epidemia_low_acs_employer_by_race", "epidemia_low_acs_salary_by_age"
VIEWS = "epidemia_low_gss_political_view_by_age"
NSDUH, ACS, OTHER = "nsduh_2022 3f2a", "acs_2024 77aa", "nsduh_2022 b"


def text(values):
    return " ".join(f"{value:.6f}" for value in values)


def said(sample, score, population=None, asking=0.0):
    """What our hook writes of a task: draws of its score, and of that against the population."""
    found = {"sample": sample, "score": text(score), "asking": {"score": asking}}
    if population is not None:
        found["score_population"] = text(population)
        found["asking"]["score_population"] = asking
    return found


def write(folder, scores, joint, model="m", **more):
    """A result file; `scores` by task, `joint` the block's replicates (None: an older version)."""
    folder.mkdir(parents=True, exist_ok=True)
    usual = {"score_stderr": 9.0, "l1": 0.1, "seen": 1.0}
    rows = {
        name: {
            f"{metric},none": value
            for metric, value in {"score": score, **usual, **more.get(name, {})}.items()
        }
        for name, score in scores.items()
    }
    found = {
        "results": rows,
        "configs": {name: {"metadata": more.get("metadata", {})} for name in rows},
        "versions": dict.fromkeys(rows, TASK_VERSION),
        "config": {"model": "hf", "model_args": {"pretrained": model}},
    }
    if joint is not None:
        found["epidemia"] = {"group_stderr": "joint replicates", "replicates": joint}
    path = folder / "results_2026.json"
    path.write_text(json.dumps(found))
    return path


def run(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


# What is read.


def test_draws_are_read_and_make_the_error(tmp_path):
    """1, 2, 3 have the variance 1; with 0.75 of the asking: sqrt(1 + 0.5625) = 1.25."""
    joint = {COCAINE: said(NSDUH, [41, 42, 43], [-3, 0, 3], asking=0.75), SALARY: said("", [])}
    write(tmp_path, {COCAINE: 40.0, SALARY: 50.0}, joint)
    results = read_results([tmp_path])
    (entry,) = results.entries
    one, exact = entry.scores[Asked(COCAINE, "letters")], entry.scores[Asked(SALARY, "letters")]
    assert one.draws.sample == NSDUH and one.draws.at.tolist() == [41, 42, 43]
    assert one.error == pytest.approx(1.25)  # not the 9.0 of lm-eval's column
    assert one.population.at.tolist() == [-3, 0, 3] and one.population.asking == 0.75
    assert exact.error == 0.0 and exact.draws.at.size == 0 and exact.population is None
    assert results.notes == []


def test_an_older_file_has_scores_and_no_errors(tmp_path):
    write(tmp_path, {COCAINE: 40.0, HEROIN: 50.0}, None)
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert entry.scores[Asked(COCAINE, "letters")].value == 40.0
    assert math.isnan(entry.scores[Asked(COCAINE, "letters")].error)
    (note,) = results.notes
    assert "(N/A) for 2 tasks" in note and "older version" in note and "run it again" in note
    shown = run("report", tmp_path, "--full", "--wide").stdout
    assert "45.0" in shown and "45.0 ±" not in shown


def test_a_truth_without_replicates_is_named_with_what_mends_it(tmp_path):
    write(tmp_path, {COCAINE: 40.0, HEROIN: 50.0}, {COCAINE: said(NSDUH, [41, 42, 43])})
    results = read_results([tmp_path])
    (note,) = results.notes
    assert "(N/A) for 1 task" in note and HEROIN in note
    assert "epidemia groundtruth build SURVEY --raw FILE" in note
    # The mean of a known and an unknown error is unknown.
    entry = results.entries[0]
    assert math.isnan(means.group_mean(entry, "epidemia_low").error)
    assert means.mean_over(entry, [Asked(COCAINE, "letters")]).error == pytest.approx(1.0)


def test_blocks_that_are_malformed_leave_their_file_out(tmp_path):
    def of(sample, draws, **asking):
        return {"replicates": {COCAINE: {"sample": sample, "score": draws, "asking": asking}}}

    unequal = {COCAINE: said(OTHER, [1, 2]), HEROIN: said(OTHER, [1, 2, 3])}
    cases = [
        ([], "Expected `object"),
        ({"replicates": 3}, "Expected `object"),
        ({"replicates": {COCAINE: 3}}, "Expected `object"),
        ({"replicates": {COCAINE: {"score": "1 2", "asking": {"score": 0}}}}, "sample is None"),
        ({"replicates": {COCAINE: {"sample": OTHER, "score": "1 2"}}}, "asking is None"),
        (of(OTHER, "1 2"), "error of score from asking is None"),
        (of(NSDUH, "1 2", score=-1), "from asking is -1, expected 0 or more"),
        (of(OTHER, "1 x", score=0), "draws of score are '1 x', expected numbers"),
        (of(OTHER, [1, 2], score=0), "expected numbers"),
        (of(OTHER, "1 inf", score=0), "expected numbers"),
        (of(OTHER, "1", score=0), "1 draws of score, expected at least 2"),
        (of("", "1 2", score=0), "2 draws of score, expected none"),
        ({"replicates": unequal}, "2 draws of one sample"),
        ({"replicates": {COCAINE: said(OTHER, [1, 2]) | {"uncut": 3}}}, "uncut is 3"),
        (
            {"replicates": {COCAINE: said(OTHER, [1, 2]) | {"uncut": {"score": "x"}}}},
            "score, uncut, is 'x', expected a number",
        ),
    ]
    write(tmp_path / "good", {COCAINE: 40.0}, {COCAINE: said(NSDUH, [41, 42, 43])}, model="good")
    paths = []
    for number, (joint, _) in enumerate(cases):
        path = write(tmp_path / str(number), {COCAINE: 40.0, HEROIN: 1.0}, None, model="bad")
        path.write_text(json.dumps({**json.loads(path.read_text()), "epidemia": joint}))
        paths.append(path)
    results = read_results([tmp_path])
    assert [entry.name for entry in results.entries] == ["good"]
    assert len(results.notes) == len(cases)
    for path, (_, message) in zip(paths, cases, strict=True):
        assert any(str(path) in note and message in note for note in results.notes), message


def test_draws_of_one_sample_have_one_number_in_all_files(tmp_path):
    write(tmp_path / "a", {COCAINE: 40.0}, {COCAINE: said(NSDUH, [41, 42, 43])}, model="a")
    write(tmp_path / "b", {COCAINE: 40.0}, {COCAINE: said(NSDUH, [41, 42])}, model="b")
    results = read_results([tmp_path])
    assert [entry.name for entry in results.entries] == ["a"]
    assert "2 and 3 draws of one sample (nsduh_2022 3f2a)" in results.notes[0]


def test_tasks_of_different_replicates_of_one_survey_have_no_error_together(tmp_path):
    """Neither joint nor independent: a mean over both would have a wrong error."""
    joint = {COCAINE: said(NSDUH, [41, 42]), SALARY: said(ACS, [41, 42])}
    write(tmp_path / "a", {COCAINE: 40.0, SALARY: 40.0}, joint)
    write(tmp_path / "b", {HEROIN: 40.0}, {HEROIN: said("nsduh_2022 9999", [41, 42])})
    results = read_results([tmp_path])
    (entry,) = results.entries
    assert math.isnan(means.group_mean(entry, "epidemia_low").error)
    assert means.slices(entry, "epidemia_low", "survey")["acs"].error > 0
    assert "no errors (N/A) for 2 tasks" in results.notes[0]
    assert "different replicates of one survey" in results.notes[0]


# What is computed.


def entry(model, scores, draws, mode="letters"):
    """`draws` by task: (sample, numbers, error of the asking). The population's score is alike."""
    made = {}
    for (task, x), (sample, at, asking) in zip(scores.items(), draws, strict=True):
        of = Draws(sample, np.asarray(at, float), asking)
        metrics = {"l1": 0.1, "score_population": x}
        made[Asked(task, mode)] = TaskScore(x, of, metrics, population=of)
    return Entry(model, scores=made)


def test_errors_of_means_and_slices_by_brute_force():
    """Two surveys and an exact table: the mean is taken anew at every replicate of each survey."""
    rng = np.random.default_rng(5)
    shared = rng.normal(0, 2, 50)
    heroin, salary = 60 + shared + rng.normal(0, 0.5, 50), 50 + rng.normal(0, 3, 30)
    at = {COCAINE: 40 + shared, HEROIN: heroin, SALARY: salary}
    bls = "epidemia_low_bls_sex_by_occupation"
    nsduh = [(NSDUH, at[COCAINE], 0.3), (NSDUH, at[HEROIN], 0.4)]
    scores = {COCAINE: 41.0, HEROIN: 59.0, SALARY: 52.0, bls: 90.0}
    one = entry("a", scores, [*nsduh, (ACS, at[SALARY], 0.0), ("", [], 0.0)])
    nsduh = [(at[COCAINE][b] + at[HEROIN][b] + 52.0 + 90.0) / 4 for b in range(50)]
    acs = [(41.0 + 59.0 + at[SALARY][b] + 90.0) / 4 for b in range(30)]
    asking = (0.3**2 + 0.4**2) / 16
    found = means.group_mean(one, "epidemia_low")
    expected = math.sqrt(np.var(nsduh, ddof=1) + np.var(acs, ddof=1) + asking)
    assert found[:3] == (60.5, pytest.approx(expected), 4)
    alone = [one.scores[asked].error for asked in one.scores]
    assert expected > 1.15 * math.sqrt(sum(x**2 for x in alone)) / 4  # wrong together
    by_survey = means.slices(one, "epidemia_low", "survey")
    together = [(at[COCAINE][b] + at[HEROIN][b]) / 2 for b in range(50)]
    assert by_survey["nsduh"].error == pytest.approx(
        math.sqrt(np.var(together, ddof=1) + (0.3**2 + 0.4**2) / 4)
    )
    assert by_survey["bls"].error == 0.0
    health = means.slices(one, "epidemia_low", "domain")["health"]
    assert health == by_survey["nsduh"]


#: How far another sample of the survey is off, the same in all of its tasks.
OFF = 0.02 * stats.norm.ppf((np.arange(100) + 0.5) / 100)


def leaning(model, towards, off):
    """A respondent whose probabilities are too high (1) or too low (-1) by 0.1 in all tasks.

    The survey came out too high by `off`, its replicates by `OFF` more: the respondent's distance
    from it is 2 |0.1 towards - off|, and D_zero 1.
    """
    score = 100 * (1 - 2 * abs(0.1 * towards - off))
    at = 100 * (1 - 2 * np.abs(0.1 * towards - off - OFF))
    return entry(model, dict.fromkeys(DRUGS, score), [(NSDUH, at, 0.0)] * len(DRUGS))


def test_opposite_leans_that_are_equally_far_are_not_told_apart():
    """A sample 1.5 of its standard errors too high flatters whoever errs upward, in every task.

    Scores 86 and 74; errors 3.95 each, wrong in opposite ways: of the difference 7.9, of the mean
    difference too, as all tasks are wrong together. 12 / 7.9 = 1.5 standard errors. Were errors
    independent, it would be sqrt(2) 3.95 / sqrt(6) = 2.28, and 12 of them 5.3.
    """
    high, low = leaning("high", 1, 0.03), leaning("low", -1, 0.03)
    found = compare_entries(high, low, "epidemia_low")
    assert found.across.difference == pytest.approx(12.0)
    assert found.here == pytest.approx(2 * 200 * OFF.std(ddof=1), rel=1e-6)
    assert found.verdict == "not shown"
    assert (found.wins, found.ties, found.losses) == (0, 6, 0)
    alone = [x.scores[Asked(task, "letters")].error for x in (high, low) for task in DRUGS]
    independent = math.sqrt(sum(x**2 for x in alone)) / len(DRUGS)
    assert found.across.difference > 5 * independent  # would have been "better here", and more
    standing = ranks.standings([high, low], "epidemia_low")
    assert {(one.best, one.worst) for one in standing.values()} == {(1, 2)}
    # Two that err alike differ by what does not depend on the sample: that is shown.
    worse = leaning("worse", 1, 0.03)
    at = worse.scores[Asked(COCAINE, "letters")].draws.at - 2
    worse = entry("worse", dict.fromkeys(DRUGS, 84.0), [(NSDUH, at, 0.0)] * len(DRUGS))
    shown = compare_entries(high, worse, "epidemia_low")
    assert shown.here == pytest.approx(0, abs=1e-9) and shown.verdict == "better here"
    assert (shown.wins, shown.ties, shown.losses) == (6, 0, 0)


def test_a_claim_is_of_the_corrected_difference():
    """Sampling error moves a respondent near the truth more than one that is far from it.

    Difference 3; over the replicates 1, so what is corrected is 3 - (1 - 3) = 5. Its error is that
    of -1, 1, -1, 1 around it: sqrt(4 / 3) = 1.155.
    """
    one = entry("a", {COCAINE: 60.0}, [(NSDUH, [57, 59, 57, 59], 0.0)])
    other = entry("b", {COCAINE: 57.0}, [(NSDUH, [57, 57, 57, 57], 0.0)])
    found = compare_entries(one, other, "epidemia_low")
    assert (found.across.difference, found.corrected) == (3.0, 5.0)
    assert found.here == pytest.approx(1.154701) and found.verdict == "better here"
    assert (found.wins, found.ties, found.losses) == (1, 0, 0)
    # 3 over the replicates 5: what is left is 1, which is less than 1.96 errors.
    one = entry("a", {COCAINE: 60.0}, [(NSDUH, [61, 63, 61, 63], 0.0)])
    found = compare_entries(one, other, "epidemia_low")
    assert found.corrected == 1.0 and found.across.difference > 1.96 * found.here
    assert found.verdict == "not shown" and found.ties == 1


def test_nothing_is_shown_where_the_correction_turns_the_difference_round():
    """A difference of 1 in each task; over the replicates it is 5, so -3 is left."""
    tasks = dict.fromkeys([COCAINE, HEROIN, MARIJUANA], 51.0)
    one = entry("a", tasks, [(NSDUH, [54.9, 55.1], 0.0)] * 3)
    other = entry("b", dict.fromkeys(tasks, 50.0), [(NSDUH, [50, 50], 0.0)] * 3)
    found = compare_entries(one, other, "epidemia_low")
    assert found.across.half_width == 0 and found.corrected == pytest.approx(-3)
    assert found.verdict == "not shown" and found.ties == 3


def test_the_error_of_a_difference_is_that_of_its_corrected_value():
    """Of 4 in each of two tasks; corrected draws 3, 5, 3, 5 of one sample: sd sqrt(4 / 3) = 1.155.

    The plain draws would say 0.
    """
    tasks = dict.fromkeys([COCAINE, HEROIN], 54.0)
    one, other = (
        entry(name, dict.fromkeys(tasks, value), [(NSDUH, [value] * 4, 0.0)] * 2)
        for name, value in (("a", 54.0), ("b", 50.0))
    )
    for asked, score in one.scores.items():
        unbiased = np.array([53.0, 55.0, 53.0, 55.0])
        one.scores[asked] = score._replace(draws=score.draws._replace(less_bias=unbiased))
    found = compare_entries(one, other, "epidemia_low")
    assert found.here == pytest.approx(np.sqrt(4 / 3))
    assert (found.across.difference, found.corrected) == (4, 4)
    assert (found.wins, found.ties) == (2, 0) and found.verdict == "better here"


def test_a_difference_against_the_population_is_that_of_the_means_shown():
    """130 and 70 before the cut have a mean of 100, not of 85: 10 more than 90, not 5 less."""
    of = {"a": (130.0, 70.0), "b": (90.0, 90.0)}
    scores = dict.fromkeys([COCAINE, HEROIN], 90.0)
    one, other = (entry(name, scores, [(NSDUH, [89, 91], 0.0)] * 2) for name in of)
    for each in (one, other):
        for asked, uncut in zip(each.scores, of[each.name], strict=True):
            drawn = Draws(NSDUH, np.array([uncut - 1, uncut + 1]), uncut=uncut)
            each.scores[asked] = each.scores[asked]._replace(
                population=drawn, metrics={POPULATION: min(uncut, 100.0)}
            )
    shown = [means.population_mean(each, list(each.scores)).value for each in (one, other)]
    assert compare_entries(one, other, "epidemia_low").population == shown[0] - shown[1] == 10


@pytest.mark.parametrize("draws", [None, Draws("nsduh_2022 other", np.array([70.0, 71.0]))])
def test_where_replicates_are_not_known_nothing_is_claimed(draws):
    """Of one task only: the difference over all is not known, that of the others is."""
    tasks = {COCAINE: 90.0, HEROIN: 90.0, EMPLOYER: 90.0}
    one, other = (
        entry(name, dict.fromkeys(tasks, at[0]), [(s, at, 0.0) for s in (NSDUH, NSDUH, ACS)])
        for name, at in (("a", [90.0, 91.0]), ("b", [10.0, 11.5]))
    )
    assert compare_entries(one, other, "epidemia_low").verdict == "better here"
    asked = Asked(HEROIN, "letters")
    other.scores[asked] = other.scores[asked]._replace(draws=draws)
    found = compare_entries(one, other, "epidemia_low")
    assert math.isnan(found.here) and math.isnan(found.corrected)
    assert found.verdict == "not shown"
    assert (found.wins, found.ties, found.losses) == (2, 1, 0)
    assert compare_entries(one, Entry("nobody"), "epidemia_low").verdict == "not shown"


# Scales.


@pytest.fixture
def population(home):
    """A truth of heroin use with surveys simulated from the population.

    Half say yes in every cell: D_uniform = D_zero = 0. So a quarter: D_uniform .5, D_zero_one .5.
    D_perfect is .1 (i.i.d.) and .2 (population).
    """
    ages = [given for (given,) in store.load(HEROIN).given]
    size = {"weight": 1 / len(ages), "n": 9, "n_eff_iid": 9.0, "n_eff_design": None}
    made = {
        "cells": [
            {"cell": cell, "given": [age], "p": [0.25, 0.75], **size}
            for cell, age in enumerate(ages)
        ],
        "replicates": [{"cell": cell, "steps": [0] * 100} for cell in range(len(ages))],
        "distances": {"iid": [0.1] * 20, "population": [0.2] * 20},
        "entry": {
            "estimator": "bins",
            "columns": dict(store.load(HEROIN).columns),
            "levels": ["Yes", "No"],
            "bootstrap": {name: {"replicates": 20, "seed": 1} for name in ("iid", "population")},
            "replicates": {"number": 100, "step": 1e-6},
        },
    }
    about = {"survey": "nsduh", "vintage": "2022"}
    write_truth(store.built_groundtruth(), "nsduh_2022", about, {HEROIN: made})
    return made


def test_scales_of_a_group(population, tmp_path):
    """D = .3: 100 (.5 - .3) / (.5 - .1) = 50; of another survey 100 * .2 / .3 = 66.67; without
    D_perfect 40. The score against the population is its own metric."""
    truth = store.load(HEROIN)
    assert truth.d_perfect(scheme="population") == 0.2
    metrics = {"l1": 0.3, "score_population": 44.0, "score_population_stderr": 1.0}
    more = {HEROIN: metrics, "metadata": {"truth": truth.fingerprint}}
    joint = {HEROIN: said(NSDUH, [49, 50, 51], [-4, 2, 5], asking=0.5)}
    write(tmp_path, {HEROIN: 50.0}, joint, **more)
    report = leaderboard.make_report(read_results([tmp_path]))
    assert report.another == {HEROIN: 0.2}
    (one,) = report.runs
    found = means.normalised_means(one, "epidemia_low", report.anchors, report.another)
    assert list(found) == list(means.SCALES)
    assert {how: round(mean.value, 4) for how, mean in found.items()} == {
        **{"score": 50, "against uniform": 50, "against mean": 0, "without D_perfect": 40},
        **{"another survey": 66.6667, "population": 44},
    }
    # Variances: of 49, 50, 51: 1; of -4, 2, 5: 21. Of other scales no draws are known.
    errors = {how: mean.error**2 - 0.25 for how, mean in found.items()}
    assert (errors["score"], errors["population"]) == pytest.approx((1.0, 21.0))
    unknown = [how for how, error in errors.items() if math.isnan(error)]
    assert unknown == ["against uniform", "against mean", "without D_perfect", "another survey"]

    reach = 1.96 * math.sqrt(21.25)
    shown = f"44.0 ({44 - reach:.1f} to {44 + reach:.1f})"
    said_so = {section.title: section for section in output.sections(report)}
    assert said_so["Score against the population, 0 to 100 (interval of 95 %)"].rows == [
        ["m", shown],
        # Nobody was drawn for this truth: who knows the population knows it.
        ["knows the population (baseline)", "100.0 (100.0 to 100.0)"],
    ]
    assert said_so["On other scales, epidemia_low"].rows[0][5:] == ["66.7", "44.0 ± 4.6"]
    rows = pd.read_csv(StringIO(output.as_csv(report)))
    (row,) = rows[(rows.kind == "scale") & (rows.name == "population")].to_dict("records")
    assert (row["value"], row["metric"]) == (44.0, "score_population")
    assert (row["low"], row["high"]) == pytest.approx((44 - reach, 44 + reach))
    (knower,) = rows[rows.kind == "reference"].to_dict("records")
    assert (knower["model"], knower["value"]) == ("knows the population", 100.0)
    (task,) = rows[(rows.kind == "task") & (rows.metric == "score_population")].stderr
    assert task == pytest.approx(math.sqrt(21.25))
    found = json.loads(output.as_json(report))["rows"]
    assert [r["low"] for r in found if r["name"] == "population"] == [pytest.approx(44 - reach)]


def test_scales_that_are_not_known_are_left_out(tmp_path):
    """A truth without surveys simulated from the population; a file of an older version."""
    anchors = {HEROIN: Anchors(0.5, 0.5, 0.3, 0.1)}
    one = Entry("a", scores={Asked(HEROIN, "letters"): TaskScore(50.0, None, {"l1": 0.3})})
    found = means.normalised_means(one, "epidemia_low", anchors, {})
    assert "another survey" not in found and "population" not in found and "score" in found
    # An interval is cut off at 0 and 100, and unknown without draws. 1, 2, 3 have the variance 1.
    asked, metrics = Asked(HEROIN, "letters"), {"score_population": 99.0}
    for draws, interval in (
        (Draws(NSDUH, np.array([1.0, 2.0, 3.0])), (99 - 1.96, 100.0)),
        (None, (math.nan, math.nan)),
    ):
        one = Entry("a", scores={asked: TaskScore(50.0, None, metrics, draws)})
        found = means.population_mean(one, [asked])
        assert found.interval == pytest.approx(interval, nan_ok=True)
    # 130 and 60, the first shown as 100, have the mean 95; 130 and 90 are cut off: 100, not 110.
    # Draws 1, 2, 3 of both, jointly: their mean has the standard error 1.
    other = Asked(COCAINE, "letters")
    for second, value in ((60.0, 95.0), (90.0, 100.0)):
        draws = [Draws(NSDUH, np.array([1.0, 2, 3]), uncut=uncut) for uncut in (130.0, second)]
        scores = [
            TaskScore(50.0, None, {"score_population": min(drawn.uncut, 100)}, drawn)
            for drawn in draws
        ]
        one = Entry("a", scores=dict(zip((asked, other), scores, strict=True)))
        found = means.population_mean(one, [asked, other])
        assert found.value == value
        assert found.interval == pytest.approx((value - 1.96, min(value + 1.96, 100)))
    # Of a part of the cells, or another truth, the anchors are others; the metric is the file's.
    metrics = {"l1": 0.3, "seen": 0.5, "score_population": 30.0}
    one = Entry("a", scores={Asked(HEROIN, "letters"): TaskScore(50.0, None, metrics)})
    assert list(means.normalised_means(one, "epidemia_low", anchors, {HEROIN: 0.2})) == [
        "population"
    ]
    one = Entry("a", protocol=Protocol(truth="x"), scores=one.scores)
    assert list(means.normalised_means(one, "epidemia_low", anchors, {})) == ["population"]


def test_exact_tables_are_known_by_every_survey(tmp_path):
    task = "epidemia_low_bls_sex_by_occupation"
    write(tmp_path, {task: 50.0}, {task: {"sample": "", "score": "", "asking": {"score": 0}}})
    assert leaderboard.make_report(read_results([tmp_path])).another == {task: 0.0}


def test_anchors_of_another_survey(population):
    shown = run("anchors", HEROIN, "--bootstrap", "population").stdout
    assert "0.2000" in shown and "0.1000" not in shown
    assert "0.1000" in run("anchors", HEROIN).stdout
    with pytest.raises(EpidemiaError, match="expected iid, design or population"):
        run("anchors", HEROIN, "--bootstrap", "jackknife")


# Barely informative tasks.


def test_a_scale_of_less_than_a_fifth_is_barely_informative():
    """D_zero is .5, so D_perfect may be .4."""
    cases = {0.0: "", 0.3999: "", 0.4001: "barely informative"}
    for perfect, said_of_it in {**cases, 0.5: "uninformative", 0.6: "uninformative"}.items():
        anchors = Anchors(0.5, math.nan, 0.4, perfect)
        assert (anchors.barely, anchors.said) == (perfect > 0.4, said_of_it), perfect


def test_a_scale_within_the_error_of_its_end_is_barely_informative():
    """D_zero - D_perfect is .3: 1.96 errors of .153 are .29988, of .154 they are .30184."""
    for error, barely in {0.0: False, 0.153: False, 0.154: True}.items():
        assert Anchors(0.5, math.nan, 0.4, 0.2, error).barely == barely, error


def test_knowing_nothing_scores_0_in_every_sample_of_a_task_that_is_not_barely_informative():
    """The step at D_perfect: uniform got 0.0 ± 43.5 and ± 19.7 on two tasks that nothing marked."""
    stepped = set()
    for name in store.available():
        truth = store.load(name)
        if truth.replicates is not None and len(truth.replicates):
            zeros = zero(truth.weights, truth.replicates)
            stepped |= {name} if (zeros <= truth.d_perfect()).any() else set()
    assert {"epidemia_marginal_gss_political_view", "epidemia_marginal_nsduh_cigarettes_ever"} <= (
        stepped
    )
    assert stepped <= {*barely_informative()}


def barely_informative():
    return [t for t in store.available() if Anchors.of(store.load(t)).barely]


def test_barely_informative_tasks_are_said_everywhere(tmp_path):
    tasks = barely_informative()
    assert VIEWS in tasks
    shown = run("anchors").stdout
    assert shown.count("(barely informative)") + shown.count("(uninformative)") == len(tasks)
    assert f"{len(tasks)} of {len(store.available())} tasks are barely informative" in shown
    assert "(barely informative)" in card(record("gss"))
    joint = {VIEWS: said("gss_2022 9c1e", [1, 2]), COCAINE: said(NSDUH, [1, 2])}
    write(tmp_path, {VIEWS: 10.0, COCAINE: 30.0}, joint)
    assert (
        f"1 task is barely informative ({VIEWS})"
        in run("report", tmp_path, "--full", "--wide").stdout
    )


def test_the_reader_can_leave_them_out(tmp_path):
    joint = {VIEWS: said("gss_2022 9c1e", [1, 2]), COCAINE: said(NSDUH, [1, 2])}
    write(tmp_path / "a", {VIEWS: 10.0, COCAINE: 30.0}, joint, model="a")
    write(tmp_path / "b", {VIEWS: 10.0}, joint, model="b")
    done = run("report", tmp_path, "--informative", "--format", "csv")
    rows = pd.read_csv(StringIO(done.stdout))
    assert rows[rows.kind == "group"][["model", "value", "tasks"]].values.tolist() == [
        ["a", 30.0, 1.0]
    ]
    assert f"left out: 1 barely informative task: {VIEWS}" in done.stderr
    whole = pd.read_csv(StringIO(run("report", tmp_path, "--format", "csv").stdout))
    assert whole[whole.kind == "group"].value.tolist() == [20.0, 10.0]
    drawn = tmp_path / "figure.json"
    run("plot", "leaderboard", tmp_path, "--informative", "--out", drawn)
    assert '"score": 30.0' in drawn.read_text()
    assert "30.0 ± 0.7" in run("compare", tmp_path, "--informative").stdout
    with pytest.raises(EpidemiaError, match=r"no task is left: 1 barely informative"):
        run("report", tmp_path / "b", "--informative")


def test_draws_that_cannot_be_leave_their_file_out(tmp_path):
    """Each made an error that was wrong, infinite, or a traceback."""
    cases = {
        "expected one of nsduh": {"sample": "gss_2022 449c4014dd6c"},
        "expected numbers": {"score": "1e308 -1e308 1"},
        "draws of score are -5000 to -5000, expected 0 to 100": {"score": "-5000 -5000 -5000"},
        "expected 0 or more": {"asking": {"score": 1e300, "score_population": 0.0}},
    }
    for name, block in (("good", {}), *cases.items()):
        joint = {HEROIN: {**said(NSDUH, [49, 50, 51], [40, 41, 42]), **block}}
        write(tmp_path / name, {HEROIN: 50.0}, joint)
    results = read_results([tmp_path])
    notes = [note for note in results.notes if "was left out" in note]
    assert len(notes) == len(cases)
    for why in cases:
        (note,) = [note for note in notes if str(tmp_path / why) in note]
        assert why in note.replace(str(tmp_path / why), "")
    (entry,) = results.entries
    assert entry.scores[Asked(HEROIN, "letters")].error == pytest.approx(1)


def test_models_with_different_replicates_are_named(tmp_path):
    """Else their comparison reads as nothing but ties."""
    for model, sample in (("a", NSDUH), ("b", "nsduh_2022 other")):
        joint = {HEROIN: said(sample, [49, 50, 51], [40, 41, 42])}
        write(tmp_path / model, {HEROIN: 50.0}, joint, model=model)
    (note,) = [n for n in read_results([tmp_path]).notes if "different replicates" in n]
    assert "nsduh_2022 other" in note and "count as ties" in note


def test_who_knows_the_population_gets_100_but_for_the_survey():
    """By hand: each replicate of a shipped survey in turn is the survey, the others its noise.

    The report's row has four partners of each replicate instead of 99, and its own replicate among
    the noise: two points of difference are allowed, of 5 that are missing in NHANES.
    """
    names = [name for name, _ in members("epidemia_low_nhanes")]
    known = population_known_over(names)
    assert known.tasks == len(names) == 4
    means_by_hand = np.zeros(100)
    for name in names:
        truth = store.load(name)
        noise = truth.replicates - truth.replicates.mean(axis=0)
        for b in range(100):
            others = truth.p + noise[b] + np.delete(noise, b, axis=0)
            far = distance(truth.weights, others, truth.p)
            x = 2 * distance(truth.weights, truth.p + noise[b], truth.p) ** 2 - far.mean() ** 2
            wide = zero(truth.weights, others).mean()
            scale = 2 * zero(truth.weights, truth.p + noise[b]) - wide
            means_by_hand[b] += 100 * (1 - np.sign(x) * abs(x) ** 0.5 / scale) / 4
    by_hand = means_by_hand.clip(0, 100)
    assert known.value == pytest.approx(by_hand.mean(), abs=2)
    assert known.low == pytest.approx(np.quantile(by_hand, 0.025), abs=5) and known.high == 100
    # A table without sampling error: whoever knows it knows the population.
    exact = population_known_over(["epidemia_low_bls_sex_by_occupation"])
    assert exact.value == 100 and exact.error == 0
    both = population_known_over([*names, "epidemia_low_bls_sex_by_occupation"])
    assert known.value < both.value < 100


def test_a_score_of_the_formula_before_is_named(tmp_path):
    """Result files of task version 2 have no number before the cut; no score needs none."""
    task = "epidemia_low_nsduh_heroin_ever_by_age"
    named = {}
    uncut = {"uncut": {"score_population": 104.0}}
    for name, of_population, kept in (
        ("before", 100.0, {}),
        ("now", 100.0, uncut),
        ("none", math.nan, {}),
    ):
        drawn = {"sample": "", "score_population": "", "asking": {"score_population": 1.0}, **kept}
        row = {"score,none": 90.0, "score_population,none": of_population, "l1,none": 0.1}
        row["seen,none"] = 1.0
        results = {
            "results": {task: row},
            "configs": {task: {"metadata": {"truth": store.load(task).fingerprint}}},
            "versions": {task: TASK_VERSION},
            "n-shot": {task: 0},
            "config": {"model": "hf", "model_args": {"pretrained": name}},
            "date": 1.0,
            "epidemia": {"group_stderr": "joint replicates", "replicates": {task: drawn}},
        }
        (tmp_path / name).mkdir()
        (tmp_path / name / "results_2026-01-01.json").write_text(json.dumps(results))
        note = overview.population(leaderboard.make_report(read_results([tmp_path / name]))).note
        named[name] = (
            "Computed with the formula before task version 3, which is too low near 100" in note
        )
    assert named == {"before": True, "now": False, "none": False}
