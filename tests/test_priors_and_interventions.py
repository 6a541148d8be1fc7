"""What findings say of stated priors and of interventions: of real runs, and as published."""

import json
import math
import re
import shutil
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import by, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks.intervention import INTERVENTION, graph, questions
from lm_eval_epidemia.benchmarks.intervention.metrics import (
    grade_effects,
    measure_change,
    read_said,
)
from lm_eval_epidemia.benchmarks.prior import judged, metrics
from lm_eval_epidemia.benchmarks.prior.quantities import families, quantity, store
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.findings import compare, find, interventions, priors
from lm_eval_epidemia.findings.finding import ALIKE_NOTE
from lm_eval_epidemia.results import naming, published
from lm_eval_epidemia.score import estimates, joint

PRIOR, NHANES = "epidemia_prior", "epidemia_prior_nhanes"
TRUTH, CALIBRATED, SURE = KINDS = ("truth", "calibrated,noise=1", "overconfident,noise=2")
PLAIN, NAMES = "epidemia_intervention", ("random", "tuebingen", "anticommonsense")
RANDOM, TUEBINGEN, ANTI = TASKS = [f"{PLAIN}_{names}" for names in NAMES]
#: How models are called, at the end, who was asked of graphs.
NOISY, RETRIEVAL, KNOWS = "kind=noisy, noise=0.7)", "kind=retrieval", "(kind=truth)"
KNOWER = "knows the population (baseline)"
#: Every published score of the study of interventions, by task, way and model.
SCORES = {(task, way, model): value for task, way, model, value, _ in published._intervened()}

#: Who is asked, and what: what was asked of one alone need not be asked of all.
USUAL = [PLAIN + way for way in ("", "_retrieval", "_large_03", "_large_06")]
ASKED = {f"prior/{kind}": [NHANES] for kind in KINDS}
OTHER_WAYS = [NHANES + way for way in ("_mean_variance", "_direct_choice", "_grid")]
ASKED[f"prior/{CALIBRATED}"] += OTHER_WAYS
ASKED |= {"graphs/truth": USUAL, "graphs/retrieval": USUAL}
ASKED["graphs/noisy,noise=0.7"] = [*USUAL, f"{PLAIN}_substitution", f"{PLAIN}_knowledge"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for of, tasks in ASKED.items():
        copied_run(tmp_path_factory, folder / of, tasks, model_args=f"kind={of.partition('/')[2]}")
    return folder


@pytest.fixture(scope="module")
def results(runs):
    return read_runs([runs], published=True)


def row_of(table, model, part, about="", groups=(PRIOR, PLAIN)):
    """Return the row of a model (its end), a part, what it is about, and a group of these."""
    rows = table[table["model"].str.endswith(model) & table["group"].isin(groups)]
    (row,) = rows[(rows["asked"] == about) & (rows["part"] == part)].itertuples()
    return row


@pytest.fixture(scope="module")
def seen(results):
    """Return a row as `row_of`, by the name of its finding."""
    table = cache(lambda name: find(name)(results).table)
    return lambda name, *of: row_of(table(name), *of)


def scores_of(results, model="", way="direct", task=NHANES):
    scores = results.scores[(results.scores["way"] == way) & (results.scores["task"] == task)]
    return scores[scores["run"].map(results.runs["model"]).str.contains(model, regex=False)]


def said_by(results, *of):
    (said,) = scores_of(results, *of)["said"]
    return said


def of_mean(values):
    """A mean and its error."""
    return pytest.approx((np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))))


def jackknife(left):
    """The jackknife over quantities, to which the linearised error is the first order."""
    return math.sqrt((1 - 1 / len(left)) * ((left - left.mean()) ** 2).sum())


def check(row, values):
    """A mean with its error, and Student's t around it."""
    assert (row.value, row.error) == of_mean(values)
    t = stats.t.interval(0.95, len(values) - 1, row.value, row.error)
    assert (row.low, row.high) == pytest.approx(t) and row.samples == len(values)


def respondent(task, load=questions.make_questions):
    """Return truth, log-odds, and what was right, of the noisy respondent."""
    truth = load(task)
    p = INTERVENTION.answers(truth, "noisy", 0.7, 0)
    odds = np.log(p[:, 0] / p[:, 1])
    return truth, odds, grade_effects(truth, odds, np.ones(len(odds), dtype=bool))


