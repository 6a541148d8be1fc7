"""What findings say of stated priors and of interventions: from real runs of lm-eval, published."""

import functools
import json
import math
import re
import shutil

import numpy as np
import pytest
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import by, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks.intervention import contrasts, questions
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS
from lm_eval_epidemia.benchmarks.intervention.metrics import graded
from lm_eval_epidemia.benchmarks.intervention.respondents import answers
from lm_eval_epidemia.benchmarks.prior import judgements
from lm_eval_epidemia.benchmarks.prior.judged import judge, mean_of
from lm_eval_epidemia.benchmarks.prior.metrics import worth
from lm_eval_epidemia.benchmarks.prior.quantities import families, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.findings import find, interventions, priors
from lm_eval_epidemia.findings.compare import compare
from lm_eval_epidemia.findings.parts import ALIKE_NOTE
from lm_eval_epidemia.findings.quantities import title
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.replicates import said_of
from lm_eval_epidemia.score.estimates import pooled
from lm_eval_epidemia.score.joint import own_errors

PRIOR, NHANES = "epidemia_prior", "epidemia_prior_nhanes"
TRUTH, CALIBRATED, SURE = KINDS = ("truth", "calibrated,noise=1", "overconfident,noise=2")
PLAIN, NAMES = "epidemia_intervention", ("random", "tuebingen", "anticommonsense")
RANDOM, TUEBINGEN, ANTI = (f"{PLAIN}_{names}" for names in NAMES)
#: How models are called, at the end, who was asked of graphs.
NOISY, RETRIEVAL, KNOWS = "kind=noisy, noise=0.7)", "kind=retrieval", "(kind=truth)"
KNOWER = "knows the population (baseline)"

