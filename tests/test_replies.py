"""What a model writes, and the letter read from it."""

import importlib
import itertools
import math
import re
import string
import sys
import time

import pytest
import yaml
from conftest import REPOSITORY, evaluate, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from replicates import Says

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.replies import forms
from lm_eval_epidemia.ask.replies import letters as replies
from lm_eval_epidemia.ask.replies.forms import answer_text
from lm_eval_epidemia.ask.replies.letters import read_letter
from lm_eval_epidemia.ask.replies.numbers import LABELS, LONGEST, find_tag, read_numbers
from lm_eval_epidemia.ask.replies.shares import read_shares
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import written_replies
from lm_eval_epidemia.score.score import Anchors

B = 1


#: What chat models write, and the letter a person reads in it; how many rows there are at least.
#: With `replies` the parser was made; `replies_held_out` was written before it, `replies_unseen`
#: after it and before it was tried. `replies_plain` has the simplest of each form, `replies_words`
#: one for each word that decides, `replies_clauses` answers among other things that are said; of
#: these some may be unread ("or_unread"), and are counted.
TABLES = {
    **dict.fromkeys(("replies", "replies_held_out", "replies_unseen"), 80),
    **{"replies_plain": 50, "replies_words": 340, "replies_clauses": 520},
}


def test_replies_are_read_as_a_person_reads_them():
    unread = 0
    for name, least in TABLES.items():
        rows = rows_of(name)
        assert len(rows) >= least, name
        for row in rows:
            place = read_letter(row["reply"], row["letters"])
            is_unread = place is None and row.get("or_unread", False)
            assert is_unread or (None if place is None else LETTERS[place]) == row["reads"], row
            unread += is_unread
    assert unread <= 75


#: Marks of thoughts, what is thought and said, refusals, forms, and hostile pieces.
PARTS = yaml.safe_load((REPOSITORY / "tests" / "data" / "reply_parts.yaml").read_text("utf-8"))


def test_an_answer_follows_the_last_thought_of_any_vendor():
    read = 0
    for (opens, ends), thought in itertools.product(PARTS["marks"], PARTS["thoughts"]):
        for said, place in PARTS["said"].items():
            end = PARTS["ends"][read % len(PARTS["ends"])]
            for reply in (f"{opens}{thought}{ends}{said}{end}", f"{thought}{ends}{said}{end}"):
                assert read_letter(reply, 4) == (LETTERS.index(place) if place else None), reply
                assert not forms.strip_thought(reply)[1]
                read += 1
        nested, cut = f"{opens}{thought}{opens}C{ends}{thought}{ends}", f"{opens}{thought}"
        assert read_letter(f"{nested}A", 4) == 0
        assert read_shares(f"{nested}A: 30\nB: 70", ["Yes", "No"]) == (30, 70)
        assert find_tag(f"{nested}<prior>55, 3</prior>") == "55, 3"
        # Words that lost their brackets are marks at the beginning only.
        for text in (cut, nested + cut)[: len(opens) and 2 - opens.isalpha()]:
            assert forms.strip_thought(text) == ("", True), text
            assert (
                read_shares(text, ["Yes", "No"]) is find_tag(text) is read_letter(text, 4) is None
            )
            assert opens.isalpha() or forms.find_open_thought(f"Answer:{opens}"), opens
    assert read >= 3_000


def test_a_refusal_is_unreadable_wherever_it_is_cut_off():
    for words in (refusal.split(" ") for refusal in PARTS["refusals"]):
        for length in range(2 if words[0] == "I" else 1, len(words) + 1):
            cut = " ".join(words[:length])
            assert {read_letter(cut, letters) for letters in (2, 4, 22, 26)} == {None}, cut


def test_an_answer_after_a_refusal_is_an_answer():
    answers = ["The answer is B.", "Still, I'd say B", "\n\n**Answer:** B"]
    replies_ = [f"{refusal} {answer}" for refusal in PARTS["refusals"] for answer in answers]
    assert not {reply for reply in replies_ if read_letter(reply, 22) != B}


@given(
    st.text(max_size=200) | st.lists(st.sampled_from(PARTS["pieces"]), max_size=30).map("".join),
    st.integers(2, 26),
)
def test_any_text_gives_a_letter_that_was_offered_or_none(reply, letters):
    found = read_letter(reply, letters)
    assert found is None or 0 <= found < letters


