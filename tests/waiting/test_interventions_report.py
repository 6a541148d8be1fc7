"""What the report and the site say of interventional reasoning, from real runs of lm-eval."""

import csv
import io
import json
import math
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from lm_eval_epidemia.old.findings import data, interventions
from lm_eval_epidemia.old.findings.leaderboard import make_report
from lm_eval_epidemia.old.findings.rows import ALIKE_NOTE
from lm_eval_epidemia.old.report import figures, output
from lm_eval_epidemia.old.report.drawn import drawing
from lm_eval_epidemia.old.report.sections import printed
from lm_eval_epidemia.results.results import read_results
from recorded_runs import copied_run
from report_parts import command, kind_of, numbers, rewritten
from scipy import stats

from lm_eval_epidemia.benchmarks import INTERVENTION, WAYS
from lm_eval_epidemia.benchmarks.intervention import contrasts, generate
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, Graph
from lm_eval_epidemia.benchmarks.intervention.metrics import graded
from lm_eval_epidemia.benchmarks.intervention.questions import knowledge, questions, retrieval
from lm_eval_epidemia.benchmarks.intervention.respondents import answers
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.replicates import said_of
from lm_eval_epidemia.score import estimates

WAYS_ASKED = ("", "_substitution", "_retrieval", "_knowledge", "_large_03", "_large_06")
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
def report(runs):
    return make_report(read_results([runs]))


@pytest.fixture(scope="module")
def seen(report):
    """Every number of the tables."""
    return numbers(interventions.findings(report.runs))


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


# The numbers.


def test_an_effect_is_the_mean_of_samples_with_the_error_of_their_mean(seen):
    """sd / sqrt(15) over the samples' means over queries."""
    for names in ("random", "tuebingen", "anticommonsense"):
        for graph, node in (("bivariate", "B"), ("mediation", "A")):
            samples = [*by_hand(f"epidemia_intervention_{names}", on(graph, node)).values()]
            one = seen["effect", NOISY, PLAIN, f"{graph}, do({node})", names]
            assert len(samples) == one.samples == 15 and one.freedom == 14
            assert one.value == pytest.approx(np.mean(samples)), (names, graph)
            assert one.error == pytest.approx(np.std(samples, ddof=1) / math.sqrt(15))
            reach = stats.t.ppf(0.975, 14) * one.error
            assert one.interval == pytest.approx((one.value - reach, one.value + reach))


def test_the_overall_accuracy_is_lm_evals_with_its_error(report, seen):
    """Three tasks with 1/3 each: errors of independent tasks in quadrature."""
    one = seen["interventions", NOISY, PLAIN, "", "accuracy"]
    (entry,) = (e for e in report.runs if "kind=noisy" in e.model)
    scores = [entry.scores[Asked(task, "intervention")] for task in (RANDOM, TUEBINGEN, ANTI)]
    assert one.value == pytest.approx(np.mean([score.value for score in scores]))
    # Draws stand in the file with four digits.
    error = math.sqrt(sum(score.error**2 for score in scores)) / 3
    assert one.error == pytest.approx(error, rel=1e-3)
    by_kappa = {f"kappa = {kappa}": f"kappa{kappa}_accuracy" for kappa in (0, 1)}
    parts = {**by_kappa, "before": "base_accuracy", "after": "post_accuracy"}
    for part, metric in parts.items():
        mean = np.mean([score.metrics[metric] for score in scores])
        value = seen["interventions", NOISY, PLAIN, "", part].value
        assert value == pytest.approx(mean), part


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
    assert one.error == pytest.approx(np.std(differences, ddof=1) / math.sqrt(15))


