"""Drafting a record from any survey file: what is read, guessed, asked, left out, and written."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import evaluate, nsduh_2023
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lm_eval_epidemia import benchmarks, cli, survey_cli
from lm_eval_epidemia.elicit.ways import WAYS
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.surveys import record as records
from lm_eval_epidemia.surveys.check import check_files
from lm_eval_epidemia.surveys.draft import columns, cuts, tally, words
from lm_eval_epidemia.surveys.draft.drafting import draft, own_path, write
from lm_eval_epidemia.surveys.draft.tasks import Plan
from lm_eval_epidemia.surveys.draft.text import (
    CHECK,
    apart,
    cleaned,
    marks,
    number,
    quoted,
    variable_name,
)
from lm_eval_epidemia.surveys.draft.variables import drafted, kind_of
from lm_eval_epidemia.surveys.draft.wishes import Wishes
from lm_eval_epidemia.surveys.draft.writing import Source, record_text

pyreadstat = pytest.importorskip("pyreadstat")

ROWS = 400
LABELS = {
    "sex": {1: "male", 2: "female"},
    "degree": {0: "less than high school", 1: "high school", 2: "college", 8: "DK", 9: "NA"},
    "happy": {1: "very happy", 2: "pretty happy", 3: "not too happy", 8: "don't know",
              9: "no answer", 0: "iap"},
    "gun": {1: "yes", 2: "no", 3: "REFUSED", -1: "INAPPLICABLE"},
    "age": {89: "89 or older", 98: "don't know"},
    "firstuse": {991: "NEVER USED"},
}  # fmt: skip
COLUMN_LABELS = {"happy": "General happiness", "gun": "Do you have a gun at home?",
                 "finalwt": "Final weight", "id": "Respondent id", "vstrat": "Variance stratum",
                 "vpsu": "Primary sampling unit", "degree": "R's highest degree",
                 "note": "Anything else?"}  # fmt: skip


def people(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 1.0,
            "age": rng.integers(18, 90, rows).astype(float),
            "sex": rng.integers(1, 3, rows).astype(float),
            "degree": rng.choice([0.0, 1, 2, 8], rows, p=[0.2, 0.4, 0.3, 0.1]),
            "happy": rng.choice([1.0, 2, 3, 9, np.nan], rows),
            "gun": rng.choice([1.0, 2, 3, -1], rows, p=[0.4, 0.5, 0.05, 0.05]),
            "firstuse": np.where(rng.random(rows) < 0.4, 991.0, rng.integers(10, 60, rows)),
            "bmi": np.round(rng.normal(27, 5, rows), 2),
            "finalwt": rng.gamma(2, 500, rows),
            "vstrat": np.arange(rows) % 10 + 1.0,
            "vpsu": np.arange(rows) // 10 % 2 + 1.0,
            "always": 1.0,
            "rarely": np.where(np.arange(rows) < 40, 1.0, np.nan),
            "note": [f"text {n}" for n in range(rows)],
            "day": pd.to_datetime("2022-01-03") + pd.to_timedelta(np.arange(rows), "D"),
        }
    )


@pytest.fixture
def sav(tmp_path):
    path = tmp_path / "mine2022.sav"
    pyreadstat.write_sav(people(), str(path), file_label="A survey: of ours",
                         column_labels=COLUMN_LABELS, variable_value_labels=LABELS,
                         missing_ranges={"degree": [{"lo": 8, "hi": 9}]})  # fmt: skip
    return path


def everything(question):
    return question.proposed[:1] if question.what == "weight" else question.proposed


def loaded(found, tmp_path):
    path = tmp_path / "loaded.yaml"
    path.write_text(found.text, encoding="utf-8")
    return records.load_record(path)


def way(record, name):
    return record.variables[name][0]


def labels_of(record, name):
    return [level.label for level in way(record, name).levels]


# -- What is drafted --------------------------------------------------------------------------


def test_a_labelled_file_becomes_a_record(sav, tmp_path):
    found = draft([sav], choose=everything)
    record = loaded(found, tmp_path)
    assert (record.survey, record.title, record.domain) == (
        "mine2022",
        "A survey: of ours",
        "other",
    )
    assert record.design == records.Design(weight="finalwt", strata="vstrat", psu="vpsu")
    assert record.official == "2022" and record.vintages["2022"].rows == ROWS
    assert list(record.tasks) == ["extra"]
    assert labels_of(record, "happy") == ["very happy", "pretty happy", "not too happy"]
    assert way(record, "happy").missing == ((0, 0), (8, 8), (9, 9))
    assert way(record, "gun").missing == ((-1, -1), (3, 3))
    assert way(record, "gun").question == "Do you have a gun at home?"
    assert [level.phrase for level in way(record, "sex").levels] == ["is male", "is female"]
    assert way(record, "happy").levels[0].phrase == "answers 'very happy' to 'General happiness'"
    # 8 and 9 are declared missing too; a code is in one range.
    assert way(record, "degree").missing == ((8, 9),)
    assert {plan.outcome for plan in found.plans} == {"happy", "gun", "firstuse", "bmi"}
    assert {name for plan in found.plans for name in plan.given} == {"age", "sex", "degree"}
    reasons = {reason: [c.name for c in listed] for reason, listed in found.left_out.items()}
    assert reasons == {
        "used for the design": ["finalwt", "vstrat", "vpsu"],
        "identifiers: no two people have the same": ["id"],
        "constant: everybody has one answer": ["always"],
        "more than half of the people have no answer": ["rarely"],
        "free text, or too many answers in words": ["note"],
        "dates or times": ["day"],
    }
    for reason, names in reasons.items():
        assert f"# {reason} ({len(names)}): {', '.join(names)}" in found.text


def test_numbers_are_cut_and_their_labelled_ends_kept(sav, tmp_path):
    record = loaded(draft([sav], choose=everything), tmp_path)
    age = way(record, "age")
    assert labels_of(record, "age")[-1].endswith("or older") and 3 <= len(age.levels) <= 5
    assert age.levels[-1].below is None and age.missing == ((98, 98),)
    first = way(record, "firstuse")
    assert (first.levels[-1].label, first.levels[-1].codes) == ("NEVER USED", ((991, 991),))
    assert first.levels[-2].below == 991 and first.levels[0].at_least is None
    assert all(level.phrase.startswith("has a value of") for level in way(record, "bmi").levels)


def test_the_quintiles_are_weighted():
    values, even = np.arange(100.0), np.ones(100)
    assert cuts.round_cuts(values, even, True) == [20, 40, 60, 80]
    # Half of the people are at 90 or more: so are half of the cuts.
    old = np.where(values >= 90, 9.0, 1.0)
    assert sum(cut >= 90 for cut in cuts.round_cuts(values, old, True)) >= 2
    assert cuts.round_cuts(np.array([0.0, 1, 2]), np.array([0.98, 0.01, 0.01]), True) == [1]
    assert cuts.in_words(cuts.Bin(30, 45), True) == "30 to 44"
    assert cuts.in_words(cuts.Bin(1.5, 2), False) == "1.5 to under 2"
    assert cuts.in_words(cuts.Bin(None, 30), True) == "Under 30"


@pytest.mark.parametrize(
    ("codes", "labels", "levels", "missing", "said"),
    [
        # No labels: each number, with refusals far from the others, which is marked.
        ([1, 2, 3, 7, 9], {}, ["1", "2", "3"], [7, 9], "far from the other codes: 7, 9"),
        ([*range(11), 77, 99], {}, [*map(str, range(11))], [77, 99], "codes: 77, 99"),
        ([-8, -1, 1, 2], {}, ["1", "2"], [-8, -1], "codes: -8, -1"),
        # A scale around zero, neighbours, and wide gaps everywhere are answers.
        ([-2, -1, 0, 1, 2], {}, ["-2", "-1", "0", "1", "2"], [], None),
        ([*range(1, 10)], {}, [*map(str, range(1, 10))], [], None),
        ([10, 50, 99], {}, ["10", "50", "99"], [], None),
        # Ends of a scale.
        ([1, 2, 3, 4, 5], {1: "never", 5: "always"}, ["never", "2", "3", "4", "always"], [], None),
        # One code that was forgotten.
        ([1, 2, 3], {1: "a", 2: "b"}, ["a", "b", "3"], [], "without a label, and a level: 3"),
        # A label that nobody has: in a scale it is a level, beside it not.
        ([1, 3], {1: "a", 2: "b", 3: "c", 4: "d"}, ["a", "b", "c"], [], None),
        # Codes in front of labels; labels that are the same.
        ([1, 2], {1: "1. yes", 2: "(2) no"}, ["yes", "no"], [], None),
        ([1, 2], {1: "1 - yes", 2: "2 - no"}, ["yes", "no"], [], None),
        ([1, 2, 3], {1: "1 child", 2: "2 children", 3: "3 or more"},
         ["1 child", "2 children", "3 or more"], [], None),
        ([1, 2], {1: "other", 2: "other"}, ["other (1)", "other (2)"], [], None),
        ([0.5, 1.5], {}, ["0.5", "1.5"], [], None),
    ],
)  # fmt: skip
def test_what_becomes_of_codes(tmp_path, codes, labels, levels, missing, said):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": np.resize(codes, ROWS).astype(float), "sex": rng.integers(1, 3, ROWS).astype(float)}
    )
    path = tmp_path / "codes2020.sav"
    pyreadstat.write_sav(frame, str(path), variable_value_labels={"x": labels} if labels else None)
    found = draft([path], Wishes(outcomes=["x"], given=["sex"]))
    record = loaded(found, tmp_path)
    assert labels_of(record, "x") == levels
    assert [low for low, _ in way(record, "x").missing] == missing
    checks = next(one for one in found.variables if one.name == "x").checks
    assert any(said in check for check in checks) if said else not any("taken" in c for c in checks)


def test_stata_letters_and_texts_with_labels(tmp_path):
    frame = pd.DataFrame(
        {"sex": np.resize([1.0, 2], ROWS), "opinion": np.resize([1.0, 1, 2], ROWS)}
    )
    path = tmp_path / "p2020.dta"
    pyreadstat.write_dta(frame, str(path), version=14,
                         variable_value_labels={"opinion": {1: "for", 2: "against"}})  # fmt: skip
    (one,) = [c for c in columns.header_of(path).columns if c.name == "opinion"]
    assert one.labels == {1.0: "for", 2.0: "against"}
    # .a, as Stata has it, is told by letter and read as blank.
    assert columns._labels({"a": "refused", 1: "for", 2.0: " against\n"}, False) == one.labels
    words_ = pd.DataFrame(
        {"sex": np.resize([1.0, 2], ROWS), "vote": np.resize(["d", "r", "d"], ROWS)}
    )
    spss = tmp_path / "q2020.sav"
    pyreadstat.write_sav(
        words_, str(spss), variable_value_labels={"vote": {"d": "Democrat", "r": "Republican"}}
    )
    record = loaded(draft([spss]), tmp_path)
    assert [(x.label, x.texts) for x in way(record, "vote").levels] == [
        ("Democrat", ("d",)), ("Republican", ("r",)),
    ]  # fmt: skip


def test_a_csv_of_words_works_as_it_is(tmp_path, home):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "Gender": rng.choice(["Male", "Female"], ROWS),
            "Age": rng.integers(18, 80, ROWS),
            "Religion": rng.choice(["None", "Catholic ", "Prefer not to say"], ROWS),
            "Owns a car?": rng.choice(["Yes", "No", ""], ROWS),
        }
    )
    path = tmp_path / "people 2021.csv"
    frame.to_csv(path)  # with an index, which has no name
    found = draft([path])
    record = loaded(found, tmp_path)
    assert found.left_out.keys() == {"without a name"}
    assert labels_of(record, "religion") == ["Catholic", "None"]
    assert way(record, "religion").missing_texts == ("Prefer not to say",)
    assert way(record, "owns_a_car").column == "Owns a car?"
    seen = {one.variable: one for one in check_files(record, [path]).variables}
    assert seen["owns_a_car"].missing == (frame["Owns a car?"] == "").sum()
    assert seen["religion"].missing == (frame["Religion"] == "Prefer not to say").sum()


def test_files_are_joined_by_the_number_of_a_person(tmp_path):
    frame = people()
    first = frame[["id", "age", "sex", "finalwt"]].rename(columns={"id": "SEQN"})
    other = frame[["id", "happy", "gun", "sex"]].rename(columns={"id": "SEQN"})[::-1][:300]
    for name, part in (("A", first), ("B", other)):
        pyreadstat.write_xport(part, str(tmp_path / f"{name}.xpt"), table_name=name,
                               file_format_version=5)  # fmt: skip
    files = [tmp_path / "B.xpt", tmp_path / "A.xpt"]  # the weight is in the second
    found = draft(files, Wishes("joined", weight="finalwt", year=2020))
    record = loaded(found, tmp_path)
    assert record.join == "SEQN" and record.vintages["2020"].rows == ROWS
    assert [c.name for c in found.left_out["in another file too, which is read"]] == ["sex"]
    data = check_files(record, files)
    gun = next(one for one in data.variables if one.variable == "gun")
    here = other["gun"].isin([1, 2])
    known = next(one for one in found.variables if one.name == "gun").known
    levels = labels_of(record, "gun")
    assert gun.known == (here.sum() if len(levels) == 2 else gun.known)
    weight = first["finalwt"]
    expected = weight[other["gun"][other["gun"].isin(map(float, levels))].index].sum()
    assert known == pytest.approx(expected / weight.sum())
    with pytest.raises(EpidemiaError, match="--join nobody: not all of"):
        draft(files, Wishes("joined", weight="finalwt", year=2020, join="nobody"))
    other.assign(SEQN=1.0).pipe(
        lambda same: pyreadstat.write_xport(same, str(tmp_path / "B.xpt"), table_name="B")
    )
    with pytest.raises(EpidemiaError, match="SEQN has duplicates"):
        draft(files, Wishes("joined", weight="finalwt", year=2020))


def test_one_year_of_several_is_selected(tmp_path):
    frame = pd.concat([people(seed=1).assign(year=2018.0), people(seed=2).assign(year=2022.0)])
    frame.loc[frame["year"] == 2018, "happy"] = np.nan
    frame["finalwt"] = frame["finalwt"].where(np.arange(len(frame)) % 7 > 0)
    path = tmp_path / "all.parquet"
    frame.to_parquet(path)
    found = draft([path], Wishes(weight="finalwt"))
    record = loaded(found, tmp_path)
    year, weight = record.vintages["2022"].select
    assert (year.column, year.codes, weight.column) == ("year", ((2022, 2022),), "finalwt")
    kept = frame[(frame["year"] == 2022) & frame["finalwt"].notna()]
    assert check_files(record, [path]).rows == len(kept) == record.vintages["2022"].rows
    assert "happy" in {one.name for one in found.variables}
    older = draft([path], Wishes(weight="finalwt", year=2018))
    assert "happy" not in {one.name for one in older.variables}
    with pytest.raises(EpidemiaError, match=r"--year 1999: .* has no record of it"):
        draft([path], Wishes(weight="finalwt", year=1999))


def test_every_code_belongs_to_a_level_of_every_variable(sav, tmp_path):
    """The draft is read through tasks; here every variable, used or not, is."""
    found = draft([sav], choose=everything)
    data = yaml.safe_load(found.text)
    names = list(data["variables"])
    data["tasks"]["extra"] = [
        {"outcome": name, "given": ["sex"], "title": name} for name in names if name != "sex"
    ]
    path = tmp_path / "every.yaml"
    path.write_text(yaml.safe_dump(data))
    seen = check_files(records.load_record(path), [sav])
    assert {one.variable for one in seen.variables} == set(names) and len(names) == 7


def test_the_draft_is_built_and_scored_by_lm_eval(tmp_path, monkeypatch, home):
    frame = people(300)[["age", "sex", "happy", "gun", "finalwt", "vstrat", "vpsu"]]
    nasty = {
        1: "{year} {{x}} <b>a</b> | & # check: 'b\"",
        2: "!!python/object: &x *y\n- [",
        9: "DK",
    }
    path = tmp_path / "nasty2022.sav"
    pyreadstat.write_sav(frame, str(path), column_labels={"happy": "%s {0} {conditions} #"},
                         variable_value_labels={**LABELS, "happy": nasty})  # fmt: skip
    wishes = Wishes(weight="finalwt", strata="vstrat", psu="vpsu", tasks=10)
    record = records.load_record(write(draft([path], wishes)))
    known = {**records.records(), record.survey: record}
    monkeypatch.setattr(records, "records", lambda: known)
    records.all_tasks.cache_clear()
    benchmarks._leaves.cache_clear()
    try:
        built = building.build(record.survey, path, replicates=8, progress=False)
        # Two outcomes by age and by sex, and the one of two answers by both.
        assert len(built.tasks) == len(record.all_tasks) == 5
        group = f"epidemia_extra_{record.survey}"
        assert evaluate([group])["groups"][group]["score,none"] == 100
        samples = evaluate(["epidemia_extra_nasty2022_happy_by_sex"], limit=1)["samples"]
        prompt = samples["epidemia_extra_nasty2022_happy_by_sex"][0]["doc"]["prompt"]
        assert cleaned(nasty[1]) in prompt and "'%s {0} {conditions} #'" in prompt
    finally:
        records.all_tasks.cache_clear()
        benchmarks._leaves.cache_clear()


# -- What is guessed, and asked ----------------------------------------------------------------


def test_a_guess_is_never_used_without_being_asked(sav):
    with pytest.raises(EpidemiaError, match="--weight finalwt --strata vstrat --psu vpsu, or "
                                            "--weight none"):  # fmt: skip
        draft([sav])
    alone = draft([sav], Wishes(weight="FINALWT"))
    assert (alone.source.weight, alone.source.strata, alone.source.psu) == ("finalwt", "", "")
    assert any("vstrat and vpsu look like" in check for check in alone.source.checks)
    alike = draft([sav], Wishes(weight="none", strata="none"))
    assert alike.source.weight == "" and not alike.source.checks
    assert [c.name for c in alike.left_out["weights"]] == ["finalwt"]


def test_answers_to_questions_are_used(sav):
    asked = []

    def answer(question):
        asked.append(question.what)
        return {"weight": ("finalwt",), "outcomes": ("gun",), "conditions": ("SEX", "age")}.get(
            question.what, ()
        )

    found = draft([sav], choose=answer)
    assert asked == ["weight", "strata and PSUs", "conditions", "outcomes"]
    assert found.source.strata == ""
    assert {plan.outcome for plan in found.plans} == {"gun"}
    assert {one for plan in found.plans for one in plan.given} == {"sex", "age"}
    with pytest.raises(EpidemiaError, match="--given nobody: no such variable"):
        draft([sav], choose=lambda q: ["nobody"] if q.what == "conditions" else q.proposed[:1])


def test_replicates_body_weights_and_other_weights_are_no_weight(tmp_path):
    frame = people()[["age", "sex", "happy", "gun", "finalwt"]].rename(
        columns={"finalwt": "W_FSTUWT"}
    )
    frame = frame.assign(weight=70.5 + np.arange(ROWS) % 9, height=170.0 + np.arange(ROWS) % 7)
    for number_ in range(1, 11):
        frame[f"repwt{number_}"] = frame["W_FSTUWT"] * (1 + number_ / 100)
    path = tmp_path / "r2020.sav"
    pyreadstat.write_sav(frame, str(path), column_labels={"W_FSTUWT": "Final student weight"})
    found = draft([path], choose=everything)
    assert found.source.weight == "W_FSTUWT"
    assert len(found.left_out["replicate weights"]) == 10
    assert "weight" in {one.name for one in found.variables}


def test_strata_of_one_psu_are_refused_or_left(tmp_path, sav):
    frame = people()
    frame.loc[frame["vstrat"] == 3, "vpsu"] = 1.0
    path = tmp_path / "single2022.sav"
    pyreadstat.write_sav(frame, str(path))
    with pytest.raises(EpidemiaError, match="1 of 10 strata have a single PSU"):
        draft([path], Wishes(weight="finalwt", strata="vstrat", psu="vpsu"))
    guessed = draft([path], choose=everything)
    assert guessed.source.strata == "" and "single PSU" in guessed.source.checks[0]


def test_demographic_columns_are_known_by_name_or_label():
    for kind, name, label in (
        ("age", "RIDAGEYR", ""), ("age", "q1", "Age of respondent"), ("age", "AGE3", ""),
        ("", "agewed", "age when first married"), ("", "IRALCAGE", "ALCOHOL AGE OF FIRST USE"),
        ("", "page", ""), ("", "language", ""), ("sex", "v2", "Are you male or female?"),
        ("sex", "RIAGENDR", ""), ("", "sexfreq", ""), ("race", "RACETHX", ""),
        ("", "racdif1", ""), ("education", "degree", ""), ("", "paeduc", "father's education"),
        ("income", "realinc", ""), ("region", "REGION21", ""), ("", "reg16", "region at birth"),
        ("marital status", "v9", "Marital status"), ("", "hapmar", "happiness of marriage"),
    ):  # fmt: skip
        column = columns.Column(name, 0, 1, label)
        assert kind_of(column) == kind, (name, label)


@pytest.mark.parametrize(
    "label",
    ["Refused", "DON'T KNOW", "Don\N{RIGHT SINGLE QUOTATION MARK}t know/Not sure", "DK, NA, IAP",
     "-9 NOT ASCERTAINED", "-1 INAPPLICABLE", "BLANK (NO ANSWER)", "LEGITIMATE SKIP Logically "
     "assigned", "Inapplicable: never married", "N/A", "(7) Refused", "skipped on web", "Missing",
     "Prefer not to say", "bad data", "keine Angabe", "not available in this year"],
)  # fmt: skip
def test_labels_of_no_answer(label):
    assert words.asks_nothing(label)


@pytest.mark.parametrize(
    "label",
    ["Yes", "None", "Never", "Other", "Not sure", "Undecided", "Missing teeth", "Refused a loan",
     "Native American", "Not married", "Nothing", "Don't know how to swim", "18"],
)  # fmt: skip
def test_labels_of_answers(label):
    assert not words.asks_nothing(label)


def test_most_tasks_have_one_condition_and_spread_over_the_file(tmp_path):
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 3, (ROWS, 100)).astype(float)
    asked = pd.DataFrame(answers, columns=[f"q{n}" for n in range(100)])
    frame = pd.concat([people()[["age", "sex"]], asked], axis=1)
    path = tmp_path / "wide2020.sav"
    labels = {f"q{n}": {1: "yes", 2: "no"} for n in range(100)} | {"sex": LABELS["sex"]}
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels)
    found = draft([path])
    assert len(found.plans) == 40
    assert sum(len(plan.given) == 2 for plan in found.plans) == 4
    outcomes = [int(plan.outcome[1:]) for plan in found.plans if len(plan.given) == 1]
    assert len(set(outcomes)) >= 18 and max(outcomes) > 90
    assert len(draft([path], Wishes(tasks=150)).plans) == 150
    assert len(found.variables) == 102
    names = [f"q{n}" for n in range(30)]
    few = draft([path], Wishes(outcomes=names, given=["age", "sex"]))
    assert few.notes == ["60 tasks of one condition could be made, 40 were: --tasks takes more"]


def test_a_recoding_is_no_task(tmp_path):
    frame = people()[["sex", "gun", "happy"]].assign(woman=lambda f: f["sex"] - 1)
    path = tmp_path / "same2020.sav"
    pyreadstat.write_sav(frame, str(path))
    found = draft([path], Wishes(outcomes=["woman", "happy"], given=["sex"]))
    assert [plan.outcome for plan in found.plans] == ["happy"]
    assert "woman by sex" in found.notes[0]


# -- Text of a file ----------------------------------------------------------------------------

NASTY = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30
) | st.sampled_from(
    ["{year}", "{{7*7}}", "%s", "- a: [b", "!!python/object/apply:os.system ['x']", "&a *a", "---",
     "# check: all", "a # check: b", "'", '"', "\\", "\\n", "yes", "null", "~", "1.0", "0x1F",
     "<script>alert(1)</script>", "\u202eabc", "\u0085", "\u2028", "\ufeff", "é\u0301", "😀👩‍👩‍👧",
     "a" * 10_000, "b " * 5_000, ": ", "? x", "|", ">", "@", "`", "%YAML 1.2", "\t", " a "]
)  # fmt: skip


@settings(max_examples=150)
@given(text=NASTY)
def test_any_text_is_read_back_as_it_was_written(text):
    assert yaml.safe_load(f"a: {quoted(text)}") == {"a": text}
    assert yaml.load(f"a: {{b: {quoted(text)}}}", records.yaml.CSafeLoader) == {"a": {"b": text}}
    assert cleaned(text).isprintable() and cleaned(cleaned(text)) == cleaned(text)


@settings(max_examples=40)
@given(
    labels=st.lists(NASTY, min_size=2, max_size=6, unique=True), question=NASTY, name=NASTY,
    other=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8),
)  # fmt: skip
def test_any_labels_are_drafted_and_survive(tmp_path_factory, labels, question, name, other):
    """The names and labels of a parquet's or SPSS file's columns may be anything."""
    made = []
    for place, column in enumerate((name, other), 1):
        given_ = {float(n): cleaned(label) for n, label in enumerate(labels)}
        values = tally.Tally()
        values.add(np.resize(np.arange(len(labels) + 1.0), 200), np.ones(200))
        taken = [one.name for one in made]
        held = columns.Column(column, 0, place, cleaned(question), given_)
        made.append(drafted(held, values, apart(variable_name(column, place), taken), wanted=True))
    if any(isinstance(one, str) for one in made):
        assert all(isinstance(one, str) for one in made)
        return
    text = record_text(
        Source("any", cleaned(question), [(name, [])], 2020, f"from {name!r}", 200),
        made, [Plan(made[0].name, (made[1].name,))], {question: [made[0].column]},
    )  # fmt: skip
    path = tmp_path_factory.mktemp("any") / "any.yaml"
    path.write_text(text, encoding="utf-8")
    record = records.load_record(path)
    first = record.variables[made[0].name][0]
    assert first.column == name
    for level in first.levels:
        code = int(level.codes[0][0])
        whole = cleaned(labels[code]) if code < len(labels) else str(code)
        said = re.sub(r" \(\d+\)(_\d+)?$|_\d+$", "", level.label) if level.label != whole else whole
        kept = (whole or str(code))[:150]
        assert level.label == whole or said.startswith(kept) or whole.endswith(level.label)
        assert len(level.label) <= 250 and level.label.isprintable()
    # The marks are ours: a label that looks like one is none.
    assert len(marks(text)) == len(
        marks(text.replace("# check: all", "x").replace("# check: b", ""))
    )


def test_marks_are_comments_and_not_labels():
    text = (
        f"{CHECK} one\n"
        f'a: "{CHECK} not"  {CHECK} two\n'
        f"b: '{CHECK} not'\n"
        f"c: |\n  {CHECK} not\n  x\n"
        f"d: plain#check:not\n"
        f"e: [1, 2]  {CHECK} three\n{CHECK}\n"
    )
    assert [(mark.line, mark.says) for mark in marks(text)] == [
        (1, "one"), (2, "two"), (8, "three"), (9, CHECK),
    ]  # fmt: skip
    assert all(
        marks(path.read_text()) == [] for path in Path(records.__file__).parent.glob("*.yaml")
    )


def test_numbers_are_read_back():
    for value in (1.0, -8.0, 0.1, 1e300, -1e-5, 1e-300, 2.0**60, float("inf"), -float("inf")):
        assert yaml.safe_load(number(value)) == value


def test_names_of_variables():
    for column, name in (("Q1 (a)", "q1_a"), ("_LLCPWT", "llcpwt"), ("1st", "v1st"), ("年齢", "v7"),
                         ("Größe", "groe"), ("a_by_b", "a_per_b"), ("closed", "closed_v"),
                         ("No", "no_v"),
                         ("x_likelihood", "x_likelihood_v"), ("a" * 90, "a" * 40)):  # fmt: skip
        assert variable_name(column, 7) == name
    assert {way.suffix.split("_")[-1] for way in WAYS.values()} - {""} <= set(words.WAYS)
    groups = {name.removeprefix("epidemia_").split("_")[0] for name in benchmarks.groups()}
    assert groups <= words.RESERVED


def test_columns_of_the_same_name_are_told_apart(tmp_path):
    rng = np.random.default_rng(1)
    names = ["q 1", "q-1", "q_1", "Sex", "twice", "Twice"]
    frame = pd.DataFrame({name: rng.integers(1, 3, ROWS) for name in names})
    path = tmp_path / "same2020.csv"
    frame.to_csv(path, index=False)
    found = draft([path])
    assert [one.name for one in found.variables] == ["q_1", "q_1_2", "q_1_3", "sex"]
    (reason,) = found.left_out
    assert reason.startswith("of a name that several columns have")


# -- Bad files ---------------------------------------------------------------------------------


def csv_of(tmp_path, name="x2020.csv", **columns_):
    path = tmp_path / name
    pd.DataFrame({"sex": np.resize([1, 2, 2], ROWS), **columns_}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("columns_", "wishes", "said"),
    [
        ({"w": -1.0, "q": 1}, {"weight": "w"}, "w (weight) is negative in 400 rows"),
        ({"w": 0, "q": 1}, {"weight": "w"}, "w (weight) is zero in every row"),
        ({"w": "much", "q": 1}, {"weight": "w"}, "column w holds text where codes are expected"),
        ({"q": 1}, {"weight": "wieght"}, "--weight wieght: x2020.csv has no such column"),
        ({"happy": 1}, {"outcomes": ["hapy"]}, "--outcomes hapy: x2020.csv has no such column "
                                               "(nearest: happy)"),
        ({"q": 1}, {"given": ["sx"]}, "--given sx: x2020.csv has no such column (nearest: sex)"),
        ({"q": 1}, {"outcomes": ["q"]}, "--outcomes q: the column cannot be used: constant"),
        ({"q": 1}, {}, "one column is left to make tasks of (left out: constant"),
        ({"q": 1}, {"strata": "sex"}, "--strata and --psu go together"),
        ({"q": 1}, {"tasks": 0}, "--tasks 0: at least 1"),
        ({"q": 1}, {"name": "nsduh"}, "nsduh is the name of a survey that ships"),
        ({"q": 1}, {"name": "low"}, "low is the name of a group of tasks"),
        ({"q": 1}, {"name": "My survey"}, "--name 'My survey': a survey's name is of small"),
        ({"q": 1}, {"encoding": "klingon"}, "--encoding klingon: not known"),
        ({"q": 1}, {"encoding": "cp1251"}, "x2020.csv is read as UTF-8"),
        ({"q": [f"a{n % 30}" for n in range(ROWS)]}, {"outcomes": ["q"]},
         "--outcomes q: it has 30 answers, at most 26"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, columns_, wishes, said):
    path = csv_of(tmp_path, **columns_)
    with pytest.raises(EpidemiaError) as raised:
        draft([path], Wishes(**wishes))
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_files_that_are_none(tmp_path):
    (tmp_path / "empty2020.csv").write_text("")
    (tmp_path / "head2020.csv").write_text("a,b\n")
    (tmp_path / "x2020.sav").write_bytes(b"$FL2 not at all")
    (tmp_path / "x2020.docx").write_bytes(b"PK")
    (tmp_path / "semi2020.csv").write_text("a;b\n1;2\n")
    (tmp_path / "folder2020").mkdir()
    pd.DataFrame({"a": [1.0], "b": [2.0]})[:0].to_parquet(tmp_path / "none2020.parquet")
    for name, said in (
        ("empty2020.csv", "does not begin with a header"), ("head2020.csv", "has zero rows"),
        ("x2020.sav", "cannot be read as .sav"), ("x2020.docx", "is not in a known format"),
        ("semi2020.csv", "separated by ';'"), ("folder2020", "is a folder: give the files in it"),
        ("none2020.parquet", "has zero rows"), ("gone2020.csv", "no file"),
    ):  # fmt: skip
        with pytest.raises(EpidemiaError) as raised:
            draft([tmp_path / name])
        assert said in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(EpidemiaError, match="neither a name nor a column called year"):
        draft([csv_of(tmp_path, "x.csv", q=1)])


def test_a_file_without_any_label_or_demography(tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "bare2020.csv"
    pd.DataFrame(rng.integers(0, 4, (ROWS, 6)), columns=list("abcdef")).to_csv(path, index=False)
    found = draft([path])
    assert found.plans and "no column looks like age" in found.notes[0]
    assert all(one.checks == ("if these are codes, say what they mean: the file does not",)
               for one in found.variables)  # fmt: skip


def test_labels_in_another_encoding(tmp_path):
    path = tmp_path / "cyr2020.sav"
    frame = pd.DataFrame({"sex": np.resize([1.0, 2], ROWS), "q": np.resize([1.0, 1, 2], ROWS)})
    pyreadstat.write_sav(frame, str(path), variable_value_labels={"q": {1: "QQ", 2: "NNN"}})
    path.write_bytes(path.read_bytes().replace(b"QQ", "Да".encode("cp1251"))
                     .replace(b"NNN", "Нет".encode("cp1251")))  # fmt: skip
    wrong = loaded(draft([path]), tmp_path)  # read as Western European, as files are that err
    right = loaded(draft([path], Wishes(encoding="CP1251")), tmp_path)
    assert labels_of(wrong, "q") == ["Äà", "Íåò"]
    assert labels_of(right, "q") == ["Да", "Нет"]
    # The record has no place for an encoding, so words are not read in one.
    frame["vote"] = np.resize(["a", "b", "b"], ROWS)
    pyreadstat.write_sav(frame, str(path))
    assert "vote" not in {one.name for one in draft([path], Wishes(encoding="CP1251")).variables}
    western = tmp_path / "west2020.csv"
    rows = "1,groß\n2,klein\n2,groß\n1,klein\n1,groß\n" * 20
    western.write_bytes(f"sex,Größe\n{rows}".encode("latin-1"))
    record = loaded(draft([western]), tmp_path)
    assert labels_of(record, "groe") == ["groß", "klein"]
    assert way(record, "groe").column == "Größe"


def test_columns_of_a_parquet_file_that_hold_other_things(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": pd.Categorical(rng.choice(["m", "f"], ROWS)),
            "smokes": rng.random(ROWS) < 0.3,
            "perhaps": rng.choice([True, False, None], ROWS),
            "when": pd.Timestamp("2020-01-01"),
            "lists": [[1, 2]] * ROWS,
            "nothing": None,
            "endless": rng.choice([1.0, np.inf], ROWS),
            "born": rng.choice(["1990-01-02", "1991-03-04", "1992-05-06"], ROWS),
            "a + b": 1.0,
            "bell\x07": 1.0,
        }
    )
    path = tmp_path / "odd2020.parquet"
    frame.to_parquet(path)
    found = draft([path], Wishes(outcomes=["smokes", "perhaps"], given=["sex"]))
    record = loaded(found, tmp_path)
    assert labels_of(record, "smokes") == ["No", "Yes"]
    assert labels_of(record, "perhaps") == ["False", "True"]
    assert len(found.plans) == 2
    assert {reason: [c.name for c in listed] for reason, listed in found.left_out.items()} == {
        "dates or times": ["when", "born"],
        "neither numbers nor text": ["lists"],
        "empty: nobody has a value": ["nothing"],
        "infinite numbers": ["endless"],
        "of a name that a record cannot hold ('+', '{yy}', control characters)": [
            "a + b", "bell\x07",
        ],
    }  # fmt: skip


def test_a_zipped_file_is_named_with_what_is_in_it(sav, tmp_path):
    with zipfile.ZipFile(tmp_path / "mine2022.zip", "w") as archive:
        archive.write(sav, "mine2022.sav")
    found = draft([tmp_path / "mine2022.zip"], Wishes(weight="finalwt"))
    (file,) = loaded(found, tmp_path).vintages["2022"].files
    assert (file.name, file.members) == ("mine2022.zip", ("mine2022.sav",))


def test_five_thousand_columns_and_many_rows_in_little_memory(tmp_path):
    """Of every column only counts are kept: 30 MB of numbers, read 1,600 rows at a time."""
    import tracemalloc

    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    wide = {f"q{n}": rng.integers(1, 5, 300) for n in range(4998)}
    pq.write_table(pa.table({"sex": np.resize([1, 2, 2], 300), **wide}), tmp_path / "w2020.parquet")
    found = draft([tmp_path / "w2020.parquet"], Wishes(outcomes=["q4990"]))
    assert len(found.variables) == 500 and "q4990" in {one.name for one in found.variables}
    assert sum(map(len, found.left_out.values())) == 4999 - 500
    path = tmp_path / "long2020.parquet"
    rows, width = 200_000, 40
    with pq.ParquetWriter(path, pa.schema([(f"x{n}", pa.float64()) for n in range(width)])) as file:
        for _ in range(10):
            block = rng.lognormal(10, 2, (rows // 10, width))
            file.write_table(pa.table({f"x{n}": block[:, n] for n in range(width)}))
    tracemalloc.start()
    header = columns.header_of(path)
    counted = tally.count(path, header.columns, np.ones(rows, bool), np.ones(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * rows * width / 2, "half of the numbers were in memory"
    one = counted["x0"]
    assert not one.exact and len(one.values) <= tally.MOST and one.counts.sum() == rows
    # Three digits: the median of a lognormal is exp(10).
    middle = one.values[np.searchsorted(one.counts.cumsum(), rows / 2)]
    assert middle == pytest.approx(np.exp(10), rel=0.03)


def test_blocks_of_every_format_have_the_same_rows(tmp_path, monkeypatch):
    frame = people()[["age", "happy", "finalwt", "note"]]
    monkeypatch.setattr(tally, "CELLS", 4000)  # 1,000 rows at the least
    frame = pd.concat([frame] * 5, ignore_index=True)  # two blocks, and nothing after them
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"))
    pyreadstat.write_dta(frame, str(tmp_path / "a.dta"), version=14)
    pyreadstat.write_xport(frame, str(tmp_path / "a.xpt"), table_name="A")
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    keep = np.arange(len(frame)) % 3 > 0
    weight = frame["finalwt"].to_numpy()
    expected = frame["happy"][keep].value_counts().sort_index()
    for suffix in ("sav", "dta", "xpt", "parquet", "csv"):
        path = tmp_path / f"a.{suffix}"
        found = tally.count(path, columns.header_of(path).columns, keep, weight)
        happy = found["happy"]
        assert happy.values.tolist() == expected.index.tolist(), suffix
        assert happy.counts.tolist() == expected.tolist()
        assert happy.weights.sum() + happy.blank_weight == pytest.approx(weight[keep].sum())
        assert happy.blank == frame["happy"][keep].isna().sum()
        assert (found["note"].words and len(found["note"].texts) == ROWS - ROWS // 3) or suffix


# -- The command -------------------------------------------------------------------------------


def epidemia(*arguments, **options):
    done = CliRunner().invoke(cli.app, [str(one) for one in arguments], **options)
    if done.exception and not isinstance(done.exception, SystemExit | EpidemiaError):
        raise done.exception
    return done


def test_the_command_drafts_counts_and_says_what_comes_next(sav, home):
    done = epidemia("survey", "new", sav, "--weight", "finalwt", "--tasks", "10")
    assert done.exit_code == 0, done.output
    path = own_path("mine2022")
    assert path == home / "surveys" / "mine2022.yaml" and path.is_file()
    count = len(marks(path.read_text()))
    assert f"{count} places wait for your eye" in done.output
    assert "constant: everybody has one answer" in done.output
    *_, check, build, ask = done.output.splitlines()
    assert check.split() == ["epidemia", "survey", "check", "mine2022", "--raw", str(sav)]
    assert build.split() == ["epidemia", "groundtruth", "build", "mine2022", "--raw", str(sav)]
    assert ask.strip() == "lm_eval --tasks epidemia_mine2022 --model ..."
    listed = epidemia("survey", "check", "mine2022").output
    assert f"{count} places of {path}" in listed.replace("\n", "") and "who publishes it" in listed
    checked = epidemia("survey", "check", "mine2022", "--raw", sav).output
    assert "10 of 10 tasks have their columns" in checked and f"{count} places" in checked
    path.write_text(path.read_text().replace(CHECK, "#"))
    assert "nothing is left to check" in epidemia("survey", "check", "mine2022").output
    again = epidemia("survey", "new", sav, "--weight", "finalwt")
    assert "is there already: --replace" in str(again.exception)
    assert epidemia("survey", "new", sav, "--yes", "--replace").exit_code == 0
    assert records.load_record(path).design.strata == "vstrat"


def test_the_command_elsewhere_and_with_several_names(sav, tmp_path, home):
    out = tmp_path / "a folder" / "mine.yaml"
    done = epidemia("survey", "new", sav, "--weight", "none", "--outcomes", 'gun,"happy"',
                    "--given", "sex", "--out", out, "--name", "other")  # fmt: skip
    assert done.exit_code == 0, done.output
    record = records.load_record(out)
    assert {task.outcome for task in record.all_tasks} == {"gun", "happy"}
    assert f"EPIDEMIA_RECORDS='{out}'" in done.output and not own_path("other").exists()


def test_on_a_terminal_it_asks(sav, monkeypatch, home):
    monkeypatch.setattr(survey_cli, "_on_terminal", lambda: True)
    done = epidemia("survey", "new", sav, input="finalwt\nn\n\ngun\n")
    assert done.exit_code == 0, done.output
    record = records.load_record(own_path("mine2022"))
    assert record.design == records.Design(weight="finalwt")
    assert {task.outcome for task in record.all_tasks} == {"gun"}
    assert "Variance stratum" in done.output and "Proposed as conditions" in done.output


def test_what_cannot_be_written_leaves_nothing(sav, tmp_path):
    found = draft([sav], choose=everything)
    (tmp_path / "file").write_text("")
    with pytest.raises(EpidemiaError, match="cannot write"):
        write(found, tmp_path / "file" / "x.yaml")
    assert not list(tmp_path.glob("**/.x.yaml*"))


def test_a_known_survey_is_drafted_from_its_official_layout(tmp_path):
    """NSDUH as the agency codes it, without a label: codes that are far away are guessed."""
    path = tmp_path / "NSDUH_2023.parquet"
    nsduh_2023(800).to_parquet(path)
    found = draft([path], Wishes(name="mynsduh"), choose=everything)
    assert (found.source.weight, found.source.strata, found.source.psu) == (
        "ANALWT2_C", "VESTR_C", "VEREP",
    )  # fmt: skip
    record = loaded(found, tmp_path)
    assert labels_of(record, "herever") == ["1", "2"]
    assert [low for low, _ in way(record, "herever").missing] == [94, 97]
    assert len(way(record, "age3").levels) == 11
