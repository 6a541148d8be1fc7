"""The numbers in the last tag of a reply: what each text is read as, and that nothing is raised."""

import math
import time

import pytest
from conftest import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_epidemia.ask.replies.numbers import LABELS, LONGEST, numbers, tagged

#: What stands in a tag, or a whole reply, and the numbers that are read; "percent" is what a per
#: cent sign means (null: nothing), "about" why the row is here.
ROWS = rows_of("numbers")


def test_tags_are_read_as_a_person_reads_them():
    assert len(ROWS) >= 610 and sum(row["reads"] is None for row in ROWS) >= 290
    misread = []
    for row in ROWS:
        percent = row.get("percent", 0.01)
        text = tagged(row.get("reply", f"So be it.\n<prior>{row.get('tag')}</prior>"))
        how = {"unit": row.get("unit"), "allowed": row.get("allowed", LABELS)}
        read = numbers(text, row.get("count", 2), math.nan if percent is None else percent, **how)
        if read != (row["reads"] and pytest.approx(row["reads"], rel=1e-15)):
            misread.append((row, read))
    assert not misread


def test_a_tag_that_is_too_long_is_not_read():
    for length, read in ((LONGEST, [5, 1, 1, 1, 1]), (LONGEST + 1, None)):
        text = ", ".join(["5." + "0" * (length - 402), *["1." + "0" * 96] * 4])
        assert len(text) == length
        assert numbers(tagged(f"<prior>{text}</prior>"), 5) == (read and tuple(read))


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_HOW = st.sampled_from(["{!r}", "{:.17g}", "{:.17e}", "{:+.17g}"])


@given(st.lists(_FINITE, min_size=2, max_size=5), _HOW, st.sampled_from([", ", "; ", "\n"]))
def test_numbers_come_back_as_they_were_written(values, how, between):
    text = between.join(map(how.format, values))
    assert numbers(tagged(f"<prior>{text}</prior>"), len(values)) == tuple(values)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=5))
def test_thousands_come_back_too(values):
    text = ", ".join(f"{value:,}" for value in values)
    assert numbers(text, len(values)) == tuple(values)


@given(st.text(), st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2), st.text())
def test_the_last_tag_wins(before, values, after):
    """Whatever stands around it, unless that is a tag or reasoning itself."""
    if any(sign in before + after for sign in "<[＜﹤"):  # noqa: RUF001
        return
    reply = f"<prior>1, 2</prior>{before}<prior>{values[0]!r}, {values[1]!r}</prior>{after}"
    assert numbers(tagged(reply), 2) == tuple(values)


PIECES = "<prior>|</prior>|<think>|</think>|55|, |%|-|.|e|million|$|mean=|±|1,200|10^|nan|²|½|\n"
_PIECES = st.lists(st.sampled_from(PIECES.split("|")) | st.text(max_size=5), max_size=40)


@settings(max_examples=500)
@given(_PIECES, st.sampled_from([2, 5]), st.sampled_from([0.01, 1.0, math.nan]), st.text())
def test_nothing_is_raised(pieces, count, percent, unit):
    found = numbers(tagged("".join(pieces)), count, percent, unit)
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
        numbers(tagged(f"<prior>{reply}"), 2)
        numbers(tagged(f"{reply}<prior>{reply[:LONGEST]}</prior>"), 5)
        slow[piece] = time.process_time() - began
    assert max(slow.values()) < 20, slow
