"""The whole distribution in one reply: its reading, its cost, and what it can be held to."""

import itertools
import json
import math
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, answers_to, evaluate, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from replicates import Says

from lm_eval_epidemia.ask.orderings import mirrored
from lm_eval_epidemia.ask.replies.shares import normalise_shares, read_shares
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.observation import OBSERVATION, metrics, stated
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.harness.guard import _Watched
from lm_eval_epidemia.harness.written_replies import structure_of
from lm_eval_epidemia.score.score import Anchors

BINARY = "epidemia_low_nsduh_cocaine_ever_by_age"
SEVERAL = "epidemia_low_gss_party_by_race"
REPLIES = rows_of("stated_replies")


def test_replies_are_read_as_a_person_reads_them():
    assert len(REPLIES) >= 610 and sum(row["numbers"] is None for row in REPLIES) >= 360
    for row in REPLIES:
        read = read_shares(row["reply"], row["answers"])
        assert read == (row["numbers"] and pytest.approx(row["numbers"])), row


PARTS = yaml.safe_load((REPOSITORY / "tests" / "data" / "reply_parts.yaml").read_text("utf-8"))
ANSWERS = PARTS["stated answers"]


@given(st.text(alphabet='AB01290.,:-|{}[]()=/" \n%Yesno<>', max_size=300), st.sampled_from(ANSWERS))
def test_no_reply_stops_the_reading(reply, answers):
    found = read_shares(reply, answers)
    assert found is None or len(found) == len(answers)
    assert all(math.isfinite(one) for one in found or ())


def all_at_once(letters, answers, numbers):
    """Of replies that are no lines."""
    for names in (letters, answers, [f"{a}. {b}" for a, b in zip(letters, answers, strict=True)]):
        named = dict(zip(names, numbers, strict=True))
        yield from (json.dumps(named), json.dumps(named, indent=2), str(named))
        yield json.dumps([{"answer": name, "people": n} for name, n in named.items()])
        yield ", ".join(f"{name}: {n}" for name, n in named.items())
        header, below = " | ".join(names), " | ".join(map(str, numbers))
        yield f"| {header} |\n{'|---' * len(names)}|\n| {below} |"
        yield f"| | {header} | Total |\n{'|---' * len(names)}|---|---|\n| People | {below} | 100 |"


@settings(max_examples=25)
@given(st.sampled_from(ANSWERS), st.booleans(), st.data())
def test_however_the_truth_is_written_it_is_read(answers, reverse, data):
    shown, size = answers[::-1] if reverse else answers, len(answers)
    cuts = data.draw(st.lists(st.integers(0, 100), min_size=size - 1, max_size=size - 1))
    numbers = [b - a for a, b in itertools.pairwise([0, *sorted(cuts), 100])]
    letters = "ABCDEF"[:size]
    said = [
        {"A": letter, "text": text, "n": n, "p": n / 100}
        for letter, text, n in zip(letters, shown, numbers, strict=True)
    ]
    replies = ["\n".join(form.format(**one) for one in said) for form in PARTS["stated lines"]]
    for reply in (*replies, *all_at_once(letters, shown, numbers)):
        for written in (reply, f"Here it is:\n\n{reply}\n\nThese are rough."):
            found = read_shares(written, shown)
            assert found and normalise_shares(found) == pytest.approx([n / 100 for n in numbers]), (
                written
            )


def test_the_question_once_more_is_no_answer():
    forms = ["{}. {}", "{}: {}", "| {} | {} |", "<{0}>{1}</{0}>", "{1}", "{1} ({0})", "{}: NUMBER"]
    for answers in ANSWERS:
        lettered = dict(zip("ABCDEF", answers, strict=False))
        listed = ["\n".join(form.format(*one) for one in lettered.items()) for form in forms]
        listed += [json.dumps(answers), json.dumps(lettered), ", ".join(answers)]
        for one in listed:
            for reply in (one, f"Of 100 such people, how many are there of each?\n{one}\nAnswer:"):
                found = read_shares(reply, answers)
                assert found is None or normalise_shares(found) is None, reply


