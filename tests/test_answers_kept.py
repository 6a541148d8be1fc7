"""Result files keep what was answered in every cell, whatever the way; samples say the same."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from conftest import made_once, recorded

from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.elicit.orderings import orderings
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.cells import answers, beside_truth
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import KEPT, answers_of

TASK = "epidemia_low_nsduh_heroin_ever_by_race"  # 4 cells, 2 levels
SEVERAL = "epidemia_low_acs_employer_by_sex"  # 2 cells, 4 levels
MANY = "epidemia_low_meps_inpatient_visits_by_race"  # 5 cells, 6 levels: some of 720 orderings
HIGH = "epidemia_high_nsduh_marijuana_ever_by_education_sex"
ASKED = [
    *(Asked(TASK, way) for way in ("letters", "likelihood", "sampled", "stated")),
    *(Asked(SEVERAL, way) for way in ("letters", "likelihood", "sampled", "stated")),
    *(Asked(HIGH, way) for way in ("closed", "rag")),
]
LETTERS, SAMPLED, STATED = Asked(TASK, "letters"), Asked(TASK, "sampled"), Asked(SEVERAL, "stated")


def run(folder, asked=ASKED, **arguments):
    names = [in_way(*each) for each in asked]
    return recorded(folder, names, model_args="kind=noisy,noise=0.3", **arguments)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return made_once(tmp_path_factory, "answers_kept", run)


@pytest.fixture
def folder(ran, tmp_path):
    """The run without samples."""
    return shutil.copytree(ran, tmp_path / "run", ignore=shutil.ignore_patterns("samples_*"))


def rows(folder):
    scores = read_results([folder]).scores
    return {Asked(row.task, row.way): row for row in scores.itertuples()}


def same(one, other):
    return (one is None) == (other is None) and (
        one is None or np.abs(np.array(one) - other).max() <= KEPT
    )


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: in_way(*asked))
def test_they_are_those_of_the_samples(ran, asked):
    row = rows(ran)[asked]
    kept, logged = answers_of(row.file, asked, row.said), answers_of(row.file, asked)
    assert kept.cells == logged.cells and same(kept.q, logged.q)
    assert same(kept.by_position, logged.by_position)
    assert (kept.counts is None) == (logged.counts is None) == (asked.way != "sampled")
    assert kept.counts is None or (kept.counts == logged.counts).all()
    # Half a unit of the sixth digit for each answer, of the metric and of the cell.
    assert kept.l1 == pytest.approx(row.l1, abs=KEPT * kept.q.shape[1])
    assert same(kept.by_order, logged.by_order)


def test_random_orderings_are_kept_where_they_are_few(tmp_path):
    asked = Asked(SEVERAL, "letters")
    row = rows(run(tmp_path, [asked], metadata={"orderings": "random:5"}))[asked]
    kept, logged = answers_of(row.file, asked, row.said), answers_of(row.file, asked)
    assert kept.by_order.shape == (2, 5, 4) and same(kept.by_order, logged.by_order)


def test_where_orderings_are_too_many_samples_are_read_or_missed(tmp_path):
    """Else an error that comes from the choice of orderings would count as 0."""
    asked = Asked(MANY, "letters")
    row = rows(run(tmp_path, [asked]))[asked]
    logged = answers_of(row.file, asked)
    assert logged.by_order.shape == (5, len(orderings(6)), 6)
    made, notes = answers(read_results([tmp_path]))
    assert not notes and (made[0, asked].by_order == logged.by_order).all()
    next(tmp_path.rglob("samples_*")).unlink()
    made, (note,) = answers(read_results([tmp_path]))
    assert made[0, asked].by_order is None and same(made[0, asked].q, logged.q)
    assert "errors from the orderings" in note and "1 task: run again with --log_samples" in note


def test_answers_that_nobody_gives_stay_ties(tmp_path):
    """Else the order of the cells would be that of what rounding left."""
    recorded(tmp_path, [MANY], model_args="kind=noisy,noise=2")
    find_ranks = find("distances")
    logged = find_ranks(read_results([tmp_path])).table["rank_agreement"]
    next(tmp_path.rglob("samples_*")).unlink()
    kept = find_ranks(read_results([tmp_path])).table["rank_agreement"]
    assert [*kept] == pytest.approx([*logged], abs=1e-12)


def test_a_run_without_samples_has_the_cells_of_all_its_tasks(ran, folder):
    made, notes = answers(read_results([folder]))
    assert not notes and {asked for _, asked in made} == {*ASKED}
    for (_, asked), own in made.items():
        part, told = beside_truth(asked, own)
        assert told.q.shape == part.p.shape == store.load(asked.task).p.shape
        assert part.distance(told.q) >= 0


def test_under_a_limit_they_name_the_complete_cells(tmp_path):
    row = rows(run(tmp_path, [LETTERS], limit=2))[LETTERS]
    kept, logged = answers_of(row.file, LETTERS, row.said), answers_of(row.file, LETTERS)
    assert row.said.split(";")[0] == " ".join(map(str, logged.cells))
    assert kept.cells == logged.cells and len(kept.cells) == 2 and same(kept.q, logged.q)
    assert kept.l1 == pytest.approx(row.l1, abs=1e-6)


def edit(folder, change):
    (path,) = folder.rglob("results_*.json")
    whole = json.loads(path.read_text())
    change(whole)
    path.write_text(json.dumps(whole))
    return read_results([folder])


CELLS, Q, SHARES, CHANCE = range(4)


def beginning(values):
    return lambda line: " ".join([values, *line.split()[len(values.split()) :]])


#: What is damaged in which of the four lists, and what is said of it.
DAMAGES = {
    "not a number": (LETTERS, Q, beginning("half"), "could not convert"),
    "nan": (LETTERS, Q, beginning("nan"), "not between 0 and 1"),
    "infinite": (LETTERS, Q, beginning("inf"), "not between 0 and 1"),
    "above 1": (LETTERS, Q, beginning("1.01"), "not between 0 and 1"),
    "below 0": (LETTERS, Q, beginning("-0.01"), "not between 0 and 1"),
    "together above 1": (STATED, Q, beginning("0.99"), "do not sum to 1"),
    "a level more": (LETTERS, Q, lambda line: f"{line} 0.5", "cannot reshape"),
    "a cell less": (LETTERS, CELLS, lambda _: "0 1 2", "cannot reshape"),
    "no such cell": (LETTERS, CELLS, lambda _: "0 1 2 4", "not some of 4"),
    "a cell twice": (LETTERS, CELLS, lambda _: "0 1 1 3", "not some of 4"),
    "no whole cell": (LETTERS, CELLS, lambda _: "0 1 2.5 3", "not some of 4"),
    "no cell": (LETTERS, CELLS, lambda _: "0 1 2 nan", "not some of 4"),
    "changed": (LETTERS, Q, beginning("0.9 0.1"), "a distance of"),
    "a changed share": (SAMPLED, Q, beginning("0.9 0.1"), "not the mean of what"),
    "a changed ordering": (STATED, CHANCE, beginning("0 0 0 1"), "not the mean of what"),
    "positions": (LETTERS, SHARES, lambda _: "0.3 0.3", "do not sum to 1"),
    "a position less": (LETTERS, SHARES, lambda _: "1", "cannot reshape"),
    "half a count": (SAMPLED, CHANCE, beginning("2.5"), "equally many answers"),
    "no count": (SAMPLED, CHANCE, beginning("nan"), "equally many answers"),
    "one cell with more": (SAMPLED, CHANCE, beginning("9"), "equally many answers"),
    # A table of the square of this number would be made.
    "endless counts": (SAMPLED, CHANCE, lambda _: "99999 1 0 " * 4, "equally many answers"),
    "no counts": (SAMPLED, CHANCE, lambda _: "0 0 0 " * 4, "equally many answers"),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_ones_are_refused_with_the_name_of_the_task(folder, damage):
    asked, part, change, reason = DAMAGES[damage]

    def damaged(whole):
        said = whole["epidemia"]["said"]
        lists = said[in_way(*asked)].split(";")
        lists[part] = change(lists[part])
        said[in_way(*asked)] = ";".join(lists)

    made, notes = answers(edit(folder, damaged))
    assert {own for _, own in made} == {*ASKED} - {asked}
    (note,) = notes
    assert in_way(*asked) in note and reason in note and "\n" not in note


@pytest.mark.parametrize("line", ["", "0.1", ";;", ";;;;"])
def test_what_are_not_four_lists_is_refused(line, folder):
    made, (note,) = answers(
        edit(folder, lambda whole: whole["epidemia"]["said"].update({TASK: line}))
    )
    assert {own for _, own in made} == {*ASKED} - {LETTERS}
    assert f"{TASK}: the recorded answers are not as a run keeps them" in note


def test_those_to_questions_from_another_truth_are_unknown(folder):
    def other(whole):
        whole["configs"][TASK]["metadata"]["truth"] = "f" * 16

    made, notes = answers(edit(folder, other))
    assert {own for _, own in made} == {*ASKED} - {LETTERS}
    assert [note for note in notes if "no answers in 1 task" in note and "another truth" in note]


def test_samples_are_read_where_a_file_keeps_none(ran, folder, tmp_path):
    def old(whole):
        del whole["epidemia"]["said"]

    beside = shutil.copytree(ran, tmp_path / "beside")
    assert {own for _, own in answers(edit(beside, old))[0]} == {*ASKED}
    made, (note,) = answers(edit(folder, old))
    assert not made and f"no answers in {len(ASKED)} tasks" in note


def test_answers_without_a_year_are_kept_too(tmp_path):
    recorded(tmp_path, [undated.GROUP], model_args="kind=truth")
    scores, found = read_results([tmp_path]).scores, find("year-lived")
    for row in scores.itertuples():
        asked = Asked(row.task, row.way)
        kept, logged = answers_of(row.file, asked, row.said), answers_of(row.file, asked)
        assert kept.cells == logged.cells and same(kept.q, logged.q)
    before = found(read_results([tmp_path])).table
    for path in tmp_path.rglob("samples_*"):
        path.unlink()
    after = found(read_results([tmp_path]))
    pd.testing.assert_frame_equal(after.table, before)
    assert not after.left_out

    first = scores["task"][0]
    for line in ("0.5", "2", "half"):
        results = edit(
            tmp_path, lambda whole, line=line: whole["epidemia"]["said"].update({first: line})
        )
        (note,) = found(results).left_out
        assert f"{first}: the recorded answers are not as a run keeps them" in note