def test_who_does_not_retrieve_is_left_out_of_the_shortcut_test_and_named(report):
    (shortcut,) = (
        printed(one, long=True)
        for one in interventions.findings(report.runs)
        if one.kind == "shortcut"
    )
    models = {kind_of(row[0]) for row in shortcut.rows}
    assert models == {"truth", "retrieval"}
    (entry,) = (e for e in report.runs if "kind=noisy" in e.model)
    share = entry.scores[Asked(RANDOM, "retrieval")].value
    assert 0.85 < share < 0.95
    assert (
        f"kind=noisy, noise=0.7) in epidemia_intervention (it retrieves {share:.3f}"
        in shortcut.note
    )
    # Who only retrieves is right wherever nothing changes, and nowhere else.
    rows = [row for row in shortcut.rows if "retrieval" in row[0]]
    assert len(rows) == 6
    assert {tuple(row[3:]) for row in rows} == {("1.000", "0.000", "-1.000")}
    # All samples say so: that tells of no error.
    assert shortcut.note.endswith(ALIKE_NOTE)
    assert not any("do(A)" in row[2] for row in shortcut.rows)
    # Where it is alone, that nobody was tested comes first.
    (alone,) = (one for one in interventions.findings([entry]) if one.kind == "shortcut")
    assert not alone.rows
    assert alone.note.startswith(
        "No model was tested: the test needs models that retrieve at least 0.95"
    )
    assert (
        f"Left out: {entry.name} in epidemia_intervention (it retrieves {share:.3f}" in alone.note
    )


def test_memorisation_is_paired_where_the_pairs_are_the_same(seen):
    chosen = on("bivariate", "B", "AB")
    nature, turned = by_hand(TUEBINGEN, chosen), by_hand(ANTI, chosen)
    differences = [nature[place] - turned[place] for place in nature]
    row = "bivariate, do(B), AB"
    one = seen["memorisation", NOISY, PLAIN, row, "tuebingen - anticommonsense"]
    assert one.value == pytest.approx(np.mean(differences))
    assert one.error == pytest.approx(np.std(differences, ddof=1) / math.sqrt(15))
    # Elsewhere the samples are others: variances add.
    chosen = on("mediation", "C", "AC")
    nature, turned = (list(by_hand(task, chosen).values()) for task in (TUEBINGEN, ANTI))
    row = "mediation, do(C), AC"
    one = seen["memorisation", NOISY, PLAIN, row, "tuebingen - anticommonsense"]
    assert one.value == pytest.approx(np.mean(nature) - np.mean(turned))
    variances = [np.var(side, ddof=1) / 15 for side in (nature, turned)]
    assert one.error == pytest.approx(math.sqrt(sum(variances)))
    # Welch's degrees of freedom, as scipy has them.
    welch = stats.ttest_ind(nature, turned, equal_var=False)
    assert one.freedom == pytest.approx(welch.df)


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
    known = ("memorisation, known pairs", NOISY, PLAIN)
    one = seen[(*known, "bivariate, do(B), AB", "tuebingen - anticommonsense")]
    assert 3 < one.samples == len(both) < 15
    assert one.value == pytest.approx(np.mean(differences))
    assert one.error == pytest.approx(np.std(differences, ddof=1) / math.sqrt(len(both)))
    values = by_hand(TUEBINGEN, on("mediation", "B", "AC"))
    alone = [value for place, value in values.items() if place in knows[TUEBINGEN]]
    one = seen[(*known, "mediation, do(B), AC", "tuebingen")]
    assert (one.samples, one.value) == (len(alone), pytest.approx(np.mean(alone)))


def test_robustness_is_paired(seen):
    """The noise depends on the task alone, so that both ways get the same answers."""
    one = seen["robustness", NOISY, f"{PLAIN}_substitution", "", "all"]
    plain = seen["interventions", NOISY, PLAIN, "", "accuracy"]
    assert (one.value, one.error) == (0, 0) and plain.error > 0.01


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


def test_what_is_noticed_has_the_error_of_a_bootstrap_of_samples():
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


def test_who_ignores_the_intervention_is_not_said_to_notice(seen):
    for model, value in (("retrieval", 0.0), ("truth", -20.0)):
        one = seen["notices", model, PLAIN, "", "difference"]
        assert one.value == pytest.approx(value, abs=1e-3)


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


