"""Result files keep what was answered in every cell, whatever the way; samples say the same."""

import shutil

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, made_once, recorded
from report_parts import rewritten

from lm_eval_epidemia.ask.orderings import orderings
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.cells import collect_answers, join_truth
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import KEPT, answers_of

TASK = "epidemia_low_nsduh_heroin_ever_by_race"  # 4 cells, 2 levels
SEVERAL = "epidemia_low_acs_employer_by_sex"  # 2 cells, 4 levels
MANY = "epidemia_low_meps_inpatient_visits_by_race"  # 5 cells, 6 levels: some of 720 orderings
HIGH = "epidemia_high_nsduh_marijuana_ever_by_education_sex"
WAYS = {
    **dict.fromkeys((TASK, SEVERAL), ("letters", "likelihood", "sampled", "stated")),
    HIGH: ("closed", "rag"),
}
ASKED = [LeafKey(task, way) for task, ways in WAYS.items() for way in ways]
LETTERS, SAMPLED = LeafKey(TASK, "letters"), LeafKey(TASK, "sampled")
STATED = LeafKey(SEVERAL, "stated")


def run(folder, asked=ASKED, noise=0.3, **more):
    how = f"kind=noisy,noise={noise}"
    return recorded(folder, [in_way(*each) for each in asked], model_args=how, **more)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return made_once(tmp_path_factory, "answers_kept", run)


def alone(ran, folder, change=lambda whole: None):
    """The results of a run without its samples, changed."""
    return read_results([rewritten(ran, folder, change).parent])


def both(folder):
    """What is kept of every task and what its samples say, with its row; they are the same."""
    made = {}
    for row in read_results([folder]).scores.itertuples():
        asked = LeafKey(row.task, row.way)
        kept, logged = answers_of(row.file, asked, row.said), answers_of(row.file, asked)
        assert kept.cells == logged.cells and kept.counts == pytest.approx(logged.counts, abs=0)
        for name in ("q", "by_position", "by_order"):
            one, other = getattr(kept, name), getattr(logged, name)
            assert one == pytest.approx(other, abs=KEPT), name
        # Half a unit of the sixth digit for each answer, of the metric and of the cell.
        assert kept.l1 == pytest.approx(row.l1, abs=KEPT * kept.q.shape[1])
        made[asked] = row, kept
    return made


def test_they_are_those_of_the_samples_and_serve_without(ran, tmp_path):
    made = both(ran)
    assert {*made} == {*ASKED}
    assert all((kept.counts is None) == (of.way != "sampled") for of, (_, kept) in made.items())
    own, notes = collect_answers(alone(ran, tmp_path / "alone"))
    assert not notes and {asked for _, asked in own} == {*ASKED}
    # Cells are those of the truth, also where answers name none.
    for (_, asked), of in own.items():
        part, told = join_truth(asked, of)
        assert told.q.shape == part.p.shape == store.load_truth(asked.task).p.shape
    # Under a limit they name the complete cells.
    row, kept = both(run(tmp_path / "cut", [LETTERS], limit=2))[LETTERS]
    assert row.said.split(";")[0] == " ".join(map(str, kept.cells)) and len(kept.cells) == 2
    # Random orderings are kept where they are few.
    asked = LeafKey(SEVERAL, "letters")
    _, kept = both(run(tmp_path / "few", [asked], metadata={"orderings": "random:5"}))[asked]
    assert kept.by_order.shape == (2, 5, 4)


def test_where_orderings_are_too_many_samples_are_read_or_missed(tmp_path):
    """Else an error that comes from the choice of orderings would count as 0."""
    ((asked, (_, logged)),) = both(run(tmp_path, [LeafKey(MANY, "letters")], noise=2)).items()
    assert logged.by_order.shape == (5, len(orderings(6)), 6)
    results = read_results([tmp_path])
    made, notes = collect_answers(results)
    assert not notes and (made[0, asked].by_order == logged.by_order).all()
    ranks = find("distances")(results).table["rank_agreement"]
    next(tmp_path.rglob("samples_*")).unlink()
    results = read_results([tmp_path])
    made, (note,) = collect_answers(results)
    assert made[0, asked].by_order is None and np.abs(made[0, asked].q - logged.q).max() <= KEPT
    assert "errors from the orderings" in note and "1 task: run again with --log_samples" in note
    # Answers that nobody gives stay ties: else the order of cells would be what rounding left.
    kept = find("distances")(results).table["rank_agreement"]
    assert [*kept] == pytest.approx([*ranks], abs=1e-12)


DAMAGES = yaml.safe_load((REPOSITORY / "tests/data/reports.yaml").read_text("utf-8"))["kept"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_ones_are_refused_with_the_name_of_the_task(ran, tmp_path, damage):
    way, part, text, reason = DAMAGES[damage]
    asked = {"letters": LETTERS, "sampled": SAMPLED, "stated": STATED}[way]

    def damaged(whole):
        said = whole["epidemia"]["said"]
        lists = said[in_way(*asked)].split(";")
        old, new = lists[part].split(), text.removeprefix("=").split()
        if text == "3e-6":
            new = [f"{float(x) + far:.6g}" for x, far in zip(old, (3e-6, -3e-6), strict=False)]
        lists[part] = " ".join([*new, *([] if text.startswith("=") else old[len(new) :])])
        said[in_way(*asked)] = ";".join(lists)

    made, (note,) = collect_answers(alone(ran, tmp_path / "damaged", damaged))
    assert {own for _, own in made} == {*ASKED} - {asked} and "\n" not in note
    assert in_way(*asked) in note and reason in note


def test_those_to_another_truth_are_unknown_and_samples_are_read_where_none_are_kept(ran, tmp_path):
    def other(whole):
        whole["configs"][TASK]["metadata"]["truth"] = "f" * 16

    made, notes = collect_answers(alone(ran, tmp_path / "other", other))
    assert {own for _, own in made} == {*ASKED} - {LETTERS}
    assert [note for note in notes if "no answers in 1 task" in note and "another truth" in note]

    old = tmp_path / "old"
    made, notes = collect_answers(alone(ran, old, lambda whole: whole["epidemia"].pop("said")))
    assert not made and f"no answers in {len(ASKED)} tasks" in notes[-1]
    for samples in ran.rglob("samples_*"):
        shutil.copy(samples, old)
    assert {own for _, own in collect_answers(read_results([old]))[0]} == {*ASKED}