@given(
    st.integers(0, 25),
    st.sampled_from(PARTS["forms"]),
    st.booleans(),
    st.booleans(),
    st.text(string.ascii_letters + " \n", max_size=50),
)
def test_every_usual_form_is_read_whatever_was_thought_before(number, form, lower, wide, thought):
    said = string.ascii_uppercase[number]
    said = said.lower() if lower else said
    reply = form.format(chr(ord(said) + 0xFEE0) if wide else said)
    assert read_letter(reply, 26) == number
    assert read_letter(f"<think>{thought}</think>{reply}", 26) == number
    assert "think" not in answer_text(f"<think>{thought}</think>{reply}")


parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
REPEATS = ("MAX_REPEAT", "MIN_REPEAT")


def repeats(pattern, around=1):
    """Each repetition: how often, within others, it may be tried; of what; and what follows it."""
    for place, (kind, value) in enumerate(pattern):
        inside = around
        if str(kind) in REPEATS:
            inside = around * int(value[1])
            yield inside, value[2], pattern[place + 1 :]
        for part in value if isinstance(value, list | tuple) else [value]:
            for some in part if isinstance(part, list) else [part]:
                if isinstance(some, parser.SubPattern):
                    yield from repeats(some, inside)


def test_no_pattern_can_run_away():
    """Repetitions are bounded and hardly nested, or of one character and then nothing can fail."""
    patterns = {value for value in vars(replies).values() if isinstance(value, re.Pattern)}
    patterns |= {value for value in vars(forms).values() if isinstance(value, re.Pattern)}
    patterns |= set(replies._STATES) | {pattern for pattern, _ in replies._to_plain.rules}
    found = [
        (pattern.pattern, *one)
        for pattern in patterns
        for one in repeats(parser.parse(pattern.pattern))
    ]
    assert len(patterns) >= 15 and len(found) > 50
    for pattern, times, what, after in found:
        if times >= parser.MAXREPEAT:
            assert times == parser.MAXREPEAT and len(what) == 1 and str(what[0][0]) == "IN", pattern
            assert [str(kind) for kind, _ in after] in ([], ["ASSERT"]), pattern
        else:
            assert times <= 300, pattern


SAMPLED = in_way("epidemia_low_nsduh_cocaine_ever_by_age", "sampled")
CLOSED = in_way("epidemia_high_nsduh_marijuana_ever_by_age_sex", "closed")


def in_turn(*replies_):
    """A model that writes the same replies, in turn, whatever it is asked."""
    turns = itertools.cycle(replies_)
    return Says(lambda prompt: next(turns))


def test_a_model_that_refuses_is_scored_as_one_that_answers_nothing(caplog):
    model = in_turn(*PARTS["refusals"], "I am sorry, I cannot help with that. As an AI, I", "N/A")
    rows = evaluate([CLOSED, SAMPLED], model=model, metadata={"n_samples": 8})["results"]
    for task in (CLOSED, SAMPLED):
        row, anchors = rows[task], Anchors.of(store.load_truth(task.rsplit("_", 1)[0]))
        assert row["answered,none"] == 0
        assert row["l1,none"] == pytest.approx(anchors.uniform)
        assert row["score,none"] == anchors.score(anchors.uniform)
        assert f"{task}: 0% of the replies contained an answer" in caplog.text


def test_a_thought_that_the_prompt_opens_is_no_answer():
    """The template of a model that thinks ends so: cut, a reply has no mark of its own."""
    said = {"so the answer is B. Wait, but": 0, "Answer: B": 0, "the answer is B?</think>A": 1}
    for reply, answered in said.items():
        how = {"model": in_turn(reply), "limit": 4, "metadata": {"gen_prefix": "<think>"}}
        assert evaluate([CLOSED], **how)["results"][CLOSED]["answered,none"] == answered, reply


def test_what_a_model_knows_of_its_thoughts_is_used():
    """As lm-eval's hf, which erases special tokens, and cuts off thoughts only where they end."""
    words = {1: "<end>", 2: "B", 3: "A", 4: "[THINK]"}

    class Model:
        def tok_decode(self, tokens, skip_special_tokens=True):
            return "".join(words[one] for one in tokens if one in (2, 3) or not skip_special_tokens)

    for known, tokens, read in (
        (1, [2, 1, 3], "A"),
        ("<end>", [2, 1, 3], "A"),
        (1, [4, 2], "[THINK]B"),
    ):
        model = Model()
        model.think_end_token = known
        with written_replies.keep_thoughts(model) as told:
            assert model.think_end_token is None
            assert told("Answer:", model.tok_decode(tokens)) == read
            assert told("Answer:<think>\n", "B") == "<think>B"
        assert vars(model) == {"think_end_token": known}