def by_hand(task, shape, intervened, *queries):
    """Mean over the (given) queries of each sample, by the sample's number: plain loops."""
    truth, _, found = respondent(task)
    of_samples = {}
    for (scene, effect, *_), right in zip(truth.pairs, found.right, strict=True):
        asked = not queries or effect.cause + effect.result in queries
        if asked and (scene.shape, effect.intervened) == (shape, intervened):
            of_samples.setdefault(scene.sample, []).append(right)
    return {sample: np.mean(of) for sample, of in of_samples.items()}


# Priors: the numbers.


def test_errors_and_wins_are_means_over_quantities(results, seen):
    truth, of = store.load_quantities(NHANES), said_by(results, CALIBRATED).judged
    errors, samples, wins = of.error, of.baseline_error, of.wins
    check(seen("priors", CALIBRATED, "mean of error ratios"), errors / samples[:, 0])
    # A tenth of what so many independent people are off by is about 0, and no win.
    tenths = 0.1 * np.sqrt(2 / np.pi / np.array(quantity.SIZES))
    kept = samples > tenths * truth.column("sd")[:, None]
    assert (~kept).sum() == 8
    for place, size in enumerate(quantity.SIZES):
        check(seen("wins", CALIBRATED, f"N = {size}"), wins[kept[:, place], place])
    # A ratio of means, with the error of one.
    mine, theirs = (x / truth.column("marginal_sd") for x in (errors, samples[:, 0]))
    one = seen("priors", CALIBRATED, "relative error")
    assert one.value == pytest.approx(mine.mean() / theirs.mean())
    left = (mine.sum() - mine) / (theirs.sum() - theirs)
    assert one.error == pytest.approx(jackknife(left), rel=0.05)
    # What they are worth, from the ends of the rates' intervals.
    rates = [seen("wins", "o4-mini", f"N = {size}") for size in quantity.SIZES]
    for name, side in (("worth N", 0), ("at least", -1.96), ("at most", 1.96)):
        expected = metrics.count_worth(np.array([rate.value + side * rate.error for rate in rates]))
        assert seen("wins", "o4-mini", name).value == expected, name


def test_who_knows_the_population_stands_beside(results, seen):
    """An audit's independent simulation: error ratio .24, beats 5 to 30 in 97, 90, 81, 73 %."""
    assert seen("priors", KNOWER, "mean of error ratios").value == pytest.approx(0.24, abs=0.01)
    (known,) = priors.list_knowers(results)["said"]
    assert known.judged.wins.mean(axis=0) == pytest.approx([0.97, 0.90, 0.81, 0.73], abs=0.015)
    (note,) = find("wins")(results).left_out
    assert f"medium_11 of {NHANES} (N = 20, 30); " in note and "hard_1 " not in note


def test_models_are_ranked_by_wins_and_paired_over_quantities(results):
    """Who is known to be better stands first; published ones have no rank."""
    board = find("leaderboard")(results).table.query("group == @PRIOR").set_index("model")
    own, others = (board[(board["kind"] == "published") == is_] for is_ in (False, True))
    places = [own.index.str.contains(kind).argmax() for kind in KINDS]
    assert places == [0, 1, 2] and {*others["rank"]} == {""}
    first, second = (said_by(results, kind).judged.wins[:, 0] for kind in (CALIBRATED, SURE))
    assert (own["value"].iloc[1], own["error"].iloc[1]) == of_mean(first)
    # Of one set the interval is Student's t over the differences of its 74 quantities.
    one = compare.compare_scores(*(scores_of(results, kind) for kind in (CALIBRATED, SURE)))
    assert (one.difference, one.error) == of_mean(first - second)
    t = stats.t.interval(0.95, 73, one.difference, one.error)
    assert (one.low, one.high) == pytest.approx(t) and one.verdict == "better"


