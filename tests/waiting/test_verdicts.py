"""What is said of other outcomes, of the population, and of log l1; and the ranks that follow."""

import math

import numpy as np
import pytest
from lm_eval_epidemia.old.findings import head_to_head, leaderboard, overview, pool, ranks
from lm_eval_epidemia.old.findings.comparison import TOO_FEW, compare_entries
from lm_eval_epidemia.old.findings.pool import Pool
from lm_eval_epidemia.old.findings.reference import population_known_over
from lm_eval_epidemia.old.report.sections import printed, tidy
from lm_eval_epidemia.results.results import Results

from lm_eval_epidemia.benchmarks import members
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.score.joint import Draws
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


def entry(model, scores, l1=None, population=None, error=0.1, **more):
    """Numbers by task; errors are independent. The population's score is alike if not given."""
    draws, scored = Draws("", np.empty(0), error), {}
    for task, value in scores.items():
        metrics = {
            "l1": (l1 or {}).get(task, 0.1),
            "score_population": (population or {}).get(task, value),
        }
        scored[Asked(task, "letters")] = TaskScore(value, draws, metrics, draws)
    return Entry(model, scores=scored, **more)


def models(logs):
    """Models by the log of their l1 in each task of `HIGH`; scores are 100 (1 - l1)."""
    made = []
    for name, log in logs.items():
        l1 = dict(zip(HIGH, map(float, np.exp(log)), strict=True))
        made.append(entry(name, {task: 100 * (1 - x) for task, x in l1.items()}, l1))
    return made


def test_here_needs_the_population_too():
    """Of one task: score 10 apart, against the population 0.2, errors of both sqrt(0.02) = .14."""
    one, other = entry("a", {LOW[0]: 60.0}), entry("b", {LOW[0]: 50.0})
    assert compare_entries(one, other, "epidemia_low").verdict == "better here"
    for population, verdict in ((50.2, "not shown"), (50.3, "better here"), (40.0, "not shown")):
        one = entry("a", {LOW[0]: 60.0}, population={LOW[0]: population})
        compared = compare_entries(one, other, "epidemia_low")
        assert compared.population == pytest.approx(population - 50)
        assert compared.population_here == pytest.approx(math.sqrt(0.02))
        assert compared.verdict == verdict, population
        # Won by twice its error, .283.
        assert compared.wins == (population == 50.3)
    unknown = entry("a", {LOW[0]: 60.0}, population={LOW[0]: math.nan})
    assert compare_entries(unknown, other, "epidemia_low").verdict == "not shown"
    # Nothing of this kind is asked where there is no such score.
    task = "epidemia_intervention_random"
    sure = [entry(name, {task: value}, error=0.01) for name, value in (("a", 0.9), ("b", 0.5))]
    for each in sure:
        each.scores = {a._replace(way="intervention"): s for a, s in each.scores.items()}
    compared = compare_entries(*sure, "epidemia_intervention")
    assert compared.population is None and compared.verdict == "better here"


def test_eight_outcomes_say_something_of_others_and_seven_do_not():
    other = entry("b", dict.fromkeys(LOW, 50.0))
    one = entry("a", {task: 60.0 + place for place, task in enumerate(LOW)})
    eight = compare_entries(one, other, "epidemia_low")
    assert eight.verdict == "better" and eight.across.low > 0
    assert eight.across.half_width == pytest.approx(eight.across.high - eight.across.difference)
    seven = compare_entries(one, other, "epidemia_low", sorted(one.scores)[:7])
    assert seven.verdict == "better here"
    assert math.isnan(seven.across.low) and seven.across.half_width > 0
    finding = head_to_head._finding("ways", [head_to_head._row(seven, one)], "", "", "")
    (row,) = printed(finding).rows
    assert f"± {seven.across.half_width:.1f}: {TOO_FEW}" in row
    (numbers,) = tidy(finding)
    assert numbers["outcomes"] == 7 and numbers["half_width"] == seven.across.half_width


