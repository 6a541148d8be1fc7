"""Tables before and after fine-tuning: by group, task and cells, and the trainings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval_epidemia.benchmarks import groups, in_way
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Row, known
from lm_eval_epidemia.old.findings.tuning import ALL, Change, Study, over_seeds
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.protocol import printable

#: The ways in which a kind of dataset asks, of those that have prompts of ours.
TRAINED_WAYS = {"answers": "letters", "distributions": "letters"}


def as_trained(card: Tuned | None, way: str) -> str:
    """Return whether training used this way of asking; empty for texts, which ask nothing."""
    if card is None or card.dataset.kind not in TRAINED_WAYS:
        return ""
    return "yes" if TRAINED_WAYS[card.dataset.kind] == way else "no"


def data_of(card: Tuned | None) -> str:
    """Describe the training: "answers, 864 rows, lora"."""
    if card is None:
        return ""
    rows = card.dataset.rows
    trained = f", {rows['train']:,} rows" if "train" in rows else ""
    return printable(f"{card.dataset.kind}{trained}, {card.how}")


#: How to read them.
NOTE = (
    "The tuned model minus its base, over the tasks that both were asked. ± is the joint standard "
    "error of the difference; l1 needs samples of both. Averages only: the respondent that knows "
    "how common each answer is in the whole task, but not how it differs between people. A model "
    "at or below it has not been shown to know more. 'asked as trained': training used prompts of "
    "this way of asking. Verdicts as in comparisons of two models; a single training does not "
    "show how another seed would differ."
)
SEEDS_NOTE = (
    " A row of several seeds is their mean. After its difference comes the survey's error, as "
    "everywhere; 'over seeds' is the standard error of the mean due to differences between "
    "trainings (people, sentences, order of rows). It is better or worse 'here' if the difference "
    "exceeds Student's t of both errors together and l1 agrees. A model that does not answer has "
    "no verdict. --effects lists every seed."
)
CELLS_NOTE = (
    "Tasks with some cells held out of training. Distance and score are for these cells alone, on "
    "their own scale: their shares sum to 1; 0 is the better of the answers without knowledge of "
    "them; 100 is what surveys drawn cell by cell reach, as under --limit. Averages only: those "
    "of the whole task. 'people' is the share of the population in these cells."
)
#: The numbers of a table for people.
_MEASURED = (
    Column("seeds", "seeds"),
    Column("before", "{primary}, before"),
    Column("after", "{primary}, after"),
    Column("difference", "{primary}, difference", signed=True, no_minus_zero=True),
    Column("over seeds", "{primary}, error over seeds", title="± over seeds"),
    Column("averages only", "{primary}, averages only"),
    Column("l1 before", "l1, before", 4),
    Column("l1 after", "l1, after", 4),
    Column("l1 difference", "l1, difference", 4, signed=True, no_minus_zero=True),
    Column("l1 over seeds", "l1, error over seeds", 4, title="l1, ± over seeds"),
    Column("l1 of averages only", "l1, averages only", 4),
)
_NUMBERS = tuple(column.name for column in _MEASURED)
#: Those in a table, the verdict beside what it is on; with the model stands how many seeds.
_VERDICT = "the tuned one is"
_SHOWN = (*_NUMBERS[1:4], _VERDICT, *_NUMBERS[4:])
#: What comes last: of the same model in most rows.
_LAST = ("tuned from", "trained on", "asked as trained")


def _columns(part: str) -> tuple[Column, ...]:
    """Declare the columns; `part` is the heading of a change's subject."""
    texts = (
        "model",
        "tuned from",
        "group",
        "task",
        "trained on",
        "asked as trained",
        "tasks",
        "people",
    )
    return (
        *map(Column, (*texts, "win / tie / loss", _VERDICT)),
        Column("part", title=part),
        *_MEASURED,
        Column("share", "people"),
        *(Column(name, name) for name in ("wins", "ties", "losses")),
    )


