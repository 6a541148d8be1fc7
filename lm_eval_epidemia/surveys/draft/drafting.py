"""Draft a record, from the files to its text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.names import RESERVED, check_name
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.surveys.catalogue import own_surveys, read_record, records
from lm_eval_epidemia.surveys.draft import design, tasks, words
from lm_eval_epidemia.surveys.draft.columns import (
    DraftOptions,
    FileColumn,
    Files,
    LeftOut,
    Named,
    describe_files,
)
from lm_eval_epidemia.surveys.draft.tally import Tally, count
from lm_eval_epidemia.surveys.draft.variables import KEEPS, Draft, draft_variable
from lm_eval_epidemia.surveys.draft.writing import DraftSource, record_text
from lm_eval_epidemia.surveys.microdata import load_microdata
from lm_eval_epidemia.surveys.raw import open_raw
from lm_eval_epidemia.surveys.read import SETUP, WORKBOOKS, encoding_of, head_of, suffix_of
from lm_eval_epidemia.surveys.record import MAX_LEVELS

#: A record has at most so many variables; with --outcomes and --given those that are named.
VARIABLES = 500


class Drafted(NamedTuple):
    """A draft.

    Attributes
    ----------
    name : str
        Of the survey.
    text : str
        Its record.
    marks : int
        Places that wait for a person's eye.
    source : DraftSource
    variables : list of Draft
    plans : list of TaskPlan
    left_out : dict of str to list of Field
        By the reason.
    notes : list of str
        What else to tell the user.
    """

    name: str
    text: str
    marks: int
    source: DraftSource
    variables: list[Draft]
    plans: list[tasks.TaskPlan]
    left_out: LeftOut
    notes: list[str]


def own_path(name: str) -> Path:
    """Return where a record of the user's own lies, which need not be there."""
    return paths.home() / "surveys" / f"{name}.yaml"


def fitting_name(files: Sequence[Path], given: str | None = None) -> str:
    """Return the name of a survey: as given, or from the name of its first file.

    Raises
    ------
    EpidemiaError
        If it cannot be one, or is that of a survey that ships.
    """
    name = re.sub(r"[^a-z0-9]", "", files[0].name.split(".")[0].casefold())[:34]
    name = given if given is not None else name if name[:1].isalpha() else f"survey{name}"
    check_name("survey", name)
    ships = records().keys() - own_surveys()
    if name in ships or name in RESERVED:
        what = "a survey that ships" if name in ships else "a group of tasks"
        raise EpidemiaError(f"{name} is already the name of {what}: give another with --name")
    return name


def draft_record(
    files: Sequence[Path],
    wishes: DraftOptions = DraftOptions(),  # noqa: B008
    progress: bool = False,
) -> Drafted:
    """Draft the record of a survey from its files.

    Parameters
    ----------
    files : sequence of Path
        One file, or several that share the number of a person; packed or not.
    wishes : DraftOptions
    progress : bool
        Show how far reading is.

    Returns
    -------
    Drafted
        Its text is a record that was loaded and through which the files were read.

    Raises
    ------
    EpidemiaError
        If a file cannot be read, an option names no column, a weight is none, or nothing is left.
    """
    name = fitting_name(files, wishes.name)
    for path in files:
        if path.is_dir():
            raise EpidemiaError(f"{path} is a folder: give the files inside it")
    with open_raw(files) as unpacked:
        given = [path for path in files if suffix_of(path.name) != SETUP]
        read = describe_files(given, unpacked, wishes)
        wished = (("--outcomes", wishes.outcomes), ("--given", wishes.given))
        named = {of: [read.column(name, of) for name in names] for of, names in wished if names}
        asked_for = {column.name for columns in named.values() for column in columns}
        guess = design.inspect_weights(read, design.guess_design(read.usable), wishes, asked_for)
        rows = design.rows_of(read, guess, wishes)
        _put_aside(read, guess, rows.sampling, asked_for)
        tallies = _counted(read, rows, wishes.encoding, progress)
        repeated = [] if rows.sampling.psu else _repeated(read.usable, tallies)
        variables = _variables(read, tallies, named, wishes)
        outcomes, conditions, notes = _chosen(variables, named)
        variables = _fewer(variables, [*outcomes, *conditions], read.left_out)
        titles = [header.title for header in read.headers if header.title]
        members = [
            (path.name, [inside.name] if suffix_of(path.name) == ".zip" else [])
            for path, inside in zip(read.given, read.paths, strict=True)
        ]
        title, people = [*titles, words.clean_text(files[0].stem)][0], int(rows.keep.sum())
        source = DraftSource(name, title, members, people, read.join, rows.sampling)
        plans = tasks.plan_tasks(outcomes, conditions, 10 * tasks.TASKS)
        if not plans:
            raise _nothing_left(read, variables)
        # As a build will: every code is that of a level, or missing.
        text = record_text(source, variables, plans, read.left_out)
        data = load_microdata(read_record(text), files)
        possible = partial(tasks.is_possible, data)
        plans = tasks.plan_tasks(outcomes, conditions, tasks.TASKS, possible)
        if not plans:
            raise EpidemiaError(
                f"{read.names}: no outcome and condition were both answered by {tasks.PEOPLE} "
                "people: name others with --outcomes and --given"
            )
        text = record_text(source, variables, plans, read.left_out)
        notes += [*repeated, *_about_tables(unpacked)]
    if wishes.outcomes and wishes.given:
        notes += _those_without(outcomes, conditions, plans)
    marks = len(words.marks(text))
    return Drafted(name, text, marks, source, variables, plans, read.left_out, notes)


