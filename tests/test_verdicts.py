"""What is said of two models here and elsewhere: paired comparisons, log l1, ranks, and scales."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from report_parts import COCAINE, EIGHT, HEROIN, NOBODY, RACE, asked, by, scored, table, write
from scipy import stats
from test_paired import prior_of

from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.compare import (
    CONFIDENCE,
    Pool,
    compare_runs,
    compare_scores,
    noise_of,
    ranked_tasks,
    standings,
)
from lm_eval_epidemia.findings.references import score_population
from lm_eval_epidemia.results.choose import KEY, join_scores
from lm_eval_epidemia.score.clustered import average_clusters
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.joint import Draws
from lm_eval_epidemia.surveys.catalogue import all_tasks

TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "reports.yaml").read_text("utf-8"))
EMPLOYER, SALARY = EIGHT[2:4]
#: Four outcomes of high, one task each.
HIGH = [
    *(f"epidemia_high_nsduh_{outcome}_ever_by_sex_race" for outcome in ("cocaine", "marijuana")),
    "epidemia_high_meps_insured_by_education_sex",
    "epidemia_high_scf_home_ownership_by_age_education",
]
EVEN = dict.fromkeys(EIGHT, 50.0)


def run(number, scores, error=0.1, **more):
    """Numbers by task; errors are independent. The population's score is alike if not given."""
    return scored(scores, asked(error), number, **more)


def models(logs, first=0):
    """Models by the log of their l1 in each task of `HIGH`; scores are 100 (1 - l1)."""
    return [
        run(number, dict(zip(HIGH, 100 * (1 - np.exp(log)), strict=True)), l1=np.exp(log))
        for number, log in enumerate(logs, first)
    ]


def pool(runs):
    return Pool(pd.concat(runs, ignore_index=True), dict.fromkeys([*EIGHT, *HIGH], 0.01))


def ranked(runs, group="epidemia_low", among=NOBODY, beside=()):
    """Stand runs in a group, but for those that are only beside the models."""
    can = {number: number not in beside for number in range(len(runs))}
    return standings(pd.concat(runs), group, can, among)


def places(standing):
    return [tuple(None if math.isnan(x) else x for x in one[:2]) for one in standing.values()]


def test_a_comparison_counts_outcomes_not_tasks():
    """Two outcomes of NSDUH and two of the ACS; the two heroin tasks move together.

    d = 10 (cocaine), 20, 20 (heroin by age, by race), 30 (employer): mean 20. Sums of deviations by
    outcome: -10, 0, 10. CR2: sqrt((100 + 100) / (1 - 1/4)) / 4 = 4.0825. Degrees of freedom: 16 /
    (1 + 4 + 1 + 2 (4/6 + 1/9 + 4/6)) = 1.8.
    """
    one = run(0, {COCAINE: 60, HEROIN: 70, RACE: 70, EMPLOYER: 80}, 1.0)
    other = run(1, {**EVEN, RACE: 50}, 1.0)
    found, back = compare_scores(one, other, NOBODY), compare_scores(other, one, NOBODY)
    assert (found.tasks, found.outcomes, found.difference) == (4, 3, 20.0)
    assert found.error == pytest.approx(math.sqrt(200 / 0.75) / 4)
    assert found.half_width == pytest.approx(found.error * stats.t.ppf(0.975, 1.8))
    assert (found.wins, found.ties, found.losses) == (4, 0, 0)
    # Three outcomes say nothing of others.
    assert found.verdict == "better here" and math.isnan(found.low) and math.isnan(found.high)
    assert (back.difference, back.losses, back.verdict) == (-20.0, 4, "worse here")
    assert compare_scores(one, run(1, {SALARY: 1})) is None
    lone = compare_scores(*(run(score, {COCAINE: score}) for score in (90, 10)), NOBODY)
    assert math.isnan(lone.error) and lone.verdict == "better here"


#: What one of two models has more of, in eight outcomes; and what is said.
MORE = [
    ({task: 60.0 + place for place, task in enumerate(EIGHT)}, "better"),
    ({HEROIN: 50.5, EMPLOYER: 80.0}, "better here"),  # uneven
    ({EMPLOYER: 50.4}, "not shown"),
    (dict.fromkeys(EIGHT, 50.1), "not shown"),  # by less than the scores' own errors
]


