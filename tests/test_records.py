"""Survey records: the schema, its errors, and agreement with the published task lists."""

import csv
from pathlib import Path

import pytest
import yaml

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys import catalogue as records
from lm_eval_epidemia.surveys.catalogue import load_record

DATA = Path(__file__).parent / "data"
NSDUH = Path(records.__file__).parent / "nsduh.yaml"


def listed(kind):
    with (DATA / f"tasks_{kind}.csv").open() as file:
        return {int(row["number"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize(("kind", "count"), [("low", 75), ("high", 94)])
def test_the_records_declare_exactly_the_published_lists(kind, count):
    declared = {
        task.number: (task.title, task.survey)
        for task in records.all_tasks().values()
        if task.kind == kind
    }
    published = {n: (row["name"], row["survey"]) for n, row in listed(kind).items()}
    assert len(published) == count
    assert declared == published


def test_titles_and_variables_say_the_same():
    """`by Age Group` and `by Age` are both a variable whose name begins with age."""
    words = {"type of degree": "field", "crime type": "offense"}
    words |= {"bmi group": "bmi", "age group": "age"}
    for task in records.all_tasks().values():
        if not task.given:
            continue
        conditions = task.title.split(" by ")[1].lower().split(", ")
        expected = [words.get(word, word) for word in conditions]
        assert [name.removesuffix("_group") for name in task.given] == expected, task.title


def test_extra_tasks_are_the_brfss_condition_sets_and_lifetime_use():
    nhis = [(t.outcome, t.given) for t in records.find_record("nhis").tasks["extra"]]
    assert nhis == [(t.outcome, t.given) for t in records.find_record("brfss").tasks["high"]]
    assert len(nhis) == 39
    past_month = [
        t.given for t in records.find_record("nsduh").tasks["high"] if "past" in t.outcome
    ]
    lifetime = [t.given for t in records.find_record("nsduh").tasks["extra"] if len(t.given) > 1]
    assert lifetime == past_month


def test_a_way_of_recording_may_belong_to_a_vintage(tmp_path):
    """CDC's table and the microdata have one column name, and count different answers as yes."""
    brfss = records.find_record("brfss")
    counted = {
        vintage: [level.codes for level in brfss.reading("diabetes", "DIABETE4", vintage).levels]
        for vintage in brfss.vintages
    }
    assert counted["2023"] == [((1, 1), (2, 2)), ((3, 3), (4, 4))]
    assert counted["2023-published"] == [((1, 1),), ((2, 2), (3, 3), (4, 4))]
    assert [way.vintages for way in brfss.readings("diabetes", "2023")] == [("2023",)]
    with pytest.raises(EpidemiaError, match=r"small.yaml:15: .*there is no vintage '2021'"):
        small(tmp_path, ["codes: [1]", "codes: [2]"], vintages="vintages: ['2021']")
    with pytest.raises(EpidemiaError, match=r"small.yaml:13: .*not recorded in any way.*'2020'"):
        small(tmp_path, ["codes: [1]", "codes: [2]"], vintages="vintages: ['2021']")


def test_names_and_groups():
    task = records.find_task("epidemia_high_nsduh_marijuana_ever_by_age_sex_race")
    assert task.group == "epidemia_high"
    assert task.given == ("age", "sex", "race")


def test_every_level_has_words():
    """A phrase continues 'a person who ...' (or a subject of the survey's own), in one line."""
    nouns = {"occupation", "field", "offense", "state", "country", "year"}
    verbs = "is has had did does made works earned spends owns describes identifies lives uses"
    verbs += " gets can cannot lives married neither came was agrees disagrees would"
    for survey in records.records().values():
        for name, ways in survey.variables.items():
            for way in ways:
                for level in way.levels:
                    text = level.label + level.phrase
                    assert level.label.strip() == level.label
                    assert not set(text) & set("{}\n\t") and "  " not in text
                    assert name in nouns or level.phrase.split()[0].rstrip(",") in verbs.split(), (
                        name
                    )
                    assert not level.phrase.endswith(".")


def test_questions_and_subjects_are_sentences():
    for survey in records.records().values():
        for ways in survey.variables.values():
            assert all(way.question is None or way.question.endswith("?") for way in ways)
        for task in survey.all_tasks:
            subject = task.subject or survey.subject
            assert subject.split()[0] in {"a", "an", "one"}
            assert not subject.endswith(".")


def test_a_range_of_ages_is_written_out():
    ages = records.find_record("meps").variables["age"][0].levels
    assert len(ages) == 86
    assert [level.label for level in ages][:3] == ["Under 1", "1", "2"]
    assert ages[34].phrase == "is 34 years old"
    assert ages[34].codes == ((34.0, 34.0),)


def test_columns_follow_the_year_of_the_vintage():
    meps = records.find_record("meps")
    assert meps.vintages["2022"].column("PERWT{yy}F") == "PERWT22F"
    assert meps.reading("insured", "INSCOV21", "2021-panels24-26").column == "INSCOV{yy}"


MISTAKES = yaml.safe_load((DATA / "record_mistakes.yaml").read_text())


@pytest.mark.parametrize(("old", "new", "line_with", "said"), MISTAKES)
def test_mistakes_in_a_record_are_named_with_their_line(tmp_path, old, new, line_with, said):
    text = NSDUH.read_text()
    assert old in text
    changed = text.replace(old, new, 1)
    path = tmp_path / "nsduh.yaml"
    path.write_text(changed)
    with pytest.raises(EpidemiaError) as error:
        load_record(path)
    message = str(error.value)
    line = next(n for n, row in enumerate(changed.splitlines(), 1) if line_with in row)
    assert said in message
    assert message.startswith(f"nsduh.yaml:{line}:")


#: A small record; the levels of X begin in line 16.
SMALL = (DATA / "small.yaml").read_text()


def small(tmp_path, levels, missing=(), vintages=""):
    labels = ["'{n}'" if "each" in rest else f"L{n}" for n, rest in enumerate(levels)]
    rows = [
        f"      - {{label: {label}, phrase: is, {rest}}}"
        for label, rest in zip(labels, levels, strict=True)
    ]
    path = tmp_path / "small.yaml"
    text = SMALL.replace("LEVELS", "\n".join(rows)).replace("MISSING", str(list(missing)))
    text = text.replace("    VINTAGES\n", f"    {vintages}\n" if vintages else "")
    path.write_text(text)
    return load_record(path)


def also(codes):
    return f"also: [{{column: Z, codes: {codes}}}]"


@pytest.mark.parametrize(
    ("levels", "missing"),
    [
        (["up_to: 5", "above: 5"], []),
        (["below: 5", "codes: [5]", "above: 5"], []),
        (["below: 18.5", "at_least: 18.5"], [999]),  # between cut points 'missing' is a hole
        (["codes: [1, 1]", 'codes: ["2-5", 3]'], [9]),
        ([f"codes: [1], {also('[2]')}", f"codes: [2], {also('[1]')}"], []),
        (["names: [Men]", "names: [Women, All]"], []),
    ],
)
def test_levels_that_only_touch_are_apart(tmp_path, levels, missing):
    assert len(small(tmp_path, levels, missing).variables["x"][0].levels) == len(levels)


def test_more_than_26_answers_are_an_error_but_more_conditions_are_not(tmp_path):
    text = NSDUH.read_text()
    many = "".join(
        f"      - {{label: age {n}, phrase: is {n}, codes: [{n}]}}\n" for n in range(12, 60)
    )
    first, rest = text.split("    column: AGE3\n    levels:\n")
    after = rest[rest.index("  sex:\n") :]
    path = tmp_path / "nsduh.yaml"
    path.write_text(first + "    column: AGE3\n    levels:\n" + many + after)
    assert len(load_record(path).variables["age"][0].levels) == 48
    asked = path.read_text().replace("heroin_ever, given: [age]", "age, given: [sex]")
    column = "    column: AGE3\n"
    path.write_text(asked.replace(column, f"{column}    question: How old is this person?\n"))
    with pytest.raises(EpidemiaError, match=r"'age' has 48 levels.*at most 26"):
        load_record(path)
