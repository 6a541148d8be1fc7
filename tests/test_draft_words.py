"""What columns and codes are known by: weights, answers that say nothing, codes of no answer."""

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from drafts import YES, labels_of, loaded, way
from official import save
from typer.testing import CliRunner

from lm_eval_epidemia import cli
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.draft import tally, words
from lm_eval_epidemia.surveys.draft.columns import DraftOptions
from lm_eval_epidemia.surveys.draft.drafting import draft_record, write_draft

pytest.importorskip("pyreadstat")

ROWS = 600
RANDOM = np.random.default_rng(3)
UNEVEN = RANDOM.lognormal(0, 0.5, ROWS)

NAMES = yaml.safe_load((REPOSITORY / "tests/data/weight_names.yaml").read_text(encoding="utf-8"))


def weights_among(names):
    """Return which of "NAME=its~label NAME ..." are taken for weights."""
    told = [name.replace("~", " ").partition("=") for name in names.split()]
    return [name for name, _, label in told if words.says_weight(name, label)]


@pytest.mark.parametrize("survey", NAMES["weights"])
def test_weights_are_known_by_words_inside_their_names(survey):
    names = NAMES["weights"][survey]
    assert weights_among(names) == [name.partition("=")[0] for name in names.split()]


def test_what_is_weighed_or_only_sounds_like_it_is_no_weight():
    assert not weights_among(NAMES["no weights"])


def of_people(**columns):
    """Return people of two sexes and a yes or no."""
    sex = RANDOM.choice(["female", "male"], ROWS)
    return pd.DataFrame({"sex": sex, "owns": np.resize(["yes", "yes", "no"], ROWS), **columns})


@pytest.mark.parametrize("suffix", ["dta", "sav"])
def test_labels_of_no_answer_alone_make_no_category_of_a_weight(tmp_path, home, suffix):
    """The UK Data Service labels the negative codes of every column, of weights too."""
    silent = {-9: "missing", -8: "inapplicable", -7: "proxy", -2: "refusal", -1: "don't know"}
    young = np.arange(ROWS) % 2 == 0
    frame = pd.DataFrame({"a_sex": np.resize([1.0, 2, 2], ROWS)})
    frame["a_sat"] = np.where(np.arange(ROWS) % 5 < np.where(young, 4, 1), 1.0, 2)
    frame["a_indinus_xw"] = np.where(young, 0.2, 1.8) * RANDOM.uniform(0.9, 1.1, ROWS)
    frame.loc[:9, "a_indinus_xw"] = -8
    frame.loc[20:25, "a_sat"] = -7
    labels = {column: dict(silent) for column in frame}
    labels["a_sex"] |= {1: "male", 2: "female"}
    labels["a_sat"] |= {1: "dissatisfied", 2: "satisfied"}
    save(frame, path := tmp_path / f"uk2010.{suffix}", variable_value_labels=labels)
    with pytest.raises(EpidemiaError, match="a_indinus_xw looks like a weight"):
        draft_record([path])
    found = draft_record([path], YES)
    assert found.source.sampling.weight == "a_indinus_xw" and found.source.rows == ROWS - 10
    record = load_record(write_draft(found))
    assert {plan.outcome for plan in found.plans} == {"a_sat"}
    assert "-7 'proxy'" in found.text and len(way(record, "a_sat").levels) == 2
    building.build_survey("uk2010", path, replicates=4, progress=False)
    known = frame[(frame["a_indinus_xw"] > 0) & (frame["a_sat"] > 0)]
    share = np.average(known["a_sat"] == 2, weights=known["a_indinus_xw"])
    assert store.load_truth("epidemia_marginal_uk2010_a_sat").p[0, 1] == pytest.approx(share)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "sav"])
def test_what_may_be_a_weight_by_its_values_is_asked_about(tmp_path, home, suffix):
    frame = of_people(zz=UNEVEN, score=UNEVEN, bmi=UNEVEN + 20, n=np.arange(ROWS) % 50.0)
    path = tmp_path / f"poll2024.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else save(frame, path)
    with pytest.raises(EpidemiaError, match="but zz may be one"):
        draft_record([path])
    yes = CliRunner().invoke(cli.app, ["survey", "new", str(path), "--yes"])
    assert yes.exit_code == 1 and "zz may be one" in str(yes.exception)
    none = draft_record([path], DraftOptions(weight="none"))
    assert [[c.name for c in gone] for gone in none.left_out.values()] == [["zz"]]
    assert draft_record([path], DraftOptions(weight="zz")).source.sampling.weight == "zz"
    named = draft_record([path], DraftOptions(outcomes=["zz"], given=["sex"]))
    assert [plan.outcome for plan in named.plans] == ["zz"]


def test_the_first_of_numbered_weights_from_zero_is_the_weight(tmp_path):
    numbered = {f"SPFWT{n}": UNEVEN * (1 + n / 100) for n in range(12)}
    of_people(**numbered).to_csv(path := tmp_path / "piaac2012.csv", index=False)
    found = draft_record([path], YES)
    assert found.source.sampling.weight == "SPFWT0"
    assert len(found.left_out["replicate weights"]) == 11