def test_the_answer_and_not_the_first_letter_is_scored():
    said = ["Option A is wrong. The correct answer is I.", "I can't know, but about 37%, so I"]
    plain, hidden = (
        evaluate([CLOSED], model=in_turn(*some), limit=4)["results"] for some in (["I"], said)
    )
    assert plain[CLOSED]["answered,none"] == 1
    assert hidden == plain


# The numbers in the last tag of a reply, and that nothing is raised.


#: What stands in a tag, or a whole reply, and the numbers that are read; "percent" is what a per
#: cent sign means (null: nothing), "about" why the row is here.
ROWS = rows_of("numbers")


def test_tags_are_read_as_a_person_reads_them():
    assert len(ROWS) >= 610 and sum(row["reads"] is None for row in ROWS) >= 290
    misread = []
    for row in ROWS:
        percent = row.get("percent", 0.01)
        text = find_tag(row.get("reply", f"So be it.\n<prior>{row.get('tag')}</prior>"))
        how = {"unit": row.get("unit"), "allowed": row.get("allowed", LABELS)}
        read = read_numbers(
            text, row.get("count", 2), math.nan if percent is None else percent, **how
        )
        if read != (row["reads"] and pytest.approx(row["reads"], rel=1e-15)):
            misread.append((row, read))
    assert not misread


def test_a_tag_that_is_too_long_is_not_read():
    for length, read in ((LONGEST, [5, 1, 1, 1, 1]), (LONGEST + 1, None)):
        text = ", ".join(["5." + "0" * (length - 402), *["1." + "0" * 96] * 4])
        assert len(text) == length
        assert read_numbers(find_tag(f"<prior>{text}</prior>"), 5) == (read and tuple(read))


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_HOW = st.sampled_from(["{!r}", "{:.17g}", "{:.17e}", "{:+.17g}"])


@given(st.lists(_FINITE, min_size=2, max_size=5), _HOW, st.sampled_from([", ", "; ", "\n"]))
def test_numbers_come_back_as_they_were_written(values, how, between):
    text = between.join(map(how.format, values))
    assert read_numbers(find_tag(f"<prior>{text}</prior>"), len(values)) == tuple(values)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=5))
def test_thousands_come_back_too(values):
    text = ", ".join(f"{value:,}" for value in values)
    assert read_numbers(text, len(values)) == tuple(values)


@given(st.text(), st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.text())
def test_the_last_tag_wins(before, values, after):
    """Whatever stands around it, unless that is a tag or reasoning itself."""
    if any(sign in before + after for sign in "<[＜﹤"):  # noqa: RUF001
        return
    reply = f"<prior>1, 2</prior>{before}<prior>{values[0]!r}, {values[1]!r}</prior>{after}"
    assert read_numbers(find_tag(reply), 2) == tuple(values)


PIECES = "<prior>|</prior>|<think>|</think>|55|, |%|-|.|e|million|$|mean=|±|1,200|10^|nan|²|½|\n"
_PIECES = st.lists(st.sampled_from(PIECES.split("|")) | st.text(max_size=5), max_size=40)


@settings(max_examples=500)
@given(_PIECES, st.sampled_from([2, 5]), st.sampled_from([0.01, 1.0, math.nan]), st.text())
def test_nothing_is_raised(pieces, count, percent, unit):
    found = read_numbers(find_tag("".join(pieces)), count, percent, unit)
    assert found is None or (len(found) == count and all(map(math.isfinite, found)))


#: What is repeated to make long replies.
REPEATED = (
    "<prior>|<prior|1,234|1 234|9|<prior>1|1-|5% |x 10^5 |sd=3 |²|1.|<|e|k | |<a|<5>|standard |"
    "log |hundred |\\times"
)


def test_long_replies_are_read_in_linear_time():
    """Some 0.1 s each; of 200,000 characters any quadratic step takes much longer."""
    slow = {}
    for piece in REPEATED.split("|"):
        reply = piece * (200_000 // len(piece))
        began = time.process_time()
        read_numbers(find_tag(f"<prior>{reply}"), 2)
        read_numbers(find_tag(f"{reply}<prior>{reply[:LONGEST]}</prior>"), 5)
        slow[piece] = time.process_time() - began
    assert max(slow.values()) < 20, slow
