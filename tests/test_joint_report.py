"""The report's errors, claims and scales from the joint replicates that result files hold."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from report_parts import COCAINE, EMPLOYER, HEROIN, NOBODY, SALARY, by, command, scored, table
from report_parts import said as run
from scipy import stats

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.benchmarks.observation import TASK_VERSION
from lm_eval_epidemia.core.distance import distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.write import write_truth
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.mean import mean, population_mean, with_facets
from lm_eval_epidemia.findings.ranks import standings
from lm_eval_epidemia.findings.references import population_known_over
from lm_eval_epidemia.report.cards import card
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.score.joint import Draws, own_errors
from lm_eval_epidemia.score.score import Anchors, zero
from lm_eval_epidemia.surveys.catalogue import record

DRUGS = [
    f"epidemia_low_nsduh_{drug}_ever_by_{given}"
    for given in ("age", "race")
    for drug in ("cocaine", "heroin", "marijuana")
]
MARIJUANA = DRUGS[2]
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
        "configs": {name: {"metadata": {"truth": store.load(name).fingerprint}} for name in rows},
        "versions": dict.fromkeys(rows, TASK_VERSION),
        "config": {"model": "hf", "model_args": {"pretrained": model}},
    }
    if joint is not None:
        found["epidemia"] = {"group_stderr": "joint replicates", "replicates": joint}
    path = folder / "results_2026.json"
    path.write_text(json.dumps(found))
    return path


# What is read.


def test_draws_are_read_and_make_the_error(tmp_path):
    """1, 2, 3 have the variance 1; with 0.75 of the asking: sqrt(1 + 0.5625) = 1.25."""
    joint = {COCAINE: said(NSDUH, [41, 42, 43], [-3, 0, 3], asking=0.75), SALARY: said("", [])}
    write(tmp_path, {COCAINE: 40.0, SALARY: 50.0}, joint)
    results = read_results([tmp_path])
    one, exact = results.scores.set_index("task").loc[[COCAINE, SALARY]].iloc
    assert one["draws"].sample == NSDUH and one["draws"].at.tolist() == [41, 42, 43]
    # Not the 9.0 of lm-eval's column.
    assert own_errors([one["draws"], exact["draws"]]) == pytest.approx([1.25, 0])
    assert one["population"].at.tolist() == [-3, 0, 3] and one["population"].asking == 0.75
    assert exact["draws"].at.size == 0 and exact["population"] is None
    assert results.notes.empty


def test_an_older_file_has_scores_and_no_errors(tmp_path):
    write(tmp_path, {COCAINE: 40.0, HEROIN: 50.0}, None)
    (note,) = read_results([tmp_path]).notes["text"]
    assert "(N/A) for 2 tasks" in note and "older version" in note and "run it again" in note
    found = table("leaderboard", tmp_path).iloc[0]
    assert found["value"] == 45.0 and math.isnan(found["error"])
    assert "45.0 ±" not in command("report", tmp_path)


def test_a_truth_without_replicates_is_named_with_what_mends_it(tmp_path):
    write(tmp_path, {COCAINE: 40.0, HEROIN: 50.0}, {COCAINE: said(NSDUH, [41, 42, 43])})
    results = read_results([tmp_path])
    (note,) = results.notes["text"]
    assert "(N/A) for 1 task" in note and HEROIN in note
    assert "epidemia groundtruth build SURVEY --raw FILE" in note
    # The mean of a known and an unknown error is unknown.
    assert mean(results.scores, ["run"])["error"].isna().all()
    assert own_errors([*results.scores["draws"]]) == pytest.approx([1.0, math.nan], nan_ok=True)


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
    notes = [*results.notes["text"]]
    assert [*results.runs["name"]] == ["good"] and len(notes) == len(cases)
    for path, (_, message) in zip(paths, cases, strict=True):
        assert any(str(path) in note and message in note for note in notes), message


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
    notes = [note for note in results.notes["text"] if "was left out" in note]
    assert len(notes) == len(cases)
    for why in cases:
        (note,) = [note for note in notes if str(tmp_path / why) in note]
        assert why in note.replace(str(tmp_path / why), "")
    assert own_errors([*results.scores["draws"]]) == pytest.approx([1])


def test_draws_of_one_sample_have_one_number_in_all_files(tmp_path):
    write(tmp_path / "a", {COCAINE: 40.0}, {COCAINE: said(NSDUH, [41, 42, 43])}, model="a")
    write(tmp_path / "b", {COCAINE: 40.0}, {COCAINE: said(NSDUH, [41, 42])}, model="b")
    results = read_results([tmp_path])
    assert [*results.runs["name"]] == ["a"]
    assert "2 and 3 draws of one sample (nsduh_2022 3f2a)" in results.notes["text"][0]


def test_tasks_of_different_replicates_of_one_survey_have_no_error_together(tmp_path):
    """Neither joint nor independent: a mean over both would have a wrong error."""
    joint = {COCAINE: said(NSDUH, [41, 42]), SALARY: said(ACS, [41, 42])}
    write(tmp_path / "a", {COCAINE: 40.0, SALARY: 40.0}, joint)
    write(tmp_path / "b", {HEROIN: 40.0}, {HEROIN: said("nsduh_2022 9999", [41, 42])})
    results = read_results([tmp_path])
    assert mean(results.scores, ["run", "group"])["error"].isna().all()
    errors = by(table("survey", tmp_path).dropna(subset="error"), "survey", of="error")
    assert errors["acs"] > 0 and "nsduh" not in errors
    note = results.notes["text"][0]
    assert "no errors (N/A) for 2 tasks" in note and "different replicates of one survey" in note


def test_models_with_different_replicates_are_named(tmp_path):
    """Else their comparison reads as nothing but ties."""
    for model, sample in (("a", NSDUH), ("b", "nsduh_2022 other")):
        joint = {HEROIN: said(sample, [49, 50, 51], [40, 41, 42])}
        write(tmp_path / model, {HEROIN: 50.0}, joint, model=model)
    notes = read_results([tmp_path]).notes["text"]
    (note,) = [note for note in notes if "different replicates" in note]
    assert "nsduh_2022 other" in note and "count as ties" in note


# What is computed.


def entry(scores, draws, run=0):
    """Scores by task; `draws` for each: (sample, numbers, error of the asking)."""
    return scored(scores, [Draws(s, np.asarray(at, float), asking) for s, at, asking in draws], run)


def test_errors_of_means_and_slices_by_brute_force():
    """Two surveys and an exact table: the mean is taken anew at every replicate of each survey."""
    rng = np.random.default_rng(5)
    shared = rng.normal(0, 2, 50)
    heroin, salary = 60 + shared + rng.normal(0, 0.5, 50), 50 + rng.normal(0, 3, 30)
    at = {COCAINE: 40 + shared, HEROIN: heroin, SALARY: salary}
    bls = "epidemia_low_bls_sex_by_occupation"
    nsduh = [(NSDUH, at[COCAINE], 0.3), (NSDUH, at[HEROIN], 0.4)]
    scores = {COCAINE: 41.0, HEROIN: 59.0, SALARY: 52.0, bls: 90.0}
    one = entry(scores, [*nsduh, (ACS, at[SALARY], 0.0), ("", [], 0.0)])
    nsduh = [(at[COCAINE][b] + at[HEROIN][b] + 52.0 + 90.0) / 4 for b in range(50)]
    acs = [(41.0 + 59.0 + at[SALARY][b] + 90.0) / 4 for b in range(30)]
    asking = (0.3**2 + 0.4**2) / 16
    (found,) = mean(one, ["group"]).to_dict("records")
    expected = math.sqrt(np.var(nsduh, ddof=1) + np.var(acs, ddof=1) + asking)
    assert (found["value"], found["tasks"]) == (60.5, 4)
    assert found["error"] == pytest.approx(expected)
    alone = own_errors([*one["draws"]])
    assert expected > 1.15 * math.sqrt(sum(x**2 for x in alone)) / 4  # wrong together
    errors = by(mean(with_facets(one), ["survey"]), "survey", of="error")
    together = [(at[COCAINE][b] + at[HEROIN][b]) / 2 for b in range(50)]
    of_nsduh = math.sqrt(np.var(together, ddof=1) + (0.3**2 + 0.4**2) / 4)
    assert errors["nsduh"] == pytest.approx(of_nsduh) and errors["bls"] == 0.0


#: How far another sample of the survey is off, the same in all of its tasks.
OFF = 0.02 * stats.norm.ppf((np.arange(100) + 0.5) / 100)


def leaning(towards, off, run=0):
    """A respondent whose probabilities are too high (1) or too low (-1) by 0.1 in all tasks.

    The survey came out too high by `off`, its replicates by `OFF` more: the respondent's distance
    from it is 2 |0.1 towards - off|, and D_zero 1.
    """
    score = 100 * (1 - 2 * abs(0.1 * towards - off))
    at = 100 * (1 - 2 * np.abs(0.1 * towards - off - OFF))
    return entry(dict.fromkeys(DRUGS, score), [(NSDUH, at, 0.0)] * len(DRUGS), run)


def test_opposite_leans_that_are_equally_far_are_not_told_apart():
    """A sample 1.5 of its standard errors too high flatters whoever errs upward, in every task.

    Scores 86 and 74; errors 3.95 each, wrong in opposite ways: of the difference 7.9, of the mean
    difference too, as all tasks are wrong together. 12 / 7.9 = 1.5 standard errors. Were errors
    independent, it would be sqrt(2) 3.95 / sqrt(6) = 2.28, and 12 of them 5.3.
    """
    high, low = leaning(1, 0.03), leaning(-1, 0.03, 1)
    found = compare(high, low, NOBODY)
    assert found.difference == pytest.approx(12.0)
    assert found.corrected_error == pytest.approx(2 * 200 * OFF.std(ddof=1), rel=1e-6)
    assert found.verdict == "not shown"
    assert (found.wins, found.ties, found.losses) == (0, 6, 0)
    alone = own_errors([*high["draws"], *low["draws"]])
    independent = math.sqrt(sum(x**2 for x in alone)) / len(DRUGS)
    assert found.difference > 5 * independent  # would have been "better here", and more
    both = pd.concat([high, low])
    standing = standings(both, "epidemia_low", {0: True, 1: True}, NOBODY)
    assert {(one.best, one.worst) for one in standing.values()} == {(1, 2)}
    # Two that err alike differ by what does not depend on the sample: that is shown.
    worse = [(NSDUH, high["draws"][0].at - 2, 0.0)] * len(DRUGS)
    worse = entry(dict.fromkeys(DRUGS, 84.0), worse, 1)
    shown = compare(high, worse, NOBODY)
    assert shown.corrected_error == pytest.approx(0, abs=1e-9) and shown.verdict == "better here"
    assert (shown.wins, shown.ties, shown.losses) == (6, 0, 0)


def test_a_claim_is_of_the_corrected_difference():
    """Sampling error moves a respondent near the truth more than one that is far from it.

    Difference 3; over the replicates 1, so what is corrected is 3 - (1 - 3) = 5. Its error is that
    of -1, 1, -1, 1 around it: sqrt(4 / 3) = 1.155.
    """
    one = entry({COCAINE: 60.0}, [(NSDUH, [57, 59, 57, 59], 0.0)])
    other = entry({COCAINE: 57.0}, [(NSDUH, [57, 57, 57, 57], 0.0)], 1)
    found = compare(one, other, NOBODY)
    assert (found.difference, found.corrected) == (3.0, 5.0)
    assert found.corrected_error == pytest.approx(1.154701) and found.verdict == "better here"
    assert (found.wins, found.ties, found.losses) == (1, 0, 0)
    # 3 over the replicates 5: what is left is 1, which is less than 1.96 errors.
    one = entry({COCAINE: 60.0}, [(NSDUH, [61, 63, 61, 63], 0.0)])
    found = compare(one, other, NOBODY)
    assert found.corrected == 1.0 and found.difference > 1.96 * found.corrected_error
    assert found.verdict == "not shown" and found.ties == 1


def test_nothing_is_shown_where_the_correction_turns_the_difference_round():
    """A difference of 1 in each task; over the replicates it is 5, so -3 is left."""
    tasks = dict.fromkeys([COCAINE, HEROIN, MARIJUANA], 51.0)
    one = entry(tasks, [(NSDUH, [54.9, 55.1], 0.0)] * 3)
    other = entry(dict.fromkeys(tasks, 50.0), [(NSDUH, [50, 50], 0.0)] * 3, 1)
    found = compare(one, other, NOBODY)
    assert found.half_width == 0 and found.corrected == pytest.approx(-3)
    assert found.verdict == "not shown" and found.ties == 3


def test_the_error_of_a_difference_is_that_of_its_corrected_value():
    """Of 4 in each of two tasks; corrected draws 3, 5, 3, 5 of one sample: sd sqrt(4 / 3) = 1.155.

    The plain draws would say 0.
    """
    tasks, unbiased = dict.fromkeys([COCAINE, HEROIN], 54.0), np.array([53.0, 55.0, 53.0, 55.0])
    drawn = Draws(NSDUH, np.array([54.0] * 4), less_bias=unbiased)
    one = scored(tasks, drawn).assign(population=[drawn._replace(less_bias=None)] * 2)
    other = scored(dict.fromkeys(tasks, 50.0), Draws(NSDUH, np.array([50.0] * 4)), 1)
    found = compare(one, other, NOBODY)
    assert found.corrected_error == pytest.approx(np.sqrt(4 / 3))
    assert (found.difference, found.corrected) == (4, 4)
    assert (found.wins, found.ties) == (2, 0) and found.verdict == "better here"


def test_a_difference_against_the_population_is_that_of_the_means_shown():
    """130 and 70 before the cut have a mean of 100, not of 85: 10 more than 90, not 5 less."""
    made = []
    for number, of in enumerate([(130.0, 70.0), (90.0, 90.0)]):
        drawn = [Draws(NSDUH, np.array([x - 1, x + 1]), uncut=x) for x in of]
        one = entry(dict.fromkeys([COCAINE, HEROIN], 90.0), [(NSDUH, [89, 91], 0.0)] * 2, number)
        cut = [min(x, 100.0) for x in of]
        made.append(one.assign(population=drawn, score_population=cut))
    shown = [population_mean(one, ["run"])["value"][0] for one in made]
    assert compare(*made, NOBODY).population == shown[0] - shown[1] == 10


@pytest.mark.parametrize("draws", [None, Draws("nsduh_2022 other", np.array([70.0, 71.0]))])
def test_where_replicates_are_not_known_nothing_is_claimed(draws):
    """Of one task only: the difference over all is not known, that of the others is."""
    one, other = (
        entry(
            dict.fromkeys([COCAINE, HEROIN, EMPLOYER], at[0]),
            [(sample, at, 0.0) for sample in (NSDUH, NSDUH, ACS)],
            number,
        )
        for number, at in enumerate(([90.0, 91.0], [10.0, 11.5]))
    )
    assert compare(one, other, NOBODY).verdict == "better here"
    other.at[1, "draws"] = draws
    found = compare(one, other, NOBODY)
    assert math.isnan(found.corrected_error) and math.isnan(found.corrected)
    assert found.verdict == "not shown" and (found.wins, found.ties, found.losses) == (2, 1, 0)


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
    assert store.load(HEROIN).d_perfect(scheme="population") == 0.2
    metrics = {"l1": 0.3, "score_population": 44.0, "score_population_stderr": 1.0}
    joint = {HEROIN: said(NSDUH, [49, 50, 51], [-4, 2, 5], asking=0.5)}
    write(tmp_path, {HEROIN: 50.0}, joint, **{HEROIN: metrics})
    found = table("scale", tmp_path).set_index("scale")
    found = found[found["kind"] == "run"]
    assert found["value"].round(4).to_dict() == {
        **{"score": 50, "against uniform": 50, "against mean": 0, "without D_perfect": 40},
        **{"another survey": 66.6667, "population": 44},
    }
    # Variances: of 49, 50, 51: 1; of -4, 2, 5: 21. Of other scales no draws are known.
    errors = (found["error"].dropna() ** 2 - 0.25).to_dict()
    assert errors == {"score": pytest.approx(1.0), "population": pytest.approx(21.0)}
    one, knower = table("population", tmp_path).to_dict("records")
    reach = 1.96 * math.sqrt(21.25)
    assert (one["low"], one["high"]) == (pytest.approx(44 - reach), pytest.approx(44 + reach))
    # Nobody was drawn for this truth: who knows the population knows it.
    assert knower["model"] == "knows the population (baseline)" and knower["value"] == 100
    shown = command("report", tmp_path, "--show", "population")
    assert f"44.0 ({44 - reach:.1f} to {44 + reach:.1f})" in shown
    assert "100.0 (100.0 to 100.0)" in shown


def test_an_interval_of_the_population_is_cut_off_and_a_task_is_not():
    """Unknown without draws. 1, 2, 3 have the variance 1.

    130 and 60, the first shown as 100, have the mean 95; 130 and 90 are cut off: 100, not 110.
    """
    at = np.array([1.0, 2.0, 3.0])
    for uncut, value in ((None, 99.0), (99.0, 99.0), ((130.0, 60.0), 95.0), ((130.0, 90.0), 100.0)):
        several = uncut if isinstance(uncut, tuple) else (uncut,)
        drawn = [x and Draws(NSDUH, at, uncut=x) for x in several]
        one = scored(dict(zip([COCAINE, HEROIN], several, strict=False)), drawn)
        one["score_population"] = [min(x or 99.0, 100) for x in several]
        (found,) = population_mean(one.assign(value=1.0), ["run"]).to_dict("records")
        interval = (value - 1.96, min(value + 1.96, 100)) if uncut else (math.nan, math.nan)
        assert found["value"] == value
        assert (found["low"], found["high"]) == pytest.approx(interval, nan_ok=True)


def test_scales_of_a_part_or_another_truth_are_left_out(population, tmp_path):
    """Their anchors are others; the score against the population is the file's."""
    for seen, survey in ((1.0, True), (0.5, False)):
        metrics = {"l1": 0.3, "seen": seen, "score_population": 30.0}
        write(tmp_path / str(seen), {HEROIN: 50.0}, {}, **{HEROIN: metrics})
        found = {*table("scale", tmp_path / str(seen))["scale"]}
        assert ("another survey" in found) == survey and "population" in found


