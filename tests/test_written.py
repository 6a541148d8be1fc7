"""Answers that are written (sampled, closed, retrieval), and prompts that a server declines."""

import csv
import json
import math

import numpy as np
import pytest
from conftest import REPOSITORY, answers_to, evaluate
from lm_eval.utils import sanitize_list
from scripted_server import scripted

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation import metrics, sampled
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.responses import answered
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.samples import answers_in, elicited
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
    table = REPOSITORY / "tests" / "data" / "tasks_high.csv"
    published = {int(row["number"]): row for row in csv.DictReader(table.read_text().splitlines())}
    for mode, number in (("closed", 63), ("rag", 11)):
        asked = [task for task in all_tasks().values() if OBSERVATION.ways[mode].asks(task)]
        assert len(asked) == number and {task.kind for task in asked} == {"high"}
        theirs = {n for n, row in published.items() if row[f"{mode}_subset"] == "yes"}
        assert {task.number for task in asked} == theirs


def test_every_sampled_prompt_is_a_text_of_its_own_with_an_order_of_its_own():
    rows = split(SEVERAL, "sampled", Variant(n_samples=30))
    assert len(set(rows["prompt"])) == len(rows) == 3 * 30
    assert [row["sample"] for row in rows] == [*range(1, 31)] * 3
    shown = [store.load(SEVERAL).levels[level] for level in rows[0]["order"]]
    assert rows[0]["prompt"].splitlines()[2:5] == [
        f"{x}. {y}" for x, y in zip("ABC", shown, strict=True)
    ]
    # Of 30 random orders, each of the six is there in most cells, and cells differ.
    orders = [tuple(tuple(rows[cell * 30 + i]["order"]) for i in range(30)) for cell in range(3)]
    assert len(set(orders)) == 3 and all(len(set(order)) >= 5 for order in orders)
    # More answers only add to fewer.
    assert split(SEVERAL, "sampled", Variant(n_samples=10))["prompt"][:10] == rows["prompt"][:10]


def test_sampled_answers_of_a_known_respondent(replicated):
    """Near the exact score; recomputed from the logged samples, without the package's metrics."""
    tasks, how = (BINARY, SEVERAL, CLOSED), {"log_samples": True, "metadata": {"n_samples": 20}}
    names = [in_way(task, "sampled") for task in tasks]
    found = evaluate([*tasks, *names], model_args="kind=mean", **how)
    for task, name in zip(tasks, names, strict=True):
        row, exact, truth = found["results"][name], found["results"][task], store.load(task)
        assert row["answered,none"] == 1 and row["seen,none"] == 1
        error = math.hypot(row["score_stderr,none"], exact["score_stderr,none"])
        assert abs(row["score,none"] - exact["score,none"]) <= 3 * error
        assert row["score_stderr,none"] >= exact["score_stderr,none"]
        counts = np.zeros((len(truth.weights), len(truth.levels) + 1), dtype=int)
        for sample in found["samples"][name]:
            level = sample["doc"]["order"]["ABC".index(sample["filtered_resps"][0])]
            counts[sample["doc"]["cell"], level] += 1
        assert (counts.sum(axis=1) == 20).all()
        l1 = truth.weights @ monte_carlo.distances(truth.p, counts)
        assert row["l1,none"] == pytest.approx(l1, abs=1e-12)
        assert row["score,none"] == pytest.approx(Anchors.of(truth).score(l1), abs=1e-9)
    assert found["configs"][names[0]]["generation_kwargs"]["temperature"] == 1.0