def test_calibration_is_that_of_the_repeats(results, seen):
    """Quarter by quarter, repeat by repeat; ECE is the mean over repeats, not of the means."""
    known = said_by(results, "gpt-4o")
    position = families.cdf(*known.stated, np.array([[q.mean] for q in known.truth.quantities]))
    quarters = np.minimum(np.floor(4 * position), 3)
    shares = []
    for k in range(4):
        check(seen("quartiles", "gpt-4o", f"quarter {k + 1}"), (quarters == k).mean(axis=1))
        shares.append((quarters == k).mean(axis=0))
    one = seen("quartiles", "gpt-4o", "ECE (points)")
    assert one.value == pytest.approx(100 * abs(np.array(shares) - 0.25).mean())
    left = [metrics.ece(known, np.arange(74) != place).value for place in range(74)]
    assert one.error == pytest.approx(jackknife(np.array(left)), rel=0.1)
    # Stated uncertainty and errors by ranks: (1 - r^2) sqrt((1 + r^2 / 2) / (n - 3)).
    one = seen("uncertainty", "gpt-4o", "Spearman")
    r = stats.spearmanr(known.judged.uncertainty, known.judged.ratio).statistic
    error = (1 - r * r) * math.sqrt((1 + r * r / 2) / 71)
    assert (one.value, one.error) == pytest.approx((r, error))


def test_parts_add_up_and_failures_count_as_the_flat_prior(results, seen):
    """9 of 370 replies of o4-mini had no prior; the published way dropped them."""
    named = ("beats 5", "answered", "ratios, dropped", "mean of error ratios")
    beats, answered, dropped, scored = (seen("priors", "o4-mini", of).value for of in named)
    families_ = ("family: means (42)", "family: proportions (32)")
    means, shares = (seen("priors", "o4-mini", "beats 5", about).value for about in families_)
    assert (42 * means + 32 * shares) / 74 == pytest.approx(beats)
    assert (answered, dropped) == (pytest.approx(1 - 9 / 370), pytest.approx(0.974, abs=5e-4))
    known = said_by(results, "o4-mini")
    assert scored == judged.judge(known.truth, known.stated).ratio.mean() > dropped


def test_other_ways_have_the_same_tables(runs, seen):
    """Grids are kept so that the tables have the very metrics; chosen families are counted."""
    (path,) = (runs / "prior" / CALIBRATED).rglob("results_*.json")
    row, way = json.loads(path.read_text())["results"][f"{NHANES}_grid"], [f"{PRIOR}_grid"]
    ratio = seen("priors", CALIBRATED, "CRPS ratio", "", way).value
    assert ratio == pytest.approx(row["crps_ratio,none"], abs=1e-9)
    rate = seen("wins", CALIBRATED, "N = 5", "posterior", way).value
    assert rate == pytest.approx(row["posterior_win_rate_5,none"], abs=1e-9)
    for family, share in zip(families.FAMILIES, (42 / 74, 32 / 74, 0), strict=True):
        one = seen("priors", CALIBRATED, f"chose {family}", "", [f"{PRIOR}_direct_choice"])
        assert one.value == pytest.approx(share), family


# Interventions: the numbers.


def test_effects_and_the_overall_accuracy(results, seen):
    for names, (shape, node) in product(NAMES, (("bivariate", "B"), ("mediation", "A"))):
        samples = [*by_hand(f"{PLAIN}_{names}", shape, node).values()]
        check(seen("interventions", NOISY, names, f"{shape}, do({node})"), samples)
    # That of lm-eval: three tasks with 1/3 each, errors of independent tasks in quadrature.
    tasks = [scores_of(results, "noise=0.7", "intervention", task).iloc[0] for task in TASKS]
    names = {"accuracy": "value", "before": "base_accuracy", "after": "post_accuracy"}
    names |= {f"kappa = {kappa}": f"kappa{kappa}_accuracy" for kappa in (0, 1)}
    for part, metric in names.items():
        value = seen("interventions", NOISY, part).value
        assert value == pytest.approx(np.mean([task[metric] for task in tasks])), part
    # Draws stand in the file with four digits.
    error = math.hypot(*joint.own_errors([task["draws"] for task in tasks])) / 3
    assert seen("interventions", NOISY, "accuracy").error == pytest.approx(error, rel=1e-3)
    # Answered in another way, with the same answers: the difference is paired, and 0.
    other = seen("interventions", NOISY, "minus plain", "", [f"{PLAIN}_substitution"])
    assert other.value == 0 and math.isnan(other.error)


