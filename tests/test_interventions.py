"""Interventional reasoning through lm-eval: known respondents, to the digit; parsing; --limit."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, evaluate, recorded
from test_replies import in_turn

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, find_tasks, in_way
from lm_eval_epidemia.benchmarks.intervention import INTERVENTION
from lm_eval_epidemia.benchmarks.intervention.metrics import draw_mean, grade_effects
from lm_eval_epidemia.benchmarks.intervention.questions import make_questions
from lm_eval_epidemia.benchmarks.intervention.ways import yes_or_no
from lm_eval_epidemia.benchmarks.splits import split

RANDOM = "epidemia_intervention_random"
NAMES = ("random", "tuebingen", "anticommonsense")

#: Right effects of 22, of 15 with kappa = 0, of 7 with kappa = 1 (the specification's golden
#: answerers), and of 14 in retrieval; right in the larger graphs, of 4.
KNOWN = {
    "yes": (10, 10, 0, 6, 1),
    "no": (5, 5, 0, 8, 1),
    "retrieval": (15, 15, 0, 14, 2),
    # No where the intervention is on V: wrong where it is inside a path (mediation do(B), AC).
    "target": (21, 15, 6, 14, 3),
    # A -> B -> C is no edge A -> C: mediation AC is wrong before do(A), do(B), do(C); and A -> C is
    # one of the 6 pairs with a path, so that 13 of 14 are right.
    "edges": (19, 14, 5, 13, None),
    "truth": (22, 15, 7, 14, 4),
}


WRITTEN = ("intervention", "intervention_written", "substitution", "substitution_written")


def signs_of(truth):
    """The right answers: 1 for yes, -1 for no."""
    return np.array([1.0 if prompt.right else -1.0 for prompt in truth.prompts])


def graded_by(truth, odds):
    """The grades of a respondent that was asked everything."""
    return grade_effects(truth, odds, np.ones(len(odds), dtype=bool))


def ran(kind, *tasks):
    return evaluate([*tasks], model_args=f"kind={kind}")["results"]


@pytest.fixture(scope="module")
def edges():
    """Who knows the edges alone: no two of its shares are alike."""
    tasks = (*(in_way(RANDOM, way) for way in WRITTEN[1:]), "epidemia_intervention")
    large = [f"epidemia_intervention_large_{nodes}" for nodes in ("03", "12")]
    return ran("edges", *tasks, f"{RANDOM}_retrieval", *large)


@pytest.mark.parametrize("kind", KNOWN)
def test_known_respondents_to_the_digit(kind, edges):
    """Of `edges` all ways; the others answer before it is known in which way they are asked."""
    overall, kappa0, kappa1, retrieved, large = KNOWN[kind]
    if kind == "edges":
        results = edges
        asked = [*(in_way(RANDOM, way) for way in WRITTEN), "epidemia_intervention"]
        asked += [f"epidemia_intervention_{names}" for names in NAMES[1:]]
    else:
        asked = ["epidemia_intervention_tuebingen_substitution_written"]
        larger = ["epidemia_intervention_large_03_written", "epidemia_intervention_large_12"]
        results = ran(kind, *asked, f"{RANDOM}_retrieval", *larger)
        for name in larger:
            assert results[name]["accuracy,none"] == pytest.approx(large / 4, abs=1e-12), name
    for name in asked:
        row = results[name]
        assert row["accuracy,none"] == pytest.approx(overall / 22, abs=1e-12), name
        assert row["kappa0_accuracy,none"] == pytest.approx(kappa0 / 15, abs=1e-12)
        assert row["kappa1_accuracy,none"] == pytest.approx(kappa1 / 7, abs=1e-12)
        # Every sample is answered alike.
        assert row["accuracy_stderr,none"] == pytest.approx(0, abs=1e-12)
        assert row["seen,none"] == 1
    retrieval = results[f"{RANDOM}_retrieval"]
    assert retrieval["accuracy,none"] == pytest.approx(retrieved / 14, abs=1e-12)
    # Shares of yes: always-yes says 1 where the truth says 14 of 30 prompts are yes.
    right = np.mean([prompt.right for prompt in make_questions(RANDOM).prompts])
    if kind in ("yes", "no"):
        assert results[asked[0]]["yes_bias,none"] == pytest.approx((kind == "yes") - right)


def test_what_is_best_in_the_middle_has_no_arrow():
    from lm_eval.utils import make_table

    table = make_table(evaluate([f"{RANDOM}_retrieval", "epidemia_prior_nhanes"], limit=10))
    cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    arrows = {row[5]: row[6] for row in cells if len(row) > 6}
    assert (arrows["yes_bias"], arrows["below_median"], arrows["ece"]) == ("", "", "")
    assert (arrows["accuracy"], arrows["error_ratio"]) == ("↑", "↓")


def test_groups_have_as_many_prompts_as_the_page_says():
    page = (Path(__file__).parents[1] / "docs" / "guides" / "interventional.md").read_text(
        encoding="utf-8"
    )
    said = dict(re.findall(r"^\| `(epidemia_intervention\w*)` \| ([\d,]+) \|", page, re.MULTILINE))
    assert len(said) == 5
    for group, prompts in said.items():
        asked = sum(len(WAYS[way].load(task).given) for task, way in find_tasks(group))
        assert f"{asked:,}" == prompts, group


def test_edges_alone_fail_on_larger_graphs(edges):
    """Right before do() only where the path is an edge."""
    shares = [edges[f"epidemia_intervention_large_{n:02}"]["accuracy,none"] for n in (3, 12)]
    assert shares[1] < shares[0] < 0.7
    for nodes, share in zip((3, 12), shares, strict=True):
        asked = make_questions(f"epidemia_intervention_large_{nodes:02}")
        by_hand = [
            (query in pair.scene.graph.edges) == pair.effect.before
            and (query in pair.scene.graph.edges and pair.effect.intervened != query[1])
            == pair.effect.after
            for pair in asked.pairs
            for query in [pair.effect[:2]]
        ]
        assert share == pytest.approx(np.mean(by_hand))


def test_knowledge_has_no_graph_and_no_intervention():
    results = ran("yes", "epidemia_intervention_knowledge")
    rows = {name: row for name, row in results.items() if "tuebingen" in name or "anti" in name}
    assert len(rows) == 2
    for row in rows.values():
        assert row["accuracy,none"] == 0.5
        assert "kappa1_accuracy,none" not in row
    for prompt in split("epidemia_intervention_tuebingen", "knowledge")["prompt"]:
        assert "graph" not in prompt
        assert "do(" not in prompt


def test_errors_of_knowledge_are_over_pairs():
    """Samples ask about the same pairs: of who is right wherever a pair is asked, as a model is,
    the error is that of the pairs, also where both tasks share them."""
    from lm_eval_epidemia.benchmarks.intervention.questions import knowledge
    from lm_eval_epidemia.score.joint import Draws, joint_error

    truths = [knowledge(f"epidemia_intervention_{names}") for names in NAMES[1:]]
    asked = [np.array(truth.listed) for truth in truths]
    # Fewer pairs than questions, and most of them in both tasks.
    assert len(set(asked[0]) & set(asked[1])) > 15
    assert len(set(asked[0]) | set(asked[1])) == 55
    rng = np.random.default_rng(5)
    means, errors = [], []
    for _ in range(400):
        known = rng.random(69) < 0.7
        draws = []
        for truth, pairs in zip(truths, asked, strict=True):
            right = graded_by(truth, np.where(known[pairs], 1, -1) * signs_of(truth))
            draws.append(Draws("pairs", draw_mean(truth, right, right.right.astype(float))))
        means.append(np.mean([one.at.mean() for one in draws]))
        errors.append(joint_error(draws))
    # The spread of 400 means is known to 1 / sqrt(800) = 3.5 %, and linearising costs a little.
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.2)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Who errs at random in the three published tasks, as the results were written."""
    folder = tmp_path_factory.mktemp("noisy")
    recorded(folder, ["epidemia_intervention"], model_args="kind=noisy,noise=1")
    (path,) = folder.rglob("results_*.json")
    return json.loads(path.read_text())