@pytest.mark.parametrize(("more", "verdict"), MORE)
def test_eight_outcomes_say_something_of_others_and_seven_do_not(more, verdict):
    one, other = run(0, EVEN | more, 1.0), run(1, EVEN, 1.0)
    eight, seven = compare_scores(one, other), compare_scores(one[1:], other)
    assert eight.verdict == verdict and (eight.low > 0) == (more.keys() == EVEN.keys())
    assert eight.half_width == pytest.approx(eight.high - eight.difference)
    assert seven.outcomes == 7 and math.isnan(seven.low) and seven.half_width >= 0
    assert seven.verdict == ("better here" if "better" in verdict else verdict)
    # Nobody is first by what is not shown elsewhere.
    found = [(1, 1), (2, 2)] if verdict == "better" else [(1, 2)] * 2
    assert places(ranked([one, other])) == found


def test_here_needs_the_population_too():
    """Of one task: score 10 apart, against the population 0.2, errors of both sqrt(0.02) = .14."""
    one, other = run(0, {COCAINE: 60.0}), run(1, {COCAINE: 50.0})
    for population, verdict in ((50.2, "not shown"), (50.3, "better here"), (40.0, "not shown")):
        compared = compare_scores(one.assign(score_population=population), other)
        assert compared.population == pytest.approx(population - 50)
        assert compared.population_error == pytest.approx(math.sqrt(0.02))
        assert compared.verdict == verdict, population
        # Won by twice its error, .283.
        assert compared.wins == (population == 50.3)
    assert compare_scores(one.assign(score_population=math.nan), other).verdict == "not shown"
    # Nothing of this kind is asked where there is no such score.
    task = "epidemia_intervention_random"
    sure = [run(n, {task: x}, 0.01, way="intervention") for n, x in enumerate((0.9, 0.5))]
    compared = compare_scores(*sure)
    assert math.isnan(compared.population) and compared.verdict == "better here"


def test_an_interval_is_cut_where_the_scale_ends():
    """Six differences of 100 and two of -100: mean 50, sd 92.6, 50 + 2.365 * 92.6 / sqrt(8) = 127.

    Of one of each: 12.7 * 100 to either side of 0.
    """
    other = run(1, {task: 100.0 * (place < 2) for place, task in enumerate(EIGHT)})
    one = run(0, {task: 100.0 * (place >= 2) for place, task in enumerate(EIGHT)})
    cut, two = compare_scores(one, other), compare_scores(one.iloc[[0, 7]], other)
    assert (cut.difference, cut.high) == (50.0, 100.0)
    assert cut.low == pytest.approx(50 - 77.4, abs=0.1) and cut.verdict == "better here"
    assert (two.difference, two.half_width) == (0, 100)


def test_log_l1_decides_from_four_outcomes_where_others_tell_how_it_varies():
    """Four outcomes, one task each; the others' pairs tell a variance, the pair's own is shrunk."""
    rng = np.random.default_rng(1)
    others = [rng.normal(-1.5, 0.3, 4) for _ in range(5)]
    a, b = np.array([-2.6, -2.5, -2.7, -2.6]), np.array([-1.2, -1.0, -1.4, -0.9])
    one, other, *rest = everybody = models([a, b, *others])
    known = pool(everybody)
    compared = compare_scores(one, other, known)
    # Its own route: every pair of the others by itself, as if it were the one compared.
    pairs = [(x, y) for m, x in enumerate(others) for y in others[:m]]
    variances = [average_clusters(x - y, range(4)).error ** 2 for x, y in pairs]
    own = average_clusters(a - b, range(4))
    prior = prior_of(variances, 3.0)
    # Shrunk towards the prior: (d0 s0^2 + d s^2) / (d0 + d); five of the models make 15 at most.
    freedom = prior.freedom + 3.0
    error = math.sqrt((prior.freedom * prior.variance + 3.0 * own.error**2) / freedom)
    reach = error * stats.t.ppf(0.975, min(freedom, 5 * 3.0))
    assert len(pairs) == 10 and compared.outcomes == 4
    ratios = compared.l1_ratio, compared.l1_ratio_low, compared.l1_ratio_high
    assert np.log(ratios) == pytest.approx([own.mean, own.mean - reach, own.mean + reach])
    assert compared.l1_ratio_high < 1 and compared.verdict == "better"
    assert compare_scores(other, one, known).verdict == "worse"
    # Ranks follow the same tests.
    found = ranked(everybody, "epidemia_high", known)
    assert places(found)[0] == (1, 1) and found[0].among == 7
    assert min(found[number].best for number in range(1, 7)) == 2
    # Without D0 there is no log l1, and four outcomes say nothing.
    without = Pool(pd.concat(everybody), {})
    assert {*places(ranked(everybody, "epidemia_high", without))} == {(1, 7)}
    # A row of one of the two, in another setting, says nothing of others; nor do six pairs, nor
    # three outcomes on this scale too.
    (twin,) = models([a], 7)
    few = [one, other, *rest[:4]]
    for tasks, runs in ((4, few), (4, [*few, twin.assign(model="m0")]), (4, [twin]), (3, [])):
        compared = compare_scores(one[:tasks], other, pool(runs) if runs else known)
        assert math.isnan(compared.l1_ratio) and compared.verdict == "better here"