def test_the_shortcut_test_pairs_kappa_1_with_kappa_0_of_the_same_samples(results, monkeypatch):
    """And leaves out and names who does not retrieve."""
    finding = find("shortcut")(results)
    rows = finding.table[finding.table["kind"] != "published"]
    assert {*rows["model"]} == {"knows the truth (kind=truth)", "epidemia-baseline kind=retrieval"}
    (said,) = scores_of(results, "noise=0.7", "retrieval", RANDOM).itertuples()
    name = results.runs["name"][said.run]
    assert f"{name} in {PLAIN}: it retrieves {said.value:.3f} of them" in finding.left_out
    # Who only retrieves is right wherever nothing changes, and nowhere else.
    rows = rows[rows["model"].str.endswith(RETRIEVAL)]
    values = {("kappa = 0", 1.0), ("kappa = 1", 0.0), ("difference", -1.0)}
    assert {*zip(rows["part"], rows["value"], strict=True)} == values
    # All samples say so: that tells of no error.
    assert rows["error"].isna().all() and finding.note.endswith(ALIKE_NOTE)
    monkeypatch.setattr(interventions, "FOUND", said.value)
    yes, no = by_hand(RANDOM, "mediation", "B", "AB", "AC"), by_hand(RANDOM, "mediation", "B", "BC")
    one = row_of(find("shortcut")(results).table, NOISY, "difference", "mediation, do(B)")
    check(one, [yes[sample] - no[sample] for sample in yes])


def test_memorisation_is_paired_where_the_pairs_are_the_same(seen):
    """Known pairs are those whose every question was right: the bivariate ones in both sets."""
    nature, turned = (by_hand(task, "bivariate", "B", "AB") for task in (TUEBINGEN, ANTI))
    known = {*nature}
    for task in (TUEBINGEN, ANTI):
        truth, odds, _ = respondent(task, questions.knowledge)
        for asked, says_yes in zip(truth.prompts, odds > 0, strict=True):
            if asked.scene.shape == "bivariate" and asked.right != says_yes:
                known.discard(asked.scene.sample)
    assert 3 < len(known) < 15
    for pairs, about in ((nature, ""), (known, "; known pairs")):
        one = seen("memorisation", NOISY, "t - a", f"bivariate, do(B), AB{about}")
        check(one, [nature[pair] - turned[pair] for pair in pairs])
    # Elsewhere the samples are others: variances add, with Welch's degrees of freedom.
    sides = [[*by_hand(task, "mediation", "C", "AC").values()] for task in (TUEBINGEN, ANTI)]
    one = seen("memorisation", NOISY, "t - a", "mediation, do(C), AC")
    welch = stats.ttest_ind(*sides, equal_var=False)
    assert one.value == pytest.approx(np.mean(sides[0]) - np.mean(sides[1]))
    assert (one.low, one.high) == pytest.approx(tuple(welch.confidence_interval()))


def test_what_is_noticed_has_the_error_of_its_samples(seen):
    """Stratified by graph, each of 15 samples; the pairs of kappa 1 and 0 are of the same ones."""
    truth, odds, right = respondent(RANDOM)
    moved = np.array([odds[pair.post] - odds[pair.base] for pair in truth.pairs])
    kappa = np.array([pair.effect.kappa for pair in truth.pairs])
    same, changed, one = measure_change(truth, right, odds)
    a, b = moved[kappa == 0].mean(), moved[kappa == 1].mean()
    assert (same.value, changed.value, one.value) == pytest.approx((a, b, b - a))
    each, graphs = np.zeros((3, 15)), list(graph.GRAPHS)
    for pair, x in zip(truth.pairs, moved, strict=True):
        share = x / (sum(kappa == 1) if pair.effect.kappa else -sum(kappa == 0))
        each[graphs.index(pair.scene.shape), pair.scene.sample - 1] += share
    assert one.error == pytest.approx(math.sqrt(15 * each.var(axis=1, ddof=1).sum()))
    # Who ignores the intervention is not said to notice; in truth the log-odds go from 10 to -10.
    for model, value in ((RETRIEVAL, 0.0), (KNOWS, -20.0)):
        assert seen("notices", model, "difference").value == pytest.approx(value, abs=1e-3)