def test_exact_tables_are_known_by_every_survey(tmp_path):
    task = "epidemia_low_bls_sex_by_occupation"
    write(tmp_path, {task: 50.0}, {task: {"sample": "", "score": "", "asking": {"score": 0}}})
    found = table("scale", tmp_path).set_index("scale")["value"]
    known = [found[name] for name in ("another survey", "without D_perfect")]
    assert known == pytest.approx([found["score"]] * 2)


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
    write(tmp_path / "a", {VIEWS: 10.0, COCAINE: 30.0}, joint, model="a")
    write(tmp_path / "b", {VIEWS: 10.0}, joint, model="b")
    done = run("report", tmp_path, "--show", "leaderboard")
    assert f"1 task is barely informative ({VIEWS})" in done.stderr
    # The reader can leave them out.
    for options, values in (({"informative": True}, [30.0]), ({}, [20.0, 10.0])):
        found = table("leaderboard", tmp_path, **options)
        assert [*found[found["kind"] == "run"]["value"]] == values
    done = run("report", tmp_path, "--informative", "--show", "leaderboard")
    assert f"left out: 1 barely informative task: {VIEWS}" in done.stderr
    drawn = tmp_path / "figure.json"
    run("plot", "leaderboard", tmp_path, "--informative", "--out", drawn)
    assert '"value": 30.0' in drawn.read_text() and '"value": 20.0' not in drawn.read_text()
    with pytest.raises(EpidemiaError, match=r"no task is left: 1 barely informative"):
        run("report", tmp_path / "b", "--informative")


