"""What is said of other outcomes, of the population, and of log l1; and the ranks that follow."""

import math

import numpy as np
import pandas as pd
import pytest
from report_parts import asked, by, scored, table, write

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.pool import Pool, noise_of
from lm_eval_epidemia.findings.ranks import standings
from lm_eval_epidemia.findings.references import population_known_over
from lm_eval_epidemia.results.choose import paired
from lm_eval_epidemia.score.outcomes import clustered, moderated, prior_of

#: Eight outcomes of low, one task each.
LOW = [
    *(f"epidemia_low_acs_{outcome}_by_sex" for outcome in ("employer", "salary", "education")),
    *(f"epidemia_low_scf_{outcome}_by_age" for outcome in ("assets", "debt", "net_worth")),
    *(f"epidemia_low_nsduh_{outcome}_ever_by_age" for outcome in ("cocaine", "heroin")),
]
#: The four of high.
HIGH = [
    *(f"epidemia_high_nsduh_{outcome}_ever_by_sex_race" for outcome in ("cocaine", "marijuana")),
    "epidemia_high_meps_insured_by_education_sex",
    "epidemia_high_scf_home_ownership_by_age_education",
]
NOISE = dict.fromkeys([*LOW, *HIGH], 0.01)


def run(number, scores, error=0.1, **more):
    """Numbers by task; errors are independent. The population's score is alike if not given."""
    return scored(scores, asked(error), number, **more)


def models(logs, first=0):
    """Models by the log of their l1 in each task of `HIGH`; scores are 100 (1 - l1)."""
    return [
        run(number, dict(zip(HIGH, 100 * (1 - np.exp(log)), strict=True)), l1=np.exp(log))
        for number, log in enumerate(logs, first)
    ]


def pool(runs, noise=NOISE):
    return Pool(pd.concat(runs, ignore_index=True), noise)


def test_here_needs_the_population_too():
    """Of one task: score 10 apart, against the population 0.2, errors of both sqrt(0.02) = .14."""
    one, other = run(0, {LOW[0]: 60.0}), run(1, {LOW[0]: 50.0})
    assert compare(one, other).verdict == "better here"
    for population, verdict in ((50.2, "not shown"), (50.3, "better here"), (40.0, "not shown")):
        compared = compare(one.assign(score_population=population), other)
        assert compared.population == pytest.approx(population - 50)
        assert compared.population_error == pytest.approx(math.sqrt(0.02))
        assert compared.verdict == verdict, population
        # Won by twice its error, .283.
        assert compared.wins == (population == 50.3)
    assert compare(one.assign(score_population=math.nan), other).verdict == "not shown"
    # Nothing of this kind is asked where there is no such score.
    task = "epidemia_intervention_random"
    sure = [run(n, {task: x}, 0.01, way="intervention") for n, x in enumerate((0.9, 0.5))]
    compared = compare(*sure)
    assert math.isnan(compared.population) and compared.verdict == "better here"


def test_eight_outcomes_say_something_of_others_and_seven_do_not():
    other = run(1, dict.fromkeys(LOW, 50.0))
    one = run(0, {task: 60.0 + place for place, task in enumerate(LOW)})
    eight = compare(one, other)
    assert eight.verdict == "better" and eight.low > 0
    assert eight.half_width == pytest.approx(eight.high - eight.difference)
    seven = compare(one[:7], other)
    assert (seven.verdict, seven.outcomes) == ("better here", 7)
    assert math.isnan(seven.low) and seven.half_width > 0


def test_an_interval_is_cut_where_the_scale_ends():
    """Six differences of 100 and two of -100: mean 50, sd 92.6, 50 + 2.365 * 92.6 / sqrt(8) = 127.

    Of one of each: 12.7 * 100 to either side of 0.
    """
    other = run(1, {task: 100.0 * (place < 2) for place, task in enumerate(LOW)})
    one = run(0, {task: 100.0 * (place >= 2) for place, task in enumerate(LOW)})
    cut = compare(one, other)
    assert (cut.difference, cut.high) == (50.0, 100.0)
    assert cut.low == pytest.approx(50 - 77.4, abs=0.1) and cut.verdict == "better here"
    two = compare(one.iloc[[0, 7]], other)
    assert (two.difference, two.half_width) == (0, 100)


def test_log_l1_decides_from_four_outcomes_where_others_tell_how_it_varies():
    """Four outcomes, one task each; the others' pairs tell a variance, the pair's own is shrunk."""
    rng = np.random.default_rng(1)
    others = [rng.normal(-1.5, 0.3, 4) for _ in range(5)]
    a, b = np.array([-2.6, -2.5, -2.7, -2.6]), np.array([-1.2, -1.0, -1.4, -0.9])
    one, other, *rest = everybody = models([a, b, *others])
    known = pool(everybody)
    compared = compare(one, other, known)
    # Its own route: every pair of the others by itself, as if it were the one compared.
    pairs = [(x, y) for m, x in enumerate(others) for y in others[:m]]
    variances = [clustered(x - y, range(4)).error ** 2 for x, y in pairs]
    own = clustered(a - b, range(4))
    shrunk = moderated(own, prior_of(variances, 3.0), 5 * 3.0)
    assert len(pairs) == 10 and compared.outcomes == 4
    ratios = compared.l1_ratio, compared.l1_ratio_low, compared.l1_ratio_high
    reach = shrunk.reach(0.95)
    assert np.log(ratios) == pytest.approx([own.mean, own.mean - reach, own.mean + reach])
    assert compared.l1_ratio_high < 1 and compared.verdict == "better"
    assert compare(other, one, known).verdict == "worse"
    # A row of one of the two, in another setting, says nothing of others; nor do six pairs.
    (twin,) = models([a], 7)
    for few in ([one, other, *rest[:4]], [one, other, *rest[:4], twin.assign(model="m0")], [twin]):
        compared = compare(one, other, pool(few))
        assert math.isnan(compared.l1_ratio) and compared.verdict == "better here"
    # Three outcomes are too few on this scale too.
    three = compare(one[:3], other, known)
    assert math.isnan(three.l1_ratio) and three.verdict == "better here"