def test_answers_by_path_length_count_every_effect_with_a_yes_before(results):
    """Clusters (1, 1), (0): mean 2/3; sums of what is left 2/3, -2/3; 2/1 * 8/9 / 9, its root."""
    assert estimates.pool_clusters([1, 1, 0], [4, 4, 7])[:2] == pytest.approx((2 / 3, 4 / 9))
    graphs = {}
    for nodes in (3, 6):
        for pair in questions.make_questions(f"{PLAIN}_large_{nodes:02}").pairs:
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                place = f"path of {length}", ("stays yes", "becomes no")[pair.effect.kappa]
                graphs.setdefault(place, set()).add((nodes, pair.scene.sample))
    rows = find("interventions")(results).table.query("asked.str.startswith('path of')")
    for _, of in rows.groupby("model"):
        samples = by(of, "asked", "part", of="samples")
        assert samples == {place: len(scenes) for place, scenes in graphs.items()}


def test_written_answers_that_could_not_be_read_are_counted(results):
    """Of 450 prompts 45 were not read: 0.1; they count as no answer, neither yes nor no."""
    right = [1 if prompt.right else -1 for prompt in questions.make_questions(RANDOM).prompts]
    words = " ".join("?" if i % 10 == 0 else str(x) for i, x in enumerate(right))
    scores = scores_of(results, "noise=0.7", "intervention", RANDOM).copy()
    way, truth = INTERVENTION.ways["intervention_written"], questions.make_questions(RANDOM)
    scores["way"], scores["said"] = way.name, [INTERVENTION.read_kept(words, truth, way).answers]
    written = results._replace(scores=scores)
    rows = by(find("interventions")(written).table.query("asked == ''"), "part")
    assert rows["not read"] == pytest.approx(0.1) and rows["accuracy"] < 0.9
    assert rows["yes-bias"] == pytest.approx(-sum(right[::10]) / 2 / 450)
    # Signs are no log-odds.
    assert find("notices")(written).table.empty
    with pytest.raises(ValueError, match="expected 1, -1, - and"):
        read_said("1 -1 2", 3, written=True)


# What is read.


def edit(file, task, change, less=0.013):
    """Change what was said in a result file; or a number of the task by its name, by so much."""
    said, row = file["epidemia"]["said"], file["results"][task]
    if callable(change):
        said[task] = change(said[task])
    else:
        row[f"{change},none"] = abs(row[f"{change},none"] - less)


#: What is done to the line of what was said, and what the note of its file says.
DAMAGES = [
    (NHANES, lambda line: line.replace("n:", "n:one", 1), "cannot be read"),
    (NHANES, lambda line: line.replace("n:", "n:nan;", 1), "cannot be read"),
    (NHANES, lambda line: "", "the results have 1 quantities, but the task has 74"),
    (NHANES, lambda line: re.sub("(n:[^,]*,)", r"\1-", line, count=1), "-.* is not a distribution"),
    (NHANES, lambda line: re.sub("n:([^,]*),", "n:1e999,", line, count=1), "is not a distribution"),
    (NHANES, lambda line: " | ".join(["n:1,2"] * 74), "got 1 priors of each quantity, expected 5"),
    (NHANES, lambda line: " | ".join(["-1.0,-2.0"] * 74), "got 2 log-probabilities of each"),
    (RANDOM, lambda line: "1 2 3", "3 recorded answers"),
    (RANDOM, lambda line: f"x{line}", "expected numbers, - and"),
    (RANDOM, lambda line: f"inf {line.partition(' ')[2]}", "expected numbers, - and"),
    (RANDOM, lambda line: 7, "Expected `str`"),
]

#: Numbers of a task's row that follow from what was said: none may be another.
FOLLOW = [(NHANES, name) for name in ("error_ratio", "win_rate_5", "ece", "answered")]
FOLLOW += [(f"{NHANES}_grid", "win_rate_30"), (f"{NHANES}_grid", "end_mass"), (RANDOM, "accuracy")]
DIFFERS = [(task, name, rf"{name} is [.\d]+, but the recorded answers") for task, name in FOLLOW]


def test_damaged_lines_and_metrics_that_are_not_theirs_leave_their_file_out(runs, tmp_path):
    messages = {}
    for number, (task, change, says) in enumerate(DAMAGES + DIFFERS):
        source = runs / ("graphs/truth" if task == RANDOM else f"prior/{CALIBRATED}")
        path = rewritten(source, tmp_path / str(number), partial(edit, task=task, change=change))
        messages[str(path)] = task, says
    results = read_runs([runs / "prior/truth", tmp_path])
    assert len(results.runs) == 1 and len(results.notes) == len(messages)
    for path, (task, message) in messages.items():
        (note,) = [note for note in results.notes["text"] if path in note]
        assert re.search(message, note) and (task in note or "Expected" in note), (message, note)