def test_noise_makes_some_answers_wrong_and_the_error_is_that_of_the_samples(noisy):
    row = noisy["results"][RANDOM]
    # Each answer is right with probability Phi(1) = .841; both of an effect with .708. Effects of
    # a query share its base answer, so that a sample's mean varies more than 22 single ones would.
    assert row["accuracy,none"] == pytest.approx(0.708, abs=5 * 0.03)
    said = noisy["epidemia"]["said"][RANDOM].split()
    truth = make_questions(RANDOM)
    assert len(said) == len(truth.prompts) == 450
    right = np.array(
        [(float(x) > 0) == one.right for x, one in zip(said, truth.prompts, strict=True)]
    )
    both = pd.DataFrame(
        [(of.scene.shape, of.scene.sample, right[of.base] & right[of.post]) for of in truth.pairs],
        columns=["graph", "sample", "right"],
    )
    # By graph: the mean over samples of the mean over queries, and its error; then over graphs.
    means = both.groupby(["graph", "sample"]).right.mean().groupby("graph")
    share = both.groupby("graph").size() / len(both)
    assert row["accuracy,none"] == pytest.approx((share * means.mean()).sum())
    variance = (share**2 * means.var(ddof=1) / 15).sum()
    assert row["accuracy_stderr,none"] == pytest.approx(math.sqrt(variance))


