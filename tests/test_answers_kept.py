"""Every result file keeps the answers to survey tasks: what findings read instead of samples."""

import json

import numpy as np
import pandas as pd
import pytest
from conftest import evaluate, recorded
from recorded_runs import copied_run

from lm_eval_epidemia.benchmarks import OBSERVATION, in_way
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.cells import answers
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import answers_of, sample_file

BINARY, SEVERAL = LOW = [
    f"epidemia_low_{name}_by_age" for name in ("nsduh_marijuana_ever", "gss_political_view")
]
NOISY = "kind=noisy,noise=0.3"
CLOSED = [f"epidemia_high_nsduh_{outcome}_ever_by_age_sex" for outcome in ("marijuana", "cocaine")]

#: What is run, by way of asking.
WAYS = {way: {} for way in ("letters", "likelihood", "stated", "closed")} | {
    "sampled": {"metadata": {"n_samples": 10}},
    "random orderings": {"metadata": {"orderings": "random:4"}},
    "part": {"limit": 40},
}


@pytest.fixture
def run(tmp_path_factory):
    def made(what, of=tmp_path_factory):
        way = what if what in OBSERVATION.ways else "letters"
        tasks = [in_way(task, way) for task in (CLOSED if way == "closed" else LOW)]
        return copied_run(of, of.mktemp("run"), tasks, model_args=NOISY, **WAYS[what])

    return made


def changed(folder, change):
    """Change the result file of a run, in its place, and read it."""
    (path,) = folder.rglob("results_*.json")
    results = json.loads(path.read_text())
    change(results)
    path.write_text(json.dumps(results))
    return read_results([folder])


@pytest.mark.parametrize("what", WAYS)
def test_kept_answers_are_those_of_the_samples(run, what):
    for row in read_results([run(what)]).scores.itertuples():
        asked = Asked(row.task, row.way)
        kept, told = answers_of(row.file, asked, row.said), answers_of(row.file, asked)
        assert isinstance(row.said, str) and sample_file(row.file, asked)
        for mine, theirs in zip(kept, told, strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:  # six digits; the last number is 1 less the others
                np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)
        drawn = what == "random orderings" or row.way == "stated"
        assert (kept.by_order is not None) == (drawn and row.task == SEVERAL)
        assert (kept.counts is not None) == (what == "sampled")


@pytest.mark.parametrize("name", ["distances", "tilt", "recalibrated", "calibration"])
def test_findings_need_no_samples(run, name):
    """Of a file without the answers, as version 0.2 wrote it, they are read from the samples."""

    def forget(results):
        del results["epidemia"]["said"]

    folder, old = run("random orderings"), changed(run("random orderings"), forget)
    for path in folder.rglob("samples_*"):
        path.unlink()
    new = find(name)(read_results([folder])).table
    pd.testing.assert_frame_equal(new, find(name)(old).table, rtol=1e-3, atol=1e-4)
    without = find(name)(changed(folder, forget))
    assert without.table.empty and "older than version 0.3" in without.left_out[-1]


NUMBERS = " ".join(["0.1"] * 11)
WRONG = {
    "above 1": (f";1.5{NUMBERS[3:]};;", "not between 0 and 1"),
    "nan": (f";nan{NUMBERS[3:]};;", "is not finite"),
    "too few": (f";{NUMBERS[:-4]};;", "cannot reshape"),
    "words": (f";much{NUMBERS[3:]};;", "could not convert"),
    "a cell that is not there": (f"0 1 2 3 4 5 6 7 8 9 11;{NUMBERS};;", "not some of 11"),
    "three positions": (f";{NUMBERS};0.3 0.3 0.4;", "shares of positions"),
    "orderings": (f";{NUMBERS};;0.5 0.5", "cannot reshape"),
    "truncated": (";0.1 0.1", "not enough values"),
    "another truth": (None, "of another truth"),
    "changed": (f";{NUMBERS};;", "one of them was changed"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_answers_are_named_and_left_out(run, what):
    def damage(results):
        if line is None:
            results["configs"][BINARY]["metadata"]["truth"] = "0" * 16
        else:
            results["epidemia"]["said"][BINARY] = line

    line, why = WRONG[what]
    made, (note,) = answers(changed(run("letters"), damage))
    assert [asked.task for _, asked in made] == [SEVERAL] and why in note
    assert BINARY in note or line is None


@pytest.mark.parametrize("count", ["-1 5 6", "0 0 0", "1.5 3 0", "nan 3 0"])
def test_counts_are_those_of_answers(count):
    line = f";{NUMBERS};;{' '.join([count] * 11)}"
    with pytest.raises(ValueError, match=f"{BINARY}_sampled: the recorded answers are not"):
        answers_of(None, Asked(BINARY, "sampled"), line)


def test_a_task_put_together_from_parts_has_all_answers(run, tmp_path):
    for part in ([*range(10)], [*range(10, 22)]):
        recorded(tmp_path, [BINARY], samples={BINARY: part}, model_args=NOISY)
    (own, notes), (whole, _) = (answers(read_results([of])) for of in (tmp_path, run("letters")))
    here = 0, Asked(BINARY, "letters")
    assert not notes and own[here].q == pytest.approx(whole[here].q)


@pytest.mark.slow
def test_low_and_high_take_little_room():
    """Without drawn orderings of six and more answers, which are far more: 3.2 MB."""
    said = evaluate(["epidemia_low", "epidemia_high"], model_args=NOISY)["epidemia"]["said"]
    assert sum(len(line.rpartition(";")[0]) for line in said.values()) < 200_000
