"""What the findings say of interventional reasoning, from real runs of lm-eval."""

import math

import numpy as np
import pytest
from recorded_runs import copied_run
from report_parts import by, command, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks.intervention import contrasts
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS
from lm_eval_epidemia.benchmarks.intervention.metrics import graded
from lm_eval_epidemia.benchmarks.intervention.questions import knowledge, questions, retrieval
from lm_eval_epidemia.benchmarks.intervention.respondents import answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find, interventions
from lm_eval_epidemia.findings.parts import ALIKE_NOTE
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.replicates import said_of
from lm_eval_epidemia.score import estimates
from lm_eval_epidemia.score.joint import own_errors

PLAIN = "epidemia_intervention"
NAMES = ("random", "tuebingen", "anticommonsense")
RANDOM, TUEBINGEN, ANTI = (f"{PLAIN}_{names}" for names in NAMES)
#: Who is asked, and what: what was asked of one alone need not be asked of all.
USUAL = ("", "_retrieval", "_large_03", "_large_06")
ASKED = {"truth": USUAL, "retrieval": USUAL}
ASKED |= {"noisy,noise=0.7": (*USUAL, "_substitution", "_knowledge")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind, ways in ASKED.items():
        tasks = [PLAIN + way for way in ways]
        copied_run(tmp_path_factory, folder / kind, tasks, model_args=f"kind={kind}")
    return folder


@pytest.fixture(scope="module")
def results(runs):
    return read_results([runs])


def seen(results, finding, kind, about="", part="accuracy", group=PLAIN):
    """Return a row by finding, kind of respondent, what it is about, part, and group."""
    rows = find(finding)(results).table
    rows = rows[rows["model"].str.contains(f"kind={kind}") & (rows["group"] == group)]
    (row,) = rows[(rows["asked"] == about) & (rows["part"] == part)].itertuples()
    return row


def scores_of(results, kind, task, way="intervention"):
    is_kind = results.scores["run"].map(results.runs["model"]).str.contains(f"kind={kind}")
    return results.scores[
        is_kind & (results.scores["task"] == task) & (results.scores["way"] == way)
    ]


def respondent(task, load=questions):
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


def check(row, values):
    """A mean of samples: sd / sqrt(n), and Student's t around it."""
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert (row.value, row.error) == pytest.approx((np.mean(values), error))
    reach = stats.t.ppf(0.975, len(values) - 1) * error
    assert (row.low, row.high) == pytest.approx((row.value - reach, row.value + reach))
    assert row.samples == len(values)


# The numbers.


def test_effects_and_the_overall_accuracy(results):
    for names in NAMES:
        for graph, node in (("bivariate", "B"), ("mediation", "A")):
            one = seen(results, "interventions", "noisy", f"{graph}, do({node})", names)
            samples = [*by_hand(f"{PLAIN}_{names}", graph, node).values()]
            assert len(samples) == 15
            check(one, samples)
    # That of lm-eval: three tasks with 1/3 each, errors of independent tasks in quadrature.
    tasks = [scores_of(results, "noisy", f"{PLAIN}_{names}").iloc[0] for names in NAMES]
    one = seen(results, "interventions", "noisy")
    assert one.value == pytest.approx(np.mean([task["value"] for task in tasks]))
    # Draws stand in the file with four digits.
    error = math.hypot(*own_errors([task["draws"] for task in tasks])) / 3
    assert one.error == pytest.approx(error, rel=1e-3) and one.error > 0.01
    for part, metric in (
        *(("kappa = 0", "kappa0_accuracy"), ("kappa = 1", "kappa1_accuracy")),
        *(("before", "base_accuracy"), ("after", "post_accuracy")),
    ):
        value = seen(results, "interventions", "noisy", "", part).value
        assert value == pytest.approx(np.mean([task[metric] for task in tasks])), part
    # Answered in another way, with the same answers: the difference is paired, and 0.
    group = f"{PLAIN}_substitution"
    other = seen(results, "interventions", "noisy", "", "minus plain", group)
    assert other.value == 0 and math.isnan(other.error)


def test_the_shortcut_test_pairs_kappa_1_with_kappa_0_of_the_same_samples(results, monkeypatch):
    """And leaves out and names who does not retrieve."""
    finding = find("shortcut")(results)
    models, rows = finding.table["model"], finding.table
    assert {*models} == {"knows the truth (kind=truth)", "epidemia-baseline kind=retrieval"}
    (said,) = scores_of(results, "noisy", RANDOM, "retrieval").itertuples()
    assert 0.85 < said.value < 0.95 and "at least 0.95" in finding.note
    name = results.runs["name"][said.run]
    assert f"{name} in {PLAIN}: it retrieves {said.value:.3f} of them" in finding.left_out
    # Who only retrieves is right wherever nothing changes, and nowhere else.
    rows = rows[models.str.contains("kind=retrieval")]
    assert rows["asked"].nunique() == 6 and not rows["asked"].str.contains(r"do\(A\)").any()
    values = {("kappa = 0", 1.0), ("kappa = 1", 0.0), ("difference", -1.0)}
    assert {*zip(rows["part"], rows["value"], strict=True)} == values
    # All samples say so: that tells of no error.
    assert rows["error"].isna().all() and finding.note.endswith(ALIKE_NOTE)
    monkeypatch.setattr(interventions, "FOUND", 0.8)
    yes, no = by_hand(RANDOM, "mediation", "B", "AB", "AC"), by_hand(RANDOM, "mediation", "B", "BC")
    one = seen(results, "shortcut", "noisy", "mediation, do(B)", "difference")
    check(one, [yes[sample] - no[sample] for sample in yes])


def test_memorisation_is_paired_where_the_pairs_are_the_same(results):
    """Known pairs are those whose every question was right: the bivariate ones in both sets."""
    nature, turned = (by_hand(task, "bivariate", "B", "AB") for task in (TUEBINGEN, ANTI))
    one = seen(results, "memorisation", "noisy", "bivariate, do(B), AB", "t - a")
    check(one, [nature[pair] - turned[pair] for pair in nature])
    wrong = {TUEBINGEN: {}, ANTI: {}}
    for task, of_task in wrong.items():
        truth, odds, _ = respondent(task, knowledge)
        for prompt, x in zip(truth.prompts, odds, strict=True):
            of_graph = of_task.setdefault(prompt.scene.shape, set())
            of_graph |= {prompt.scene.sample} if (x > 0) != prompt.right else set()
    both = {*nature} - wrong[TUEBINGEN]["bivariate"] - wrong[ANTI]["bivariate"]
    one = seen(results, "memorisation", "noisy", "bivariate, do(B), AB; known pairs", "t - a")
    assert 3 < len(both) < 15
    check(one, [nature[pair] - turned[pair] for pair in both])
    alone = by_hand(TUEBINGEN, "mediation", "B", "AC")
    known = [value for pair, value in alone.items() if pair not in wrong[TUEBINGEN]["mediation"]]
    about = "mediation, do(B), AC; known pairs"
    check(seen(results, "memorisation", "noisy", about, "tuebingen"), known)
    # Elsewhere the samples are others: variances add, with Welch's degrees of freedom.
    sides = [[*by_hand(task, "mediation", "C", "AC").values()] for task in (TUEBINGEN, ANTI)]
    one = seen(results, "memorisation", "noisy", "mediation, do(C), AC", "t - a")
    welch = stats.ttest_ind(*sides, equal_var=False)
    assert one.value == pytest.approx(np.mean(sides[0]) - np.mean(sides[1]))
    assert (one.low, one.high) == pytest.approx(tuple(welch.confidence_interval()))


def test_what_is_noticed_has_the_error_of_its_samples(results):
    """Stratified by graph, each of 15 samples; the pairs of kappa 1 and 0 are of the same ones."""
    truth, odds, right = respondent(RANDOM)
    same, changed, one = contrasts.noticed(truth, right, odds)
    moved = np.array([odds[pair.post] - odds[pair.base] for pair in truth.pairs])
    kappa = np.array([pair.effect.kappa for pair in truth.pairs])
    means = moved[kappa == 0].mean(), moved[kappa == 1].mean()
    assert (same.value, changed.value) == pytest.approx(means)
    assert one.value == pytest.approx(means[1] - means[0])
    each, graphs = np.zeros((3, 15)), list(GRAPHS)
    for pair, x in zip(truth.pairs, moved, strict=True):
        share = x / (sum(kappa == 1) if pair.effect.kappa else -sum(kappa == 0))
        each[graphs.index(pair.scene.shape), pair.scene.sample - 1] += share
    assert one.error == pytest.approx(math.sqrt(15 * each.var(axis=1, ddof=1).sum()))
    assert one.freedom == 45 - 3
    # Who ignores the intervention is not said to notice; in truth the log-odds go from 10 to -10.
    for kind, value in (("retrieval", 0.0), ("truth", -20.0)):
        difference = seen(results, "notices", kind, "", "difference").value
        assert difference == pytest.approx(value, abs=1e-3)


def test_a_mean_over_clusters_by_hand():
    """(1, 1), (0): mean 2/3; sums of what is left 2/3, -2/3; 2/1 * 8/9 / 9, its root."""
    pooled = estimates.pooled([1, 1, 0], [4, 4, 7])
    assert (pooled.value, pooled.error) == pytest.approx((2 / 3, math.sqrt(2 * (8 / 9)) / 3))
    assert math.isnan(estimates.pooled([1, 0], [1, 1]).interval[0])


def test_answers_by_path_length_count_every_effect_with_a_yes_before(results):
    graphs = {}
    for nodes in (3, 6):
        for pair in questions(f"{PLAIN}_large_{nodes:02}").pairs:
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                place = f"path of {length}", ("stays yes", "becomes no")[pair.effect.kappa]
                graphs.setdefault(place, set()).add((nodes, pair.scene.sample))
    rows = find("interventions")(results).table
    rows = rows[rows["asked"].str.startswith("path of")]
    for _, of in rows.groupby("model"):
        samples = by(of, "asked", "part", of="samples")
        assert samples == {place: len(scenes) for place, scenes in graphs.items()}
    retrieved = rows[rows["model"].str.endswith("kind=retrieval")]
    assert {*by(retrieved, "part", "value")} == {("stays yes", 1.0), ("becomes no", 0.0)}


# What is read.


def test_what_was_said_is_read_or_refused(results):
    (said,) = scores_of(results, "noisy", RANDOM, "retrieval")["said"]
    _, odds, _ = respondent(RANDOM, retrieval)
    assert said.asked.all() and said.odds == pytest.approx(odds, rel=1e-3)
    one = said_of("9.8 -3.1 ? - 0", 5, written=False)
    assert one.asked.tolist() == [True, True, True, False, True]
    assert one.odds.tolist() == pytest.approx([9.8, -3.1, math.nan, math.nan, 0], nan_ok=True)
    for text, message in {
        "1 2": "2 recorded answers, expected 3",
        **dict.fromkeys(("1 x 2", "1 inf 2", "1 nan 2"), "expected numbers, - and"),
        "1 -1 2": "expected 1, -1, - and",
    }.items():
        with pytest.raises(ValueError, match=message):
            said_of(text, 3, written=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: file["epidemia"]["said"].update({RANDOM: "1 2 3"}), "3 recorded answers"),
        (lambda file: file["epidemia"]["said"].update({RANDOM: 7}), "Expected `str`"),
        (
            lambda file: file["results"][RANDOM].update({"accuracy,none": 0.9}),
            "the accuracy is 0.9000, but the recorded answers give 1.0000",
        ),
    ],
)
def test_odd_answers_or_another_accuracy_leave_their_file_out(runs, tmp_path, change, says):
    path = rewritten(runs / "truth", tmp_path / "odd", change)
    with pytest.raises(EpidemiaError, match=f"{path} is not a result file.*{says}"):
        read_results([tmp_path])