def write_draft(draft: Drafted) -> Path:
    """Write a draft where records of the user's own are found, whole or not at all.

    Raises
    ------
    EpidemiaError
        If there is a record of that name, or it cannot be written.
    """
    path = own_path(draft.name)
    check_free(path)
    with paths.atomic_write(path) as temporary:
        temporary.write_text(draft.text, encoding="utf-8")
    look_at_disk()
    return path


def check_free(path: Path) -> None:
    """Refuse to overwrite a file that a person may have edited."""
    if path.exists():
        raise EpidemiaError(f"{path} already exists: delete it, or give another --name")


# -- Columns to variables -------------------------------------------------------------------------


def _put_aside(
    read: Files, guess: design.Guess, sampling: design.Sampling, wanted: set[str]
) -> None:
    """Leave out what is no answer of a person: the design, replicates, other weights, numbers."""
    roles = {
        "used for the design": {sampling.weight, sampling.strata, sampling.psu},
        "replicate weights": {*guess.replicates},
        # What somebody weighs is an answer, unless it is used.
        "weights": {*guess.weights} if sampling.weight or not guess.body else set(),
        f"perhaps weights, by their values {KEEPS}": {*guess.unsaid},
        "strata or PSUs, by name or label": {guess.strata, guess.psu},
    }
    for column in read.usable:
        reasons = [reason for reason, names in roles.items() if column.name in names - wanted]
        if column.name.casefold() == read.join.casefold():
            reasons.append("the number of a person, in every file")
        if reasons:
            read.left_out.setdefault(reasons[0], []).append(column)


def _counted(
    read: Files, rows: design.UsedRows, encoding: str | None, progress: bool
) -> dict[str, Tally]:
    """Count the values of columns, file by file, among the records that are used."""
    from tqdm import tqdm

    counted: dict[str, Tally] = {}
    total, hidden = len(rows.keep) * len(read.paths), None if progress else True
    with tqdm(total=total, desc="reading", unit="row", unit_scale=True, disable=hidden) as bar:
        for number, path in enumerate(read.paths):
            columns = [column for column in read.usable if column.file == number]
            keep, weights = design.rows_in(path, rows, read.join)
            tallies = count(path, columns, keep, weights, encoding, bar.update)
            for tally in tallies.values():
                # Who is not in this file has no answer.
                tally.blank_weight += float(rows.weights.sum() - weights.sum())
            counted |= tallies
    return counted


def _variables(
    read: Files, tallies: Mapping[str, Tally], named: Named, wishes: DraftOptions
) -> list[Draft]:
    wanted = {column.name: option for option, columns in named.items() for column in columns}
    drafts: dict[str, Draft] = {}
    for column in read.usable:
        name = words.make_unique(words.variable_name(column.name, column.place), drafts)
        tally = tallies[column.name]
        draft = draft_variable(column, tally, name, wanted=column.name in wanted)
        if not isinstance(draft, str) and wishes.encoding and tally.words:
            draft = "text in an encoding that a record cannot declare"
        if not isinstance(draft, str):
            drafts[name] = draft
        elif option := wanted.get(column.name):
            raise EpidemiaError(f"{option} {column.name}: this column cannot be used: {draft}")
        else:
            read.left_out.setdefault(draft, []).append(column)
    return list(drafts.values())