#: Who is asked, and what: what was asked of one alone need not be asked of all.
USUAL = [PLAIN + way for way in ("", "_retrieval", "_large_03", "_large_06")]
MORE = [NHANES + way for way in ("_mean_variance", "_direct_choice", "_grid")]
ASKED = {
    **{f"prior/{kind}": [NHANES, *(MORE if kind == CALIBRATED else ())] for kind in KINDS},
    **{"graphs/truth": USUAL, "graphs/retrieval": USUAL},
    "graphs/noisy,noise=0.7": [*USUAL, f"{PLAIN}_substitution", f"{PLAIN}_knowledge"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, tasks in ASKED.items():
        kind = name.partition("/")[2]
        copied_run(tmp_path_factory, folder / name, tasks, model_args=f"kind={kind}")
    return folder


@pytest.fixture(scope="module")
def results(runs):
    return read([runs], published=True)


@pytest.fixture(scope="module")
def row(runs):
    """What lm-eval writes of each task of the calibrated."""
    (path,) = (runs / "prior" / CALIBRATED).rglob("results_*.json")
    return json.loads(path.read_text())["results"]


def row_of(table, model, part, about="", group=PLAIN):
    """Return the row of a model (its end), a part, what it is about, and a group."""
    rows = table[table["model"].str.endswith(model) & (table["group"] == group)]
    (row,) = rows[(rows["asked"] == about) & (rows["part"] == part)].itertuples()
    return row


@pytest.fixture(scope="module")
def seen(results):
    """Return a row as `row_of`, by the name of its finding."""
    table = functools.cache(lambda name: find(name)(results).table)
    return lambda name, *of: row_of(table(name), *of)


@pytest.fixture(scope="module")
def stated(seen):
    """Return a row about priors."""
    return lambda name, model, part, about="", way="": seen(name, model, part, about, PRIOR + way)


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
    reach = stats.t.ppf(0.975, len(values) - 1) * row.error
    assert (row.low, row.high) == pytest.approx((row.value - reach, row.value + reach))
    assert row.samples == len(values)


def respondent(task, load=questions.questions):
    """Return truth, log-odds, and what was right, of the noisy respondent."""
    truth = load(task)
    p = answers(truth, "noisy", 0.7, 0)
    odds = np.log(p[:, 0] / p[:, 1])
    return truth, odds, graded(truth, odds, np.ones(len(odds), dtype=bool))


def by_hand(task, graph, intervened, *queries):
    """Mean over the (given) queries of each sample, by the sample's number: plain loops."""
    truth, odds, _ = respondent(task)
    right = [(odds[i] > 0) == p.right for i, p in enumerate(truth.prompts)]
    parts = {}
    for pair in truth.pairs:
        effect, scene = pair.effect, pair.scene
        asked = not queries or effect.cause + effect.result in queries
        if asked and (scene.shape, effect.intervened) == (graph, intervened):
            parts.setdefault(scene.sample, []).append(bool(right[pair.base] and right[pair.post]))
    return {sample: np.mean(part) for sample, part in parts.items()}


# Priors: the numbers.


def test_errors_and_wins_are_means_over_quantities(results, stated):
    truth, judged = store.load(NHANES), said_by(results, CALIBRATED).judged
    errors, samples, wins = judged.error, judged.baseline_error, judged.wins
    check(stated("priors", CALIBRATED, "mean of error ratios"), errors / samples[:, 0])
    left_out = 0
    for place, size in enumerate(SIZES):
        # A tenth of what so many independent people are off by is about 0, and no win.
        kept = samples[:, place] > 0.1 * np.sqrt(2 / np.pi / size) * truth.column("sd")
        left_out += (~kept).sum()
        check(stated("wins", CALIBRATED, f"N = {size}"), wins[kept, place])
    assert left_out == 8
    assert stated("priors", CALIBRATED, "beats 5").value == wins[:, 0].mean()
    # A ratio of means, with the error of one.
    mine, theirs = (x / truth.column("marginal_sd") for x in (errors, samples[:, 0]))
    one = stated("priors", CALIBRATED, "relative error")
    assert one.value == pytest.approx(mine.mean() / theirs.mean())
    left = (mine.sum() - mine) / (theirs.sum() - theirs)
    assert one.error == pytest.approx(jackknife(left), rel=0.05)
    # What they are worth, from the ends of the rates' intervals.
    rates = [stated("wins", "o4-mini", f"N = {size}") for size in SIZES]
    for name, side in (("worth N", 0), ("at least", -1.96), ("at most", 1.96)):
        expected = worth(np.array([rate.value + side * rate.error for rate in rates]))
        assert stated("wins", "o4-mini", name).value == expected, name


def test_who_knows_the_population_stands_beside(results, stated):
    """An audit's independent simulation: error ratio .24, beats 5 to 30 in 97, 90, 81, 73 %."""
    ratio = stated("priors", KNOWER, "mean of error ratios").value
    assert ratio == pytest.approx(0.24, abs=0.01)
    (known,) = priors.knowers(results)["said"]
    wins = known.judged.wins.mean(axis=0)
    assert wins == pytest.approx([0.97, 0.90, 0.81, 0.73], abs=0.015)
    (note,) = find("wins")(results).left_out
    assert f"medium_11 of {NHANES} (N = 20, 30); " in note and "hard_1 " not in note


def test_the_leaderboard_has_lm_evals_number_and_error(results, row):
    """Who is known to be better stands first; published ones have no rank."""
    board = find("leaderboard")(results).table.query("group == @PRIOR").set_index("model")
    own, others = (board[(board["kind"] == "published") == is_] for is_ in (False, True))
    places = [own.index.str.contains(kind).argmax() for kind in KINDS]
    assert places == [0, 1, 2] and {*others["rank"]} == {""}
    assert own["value"].iloc[1] == pytest.approx(row[NHANES]["win_rate_5,none"])
    wins = said_by(results, CALIBRATED).judged.wins[:, 0]
    assert (own["value"].iloc[1], own["error"].iloc[1]) == of_mean(wins)


def test_two_models_are_paired_over_quantities(results):
    """Of one set the interval is Student's t over the differences of its 74 quantities."""
    one = compare(*(scores_of(results, kind) for kind in (CALIBRATED, SURE)))
    first, second = (said_by(results, kind).judged.wins[:, 0] for kind in (CALIBRATED, SURE))
    assert (one.difference, one.error) == of_mean(first - second)
    t = stats.t.interval(0.95, 73, one.difference, one.error)
    assert (one.low, one.high) == pytest.approx(t) and one.verdict == "better"


def test_calibration_is_that_of_the_repeats(results, stated):
    """Quarter by quarter, repeat by repeat; ECE is the mean over repeats, not of the means."""
    known = said_by(results, "gpt-4o")
    position = families.cdf(*known.stated, np.array([[q.mean] for q in known.truth.quantities]))
    quarters = np.minimum(np.floor(4 * position), 3)
    shares = np.array([[np.mean(quarters[:, r] == k) for k in range(4)] for r in range(5)])
    one = stated("quartiles", "gpt-4o", "ECE (points)")
    assert one.value == pytest.approx(100 * abs(shares - 0.25).mean())
    left = [judgements.ece(known, np.arange(74) != place).value for place in range(74)]
    assert one.error == pytest.approx(jackknife(np.array(left)), rel=0.1)
    for k in range(4):
        check(stated("quartiles", "gpt-4o", f"quarter {k + 1}"), (quarters == k).mean(axis=1))
    # Stated uncertainty and errors by ranks: (1 - r^2) sqrt((1 + r^2 / 2) / (n - 3)).
    one = stated("uncertainty", "gpt-4o", "Spearman")
    r = stats.spearmanr(known.judged.uncertainty, known.judged.ratio).statistic
    error = (1 - r * r) * math.sqrt((1 + r * r / 2) / 71)
    assert (one.value, one.error) == pytest.approx((r, error))


def test_parts_add_up_and_failures_count_as_the_flat_prior(results, stated):
    """9 of 370 replies of o4-mini had no prior; the published way dropped them."""
    parts = ("family: means (42)", "family: proportions (32)")
    rows = [stated("priors", "o4-mini", "beats 5", about) for about in parts]
    total = sum(row.samples * row.value for row in rows)
    assert total / 74 == pytest.approx(stated("priors", "o4-mini", "beats 5").value)
    known = said_by(results, "o4-mini")
    assert stated("priors", "o4-mini", "answered").value == pytest.approx(1 - 9 / 370)
    dropped = stated("priors", "o4-mini", "ratios, dropped").value
    assert dropped == pytest.approx(0.974, abs=5e-4)
    scored = stated("priors", "o4-mini", "mean of error ratios").value
    assert scored == judge(known.truth, known.stated).ratio.mean() > dropped


def test_other_ways_have_the_same_tables(row, stated):
    """Grids are kept so that the tables have the very metrics; chosen families are counted."""
    for finding, part, about, metric in (
        *(("priors", "CRPS ratio", "", "crps_ratio"), ("wins", "N = 10", "", "win_rate_10")),
        ("wins", "N = 5", "posterior", "posterior_win_rate_5"),
    ):
        value = stated(finding, CALIBRATED, part, about, "_grid").value
        assert value == pytest.approx(row[f"{NHANES}_grid"][f"{metric},none"], abs=1e-9), metric
    for family, share in zip(families.FAMILIES, (42 / 74, 32 / 74, 0), strict=True):
        one = stated("priors", CALIBRATED, f"chose {family}", way="_direct_choice")
        assert one.value == pytest.approx(share), family


# The published models.


def test_what_the_paper_prints_stands_beside_what_was_asked(results):
    """As on the page, and what was found here."""
    table = find("published-priors")(results).table
    rows = {
        (row.measure, row.set, row.model, row.asked): (row.printed, row.released, row.here)
        for row in table.itertuples()
    }
    printed, released, here = rows["CRPS ratio", "nhanes", "gpt-4o", ""]
    assert (printed, round(released, 3)) == ("1.86", 1.977) and math.isnan(here)
    assert rows["prior beats 30", "glassdoor", "o4-mini", ""][:2] == ("0.087", 0.022)
    here = rows["error ratio", "nhanes", f"epidemia-baseline kind={CALIBRATED}", "direct"][2]
    assert here == pytest.approx(mean_of(said_by(results, CALIBRATED).dropped.ratio))
    # docs/guides/priors-published.md has these numbers as the findings give them.
    page = (REPOSITORY / "docs" / "guides" / "priors-published.md").read_text()
    o4, llama = "o4-mini", "meta-llama-3-8b"

    def given(measure, model=o4, digits=1, place=1, times=1):
        return f"{times * float(rows[measure, 'nhanes', model, ''][place]):.{digits}f}"

    models = [o4, "o3-mini", "qwen3-235b-a22b-fp8-tput", "gpt-4o", "meta-llama-3-70b", llama]
    said = [", ".join(given("CRPS ratio", model, 2) for model in models[:5])]
    for of, place in ((of, place) for of in ("prior", "posterior") for place in (0, 1)):
        few, many = (given(f"{of} beats {n}", place=place, times=100) for n in (5, 30))
        said.append(f"{few} and {many} %")
    first, all_said = "in the first quarter", "the same with failures counted"
    first, all_said = (given(of, digits=3)[1:] for of in (first, all_said))
    said.append(f"o4-mini {first}, or {all_said} with failures counted")
    crps, ratio = (given(of, llama) for of in ("CRPS ratio", "error ratio"))
    said.append(f"CRPS ratio {crps} (19.17 in the tables), error ratio {ratio}")
    best, other, worst, *others = (given("worth answers", model) for model in models)
    said.append(f"| o4-mini {best}, qwen3-235b {worst}, o3-mini {other}, the others <5 |")
    assert {*others} == {"0.0"} and [text for text in said if text not in page] == []


def test_published_ablations_are_paired_over_quantities(results):
    rows = find("ablations")(results).table
    # A user's own: the same answers in other protocols.
    own = by(rows[rows["model"].str.endswith(CALIBRATED)], "differs in", of="difference")
    assert own["protocol: direct -> mean_variance"] == pytest.approx(0, abs=1e-12)
    assert len(own) == 3
    rows = rows[rows["kind"] == "published"]
    one = rows[rows["differs in"] == "reasoning effort: medium -> high"].iloc[0]
    differs = {*rows["differs in"].str.partition(":")[0]}
    assert len(rows) == 12 and one["model"] == "o4-mini"
    assert differs == {"protocol", "system prompt", "temperature", "reasoning effort"}
    stating = [of for of in priors.stating() if of.experiment != priors.COMPARED]
    known = {(of.model, *of.settings.values()): of.known.judged for of in stating}
    usual, high = (known["o4-mini", "direct", "base", "", effort] for effort in ("medium", "high"))
    assert (one["difference"], one["difference_error"]) == of_mean(high.ratio - usual.ratio)
    # 28 of the 370 replies at high effort cannot be read; without them the sign is another.
    assert (one["unread"], one["unread_then"]) == pytest.approx((0, 28 / 370))
    assert round(one["difference"], 3) == 0.206 and round(one["where_read"], 3) == -0.037


# Interventions: the numbers.


def test_effects_and_the_overall_accuracy(results, seen):
    for names in NAMES:
        for graph, node in (("bivariate", "B"), ("mediation", "A")):
            samples = [*by_hand(f"{PLAIN}_{names}", graph, node).values()]
            assert len(samples) == 15
            check(seen("interventions", NOISY, names, f"{graph}, do({node})"), samples)
    # That of lm-eval: three tasks with 1/3 each, errors of independent tasks in quadrature.
    of = "noise=0.7", "intervention"
    tasks = [scores_of(results, *of, f"{PLAIN}_{names}").iloc[0] for names in NAMES]
    for part, metric in {
        **{"accuracy": "value", "kappa = 0": "kappa0_accuracy", "kappa = 1": "kappa1_accuracy"},
        **{"before": "base_accuracy", "after": "post_accuracy"},
    }.items():
        value = seen("interventions", NOISY, part).value
        assert value == pytest.approx(np.mean([task[metric] for task in tasks])), part
    # Draws stand in the file with four digits.
    error = math.hypot(*own_errors([task["draws"] for task in tasks])) / 3
    assert seen("interventions", NOISY, "accuracy").error == pytest.approx(error, rel=1e-3)
    # Answered in another way, with the same answers: the difference is paired, and 0.
    other = seen("interventions", NOISY, "minus plain", "", f"{PLAIN}_substitution")
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
    wrong = set()
    for task in (TUEBINGEN, ANTI):
        truth, odds, _ = respondent(task, questions.knowledge)
        asked = [(asks.right, asks.scene) for asks in truth.prompts]
        wrong |= {
            (task, s.shape, s.sample) for (r, s), x in zip(asked, odds > 0, strict=True) if r != x
        }
    both = [n for n in nature if not {(of, "bivariate", n) for of in (TUEBINGEN, ANTI)} & wrong]
    assert 3 < len(both) < 15
    for pairs, about in ((nature, ""), (both, "; known pairs")):
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
    same, changed, one = contrasts.noticed(truth, right, odds)
    means = moved[kappa == 0].mean(), moved[kappa == 1].mean()
    expected = (*means, means[1] - means[0])
    assert (same.value, changed.value, one.value) == pytest.approx(expected)
    each, graphs = np.zeros((3, 15)), list(GRAPHS)
    for pair, x in zip(truth.pairs, moved, strict=True):
        share = x / (sum(kappa == 1) if pair.effect.kappa else -sum(kappa == 0))
        each[graphs.index(pair.scene.shape), pair.scene.sample - 1] += share
    assert one.error == pytest.approx(math.sqrt(15 * each.var(axis=1, ddof=1).sum()))
    # Who ignores the intervention is not said to notice; in truth the log-odds go from 10 to -10.
    for model, value in ((RETRIEVAL, 0.0), (KNOWS, -20.0)):
        assert seen("notices", model, "difference").value == pytest.approx(value, abs=1e-3)


def test_answers_by_path_length_count_every_effect_with_a_yes_before(results):
    """Clusters (1, 1), (0): mean 2/3; sums of what is left 2/3, -2/3; 2/1 * 8/9 / 9, its root."""
    expected = pytest.approx((2 / 3, math.sqrt(2 * (8 / 9)) / 3))
    assert pooled([1, 1, 0], [4, 4, 7])[:2] == expected
    graphs = {}
    for nodes in (3, 6):
        for pair in questions.questions(f"{PLAIN}_large_{nodes:02}").pairs:
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                place = f"path of {length}", ("stays yes", "becomes no")[pair.effect.kappa]
                graphs.setdefault(place, set()).add((nodes, pair.scene.sample))
    rows = find("interventions")(results).table
    rows = rows[rows["asked"].str.startswith("path of")]
    for _, of in rows.groupby("model"):
        samples = by(of, "asked", "part", of="samples")
        assert samples == {place: len(scenes) for place, scenes in graphs.items()}


def test_written_answers_that_could_not_be_read_are_counted(results):
    """Of 450 prompts 45 were not read: 0.1; they count as no answer, neither yes nor no."""
    right = [1 if prompt.right else -1 for prompt in questions.questions(RANDOM).prompts]
    words = " ".join("?" if i % 10 == 0 else str(x) for i, x in enumerate(right))
    scores = scores_of(results, "noise=0.7", "intervention", RANDOM).copy()
    scores["way"], scores["said"] = "intervention_written", [said_of(words, 450, True)]
    written = results._replace(scores=scores)
    rows = by(find("interventions")(written).table.query("asked == ''"), "part")
    assert rows["not read"] == pytest.approx(0.1) and rows["accuracy"] < 0.9
    assert rows["yes-bias"] == pytest.approx(-sum(right[::10]) / 2 / 450)
    # Signs are no log-odds.
    assert find("notices")(written).table.empty
    with pytest.raises(ValueError, match="expected 1, -1, - and"):
        said_of("1 -1 2", 3, written=True)


# What is read.


def edited(task, line=None, **numbers):
    """Return a change of what was said, or of numbers (all by as much), in a result file."""

    def change(file):
        said, row = file["epidemia"]["said"], file["results"][task]
        said[task] = line(said[task]) if line else said[task]
        row |= {f"{name},none": abs(row[f"{name},none"] - by) for name, by in numbers.items()}

    return change


#: What is done to the line of what was said, and what the note of its file says.
DAMAGES = [
    (NHANES, lambda line: line.replace("n:", "n:one", 1), "cannot be read"),
    (NHANES, lambda line: line.replace("n:", "n:nan;", 1), "cannot be read"),
    (NHANES, lambda line: "", "the stored answers are empty"),
    (NHANES, lambda line: re.sub("(n:[^,]*,)", r"\1-", line, count=1), "-.* is not a distribution"),
    (NHANES, lambda line: re.sub("n:([^,]*),", "n:1e999,", line, count=1), "is not a distribution"),
    (NHANES, lambda line: " | ".join(["n:1,2"] * 74), "1 estimates of each quantity, expected 5"),
    (NHANES, lambda line: " | ".join(["-1.0,-2.0"] * 74), "got log-probabilities, expected pr"),
    (NHANES, lambda line: line.replace("n:", "n:9", 1), "but the recorded answers give"),
    (RANDOM, lambda line: "1 2 3", "3 recorded answers"),
    (RANDOM, lambda line: f"x{line}", "expected numbers, - and"),
    (RANDOM, lambda line: f"inf {line.partition(' ')[2]}", "expected numbers, - and"),
    (RANDOM, lambda line: 7, "Expected `str`"),
]

#: Numbers of a task's row that follow from what was said: none may be another.
FOLLOW = [(NHANES, name) for name in ("error_ratio", "win_rate_5", "ece", "answered")]
FOLLOW += [(f"{NHANES}_grid", "win_rate_30"), (f"{NHANES}_grid", "end_mass"), (RANDOM, "accuracy")]


def test_damaged_lines_and_metrics_that_are_not_theirs_leave_their_file_out(runs, tmp_path):
    cases = [(task, edited(task, line), says) for task, line, says in DAMAGES]
    for task, metric in FOLLOW:
        says = rf"{task}: the {metric} is [.\d]+, but the recorded answers give"
        cases.append((task, edited(task, **{metric: 0.013}), says))
    messages = {}
    for number, (task, change, says) in enumerate(cases):
        source = runs / ("graphs/truth" if task == RANDOM else f"prior/{CALIBRATED}")
        messages[str(rewritten(source, tmp_path / str(number), change))] = task, says
    results = read_results([runs / "prior/truth", tmp_path])
    assert [*results.runs["model"]] == ["knows the truth (kind=truth)"]
    assert len(results.notes) == len(messages)
    for path, (task, message) in messages.items():
        (note,) = [note for note in results.notes["text"] if path in note]
        assert re.search(message, note) and (task in note or "Expected" in note), (message, note)


@pytest.mark.parametrize("metric", ["error_ratio_stderr", "error_ratio", "crps_ratio"])
def test_infinite_metrics_count_as_not_known(runs, tmp_path, metric):
    """The share of wins stands, with its error where what was said can be read."""
    path = rewritten(runs / "prior/truth", tmp_path / "x", edited(NHANES, **{metric: math.inf}))
    results = read_results([tmp_path])
    assert f"{path}: {NHANES}: {metric} is infinite" in results.notes["text"][0]
    (of,) = scores_of(results).to_dict("records")
    assert 0 < of["value"] <= 1 and (of["draws"] is None) == (metric == "error_ratio")


def test_a_damaged_truth_is_what_is_blamed(runs, home):
    shutil.copytree(store.paths.shipped_groundtruth() / "quantities", store.built())
    draws = store.built() / "nhanes.draws.parquet"
    draws.write_bytes(draws.read_bytes()[:1000])
    results = read_results([runs / "prior/truth"])
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
    results = read_results([runs / "prior/truth", tmp_path])
    notes = "\n".join(results.notes["text"])
    assert f"1 task ({NHANES}), whose answers come from another truth than the installed" in notes
    assert "epidemia_prior_scf_7: their quantities are not here. Make the set again" in notes
    assert find("pairs")(results).table.empty
    assert find("priors")(read_results([tmp_path])).table.empty


def test_without_what_was_said_there_is_the_leaderboard_only(runs, results, tmp_path):
    """Where all samples agree it claims no error: 0 would be too much, and 1e-17 is left of it."""
    for name in (f"prior/{CALIBRATED}", "graphs/truth"):
        rewritten(runs / name, tmp_path / name, lambda file: file["epidemia"].pop("said"))
    silent = read_results([tmp_path])
    assert silent.notes["text"].str.contains("whose answers are not in the file").sum() == 2
    for name in ("priors", "wins", "quartiles", "interventions", "memorisation", "notices"):
        finding = find(name)(silent)
        assert finding.table.empty and "run lm_eval on epidemia_" in finding.left_out[0], name
    for each in (silent, results):
        board = find("leaderboard")(each).table.query("group == @PLAIN").set_index("model")
        known = board.loc["knows the truth (kind=truth)"]
        assert known["value"] == 1 and math.isnan(known["error"])


def test_a_part_of_a_task_is_said_of_what_was_asked(tmp_path_factory, tmp_path):
    how = {"model_args": "kind=calibrated", "limit": 10}
    results = read_results([copied_run(tmp_path_factory, tmp_path, [NHANES], **how)])
    known = said_by(results)
    assert [*known.truth.column("name")] == [*store.load(NHANES).column("name")[:10]]
    one = find("priors")(results).table.query("asked == '' and part == 'beats 5'").iloc[0]
    board = find("leaderboard")(results).table.query("group == @PRIOR").iloc[0]
    assert (one["value"], one["error"]) == pytest.approx((board["value"], board["error"]), rel=1e-3)
    assert one["samples"] == len(known.stated.a) == 10
    said = said_of("9.8 -3.1 ? - 0", 5, written=False)
    assert said.asked.tolist() == [True, True, True, False, True]
    assert said.odds.tolist() == pytest.approx([9.8, -3.1, math.nan, math.nan, 0], nan_ok=True)


# What is shown.


def test_quantities_have_titles_and_not_codes():
    quantities = [one for task in store.available() for one in store.load(task).quantities]
    assert len({(one.wording, title(one)) for one in quantities}) == len(quantities)
    for one in quantities:
        assert not re.search(r"[a-z][A-Z][a-z]|_|\b(base|easy|medium|hard)\b", title(one))
        assert all(each.phrase in title(one) for each in one.conditions)