def test_an_interval_is_cut_where_the_scale_ends():
    """Six differences of 100 and two of -100: mean 50, sd 92.6, 50 + 2.365 * 92.6 / sqrt(8) = 127.

    Of one of each: 12.7 * 100 to either side of 0.
    """
    other = entry("b", {task: 100.0 * (place < 2) for place, task in enumerate(LOW)})
    one = entry("a", {task: 100.0 * (place >= 2) for place, task in enumerate(LOW)})
    cut = compare_entries(one, other, "epidemia_low")
    assert (cut.across.difference, cut.across.high) == (50.0, 100.0)
    assert cut.across.low == pytest.approx(50 - 77.4, abs=0.1) and cut.verdict == "better here"
    two = compare_entries(one, other, "epidemia_low", [Asked(LOW[n], "letters") for n in (0, 7)])
    assert (two.across.difference, two.across.half_width) == (0, 100)


def test_log_l1_decides_from_four_outcomes_where_others_tell_how_it_varies():
    """Four outcomes, one task each; the others' pairs tell a variance, the pair's own is shrunk."""
    rng = np.random.default_rng(1)
    others = {f"m{m}": rng.normal(-1.5, 0.3, 4) for m in range(5)}
    logs = {"a": np.array([-2.6, -2.5, -2.7, -2.6]), "b": np.array([-1.2, -1.0, -1.4, -0.9])}
    one, other, *rest = everybody = models({**logs, **others})
    known = Pool(everybody, NOISE)
    compared = compare_entries(one, other, "epidemia_high", pool=known)
    # Its own route: every pair of the others by itself, as if it were the one compared.
    outcomes = range(4)
    pairs = [(x, y) for m, x in enumerate(others.values()) for y in list(others.values())[:m]]
    variances = [clustered(x - y, outcomes).error ** 2 for x, y in pairs]
    own = clustered(logs["a"] - logs["b"], outcomes)
    shrunk = moderated(own, prior_of(variances, 3.0), 5 * 3.0)
    assert len(pairs) == 10 and compared.across.clusters == 4
    assert math.log(compared.across.ratio) == pytest.approx(own.mean)
    assert math.log(compared.across.ratio_high) == pytest.approx(own.mean + shrunk.reach(0.95))
    assert math.log(compared.across.ratio_low) == pytest.approx(own.mean - shrunk.reach(0.95))
    assert compared.across.ratio_high < 1 and compared.verdict == "better"
    assert compare_entries(other, one, "epidemia_high", pool=known).verdict == "worse"
    # A row of one of the two, in another setting, says nothing of others; nor do six pairs.
    (twin,) = models({"a": logs["a"]})
    twin.twin = 1
    for few in ([one, other, *rest[:4]], [one, other, *rest[:4], twin], []):
        compared = compare_entries(one, other, "epidemia_high", pool=Pool(few, NOISE))
        assert math.isnan(compared.across.ratio) and compared.verdict == "better here"
    # Three outcomes are too few on this scale too.
    three = compare_entries(one, other, "epidemia_high", sorted(one.scores)[:3], known)
    assert math.isnan(three.across.ratio) and three.verdict == "better here"


def test_ranks_follow_the_same_tests():
    rng = np.random.default_rng(2)
    logs = {f"m{m}": rng.normal(-1.2, 0.1, 4) for m in range(6)}
    entries = models({"best": np.full(4, -3.0), **logs})
    ranked = ranks.standings(entries, "epidemia_high", NOISE)
    assert (ranked["best"].best, ranked["best"].worst, ranked["best"].among) == (1, 1, 7)
    assert min(ranked[name].best for name in logs) == 2
    # Without D0 there is no log l1, and four outcomes say nothing.
    ranked = ranks.standings(entries, "epidemia_high")
    assert {(place.best, place.worst) for place in ranked.values()} == {(1, 7)}


def test_l1_below_a_tenth_of_the_noise_counts_as_that():
    """Floors of .001: l1 of 0 and .0005 are alike, .002 is twice as much."""
    rng = np.random.default_rng(3)
    rest = models({f"m{m}": rng.normal(-1.5, 0.3, 4) for m in range(5)})
    tiny = [
        entry(name, dict.fromkeys(HIGH, 99.0), dict.fromkeys(HIGH, l1))
        for name, l1 in (("a", 0.0), ("b", 0.0005), ("c", 0.002))
    ]
    tasks = sorted(tiny[0].scores)
    at_hand = Pool([*tiny, *rest], NOISE)
    assert at_hand.difference(tiny[0], tiny[1], tasks).mean == 0
    assert at_hand.difference(tiny[2], tiny[0], tasks).mean == pytest.approx(math.log(2))
    truth = store.load(LOW[0])
    assert pool.noise_of(truth) == truth.distances[truth.scheme].mean() > 0
    # BLS prints a tenth of a per cent.
    assert pool.noise_of(store.load("epidemia_low_bls_sex_by_occupation")) == 0.0005