def _row(change: Change, name: str) -> Row:
    data, as_asked = data_of(change.run.card), as_trained(change.run.card, change.tasks[0].way)
    cells: dict[str, Cell] = {
        "tuned from": change.base.name,
        "task": name,
        "part": change.part,
        "trained on": data,
        "asked as trained": as_asked,
        "tasks": len(change.tasks),
        "people": f"{100 * change.share:.0f} %",
    }
    verdict = change.verdict
    # The verdict is on what the group is scored by; of l1 nothing was decided.
    changes = (
        (change.value, change.value.difference._replace(verdict=verdict), change.value_over_seeds),
        (change.l1, change.l1.difference, change.l1_over_seeds),
    )
    numbers = [
        known(number)
        for moved, difference, over_seeds in changes
        for number in (moved.before, moved.after, difference, over_seeds, moved.alone)
    ]
    cells |= dict(zip(_NUMBERS, [len(change.seeds) or None, *numbers], strict=True))
    cells[_VERDICT] = verdict
    if change.compared is None:
        cells["share"] = change.share
    else:
        counts = change.compared.wins, change.compared.ties, change.compared.losses
        cells |= zip(("wins", "ties", "losses"), counts, strict=True)
        cells["win / tie / loss"] = " / ".join(map(str, counts))
    facts = {
        "tasks": len(change.tasks),
        "base": change.base.name,
        "part": change.part,
        "data": data,
        "as_trained": as_asked,
    }
    if change.seeds:
        cells["model"] = f"{change.run.entry.name}, {len(change.seeds)} seeds"
        facts["model"] = cells["model"]
    return Row(cells, change.run.entry, change.group, name, facts)


def _finding(
    kind: str,
    changes: Iterable[Change],
    part: str = "",
    more: str = "",
    shown: Sequence[str] = (),
    note: str = "",
) -> Finding:
    """Return changes as a table, by task if its kind says so."""
    rows = [
        _row(change, in_way(*change.tasks[0]) if "task" in kind else change.group)
        for change in changes
    ]
    title = f"Before and after fine-tuning{more}"
    return Finding(kind, title, _columns(part), rows, note, 3, ("model", *shown))


def findings(study: Study) -> list[Finding]:
    """Return every number for programs: groups, tasks, and cells of either.

    In tidy rows ``model`` is the tuned one, ``name`` the group or task, ``base`` the base, ``part``
    the tasks or cells, ``data`` the training data. Means over seeds have their own kinds, in
    addition to every seed.
    """
    kinds = ("tuning", "tuning task", "tuning cells", "tuning task cells")
    means = [
        (f"{kind} seeds", [change for change in over_seeds(changes).changes if change.seeds])
        for kind, changes in zip(kinds, study, strict=True)
    ]
    return [_finding(*of) for of in (*zip(kinds, study, strict=True), *means)]


def tables(study: Study, long: bool) -> list[Finding]:
    """Return the tables: by group and, if some were held out, by cells; `long` adds tasks."""
    shown = ("group", "part", *_SHOWN, "tasks", "win / tie / loss", *_LAST)
    means, again = over_seeds(study.groups)
    known_means = {id(change) for change in means}
    single = [c for c in study.groups if id(c) not in known_means] if long else []
    notes = [NOTE + SEEDS_NOTE * any(change.seeds for change in means), *tested(means)]
    if again:
        notes.append(
            "These trainings have the same set-up and seeds, so they are no sample of seeds: "
            f"{few(again)}."
        )
    note = " ".join(notes)
    by_group = _finding("tuning", [*means, *single], "tasks that were", "", shown, note)
    shown = ("group", "part", "people", *_SHOWN, "tasks", "tuned from", "asked as trained")
    more = ": cells trained on against held-out cells"
    cells = _finding(
        "tuning cells", over_seeds(study.cells).changes, "cells", more, shown, CELLS_NOTE
    )
    by_task = sorted([*study.tasks, *study.task_cells], key=_place) if long else []
    shown = ("task", "part", *_SHOWN, "tuned from", "asked as trained")
    of_tasks = _finding("tuning task", by_task, "part", " by task", shown)
    return [table for table in (by_group, cells, of_tasks, _trained(study)) if table.rows]


