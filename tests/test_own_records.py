"""Records of the user's own: where they are found, what they may not do, and what they give."""

import json
import os
from itertools import product

import pytest
import yaml
from conftest import REPOSITORY, called
from report_parts import command
from toy_survey import RECORD, build, people

from lm_eval_epidemia.api import tasks
from lm_eval_epidemia.benchmarks import find_tasks, list_leaves
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.arguments import wrap_simple_evaluate
from lm_eval_epidemia.surveys import catalogue

CHANGES = yaml.safe_load((REPOSITORY / "tests" / "data" / "toy_changes.yaml").read_text())
TASK, EVERYBODY = "epidemia_extra_toy_happy_by_sex", "epidemia_marginal_toy_happy"


def write(folder, text=RECORD, name="toy.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    look_at_disk()
    return folder / name


def changed(old, new, text=RECORD):
    assert old in text
    return text.replace(old, new)


@pytest.fixture
def raw(tmp_path):
    people().to_csv(tmp_path / "toy.csv", index=False)
    return tmp_path / "toy.csv"


def test_where_records_are_found_and_which_of_two_is_used(home, tmp_path, monkeypatch, caplog):
    shipped = [*catalogue.records()]
    path = write(home / "surveys")
    assert [*catalogue.records()] == [*shipped, "toy"]
    assert {TASK, f"{TASK}_likelihood"} <= {*list_leaves()}
    named = write(tmp_path / "named", changed("Is this person happy?", "Would they say so?"))
    other = write(tmp_path / "other", changed("survey: toy", "survey: yours"))
    # One file named twice is one record.
    places = map(str, (named, named.parent, other.parent))
    monkeypatch.setenv("EPIDEMIA_RECORDS", os.pathsep.join(places))
    look_at_disk()
    assert catalogue.find_own_records() == {"toy": named, "yours": other}
    assert catalogue.find_record("toy").variables["happy"][0].question == "Would they say so?"
    assert f"{named} is a record of 'toy' too, and is used" in caplog.text
    (tmp_path / "empty").mkdir()
    # A device is no record, and a pipe would be waited for.
    for place, said in {"none": "exist", os.devnull: "exist", "empty": "contains no .yaml"}.items():
        monkeypatch.setenv("EPIDEMIA_RECORDS", str(tmp_path / place))
        look_at_disk()
        with pytest.raises(EpidemiaError, match=said):
            catalogue.records()
    monkeypatch.delenv("EPIDEMIA_RECORDS")
    path.unlink()
    look_at_disk()
    assert [*catalogue.records()] == shipped and TASK not in list_leaves()


def test_record_stands_anywhere_on_the_line(tmp_path, monkeypatch, capsys):
    path, line = write(tmp_path / "one"), ["tasks", "list", "--survey=toy"]
    for where, given in product(range(4), ([f"--record={path}"], ["--record", path])):
        monkeypatch.setenv("EPIDEMIA_RECORDS", "")
        assert called(monkeypatch, *line[:where], *given, *line[where:]) == 0
        assert TASK in capsys.readouterr().out
    assert called(monkeypatch, "tasks", "list", "--record") == 2
    assert "--record has no value: expected the path" in capsys.readouterr().err


@pytest.mark.parametrize(("old", "new", "said"), CHANGES["wrong"])
def test_a_wrong_record_is_left_out_and_says_why(home, old, new, said, caplog):
    write(home / "surveys", changed(old, new))
    assert len(catalogue.records()) == 16
    assert "one of your survey records is left out" in caplog.text and said in caplog.text
    assert store.list_available()  # what ships goes on
    with pytest.raises(EpidemiaError, match=r"toy\.yaml"):
        catalogue.find_record("toy")
    # The next run is told again, though nothing is read again.
    notices.forget()
    caplog.clear()
    catalogue.records()
    assert said in caplog.text


def test_a_record_that_is_written_while_python_runs_is_seen(home):
    assert TASK not in {*tasks()["task"]} | {*list_leaves()}
    (home / "surveys").mkdir()
    (home / "surveys" / "toy.yaml").write_text(RECORD)
    assert TASK not in list_leaves()  # the disk as it was last looked at
    assert TASK in {*tasks()["task"]} & {*list_leaves()}
    # And by a run.
    (home / "surveys" / "later.yaml").write_text(changed("survey: toy", "survey: later"))
    later = TASK.replace("toy", "later")
    assert later not in list_leaves()
    with pytest.raises(EpidemiaError, match=f"{later} has no ground truth here: it needs toy.csv"):
        wrap_simple_evaluate(lambda tasks: tasks)([later])


def test_a_record_replaces_one_that_ships(home):
    text = changed("survey: toy", "survey: gss\nreplaces: gss").replace("extra:", "low:")
    write(home / "surveys", text, "gss.yaml")
    own = [name for name in catalogue.all_tasks() if "_gss_" in name]
    assert len(own) == 4 and own[3] == "epidemia_marginal_gss_happy"
    assert "epidemia_low_gss" in list_leaves()["epidemia_low_gss_happy_by_sex"].entry.groups


def test_from_record_to_scores_in_every_way_and_without_it(
    home, raw, epidemia, caplog, monkeypatch
):
    path = write(raw.parent / "elsewhere")
    monkeypatch.setenv("EPIDEMIA_RECORDS", str(path))
    look_at_disk()
    built = build(raw).tasks
    assert find_tasks("epidemia_toy") == [(name, "letters") for name in built[:3]]
    assert built[3:] == [EVERYBODY] and find_tasks("toy") == [(name, "letters") for name in built]
    # The groups that ship are the same for everybody.
    likelihoods = map(find_tasks, ("epidemia_toy_likelihood", "epidemia_extra_likelihood"))
    assert [(TASK, "likelihood") in of for of in likelihoods] == [True, False]
    monkeypatch.setenv("EPIDEMIA_RECORDS", "")
    asked = "epidemia_toy,epidemia_toy_likelihood,epidemia_toy_sampled,epidemia_marginal_toy"
    line = ["--model", "epidemia-baseline", "--model_args", "kind=truth", "--output_path"]
    done = epidemia("run", "--record", path, *line, raw.parent / "runs", "--tasks", asked)
    assert done.returncode == 0, done.stderr
    (file,) = raw.parent.rglob("results_*.json")
    results = json.loads(file.read_text())["results"]
    letters, likelihood, sampled, _ = (results[name]["score,none"] for name in asked.split(","))
    assert letters == 100 and likelihood > 80 and sampled > 0  # to the middle of its interval
    assert "N/A" not in command("report", file.parent)
    # The wording is that of the record as it is now; without the record, its results say so.
    write(path.parent, changed("Is this person happy?", "Would they say so?"))
    assert "Would they say so?" in split(TASK, "letters")["prompt"][0]
    monkeypatch.setenv("EPIDEMIA_RECORDS", "")
    look_at_disk()
    with pytest.raises(EpidemiaError, match="there is no record of toy here"):
        command("report", file.parent)
    command("tasks", "list", "--summary")
    assert "the survey record of toy is missing" in caplog.text


def test_a_record_that_counts_something_else_than_its_truth_wants_a_build(home, raw, caplog):
    path = write(home / "surveys")
    build(raw)
    text = changed("column: TOWN\n", "column: TOWN\n    question: Is it a town?\n")
    said = "has changed since its truth was built, in what is counted"
    for edit in (*CHANGES["worded"], *CHANGES["counted"]):
        caplog.clear()
        write(path.parent, changed(*edit, text))
        notices.forget()
        assert (
            (TASK in store.list_available())
            == (edit in CHANGES["worded"])
            == (said not in caplog.text)
        ), edit
    with pytest.raises(EpidemiaError, match=f"{said}.*build toy --vintage 2020 --raw FILE"):
        store.load_truth(TASK)
    write(path.parent)
    # Everybody and the cells have joint errors if they are of builds alike.
    assert store.load_truth(TASK).sample == store.load_truth(EVERYBODY).sample
    build(raw, replicates=12, only=["marginal"])
    assert store.load_truth(EVERYBODY).sample.startswith("toy_2020-marginal ")
    build(raw, only=["marginal"])
    assert store.load_truth(TASK).sample == store.load_truth(EVERYBODY).sample
