"""What the findings say of interventional reasoning, from real runs of lm-eval."""

import math
import shutil
from functools import partial

import numpy as np
import pytest
from recorded_runs import copied_run
from report_parts import by, command, rewritten, table
from scipy import stats

from lm_eval_epidemia.benchmarks import INTERVENTION, WAYS
from lm_eval_epidemia.benchmarks.intervention import contrasts
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS
from lm_eval_epidemia.benchmarks.intervention.metrics import graded
from lm_eval_epidemia.benchmarks.intervention.questions import knowledge, questions, retrieval
from lm_eval_epidemia.benchmarks.intervention.respondents import answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.interventions import EFFECTS
from lm_eval_epidemia.findings.parts import ALIKE_NOTE
from lm_eval_epidemia.report.figures import save
from lm_eval_epidemia.results.choose import of_runs
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.replicates import said_of
from lm_eval_epidemia.score import estimates
from lm_eval_epidemia.score.joint import own_errors

RANDOM, TUEBINGEN, ANTI = (
    f"epidemia_intervention_{names}" for names in ("random", "tuebingen", "anticommonsense")
)
NOISY = "noisy,noise=0.7"
PLAIN = "epidemia_intervention"
KINDS = ("truth", "retrieval", NOISY)
#: What was asked of one alone need not be asked of all.
ASKED = ("", "_retrieval", "_large_03", "_large_06")
MORE = {NOISY: ("_substitution", "_knowledge")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        tasks = [PLAIN + way for way in (*ASKED, *MORE.get(kind, ()))]
        copied_run(tmp_path_factory, folder / kind, tasks, model_args=f"kind={kind}")
    return folder


@pytest.fixture(scope="module")
def results(runs):
    return read_results([runs])


@pytest.fixture(scope="module")
def seen(results):
    """Return a row by finding, kind of respondent, group, what it is about, and part."""

    def one(finding, kind, group, about="", part="accuracy"):
        rows = find(finding)(results).table
        is_one = rows["model"].str.contains(f"kind={kind}") & (rows["group"] == group)
        (row,) = rows[is_one & (rows["asked"] == about) & (rows["part"] == part)].itertuples()
        return row

    return one


def scores_of(results, kind, tasks):
    is_kind = results.scores["run"].map(results.runs["model"]).str.contains(f"kind={kind}")
    scores = results.scores[is_kind & results.scores["task"].isin(tasks)]
    return scores[scores["way"] == "intervention"]


def respondent(task, kind="noisy", noise=0.7, load=questions):
    """Return truth, log-odds, and what was right, of a respondent whose answers are known."""
    truth = load(task)
    p = answers(truth, kind, noise, 0)
    odds = np.log(p[:, 0] / p[:, 1])
    return truth, odds, graded(truth, odds, np.ones(len(odds), dtype=bool))


def by_hand(task, chosen, kind="noisy", noise=0.7):
    """Mean over the queries of each sample, by the sample's number: plain loops."""
    truth, odds, _ = respondent(task, kind, noise)
    right = [(odds[i] > 0) == p.right for i, p in enumerate(truth.prompts)]
    parts = {}
    for pair in truth.pairs:
        if chosen(pair):
            part = parts.setdefault((pair.scene.shape, pair.scene.sample), [])
            part.append(bool(right[pair.base] and right[pair.post]))
    return {place: np.mean(part) for place, part in parts.items()}


def on(graph, intervened, *queries):
    def chosen(pair):
        effect = pair.effect
        return (pair.scene.shape, effect.intervened) == (graph, intervened) and (
            not queries or effect.cause + effect.result in queries
        )

    return chosen


def error_of(values):
    return np.std(values, ddof=1) / math.sqrt(len(values))


# The numbers.


def test_an_effect_is_the_mean_of_samples_with_the_error_of_their_mean(seen):
    """sd / sqrt(15) over the samples' means over queries."""
    for names in ("random", "tuebingen", "anticommonsense"):
        for graph, node in (("bivariate", "B"), ("mediation", "A")):
            samples = [*by_hand(f"epidemia_intervention_{names}", on(graph, node)).values()]
            one = seen("interventions", "noisy", PLAIN, f"{graph}, do({node})", names)
            assert len(samples) == one.samples == 15
            assert one.value == pytest.approx(np.mean(samples)), (names, graph)
            assert one.error == pytest.approx(error_of(samples))
            reach = stats.t.ppf(0.975, 14) * one.error
            assert (one.low, one.high) == pytest.approx((one.value - reach, one.value + reach))


def test_the_overall_accuracy_is_lm_evals_with_its_error(results, seen):
    """Three tasks with 1/3 each: errors of independent tasks in quadrature."""
    one = seen("interventions", "noisy", PLAIN)
    scores = scores_of(results, "noisy", (RANDOM, TUEBINGEN, ANTI))
    assert len(scores) == 3 and one.value == pytest.approx(scores["value"].mean())
    # Draws stand in the file with four digits.
    error = math.sqrt(sum(x**2 for x in own_errors([*scores["draws"]]))) / 3
    assert one.error == pytest.approx(error, rel=1e-3)
    by_kappa = {f"kappa = {kappa}": f"kappa{kappa}_accuracy" for kappa in (0, 1)}
    for part, metric in {**by_kappa, "before": "base_accuracy", "after": "post_accuracy"}.items():
        value = seen("interventions", "noisy", PLAIN, "", part).value
        assert value == pytest.approx(scores[metric].mean()), part
    # Answered in another way, with the same answers: the difference is paired, and 0.
    other = seen("interventions", "noisy", f"{PLAIN}_substitution", "", "minus plain")
    assert other.value == 0 and math.isnan(other.error) and one.error > 0.01


def test_the_shortcut_test_pairs_kappa_1_with_kappa_0_of_the_same_samples():
    truth, _, right = respondent(RANDOM)
    where = np.array([on("mediation", "B")(truth.pairs[n]) for n in right.numbers])
    sides = [where & (right.kappa == kappa) for kappa in (0, 1)]
    same, changed = (
        contrasts.mean(truth, contrasts.picked(right, side), right.right[side]) for side in sides
    )
    one = estimates.paired(changed, same)
    yes = by_hand(RANDOM, on("mediation", "B", "AB", "AC"))
    no = by_hand(RANDOM, on("mediation", "B", "BC"))
    differences = [yes[place] - no[place] for place in yes]
    assert one.value == pytest.approx(np.mean(differences))
    assert one.error == pytest.approx(error_of(differences))


def test_who_does_not_retrieve_is_left_out_of_the_shortcut_test_and_named(results):
    shortcut = find("shortcut")(results)
    models = shortcut.table["model"]
    assert {*models} == {"knows the truth (kind=truth)", "epidemia-baseline kind=retrieval"}
    (run,) = results.runs.index[results.runs["model"].str.contains("noisy")]
    scores = results.scores[(results.scores["run"] == run) & (results.scores["task"] == RANDOM)]
    (share,) = scores["value"][scores["way"] == "retrieval"]
    assert 0.85 < share < 0.95
    left_out = f"{results.runs['name'][run]} in {PLAIN}: it retrieves {share:.3f} of them"
    assert left_out in shortcut.left_out
    # Who only retrieves is right wherever nothing changes, and nowhere else.
    rows = shortcut.table[models.str.contains("kind=retrieval")]
    assert rows["asked"].nunique() == 6 and not rows["asked"].str.contains(r"do\(A\)").any()
    values = {"kappa = 0": 1.0, "kappa = 1": 0.0, "difference": -1.0}
    assert {*zip(rows["part"], rows["value"], strict=True)} == {*values.items()}
    # All samples say so: that tells of no error.
    assert rows["error"].isna().all() and shortcut.note.endswith(ALIKE_NOTE)
    alone = find("shortcut")(of_runs(results, [run]))
    assert alone.table.empty and left_out in alone.left_out
    assert "Only models that retrieve at least 0.95" in alone.note


def test_memorisation_is_paired_where_the_pairs_are_the_same(seen):
    chosen = on("bivariate", "B", "AB")
    nature, turned = by_hand(TUEBINGEN, chosen), by_hand(ANTI, chosen)
    differences = [nature[place] - turned[place] for place in nature]
    one = seen("memorisation", "noisy", PLAIN, "bivariate, do(B), AB", "t - a")
    assert one.value == pytest.approx(np.mean(differences))
    assert one.error == pytest.approx(error_of(differences))
    # Elsewhere the samples are others: variances add.
    chosen = on("mediation", "C", "AC")
    nature, turned = (list(by_hand(task, chosen).values()) for task in (TUEBINGEN, ANTI))
    one = seen("memorisation", "noisy", PLAIN, "mediation, do(C), AC", "t - a")
    assert one.value == pytest.approx(np.mean(nature) - np.mean(turned))
    assert one.error == pytest.approx(math.hypot(error_of(nature), error_of(turned)))
    # Welch's degrees of freedom, as scipy has them.
    welch = stats.ttest_ind(nature, turned, equal_var=False)
    reach = stats.t.ppf(0.975, welch.df) * one.error
    assert one.high == pytest.approx(one.value + reach)


def test_known_pairs_are_those_whose_every_question_was_right(seen):
    """Bivariate: in both benchmarks, which ask about the same pairs."""
    knows = {}
    for task in (TUEBINGEN, ANTI):
        truth, odds, _ = respondent(task, load=knowledge)
        wrong = {
            (p.scene.shape, p.scene.sample)
            for p, x in zip(truth.prompts, odds, strict=True)
            if (x > 0) != p.right
        }
        knows[task] = {(s.shape, s.sample) for s in truth.scenes} - wrong
    both = {p for p in knows[TUEBINGEN] & knows[ANTI] if p[0] == "bivariate"}
    nature, turned = (by_hand(task, on("bivariate", "B", "AB")) for task in (TUEBINGEN, ANTI))
    differences = [nature[place] - turned[place] for place in both]
    known = ("memorisation", "noisy", PLAIN)
    one = seen(*known, "bivariate, do(B), AB; known pairs", "t - a")
    assert 3 < one.samples == len(both) < 15
    assert one.value == pytest.approx(np.mean(differences))
    assert one.error == pytest.approx(error_of(differences))
    values = by_hand(TUEBINGEN, on("mediation", "B", "AC"))
    alone = [value for place, value in values.items() if place in knows[TUEBINGEN]]
    one = seen(*known, "mediation, do(B), AC; known pairs", "tuebingen")
    assert (one.samples, one.value) == (len(alone), pytest.approx(np.mean(alone)))


def test_two_ways_are_paired_by_sample():
    """Unlike answers, of one task: the error of the differences of samples, stratified by graph."""
    truth, _, one = respondent(RANDOM)
    _, _, other = respondent(RANDOM, noise=1.5)
    difference = estimates.paired(*(contrasts.mean(truth, x, x.right) for x in (one, other)))
    first, second = (by_hand(RANDOM, lambda pair: True, noise=noise) for noise in (0.7, 1.5))
    effects = {"bivariate": 4, "confounding": 9, "mediation": 9}
    value = variance = 0
    for graph, number in effects.items():
        differences = [first[p] - second[p] for p in first if p[0] == graph]
        value += number / 22 * np.mean(differences)
        variance += (number / 22) ** 2 * np.var(differences, ddof=1) / 15
    assert difference.error == pytest.approx(math.sqrt(variance))
    assert difference.value == pytest.approx(value)
    halves = np.arange(len(one.numbers))
    left, right = contrasts.shared(
        contrasts.picked(one, halves < 200), contrasts.picked(other, halves >= 100)
    )
    assert left.numbers.tolist() == right.numbers.tolist() == list(range(100, 200))


def test_what_is_noticed_has_the_error_of_a_bootstrap_of_samples(seen):
    """10,000 bootstrap samples, within each graph: 15 drawn of 15; ddof: 14/15 of the variance."""
    truth, odds, right = respondent(RANDOM)
    same, changed, one = contrasts.noticed(truth, right, odds)
    moved = np.array([odds[pair.post] - odds[pair.base] for pair in truth.pairs])
    kappa = np.array([pair.effect.kappa for pair in truth.pairs])
    assert same.value == pytest.approx(moved[kappa == 0].mean())
    assert changed.value == pytest.approx(moved[kappa == 1].mean())
    assert one.value == pytest.approx(changed.value - same.value)
    # In truth the log-odds go from 1 to -1 where kappa is 1, and stay elsewhere.
    assert one.interval[0] < -2 < one.interval[1] < 0
    sums = np.zeros((2, 3, 15))
    graphs = list(GRAPHS)
    for pair, x, k in zip(truth.pairs, moved, kappa, strict=True):
        sums[k, graphs.index(pair.scene.shape), pair.scene.sample - 1] += x
    counts = [sum(kappa == 0), sum(kappa == 1)]
    drawn = np.random.default_rng(1).integers(0, 15, (10_000, 3, 15))
    totals = sums[:, np.arange(3)[:, None], drawn].sum(axis=(2, 3))
    spread = (totals[1] / counts[1] - totals[0] / counts[0]).std(ddof=1)
    assert one.error == pytest.approx(spread * math.sqrt(15 / 14), rel=0.03)
    assert one.freedom == 45 - 3
    # Who ignores the intervention is not said to notice.
    for kind, value in (("retrieval", 0.0), ("truth", -20.0)):
        difference = seen("notices", kind, PLAIN, "", "difference").value
        assert difference == pytest.approx(value, abs=1e-3)


def test_means_over_clusters_and_of_independent_samples_by_hand():
    """Clusters (1, 1), (0): mean 2/3; sums of what is left 2/3, -2/3; 2/1 * 8/9 / 9, its root.

    Independent: (0.3 + 0.5) / 2, sqrt(0.03^2 + 0.04^2) / 2; the difference has their root alone.
    """
    one = estimates.pooled([1, 1, 0], [4, 4, 7])
    assert one.value == pytest.approx(2 / 3) and one.samples == 2
    assert one.error == pytest.approx(math.sqrt(2 * (8 / 9)) / 3)
    assert math.isnan(estimates.pooled([1, 0], [1, 1]).error)
    assert math.isnan(estimates.pooled([], []).value)
    one, other = (estimates.Estimate(x, e, 15, 14) for x, e in ((0.3, 0.03), (0.5, 0.04)))
    both = estimates.average([one, other])
    assert (both.value, both.error, both.samples) == (pytest.approx(0.4), pytest.approx(0.025), 30)
    difference = estimates.apart(one, other)
    assert (difference.value, difference.error) == (pytest.approx(-0.2), pytest.approx(0.05))
    assert math.isnan(estimates.NOTHING.interval[0])


def test_answers_by_path_length_count_every_effect_with_a_yes_before(results):
    graphs = {}
    for nodes in (3, 6):
        for pair in questions(f"epidemia_intervention_large_{nodes:02}").pairs:
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                part = ("stays yes", "becomes no")[pair.effect.kappa]
                graphs.setdefault((f"path of {length}", part), set()).add(
                    (nodes, pair.scene.sample)
                )
    rows = find("interventions")(results).table
    rows = rows[rows["asked"].str.startswith("path of")]
    for model, of in rows.groupby("model"):
        samples = by(of, "asked", "part", of="samples")
        assert samples == {place: len(scenes) for place, scenes in graphs.items()}
        if model.endswith("kind=retrieval"):
            values = {*zip(of["part"], of["value"], strict=True)}
            assert values == {("stays yes", 1.0), ("becomes no", 0.0)}


# What is read.


def test_what_was_said_is_read(results):
    scores = results.scores[results.scores["run"].map(results.runs["model"]).str.contains("noisy")]
    (said,) = scores["said"][(scores["task"] == RANDOM) & (scores["way"] == "retrieval")]
    _, odds, _ = respondent(RANDOM, load=retrieval)
    assert said.asked.all() and said.odds == pytest.approx(odds, rel=1e-3)
    one = said_of("9.8 -3.1 ? - 0", 5, written=False)
    assert one.asked.tolist() == [True, True, True, False, True]
    assert one.odds[[0, 1, 4]].tolist() == [9.8, -3.1, 0] and np.isnan(one.odds[2:4]).all()


@pytest.mark.parametrize(
    ("text", "written", "message"),
    [
        ("1 2", False, "2 recorded answers, expected 3"),
        ("1 x 2", False, "expected numbers, - and"),
        ("1 inf 2", False, "expected numbers, - and"),
        ("1 nan 2", False, "expected numbers, - and"),
        ("1 -1 2", True, "expected 1, -1, - and"),
    ],
)
def test_odd_answers_are_refused(text, written, message):
    with pytest.raises(ValueError, match=message):
        said_of(text, 3, written)


def test_files_with_odd_answers_or_another_accuracy_are_left_out_with_a_note(runs, tmp_path):
    shutil.copytree(runs / "retrieval", tmp_path / "retrieval")
    odd = {
        "short": lambda results: results["epidemia"]["said"].update({RANDOM: "1 2 3"}),
        "infinite": lambda results: results["epidemia"]["said"].update({RANDOM: "inf " * 450}),
        "number": lambda results: results["epidemia"]["said"].update({RANDOM: 7}),
        "accuracy": lambda results: results["results"][RANDOM].update({"accuracy,none": 0.9}),
    }
    changed = partial(rewritten, runs / "truth")
    paths = {name: str(changed(tmp_path / name, change)) for name, change in odd.items()}
    read = read_results([tmp_path])
    assert [*read.runs["model"]] == ["epidemia-baseline kind=retrieval"]
    texts = [*read.notes["text"]]
    notes = {name: [note for note in texts if path in note] for name, path in paths.items()}
    assert [len(found) for found in notes.values()] == [1] * len(odd) and len(texts) == len(odd)
    said = "the accuracy is 0.9000, but the recorded answers give 1.0000"
    assert said in notes["accuracy"][0]


def test_where_all_samples_agree_the_leaderboard_claims_no_error(results):
    """0 would claim too much, and rounding would leave 1e-17 of it."""
    errors = by(find("leaderboard")(results).table, "model", "group", of="error")
    assert math.isnan(errors["knows the truth (kind=truth)", PLAIN])
    assert errors["knows the truth with noise (kind=noisy, noise=0.7)", PLAIN] > 0.01


def test_without_what_was_said_the_leaderboard_stands(runs, tmp_path):
    rewritten(runs / "truth", tmp_path / "truth", lambda results: results["epidemia"].pop("said"))
    read = read_results([tmp_path])
    assert "whose answers are not in the file" in read.notes["text"][0]
    for name in ("interventions", "shortcut", "memorisation", "notices"):
        assert find(name)(read).table.empty
    assert (
        by(table("leaderboard", tmp_path), "model", "group")["knows the truth (kind=truth)", PLAIN]
        == 1
    )


def test_a_part_of_a_task_is_said_for_the_samples_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [RANDOM], model_args="kind=truth", limit=60)
    read = read_results([tmp_path])
    (said,) = read.scores["said"]
    assert said.asked.sum() == 60
    rows = find("interventions")(read).table
    rows = rows[rows["part"] == "random"]
    assert by(rows, "asked", of="samples") == {"bivariate, do(A)": 10, "bivariate, do(B)": 10}