def tested(means: Iterable[Change]) -> list[str]:
    """Describe trainings over several seeds, with their outcomes.

    Parameters
    ----------
    means : iterable of Change
        Means over seeds; others are skipped.

    Returns
    -------
    list of str
        A sentence for each set-up: model, data, writer, forms, epochs, seeds, tasks, verdict.
    """
    by_setup: dict[str, list[str]] = {}
    for change in means:
        if change.seeds and change.part == ALL:
            by_setup.setdefault(_setup(change), []).append(_outcome(change))
    return [f"Tested: {setup}: {'; '.join(said)}." for setup, said in by_setup.items()]


def _setup(change: Change) -> str:
    cards = [seed.run.card for seed in change.seeds if seed.run.card]
    data, settings = cards[0].dataset, cards[0].settings
    # People and forms are counted over all rows, those of validation too.
    rows, made = (
        _from_to(count(card.dataset.rows) for card in cards)
        for count in (lambda rows: rows.get("train", 0), lambda rows: sum(rows.values()))
    )
    of = [
        f"{_from_to(card.dataset.counts[name] for card in cards)} {name}"
        for name in ("people", "sentence forms")
        if all(name in card.dataset.counts for card in cards)
    ]
    written = [f"written by {data.writer}"] if data.facts else []
    said = [
        f"{change.base.name} tuned on {rows} of {made} {data.kind} of {data.survey} {data.vintage}",
        *of,
        *written,
        "all weights" if cards[0].how == "full" else f"LoRA of rank {settings.get('r')}",
        *(f"{name} {settings[key]:g}" for name, key in _SAID.items() if key in settings),
        f"{_from_to(card.steps for card in cards)} steps run",
        f"{len(cards)} seeds",
    ]
    return printable(", ".join(said))


#: Settings that are part of what was tested.
_SAID = {"epochs": "epochs", "learning rate": "lr"}


def _from_to(numbers: Iterable[int]) -> str:
    """Write a number, or the smallest and largest of several."""
    least, *_, greatest = sorted(numbers) * 2
    return f"{least:,}" if least == greatest else f"{least:,} to {greatest:,}"


def _outcome(change: Change) -> str:
    value, l1 = change.value, change.l1
    moved = f"from {value.before:.2f} to {value.after:.2f}"
    if not math.isnan(l1.after):
        moved += f" (l1 from {l1.before:.4f} to {l1.after:.4f})"
    over_seeds, of_survey = f"{change.value_over_seeds:.2g}", f"{value.difference.error:.2g}"
    return (
        f"{change.group} ({plural(len(change.tasks), 'task')}) {moved}, errors {over_seeds} over "
        f"seeds, {of_survey} of the survey: {change.verdict or 'not compared'}"
    )


def _place(change: Change) -> tuple[Any, ...]:
    """Return a task followed by its cells."""
    entry, group = change.run.entry, list(groups()).index(change.group)
    return entry.protocol, entry.name, group, change.tasks, change.compared is None


def _trained(study: Study) -> Finding:
    """Describe the training of each model with a card, once."""
    rows = []
    for run in {change.run.entry.model: change.run for change in study.groups}.values():
        if (card := run.card) is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        whole = len([task for task in apart if task not in of.tasks])
        cells = sum(len(set(cells)) for task, cells in apart.items() if task in of.tasks)
        left_out = f"{plural(whole, 'task')}, {plural(cells, 'cell')}"
        split = " + ".join(f"{number:,} {name}" for name, number in of.rows.items())
        rows.append(
            Row(
                {
                    "model": run.entry.model,
                    "tuned from": printable(card.base),
                    "data": of.kind,
                    "survey": printable(f"{of.survey} {of.vintage}"),
                    "writer": printable(of.writer),
                    "rows": printable(split),
                    "tasks": len(of.tasks),
                    "held out": left_out if apart else "",
                    "how": card.how,
                    "steps": card.steps,
                    "kept step": card.best_step,
                    "its validation loss": card.best_loss,
                    "the last": card.last_loss,
                }
            )
        )
    columns = [Column(name, digits=4) for name in (rows[0].cells if rows else ())]
    note = "From the cards of the tuned models (epidemia_finetune.json)."
    return Finding("trained", "Fine-tuning: what was trained", columns, rows, note, 5)