def test_answers_by_path_length_count_every_effect_with_a_yes_before(report):
    graphs = {}
    for nodes in (3, 6):
        for pair in questions(f"epidemia_intervention_large_{nodes:02}").pairs:
            if pair.effect.before:
                length = pair.scene.graph.distance(pair.effect.cause, pair.effect.result)
                graphs.setdefault((length, pair.effect.kappa), set()).add(
                    (nodes, pair.scene.sample)
                )
    for entry in report.runs:
        one = interventions.by_length(entry, "intervention")
        samples = {place: estimate.samples for place, estimate in one.items()}
        assert samples == {place: len(scenes) for place, scenes in graphs.items()}
        if entry.model.endswith("kind=retrieval"):
            assert {(kappa, one.value) for (_, kappa), one in one.items()} == {(0, 1.0), (1, 0.0)}


# What is read.


def test_what_was_said_is_read(report):
    (entry,) = (e for e in report.runs if "kind=noisy" in e.model)
    _, odds, _ = respondent(RANDOM, load=retrieval)
    said = entry.scores[Asked(RANDOM, "retrieval")].said
    assert said.asked.all() and said.odds == pytest.approx(odds, rel=1e-3)
    one = said_of("9.8 -3.1 ? - 0", 5, written=False)
    assert one.asked.tolist() == [True, True, True, False, True]
    assert one.odds[[0, 1, 4]].tolist() == [9.8, -3.1, 0] and np.isnan(one.odds[2:4]).all()


def test_odd_answers_are_refused():
    for text, written, message in (
        ("1 2", False, "2 recorded answers, expected 3"),
        ("1 x 2", False, "expected numbers, - and"),
        ("1 inf 2", False, "expected numbers, - and"),
        ("1 nan 2", False, "expected numbers, - and"),
        ("1 -1 2", True, "expected 1, -1, - and"),
    ):
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
    assert [e.model for e in read.entries] == ["epidemia-baseline kind=retrieval"]
    notes = {name: [note for note in read.notes if path in note] for name, path in paths.items()}
    assert [len(found) for found in notes.values()] == [1] * len(odd) == [1] * len(read.notes)
    said = "the accuracy is 0.9000, but the recorded answers give 1.0000"
    assert said in notes["accuracy"][0]


def test_without_what_was_said_the_rest_of_the_report_stands(runs, tmp_path):
    rewritten(runs / "truth", tmp_path / "truth", lambda results: results["epidemia"].pop("said"))
    read = read_results([tmp_path])
    assert "whose answers are not in the file" in read.notes[0]
    report = make_report(read)
    assert interventions.findings(report.runs) == []
    assert report.standings[PLAIN]["knows the truth (kind=truth)"].mean.value == 1


def test_tables_fit_a_terminal(report):
    """Columns that do not fit go into another table, which names the rows again."""
    from lm_eval_epidemia.cli.printing import _EDGES, _GAP, _blocks, _widths
    from lm_eval_epidemia.core.columns import taken

    for section in map(printed, interventions.findings(report.runs)):
        if not section.rows:
            continue
        widths = _widths(section, 110)
        blocks = _blocks(section.named, widths, 110)
        names = list(range(section.named))
        assert all(block[: section.named] == names for block in blocks)
        assert sorted({place for block in blocks for place in block}) == list(
            range(len(section.columns))
        )
        sizes = [taken([widths[place] for place in block], _GAP, _EDGES) for block in blocks]
        assert max(sizes) <= 110
    everything = [list(range(len(section.columns)))]
    assert _blocks(section.named, _widths(section, 1000), 1000) == everything


def test_a_part_of_a_task_is_said_for_the_samples_that_were_asked(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, [RANDOM], model_args="kind=truth", limit=60)
    (entry,) = read_results([tmp_path]).entries
    assert entry.scores[Asked(RANDOM, "intervention")].said.asked.sum() == 60
    seen = numbers(interventions.findings([entry]))
    samples = {key[3]: one.samples for key, one in seen.items() if key[0] == "effect"}
    assert samples == {"bivariate, do(A)": 10, "bivariate, do(B)": 10}


