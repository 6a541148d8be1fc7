"""The checker of stories that a model writes: which it takes, and which fault it finds."""

import re

import yaml
from conftest import REPOSITORY

from lm_eval_epidemia.finetune.check import fill_slots, find_faults, read_story
from lm_eval_epidemia.surveys.catalogue import find_record

NSDUH = find_record("nsduh")
DRUGS = [f"{drug}_ever" for drug in ("alcohol", "cigarettes", "marijuana", "cocaine", "heroin")]
NAMES = ["age", "sex", "race", "education", *DRUGS]
VARIABLES = {name: NSDUH.readings(name, "2022")[-1] for name in NAMES}
STORIES = yaml.safe_load((REPOSITORY / "tests/data/notes_stories.yaml").read_text("utf-8"))
SOUND = [read_story(reply)[0] for reply, faults in STORIES if not faults]


def reasons(text):
    return [fault.reason for fault in find_faults(text, len(NAMES), VARIABLES)]


def test_replies_have_these_faults():
    for reply, expected in STORIES:
        text, faults = read_story(reply)
        found = [fault.reason for fault in faults] or reasons(text)
        assert found == expected, reply


def test_every_change_of_a_sound_story_is_caught():
    """A number left out or put twice; any words of any level outside of the brackets."""
    levels = [level for variable in VARIABLES.values() for level in variable.levels]
    for text in SOUND:
        for slot in re.findall(r"\[\d\]", text):
            assert reasons(text.replace(slot, "sings")) == ["omitted"]
            assert reasons(text.replace(slot, f"{slot} and {slot}")) == ["said twice"]
        for level in levels:
            assert reasons(f"{text} It is known that Kim {level.phrase}."), level.phrase


def test_a_note_says_the_phrases_of_the_record():
    phrases = [variable.levels[-1].phrase for variable in VARIABLES.values()]
    for text in SOUND:
        note = fill_slots(text, phrases)
        assert "[" not in note and all(note.count(phrase) == 1 for phrase in phrases)