def test_l1_below_a_tenth_of_the_noise_counts_as_that():
    """Floors of .001: l1 of 0 and .0005 are alike, .002 is twice as much."""
    rng = np.random.default_rng(3)
    rest = models([rng.normal(-1.5, 0.3, 4) for _ in range(5)], 3)
    tiny = [run(n, dict.fromkeys(HIGH, 99.0), l1=l1) for n, l1 in enumerate((0, 5e-4, 2e-3))]
    at_hand = pool([*tiny, *rest])
    off, _ = at_hand.bounds([0, 1, 2], join_scores(tiny[0], tiny[1]), CONFIDENCE)
    assert off[0, 1] == 0 and off[2, 0] == pytest.approx(math.log(2))
    truth = store.load_truth(COCAINE)
    assert noise_of(truth) == truth.distances[truth.scheme].mean() > 0
    # BLS prints a tenth of a per cent.
    assert noise_of(store.load_truth("epidemia_low_bls_sex_by_occupation")) == 0.0005


def test_only_who_was_asked_everything_alike_is_ranked():
    """Who only is beside the models, was asked a part, or under another limit, has no rank."""
    scores = [dict.fromkeys(EIGHT, x) for x in (90.0, 10.0, 50.0)] + [{COCAINE: 95.0}]
    found = ranked([run(*of, 1.0) for of in enumerate(scores)], beside=[2])
    assert places(found) == [(1, 1), (2, 2), (None, None), (None, None)]
    limits = enumerate((4, 4, 8, 8, 16))
    found = ranked([run(number, EVEN, asked_as=f"limit={limit}") for number, limit in limits])
    assert places(found) == [*[(1, 2)] * 4, (None, None)]
    assert [one.among for one in found.values()] == [2, 2, 2, 2, 1]


@pytest.mark.parametrize(("several", "shared", "with_rank"), TABLES["ranked"])
def test_what_a_ranking_is_over(several, shared, with_rank):
    known = dict(zip("12345", sorted([COCAINE, HEROIN, RACE, EMPLOYER, SALARY]), strict=True))
    assert ranked_tasks([frozenset(tasks) for tasks in several]) == {*shared}
    scores = [{known[x]: 1.0 for x in tasks} for tasks in several]
    found = ranked([run(*of) for of in enumerate(scores)])
    assert [number for number, one in found.items() if one.best > 0] == with_rank


def test_low_and_high_together(tmp_path):
    """One verdict over the outcomes of both, beside the groups' own; cocaine is in both groups.

    Who was asked one group alone has the group's own verdict only. A task more is no other rank.
    """
    both = [*EIGHT, *HIGH]
    write(tmp_path / "a", {task: (60.0 + place, 0.1) for place, task in enumerate(both)}, "a")
    write(tmp_path / "b", dict.fromkeys(both, (50.0, 0.1)) | {RACE: (10.0, 0.1)}, "b")
    write(tmp_path / "low", dict.fromkeys(EIGHT, (40.0, 0.1)), "low")
    found = table("pairs", tmp_path).set_index(["group", "model", "other"])
    (row,) = found.loc["epidemia_low + epidemia_high"].reset_index().to_dict("records")
    assert (row["model"], row["other"], row["verdict"]) == ("a", "b", "better")
    assert (row["tasks"], row["outcomes"]) == (12, 11)
    # 0.1 for each side of each of twelve tasks.
    assert row["population_error"] == pytest.approx(0.1 * math.sqrt(2 / 12))
    assert found.loc["epidemia_high", "a", "b"]["verdict"] == "better here"
    board = table("leaderboard", tmp_path).set_index(["group", "model"]).loc["epidemia_low"]
    assert [*board["rank"][["a", "b", "low"]]] == ["1 of 3", "2 of 3", "3 of 3"]
    assert {*board["rank_shared"][["a", "b"]]} == {8} and board["part"]["b"] == "9 tasks"


