"""Records of the user's own: where they are found, what they may not do, and what they give."""

import json
import logging
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import evaluate, recorded
from toy_survey import RECORD, build, people
from typer.testing import CliRunner

from lm_eval_epidemia import cli
from lm_eval_epidemia.api import tasks
from lm_eval_epidemia.benchmarks import leaves, members
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.words import plain_name
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.results import collect
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.load import load_record

TASK = "epidemia_extra_toy_happy_by_sex"


def write(folder, text=RECORD, name="toy.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def raw(tmp_path):
    people().to_csv(tmp_path / "toy.csv", index=False)
    return tmp_path / "toy.csv"


def test_a_record_in_the_home_folder_is_found_and_forgotten(home):
    shipped = set(catalogue.records())
    path = write(home / "surveys")
    assert set(catalogue.records()) == {*shipped, "toy"}
    assert list(catalogue.records())[-1] == "toy"
    assert TASK in catalogue.all_tasks() and TASK in leaves() and f"{TASK}_likelihood" in leaves()
    path.unlink()
    assert set(catalogue.records()) == shipped
    assert TASK not in catalogue.all_tasks() and TASK not in leaves()


def test_records_are_named_in_the_environment(tmp_path, monkeypatch):
    one = write(tmp_path / "one")
    write(tmp_path / "two", changed("survey: toy", "survey: yours"), "yours.yaml")
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.pathsep.join([str(one), str(tmp_path / "two")]))
    assert {"toy", "yours"} <= set(catalogue.records())
    # The same file named twice is one record.
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.pathsep.join([str(one), str(tmp_path / "one")]))
    assert "toy" in catalogue.records() and "yours" not in catalogue.records()
    for wrong, said in (("nowhere", "does not exist"), ("", "contains no .yaml")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        monkeypatch.setenv("EPIDEMIA_RECORDS", str(tmp_path / (wrong or "empty")))
        with pytest.raises(EpidemiaError, match=said):
            catalogue.records()
    # A device is no record, and a pipe would be waited for.
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.devnull)
    with pytest.raises(EpidemiaError, match="does not exist"):
        catalogue.records()


def test_a_named_record_wins_over_one_in_the_home(home, tmp_path, monkeypatch, caplog):
    write(home / "surveys")
    named = write(tmp_path / "named", changed("Is this person happy?", "Would they say so?"))
    monkeypatch.setenv("EPIDEMIA_RECORDS", str(named))
    assert catalogue.file_of("toy") == named
    assert catalogue.record("toy").variables["happy"][0].question == "Would they say so?"
    assert f"{named} is a record of 'toy' too, and is used" in caplog.text


def test_results_of_a_survey_whose_record_is_not_here_name_it():
    """Whatever it is called: "own" and "other" are no kinds of results to a user."""
    for survey in ("atlantis", "own", "other", "quantities"):
        file = SimpleNamespace(results=[f"epidemia_extra_{survey}_vote_by_sex"], group_subtasks={})
        (note,) = collect._unknown(Path("results.json"), file)
        assert f"there is no record of {survey} here" in note