def test_replies_without_a_letter_and_a_favourite_letter(replicated, caplog):
    """The first count as uniform and are warned of; the second is averaged out by orderings."""
    twenty, uniform = Variant(n_samples=20), Anchors.of(store.load(BINARY)).uniform
    nothing = answers_to(BINARY, "sampled", lambda doc: ["I cannot answer that."], twenty)
    assert answered(nothing) == 0 == metrics.measure(nothing).numbers["score"]
    assert metrics.measure(nothing).numbers["l1"] == pytest.approx(uniform)
    assert math.isnan(sampled.order_bias(nothing))
    assert f"{BINARY}_sampled: 0% of the replies contained an answer" in caplog.text
    some = answers_to(BINARY, "sampled", lambda doc: ["B" * (doc["sample"] % 20 > 0)], twenty)
    assert (answered(some), sampled.order_bias(some)) == pytest.approx((0.95, 0.5))
    # Always A: every level in turn, so nearly the uniform distribution, and a large bias.
    always = answers_to(SEVERAL, "sampled", lambda doc: ["a)"], Variant(n_samples=400))
    uniform = Anchors.of(store.load(SEVERAL)).uniform
    assert metrics.measure(always).numbers["l1"] == pytest.approx(uniform, abs=0.1)
    assert sampled.order_bias(always) == pytest.approx(2 / 3)
    shuffled = [always[i] for i in np.random.default_rng(0).permutation(len(always))]
    one, other = map(metrics.measure, (shuffled, always))
    assert one.numbers == other.numbers and one.kept == other.kept


LIMITED = [(BINARY, "sampled", 5, 2, "10 answers"), (SEVERAL, "likelihood", 2, 1, "3 levels")]


@pytest.mark.parametrize(("task", "way", "prompts", "cells", "lacks"), LIMITED)
def test_a_limit_scores_cells_that_were_asked_completely(task, way, prompts, cells, lacks, caplog):
    name, truth = in_way(task, way), store.load(task)
    how = {"metadata": {"n_samples": 10}} if way == "sampled" else {}
    some = evaluate([name], limit=cells, **how)["results"][name]
    assert some["seen,none"] == pytest.approx(truth.weights[:cells].sum())
    assert f"{name}: {cells} of {len(truth.given)} cells are complete" in caplog.text
    none = evaluate([name], samples={name: [*range(prompts)]}, **how)["results"][name]
    assert math.isnan(none["score,none"]) and none["seen,none"] == 0
    assert f"no cell has all its {lacks}" in caplog.text


def test_a_written_probability_is_scored_as_one_that_was_read_from_letters(replicated):
    closed, rag, asked = (in_way(CLOSED, mode) for mode in ("closed", "rag", "likelihood"))
    rows = evaluate([closed, rag, asked], model_args="kind=noisy,noise=0.5")["results"]
    for name in (closed, rag):
        for metric in ("score", "score_stderr", "l1", "seen"):
            assert rows[name][f"{metric},none"] == rows[asked][f"{metric},none"], name
        assert rows[name]["answered,none"] == 1


def test_written_probabilities_that_cannot_be_read(caplog):
    """C is 5 to 10 %; what is not read is uniform."""
    said = answers_to(CLOSED, "closed", lambda doc: ["?" if doc["cell"] == 3 else "C. 5%-10%"])
    truth, p = store.load(CLOSED), np.full(len(said), 0.075)
    p[3] = 0.5
    l1 = (truth.weights * 2 * abs(truth.p[:, 0] - p)).sum()
    assert metrics.measure(said).numbers["l1"] == pytest.approx(l1)
    assert answered(said) == pytest.approx(1 - 1 / len(said)) and not caplog.text
    for way in ("closed", "rag"):
        assert metrics.measure(answers_to(CLOSED, way, lambda doc: [""])).numbers["score"] == 0
        assert f"{CLOSED}_{way}: 0% of the replies" in caplog.text
    assert metrics.measure(said[:5]).numbers["seen"] == pytest.approx(truth.weights[:5].sum())


@pytest.mark.parametrize("way", ["sampled", "stated", "closed"])
def test_samples_that_hold_unreadable_replies_are_json_and_are_read(way, tmp_path):
    """lm-eval writes each answer into its sample file, where NaN would be no JSON."""
    lines, task = [], CLOSED if way == "closed" else BINARY
    for number, row in enumerate(split(task, way, Variant(n_samples=2))):
        text = (
            ("A: 30\nB: 70" if way == "stated" else "A") if number else "I cannot help with that."
        )
        answer = WAYS[way].read(WAYS[way].of_row(row), [text])
        assert answer.is_read == bool(number)
        line = {"doc": row, "filtered_resps": [text], "score": answer}
        lines.append(json.dumps(line, allow_nan=False))
    (tmp_path / "samples.jsonl").write_text("\n".join(lines) + "\n")
    # The first cell has an unreadable reply; the shares of any other sum to 1 all the same.
    sums = elicited(tmp_path / "samples.jsonl", Asked(task, way)).q.sum(axis=1)
    assert sums == pytest.approx(np.ones(len(store.load(task).weights)), abs=1e-12)