@pytest.mark.parametrize("metric", ["error_ratio_stderr", "error_ratio", "crps_ratio"])
def test_infinite_metrics_count_as_not_known(runs, tmp_path, metric):
    """The share of wins stands, with its error where what was said can be read."""
    change = partial(edit, task=NHANES, change=metric, less=math.inf)
    path = rewritten(runs / "prior/truth", tmp_path / "x", change)
    results = read_runs([tmp_path])
    assert f"{path}: {NHANES}: {metric} is infinite" in results.notes["text"][0]
    (of,) = scores_of(results).to_dict("records")
    assert 0 < of["value"] <= 1 and (of["draws"] is None) == (metric == "error_ratio")


def test_a_damaged_truth_is_what_is_blamed(runs, home):
    shutil.copytree(store.paths.shipped_groundtruth() / "quantities", store.find_built_folder())
    draws = store.find_built_folder() / "nhanes.draws.parquet"
    draws.write_bytes(draws.read_bytes()[:1000])
    results = read_runs([runs / "prior/truth"])
    (note,) = results.notes["text"]
    assert [*results.scores["said"]] == [None] and str(draws) in note
    assert f"{NHANES}: tables" in note and "its truth on this machine cannot be used" in note


def test_what_was_said_of_another_truth_is_left_out_and_not_compared(runs, tmp_path):
    """Nor of quantities that are not here."""

    def other(file):
        file["configs"][NHANES]["metadata"]["truth"] = "0123456789ab"
        file["epidemia"]["replicates"][NHANES]["sample"] = f"{NHANES} 0123456789ab"
        for part in ("results", "configs", "versions", "n-shot", "group_subtasks"):
            file[part]["epidemia_prior_scf_7"] = file[part].get(NHANES, [])

    rewritten(runs / "prior" / SURE, tmp_path / "other", other)
    results = read_runs([runs / "prior/truth", tmp_path])
    notes = "\n".join(results.notes["text"])
    assert f"1 task ({NHANES}), whose answers come from another truth than the installed" in notes
    assert "epidemia_prior_scf_7: their quantities are not here. Make the set again" in notes
    assert find("pairs")(results).table.empty
    assert find("priors")(read_runs([tmp_path])).table.empty


def test_without_what_was_said_there_is_the_leaderboard_only(runs, tmp_path):
    """Where all samples agree it claims no error: 0 would be too much, and 1e-17 is left of it."""
    for name in (f"prior/{CALIBRATED}", "graphs/truth"):
        rewritten(runs / name, tmp_path / name, lambda file: file["epidemia"].pop("said"))
    silent = read_runs([tmp_path])
    assert silent.notes["text"].str.contains("whose answers are not in the file").sum() == 2
    for name in ("priors", "wins", "quartiles", "interventions", "memorisation", "notices"):
        finding = find(name)(silent)
        assert finding.table.empty and "run lm_eval on epidemia_" in finding.left_out[0], name
    known = find("leaderboard")(silent).table.query("group == @PLAIN").iloc[0]
    assert known["value"] == 1 and math.isnan(known["error"])


def test_a_part_of_a_task_is_said_of_what_was_asked(tmp_path_factory, tmp_path):
    how = {"model_args": "kind=calibrated", "limit": 10}
    results = read_runs([copied_run(tmp_path_factory, tmp_path, [NHANES], **how)])
    known = said_by(results)
    assert [*known.truth.column("name")] == [*store.load_quantities(NHANES).column("name")[:10]]
    one = find("priors")(results).table.query("asked == '' and part == 'beats 5'").iloc[0]
    board = find("leaderboard")(results).table.query("group == @PRIOR").iloc[0]
    assert (one["value"], one["error"]) == pytest.approx((board["value"], board["error"]), rel=1e-3)
    assert one["samples"] == len(known.stated.a) == 10
    said = read_said("9.8 -3.1 ? - 0", 5, written=False)
    assert said.asked.tolist() == [True, True, True, False, True]
    assert said.odds.tolist() == pytest.approx([9.8, -3.1, math.nan, math.nan, 0], nan_ok=True)


# The study's four models beside runs: their numbers are those of its tables, weighted.