def test_low_and_high_together():
    """One verdict over the outcomes of both, beside the groups' own; cocaine is in both groups."""
    both = [*LOW, *HIGH]
    one = entry("a", {task: 60.0 + place for place, task in enumerate(both)})
    other = entry("b", dict.fromkeys(both, 50.0))
    low = entry("low", dict.fromkeys(LOW, 40.0))
    report = leaderboard.make_report(Results([one, other, low], [], []))
    compared = {(p.column, p.one, p.other): p for p in leaderboard.comparisons(report) if p.tasks}
    together = compared["epidemia_low + epidemia_high", "a", "b"]
    assert (together.tasks, together.across.clusters) == (12, 11)
    assert together.verdict == "better"
    assert compared["epidemia_high", "a", "b"].verdict == "better here"
    # Who was asked one group alone has the group's own verdict only.
    assert {key[2] for key in compared if key[0] == together.column} == {"b"}
    tables = head_to_head.models(report, compared.values())
    rows = [row for table in tables for row in tidy(table)]
    (row,) = [row for row in rows if row["group"] == together.column]
    assert row["population"] == pytest.approx(together.population)
    assert row["population_stderr"] == pytest.approx(together.population_here)
    assert f"Pairs of models, {together.column}" in [table.title for table in tables]


def test_nothing_is_said_of_two_versions_by_a_prediction():
    """Two quick looks 30 apart; of the tasks themselves the same numbers are told apart."""
    leaves = [Asked(f"epidemia_quick_{part}", "quick") for part in ("low", "high")]
    pair = [entry(name, dict.fromkeys(LOW, at)) for name, at in (("m", 50.0), ("m-instruct", 80.0))]
    for each, at in zip(pair, (50.0, 80.0), strict=True):
        each.scores |= dict.fromkeys(leaves, TaskScore(at, Draws("", np.empty(0), 0.1)))
    report = leaderboard.make_report(Results(pair, [], []))
    assert "epidemia_quick" in report.columns
    of_versions = [pair for _, pair, _ in head_to_head.versions_compared(report)]
    for made in (of_versions, leaderboard.comparisons(report)):
        assert {comparison.column for comparison in made} == {"epidemia_low"}
    assert {place.best for place in report.standings["epidemia_low"].values()} == {1, 2}
    assert {place.best for place in report.standings["epidemia_quick"].values()} == {None}


def test_the_row_of_who_knows_the_population_is_of_letters():
    """Written and drawn answers of NHANES are in the table; the last row has no number there."""
    tasks = [name for name, _ in members("epidemia_low_nhanes")]
    one = entry("a", dict.fromkeys(tasks[:2], 60.0))
    for way, task in (("stated", tasks[2]), ("sampled", tasks[3])):
        one.scores[Asked(task, way)] = one.scores[Asked(tasks[0], "letters")]
    report = leaderboard.make_report(Results([one], [], []))
    finding = overview.population(report)
    asked, known = finding.rows
    columns = ("epidemia_low", "epidemia_low_stated", "epidemia_low_sampled")
    assert [asked.cells[column].value for column in columns] == [60.0] * 3
    by_letters = population_known_over(tasks[:2])
    assert known.cells[columns[0]] == by_letters and by_letters.tasks == 2
    assert all(math.isnan(known.cells[column].value) for column in columns[1:])
    assert printed(finding).rows[-1][-2:] == ["", ""]


def test_ranks_are_of_one_limit():
    """Two runs each of two limits: nobody is first of all four, and a lone run has no rank."""
    tasks = dict.fromkeys(LOW, 50.0)
    cut = {x: Protocol(incomplete=True, limit=x) for x in ("4", "8", "16")}
    runs = [entry(f"m{x}{y}", tasks, protocol=cut[x]) for x in ("4", "8") for y in "ab"]
    ranked = ranks.standings([*runs, entry("lone", tasks, protocol=cut["16"])], "epidemia_low")
    assert {(ranked[run.name].best, ranked[run.name].among) for run in runs} == {(1, 2)}
    alone = next(place for name, place in ranked.items() if name.startswith("lone"))
    assert (alone.best, alone.worst, alone.complete) == (None, None, True)
