"""The checker of notes: what it catches of planted faults, and what it refuses of sound notes."""

import json
import re
import sys

import pytest
import yaml
from conftest import REPOSITORY

from lm_eval_epidemia.finetune.check import Checker, story, strip_tags, tag_fact
from lm_eval_epidemia.surveys.catalogue import find_record

NSDUH = find_record("nsduh")
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
                for instead in (tag[2], f"{tag[0]} and {tag[0]}", tag_fact(10, tag[2])):
                    assert checker.faults(text.replace(tag[0], instead, 1), stated), (text, instead)
            # Left over are the words: a note without its tags reads as it was written.
            assert strip_tags(text) == TAG.sub(r"\2", text) and "[" not in strip_tags(text)
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


def test_notes_are_read_as_a_person_reads_them():
    rows = yaml.safe_load((REPOSITORY / "tests" / "data" / "notes_read.yaml").read_text("utf-8"))
    for text, facts, faults in rows:
        assert reasons(text, **facts) == {*faults}, (text, facts)
