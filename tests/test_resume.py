"""An interrupted build goes on with what is still true, and with nothing else; too few records."""

import shutil

import numpy as np
import pandas as pd
import pytest
import toy_survey
from conftest import nsduh_2023
from toy_survey import EVERY_KIND, RECORD, build, contents, people

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, sampling
from lm_eval_epidemia.estimate import build as building


@pytest.fixture(autouse=True)
def quick_boosting(monkeypatch):
    monkeypatch.setattr(boosted, "ROUNDS", 4)


@pytest.fixture
def raw(tmp_path):
    people().to_csv(tmp_path / "toy.csv", index=False)
    return tmp_path / "toy.csv"


@pytest.fixture
def declare(home):
    """Declare the toy survey, as it is or changed."""

    def declare(old="", new=""):
        assert old in RECORD
        toy_survey.declare(home, RECORD.replace(old, new) if old else RECORD)

    return declare


def interrupted(raw, out, monkeypatch, after=2, **options):
    """Build until so many tasks are done; return them."""
    estimate, done = building.estimate_task, []

    def stops(ready, *arguments):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(ready.task.name)
        return estimate(ready, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(building, "estimate_task", stops)
        with pytest.raises(KeyboardInterrupt):
            build(raw, out, **options)
    return done


def estimated(raw, out, monkeypatch, **options):
    """Build to the end; return the tasks that were estimated now."""
    estimate, again = building.estimate_task, []
    with monkeypatch.context() as patched:
        patched.setattr(
            building, "estimate_task", lambda r, *a: again.append(r.task.name) or estimate(r, *a)
        )
        build(raw, out, **options)
    return again


def test_an_interrupted_build_goes_on_where_it_stopped(home, raw, tmp_path, monkeypatch):
    """Truths of all kinds, which go to folders of their own."""
    toy_survey.declare(home, EVERY_KIND, "gss")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    build(raw, whole, "gss")
    done = interrupted(raw, resumed, monkeypatch, 3, survey="gss")
    # Nothing half-written: no registry, no parquet, only finished tasks.
    assert len(done) == 3
    assert not [*resumed.rglob("registry.json"), *resumed.rglob("*.parquet")]
    again = estimated(raw, resumed, monkeypatch, survey="gss")
    assert again and not set(done) & set(again)
    assert contents(whole) == contents(resumed)


CHANGES = {
    "the weight": ("{weight: W}", "{weight: W2}"),
    "the design": ("{weight: W}", "{weight: W, unit: FAMILY}"),
    "what is raked to": ("[0.3, 0.7]", "[0.6, 0.4]"),
    "a variable that only rakes use": (
        "codes: [2, 3]}\n  region",
        "codes: [2]}\n    missing: [3]\n  region",
    ),
    "a universe": ("design:", "universe: [{column: TOWN, codes: [1, 2]}]\ndesign:"),
    "a label": ("label: North", "label: Up north"),
}


SETTINGS = ["FOLDS", "ROUNDS", "PATIENCE", "MIN_RECORDS", "SEED"]


@pytest.mark.parametrize("what", [*CHANGES, *SETTINGS, "replicates"])
def test_a_resumed_build_mixes_no_truths(raw, declare, tmp_path, monkeypatch, what):
    mixed, whole = tmp_path / "mixed", tmp_path / "whole"
    declare()
    done = interrupted(raw, mixed, monkeypatch)
    assert len(done) == 2
    options = {"replicates": 10} if what == "replicates" else {}
    if what in CHANGES:
        declare(*CHANGES[what])
    elif what in SETTINGS:
        module = sampling if what == "SEED" else boosted
        monkeypatch.setattr(module, what, getattr(module, what) - 1)
    again = estimated(raw, mixed, monkeypatch, **options)
    assert len(again) == 4 or not options
    build(raw, whole, **options)
    assert contents(mixed) == contents(whole)


def test_a_resumed_build_keeps_what_a_change_does_not_touch(raw, declare, tmp_path, monkeypatch):
    declare()
    out = tmp_path / "out"
    done = interrupted(raw, out, monkeypatch)
    declare("citation: none", "citation: Somebody")
    again = estimated(raw, out, monkeypatch)
    assert len(again) == 2
    assert not set(done) & set(again)


def test_a_task_that_left_the_record_does_not_stop_a_build(raw, declare, tmp_path, monkeypatch):
    declare()
    out = tmp_path / "out"
    interrupted(raw, out, monkeypatch)
    (out / ".toy_2020.unfinished" / "epidemia_extra_toy_forgotten_by_sex.json").write_text("{}")
    declare('    - {outcome: happy, given: [sex], title: "Toy: Happiness by Sex"}\n', "")
    built = build(raw, out)
    assert built.tasks == [
        "epidemia_extra_toy_happy_by_region",
        "epidemia_extra_toy_happy_by_region_sex",
        "epidemia_marginal_toy_happy",
    ]
    assert not list(out.glob(".*unfinished"))


def test_a_damaged_finished_task_is_estimated_again(raw, declare, tmp_path, monkeypatch):
    declare()
    kept = tmp_path / "kept"
    done = interrupted(raw, kept, monkeypatch)
    for number, text in enumerate(["", "{", "[]", "null", '{"key": 1}']):
        out = shutil.copytree(kept, tmp_path / f"{number}")
        (out / ".toy_2020.unfinished" / f"{done[0]}.json").write_text(text)
        again = estimated(raw, out, monkeypatch)
        assert done[0] in again and done[1] not in again, text


@pytest.mark.parametrize("rows", [2, 4])
def test_too_few_records_are_one_line_that_names_the_task(tmp_path, rows):
    path = tmp_path / "NSDUH_2023.parquet"
    frame = nsduh_2023(rows).assign(VESTR_C=40001.0, VEREP=1.0 + np.arange(rows) % 2)
    frame.to_parquet(path)
    with pytest.raises(EpidemiaError) as caught:
        building.build("nsduh", path, vintage="2023", replicates=4, progress=False)
    said = str(caught.value)
    assert "\n" not in said
    assert "epidemia_high_nsduh_" in said
    assert "is the file whole?" in said


def test_answers_all_alike_are_an_estimate(raw, declare, tmp_path):
    """In the file, or by chance in a bootstrap replicate of a rare answer."""
    frame = pd.read_csv(raw)[:40].assign(HAPPY=[1] + [0] * 39)
    frame.to_csv(raw, index=False)
    declare()
    build(raw, tmp_path / "rare")
    frame.assign(HAPPY=0).to_csv(raw, index=False)
    build(raw, tmp_path / "none")
    for outcome, p in ((0, [1.0, 0.0]), (1, [0.0, 1.0])):
        n = 40
        cell, fold = np.arange(n) % 4, np.arange(n) % 5
        features = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int16)
        weight = np.random.default_rng(0).gamma(1, 1, n)
        shares = boosted.fit_aggregated(weight, cell, np.full(n, outcome), fold, features)
        assert shares.tolist() == [p] * 4