def test_who_knows_the_population_gets_100_but_for_the_survey():
    """By hand: each replicate of a shipped survey in turn is the survey, the others its noise.

    The report's row has four partners of each replicate instead of 99, and its own replicate among
    the noise: two points of difference are allowed, of 5 that are missing in NHANES.
    """
    names = [name for name, _ in members("epidemia_low_nhanes")]
    known = population_known_over(names)
    assert known["tasks"] == len(names) == 4
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
    assert known["value"] == pytest.approx(by_hand.mean(), abs=2)
    assert (
        known["low"] == pytest.approx(np.quantile(by_hand, 0.025), abs=5) and known["high"] == 100
    )
    # A table without sampling error: whoever knows it knows the population.
    exact = population_known_over(["epidemia_low_bls_sex_by_occupation"])
    assert exact["value"] == 100 and exact["error"] == 0
    both = population_known_over([*names, "epidemia_low_bls_sex_by_occupation"])
    assert known["value"] < both["value"] < 100


def test_a_score_of_the_formula_before_is_named(tmp_path):
    """Result files of task version 2 have no number before the cut; no score needs none."""
    named = {}
    uncut = {"uncut": {"score_population": 104.0}}
    for name, score, kept in (("before", 100.0, {}), ("now", 100.0, uncut), ("none", math.nan, {})):
        drawn = {"sample": "", "score_population": "", "asking": {"score_population": 1.0}, **kept}
        more = {HEROIN: {"score_population": score}}
        write(tmp_path / name, {HEROIN: 90.0}, {HEROIN: drawn}, model=name, **more)
        told = " ".join(find("population")(read_results([tmp_path / name])).left_out)
        named[name] = (
            "computed with the formula before task version 3, which is too low near 100" in told
        )
    assert named == {"before": True, "now": False, "none": False}
