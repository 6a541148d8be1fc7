"""Answers that are written (sampled, closed, retrieval), and prompts that a server declines."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from conftest import REPOSITORY, answers_to, evaluate
from lm_eval.utils import sanitize_list
from scripted_server import scripted

from lm_eval_epidemia.ask.responses import answered_share
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.observation import OBSERVATION, letters, metrics
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.samples import answers_in, read_elicited
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

BINARY = "epidemia_low_nsduh_cocaine_ever_by_age"
SEVERAL = "epidemia_low_gss_party_by_race"
CLOSED = "epidemia_high_nsduh_marijuana_ever_by_age_sex"


def test_the_closed_and_the_retrieval_subset_are_the_published_ones():
    rows = pd.read_csv(REPOSITORY / "tests" / "data" / "tasks_high.csv")
    for mode, number in (("closed", 63), ("rag", 11)):
        asked = [task for task in all_tasks().values() if OBSERVATION.ways[mode].asks(task)]
        assert len(asked) == number and {task.kind for task in asked} == {"high"}
        assert {task.number for task in asked} == {*rows["number"][rows[f"{mode}_subset"] == "yes"]}


def test_every_sampled_prompt_is_a_text_of_its_own_with_an_order_of_its_own():
    """More answers only add to fewer."""
    rows = split(SEVERAL, "sampled", Variant(n_samples=30))
    assert len(set(rows["prompt"])) == len(rows) == 3 * 30
    assert [row["sample"] for row in rows] == [*range(1, 31)] * 3
    a, b, c = (store.load_truth(SEVERAL).levels[level] for level in rows[0]["order"])
    assert f"\nA. {a}\nB. {b}\nC. {c}\n" in rows[0]["prompt"]
    # Of 30 random orders, each of the six is there in most cells, and cells differ.
    orders = [tuple(map(tuple, rows["order"][cell * 30 : cell * 30 + 30])) for cell in range(3)]
    assert len(set(orders)) == 3 and all(len(set(order)) >= 5 for order in orders)
    assert split(SEVERAL, "sampled", Variant(n_samples=10))["prompt"][:10] == rows["prompt"][:10]


def test_sampled_answers_of_a_known_respondent(replicated):
    """Near the exact score; recomputed from the logged samples, without the package's metrics."""
    tasks, how = (BINARY, SEVERAL, CLOSED), {"log_samples": True, "metadata": {"n_samples": 20}}
    names = [in_way(task, "sampled") for task in tasks]
    found = evaluate([*tasks, *names], model_args="kind=mean", **how)
    for task, name in zip(tasks, names, strict=True):
        row, exact, truth = found["results"][name], found["results"][task], store.load_truth(task)
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


def test_replies_without_a_letter_and_a_favourite_letter(replicated):
    assert math.isnan(
        letters.written_order_bias(answers_to(BINARY, "sampled", lambda doc: ["Who knows?"]))
    )
    twenty = Variant(n_samples=20)
    some = answers_to(BINARY, "sampled", lambda doc: ["B" * (doc["sample"] % 20 > 0)], twenty)
    assert (answered_share(some), letters.written_order_bias(some)) == pytest.approx((0.95, 0.5))
    # Always A: every level in turn, so nearly the uniform distribution, and a large bias.
    always = answers_to(SEVERAL, "sampled", lambda doc: ["a)"], Variant(n_samples=400))
    uniform = Anchors.of(store.load_truth(SEVERAL)).uniform
    assert metrics.measure(always).numbers["l1"] == pytest.approx(uniform, abs=0.1)
    assert letters.written_order_bias(always) == pytest.approx(2 / 3)


def test_written_probabilities_that_cannot_be_read():
    """C is 5 to 10 %; what is not read is uniform."""
    said = answers_to(CLOSED, "closed", lambda doc: ["?" if doc["cell"] == 3 else "C. 5%-10%"])
    truth, p = store.load_truth(CLOSED), np.full(len(said), 0.075)
    p[3] = 0.5
    l1 = (truth.weights * 2 * abs(truth.p[:, 0] - p)).sum()
    assert metrics.measure(said).numbers["l1"] == pytest.approx(l1)
    assert answered_share(said) == pytest.approx(1 - 1 / len(said))


@pytest.mark.parametrize(
    ("task", "way", "text"),
    [(BINARY, "sampled", "A"), (BINARY, "stated", "A: 30\nB: 70"), (CLOSED, "closed", "A")],
)
def test_samples_that_hold_unreadable_replies_are_json_and_are_read(task, way, text, tmp_path):
    """lm-eval writes each answer into its sample file, where NaN would be no JSON."""
    samples = tmp_path / "samples.jsonl"
    for number, row in enumerate(split(task, way, Variant(n_samples=2))):
        reply = [text if number else "I cannot help with that."]
        answer = WAYS[way].read(WAYS[way].of_row(row), reply)
        assert answer.is_read == bool(number)
        line = {"doc": row, "filtered_resps": reply, "score": answer}
        with samples.open("a") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
    # The first cell has an unreadable reply; the shares of any other sum to 1 all the same.
    assert read_elicited(samples, LeafKey(task, way)).q.sum(axis=1) == pytest.approx(1, abs=1e-12)


# Prompts that a server's content filter declines count as if they had not been asked.


TASK = "epidemia_low_acs_employer_by_sex"  # 48 prompts of 2 cells, 4 letters
AZURE = b'{"error": {"message": "The prompt triggered our policy", "code": "content_filter"}}'
FLAGGED = b'{"error": {"message": "requires moderation and your input was flagged"}}'
#: Statuses and bodies, and the finish reason of an answer.
FILTERS = {"azure": (400, AZURE), "openrouter": (403, FLAGGED), "in an answer": (200, AZURE)}
FILTERS["finish_reason"] = "filtered"


def run(server, tasks=(TASK,), more="", **arguments):
    given = f"base_url={server.url(False)},model=any,num_concurrent=2,pause=0.001{more}"
    return evaluate([*tasks], model="choice-api", model_args=given, log_samples=True, **arguments)


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
    assert again["results"][TASK] == row and "declined 2 of 48 prompts, left out" in caplog.text
    assert [of["config"]["choice_api"]["declined"] for of in (found, again)] == [2, 2]
    if how == "azure":
        # One of the two cells lacks prompts, as if they had not been asked.
        kept = [n for n, each in enumerate(split(TASK)) if each["prompt"] not in bad]
        with scripted() as server:
            expected = run(server, samples={TASK: kept})["results"][TASK]
        more = {"sample_len": row["sample_len"], "answered,none": 1 - 2 / 48}
        assert row == {**expected, **more} and 0.3 < row["seen,none"] < 0.7
        # And so it is read from samples.
        samples = found["samples"][TASK]
        for each in samples:
            each |= {name: sanitize_list(each[name]) for name in ("resps", "filtered_resps")}
        (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
        assert len(answers_in(tmp_path / "samples.jsonl", LeafKey(TASK, "letters"))) == 46


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
    assert math.isnan(found[small]["score,none"]) and found[large]["seen,none"] == 1
