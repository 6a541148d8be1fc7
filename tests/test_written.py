"""Tasks in which the model writes its answer: sampled, closed and retrieval, through lm-eval."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import answers_to, evaluate

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation import metrics, sampled
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.elicit import intervals
from lm_eval_epidemia.elicit.responses import answered
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.samples import elicited
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

BINARY = "epidemia_low_nsduh_cocaine_ever_by_age"
SEVERAL = "epidemia_low_gss_party_by_race"
CLOSED = "epidemia_high_nsduh_marijuana_ever_by_age_sex"


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """One home for the file: the task files of each number of samples are written once."""
    folder = tmp_path_factory.getbasetemp() / "home of written answers"
    monkeypatch.setenv("EPIDEMIA_HOME", str(folder))


def test_the_closed_and_the_retrieval_subset_are_the_published_ones():
    with (Path(__file__).parent / "data" / "tasks_high.csv").open() as file:
        published = {int(row["number"]): row for row in csv.DictReader(file)}
    for task in all_tasks().values():
        row = published[task.number] if task.kind == "high" else {}
        assert WAYS["closed"].asks(task) == (row.get("closed_subset") == "yes"), task.name
        assert WAYS["rag"].asks(task) == (row.get("rag_subset") == "yes"), task.name
        assert all(WAYS[way].asks(task) for way in ("letters", "likelihood", "sampled"))
    assert sum(WAYS["closed"].asks(task) for task in all_tasks().values()) == 63
    assert sum(WAYS["rag"].asks(task) for task in all_tasks().values()) == 11


def test_every_sampled_prompt_is_a_text_of_its_own_with_an_order_of_its_own():
    rows = split(SEVERAL, "sampled", Variant(n_samples=30))
    assert len(rows) == 3 * 30
    assert len(set(rows["prompt"])) == len(rows)
    assert [row["sample"] for row in rows] == [*range(1, 31)] * 3
    first = rows[0]
    lines = first["prompt"].splitlines()
    assert lines[1] == "(Interview 1)"
    assert lines[-2:] == ["Reply with the letter of one answer and nothing else.", "Answer:"]
    truth = store.load(SEVERAL)
    shown = [f"{'ABC'[place]}. {truth.levels[level]}" for place, level in enumerate(first["order"])]
    assert lines[2:5] == shown
    # Of 30 random orders, each of the six is there in most cells, and cells differ.
    orders = [tuple(tuple(rows[cell * 30 + i]["order"]) for i in range(30)) for cell in range(3)]
    assert len(set(orders)) == 3 and all(len(set(order)) >= 5 for order in orders)
    # More answers only add to fewer.
    assert split(SEVERAL, "sampled", Variant(n_samples=10))["prompt"][:10] == rows["prompt"][:10]


@pytest.mark.parametrize("kind", ["truth", "mean"])
def test_sampled_answers_of_a_known_respondent(replicated, kind):
    names = [in_way(task, "sampled") for task in (BINARY, SEVERAL, CLOSED)]
    tasks, how = (BINARY, SEVERAL, CLOSED), {"log_samples": True, "metadata": {"n_samples": 20}}
    found = evaluate([*tasks, *names], model_args=f"kind={kind}", **how)
    for task in tasks:
        row = found["results"][in_way(task, "sampled")]
        exact = found["results"][task]
        assert row["answered,none"] == 1 and row["seen,none"] == 1
        error = math.hypot(row["score_stderr,none"], exact["score_stderr,none"])
        assert abs(row["score,none"] - exact["score,none"]) <= 3 * error
        assert row["score_stderr,none"] >= exact["score_stderr,none"]
        # Recomputed from the logged samples, without the package's metrics.
        truth, samples = store.load(task), found["samples"][in_way(task, "sampled")]
        counts = np.zeros((len(truth.weights), len(truth.levels) + 1), dtype=int)
        for sample in samples:
            level = sample["doc"]["order"]["ABC".index(sample["filtered_resps"][0])]
            counts[sample["doc"]["cell"], level] += 1
        assert (counts.sum(axis=1) == 20).all()
        l1 = truth.weights @ monte_carlo.distances(truth.p, counts)
        assert row["l1,none"] == pytest.approx(l1, abs=1e-12)
        assert row["score,none"] == pytest.approx(Anchors.of(truth).score(l1), abs=1e-9)
    assert found["configs"][names[0]]["metadata"]["n_samples"] == 20
    assert found["configs"][names[0]]["generation_kwargs"]["temperature"] == 1.0


def test_replies_without_a_letter_count_as_uniform_and_are_warned_of(caplog):
    twenty, uniform = Variant(n_samples=20), Anchors.of(store.load(BINARY)).uniform
    nothing = answers_to(BINARY, "sampled", lambda doc: ["I cannot answer that."], twenty)
    assert answered(nothing) == 0
    assert metrics.l1(nothing) == pytest.approx(uniform)
    assert metrics.score(nothing) == 0 and math.isnan(sampled.order_bias(nothing))
    assert f"{BINARY}_sampled: 0% of the replies contained an answer" in caplog.text
    caplog.clear()
    some = answers_to(BINARY, "sampled", lambda doc: ["B" * (doc["sample"] % 20 > 0)], twenty)
    assert answered(some) == pytest.approx(0.95)
    assert not caplog.text
    assert sampled.order_bias(some) == pytest.approx(0.5)


def test_a_favourite_letter_is_averaged_out_by_the_orderings(replicated):
    """Always A: every level in turn, so nearly the uniform distribution, and a large bias."""
    answers = answers_to(SEVERAL, "sampled", lambda doc: ["a)"], Variant(n_samples=400))
    uniform = Anchors.of(store.load(SEVERAL)).uniform
    assert metrics.l1(answers) == pytest.approx(uniform, abs=0.1)
    assert sampled.order_bias(answers) == pytest.approx(2 / 3)
    shuffled = [answers[i] for i in np.random.default_rng(0).permutation(len(answers))]
    scores = (metrics.score, metrics.score_stderr, metrics.seen, metrics.l1)
    for metric in (*scores, metrics.score_population, metrics.score_population_stderr):
        assert metric(shuffled) == metric(answers)


def test_a_limit_scores_cells_that_were_asked_completely(caplog):
    ten = {"metadata": {"n_samples": 10}}
    for task, way, prompts, cells, lacking, how in (
        (BINARY, "sampled", 5, 2, "10 answers", ten),
        (SEVERAL, "likelihood", 2, 1, "3 levels", {}),
    ):
        name, truth = in_way(task, way), store.load(task)
        parts = {"limit": cells}, {"samples": {name: [*range(prompts)]}}
        some, none = (evaluate([name], **part, **how)["results"][name] for part in parts)
        assert some["seen,none"] == pytest.approx(truth.weights[:cells].sum())
        assert f"{name}: {cells} of {len(truth.given)} cells are complete" in caplog.text
        assert math.isnan(none["score,none"]) and none["seen,none"] == 0
        assert f"no cell has all its {lacking}" in caplog.text


@pytest.mark.parametrize("kind", ["truth", "noisy,noise=0.5"])
def test_a_written_probability_is_scored_as_one_that_was_read_from_letters(replicated, kind):
    closed, rag, asked = (in_way(CLOSED, mode) for mode in ("closed", "rag", "likelihood"))
    rows = evaluate([closed, rag, asked], model_args=f"kind={kind}")["results"]
    for name in (closed, rag):
        for metric in ("score", "score_stderr", "l1", "seen"):
            assert rows[name][f"{metric},none"] == rows[asked][f"{metric},none"], name
        assert rows[name]["answered,none"] == 1


def test_written_probabilities_that_cannot_be_read(caplog):
    truth = store.load(CLOSED)
    statements = answers_to(
        CLOSED, "closed", lambda doc: ["no idea" if doc["cell"] == 3 else "C. 5%-10%"]
    )
    p = np.where(np.arange(len(truth.weights)) == 3, 0.5, 0.075)
    expected = (truth.weights * 2 * abs(truth.p[:, 0] - p)).sum()
    assert metrics.l1(statements) == pytest.approx(expected)
    assert answered(statements) == pytest.approx(1 - 1 / len(statements))
    assert not caplog.text
    for way in ("closed", "rag"):
        assert metrics.score(answers_to(CLOSED, way, lambda doc: [""])) == 0
        assert f"{CLOSED}_{way}: 0% of the replies" in caplog.text
    assert metrics.seen(statements[:5]) == pytest.approx(truth.weights[:5].sum())


def test_samples_that_hold_unreadable_replies_are_json_and_are_read(tmp_path):
    """lm-eval writes each answer into its sample file, where NaN would be no JSON."""
    replies = {"sampled": "A", "closed": "C", "rag": "C", "stated": "A: 30\nB: 70"}
    for way, reply in replies.items():
        task = BINARY if way in ("sampled", "stated") else CLOSED
        lines = []
        for number, row in enumerate(split(task, way, Variant(n_samples=2))):
            text = reply if number else "I cannot help with that."
            answer = WAYS[way].read(WAYS[way].of_row(row), [text])
            assert answer.is_read == bool(number)
            line = {"doc": row, "filtered_resps": [text], "score": answer}
            lines.append(json.dumps(line, allow_nan=False))
        path = tmp_path / f"{way}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        q = elicited(path, Asked(task, way)).q
        assert len(q) == len(store.load(task).weights)
        # The first cell has an unreadable reply; the shares of any other sum to 1 all the same.
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-12)


def test_of_several_levels_one_unread_makes_the_cell_uniform():
    truth, said = store.load(SEVERAL), "KFF"  # 47.5 %, 22.5 %, 22.5 %
    # Closed tasks are all binary; the metric is not.
    statements = answers_to(
        SEVERAL,
        "closed",
        lambda doc: ["?" if (doc["cell"], doc["level"]) == (1, 2) else said[doc["level"]]],
    )
    q = np.array([0.475, 0.225, 0.225]) / 0.925
    cells = np.array([q, np.full(3, 1 / 3), q])
    expected = truth.weights @ abs(cells - truth.p).sum(axis=1)
    assert metrics.l1(statements) == pytest.approx(expected)
    assert intervals.MIDPOINTS[10] == pytest.approx(0.475)


def test_an_interrupted_run_of_sampled_answers_goes_on_from_its_cache(tmp_path, monkeypatch):
    """Killed in the middle: no answer is asked for twice, and repeated ones are not made alike."""
    from lm_eval_epidemia.models.baseline import Baseline

    name, asked = in_way(BINARY, "sampled"), []
    honest = Baseline.generate_until

    def dying(self, requests, stop=10**9):
        said = []
        for request in requests:
            if len(asked) == 60:
                asked.append(None)
                raise KeyboardInterrupt
            asked.append(request.args[0])
            said += honest(self, [request])
            self.cache_hook.add_partial("generate_until", request.args, said[-1])
        return said

    arguments = {"metadata": {"n_samples": 10}, "log_samples": True}
    plain = evaluate([name], **arguments)
    monkeypatch.setattr(Baseline, "generate_until", dying)
    arguments["use_cache"] = str(tmp_path / "responses")
    with pytest.raises(KeyboardInterrupt):
        evaluate([name], **arguments)
    again = evaluate([name], **arguments)
    assert len(asked) == 110 + 1 and len(set(asked)) == 110 + 1  # and the None of the kill
    assert again["results"] == plain["results"]
    assert {sample["filtered_resps"][0] for sample in again["samples"][name]} == {"A", "B"}


def test_a_transformer_writes_its_answers(lettered_llama):
    """The hf backend, in the chat template: shares of the answers near the probabilities."""
    names = [in_way(BINARY, "sampled"), in_way(CLOSED, "closed")]
    model = {"model": "hf", "model_args": f"pretrained={lettered_llama},dtype=float32"}
    how = {"apply_chat_template": True, "gen_kwargs": {"max_gen_toks": 1}, "device": "cpu"}
    asked = {"metadata": {"n_samples": 8}, "log_samples": True, "batch_size": 32}
    found = evaluate(names, **model, **how, **asked)
    row = found["results"][names[0]]
    assert row["answered,none"] > 0.9
    assert 0 < np.mean([s["filtered_resps"][0] == "A" for s in found["samples"][names[0]]]) < 1
    assert json.loads(json.dumps(found["configs"][names[0]]["metadata"]["n_samples"])) == 8
    assert found["results"][names[1]]["answered,none"] > 0


def test_all_ways_of_asking_are_groups():
    import lm_eval_epidemia

    index = lm_eval_epidemia.task_manager().task_index
    groups = {
        in_way(group, mode)
        for mode in OBSERVATION.ways
        for group in {*OBSERVATION.groups} - {"epidemia_fresh"}
        if mode not in ("closed", "rag") or group == "epidemia_high"
    }
    assert groups <= set(index)
    assert len([name for name in index if name.endswith("_rag") and "_by_" in name]) == 10