def test_a_group_adds_the_errors_of_its_tasks_in_quadrature(noisy):
    """Names of the three benchmarks are drawn independently."""
    errors = [
        noisy["results"][f"epidemia_intervention_{names}"]["accuracy_stderr,none"]
        for names in NAMES
    ]
    group = noisy["groups"]["epidemia_intervention"]["accuracy_stderr,none"]
    assert group == pytest.approx(math.sqrt(sum(error**2 for error in errors)) / 3, rel=1e-6)
    draws = noisy["epidemia"]["replicates"][RANDOM]
    assert draws["sample"] == f"{RANDOM} {make_questions(RANDOM).fingerprint}"
    assert len(draws["accuracy"].split()) == 45


def test_draws_are_of_samples_whatever_was_asked():
    """Two respondents, and both ways, have joint draws: a difference of equals has no error."""
    truth = make_questions(RANDOM)
    rng = np.random.default_rng(3)
    odds = rng.standard_normal(len(truth.prompts))
    asked = np.ones(len(odds), dtype=bool)
    grades = grade_effects(truth, odds, asked)
    at = draw_mean(truth, grades, grades.right.astype(float))
    assert at.mean() == pytest.approx(grades.right.mean())
    # Half of the samples cut off: the others keep their places, these say nothing.
    asked[len(asked) // 2 :] = False
    part = grade_effects(truth, odds, asked)
    assert len(draw_mean(truth, part, part.right.astype(float))) == len(at)


@pytest.mark.parametrize(
    ("task", "clusters", "within"),
    [
        ("epidemia_intervention_random", "sample", "graph"),
        ("epidemia_intervention_large_05", "sample", "nothing"),
        ("epidemia_intervention_tuebingen_knowledge", "pair", "nothing"),
    ],
)
def test_errors_follow_from_what_is_exported_as_the_page_says(task, clusters, within):
    name = task.removesuffix("_knowledge")
    truth = WAYS["knowledge" if name != task else INTERVENTION.plain.name].load(name)
    cells = INTERVENTION.cells(truth)
    odds = signs_of(truth) + np.random.default_rng(1).normal(scale=1.5, size=len(truth.prompts))
    right = (np.sign(odds) == signs_of(truth)).astype(float)
    base = cells.get("base", [None] * len(right))
    after = [n for n, before in enumerate(base) if before is not None] or range(len(right))
    frame = pd.DataFrame(
        {
            "right": [right[n] * (right[base[n]] if base[n] is not None else 1) for n in after],
            "sample": [cells["sample"][n] for n in after],
            "graph": [truth.given[n][0] for n in after],
            # Whatever its direction.
            "pair": [str(sorted(names_in(truth.prompts[n]))) for n in after],
            "nothing": 0,
        }
    )
    frame["less"] = frame.right - frame.groupby(within).right.transform("mean")
    sums = frame.groupby([within, clusters]).less.sum()
    n = sums.groupby(within).count()
    variance = ((sums**2).groupby(within).sum() * n / (n - 1)).sum()
    grades = graded_by(truth, odds)
    error = draw_mean(truth, grades, grades.right.astype(float)).std(ddof=1)
    assert error == pytest.approx(math.sqrt(variance) / len(frame))


def names_in(prompt):
    called = dict(zip(prompt.scene.graph.nodes, prompt.scene.named.names, strict=True))
    return called[prompt.cause], called[prompt.result]


def test_a_limit_that_tears_pairs_apart_scores_the_complete_ones(caplog):
    task = RANDOM
    # The first 5 prompts: A -> B under no intervention, do(A), do(B); B -> A alone, and do(A).
    results = evaluate([task], model_args="kind=truth", limit=5)["results"][task]
    assert results["seen,none"] == pytest.approx(3 / 330)
    assert results["accuracy,none"] == 1
    assert "3 of 330 effects were asked both before and after" in caplog.text
    # One sample has no spread: its error is not known.
    assert results["accuracy_stderr,none"] == "N/A" or math.isnan(results["accuracy_stderr,none"])
    results = evaluate([task], model_args="kind=truth", limit=1)["results"][task]
    assert results["seen,none"] == 0
    assert math.isnan(results["accuracy,none"])


def test_what_was_written():
    """The first tag counts, with exactly one of the words; without one, the first whole word."""
    replies = yaml.safe_load((REPOSITORY / "tests" / "data" / "yes_no.yaml").read_text("utf-8"))
    for reply, read in replies.items():
        assert yes_or_no(reply) == pytest.approx(read or math.nan, nan_ok=True), reply


def test_parse_failures_are_wrong_and_counted(caplog):
    """A chat model that says yes to every other prompt, and nothing to the others."""
    task = f"{RANDOM}_written"
    model = in_turn("I cannot tell", "<answer>yes</answer>")
    results = evaluate([task], model=model, model_args=None)
    row = results["results"][task]
    assert row["answered,none"] == 0.5
    truth = make_questions(RANDOM)
    yes = np.arange(len(truth.prompts)) % 2 == 1
    right = [
        yes[pair.base] and yes[pair.post] and pair.effect.before and pair.effect.after
        for pair in truth.pairs
    ]
    assert row["accuracy,none"] == pytest.approx(np.mean(right))
    assert "50% of the replies contained an answer; the others count as wrong" in caplog.text
    assert results["epidemia"]["said"][task].split()[:4] == ["?", "1", "?", "1"]


@pytest.mark.parametrize("way", INTERVENTION.ways)
def test_prompts_are_clean(way):
    for entry in INTERVENTION.asked(way):
        rows = split(entry.name, way)
        for prompt in rows["prompt"]:
            assert "  " not in prompt
            assert "{" not in prompt
            assert ("<answer>" in prompt) == WAYS[way].generated
            assert prompt.endswith("Answer:") != WAYS[way].generated
            if way.startswith("substitution"):
                assert "interven" not in prompt.lower()
                assert "do(" not in prompt
        assert set(rows["truth"]) == {make_questions(entry.name).fingerprint}


def test_names_are_the_same_in_all_variants():
    plain, made_up = (split(RANDOM, way) for way in ("intervention", "substitution"))
    truth = make_questions(RANDOM)
    for one, other, asked in zip(plain["prompt"], made_up["prompt"], truth.prompts, strict=True):
        # The description of the graph is the same; where nothing is done, the prompt is.
        assert one.split("\n")[0] == other.split("\n")[0]
        assert (one == other) == (asked.intervened is None)


def test_single_letters_as_in_the_paper():
    rows = split(RANDOM, "intervention", Variant(names="letters"))
    graph = rows["prompt"][0].split(": ")[1].split(".")[0]
    one, other = graph.split(" and ")
    assert len(one) == len(other) == 1
    assert f"do({one} = {one.lower()})" in rows["prompt"][1]
    found = evaluate([RANDOM], model_args="kind=truth", metadata={"names": "letters"})
    assert found["results"][RANDOM]["accuracy,none"] == 1
    # No two samples of a graph have the same letters.
    described = [text.split("\n")[0] for text in rows["prompt"]]
    scenes = [one.scene.shape + str(one.scene.sample) for one in make_questions(RANDOM).prompts]
    assert len(set(described)) == len(set(scenes)) == 45
    # Names of the world stay.
    task = "epidemia_intervention_tuebingen"
    assert (
        split(task, "intervention", Variant(names="letters"))["prompt"]
        == split(task, "intervention")["prompt"]
    )