# Prompts that a server's content filter declines count as if they had not been asked.


TASK = "epidemia_low_acs_employer_by_sex"  # 48 prompts of 2 cells, 4 letters
AZURE = b'{"error": {"message": "The prompt triggered our policy", "code": "content_filter"}}'
FLAGGED = b'{"error": {"message": "requires moderation and your input was flagged"}}'
#: Statuses and bodies, and the finish reason of an answer.
FILTERS = {"azure": (400, AZURE), "openrouter": (403, FLAGGED), "in an answer": (200, AZURE)}
FILTERS["finish_reason"] = "filtered"


def run(server, tasks=(TASK,), more="", **arguments):
    given = f"base_url={server.url(False)},model=any,num_concurrent=2,pause=0.001{more}"
    how = {"model": "choice-api", "model_args": given, "log_samples": True}
    return evaluate(list(tasks), **how, **arguments)


def declining(bad, how="azure"):
    return scripted(fault=lambda text, times: FILTERS[how] if text in bad else None)


@pytest.mark.parametrize("how", FILTERS)
def test_a_declined_prompt_is_left_out_and_counted(how, tmp_path, caplog):
    """The first prompts that are asked, among them the one that finds out how to ask."""
    rows = sorted(split(TASK), key=lambda row: row["prompt"])
    bad = {rows[0]["prompt"], next(r["prompt"] for r in rows[1:] if r["cell"] == rows[0]["cell"])}
    with declining(bad, how) as server:
        found, again = (run(server, use_cache=f"{tmp_path}/kept") for _ in range(2))
        assert server.asked.total() == 48 and all(server.asked[text] == 1 for text in bad)
    row = found["results"][TASK]
    assert again["results"][TASK] == row and "declined 2 prompts, left out" in caplog.text
    assert [of["config"]["choice_api"]["declined"] for of in (found, again)] == [2, 2]
    if how == "azure":
        # One of the two cells lacks prompts, as if they had not been asked.
        kept = [n for n, each in enumerate(split(TASK)) if each["prompt"] not in bad]
        with scripted() as server:
            expected = run(server, samples={TASK: kept})["results"][TASK]
        assert row == {**expected, "sample_len": row["sample_len"]} and 0.3 < row["seen,none"] < 0.7
        # And so it is read from samples.
        samples = found["samples"][TASK]
        for each in samples:
            each |= {name: sanitize_list(each[name]) for name in ("resps", "filtered_resps")}
        (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
        assert len(answers_in(tmp_path / "samples.jsonl", Asked(TASK, "letters"))) == 46


def test_a_run_of_which_too_much_is_declined_stops_with_the_reason(tmp_path):
    bad, cache = sorted(split(TASK)["prompt"])[-3:], {"use_cache": f"{tmp_path}/kept"}
    with declining(bad) as server:
        with pytest.raises(EpidemiaError, match=r"declines 3 prompts, more than 5% \(The prompt"):
            run(server)
        # One that goes on has little left but these, and ends.
        bad.pop()
        with pytest.raises(EpidemiaError, match="max_cost_tokens"):
            run(server, more=",max_cost_tokens=300", **cache)
        assert run(server, **cache)["config"]["choice_api"]["declined"] == 2


def test_a_task_that_is_declined_as_a_whole_has_no_score_and_others_keep_theirs():
    small = "epidemia_low_nsduh_heroin_ever_by_race"
    large = "epidemia_low_acs_employment_status_by_race"
    with declining({*split(small)["prompt"]}) as server:
        found = run(server, [small, large])["results"]
    assert "score,none" not in found[small] and found[large]["seen,none"] == 1