def test_without_what_was_said_the_leaderboard_stands(runs, results, tmp_path):
    """Where all samples agree it claims no error: 0 would be too much, and 1e-17 is left of it."""
    rewritten(runs / "truth", tmp_path / "truth", lambda file: file["epidemia"].pop("said"))
    read, model = read_results([tmp_path]), ("knows the truth (kind=truth)", PLAIN)
    assert "whose answers are not in the file" in read.notes["text"][0]
    for name in ("interventions", "shortcut", "memorisation", "notices"):
        assert find(name)(read).table.empty
    for each in (read, results):
        board = find("leaderboard")(each).table
        assert by(board, "model", "group")[model] == 1
        assert math.isnan(by(board, "model", "group", of="error")[model])


def test_a_part_of_a_task_is_said_for_the_samples_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [RANDOM], model_args="kind=truth", limit=60)
    read = read_results([tmp_path])
    assert read.scores["said"][0].asked.sum() == 60
    rows = find("interventions")(read).table.query("part == 'random'")
    assert by(rows, "asked", of="samples") == {"bivariate, do(A)": 10, "bivariate, do(B)": 10}


def test_written_answers_that_could_not_be_read_are_counted(results):
    """Of 450 prompts 45 were not read: 0.1; they count as no answer, neither yes nor no."""
    right = [1 if prompt.right else -1 for prompt in questions(RANDOM).prompts]
    words = " ".join("?" if i % 10 == 0 else str(x) for i, x in enumerate(right))
    scores = scores_of(results, "noisy", RANDOM).copy()
    scores["way"], scores["said"] = "intervention_written", [said_of(words, 450, True)]
    written = results._replace(scores=scores)
    rows = by(find("interventions")(written).table.query("asked == ''"), "part")
    assert rows["not read"] == pytest.approx(0.1) and rows["accuracy"] < 0.9
    assert rows["yes-bias"] == pytest.approx(-sum(right[::10]) / 2 / 450)
    # Signs are no log-odds.
    assert find("notices")(written).table.empty


# What is shown.


def test_people_see_means_first_and_parts_on_demand(runs):
    show = ("report", runs, "--show", "interventions,memorisation")
    short, long = command(*show), command(*show, "--wide")
    parts = "confounding, do(C)", "path of 2", "known pairs"
    assert all(part in long for part in parts)
    assert not any(part in short for part in parts[:2])