def test_written_answers_that_could_not_be_read_are_counted(results):
    """Of 450 prompts 45 were not read: 0.1; they count as no answer, neither yes nor no."""
    truth = questions(RANDOM)
    words = ["?" if i % 10 == 0 else "1" if p.right else "-1" for i, p in enumerate(truth.prompts)]
    scores = results.scores[results.scores["task"] == RANDOM].iloc[:1].copy()
    scores["way"], scores["said"] = "intervention_written", [said_of(" ".join(words), 450, True)]
    written = results._replace(scores=scores)
    rows = by(find("interventions")(written).table.query("asked == ''"), "part")
    assert rows["not read"] == pytest.approx(0.1) and rows["accuracy"] < 0.9
    unread = [1 if p.right else -1 for i, p in enumerate(truth.prompts) if i % 10 == 0]
    assert rows["yes-bias"] == pytest.approx(-sum(unread) / 2 / 450)
    # Signs are no log-odds.
    assert find("notices")(written).table.empty


# What is shown.


def test_people_see_means_first_and_parts_on_demand_and_programs_every_number(runs, results):
    show = ("--show", "interventions,shortcut,memorisation,notices,nodes")
    short, long = command("report", runs, *show), command("report", runs, *show, "--wide")
    titles = (
        "Causal graphs: accuracy|Shortcut test|Memorisation|Does it notice?|number of variables"
    )
    for title in titles.split("|"):
        assert title in short and title in long, title
    for more in ("confounding, do(C)", "known pairs", "path of 2"):
        assert more in long, more
    assert "confounding, do(C)" not in short.partition("Shortcut")[0] and "path of 2" not in short
    rows = command("report", runs, "--show", "shortcut", "--format", "csv").splitlines()
    assert len(rows) == 1 + len(find("shortcut")(results).table)
    assert r"\caption{Shortcut test" in command(
        "report", runs, "--show", "shortcut", "--format", "latex"
    )


def test_figures_are_drawn_and_say_what_they_need(runs, results, tmp_path):
    for name in ("nodes", "paths", "leaderboard"):
        text = save(name, lambda: results, tmp_path / f"{name}.svg").read_text()
        assert "kind=retrieval" in text, name
    nodes = find("nodes")(results).table
    assert {*nodes["nodes"]} == {"n = 03", "n = 06"} and len(nodes) == 6
    nobody = results._replace(scores=results.scores[results.scores["way"] == "retrieval"])
    for name, says in (("nodes", "run lm_eval on epidemia_intervention_large"), ("paths", "")):
        with pytest.raises(EpidemiaError, match=says or "nothing to draw for paths"):
            save(name, lambda: nobody, tmp_path / "none.svg")


def test_larger_graphs_have_no_tables_of_their_own_names(results):
    rows = find("interventions")(results).table
    groups = {*rows["group"][rows["part"].isin(("random", "tuebingen"))]}
    assert groups == {PLAIN, f"{PLAIN}_substitution"}
    assert INTERVENTION.heading == "Accuracy on causal graphs"
    assert all(WAYS[way].load is questions for way in EFFECTS)
