"""Make datasets for fine-tuning from a survey, and write them: completely or not at all."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lm_eval_epidemia.core.errors import EpidemiaError, few, plural, suggest
from lm_eval_epidemia.core.paths import guard_write
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.finetune.facts import Facts, draw_people, facts_of, shuffle_people, tasks_of
from lm_eval_epidemia.finetune.hold_out import (
    NOTHING,
    HoldOut,
    hold_out_of,
    hold_out_of_people,
    list_trained,
)
from lm_eval_epidemia.finetune.notes import (
    Writer,
    collect_notes,
    make_model_notes,
    make_template_notes,
)
from lm_eval_epidemia.finetune.rows import distributions, draw_answers, make_prompts, statements
from lm_eval_epidemia.results.card import KINDS, DatasetCard, write_card
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task
from lm_eval_epidemia.surveys.microdata import Microdata, load_microdata

if TYPE_CHECKING:
    import datasets


#: Rows, where a number is not given: as many notes as in the study.
ROWS = 2500

#: Kinds that are about sampled people, and so need the survey's file.
OF_PEOPLE = ("notes", "shuffled")

#: The writer that is no model.
TEMPLATE = "template"


def make_data(
    survey: str,
    kind: str,
    out: Path,
    *,
    n: int | None = None,
    seed: int = 0,
    tasks: Sequence[str] | None = None,
    hold_out: HoldOut = NOTHING,
) -> DatasetCard:
    """Make a dataset from the truths of a survey, and write it.

    Parameters
    ----------
    survey : str
    kind : {"answers", "distributions", "statements"}
    out : Path
        Its folder: a new one.
    n : int, optional
        Rows, training and validation together; `ROWS` if not given, or of ``distributions`` every
        prompt.
    seed : int
        The same seed gives the same rows.
    tasks : sequence of str, optional
        What it is about; the survey's tasks of one condition if not given.
    hold_out : HoldOut
        What is left out.

    Returns
    -------
    DatasetCard

    Raises
    ------
    EpidemiaError
        If something of this does not exist or does not fit; nothing is written then.
    """
    _check_request(survey, kind, out, n, seed)
    if kind in OF_PEOPLE:
        raise EpidemiaError(f"{kind} are made from people: use make_notes")
    truths = _of_one_build(survey, tasks or _low(survey))
    held_out = hold_out_of(hold_out, truths, seed)
    trained = list_trained(truths, held_out)
    drawing = np.random.default_rng([seed, 0])
    if kind == "statements":
        about = {name: truths[name] for name in trained}
        rows: dict[str, Any] = {"text": statements(about, held_out, n or ROWS, drawing)}
        counts = {"different": len(set(rows["text"]))}
    else:
        by_task = {name: make_prompts(truths[name], held_out.get(name, [])) for name in trained}
        if kind == "answers":
            rows = draw_answers(by_task, n or ROWS, drawing)
        else:
            rows = distributions(by_task, n, drawing)
        counts = {"prompts": len(set(rows["prompt"]))}
    return _write_divided(out, rows, _card(kind, seed, truths, trained, held_out, counts=counts))


def make_notes(
    survey: str,
    kind: str,
    out: Path,
    raw: Sequence[Path],
    *,
    vintage: str | None = None,
    n: int | None = None,
    per_person: int = 1,
    seed: int = 0,
    tasks: Sequence[str] | None = None,
    hold_out: HoldOut = NOTHING,
    writer: Writer | None = None,
    named: str = TEMPLATE,
) -> DatasetCard:
    """Make a dataset of notes on people of a survey, and write it.

    Parameters
    ----------
    survey : str
    kind : {"notes", "shuffled"}
        Of ``shuffled`` each person has the outcomes of another, all of them together.
    out : Path
        Its folder: a new one.
    raw : sequence of Path
        The survey's files, or a folder.
    vintage : str, optional
        Where the files do not tell.
    n : int, optional
        Notes, `ROWS` if not given; one that is dropped is not replaced.
    per_person : int
        Notes about each person who is drawn, all in the same split; 10 in the study.
    seed : int
        The same seed gives the same people, and with a template the same notes.
    tasks : sequence of str, optional
        Whose conditions and outcomes are the facts; if not given, see `facts.tasks_of`.
    hold_out : HoldOut
        What is left out. Of people in cells that are, the condition is not stated; of ``tasks`` the
        outcome is stated of nobody.
    writer : Writer, optional
        A model; without one, sentences are made of the record's phrases.
    named : str
        The writer's name, for the card.

    Returns
    -------
    DatasetCard

    Raises
    ------
    EpidemiaError
        If something of this does not exist or does not fit, or no note is kept; nothing is written
        then.
    """
    _check_request(survey, kind, out, n, seed)
    if per_person < 1 or (n or ROWS) % per_person:
        raise EpidemiaError(
            f"--per-person {per_person}: expected a number that divides the {n or ROWS} notes"
        )
    entry = find_record(survey)
    if all(vintage.tables for vintage in entry.vintages.values()):
        raise EpidemiaError(
            f"{survey} is published as tables, but notes are about people: take a survey with "
            "people's answers, such as nsduh, or --kind statements"
        )
    if not raw:
        raise EpidemiaError(f"{kind} are about people in {survey}: give its file with --raw")
    data = load_microdata(entry, raw, vintage)
    truths, facts = _plan_facts(data, tasks)
    held_out, unsaid = hold_out_of_people(hold_out, truths, seed)
    trained = list_trained(truths, held_out)
    every = {name: data.variables[name] for name in facts.names}
    facts = _without(facts, hold_out, [declared_task(name) for name in trained])
    about = [declared_task(name) for name in truths]
    drawn = (n or ROWS) // per_person
    people = draw_people(data, facts, about, drawn, np.random.default_rng([seed, 0]), unsaid)
    if kind == "shuffled":
        people = shuffle_people(people, facts, np.random.default_rng([seed, 4]))
    people = people.repeated(per_person)
    if writer is None:
        attempt = make_template_notes(people, entry, data.vintage, np.random.default_rng([seed, 2]))
    else:
        attempt = make_model_notes(people, entry, data.vintage, writer, every)
    notes = collect_notes(people, entry.vintages[data.vintage].said, attempt)
    made_of = {"raw": data.files, "facts": list(facts.names), "writer": named}
    counts = {"people": drawn, **notes.counts}
    card = _card(kind, seed, truths, trained, held_out, counts=counts, **made_of)
    return _write_divided(
        out, {"text": notes.text}, card, [note // per_person for note in notes.number]
    )


def _check_request(survey: str, kind: str, out: Path, n: int | None, seed: int) -> None:
    """Refuse what cannot become a dataset before any work is done."""
    find_record(survey)
    if kind not in KINDS:
        raise EpidemiaError(f"--kind {kind!r} is not known ({suggest(kind, KINDS)})")
    if seed < 0:
        raise EpidemiaError(f"--seed {seed}: expected 0 or more")
    if n is not None and n < FEWEST:
        raise EpidemiaError(
            f"--n {n}: expected at least {FEWEST} rows, so that a tenth can be the validation split"
        )
    check_out(out.resolve())


def _low(survey: str) -> list[str]:
    """Name the tasks of a survey with one condition whose truth is here."""
    here = [name for name in store.list_available() if declared_task(name).survey == survey]
    low = [name for name in here if declared_task(name).kind == "low"]
    if not low:
        raise EpidemiaError(
            f"no task of {survey} with one condition has a ground truth here"
            + (f": choose others with --tasks, such as {here[0]}" if here else "")
        )
    return low


def _of_one_build(survey: str, tasks: Iterable[str]) -> dict[str, store.GroundTruth]:
    """Load the truths of tasks of a survey, which must come from one build."""
    tasks = list(dict.fromkeys(tasks))
    if others := [name for name in tasks if declared_task(name).survey != survey]:
        raise EpidemiaError(f"--tasks: {few(others)} do not belong to {survey}")
    truths = {name: store.load_truth(name) for name in tasks}
    by_source = defaultdict(list)
    for name, truth in truths.items():
        by_source[truth.vintage, truth.fingerprint].append(name)
    if len(by_source) > 1:
        raise EpidemiaError(
            f"the truths of the tasks come from several builds of {survey}: "
            + "; ".join(f"{vintage}: {few(names)}" for (vintage, _), names in by_source.items())
            + ": choose tasks from one build with --tasks"
        )
    return truths


def _plan_facts(
    data: Microdata, tasks: Sequence[str] | None
) -> tuple[dict[str, store.GroundTruth], Facts]:
    """Choose the tasks that notes are about, and the facts that state them."""
    survey = data.record.survey
    names = tasks
    if names is None:
        here = store.list_available()
        names = [task.name for task in tasks_of(data, data.record.declared) if task.name in here]
        if not names:
            # Says which facts the file lacks, if it does.
            facts_of(data, tasks_of(data, data.record.declared))
            raise EpidemiaError(
                f"no task of {survey} that {data.name} answers with yes or no has a ground "
                f"truth here: epidemia groundtruth build {survey} --raw FILE"
            )
    truths = _of_one_build(survey, names)
    declared = [declared_task(name) for name in truths]
    facts = facts_of(data, [task for task in declared if data.can_estimate(task)])
    truth = next(iter(truths.values()))
    if truth.vintage != data.vintage:
        raise EpidemiaError(
            f"{data.name} is {survey} {data.vintage}, but scores use the ground truth of "
            f"{truth.vintage}: give the file of {truth.vintage}"
        )
    if lacking := [task.name for task in declared if not facts.states(task)]:
        if tasks is not None:
            raise EpidemiaError(f"{data.name} lacks variables that {few(lacking)} need")
        truths = {name: truth for name, truth in truths.items() if name not in lacking}
    return truths, facts


def _without(facts: Facts, hold_out: HoldOut, trained: Sequence[Any]) -> Facts:
    """Leave facts out that are held out: conditions, and outcomes of tasks."""
    gone = {declared_task(name).outcome for name in hold_out.tasks}
    for outcome in sorted(gone):
        if still := [task.name for task in trained if task.outcome == outcome]:
            raise EpidemiaError(
                f"--hold-out tasks=: a note states {outcome} together with all conditions, so "
                f"it also reveals {few(still)}: hold these out too, or hold out a condition "
                "with conditions="
            )
    same = {facts.implied.get(name, name) for name in hold_out.conditions}
    implied = {a: b for a, b in facts.implied.items() if b not in same}
    conditions = tuple(name for name in facts.conditions if name not in same)
    about = {task.outcome for task in trained}
    outcomes = tuple(name for name in facts.outcomes if name in about)
    if not conditions or not outcomes:
        raise EpidemiaError("--hold-out leaves no condition or no outcome for notes to state")
    return Facts(conditions, outcomes, implied)


def _card(
    kind: str,
    seed: int,
    truths: Mapping[str, store.GroundTruth],
    trained: list[str],
    held_out: dict[str, list[int]],
    **made_of: Any,
) -> DatasetCard:
    truth = next(iter(truths.values()))
    made_of |= {"tasks": trained, "held_out": held_out}
    return DatasetCard(kind, truth.survey, truth.vintage, truth.fingerprint, seed, {}, **made_of)


def _write_divided(
    out: Path,
    rows: Mapping[str, Sequence[Any]],
    card: DatasetCard,
    together: Sequence[int] | None = None,
) -> DatasetCard:
    """Divide rows, write them with their card, and return it with their numbers."""
    size = len(next(iter(rows.values())))
    if size < FEWEST:
        # All prompts were taken; notes were dropped, as many as were wanted or more.
        how = "give a higher --n" if together else "hold out less, or give more --tasks"
        raise EpidemiaError(f"{plural(size, 'row')} left, but {FEWEST} are needed: {how}")
    splits = divide_rows(rows, np.random.default_rng([card.seed, 1]), together)
    card = replace(card, rows={name: len(part) for name, part in splits.items()})
    _save(out, splits, card)
    return card


#: The share of rows in the validation split (not stated in the study).
VALIDATION = 0.1

#: Rows below which the validation split would be empty or nearly all.
FEWEST = 10


def divide_rows(
    rows: Mapping[str, Sequence[Any]],
    rng: np.random.Generator,
    together: Sequence[Any] | None = None,
) -> datasets.DatasetDict:
    """Divide rows at random into ``train`` and ``validation`` (10 %).

    Validation rows are other rows of the same kind: other people's notes, other draws of an answer.
    They show when a model begins to memorise its rows, but nothing about held-out cells, which have
    no row in either split. Rows that belong together (notes about one person, or a text drawn
    twice) are in the same split.

    Rows of ``distributions`` are not divided: both splits have all of them. Nothing in them is
    random, so a model can only memorise the truth, and a withheld prompt would be a condition that
    this control does not teach.

    Parameters
    ----------
    rows : mapping of str to sequence
        Columns, of equal length.
    rng : Generator
    together : sequence, optional
        A key for each row, shared by rows that belong together; default: its text.

    Raises
    ------
    EpidemiaError
        If too few of them differ to keep any for validation.
    """
    import datasets

    size = len(next(iter(rows.values())))
    order = rng.permutation(size).tolist()
    parts = {"train": order, "validation": order}
    if "p" not in rows:
        alike = together or rows.get("text", range(size))
        if not (kept := _kept_back(order, alike)):
            what, how = "text", "a lower --n or more --tasks"
            if together:
                what, how = "person", "a higher --n or a lower --per-person"
            raise EpidemiaError(
                f"each {what} has {min(Counter(alike).values())} of the {size} rows or more, and "
                f"the validation split has a tenth of the rows: give {how}"
            )
        parts = {"train": [k for k in order if k not in kept], "validation": sorted(kept)}
    kinds = {
        "text": datasets.Value("string"),
        "prompt": datasets.Value("string"),
        "completion": datasets.Value("string"),
        "choices": datasets.Sequence(datasets.Value("string")),
        "p": datasets.Sequence(datasets.Value("float64")),
    }
    features = datasets.Features({column: kinds[column] for column in rows})
    splits = datasets.DatasetDict()
    for name, part in parts.items():
        content = {column: [values[k] for k in sorted(part)] for column, values in rows.items()}
        splits[name] = datasets.Dataset.from_dict(content, features)
    return splits


def _kept_back(order: Sequence[int], together: Sequence[Any]) -> set[int]:
    """Choose a tenth of the rows, in this order, keeping rows that belong together."""
    copies = defaultdict(list)
    for k in order:
        copies[together[k]].append(k)
    kept: set[int] = set()
    for rows in copies.values():
        if len(kept) + len(rows) <= round(VALIDATION * len(order)):
            kept.update(rows)
    return kept


def check_out(out: Path) -> None:
    """Refuse a folder that is not new or empty, before any work is done.

    Raises
    ------
    EpidemiaError
        Naming the files there.
    """
    if out.exists() and not out.is_dir():
        raise EpidemiaError(f"{out} is a file: give a folder")
    if here := sorted(path.name for path in out.glob("*")):
        raise EpidemiaError(f"{out} holds {few(here)}: give a new folder")


def _save(out: Path, splits: datasets.DatasetDict, card: DatasetCard) -> None:
    """Write a dataset and its card.

    It is written beside the folder and moved, so a folder never holds half a dataset.

    Raises
    ------
    EpidemiaError
        As for `check_out`, or if the disk is full or fails.
    """
    out = out.resolve()
    check_out(out)
    with guard_write(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        how: Any = {"prefix": f".{out.name}.", "dir": out.parent, "ignore_cleanup_errors": True}
        with tempfile.TemporaryDirectory(**how) as staging:
            new = Path(staging) / "new"
            splits.save_to_disk(new)
            write_card(new, card)
            new.rename(out)  # over an empty folder, too