def test_short_texts_of_a_column_of_codes_are_answers(tmp_path):
    """Denmark, Namibia and Russia, not "don't know", "not available" and "refused"."""
    frame = of_people(cntry=np.resize(["AT", "DK", "NA", "RF", "DE-E", "FI", "SE"], ROWS))
    frame["answer"] = np.resize(["YES", "NO", "YES", "NO", "DK", "RF"], ROWS)
    for path in (tmp_path / "cross2016.csv", tmp_path / "cross2016.sav"):
        frame.to_csv(path, index=False) if path.suffix == ".csv" else save(frame, path)
        found = draft_record([path])
        record = loaded(found, tmp_path)
        assert {*labels_of(record, "cntry")} == {*frame["cntry"]}
        assert "# check: cntry: treated as answers, like the others here: " in found.text
        assert labels_of(record, "answer") == ["NO", "YES"]


def test_codes_above_very_many_numbers_stay_exact(tmp_path):
    """IPUMS: 9999999 is not in universe. Numbers come in blocks, in each of which it occurs."""
    incomes = np.round(np.random.default_rng(6).lognormal(10.5, 0.8, 12_000))
    incomes[::5] = 9_999_999
    counted = tally.Tally()
    for block in np.split(incomes, 4):
        counted.add(block, np.ones(len(block)))
    assert not counted.exact and counted.counts.sum() == len(incomes)
    assert (counted.values[-1], counted.counts[-1]) == (9_999_999, 2_400)
    assert counted.values[-12:-1].tolist() == np.unique(incomes)[-12:-1].tolist()
    frame = pd.DataFrame({"sex": np.resize(["m", "f"], 12_000), "inctot": incomes})
    frame.to_csv(path := tmp_path / "cps2021.csv", index=False)
    found = draft_record([path], DraftOptions(outcomes=["inctot"], given=["sex"]))
    assert way(loaded(found, tmp_path), "inctot").missing == ((9_999_999, 9_999_999),)
    assert "inctot: 20% of the people have no answer: who was asked?" in found.text


@pytest.mark.parametrize("suffix", ["sav", "csv"])
def test_who_was_not_asked_is_marked(tmp_path, suffix):
    asked = np.resize([1.0, 2, 1, -1, 3], ROWS)
    frame = pd.DataFrame({"sex": np.resize([1.0, 2], ROWS), "job": asked})
    labels = {1: "works", 2: "looks for work", 3: "not sure", -1: "Not applicable: under 18"}
    path = tmp_path / f"jobs2020.{suffix}"
    if suffix == "sav":
        save(frame, path, variable_value_labels={"job": labels})
    else:
        frame.assign(job=frame["job"].map(labels)).to_csv(path, index=False)
    text = draft_record([path], DraftOptions(outcomes=["job"], given=["sex"])).text
    assert "job: 20% of the people have no answer ('Not applicable: under 18'): who was" in text
    assert "job: kept as an answer, or is it none?" in text


def test_a_file_in_another_language_and_of_several_years(tmp_path):
    scale = ["trifft voll zu", "trifft eher zu", "trifft eher nicht zu", "trifft nicht zu"]
    frame = of_people(jahr=np.resize([2019, 2020, 2021], ROWS), hid=np.arange(ROWS) // 9)
    frame["answer"] = np.resize([*["ja", "nein"] * 15, *NAMES["silent"]], ROWS)
    frame = frame.assign(agrees=np.resize(scale, ROWS), tick=np.resize(["TV", ""], ROWS))
    frame["day"] = RANDOM.choice([20210314, 20210401, 20201231], ROWS)
    frame["net"] = np.where(np.arange(ROWS) % 50, UNEVEN * 900 - 1000, -9999999).round()
    frame["bipolar"] = RANDOM.choice([-2, -1, 0, 1, 2, -9], ROWS)
    frame.to_csv(path := tmp_path / "x.csv", index=False)
    record = loaded(found := draft_record([path], DraftOptions(year=2021)), tmp_path)
    assert found.source.rows == ROWS / 3 and "give --psu hid, or" in found.notes[0]
    assert {*labels_of(record, "answer"), *labels_of(record, "agrees")} == {"ja", "nein", *scale}
    assert labels_of(record, "bipolar") == ["-2", "-1", "0", "1", "2"]
    assert way(record, "net").missing == ((-9999999, -9999999),)
    reasons = {column.name: reason for reason, of in found.left_out.items() for column in of}
    assert (reasons["day"], reasons["tick"][:15]) == ("dates or times", "only one answer")
    labels = {"q": {"1": "Yes", "2": "No", "9": "Don't know"}, "gone": {-9: "missing", 1: "yes"}}
    frame = of_people(q=np.resize(["1", "2", "9"], ROWS), gone=-9.0)
    save(frame, path := tmp_path / "y2021.sav", variable_value_labels=labels)
    found = draft_record([path])
    assert labels_of(loaded(found, tmp_path), "q") == ["Yes", "No"]
    assert [*found.left_out] == ["empty: nobody has an answer"]
    of_people(w_a=UNEVEN, w_b=UNEVEN + 1).to_csv(path := tmp_path / "z2021.csv", index=False)
    assert not {"w_a", "w_b"} & {
        plan.outcome for plan in draft_record([path], DraftOptions(weight="w_a")).plans
    }
