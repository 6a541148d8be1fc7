"""Records of the user's own: where they are found, what they may not do, and what they give."""

import json
import logging
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import evaluate
from typer.testing import CliRunner

from lm_eval_epidemia import cli
from lm_eval_epidemia.api import tasks
from lm_eval_epidemia.benchmarks import leaves, members
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.surveys import catalogue
from lm_eval_epidemia.surveys.load import load_record

RECORD = """
survey: mine
domain: other
title: My survey
publisher: Me
homepage: https://example.org
licence: mine
citation: none
subject: a person in {year} who {conditions}
design: {weight: W}
vintages:
  "2020": {year: 2020, files: [{name: mine.csv}], page: "https://example.org/mine"}
variables:
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
    - {outcome: happy, given: [sex], title: "Mine: Happiness by Sex"}
"""
TASK = "epidemia_extra_mine_happy_by_sex"


def write(folder, text=RECORD, name="mine.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def raw(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"SEX": rng.integers(1, 3, 900), "W": rng.gamma(3, 10, 900)})
    frame["HAPPY"] = (rng.random(900) < 0.3 * frame["SEX"]).astype(int)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    return tmp_path / "mine.csv"


def build(raw):
    return building.build("mine", raw, replicates=8, progress=False)


def test_a_record_in_the_home_folder_is_found_and_forgotten(home):
    shipped = set(catalogue.records())
    path = write(home / "surveys")
    assert set(catalogue.records()) == {*shipped, "mine"}
    assert list(catalogue.records())[-1] == "mine"
    assert TASK in catalogue.all_tasks() and TASK in leaves() and f"{TASK}_likelihood" in leaves()
    path.unlink()
    assert set(catalogue.records()) == shipped
    assert TASK not in catalogue.all_tasks() and TASK not in leaves()


def test_records_are_named_in_the_environment(tmp_path, monkeypatch):
    one = write(tmp_path / "one")
    write(tmp_path / "two", RECORD.replace("survey: mine", "survey: yours"), "yours.yaml")
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.pathsep.join([str(one), str(tmp_path / "two")]))
    assert {"mine", "yours"} <= set(catalogue.records())
    # The same file named twice is one record.
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.pathsep.join([str(one), str(tmp_path / "one")]))
    assert "mine" in catalogue.records() and "yours" not in catalogue.records()
    for wrong, said in (("nowhere", "does not exist"), ("", "holds no .yaml")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        monkeypatch.setenv("EPIDEMIA_RECORDS", str(tmp_path / (wrong or "empty")))
        with pytest.raises(EpidemiaError, match=said):
            catalogue.records()


@pytest.mark.parametrize("where", [0, 1, 2, 3])
@pytest.mark.parametrize("joined", [False, True])
def test_record_stands_anywhere_on_the_line(tmp_path, monkeypatch, capsys, where, joined):
    path = write(tmp_path / "one")
    given = [f"--record={path}"] if joined else ["--record", str(path)]
    line = ["tasks", "list", "--survey=mine"]
    monkeypatch.setenv("EPIDEMIA_RECORDS", "")
    monkeypatch.setattr(sys, "argv", ["epidemia", *line[:where], *given, *line[where:]])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    assert TASK in capsys.readouterr().out


def test_record_without_a_path(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["epidemia", "tasks", "list", "--record"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "--record wants the path" in capsys.readouterr().err


WRONG = {
    "a survey that ships": (RECORD.replace("survey: mine", "survey: gss"), "say 'replaces: gss'"),
    "replaces another": (
        RECORD.replace("survey: mine", "survey: mine\nreplaces: gss"),
        "of its own name",
    ),
    "replaces what does not ship": (
        RECORD.replace("survey: mine", "survey: mine\nreplaces: mine"),
        "of its own name",
    ),
    "a group": (RECORD.replace("survey: mine", "survey: low"), "epidemia_low is another group"),
    "a way of asking": (
        RECORD.replace("survey: mine", "survey: stated"),
        "epidemia_stated is another group",
    ),
    "a variable that is a folder": (
        RECORD.replace("happy", "ha/ppy"),
        "the name of a variable is of letters",
    ),
    "a task that is another one's way of asking": (
        RECORD.replace(
            "variables:",
            """variables:
  sex_stated:
    column: SEX
    levels: [{label: A, phrase: is a, codes: [1]}, {label: B, phrase: is b, codes: [2]}]""",
        )
        + '    - {outcome: happy, given: [sex_stated], title: "Mine: Again"}',
        "by_sex_stated would be epidemia_extra_mine_happy_by_sex in another way",
    ),
    "a vintage that leaves its folder": (
        RECORD.replace('"2020":', '"../../2020":'),
        "the name of a vintage is of letters",
    ),
    "a shipped kind": (RECORD.replace("  extra:", "  low:"), "stand under 'extra', not low"),
    "no YAML": ("survey: [", "not valid YAML"),
    "a tag": (
        RECORD.replace("title: My survey", "title: !!python/object/apply:os.getcwd []"),
        "could not determine a constructor",
    ),
    "a field too many": (RECORD + "nonsense: 1\n", "nonsense"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_record_is_left_out_and_says_why(home, case, caplog):
    text, said = WRONG[case]
    write(home / "surveys", text)
    with caplog.at_level(logging.WARNING):
        assert len(catalogue.records()) == 11
    assert "a record of your own is left out" in caplog.text and said in caplog.text
    assert store.available()  # what ships goes on
    with pytest.raises(EpidemiaError, match=r"mine\.yaml"):
        catalogue.record("mine")


def test_two_records_of_one_name(home):
    write(home / "surveys")
    write(home / "surveys", RECORD, "other.yaml")
    assert "mine" in catalogue.records()
    with pytest.raises(EpidemiaError, match="is a record of 'mine' too"):
        catalogue.record("other")


def test_a_record_replaces_one_that_ships(home):
    shipped = catalogue.record("gss")
    text = RECORD.replace("survey: mine", "survey: gss\nreplaces: gss").replace("extra:", "low:")
    write(home / "surveys", text, "gss.yaml")
    assert catalogue.record("gss").title == "My survey" != shipped.title
    names = [one for one in catalogue.all_tasks() if "_gss_" in one]
    assert names == ["epidemia_low_gss_happy_by_sex", "epidemia_marginal_gss_happy"]
    assert leaves()[names[0]].entry.groups == ("epidemia_low", "epidemia_low_gss")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "aliases .* stand for more than"),
        ("a: &a [*a]\n", "aliases .* stand for more than"),
        ("[" * 100_000, "nested too deeply|not valid YAML"),
        ("- " * 5_000 + "x", "nested too deeply|not valid YAML"),
        ("#" * 6_000_000, "that is no record"),
        (
            RECORD.replace(
                "{label: Male, phrase: is male, codes: [1]}",
                "{each: [1, 1000000000], label: '{n}', phrase: 'is {n}'}",
            ),
            "'each' writes at most 1000 levels",
        ),
    ],
    ids=["aliases", "itself", "brackets", "dashes", "size", "each"],
)
def test_files_made_to_be_endless_are_refused_at_once(tmp_path, text, said):
    with pytest.raises(EpidemiaError, match=said):
        load_record(write(tmp_path, text))


def test_from_record_to_scores_in_every_way(home, raw):
    write(home / "surveys")
    before = yamls.task_path()
    assert build(raw).tasks == [TASK, "epidemia_marginal_mine_happy"]
    assert yamls.task_path() != before
    assert members("epidemia_mine") == [(TASK, "letters")]
    assert members("mine") == [(TASK, "letters"), ("epidemia_marginal_mine_happy", "letters")]
    assert (TASK, "likelihood") in members("epidemia_extra_likelihood")
    asked = ["epidemia_mine", "epidemia_mine_likelihood", "epidemia_mine_sampled"]
    found = evaluate(asked, model_args="kind=truth")["results"]
    assert found["epidemia_mine"]["score,none"] == 100
    assert found["epidemia_mine_likelihood"]["score,none"] > 80  # to the middle of its interval
    assert found["epidemia_mine_sampled"]["score,none"] > 0
    assert tasks("mine").state.tolist() == ["built here", "built here"]


def test_lm_eval_finds_them_in_a_process_of_its_own(home, raw, tmp_path):
    path = write(tmp_path / "elsewhere")
    said = os.environ | {"EPIDEMIA_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    epidemia = [sys.executable, "-m", "lm_eval_epidemia.cli"]
    subprocess.run(
        [
            *epidemia,
            "groundtruth",
            "build",
            "mine",
            "--raw",
            str(raw),
            "--replicates",
            "8",
            "--record",
            str(path),
        ],
        env=said,
        check=True,
    )
    out = tmp_path / "results"
    subprocess.run(
        [
            *epidemia,
            "run",
            "--record",
            str(path),
            "--tasks",
            "epidemia_mine",
            "--model",
            "epidemia-baseline",
            "--model_args",
            "kind=truth",
            "--output_path",
            str(out),
        ],
        env=said,
        check=True,
    )
    (file,) = out.rglob("results_*.json")
    assert json.loads(file.read_text())["results"]["epidemia_mine"]["score,none"] == 100
    # The record is not there for this process: its truth is left out, and it is said why.
    run = subprocess.run(
        [*epidemia, "tasks", "list", "--summary"],
        env=said,
        text=True,
        capture_output=True,
        check=True,
    )
    assert "there is no record of mine here" in run.stderr


def test_a_record_that_changes_after_the_build(home, raw, caplog):
    """Its wording is the new one; levels that are not those of the truth ask for another build."""
    write(home / "surveys")
    build(raw)
    write(home / "surveys", RECORD.replace("Is this person happy?", "Would they say so?"))
    sample = evaluate([TASK], limit=1)["samples"][TASK][0]
    assert "Would they say so?" in sample["doc"]["prompt"]
    write(home / "surveys", RECORD.replace("column: HAPPY", "column: JOY"))
    with pytest.raises(EpidemiaError, match=f"truth of {TASK} was built, its record has changed"):
        evaluate([TASK], limit=1)
    assert f"{TASK} is left out" in caplog.text
    assert "epidemia groundtruth build mine --vintage 2020 --raw FILE" in caplog.text


EDITED = {
    "codes exchanged": (
        "is male, codes: [1]",
        "is male, codes: [2]",
        "is female, codes: [2]",
        "is female, codes: [1]",
    ),
    "a label": ('label: "No"', 'label: "Nope"'),
    "another weight": ("{weight: W}", "{weight: HAPPY}"),
    "fewer people": ("subject:", "universe: [{column: SEX, codes: [1]}]\nsubject:"),
    "missing": ("    column: HAPPY\n", "    column: HAPPY\n    missing: [9]\n"),
    "another year": ("year: 2020, files", "year: 2021, files"),
}
WORDED = {
    "a phrase": ("is not happy", "is unhappy"),
    "a question": ("Is this person happy?", "Are they happy?"),
    "a title": ("title: My survey", "title: Our survey"),
}


@pytest.mark.parametrize("case", [*EDITED, *WORDED])
def test_a_record_that_counts_something_else_than_its_truth_wants_a_build(home, raw, case, caplog):
    path = write(home / "surveys")
    build(raw)
    assert store.available()[TASK].state == "built here"
    text = RECORD
    edits = {**EDITED, **WORDED}[case]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    if case in WORDED:
        assert TASK in store.available() and store.load(TASK).task == TASK
        return
    assert TASK not in store.available()
    assert "its record has changed in what is counted" in caplog.text
    assert "epidemia groundtruth build mine --vintage 2020 --raw FILE" in caplog.text
    with pytest.raises(EpidemiaError, match="its record has changed in what is counted"):
        store.load(TASK)
    build(raw)
    assert store.load(TASK).n.sum() <= 900


def test_another_task_of_the_record_leaves_a_truth_as_it_is(home, raw):
    path = write(home / "surveys")
    build(raw)
    text = RECORD.replace("column: SEX", "column: SEX\n    question: Which sex is it?")
    path.write_text(text + '    - {outcome: sex, given: [happy], title: "Mine: Sex"}\n')
    assert "epidemia_extra_mine_sex_by_happy" in catalogue.all_tasks()
    assert TASK in store.available()


def test_everybody_and_the_cells_of_one_build_have_joint_errors(home, raw):
    write(home / "surveys")
    build(raw)
    everybody = "epidemia_marginal_mine_happy"
    assert store.load(TASK).sample == store.load(everybody).sample
    building.build("mine", raw, replicates=12, progress=False, only=["marginal"])
    assert store.load(everybody).sample.startswith("mine_2020-marginal ")
    building.build("mine", raw, replicates=8, progress=False, only=["marginal"])
    assert store.load(TASK).sample == store.load(everybody).sample


def test_results_of_a_survey_whose_record_is_gone_say_so(home, raw, tmp_path):
    path = write(home / "surveys")
    build(raw)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lm_eval_epidemia.cli",
            "run",
            "--model",
            "epidemia-baseline",
            "--tasks",
            "epidemia_mine,epidemia_marginal_mine",
            "--output_path",
            str(tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = CliRunner().invoke(cli.app, ["report", str(tmp_path / "out")])
    assert made.exit_code == 0 and "N/A" not in made.output, made.output
    path.unlink()
    made = CliRunner().invoke(cli.app, ["report", str(tmp_path / "out")])
    assert isinstance(made.exception, EpidemiaError)
    assert "there is no record of mine here" in str(made.exception)
    assert "this version of lm-eval-epidemia" not in str(made.exception)