def _chosen(variables: list[Draft], named: Named) -> tuple[list[Draft], list[Draft], list[str]]:
    """Settle outcomes and conditions: as named, or as proposed."""
    by_column = {draft.column.name: draft for draft in variables}
    given = {
        option: list({column.name: by_column[column.name] for column in columns}.values())
        for option, columns in named.items()
    }
    outcomes, conditions, notes = given.get("--outcomes"), given.get("--given"), []
    if conditions is None:
        free = [draft for draft in variables if draft not in (outcomes or ())]
        conditions = tasks.conditions_of(free)
        if not conditions:
            conditions = [draft for draft in free if len(draft.levels) <= 6 and draft.most < 0.9]
            conditions = conditions[: min(3, len(free) // 2)]
            notes = ["no column looks like age, sex, race or the like: others serve as conditions"]
    if outcomes is None:
        most = -(-tasks.TASKS // max(min(tasks.EACH, len(conditions)), 1))
        outcomes = tasks.outcomes_of(variables, conditions, most)
    for draft in outcomes:
        if len(draft.levels) > MAX_LEVELS:
            raise EpidemiaError(
                f"--outcomes {draft.column.name}: it has {len(draft.levels)} answers, but only "
                f"{MAX_LEVELS} letters exist (A to Z): use it as a condition"
            )
    return outcomes, conditions, notes


def _fewer(variables: list[Draft], used: Sequence[Draft], left_out: LeftOut) -> list[Draft]:
    """Keep a record readable: the variables of tasks, and the first of the others."""
    names = {draft.name for draft in used}
    others = [draft for draft in variables if draft.name not in names]
    if gone := others[max(VARIABLES - len(names), 0) :]:
        named = "name them in --outcomes or --given to include them"
        reason = f"beyond the first {VARIABLES} variables: {named}"
        left_out[reason] = [draft.column for draft in gone]
    return [draft for draft in variables if draft not in gone]


def _those_without(
    outcomes: Sequence[Draft], conditions: Sequence[Draft], plans: Sequence[tasks.TaskPlan]
) -> list[str]:
    """Say which of the named outcomes and conditions did not become a task, and why."""
    possible = f"{len(outcomes) * len(conditions):,} possible tasks with one condition"
    if len(plans) >= tasks.TASKS and len(outcomes) * len(conditions) > tasks.TASKS:
        return [f"{tasks.TASKS} of {possible} were made: --outcomes and --given choose them"]
    there = {(plan.outcome, given) for plan in plans for given in plan.given}
    gone = [
        f"{outcome.name} by {condition.name}"
        for outcome in outcomes
        for condition in conditions
        if (outcome.name, condition.name) not in there and outcome is not condition
    ]
    because = "fewer than {} people answered both, or one is a recoding of the other"
    return [f"no task of {few(gone)}: {because.format(tasks.PEOPLE)}"] if gone else []


def _repeated(asked: Sequence[FileColumn], tallies: Mapping[str, Tally]) -> list[str]:
    """Name columns of identifiers of which each is in several records, as of a household."""
    for name in (column.name for column in asked if words.IDENTIFIER.fits(column)):
        counts = tallies[name].counts
        if counts.sum() / 10 < len(counts) < 0.9 * counts.sum():
            same = f"several records have the same {name}: if they are of one person or one"
            give = f"household, give --psu {name}, or the standard errors are too small"
            return [f"{same} {give}"]
    return []


def _about_tables(files: Sequence[Path]) -> list[str]:
    """Say which csv files and workbooks were read otherwise than they may seem."""
    import pandas as pd

    notes = []
    for path in files:
        is_csv, is_book = suffix_of(path.name) == ".csv", suffix_of(path.name) in WORKBOOKS
        if is_csv and encoding_of(path) != "utf8":
            notes.append(
                f"{path.name} is not UTF-8 and was read as Western European: if letters look "
                "wrong, save it as UTF-8 and run the command again"
            )
        if (is_csv or is_book) and (rows := head_of(path).rows) > 1:
            notes.append(
                f"{path.name} begins with {rows} header rows, as a survey platform writes them: "
                "none of them is a person"
            )
        if is_book and len(sheets := pd.ExcelFile(path).sheet_names) > 1:
            notes.append(f"of the sheets of {path.name} only the first was read: {sheets[0]}")
    return notes


def _nothing_left(read: Files, variables: Sequence[Draft]) -> EpidemiaError:
    reasons = sorted(read.left_out.items(), key=lambda item: -len(item[1]))
    listed = "; ".join(f"{reason}: {len(columns)}" for reason, columns in reasons[:4])
    kept = few([draft.column.name for draft in variables]) or "no column"
    return EpidemiaError(
        f"{read.names}: a task needs an outcome and another column as condition: name them with "
        f"--outcomes and --given, from {kept} (left out: {listed or 'nothing'})"
    )
