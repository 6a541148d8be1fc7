"""Drafting a record from any survey file: what is read, guessed, asked, left out, and written."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import evaluate
from drafts import (
    LABELS,
    ROWS,
    TABLES,
    YES,
    file_of,
    labelled_sav,
    labels_of,
    loaded,
    people,
    way,
)
from official import save
from typer.testing import CliRunner

from lm_eval_epidemia import cli
from lm_eval_epidemia.benchmarks.prior.quantities.store import load_quantities as load_quantities
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.draft import amounts, columns, variables, words
from lm_eval_epidemia.surveys.draft.amounts import measure_of
from lm_eval_epidemia.surveys.draft.columns import DraftOptions, FileColumn
from lm_eval_epidemia.surveys.draft.drafting import draft_record, write_draft
from lm_eval_epidemia.surveys.draft.variables import kind_of
from lm_eval_epidemia.surveys.draft.words import clean_text, marks
from lm_eval_epidemia.surveys.microdata import check_files
from lm_eval_epidemia.surveys.record import Design

pyreadstat = pytest.importorskip("pyreadstat")


@pytest.fixture
def sav(tmp_path):
    return labelled_sav(tmp_path)


# -- What is drafted --------------------------------------------------------------------------


def test_a_labelled_file_becomes_a_record(sav, tmp_path):
    found = draft_record([sav], YES)
    record = loaded(found, tmp_path)
    names = record.survey, record.title, record.domain
    assert names == ("mine2022", "A survey: of ours", "other")
    assert record.design == Design(weight="finalwt", strata="vstrat", psu="vpsu")
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
    assert reasons == TABLES["left out"]
    for reason, names in reasons.items():
        assert f"# {reason} ({len(names)}): {', '.join(names)}" in found.text


def test_numbers_are_cut_and_their_labelled_ends_kept(sav, tmp_path):
    record = loaded(draft_record([sav], YES), tmp_path)
    age = way(record, "age")
    assert labels_of(record, "age")[-1].endswith("or older") and 3 <= len(age.levels) <= 5
    assert age.levels[-1].below is None and age.missing == ((98, 98),)
    first = way(record, "firstuse")
    assert (first.levels[-1].label, first.levels[-1].codes) == ("NEVER USED", ((991, 991),))
    assert first.levels[-2].below == 991 and first.levels[0].at_least is None
    assert all(level.phrase.startswith("has a value of") for level in way(record, "bmi").levels)


def test_the_quintiles_are_weighted():
    values, even = np.arange(100.0), np.ones(100)
    assert amounts.round_cuts(values, even, True) == [20, 40, 60, 80]
    # Half of the people are at 90 or more: so are half of the cuts.
    old = np.where(values >= 90, 9.0, 1.0)
    assert sum(cut >= 90 for cut in amounts.round_cuts(values, old, True)) >= 2
    assert amounts.round_cuts(np.array([0.0, 1, 2]), np.array([0.98, 0.01, 0.01]), True) == [1]


@pytest.mark.parametrize(("codes", "labels", "levels", "missing", "said"), TABLES["codes"])
def test_what_becomes_of_codes(tmp_path, codes, labels, levels, missing, said):
    sex = np.random.default_rng(0).integers(1.0, 3, ROWS).astype(float)
    path = tmp_path / "codes2020.sav"
    file_of(path, {"x": labels} if labels else None, x=np.array(codes, float), sex=sex)
    found = draft_record([path], DraftOptions(outcomes=["x"], given=["sex"]))
    record = loaded(found, tmp_path)
    assert labels_of(record, "x") == levels
    assert [low for low, _ in way(record, "x").missing] == missing
    checks = next(one for one in found.variables if one.name == "x").checks
    assert any(said in check for check in checks) if said else not any("taken" in c for c in checks)


def test_answers_that_look_alike_stay_apart_with_a_mark(tmp_path):
    """Whether Yes and yes are one answer, or 2 and 3 with one label, a person decides."""
    answers = ["Yes", "yes", "No", "NO ", "Maybe"]
    found = draft_record(
        [file_of(tmp_path / "words2021.csv", sex=["Male", "Female"], owns=answers)]
    )
    assert labels_of(loaded(found, tmp_path), "owns") == ["Maybe", "No", "NO", "Yes", "yes"]
    said = [mark.says for mark in marks(found.text) if "look alike" in mark.says]
    alike = ["owns: 'No', 'NO'", "owns: 'Yes', 'yes'"]
    assert [one.split(" look alike")[0] for one in said] == alike

    labels = {"x": {1: "Own", 2: "own ", 3: "Rent"}}
    path = file_of(tmp_path / "codes2021.sav", labels, sex=[1.0, 2], x=[1.0, 1, 2, 3])
    found = draft_record([path], DraftOptions(outcomes=["x"], given=["sex"]))
    assert any("x: 'Own', 'own' look alike" in mark.says for mark in marks(found.text))


def test_every_mark_names_what_it_is_about(sav):
    found = draft_record([sav], YES)
    said = [mark.says for mark in marks(found.text)]
    assert len(said) == len(set(said)), "two marks that say the same"
    used = {name for plan in found.plans for name in (plan.outcome, *plan.given)}
    for name in used:
        assert f"{name}: the question, as you would ask it" in said
    assert any(one.startswith("firstuse: cut at round numbers") for one in said)


def test_the_phrase_of_another_race_or_region():
    for column, label, phrase in TABLES["phrases"]:
        found = columns.FileColumn(column, 0, 1)
        assert variables._phrase(kind_of(found), label, found) == phrase


def test_stata_letters_and_texts_with_labels(tmp_path):
    labels = {"opinion": {1: "for", 2: "against"}}
    path = file_of(tmp_path / "p2020.dta", labels, sex=[1.0, 2], opinion=[1.0, 1, 2])
    (one,) = [c for c in columns.header_of(path).columns if c.name == "opinion"]
    assert one.labels == {1.0: "for", 2.0: "against"}
    # .a, as Stata has it, is told by letter and read as blank.
    assert columns._labels({"a": "refused", 1: "for", 2.0: " against\n"}, False) == one.labels
    parties = {"vote": {"d": "Democrat", "r": "Republican"}}
    spss = file_of(tmp_path / "q2020.sav", parties, sex=[1.0, 2], vote=["d", "r", "d"])
    record = loaded(draft_record([spss]), tmp_path)
    levels = [(level.label, level.texts) for level in way(record, "vote").levels]
    assert levels == [("Democrat", ("d",)), ("Republican", ("r",))]


def test_a_csv_of_words_works_as_it_is(tmp_path, home):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "Gender": rng.choice(["Male", "Female"], ROWS),
            "Age": rng.integers(18, 80, ROWS),
            "Religion": rng.choice(["None", "Catholic ", "Prefer not to say"], ROWS),
            "Owns a car?": rng.choice(["Yes", "No", ""], ROWS),
            "Country": rng.choice(["NA", "<NA>", "ZA", "BW", "LS"], ROWS),
            "Rooms": rng.choice(["1", "2", "NA", "3", "."], ROWS),
        }
    )
    path = tmp_path / "people 2021.csv"
    frame.to_csv(path)  # with an index, which has no name
    found = draft_record([path])
    record = loaded(found, tmp_path)
    assert found.left_out.keys() == {"without a name"}
    assert labels_of(record, "religion") == ["Catholic", "None"]
    assert way(record, "religion").missing_texts == ("Prefer not to say",)
    assert way(record, "owns_a_car").column == "Owns a car?"
    # Of numbers NA is none; of words it is an answer, among codes Namibia.
    assert labels_of(record, "country") == ["BW", "LS", "NA", "ZA"]
    assert "# check: country: treated as answers, like the others here: NA" in found.text
    assert "# check: religion: treated as an answer: None\n" in found.text
    assert labels_of(record, "rooms") == ["1", "2", "3"]
    counts = frame["Rooms"].value_counts()
    (mark,) = re.findall("# check: rooms: treated as missing: (.*)", found.text)
    assert set(mark.split(", ")) == {f"{text} ({counts[text]} people)" for text in (".", "NA")}
    seen = {one.variable: one for one in check_files(record, [path]).variables}
    assert seen["owns_a_car"].missing == (frame["Owns a car?"] == "").sum()
    assert seen["religion"].missing == (frame["Religion"] == "Prefer not to say").sum()


def test_files_are_joined_by_the_number_of_a_person(tmp_path):
    frame = people()
    first = frame[["id", "age", "sex", "finalwt"]].rename(columns={"id": "SEQN"})
    other = frame[["id", "happy", "gun", "sex"]].rename(columns={"id": "SEQN"})[::-1][:300]
    for name, part in (("A", first), ("B", other)):
        how = {"table_name": name, "file_format_version": 5}
        pyreadstat.write_xport(part, str(tmp_path / f"{name}.xpt"), **how)
    files = [tmp_path / "B.xpt", tmp_path / "A.xpt"]  # the weight is in the second
    found = draft_record(files, DraftOptions("joined", weight="finalwt", year=2020))
    record = loaded(found, tmp_path)
    assert record.join == "SEQN" and record.vintages["2020"].rows == ROWS
    assert [c.name for c in found.left_out["also in another file, which is used"]] == ["sex"]
    data = check_files(record, files)
    gun = next(one for one in data.variables if one.variable == "gun")
    here = other["gun"].isin([1, 2])
    known = next(one for one in found.variables if one.name == "gun").known
    levels = labels_of(record, "gun")
    assert gun.known == (here.sum() if len(levels) == 2 else gun.known)
    weight = first["finalwt"]
    expected = weight[other["gun"][other["gun"].isin(map(float, levels))].index].sum()
    assert known == pytest.approx(expected / weight.sum())
    with pytest.raises(EpidemiaError, match="--join nobody: not every file of"):
        draft_record(files, DraftOptions("joined", weight="finalwt", year=2020, join="nobody"))
    pyreadstat.write_xport(other.assign(SEQN=1.0), str(tmp_path / "B.xpt"), table_name="B")
    with pytest.raises(EpidemiaError, match="SEQN has duplicates"):
        draft_record(files, DraftOptions("joined", weight="finalwt", year=2020))


def test_one_year_of_several_is_selected(tmp_path):
    frame = pd.concat([people(seed=1).assign(year=2018.0), people(seed=2).assign(year=2022.0)])
    frame.loc[frame["year"] == 2018, "happy"] = np.nan
    frame["finalwt"] = frame["finalwt"].where(np.arange(len(frame)) % 7 > 0)
    path = tmp_path / "all.parquet"
    frame.to_parquet(path)
    found = draft_record([path], DraftOptions(weight="finalwt"))
    record = loaded(found, tmp_path)
    year, weight = record.vintages["2022"].select
    assert (year.column, year.codes, weight.column) == ("year", ((2022, 2022),), "finalwt")
    kept = frame[(frame["year"] == 2022) & frame["finalwt"].notna()]
    assert check_files(record, [path]).rows == len(kept) == record.vintages["2022"].rows
    assert "happy" in {one.name for one in found.variables}
    older = draft_record([path], DraftOptions(weight="finalwt", year=2018))
    assert "happy" not in {one.name for one in older.variables}
    with pytest.raises(EpidemiaError, match=r"--year 1999: .* has no record of that year"):
        draft_record([path], DraftOptions(weight="finalwt", year=1999))


def test_a_year_that_the_file_contradicts_is_marked(tmp_path):
    path = tmp_path / "one.parquet"
    people().assign(year=2018.0).to_parquet(path)
    plain = draft_record([path], DraftOptions(weight="finalwt")).source.sampling
    assert not any("year" in check for check in plain.checks)
    found = draft_record([path], DraftOptions(weight="finalwt", year=2022))
    (said,) = [check for check in found.source.sampling.checks if "year" in check]
    assert said == "year is 2018 in every record, but --year is 2022: questions use 2022"
    assert "2022" in loaded(found, tmp_path).vintages


def test_every_code_belongs_to_a_level_of_every_variable(sav, tmp_path):
    """The draft is read through tasks; here every variable, used or not, is."""
    found = draft_record([sav], YES)
    data = yaml.safe_load(found.text)
    names = list(data["variables"])
    data["tasks"]["extra"] = [
        {"outcome": name, "given": ["sex"], "title": name} for name in names if name != "sex"
    ]
    path = tmp_path / "every.yaml"
    path.write_text(yaml.safe_dump(data))
    seen = check_files(load_record(path), [sav])
    assert {one.variable for one in seen.variables} == set(names) and len(names) == 7


def test_the_draft_is_built_and_scored_by_lm_eval(tmp_path, home):
    frame = people(300)[["age", "sex", "happy", "gun", "finalwt", "vstrat", "vpsu"]]
    nasty = {
        1: "{year} {{x}} <b>a</b> | & # check: 'b\"",
        2: "!!python/object: &x *y\n- [",
        9: "DK",
    }
    path = tmp_path / "nasty2022.sav"
    asked = {"happy": "%s {0} {conditions} #"}
    save(frame, path, column_labels=asked, variable_value_labels={**LABELS, "happy": nasty})
    wishes = DraftOptions(weight="finalwt", strata="vstrat", psu="vpsu")
    record = load_record(write_draft(draft_record([path], wishes)))
    built = building.build_survey(record.survey, path, replicates=8, progress=False)
    # Two outcomes by age and by sex, the one of two answers by both, and P(Y) of each.
    assert len(built.tasks) == len(record.all_tasks) == 7
    group = f"epidemia_{record.survey}"
    assert evaluate([group])["groups"][group]["score,none"] == 100
    name = "epidemia_extra_nasty2022_happy_by_sex"
    prompt = evaluate([name], limit=1)["samples"][name][0]["doc"]["prompt"]
    assert clean_text(nasty[1]) in prompt and "'%s {0} {conditions} #'" in prompt


# -- What is guessed, and asked ----------------------------------------------------------------


def test_a_guess_is_never_used_without_being_asked(sav):
    asks = "--weight finalwt --strata vstrat --psu vpsu to use it, or --weight none"
    with pytest.raises(EpidemiaError, match=asks):
        draft_record([sav])
    alone = draft_record([sav], DraftOptions(weight="FINALWT")).source.sampling
    assert (alone.weight, alone.strata, alone.psu) == ("finalwt", "", "")
    assert any("vstrat and vpsu look like" in check for check in alone.checks)
    alike = draft_record([sav], DraftOptions(weight="none", strata="none"))
    assert alike.source.sampling.weight == "" and not alike.source.sampling.checks
    assert [c.name for c in alike.left_out["weights"]] == ["finalwt"]


def test_replicates_body_weights_and_other_weights_are_no_weight(tmp_path):
    frame = people()[["age", "sex", "happy", "gun"]].assign(W_FSTUWT=people()["finalwt"])
    frame = frame.assign(weight=70.5 + np.arange(ROWS) % 9, height=170.0 + np.arange(ROWS) % 7)
    for number_ in range(1, 11):
        frame[f"repwt{number_}"] = frame["W_FSTUWT"] * (1 + number_ / 100)
    path = tmp_path / "r2020.sav"
    save(frame, path, column_labels={"W_FSTUWT": "Final student weight"})
    found = draft_record([path], YES)
    assert found.source.sampling.weight == "W_FSTUWT"
    assert len(found.left_out["replicate weights"]) == 10
    assert "weight" in {one.name for one in found.variables}


def test_what_people_weigh_is_no_weight_with_yes(tmp_path, home):
    kilograms = np.round(random(5).normal(80, 10, ROWS))
    path = in_a_file(tmp_path, "weight", kilograms)
    line = f"survey new {path} --name kg --yes --given sex"
    done = CliRunner().invoke(cli.app, shlex.split(line))
    assert done.exit_code == 0, (done.output, done.exception)
    assert "no weight" in done.output and "as people's kilograms are" in done.output
    assert "it is not used as the weight; to use it, give --weight weight" in done.output
    text = (home / "surveys" / "kg.yaml").read_text()
    assert 'column: "weight"' in text and "# check: weight is" in text
    taken = draft_record([path], DraftOptions(weight="weight", given=["sex"]))
    assert taken.source.sampling.weight == "weight"
    # A weight of records: beside it, kilograms are an answer.
    frame = pd.read_csv(path)
    frame.assign(wgt=1 + frame["weight"] / 100).to_csv(path, index=False)
    beside = draft_record([path], DraftOptions(given=["sex"], accept=True))
    assert beside.source.sampling.weight == "wgt"
    assert "weight" in [each.name for each in beside.variables]


def test_strata_of_one_psu_are_refused_or_left(tmp_path, sav):
    frame = people()
    frame.loc[frame["vstrat"] == 3, "vpsu"] = 1.0
    path = tmp_path / "single2022.sav"
    save(frame, path)
    with pytest.raises(EpidemiaError, match="1 of 10 strata have a single PSU"):
        draft_record([path], DraftOptions(weight="finalwt", strata="vstrat", psu="vpsu"))
    guessed = draft_record([path], YES).source.sampling
    assert guessed.strata == "" and "single PSU" in guessed.checks[0]


def test_clusters_without_strata_are_of_one_stratum(home, tmp_path):
    """As `svydesign(ids=~school)`: guessed, agreed to or named; errors are those of 30 schools."""
    rng = np.random.default_rng(9)
    school = np.repeat(np.arange(1.0, 31.0), 40)
    bullied = np.where(rng.random(1200) < rng.beta(1, 1, 30)[school.astype(int) - 1], 1.0, 2.0)
    frame = pd.DataFrame({"sex": rng.choice([1.0, 2.0], 1200), "bullied": bullied, "psu": school})
    path, labels = tmp_path / "schools2019.sav", {"bullied": {1: "Yes", 2: "No"}}
    frame["wgt"] = rng.uniform(1, 3, 1200)
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels)
    with pytest.raises(EpidemiaError, match="--weight wgt --psu psu to use it"):
        draft_record([path])
    guessed = draft_record([path], YES)
    named = draft_record([path], DraftOptions(weight="wgt", psu="PSU"))
    assert guessed.source.sampling.psu == named.source.sampling.psu == "psu"
    assert loaded(named, tmp_path).design == Design(weight="wgt", psu="psu")
    write_draft(named)
    built = building.build_survey(named.name, path, replicates=40, progress=False)
    (task,) = (name for name in built.tasks if name.endswith("_schools2019_bullied"))
    assert store.load_truth(task).n == [1200]
    # Two people of a school are as alike as a beta(1, 1) makes them, 1/3: deff is 1 + 39 / 3, and
    # of 30 schools within a factor of (29 / 14) and its inverse, chi-square's last 1 %.
    assert 1200 / 14 / 2.1 < store.load_truth(task).n_eff[0] < 1200 / 14 * 2.1


def test_demographic_columns_are_known_by_name_or_label():
    for kind, name, label in TABLES["demographic"]:
        assert kind_of(columns.FileColumn(name, 0, 1, label)) == kind, (name, label)


def test_labels_of_no_answer_are_told_from_those_of_answers():
    assert not [label for label in TABLES["no answer"] if not words.asks_nothing(label)]
    assert not [label for label in TABLES["answers"] if words.asks_nothing(label)]


def test_most_tasks_have_one_condition_and_spread_over_the_file(tmp_path):
    rng = np.random.default_rng(0)
    answers = rng.integers(1, 3, (ROWS, 100)).astype(float)
    asked = pd.DataFrame(answers, columns=[f"q{n}" for n in range(100)])
    frame = pd.concat([people()[["age", "sex"]], asked], axis=1)
    path = tmp_path / "wide2020.sav"
    labels = {f"q{n}": {1: "yes", 2: "no"} for n in range(100)} | {"sex": LABELS["sex"]}
    save(frame, path, variable_value_labels=labels)
    found = draft_record([path])
    assert len(found.plans) == 40
    assert sum(len(plan.given) == 2 for plan in found.plans) == 4
    outcomes = [int(plan.outcome[1:]) for plan in found.plans if len(plan.given) == 1]
    assert len(set(outcomes)) >= 18 and max(outcomes) > 90
    assert len(found.variables) == 102
    names = [f"q{n}" for n in range(30)]
    few = draft_record([path], DraftOptions(outcomes=names, given=["age", "sex"]))
    made = (
        "40 of 60 possible tasks with one condition were made: --outcomes and --given choose them"
    )
    assert few.notes == [made]


def test_a_recoding_is_no_task(tmp_path):
    frame = people()[["sex", "gun", "happy"]].assign(woman=lambda f: f["sex"] - 1)
    path = tmp_path / "same2020.sav"
    save(frame, path)
    found = draft_record([path], DraftOptions(outcomes=["woman", "happy"], given=["sex"]))
    assert [plan.outcome for plan in found.plans] == ["happy"]
    assert "woman by sex" in found.notes[0]


# -- Numbers that differ for everybody ---------------------------------------------------------


def in_a_file(folder, name, values):
    """Put a column into a csv file, beside an outcome and a condition."""
    answers = {"sex": np.resize(["female", "male"], len(values))}
    answers["owns"] = np.resize(["yes", "yes", "no"], len(values))
    path = folder / "own2024.csv"
    pd.DataFrame({name: values} | answers).to_csv(path, index=False)
    return path


def random(rows):
    return np.random.default_rng(rows)


@pytest.mark.parametrize(("name", "values"), TABLES["measured"])
def test_a_measurement_that_differs_for_everybody_is_kept(tmp_path, name, values):
    values = np.unique(np.round(eval(values)).astype(int))
    random(1).shuffle(values)
    drafted = draft_record([in_a_file(tmp_path, name, values)])
    (variable,) = (each for each in drafted.variables if each.column.name == name)
    assert variable.measure is not None and len(variable.levels) > 3
    assert not drafted.left_out


@pytest.mark.parametrize(("name", "values"), TABLES["identifiers"])
def test_identifiers_are_left_out_unless_they_are_named(tmp_path, name, values):
    values = np.asarray(eval(values)).astype(float).astype(np.int64)
    path = in_a_file(tmp_path, name, values)
    drafted = draft_record([path])
    ((reason, columns),) = drafted.left_out.items()
    assert [column.name for column in columns] == [name]
    assert re.match(r"identifiers.*\(name one in --outcomes or --given to keep it\)", reason)
    assert "name one in --outcomes or --given to keep it" in drafted.text.replace("\n# ", " ")
    kept = draft_record([path], DraftOptions(outcomes=[name], given=["sex"]))
    assert name in [each.column.name for each in kept.variables]


# -- Numbers that have a mean ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "label", "words", "unit"), TABLES["measures"])
def test_what_numbers_measure_is_drafted_from_names_and_labels(name, label, words, unit):
    measure = measure_of(FileColumn(name, 0, 1, label), "", True, 40, {})
    assert (measure.words, measure.unit) == (words, unit)
    assert measure.plural == (words.split()[0] in ("hours", "assets", "savings"))


def test_what_may_be_codes_has_no_mean(sav, tmp_path):
    assert measure_of(FileColumn("relig", 0, 1), "", True, 13, {}) is None
    assert measure_of(FileColumn("zip", 0, 1), "", True, 900, {}) is None
    found = draft_record([sav], YES)
    record = loaded(found, tmp_path)
    # 991 is "never used": no age.
    assert way(record, "firstuse").measure is None and way(record, "gun").measure is None
    assert way(record, "bmi").measure.unit == "kg/m2"
    assert way(record, "age").measure.note == "counting '89 or older' as 89"
    assert "# check: bmi: the noun after 'the average', and its unit" in found.text


def test_a_salary_file_gives_means_without_an_editor(tmp_path, home):
    rng = np.random.default_rng(4)
    rows, degree = 600, rng.choice(["none", "college", "graduate"], 600)
    of_degree = np.select([degree == "none", degree == "college"], [40_000, 60_000], 95_000)
    salaries = {
        "sex": rng.choice(["female", "male"], rows),
        "degree": degree,
        "sector": rng.choice(["public", "private", "own business"], rows),
        "salary": (of_degree * rng.lognormal(0, 0.6, rows)).astype(int),
        "hours_per_week": np.round(rng.normal(np.where(degree == "none", 33, 41), 5)).astype(int),
    }
    path = tmp_path / "pay2024.csv"
    pd.DataFrame(salaries).to_csv(path, index=False)
    asked = "--outcomes salary,hours_per_week --given sex,degree"
    for line in (
        f"survey new {path} --name pay --weight none {asked}",
        f"groundtruth build pay --raw {path}",
        f"quantities new pay --raw {path} --n 12",
    ):
        done = CliRunner().invoke(cli.app, shlex.split(line))
        assert done.exit_code == 0, (done.output, done.exception)
    made = {}
    for quantity in load_quantities("epidemia_prior_pay_0").quantities:
        made.setdefault(quantity.base, []).append(quantity)
    assert {(each.family, each.unit) for each in made["salary"]} == {("lognormal", "dollars")}
    assert {(each.family, each.unit) for each in made["hours_per_week"]} == {("normal", "hours")}
    assert made["salary"][0].marginal_mean == pytest.approx(salaries["salary"].mean())
    assert made["salary"][0].wording.startswith("the average salary (in dollars) of a person")
    assert made["hours_per_week"][0].wording.startswith("the average hours per week (in hours) of")
    # The file's name is no title.
    for quantity in (quantity for several in made.values() for quantity in several):
        assert quantity.wording.endswith(", according to the survey 'pay2024', 2024")