def test_means_are_the_printed_numbers_weighted_over_effects_and_relations():
    """A column of the bivariate graph is a mean over two of the 22 effects, others over three.

    Retrieval, ordered pairs: (2 * .87 + 6 * .63 + 6 * .86) / 14.
    """
    assert SCORES[RANDOM, "retrieval_written", "LLaMA-2"] == pytest.approx(10.68 / 14)
    known = {model: x for (*of, model), x in SCORES.items() if of == [TUEBINGEN, "knowledge"]}
    assert known == {"GPT-3 (text-davinci-003)": 0.80, "GPT-3.5": 0.89, "GPT-4": 0.96}
    table = published.load_printed().query("table in ('7', '10')")
    shares = table.accuracy * np.where(table.graph == "bivariate", 2, 3) / 22
    means = shares.groupby([table.way, table.model, table.names]).sum().to_dict()
    page = (REPOSITORY / "docs/evidence/reproduce-others.md").read_text(encoding="utf-8")
    for model in ("GPT-3.5", "GPT-4", "GPT-4-turbo", "LLaMA-2"):
        cells = [model]
        for way, theirs in (("intervention", "plain"), ("substitution", "substitution")):
            for task, names in zip(TASKS, NAMES, strict=True):
                value = SCORES[task, way, model]
                assert value == pytest.approx(means[theirs, model, names])
                assert value == SCORES[task, f"{way}_written", model]
                cells.append(f"{value + 1e-9:.3f}".removeprefix("0"))
        assert f"| {' | '.join(cells)} |" in page


def test_who_ignores_interventions_and_what_was_not_asked(results, seen):
    """15 of the 22 effects change nothing: .682, which the note says, and a run gets."""
    assert "ignoring interventions scores .682" in naming.KNOWN["published"]["intervention"]
    ours = scores_of(results, RETRIEVAL, "intervention", RANDOM)["value"].item()
    assert ours == pytest.approx(15 / 22)
    # Only what was asked has published numbers.
    assert not [key for key in SCORES if "large" in key[0] or key[:2] == (TUEBINGEN, "retrieval")]
    of_study = results.scores["run"].map(results.runs["kind"]) == "published"
    asked = results.scores["task"] + " " + results.scores["way"]
    assert {*asked[of_study]} < {*asked[~of_study]}
    mean = np.mean([SCORES[task, "intervention", "GPT-4"] for task in TASKS])
    assert seen("interventions", "GPT-4", "accuracy").value == pytest.approx(mean)


def test_every_printed_number_of_a_table_is_in_the_findings(results):
    """Those of tables 3, 7, 8, 9 and 10, with errors (0 says nothing): of what was asked, all."""
    shown = []
    for name in ("interventions", "shortcut", "memorisation"):
        rows = find(name)(results).table.query("kind == 'published' and asked != ''")
        rows = rows[~rows["part"].isin(("difference", *interventions.SUBTRACTED))]
        shown += rows[["model", "value", "error"]].fillna({"error": 0}).to_numpy().tolist()
    numbers = published.load_printed().query("table in ('3', '7', '8', '9', '10')")
    numbers = numbers[["model", "accuracy", "error"]].to_numpy().tolist()
    assert sorted(shown) == sorted(numbers) and len(shown) == 30 + 2 * 96 + 36 + 12


def test_the_bivariate_contrast_is_with_both_queries_as_printed_and_with_ab_alone(results):
    """Theirs is the mean of AB and BA; who ignores do(B) has BA right and AB wrong."""
    contrast = find("memorisation")(results)
    assert "published numbers are for AB and BA" in contrast.note
    rows = {model: by(of, "asked", "part") for model, of in contrast.table.groupby("model")}
    theirs, ours = rows["GPT-4-turbo"], rows[f"epidemia-baseline {RETRIEVAL}"]
    alone, both = "bivariate, do(B), AB", "bivariate, do(B), AB and BA"
    others = {"mediation, do(B), AC", "mediation, do(C), AC"}
    assert {about for about, _ in theirs} == {both, *others}
    assert {about for about, _ in ours} == {alone, both, *others}
    assert {value for (about, _), value in ours.items() if about == alone} == {0}
    assert ours[both, "random"] == 0.5 and theirs[both, "t - a"] == pytest.approx(0.90 - 0.57)
