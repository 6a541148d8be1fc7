"""Every result file keeps the answers to survey tasks: what findings read instead of samples."""

import json

import numpy as np
import pandas as pd
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.benchmarks import OBSERVATION, in_way
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.cells import answers
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import answers_of, sample_file

BINARY, SEVERAL = LOW = [
    "epidemia_low_nsduh_marijuana_ever_by_age",
    "epidemia_low_gss_political_view_by_age",
]
CLOSED = [f"epidemia_high_nsduh_{outcome}_ever_by_age_sex" for outcome in ("marijuana", "cocaine")]

#: Ways of asking, and what is asked for the rest.
WAYS = {
    "letters": {},
    "random orderings": {"metadata": {"orderings": "random:4"}},
    "likelihood": {},
    "stated": {},
    "sampled": {"metadata": {"n_samples": 10}},
    "closed": {},
    "part": {"limit": 40},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    def made(what):
        way = what if what in OBSERVATION.ways else "letters"
        tasks = [in_way(task, way) for task in (CLOSED if way == "closed" else LOW)]
        folder, noisy = tmp_path_factory.mktemp("run"), "kind=noisy,noise=0.3"
        return copied_run(tmp_path_factory, folder, tasks, model_args=noisy, **WAYS[what])

    return made


def changed(folder, change):
    """Change the result file of a run, in its place, and read it."""
    (path,) = folder.rglob("results_*.json")
    results = json.loads(path.read_text())
    change(results)
    path.write_text(json.dumps(results))
    return read_results([folder])


def said(line):
    return lambda results: results["epidemia"]["said"].update({BINARY: line})


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
    folder = run("random orderings")
    old = find(name)(changed(folder, lambda results: results["epidemia"].pop("said"))).table
    folder = run("random orderings")
    for path in folder.rglob("samples_*"):
        path.unlink()
    new = find(name)(read_results([folder])).table
    pd.testing.assert_frame_equal(new, old, rtol=1e-3, atol=1e-4)
    without = find(name)(changed(folder, lambda results: results["epidemia"].pop("said")))
    assert without.table.empty and "older than version 0.3" in without.left_out[-1]


CELLS, Q, SHARES, CHANCE = range(4)
NUMBERS = " ".join(["0.1"] * 11)
DAMAGED = {
    "above 1": (Q, NUMBERS.replace("0.1", "1.5", 1), "not between 0 and 1"),
    "below 0": (Q, NUMBERS.replace("0.1", "-0.1", 1), "not between 0 and 1"),
    "nan": (Q, NUMBERS.replace("0.1", "nan", 1), "is not finite"),
    "too few": (Q, NUMBERS[:-4], "cannot reshape"),
    "too many": (Q, f"{NUMBERS} 0.1", "cannot reshape"),
    "words": (Q, NUMBERS.replace("0.1", "much", 1), "could not convert"),
    "a cell that is not there": (CELLS, "0 1 2 3 4 5 6 7 8 9 11", "not some of 11"),
    "a cell twice": (CELLS, "0 1 2 3 4 5 6 7 8 8 10", "not some of 11"),
    "half a cell": (CELLS, "0 1 2 3 4 5 6 7 8 8.5 10", "not some of 11"),
    "no cell": (CELLS, "-1 1 2 3 4 5 6 7 8 9 10", "not some of 11"),
    "three positions": (SHARES, "0.3 0.3 0.4", "shares of positions"),
    "a share": (SHARES, "-1 2", "shares of positions"),
    "orderings": (CHANCE, "0.5 0.5", "cannot reshape"),
    "an ordering": (CHANCE, NUMBERS.replace("0.1", "2", 1), "not between 0 and 1"),
}


@pytest.mark.parametrize("damage", [*DAMAGED, "truncated", "no semicolons"])
def test_damaged_answers_are_named_and_left_out(run, damage):
    folder, parts = run("letters"), ["", NUMBERS, "0.5 0.5", ""]
    place, text, why = DAMAGED.get(damage, (Q, NUMBERS, "not enough values"))
    parts[place] = text
    line = {"truncated": ";0.1 0.1", "no semicolons": NUMBERS}.get(damage, ";".join(parts))
    made, (note,) = answers(changed(folder, said(line)))
    assert [asked.task for _, asked in made] == [SEVERAL]
    assert f"{BINARY}: the recorded answers are not as a run keeps them" in note and why in note


def test_counts_are_those_of_answers(run):
    for counts in (["-1 5 6"] * 11, ["0 0 0"] * 11, ["1.5 3 0"] * 11, ["nan 3 0"] * 11, ["3 7"]):
        line = f";{NUMBERS};0.5 0.5;{' '.join(counts)}"
        asked = Asked(BINARY, "sampled")
        with pytest.raises(ValueError, match=f"{BINARY}_sampled: the recorded answers are not"):
            answers_of(None, asked, line)


def test_answers_that_do_not_give_the_distance_are_left_out(run):
    made, (note,) = answers(changed(run("letters"), said(f";{NUMBERS};0.5 0.5;")))
    assert [asked.task for _, asked in made] == [SEVERAL] and "one of them was changed" in note
    assert f"the answers to {BINARY} are left out: they give a distance of" in note


def test_answers_to_another_truth_are_not_used(run):
    def other(results):
        results["configs"][BINARY]["metadata"]["truth"] = "0" * 16

    made, (note,) = answers(changed(run("letters"), other))
    assert [asked.task for _, asked in made] == [SEVERAL] and "of another truth" in note
