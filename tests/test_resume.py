"""An interrupted build goes on with what is still true, and with nothing else; too few records."""

import shutil
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import toy_survey
from toy_survey import EVERY_KIND, RECORD, build, contents, people

from lm_eval_epidemia.estimate import boosted, sampling
from lm_eval_epidemia.estimate import build as building


@pytest.fixture(autouse=True)
def quick_boosting(monkeypatch):
    monkeypatch.setattr(boosted, "ROUNDS", 4)


@pytest.fixture
def raw(tmp_path):
    people(400).to_csv(tmp_path / "toy.csv", index=False)
    return tmp_path / "toy.csv"


@pytest.fixture
def declare(home):
    """Declare the toy survey, as it is or changed."""

    def declare(old="", new=""):
        assert old in RECORD
        toy_survey.declare(home, RECORD.replace(old, new) if old else RECORD)

    declare()
    return declare


def estimated(raw, out, monkeypatch, stop_after=None, **options):
    """Build to the end, or until so many tasks are done; return those that were estimated now."""
    estimate, done = building.estimate_task, []

    def noted(ready, *arguments):
        if len(done) == stop_after:
            raise KeyboardInterrupt
        done.append(ready.task.name)
        return estimate(ready, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(building, "estimate_task", noted)
        with nullcontext() if stop_after is None else pytest.raises(KeyboardInterrupt):
            build(raw, out, **options)
    return done


def test_an_interrupted_build_goes_on_where_it_stopped(home, raw, tmp_path, monkeypatch):
    """Truths of all kinds, which go to folders of their own."""
    toy_survey.declare(home, EVERY_KIND, "gss")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    build(raw, whole, "gss")
    done = estimated(raw, resumed, monkeypatch, stop_after=3, survey="gss")
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
    "a variable that only rakes use": ("[2, 3]}\n  region", "[2]}\n    missing: [3]\n  region"),
    "a universe": ("design:", "universe: [{column: TOWN, codes: [1, 2]}]\ndesign:"),
    "a label": ("label: North", "label: Up north"),
    **{name: (boosted, name) for name in ("FOLDS", "ROUNDS", "PATIENCE", "MIN_RECORDS")},
    "the seed": (sampling, "SEED"),
    "replicates": {"replicates": 10},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_resumed_build_mixes_no_truths(raw, declare, tmp_path, monkeypatch, what):
    mixed, whole = tmp_path / "mixed", tmp_path / "whole"
    assert len(estimated(raw, mixed, monkeypatch, stop_after=2)) == 2
    options, change = {}, CHANGES[what]
    if isinstance(change, dict):
        options = change
    elif isinstance(change[0], str):
        declare(*change)
    else:
        monkeypatch.setattr(*change, getattr(*change) - 1)
    again = estimated(raw, mixed, monkeypatch, **options)
    assert len(again) == 4 or not options
    build(raw, whole, **options)
    assert contents(mixed) == contents(whole)


def test_a_resumed_build_keeps_what_a_change_does_not_touch(raw, declare, tmp_path, monkeypatch):
    """A finished task that has left the record is forgotten."""
    kept = tmp_path / "kept"
    done = estimated(raw, kept, monkeypatch, stop_after=2)
    declare("citation: none", "citation: Somebody")
    again = estimated(raw, shutil.copytree(kept, tmp_path / "same"), monkeypatch)
    assert len(again) == 2 and not set(done) & set(again)
    (kept / ".toy_2020.unfinished" / "epidemia_extra_toy_forgotten_by_sex.json").write_text("{}")
    declare('    - {outcome: happy, given: [sex], title: "Toy: Happiness by Sex"}\n', "")
    extra = "epidemia_extra_toy_happy_by_region"
    assert build(raw, kept).tasks == [extra, f"{extra}_sex", "epidemia_marginal_toy_happy"]
    assert not list(kept.glob(".*unfinished"))


def test_answers_all_alike_are_an_estimate(raw, declare, tmp_path):
    """In the file, or by chance in a bootstrap replicate of a rare answer."""
    frame = pd.read_csv(raw)[:40]
    for answers in ([1] + [0] * 39, 0):
        frame.assign(HAPPY=answers).to_csv(raw, index=False)
        build(raw, tmp_path / f"{answers}")
    cell, fold = np.arange(40) % 4, np.arange(40) % 5
    features = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int16)
    weight = np.random.default_rng(0).gamma(1, 1, 40)
    for outcome, p in ((0, [1.0, 0.0]), (1, [0.0, 1.0])):
        shares = boosted.fit_aggregated(weight, cell, np.full(40, outcome), fold, features)
        assert shares.tolist() == [p] * 4