def test_written_answers_that_could_not_be_read_are_counted():
    """Of 450 prompts of each task 45 were not read: 0.1; the yes-bias is the metric's."""
    truth = questions(RANDOM)
    words = ["?" if i % 10 == 0 else "1" if p.right else "-1" for i, p in enumerate(truth.prompts)]
    score = SimpleNamespace(said=said_of(" ".join(words), 450, True), metrics={"yes_bias": 0.02})
    scores = {Asked(RANDOM, "intervention_written"): score}
    entry = SimpleNamespace(name="m", model="kind=m", scores=scores, reference=False)
    seen = numbers(interventions.findings([entry]))
    rows = {(kind, part): one.value for (kind, *_, part), one in seen.items()}
    assert rows["answers", "not read"] == pytest.approx(0.1)
    assert rows["answers", "yes-bias"] == 0.02
    assert rows["interventions", "accuracy"] < 0.9
    # Signs are no log-odds.
    assert not any(kind == "notices" for kind, _ in rows)


# What is shown.


def test_the_terminal_has_the_short_tables_first_and_the_long_ones_on_demand(runs, report):
    short, long = output.sections(report), command("report", runs, "--effects", "--wide")
    said = " ".join(f"{one.title} {one.rows}" for one in short)
    titles = "Interventions: accuracy|Relation retrieval|Shortcut test|Memorisation|Robustness"
    titles += "|Does it notice?|Larger graphs by kind|How questions on"
    for title in titles.split("|"):
        assert title in said and title in long, title
    for more in ("Interventions by graph and variable", "confounding, do(C)", "over the pairs"):
        assert more not in said and more in long, more
    assert long.index("Interventions: accuracy") < long.index("By names")
    assert "0 to 100" not in long


def test_programs_get_every_number(report):
    rows = list(csv.DictReader(io.StringIO(output.as_csv(report))))
    where = ("shortcut", "all / difference", PLAIN, "epidemia-baseline kind=retrieval")
    keys = ("kind", "name", "group", "model")
    (row,) = (row for row in rows if tuple(row[key] for key in keys) == where)
    assert float(row["value"]) == -1 and row["metric"] == "accuracy"
    assert {row["metric"] for row in rows if row["kind"] == "notices"} == {"log_odds_of_yes"}
    assert len(json.loads(output.as_json(report))["rows"]) == len(rows)
    assert r"\caption{Shortcut test" in output.as_latex(output.sections(report))


def test_figures_are_drawn(report, tmp_path):
    pytest.importorskip("altair")
    for name in ("nodes", "paths", "leaderboard"):
        text = figures.save(name, lambda: report, tmp_path / f"{name}.svg").read_text()
        assert "kind=retrieval" in text and "Accuracy on causal graphs" in text, name


def test_figures_of_larger_graphs_say_what_they_need(report):
    rows = data.node_rows(report)
    assert {row["nodes"] for row in rows} == {3, 6} and len(rows) == 6
    assert all(0 <= row["low"] <= row["score"] <= row["high"] <= 1 for row in rows)
    nobody = report._replace(entries=[])
    for made in (data.node_rows, data.path_rows):
        with pytest.raises(EpidemiaError, match="run epidemia_intervention_large"):
            made(nobody)


def test_graphs_are_drawn_with_every_edge():
    """One arrow is a line and a head; what do(B) deletes is dashed, and said in words."""
    chain = GRAPHS["mediation"]
    before, after = drawing(chain), drawing(chain, "B", ("A", "C"))
    assert before.count('class="edge"') == 2 and "gone" not in before
    assert after.count('class="edge"') == 1 and after.count('class="gone"') == 1
    assert after.count("<rect") == 1 and after.count("<circle") == 2
    assert "Graph with edges B to C; deleted by do(B): A to B" in after
    assert "&lt;x&gt;" in drawing(Graph(("<x>", "y"), (("<x>", "y"),)))
    for nodes in (generate.SIZES[0], generate.SIZES[-1]):
        for one in generate.drawn(nodes):
            assert drawing(one.graph).count('class="edge"') == len(one.graph.edges)


def test_larger_graphs_have_no_tables_of_their_own_names(report):
    groups = {key[2] for key in numbers(interventions.findings(report.runs)) if key[0] == "effect"}
    assert groups == {PLAIN, f"{PLAIN}_substitution"}
    assert INTERVENTION.heading == "Accuracy on causal graphs"
    assert all(WAYS[way].load is questions for way in interventions.EFFECTS)
    slices = [s for s in output.details(report) if "By number of variables" in s.title]
    assert slices[0].columns == ("model", "n = 03 (1)", "n = 06 (1)")