def test_reading_takes_a_time_in_proportion_to_the_length():
    """Some 0.05 s each; of 24,000 characters any quadratic step takes 1.8 s or more."""

    def seconds(piece):
        start = time.process_time()
        for answers in (ANSWERS[0], ANSWERS[3]):
            read_shares(piece * (24_000 // len(piece)), answers)
        return time.process_time() - start

    slow = [piece for piece in PARTS["stated repeated"] if all(seconds(piece) > 1.5 for _ in "12")]
    assert not slow


def test_sums_from_90_to_110_are_divided_by():
    for numbers in ((30, 60), (40, 70), (29.7, 60.3)):
        found = normalise_shares(numbers)
        assert found == pytest.approx([one / sum(numbers) for one in numbers]), numbers
        assert sum(found) == pytest.approx(1)
    assert [normalise_shares(numbers) for numbers in ((30, 59.9), (40, 70.1), (0, 0))] == [None] * 3


def test_each_cell_is_asked_in_two_orders_in_which_no_answer_is_nearer_the_top():
    rows, truth = split(SEVERAL, "stated"), store.load_truth(SEVERAL)
    assert len(rows) == 2 * len(truth.given)
    assert [row["order"] for row in rows][:2] == [[0, 1, 2], [2, 1, 0]]
    for levels in (2, 3, 8, 24):
        places = np.argsort(mirrored(levels), axis=1).mean(axis=0)
        assert (places == (levels - 1) / 2).all()
    text = rows[1]["prompt"].splitlines()
    assert text[1] == "Of 100 such people, how many would give each answer?"
    assert text[2:5] == [f"{'ABC'[i]}. {truth.levels[2 - i]}" for i in range(3)]
    assert text[-1] == "Answer:" and rows[1]["choices"] == list(truth.levels[::-1])
    household = split("epidemia_high_scf_home_ownership_by_age_sex", "stated")[0]["prompt"]
    assert "\nOf 100 such households, how many would give each answer?\n" in household
    assert len(set(rows["prompt"])) == len(rows)


def said(task, first, second):
    """Answers to all prompts of a task: a reply to the answers as listed, and one to the other."""
    return answers_to(task, "stated", lambda doc: [first if doc["order"][0] == 0 else second])


def test_an_answer_is_brought_back_to_its_levels_and_averaged_over_the_orders():
    truth = store.load_truth(SEVERAL)
    # Level 0 gets 60 when it is first and 40 when it is last; the middle one always 20.
    answers = said(SEVERAL, "A: 60\nB: 20\nC: 20", "A: 40\nB: 20\nC: 40")
    expected = truth.weights @ abs(np.array([0.5, 0.2, 0.3]) - truth.p).sum(axis=1)
    assert metrics.measure(answers).numbers["l1"] == pytest.approx(expected)


def test_what_cannot_be_read_is_uniform_and_counted(caplog):
    truth = store.load_truth(BINARY)
    uniform = Anchors.of(truth).uniform
    nothing = said(BINARY, *["I cannot know that."] * 2)
    assert WAYS["stated"].diagnostics["answered"].of(nothing) == 0
    numbers = metrics.measure(nothing).numbers
    assert numbers["score"] == 0 and numbers["l1"] == pytest.approx(uniform)
    assert math.isnan(stated.sum_error(nothing))
    assert f"{BINARY}_stated: 0% of the replies contained an answer" in caplog.text
    # A sum of 120 is read, and no answer: half of the orders are uniform.
    half = said(BINARY, "A: 20\nB: 100", "A: 95\nB: 10")
    assert WAYS["stated"].diagnostics["answered"].of(half) == 0.5
    assert stated.sum_error(half) == pytest.approx((20 + 5) / 2)
    q = np.array([0.5 + 10 / 105, 0.5 + 95 / 105]) / 2
    expected = truth.weights @ abs(q - truth.p).sum(axis=1)
    assert metrics.measure(half).numbers["l1"] == pytest.approx(expected)
    assert stated.sum_error(said(BINARY, *["A: 400\nB: 400"] * 2)) == 100


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda p: sum(p) > 0.01))
def test_rounding_to_whole_per_cents_is_the_nearest_that_sums_to_100(p):
    p = np.array(p) / sum(p)
    found, levels = stated.round_to_hundred(p), len(p)
    assert sum(found) == 100 and min(found) >= 0
    apart = np.abs(np.array(found) - 100 * p).sum()
    # Of u levels rounded up by 1 - r and the others down by r, both sums are equal, so that the
    # distance is twice the smaller remainders' sum: at most 2 u (K - u) / K, largest at u = K / 2.
    assert apart <= 2 * (levels // 2) * ((levels + 1) // 2) / levels + 1e-6
    if levels <= 4:  # every other rounding up or down is as far or farther
        floor = np.floor(np.round(100 * p, 9))
        others = [
            np.abs(floor + up - 100 * p).sum()
            for up in itertools.product((0, 1), repeat=levels)
            if floor.sum() + sum(up) == 100
        ]
        assert apart <= min(others) + 1e-6


def test_what_is_written_is_read_in_every_task():
    """Of all answers that tasks have, 2 to 24, in both orders, in lines and in JSON."""
    alike = {
        store.load_truth(entry.name).levels: entry.name for entry in OBSERVATION.asked("stated")
    }
    for name in alike.values():
        truth = store.load_truth(name)
        whole = stated.round_to_hundred(truth.p[0])
        for row in split(name, "stated").select([0, 1]):
            lines = WAYS["stated"].writes(truth.p[0], SimpleNamespace(**row))
            in_json = json.dumps(dict(re.findall(r"(\w): (\d+)", lines)))
            for reply in (lines, in_json):
                numbers = tuple(float(whole[level]) for level in row["order"])
                assert read_shares(reply, row["choices"]) == numbers, name


#: Answers each question on politics alone, and with a sum of 90.
POLITICAL = Says(lambda prompt: "A: 30\nB: 30\nC: 30" if "politic" in prompt else "I cannot know.")


def test_the_sum_error_of_a_group_is_over_the_tasks_that_have_one():
    found = evaluate(["epidemia_low_gss_stated"], model=POLITICAL, limit=2)
    errors = {task: row["sum_error,none"] for task, row in found["results"].items()}
    group = errors.pop("epidemia_low_gss_stated")
    assert {str(error) for error in errors.values()} == {"10.0", "nan"}
    assert group == found["groups"]["epidemia_low_gss_stated"]["sum_error,none"] == 10
    nothing = evaluate(["epidemia_low_acs_stated"], model=POLITICAL, limit=2)["results"]
    assert math.isnan(nothing["epidemia_low_acs_stated"]["sum_error,none"])


def test_solved_examples_are_answered_as_asked():
    text = split(BINARY, "stated", Variant(fewshot=2))[0]["prompt"]
    first = text.split("\n\n")[0]
    shown = re.findall(r"^([A-Z])\. (.+)$", first.split("Answer:")[0], re.MULTILINE)
    found = read_shares(first.split("Answer:")[1], [answer for _, answer in shown])
    assert found is not None and sum(found) == 100 and text.endswith("Answer:")


# What servers are asked to hold a reply to.


def held_to(levels, form):
    truth = SimpleNamespace(levels=["x"] * levels)
    return WAYS["stated"].structure(truth, Variant(structured=form))


def test_a_regular_expression_takes_exactly_what_is_asked_for():
    pattern = held_to(3, "regex")["structured_outputs"]["regex"]
    assert re.fullmatch(pattern, "A: 0\nB: 100\nC: 37")
    for wrong in ("A: 0\nB: 100", "A: 101\nB: 0\nC: 0", "A: 01\nB: 0\nC: 0", "B: 0\nA: 1\nC: 2"):
        assert not re.fullmatch(pattern, wrong)


def test_a_schema_names_every_letter():
    form = held_to(3, "json")["response_format"]
    assert form["type"] == "json_schema" and form["json_schema"]["strict"] is True
    schema = form["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["A", "B", "C"]
    assert schema["additionalProperties"] is False
    prompt = split(BINARY, "stated", Variant(structured="json"))[0]["prompt"]
    assert "JSON" in prompt and "JSON" not in split(BINARY, "stated")[0]["prompt"]


class Served:
    """Behind a server: it keeps what it was sent at a time."""

    def __init__(self):
        self.sent = []

    def _create_payload(self, *args, **kwargs):
        return {}

    def generate_until(self, requests):
        self.sent.append([request.args[1] for request in requests])
        return [request.args[0] for request in requests]


def request(name, levels, form="regex"):
    kwargs = {"until": [], "temperature": 0.0, **held_to(levels, form)}
    return SimpleNamespace(task_name=name, args=(f"{name}?", kwargs), doc={})


def test_requests_with_different_structures_are_sent_apart_and_answered_in_order():
    """lm-eval groups requests by their arguments, of a dict by its keys alone."""
    asked = [request("epidemia_a", 2), request("epidemia_b", 3), request("epidemia_a", 2)]
    model = Served()
    found = _Watched(model, frozenset({"epidemia_a", "epidemia_b"}), {}).generate_until(asked)
    assert found == ["epidemia_a?", "epidemia_b?", "epidemia_a?"]
    assert sorted(map(len, model.sent)) == [1, 2]
    for sent in model.sent:
        assert all(one == sent[0] for one in sent)
    assert structure_of(request("x", 2, "")) == ""


def test_who_cannot_be_held_to_a_structure_is_refused_before_anything_is_sent():
    kinds = {name: type(name, (Served,), {}) for name in ("OpenAIChatCompletion", "AnthropicChat")}
    kinds |= {"Served": Served, "local": type("Local", (Served,), {"_create_payload": property()})}
    refused = {("local", "json"), ("local", "regex"), ("OpenAIChatCompletion", "regex")}
    refused.add(("AnthropicChat", "json"))
    for kind, form in (
        *refused,
        ("OpenAIChatCompletion", "json"),
        ("Served", "json"),
        ("local", ""),
    ):
        model, asked = kinds[kind](), [request("epidemia_a", 2, form)]
        watched = _Watched(model, frozenset({"epidemia_a"}), {})
        if (kind, form) in refused:
            with pytest.raises(EpidemiaError, match="cannot restrict its replies to"):
                watched.generate_until(asked)
            assert not model.sent
        else:
            assert watched.generate_until(asked) == ["epidemia_a?"]


def test_a_structured_run_is_recorded_and_scored_the_same(replicated):
    name = in_way(SEVERAL, "stated")
    plain = evaluate([name])["results"][name]
    found = evaluate([name], metadata={"structured": "regex"})
    assert found["results"][name]["score,none"] == plain["score,none"]
    assert found["configs"][name]["metadata"]["structured"] == "regex"
    kwargs = found["configs"][name]["generation_kwargs"]
    assert "nC: " in kwargs["structured_outputs"]["regex"] and kwargs["max_gen_toks"] == 1024
    # The task files that were written for it hold the structure of their answers.
    folder = yamls.task_path(Variant(structured="regex"))
    binary = (folder / f"stated/nsduh/{BINARY}_stated.yaml").read_text()
    assert '"temperature": 0.0' in binary
    assert r'"A: (100|[1-9]?[0-9])\\nB: (100|[1-9]?[0-9])"' in binary
    assert "nC: (100" in (folder / f"stated/gss/{SEVERAL}_stated.yaml").read_text()
    others = [path for path in folder.rglob("*nsduh*.yaml") if path.parts[-3] != "stated"]
    assert others and not any("structured_outputs" in path.read_text("utf-8") for path in others)