def test_record_stands_anywhere_on_the_line(tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "one")
    line = ["tasks", "list", "--survey=toy"]
    for where, given in product(range(4), ([f"--record={path}"], ["--record", str(path)])):
        monkeypatch.setenv("EPIDEMIA_RECORDS", "")
        monkeypatch.setattr(sys, "argv", ["epidemia", *line[:where], *given, *line[where:]])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        assert TASK in capsys.readouterr().out
    # Without a path.
    monkeypatch.setattr(sys, "argv", ["epidemia", "tasks", "list", "--record"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "--record has no value: expected the path" in capsys.readouterr().err


def changed(old, new):
    assert old in RECORD
    return RECORD.replace(old, new)


#: The record, and what is said of it.
WRONG = {
    "a survey that ships": (changed("survey: toy", "survey: gss"), "add 'replaces: gss'"),
    "replaces another": (changed("toy\n", "toy\nreplaces: gss\n"), "of its own name"),
    "replaces what does not ship": (changed("toy\n", "toy\nreplaces: toy\n"), "of its own name"),
    "a group": (changed("survey: toy", "survey: low"), "epidemia_low is the name of another group"),
    "a way of asking": (
        changed("y: toy", "y: stated"),
        "epidemia_stated is the name of another group",
    ),
    "a variable that is a folder": (
        changed("happy", "ha/ppy"),
        "the name of a variable may contain only letters",
    ),
    "a task that is another one's way of asking": (
        changed("  region:", "  sex_stated:").replace("[region]", "[sex_stated]"),
        "by_sex_stated would also be epidemia_extra_toy_happy_by_sex in another way",
    ),
    "a vintage that leaves its folder": (
        changed('"2020":', '"../../2020":'),
        "the name of a vintage must begin",
    ),
    "a shipped kind": (changed("  extra:", "  low:"), "under 'extra', not low"),
    "no YAML": ("survey: [", "not valid YAML"),
    "a tag": (
        changed("title: A toy survey", "title: !!python/object/apply:os.getcwd []"),
        "could not determine a constructor",
    ),
    "a field too many": (RECORD + "nonsense: 1\n", "nonsense"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_record_is_left_out_and_says_why(home, case, caplog):
    text, said = WRONG[case]
    write(home / "surveys", text)
    with caplog.at_level(logging.WARNING):
        assert len(catalogue.records()) == 16
    assert "one of your survey records is left out" in caplog.text and said in caplog.text
    assert store.available()  # what ships goes on
    with pytest.raises(EpidemiaError, match=r"toy\.yaml"):
        catalogue.record("toy")


def test_two_records_of_one_name(home):
    write(home / "surveys")
    write(home / "surveys", RECORD, "zoo.yaml")
    assert "toy" in catalogue.records()
    with pytest.raises(EpidemiaError, match="is a record of 'toy' too"):
        catalogue.record("zoo")


def test_a_record_replaces_one_that_ships(home):
    shipped = catalogue.record("gss")
    text = changed("survey: toy", "survey: gss\nreplaces: gss").replace("extra:", "low:")
    write(home / "surveys", text, "gss.yaml")
    assert catalogue.record("gss").title == "A toy survey" != shipped.title
    names = [name for name in catalogue.all_tasks() if "_gss_" in name]
    assert names[1::2] == ["epidemia_low_gss_happy_by_sex", "epidemia_marginal_gss_happy"]
    assert len(names) == 4
    assert leaves()[names[1]].entry.groups == ("epidemia_low", "epidemia_low_gss")


def test_a_level_for_each_of_too_many_is_refused(tmp_path):
    text = RECORD.replace(
        "{label: Male, phrase: is male, codes: [1]}",
        "{each: [1, 1000000000], label: '{n}', phrase: 'is {n}'}",
    )
    with pytest.raises(EpidemiaError, match="'each' makes at most 1000 levels"):
        load_record(write(tmp_path, text))


def test_from_record_to_scores_in_every_way_and_without_it(home, raw, tmp_path, caplog):
    path = write(home / "surveys")
    before = yamls.task_path()
    everybody = "epidemia_marginal_toy_happy"
    built = build(raw).tasks
    assert TASK in built and built[3:] == [everybody]
    assert yamls.task_path() != before
    assert members("epidemia_toy") == [(name, "letters") for name in built[:3]]
    assert members("toy") == [(name, "letters") for name in built]
    # The groups that ship are the same for everybody; its own bears its title.
    assert (TASK, "likelihood") in members("epidemia_toy_likelihood")
    assert (TASK, "likelihood") not in members("epidemia_extra_likelihood")
    assert (everybody, "letters") not in members("epidemia_marginal")
    assert plain_name("epidemia_toy_likelihood") == "A toy survey, likelihood"
    asked = ["epidemia_toy", "epidemia_toy_likelihood", "epidemia_toy_sampled"]
    runs = recorded(tmp_path / "runs", [*asked, "epidemia_marginal_toy"])
    (file,) = runs.rglob("results_*.json")
    results = json.loads(file.read_text())["results"]
    assert results["epidemia_toy"]["score,none"] == 100
    assert results["epidemia_toy_likelihood"]["score,none"] > 80  # to the middle of its interval
    assert results["epidemia_toy_sampled"]["score,none"] > 0
    assert tasks("toy").state.tolist() == ["built here"] * 4
    made = CliRunner().invoke(cli.app, ["report", str(runs)])
    assert made.exit_code == 0 and "N/A" not in made.output, made.output

    # The wording is that of the record as it is now; levels that are not those of the truth ask
    # for another build; without the record, its results say so.
    path.write_text(changed("Is this person happy?", "Would they say so?"))
    sample = evaluate([TASK], limit=1)["samples"][TASK][0]
    assert "Would they say so?" in sample["doc"]["prompt"]
    path.write_text(changed("column: HAPPY", "column: JOY"))
    with pytest.raises(
        EpidemiaError, match=f"record of {TASK} has changed since its truth was built"
    ):
        evaluate([TASK], limit=1)
    assert f"{TASK} is left out" in caplog.text
    assert "epidemia groundtruth build toy --vintage 2020 --raw FILE" in caplog.text
    path.unlink()
    made = CliRunner().invoke(cli.app, ["report", str(runs)])
    assert isinstance(made.exception, EpidemiaError)
    assert "there is no record of toy here" in str(made.exception)
    assert "this version of lm-eval-epidemia" not in str(made.exception)


def test_lm_eval_finds_them_in_a_process_of_its_own(home, raw, tmp_path, monkeypatch, caplog):
    path = write(tmp_path / "elsewhere")
    monkeypatch.setenv("EPIDEMIA_RECORDS", str(path))
    build(raw)
    monkeypatch.delenv("EPIDEMIA_RECORDS")
    line = f"run --record {path} --tasks epidemia_toy --model epidemia-baseline"
    line += f" --model_args kind=truth --output_path {tmp_path / 'results'}"
    subprocess.run([sys.executable, "-m", "lm_eval_epidemia", *line.split()], check=True)
    (file,) = tmp_path.glob("results/**/results_*.json")
    assert json.loads(file.read_text())["results"]["epidemia_toy"]["score,none"] == 100
    # The record is not there for this process: its truth is left out, and it is said why.
    assert CliRunner().invoke(cli.app, ["tasks", "list", "--summary"]).exit_code == 0
    assert "the survey record of toy is missing" in caplog.text


EDITED = {
    "codes exchanged": (
        *("is male, codes: [1]", "is male, codes: [2]"),
        *("is female, codes: [2]", "is female, codes: [1]"),
    ),
    "a label": ('label: "No"', 'label: "Nope"'),
    "another weight": ("{weight: W}", "{weight: W2}"),
    "fewer people": ("subject:", "universe: [{column: SEX, codes: [1]}]\nsubject:"),
    "missing": ("    column: HAPPY\n", "    column: HAPPY\n    missing: [9]\n"),
    "another year": ("year: 2020\n", "year: 2021\n"),
}
WORDED = {
    "a phrase": ("is not happy", "is unhappy"),
    "a question": ("Is this person happy?", "Are they happy?"),
    "a title": ("title: A toy survey", "title: Our survey"),
}


def test_a_record_that_counts_something_else_than_its_truth_wants_a_build(home, raw, caplog):
    path = write(home / "surveys")
    build(raw)
    assert store.available()[TASK].state == "built here"
    for case, edits in {**WORDED, **EDITED}.items():
        text, lines = RECORD, len(caplog.text)
        for old, new in zip(edits[::2], edits[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        notices.forget()
        assert (TASK in store.available()) == (case in WORDED), case
        if case in WORDED:
            assert store.load(TASK).task == TASK
            continue
        assert "has changed since its truth was built, in what is counted" in caplog.text[lines:], (
            case
        )
        command = "epidemia groundtruth build toy --vintage 2020 --raw FILE"
        assert command in caplog.text[lines:], case
        with pytest.raises(
            EpidemiaError, match="has changed since its truth was built, in what is counted"
        ):
            store.load(TASK)
    build(raw)
    assert TASK in store.available()


def test_another_task_of_the_record_leaves_a_truth_as_it_is(home, raw):
    path = write(home / "surveys")
    build(raw)
    text = RECORD.replace("column: SEX", "column: SEX\n    question: Which sex is it?")
    path.write_text(text + '    - {outcome: sex, given: [happy], title: "Toy: Sex"}\n')
    assert "epidemia_extra_toy_sex_by_happy" in catalogue.all_tasks()
    assert TASK in store.available()


def test_everybody_and_the_cells_of_one_build_have_joint_errors(home, raw):
    write(home / "surveys")
    build(raw)
    everybody = "epidemia_marginal_toy_happy"
    assert store.load(TASK).sample == store.load(everybody).sample
    build(raw, replicates=12, only=["marginal"])
    assert store.load(everybody).sample.startswith("toy_2020-marginal ")
    build(raw, only=["marginal"])
    assert store.load(TASK).sample == store.load(everybody).sample
