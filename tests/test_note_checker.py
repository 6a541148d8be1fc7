"""The checker of notes: what it catches of planted faults, and what it refuses of sound notes."""

import json
import re
import sys

import pytest
from conftest import REPOSITORY

from lm_eval_epidemia.finetune.check import Checker, bare, story, tagged
from lm_eval_epidemia.surveys.catalogue import record

NSDUH = record("nsduh")
FORM = ["several stories", "text outside the story", "heading or list", "too long", "no story"]


@pytest.fixture(scope="module")
def notes():
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        import note_checker
    finally:
        sys.path.pop(0)
    return {file: list(note_checker.checked(file)) for file in note_checker.FILES}


def test_planted_faults_are_caught_and_sound_notes_pass(notes):
    """The numbers of benchmarks/README.md; faults of form by their names."""
    numbers = {}
    for file, rows in notes.items():
        sound = [row for row in rows if row.kind == "sound"]
        missed = [row.reply for row in rows if row.kind != "sound" and not row.faults]
        assert not missed, file
        numbers[file] = (len(rows) - len(sound), sum(bool(row.faults) for row in sound), len(sound))
        for row in rows:
            if row.kind in FORM and "1)" not in row.reply:  # a list within a line has numbers
                assert row.kind in {fault.reason for fault in row.faults}, row
    assert numbers == {
        "notes_planted.jsonl": (25, 5, 15),
        "notes_unseen.jsonl": (25, 0, 12),
        "notes_tagged.jsonl": (14, 2, 8),
    }


TAG = re.compile(r"\[([\d, ]+): ([^]]*)\]")


def test_every_change_of_a_fact_or_a_tag_is_caught():
    """Of the sound notes that pass: another level of each fact; a tag left out, or put twice."""
    changes = 0
    for file in REPOSITORY.glob("tests/data/notes_*.jsonl"):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            variables = {name: NSDUH.ways(name, "2022")[-1] for name in row["facts"]}
            stated = {
                name: [level.label for level in variables[name].levels].index(label)
                for name, label in row["facts"].items()
            }
            text, checker = story(row["reply"])[0], Checker(variables)
            if row["kind"] != "sound" or checker.faults(text, stated):
                continue
            for name, level in stated.items():
                other = (level + 1) % len(variables[name].levels)
                assert checker.faults(text, {**stated, name: other}), (text, name, other)
                changes += 1
            for tag in TAG.finditer(text):
                for instead in (tag[2], f"{tag[0]} and {tag[0]}", tagged(10, tag[2])):
                    assert checker.faults(text.replace(tag[0], instead, 1), stated), (text, instead)
            # Left over are the words: a note without its tags reads as it was written.
            assert bare(text) == TAG.sub(r"\2", text) and "[" not in bare(text)
    assert changes >= 9 * 28


def test_replies_that_are_no_story():
    for reply, reason in (
        ("no tags at all", "no story"),
        ("<story> </story>", "no story"),
        ("<story>a<story>b</story>", "no story"),
        ("<story>One.</story><story>Two.</story>", "several stories"),
        ("Sure! <story>One.</story>", "text outside the story"),
        ("<story># Title\nOne.</story>", "heading or list"),
        ("<story>- one\n- two</story>", "heading or list"),
        ("<story>The Baker\nShe bakes.</story>", "heading or list"),
    ):
        assert [fault.reason for fault in story(reply)[1]] == [reason], reply


VARIABLES = {
    name: NSDUH.ways(name, "2022")[-1] for name in ("age", "sex", "cocaine_ever", "heroin_ever")
}


def reasons(text, **facts):
    """Check a note of a woman of 30 to 34 who has used cocaine and not heroin, if not told else."""
    stated = {"age": 7, "sex": 1, "cocaine_ever": 0, "heroin_ever": 1, **facts}
    return {
        fault.reason
        for fault in Checker(VARIABLES).faults(
            text, {name: level for name, level in stated.items() if level is not None}
        )
    }


def test_denials_are_read():
    for told in (
        "[3: has used cocaine] and [4: has never used heroin]",
        "[3: has used cocaine], [4: not heroin]",
        "[3: has used cocaine]. [4: Heroin, never]",
        "[3: has tried cocaine] [4: without ever trying heroin]",
        "[3: has used cocaine], and [4: heroin is something she has always avoided]",
        "[4: denies heroin] and [3: admits that she has used cocaine]",
        "[4: hasn't used heroin]; [3: cocaine she has used]",
    ):
        text = f"[2: She] is [1: 32 years old] and {told}."
        assert reasons(text) == set(), text
        assert "contradicted" in reasons(text, heroin_ever=0)
        assert "contradicted" in reasons(text, cocaine_ever=1)
    both = "[2: She] is [1: 32]. [3, 4: She has never used cocaine or heroin]."
    assert reasons(both, cocaine_ever=1) == set() and reasons(both) == {"contradicted"}


def test_ages_are_read():
    for age, expected in {
        "32 years old": set(),
        "thirty-four years old": set(),
        "30 to 34 years old": set(),
        "in her early thirties": set(),
        "in her thirties": {"unclear"},
        "in her 40s": {"contradicted"},
        "35 years old": {"contradicted"},
        "65 or older": {"contradicted"},
        "over 34": {"unclear"},
        "a teenager": {"unclear"},
        "under 20 years old": {"unclear"},  # several levels
        "tall": {"unclear"},
    }.items():
        text = f"[2: She] is [1: {age}]. She has [3: used cocaine] but [4: never heroin]."
        assert reasons(text) == expected, age


def test_what_stands_outside_of_the_tags_tells_nothing():
    usual = "[2: She] is [1: 32]. She has [3: used cocaine] but [4: never heroin]."
    assert reasons(usual) == set()
    assert reasons(usual, heroin_ever=None) == {"bad tag", "not among the facts"}
    assert reasons(usual.replace("never heroin", "heroin").replace("but", "but never"))
    for more, reason in (
        ("The coke was a mistake.", "said twice"),
        ("He bakes.", "contradicted"),
        ("Female as she is, she bakes.", "said twice"),
        ("She is in her thirties.", "said twice"),
        ("She has 2 dogs.", "bad tag"),
        ("[5: She bakes.]", "bad tag"),
        ("[She bakes.]", "bad tag"),
        ("Not her.", "unclear"),
    ):
        assert reasons(f"{usual} {more}") == {reason}, more
    assert reasons(usual.replace("[2: She]", "She")) == {"omitted"}
    without = "She is [1: 32]. She has [2: used cocaine] but [3: never heroin]."
    assert reasons(without, sex=None) == {"not among the facts"}


def test_what_cannot_be_made_out_is_a_fault():
    for told in (
        "She [4: never used heroin until last year]",
        "She [4: may have used heroin]",
        "She may [4: have used heroin]",
        "She [4: refused to say whether she has used heroin]",
        "She has a brother, and her brother [4: has used heroin]",
        "She [4: has used hard drugs]",
        "[3, 4: She has never used cocaine but has used heroin]",
        "[3, 4: She has used cocaine, never heroin]",
    ):
        text = f"[2: She] is [1: 32] and [3: has used cocaine]. {told}."
        for level in (0, 1):
            assert reasons(text, heroin_ever=level) & {"unclear", "contradicted"}, told
