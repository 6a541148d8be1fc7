"""How many faulty notes does the checker catch, and how many sound ones does it refuse?

    python benchmarks/note_checker.py

The notes were written by hand, each with one planted fault or with none, in the words of people and
not of the record; the tags were put in afterwards, as who follows the writer's instruction would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.finetune.check import Checker, Fault, story
from lm_eval_epidemia.surveys.catalogue import find_record

NOTES = Path(__file__).parent.parent / "tests" / "data"
FILES = {
    "notes_planted.jsonl": "seen",
    "notes_unseen.jsonl": "seen",
    "notes_tagged.jsonl": "unseen",
}


class Checked(NamedTuple):
    """A note, what was planted in it ("sound" for nothing), and what the checker says."""

    kind: str
    reply: str
    faults: list[Fault]


def checked(file: str) -> Iterator[Checked]:
    """Check the notes of a file."""
    survey = find_record("nsduh")
    for line in (NOTES / file).read_text(encoding="utf-8").splitlines():
        one: dict[str, Any] = json.loads(line)
        variables = {name: survey.ways(name, "2022")[-1] for name in one["facts"]}
        stated = {
            name: [level.label for level in variables[name].levels].index(label)
            for name, label in one["facts"].items()
        }
        text, faults = story(one["reply"])
        if text:
            faults = faults + Checker(variables).faults(text, stated)
        yield Checked(one["kind"], one["reply"], faults)


def main() -> None:
    for file, which in FILES.items():
        notes = list(checked(file))
        kinds = dict.fromkeys(note.kind for note in notes)
        print(f"{file} ({which}), {len(notes)} notes")
        for kind in kinds:
            own = [note for note in notes if note.kind == kind]
            refused = sum(bool(note.faults) for note in own)
            print(f"  {kind:24} {refused:2} of {len(own):2} refused")
        faulty = [note for note in notes if note.kind != "sound"]
        sound = [note for note in notes if note.kind == "sound"]
        print(
            f"  catches {sum(bool(note.faults) for note in faulty)} of {len(faulty)} faulty notes, "
            f"refuses {sum(bool(note.faults) for note in sound)} of {len(sound)} sound ones\n"
        )
        for note in notes:
            if (note.kind == "sound") == bool(note.faults):
                said = "; ".join(f"{fault.reason}: {fault.advice}" for fault in note.faults)
                print(f"  {note.kind}, {'refused' if note.faults else 'not caught'}: {note.reply}")
                print(f"    {said}")


if __name__ == "__main__":
    main()