def test_nothing_is_said_of_two_versions_by_a_prediction(tmp_path):
    """Two quick looks 30 apart. None is ranked either: see test_quick."""
    tasks = [*EIGHT, "epidemia_quick_low", "epidemia_quick_high"]
    for model, at in (("m", 50.0), ("m-instruct", 80.0)):
        write(tmp_path / model, dict.fromkeys(tasks, (at, 0.1)), model)
    for name in ("versions", "pairs"):
        assert {*table(name, tmp_path)["group"]} == {"epidemia_low"}


def test_the_row_of_who_knows_the_population_is_of_letters(tmp_path):
    """Written and drawn answers of NHANES are in the table; the last row has no number there."""
    tasks = [name for name, _ in find_tasks("epidemia_low_nhanes")]
    names = [*tasks[:2], f"{tasks[2]}_stated", f"{tasks[3]}_sampled"]
    write(tmp_path, dict.fromkeys(names, (60.0, 0.1)), "a")
    found = by(table("population", tmp_path), "kind", "group")
    known = score_population(tasks[:2])
    assert found.pop(("respondent", "epidemia_low")) == known["value"] and known["tasks"] == 2
    assert found == {("run", f"epidemia_low{way}"): 60.0 for way in ("", "_stated", "_sampled")}


def test_intervals_of_the_truth():
    """Jeffreys' interval for 10 of 100: Beta(10.5, 90.5), its density integrated anew."""
    low, high = interval(np.array([[0.1, 0.9], [0.0, 1.0]]), np.array([100.0, 100.0]))
    x = np.linspace(0, 1, 200_001)[1:-1]
    density = np.exp(9.5 * np.log(x) + 89.5 * np.log1p(-x))
    expected = np.interp([0.025, 0.975], np.cumsum(density) / density.sum(), x)
    assert (low[0, 0], high[0, 0]) == pytest.approx(tuple(expected), abs=1e-5)
    assert low[1, 0] == 0 and high[1, 1] == 1 and 0.02 < high[1, 0] < 0.03
    exact = interval(np.array([[0.3, 0.7]]), np.array([np.inf]))
    assert exact[0].tolist() == exact[1].tolist() == [[0.3, 0.7]]


# Many models: arrays over all pairs say what one pair after another says.


ALL_LOW, ALL_HIGH = (
    sorted(name for name in all_tasks() if name.startswith(f"epidemia_{group}_"))
    for group in ("low", "high")
)


def drawn_model(run, tasks, random, faults):
    """A model of some skill; with faults, some tasks are of other samples, or of no population."""
    made = scored(dict.fromkeys(tasks, 0.0), run=run, model=f"model-{run % 8}")
    made["value"] = np.clip(random.normal(50 + 10 * random.uniform(0, 2), 4, len(tasks)), 0, 100)
    made["l1"] = 1 - made["value"] / 100
    for row, (task, value) in enumerate(zip(tasks, made["value"], strict=True)):
        survey, at = task.split("_")[2], np.clip(random.normal(value, 2, 20), 0, 100)
        sample = f"{survey} {int(faults and random.random() < 0.01)}"
        drawn = Draws(sample, at, random.choice([0, 1.0]), at + random.normal(0, 1, 20))
        population = Draws(sample, at * 0.9, uncut=value * random.uniform(0.8, 1.4))
        made.loc[row, "score_population"] = min(population.uncut, 100)
        made.at[row, "draws"] = Draws("", np.array([]), 0.0) if survey == "bls" else drawn
        made.at[row, "population"] = None if faults and random.random() < 0.005 else population
    return made


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize(
    "tasks", [ALL_LOW[::4], ALL_HIGH[::6], ALL_LOW[:3]], ids=["low", "high", "few"]
)
def test_all_pairs_at_once_are_single_pairs(tasks, faults):
    for seed in range(2):
        random = np.random.default_rng(seed)
        made = [drawn_model(run, tasks, random, faults) for run in range(9)]
        if faults:  # and twins
            made[4] = made[3].assign(run=4)
        scores = pd.concat(made, ignore_index=True)
        pool = Pool(scores, dict.fromkeys(tasks, 0.05))
        asked = sorted(zip(*(made[0][name] for name in KEY), strict=True))
        group = "_".join(tasks[0].split("_")[:2])
        expected = np.zeros((9, 9))
        for i, j in combinations(range(9), 2):
            verdict = compare_scores(made[i], made[j], pool).verdict
            expected[i, j] = {"better": 1, "worse": -1}.get(verdict, 0)
            expected[j, i] = -expected[i, j]
        assert (compare_runs(scores, group, range(9), asked, pool) == expected).all()
        assert expected.any() == (len(tasks) > 3)
