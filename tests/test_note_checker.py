"""The checker of notes: what it catches of planted faults, and what it refuses of sound notes."""

import sys

import pytest
from conftest import REPOSITORY

from lm_eval_epidemia.finetune.check import Checker, story
from lm_eval_epidemia.surveys.catalogue import record


def checked(file):
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        from note_checker import checked
    finally:
        sys.path.pop(0)
    return list(checked(file))


def test_planted_faults_are_caught():
    """40 notes: every planted fault is caught, for its own reason where it is one of form."""
    notes = checked("notes_planted.jsonl")
    assert len(notes) == 40
    for one in notes:
        if one.kind != "sound":
            assert one.faults, one.reply
        if one.kind in (
            "several stories",
            "text outside the story",
            "heading or list",
            "too long",
            "no story",
            "omitted",
        ):
            assert one.kind in {fault.reason for fault in one.faults}, one
    sound = [one for one in notes if one.kind == "sound"]
    assert sum(bool(one.faults) for one in sound) <= 5 and len(sound) == 15


def test_the_numbers_of_the_unseen_notes_are_those_that_are_told():
    """Where these change, the checker was changed after it saw them: docs say otherwise."""
    notes = checked("notes_unseen.jsonl")
    faulty = [one for one in notes if one.kind != "sound"]
    assert (sum(bool(one.faults) for one in faulty), len(faulty)) == (21, 25)
    assert (sum(bool(one.faults) for one in notes if one.kind == "sound"), len(notes)) == (1, 37)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("no tags at all", "no story"),
        ("<story> </story>", "no story"),
        ("<story>a<story>b</story>", "no story"),
        ("<story>One.</story><story>Two.</story>", "several stories"),
        ("Sure! <story>One.</story>", "text outside the story"),
        ("<story># Title\nOne.</story>", "heading or list"),
        ("<story>- one\n- two</story>", "heading or list"),
        ("<story>The Baker\nShe bakes.</story>", "heading or list"),
    ],
)
def test_replies_that_are_no_story(reply, reason):
    assert [fault.reason for fault in story(reply)[1]] == [reason]


NSDUH = record("nsduh")
VARIABLES = {
    name: NSDUH.ways(name, "2022")[-1] for name in ("age", "sex", "cocaine_ever", "heroin_ever")
}


def reasons(text, **facts):
    """Check a note of a woman of 30 to 34 who has used cocaine and not heroin, if not told else."""
    stated = {"age": 7, "sex": 1, "cocaine_ever": 0, "heroin_ever": 1, **facts}
    stated = {name: level for name, level in stated.items() if level is not None}
    return {fault.reason for fault in Checker(VARIABLES).faults(text, stated)}


@pytest.mark.parametrize(
    "said",
    [
        "has used cocaine and has never used heroin",
        "has used cocaine but never heroin",
        "has used cocaine, not heroin",
        "has used cocaine. Heroin, never",
        "has tried cocaine without ever trying heroin",
        "has used cocaine, and heroin is something she has always avoided",
        "denies heroin but admits that she has used cocaine",
        "hasn't used heroin; cocaine she has used",
    ],
)
def test_denials_are_read(said):
    text = f"She is 32 years old and {said}."
    assert reasons(text) == set()
    assert "contradicted" in reasons(text, heroin_ever=0)
    assert "contradicted" in reasons(text, cocaine_ever=1)


@pytest.mark.parametrize(
    ("age", "reason"),
    [
        ("32 years old", set()),
        ("thirty-four years old", set()),
        ("30 to 34 years old", set()),
        ("in her early thirties", set()),
        ("in her thirties", {"unclear"}),
        ("35 years old", {"contradicted"}),
        ("65 or older", {"contradicted"}),
        ("under 20 years old", {"unclear"}),  # several levels
        ("a tall woman", {"omitted"}),
    ],
)
def test_ages_are_read(age, reason):
    assert reasons(f"She is {age}. She has used cocaine but never heroin.") == reason


def test_what_is_not_to_be_said_is_not():
    text = "She is 32 years old. She has used cocaine but never heroin."
    assert reasons(text, heroin_ever=None) == {"not among the facts"}
    assert reasons(text, sex=None) == {"not among the facts"}


@pytest.mark.parametrize(
    "said",
    [
        "never used heroin until last year",
        "may have used heroin",
        "refused to say whether she has used heroin",
        "has a brother, and her brother has used heroin",
    ],
)
def test_what_cannot_be_made_out_is_a_fault(said):
    text = f"She is 32 years old and has used cocaine. She {said}."
    for level in (0, 1):
        assert reasons(text, heroin_ever=level) & {"unclear", "contradicted"}