def test_ranks_follow_the_same_tests():
    rng = np.random.default_rng(2)
    runs = models([np.full(4, -3.0), *(rng.normal(-1.2, 0.1, 4) for _ in range(6))])
    scores, can = pd.concat(runs), dict.fromkeys(range(7), True)
    ranked = standings(scores, "epidemia_high", can, pool(runs))
    assert (ranked[0].best, ranked[0].worst, ranked[0].among) == (1, 1, 7)
    assert min(ranked[number].best for number in range(1, 7)) == 2
    # Without D0 there is no log l1, and four outcomes say nothing.
    ranked = standings(scores, "epidemia_high", can, pool(runs, {}))
    assert {(place.best, place.worst) for place in ranked.values()} == {(1, 7)}


def test_l1_below_a_tenth_of_the_noise_counts_as_that():
    """Floors of .001: l1 of 0 and .0005 are alike, .002 is twice as much."""
    rng = np.random.default_rng(3)
    rest = models([rng.normal(-1.5, 0.3, 4) for _ in range(5)], 3)
    tiny = [
        run(number, dict.fromkeys(HIGH, 99.0), l1=l1) for number, l1 in enumerate((0, 5e-4, 2e-3))
    ]
    at_hand = pool([*tiny, *rest])
    assert at_hand.difference(paired(tiny[0], tiny[1])).mean == 0
    assert at_hand.difference(paired(tiny[2], tiny[0])).mean == pytest.approx(math.log(2))
    truth = store.load(LOW[0])
    assert noise_of(truth) == truth.distances[truth.scheme].mean() > 0
    # BLS prints a tenth of a per cent.
    assert noise_of(store.load("epidemia_low_bls_sex_by_occupation")) == 0.0005


def test_low_and_high_together(tmp_path):
    """One verdict over the outcomes of both, beside the groups' own; cocaine is in both groups."""
    both = [*LOW, *HIGH]
    for model, at in (("a", lambda place: 60.0 + place), ("b", lambda place: 50.0)):
        values = {task: (at(place), 0.1) for place, task in enumerate(both)}
        write(tmp_path / model, values, model)
    write(tmp_path / "low", dict.fromkeys(LOW, (40.0, 0.1)), "low")
    found = table("pairs", tmp_path).set_index(["group", "model", "other"])
    together = found.loc["epidemia_low + epidemia_high"]
    # Who was asked one group alone has the group's own verdict only.
    ((row,), index) = together.to_dict("records"), together.index
    assert [*index] == [("a", "b")] and row["verdict"] == "better"
    assert (row["tasks"], row["outcomes"]) == (12, 11)
    # 0.1 for each side of each of twelve tasks.
    assert row["population_error"] == pytest.approx(0.1 * math.sqrt(2 / 12))
    assert found.loc["epidemia_high", "a", "b"]["verdict"] == "better here"


def test_nothing_is_said_of_two_versions_by_a_prediction(tmp_path):
    """Two quick looks 30 apart; of the tasks themselves the same numbers are told apart."""
    tasks = [*LOW, "epidemia_quick_low", "epidemia_quick_high"]
    for model, at in (("m", 50.0), ("m-instruct", 80.0)):
        write(tmp_path / model, dict.fromkeys(tasks, (at, 0.1)), model)
    for name in ("versions", "pairs"):
        assert {*table(name, tmp_path)["group"]} == {"epidemia_low"}
    ranks = by(table("leaderboard", tmp_path), "model", "group", of="rank")
    assert {rank for (_, group), rank in ranks.items() if group == "epidemia_quick"} == {""}
    assert ranks["m-instruct", "epidemia_low"] == "1 of 2"


def test_the_row_of_who_knows_the_population_is_of_letters(tmp_path):
    """Written and drawn answers of NHANES are in the table; the last row has no number there."""
    tasks = [name for name, _ in members("epidemia_low_nhanes")]
    names = [*tasks[:2], f"{tasks[2]}_stated", f"{tasks[3]}_sampled"]
    write(tmp_path, dict.fromkeys(names, (60.0, 0.1)), "a")
    found = by(table("population", tmp_path), "kind", "group")
    by_letters = population_known_over(tasks[:2])
    assert by_letters["tasks"] == 2 and found == {
        **{("run", f"epidemia_low{way}"): 60.0 for way in ("", "_stated", "_sampled")},
        ("respondent", "epidemia_low"): by_letters["value"],
    }


def test_ranks_are_of_one_limit():
    """Two runs each of two limits: nobody is first of all four, and a lone run has no rank."""
    runs = [
        run(number, dict.fromkeys(LOW, 50.0), asked_as=f"limit={limit}")
        for number, limit in enumerate((4, 4, 8, 8, 16))
    ]
    can = dict.fromkeys(range(5), True)
    *ranked, alone = standings(pd.concat(runs), "epidemia_low", can, pool(runs)).values()
    assert {(place.best, place.worst, place.among) for place in ranked} == {(1, 2, 2)}
    assert (alone.best, alone.worst, alone.complete) == (None, None, True)
