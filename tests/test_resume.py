"""An interrupted build goes on with what is still true, and with nothing else; too few records."""

import numpy as np
import pandas as pd
import pytest
from conftest import nsduh_2023

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import boosted, sampling
from lm_eval_epidemia.estimate import build as building

RECORD = """
survey: toy
domain: economic
title: A toy survey
publisher: Nobody
homepage: https://example.org
licence: none
citation: none
subject: a person in {year} who {conditions}
design: {weight: W}
vintages:
  "2020":
    year: 2020
    files: [{name: toy.csv}]
    page: "https://example.org/toy"
    adjustments:
      - method: rake
        reason: Towns are oversampled.
        margins: [{variables: [town], shares: [0.3, 0.7]}]
variables:
  town:
    column: TOWN
    levels:
      - {label: In town, phrase: lives in a town, codes: [1]}
      - {label: Elsewhere, phrase: lives elsewhere, codes: [2, 3]}
  region:
    column: REGION
    levels:
      - {label: North, phrase: lives in the north, codes: [1]}
      - {label: South, phrase: lives in the south, codes: [2]}
  sex:
    column: SEX
    levels:
      - {label: Male, phrase: is male, codes: [1]}
      - {label: Female, phrase: is female, codes: [2]}
  happy:
    column: HAPPY
    question: Is this person happy?
    levels:
      - {label: "Yes", phrase: is happy, codes: [1]}
      - {label: "No", phrase: is not happy, codes: [0]}
tasks:
  extra:
    - {outcome: happy, given: [region], title: "Toy: Happiness by Region"}
    - {outcome: happy, given: [sex], title: "Toy: Happiness by Sex"}
    - {outcome: happy, given: [region, sex], title: "Toy: Happiness by Region and Sex"}
"""


@pytest.fixture
def raw(tmp_path):
    rng = np.random.default_rng(3)
    rows = 2000
    frame = pd.DataFrame(
        {name: rng.integers(1, 3, rows) for name in ("REGION", "SEX")}
        | {"W": rng.gamma(3, 10, rows), "W2": rng.gamma(1, 10, rows)}
        | {"TOWN": rng.integers(1, 4, rows), "FAMILY": np.arange(rows) // 2}
    )
    share = 0.2 + 0.2 * frame["REGION"] * frame["SEX"] - 0.1 * (frame["TOWN"] == 2)
    frame["HAPPY"] = (rng.random(rows) < share).astype(int)
    path = tmp_path / "toy.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def declare(home):
    """Declare the toy survey, as it is or changed."""

    def declare(old="", new=""):
        path = home / "surveys" / "toy.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert old in RECORD
        path.write_text(RECORD.replace(old, new) if old else RECORD)

    return declare


def build(raw, out, **options):
    return building.build("toy", raw, out=out, replicates=8, progress=False, **options)


def contents(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder): path.read_bytes() for path in files}


def interrupted(raw, out, monkeypatch, after=2):
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
            build(raw, out)
    return done


def estimated(raw, out, monkeypatch):
    """Build to the end; return the tasks that were estimated now."""
    estimate, again = building.estimate_task, []
    with monkeypatch.context() as patched:
        patched.setattr(
            building, "estimate_task", lambda r, *a: again.append(r.task.name) or estimate(r, *a)
        )
        build(raw, out)
    return again


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


@pytest.mark.parametrize("what", [*CHANGES, "FOLDS", "ROUNDS", "PATIENCE", "MIN_RECORDS", "SEED"])
def test_a_resumed_build_mixes_no_truths(raw, declare, tmp_path, monkeypatch, what):
    mixed, whole = tmp_path / "mixed", tmp_path / "whole"
    declare()
    done = interrupted(raw, mixed, monkeypatch)
    assert len(done) == 2
    if what in CHANGES:
        declare(*CHANGES[what])
    else:
        module = sampling if what == "SEED" else boosted
        monkeypatch.setattr(module, what, getattr(module, what) - 1)
    estimated(raw, mixed, monkeypatch)
    build(raw, whole)
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


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"key": 1}'])
def test_a_damaged_finished_task_is_estimated_again(raw, declare, tmp_path, monkeypatch, text):
    declare()
    out = tmp_path / "out"
    done = interrupted(raw, out, monkeypatch)
    (out / ".toy_2020.unfinished" / f"{done[0]}.json").write_text(text)
    assert done[0] in estimated(raw, out, monkeypatch)


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
        found = boosted.fit_aggregated(weight, cell, np.full(n, outcome), fold, features)
        assert found.tolist() == [p] * 4
