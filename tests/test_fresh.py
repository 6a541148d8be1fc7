"""Fresh tasks: what is drawn and refused, the bytes of a set, how it is found and left out."""

import json
import logging
import math
import re

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import evaluate
from typer.testing import CliRunner

from lm_eval_epidemia.api import questions, tasks
from lm_eval_epidemia.benchmarks import leaves, members
from lm_eval_epidemia.benchmarks.observation.fresh import make as making
from lm_eval_epidemia.benchmarks.observation.fresh import slices
from lm_eval_epidemia.benchmarks.observation.fresh.make import make, plan
from lm_eval_epidemia.benchmarks.observation.fresh.slices import (
    Draw,
    Informed,
    Space,
    draws,
    normalised_information,
)
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.check import check_all
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys import catalogue, fresh
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.load import load_record

ROWS = 6000
#: Levels of `town` that few people live in: about 12 records each.
TOWNS = 80

RECORD = f"""
survey: toy
domain: social
title: A toy survey
publisher: Nobody
homepage: https://example.org
licence: none
citation: none
subject: a person in {{year}} who {{conditions}}
design: {{weight: W, strata: STRATUM, psu: PSU}}
vintages:
  "2020": {{year: 2020, files: [{{name: toy.csv}}], page: "https://example.org/toy"}}
variables:
  sex:
    column: SEX
    levels:
      - {{label: Male, phrase: is male, codes: [1]}}
      - {{label: Female, phrase: is female, codes: [2]}}
  region:
    column: REGION
    levels:
      - {{each: [1, 3], label: "R{{n}}", phrase: "lives in region {{n}}"}}
  age:
    column: AGE
    levels:
      - {{each: [1, 4], label: "A{{n}}", phrase: "is of age {{n}}"}}
  generation:
    column: AGE
    levels:
      - {{label: Young, phrase: is young, codes: [1, 2]}}
      - {{label: Old, phrase: is old, codes: [3, 4]}}
  town:
    column: TOWN
    levels:
      - {{each: [0, {TOWNS}], label: "T{{n}}", phrase: "lives in town {{n}}"}}
  happy:
    column: HAPPY
    question: Is this person happy?
    levels:
      - {{label: "Yes", phrase: is happy, codes: [1]}}
      - {{label: "No", phrase: is not happy, codes: [0]}}
  mood:
    column: MOOD
    question: How is this person?
    levels:
      - {{each: [1, 3], label: "M{{n}}", phrase: "has mood {{n}}"}}
  rare:
    column: RARE
    question: Is this rare?
    levels:
      - {{label: "Yes", phrase: is rare, codes: [1]}}
      - {{label: "No", phrase: is not rare, codes: [0]}}
  coin:
    column: COIN
    question: Did it fall on its head?
    levels:
      - {{label: Head, phrase: has thrown a head, codes: [1]}}
      - {{label: Tail, phrase: has thrown a tail, codes: [0]}}
  never:
    column: NEVER
    levels:
      - {{label: "1", phrase: is one, codes: [1]}}
      - {{label: "2", phrase: is two, codes: [2]}}
tasks:
  extra:
    - {{outcome: happy, given: [sex], title: "Toy: Happiness by Sex"}}
    - {{outcome: mood, given: [happy], title: "Toy: Mood by Happiness"}}
"""


def people(seed=3):
    """Invented people: happiness and mood depend on sex, region and age, a coin on nothing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "SEX": rng.integers(1, 3, ROWS),
            "REGION": rng.integers(1, 4, ROWS),
            "AGE": rng.integers(1, 5, ROWS),
            "W": rng.gamma(5, 10, ROWS),
            "STRATUM": np.arange(ROWS) % 30,
            "PSU": rng.integers(1, 3, ROWS),
        }
    )
    far = rng.random(ROWS) < 0.16
    frame["TOWN"] = np.where(far, rng.integers(1, TOWNS + 1, ROWS), 0)
    share = 0.05 + 0.1 * frame["SEX"] + 0.05 * frame["REGION"] * frame["AGE"]
    frame["HAPPY"] = (rng.random(ROWS) < share).astype(int)
    frame["MOOD"] = 1 + (rng.random(ROWS) < 0.25 * frame["SEX"]) + (rng.random(ROWS) < 0.2)
    frame["RARE"] = (rng.random(ROWS) < 0.012).astype(int)
    frame["COIN"] = np.arange(ROWS) % 2
    frame["NEVER"] = np.where(np.arange(ROWS) < 5990, np.nan, 1)
    return frame


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.csv"
    people().to_csv(path, index=False)
    return path


@pytest.fixture
def declare(home):
    """Declare the toy survey, as it is or changed."""

    def declare(old="", new=""):
        path = home / "surveys" / "toy.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        assert old in RECORD
        path.write_text(RECORD.replace(old, new) if old else RECORD)

    declare()
    return declare


@pytest.fixture
def data(raw, declare):
    return building.read(catalogue.record("toy"), [raw], None, every=True)[0]


def planned(raw, **options):
    options = {"n": 8, "seed": 7, "replicates": 8, **options}
    return plan("toy", [raw], progress=False, **options)


def made(raw, jobs=1, replace=False, **options):
    return make(planned(raw, **options), jobs=jobs, replace=replace, progress=False)


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != ".lock"}


# What is drawn.


def test_draws_are_without_replacement_until_nothing_is_left():
    space = Space(("a", "b"), ("a", "b", "c", "d"), (1, 2))
    found = list(draws(space, np.random.default_rng(1)))
    # Of 3 other variables: 3 pairs of outcome and condition and 3 with two, for both outcomes.
    assert len(found) == len(set(found)) == sum(space.sizes.values()) == 12
    for outcome, given in found:
        assert outcome not in given and list(given) == sorted(given)
    assert found != list(draws(space, np.random.default_rng(2)))
    assert not list(draws(Space(("a",), ("a",), (1,)), np.random.default_rng(1)))


def test_outcomes_and_dimensions_are_as_likely_as_each_other():
    names = tuple("abcdefghij")
    space = Space(("a", "b"), names, (1, 3))
    # 9 draws with one condition, 84 with three: of the first 8, half have one.
    first = [next(draws(space, np.random.default_rng(seed))) for seed in range(2000)]
    share = np.mean([len(given) == 1 for _, given in first])
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / 2000)
    assert abs(np.mean([one.outcome == "a" for one in first]) - 0.5) < 4 * math.sqrt(0.25 / 2000)


def test_normalised_information_of_known_tables():
    assert normalised_information(np.array([[1.0, 1], [1, 1]])) == pytest.approx(0, abs=1e-12)
    # One is a function of the other, however coarse.
    assert normalised_information(np.array([[2.0, 0], [0, 1], [0, 3]])) == pytest.approx(1)
    # (1/2, 1/2) both; I = log 2 - H(0.9): 0.6931 - 0.3251 = 0.3681, over 0.6931.
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1))
    wanted = (math.log(2) - entropy) / math.log(2)
    assert normalised_information(np.array([[0.45, 0.05], [0.05, 0.45]])) == pytest.approx(wanted)
    assert wanted == pytest.approx(0.5310, abs=1e-4)
    assert normalised_information(np.array([[1.0, 3]])) == 0


def refused(data, outcome, *given, replicates=40):
    record = data.record
    task = making._task(data, Draw(outcome, given), 7, 1)
    assert record.survey == task.survey
    return slices.refusal(data, task, Informed(data), replicates)


#: A draw that breaks one rule only, the rule, and a limit under which it would be kept.
BROKEN = {
    "declared": (("happy", "sex"), None),
    "the same variables the other way round": (("happy", "mood"), None),
    "recoded": (("happy", "age", "generation"), ("SAME", 1.01)),
    "common": (("rare", "region"), ("COMMON", 0.995)),
    "small": (("happy", "town"), ("LARGE", 3)),
    "short": (("coin", "region"), ("TOLD", -math.inf)),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_draw_that_breaks_one_rule_is_refused_for_it_alone(data, declare, raw, case, monkeypatch):
    drawn, limit = BROKEN[case]
    assert refused(data, *drawn) == (case if case in slices.REASONS else "declared")
    if limit is not None:
        monkeypatch.setattr(slices, *limit)
        assert refused(data, *drawn) is None
    else:
        other = "happy" if drawn[1] == "mood" else "sex"
        declare(f"given: [{other}], title", "given: [town], title")
        changed = building.read(catalogue.record("toy"), [raw], None, every=True)[0]
        assert refused(changed, *drawn) is None


def test_what_breaks_no_rule_is_kept(data):
    assert refused(data, "happy", "region") is None
    assert refused(data, "mood", "sex", "age") is None
    assert refused(data, "happy", "sex", "region") is None  # more variables than are declared


def test_a_condition_that_nearly_nobody_has_is_empty(data):
    assert refused(data, "happy", "never") == "empty"


def test_a_condition_of_a_part_of_the_population(raw, declare):
    rake = """adjustments:
      - method: rake
        reason: Some regions lack mood.
        outcomes: [mood]
        margins: [{variables: [region]}]
"""
    listed = yaml.safe_load(RECORD)
    listed["vintages"]["2020"]["adjustments"] = yaml.safe_load(rake)["adjustments"]
    catalogue.own_files()[0].write_text(yaml.safe_dump(listed, sort_keys=False))
    data = building.read(catalogue.record("toy"), [raw], None, every=True)[0]
    assert refused(data, "happy", "region", "mood") == "part"
    assert refused(data, "mood", "region") is None


SUBJECTS = """
    - {outcome: happy, given: [region], title: a, universe: [{column: AGE, codes: [2, 3]}],
       subject: "an adult in {year} who {conditions}"}
    - {outcome: happy, given: [age], title: b, universe: [{column: AGE, codes: [2, 3]}],
       subject: "an adult in {year} who {conditions}"}
    - {outcome: rare, given: [region], title: c, subject: "a person living in {conditions}"}
    - {outcome: coin, given: [region], title: d, universe: [{column: AGE, codes: [2]}],
       subject: "a person living in {conditions}"}
"""


def test_who_is_asked_is_what_most_declared_tasks_say(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(RECORD + SUBJECTS)
    record = load_record(path)
    universe, subject = slices.who_is_asked(record, "happy")
    assert universe[0].codes == ((2, 2), (3, 3)) and subject == (
        "an adult in {year} who {conditions}"
    )
    assert slices.who_is_asked(record, "mood") == ((), None)
    # Only subjects that a state follows, and everybody is asked: the record's own.
    assert slices.who_is_asked(record, "rare") == ((), None)
    # Nobody can say of whom the coin is asked in another subject.
    assert slices.who_is_asked(record, "coin") is None
    assert slices._is_phrased(record, "region")
    path.write_text(RECORD + SUBJECTS.replace("happy, given: [region]", "happy, given: [town]"))
    assert not slices._is_phrased(load_record(path), "region")


def test_of_equally_many_the_first(tmp_path):
    """One declared task of everybody and one of adults."""
    path = tmp_path / "toy.yaml"
    path.write_text(RECORD + SUBJECTS.replace("happy, given: [age]", "mood, given: [age]"))
    assert slices.who_is_asked(load_record(path), "happy") == ((), None)


def test_universe_and_subject_are_taken_over(raw, home, declare):
    catalogue.own_files()[0].write_text(RECORD + SUBJECTS)
    found = made(raw, outcomes=["happy"], dimension=[2], n=2)
    task = found.plan.found.tasks[0]
    truth = store.load(task.name)
    assert task.universe[0].column == "AGE"
    assert "Consider an adult in 2020 who" in questions(task.name).prompt[0]
    frame = people()
    assert truth.n.sum() < (frame.AGE.isin([2, 3])).sum() + 1


# What is built.


def test_the_same_bytes_again_and_with_two_processes(raw, declare):
    first = made(raw)
    before = contents(first.folder)
    assert set(before) == {
        "tasks.yaml",
        "registry.json",
        "toy_2020.cells.parquet",
        "toy_2020.bootstrap.parquet",
        "toy_2020.replicates.parquet",
    }
    for name in before:
        (first.folder / name).unlink()
    made(raw, jobs=2)
    assert contents(first.folder) == before
    # What is missing is made again.
    for name in before:
        (first.folder / name).unlink()
        made(raw)
        assert contents(first.folder) == before, name


def test_too_few_replicates_are_refused_before_anything_is_drawn(raw, declare):
    for number in (0, 1, 3):
        with pytest.raises(EpidemiaError, match=rf"--replicates {number} is too few .* at least 4"):
            planned(raw, replicates=number)


def test_another_seed_draws_others_and_more_begin_with_the_same(raw, declare):
    def drawn(**options):
        return [(one.outcome, one.given) for one in planned(raw, **options).found.tasks]

    eight = drawn()
    assert drawn() == eight
    assert drawn(n=3) == eight[:3]
    assert drawn(seed=8) != eight
    assert {len(given) for _, given in drawn(dimension=[2])} == {2}
    assert {outcome for outcome, _ in drawn(outcomes=["mood"])} == {"mood"}


def test_counts_of_draws_add_up(raw, declare):
    found = planned(raw, n=1000)
    drawn = found.found.draws
    assert drawn.tried == found.size == drawn.kept + sum(drawn.refused.values())
    assert set(drawn.refused) <= set(slices.REASONS) and drawn.refused["declared"] == 3
    assert "fewer than the 1000 asked for: nothing else is left to draw" in found.lacking
    assert f"{drawn.kept} of {drawn.tried} draws kept; refused: 3 the survey declares" in found.said
    assert not planned(raw).lacking


def test_draws_that_are_given_up(raw, declare, monkeypatch):
    monkeypatch.setattr(making, "ATTEMPTS", 1)
    found = planned(raw, n=30)
    assert found.found.draws.tried == 30 > found.found.draws.kept
    assert "after 30 of" in found.lacking


def test_truth_scores_100_and_uniform_0_on_all_of_them(raw, declare):
    found = made(raw)
    group = found.plan.found.group
    names = [task.name for task in found.plan.found.tasks]
    assert {len(t.given) for t in found.plan.found.tasks} == {1, 2, 3}
    for kind, score in (("truth", 100), ("uniform", 0)):
        results = evaluate([group], model_args=f"kind={kind}")["results"]
        assert [results[name]["score,none"] for name in names] == [score] * len(names)
    assert not {name: wrong for name, wrong in check_all().items() if wrong and name in names}


def test_they_are_found_in_every_way_of_asking(raw, declare):
    before = yamls.task_path()
    found = made(raw)
    assert yamls.task_path() != before
    first = found.plan.found.tasks[0].name
    assert first == "epidemia_fresh_toy_7_01"
    for group in ("epidemia_fresh", "epidemia_fresh_toy_7"):
        assert members(group)[0] == (first, "letters")
        for way in ("likelihood", "sampled"):
            assert members(f"{group}_{way}")[0] == (first, way)
            assert (yamls.task_path() / way / f"epidemia_fresh_{way}.yaml").is_file()
    # The survey's name means what its record declares.
    building.build("toy", raw, replicates=8, progress=False)
    assert not any("fresh" in name for name, _ in members("toy"))
    listed = tasks("toy")
    assert (listed.group == "epidemia_fresh").sum() == 8
    assert {*listed[listed.group == "epidemia_fresh"].state} == {"built here"}
    results = evaluate(["epidemia_fresh_toy_7_likelihood"], model_args="kind=truth")["results"]
    assert results["epidemia_fresh_toy_7_likelihood"]["score,none"] > 50


def test_results_say_the_seed_and_the_record(raw, declare):
    found = made(raw).plan.found
    said = evaluate([found.tasks[0].name], limit=1)["configs"][found.tasks[0].name]["metadata"]
    assert said["seed"] == "7" and said["record"] == found.record[:12]
    assert said["truth"] == store.load(found.tasks[0].name).fingerprint


def test_many_answers_and_several_conditions_are_counted(raw, declare):
    found = made(raw, outcomes=["mood"], dimension=[2], n=1).plan.found.tasks[0]
    truth = store.load(found.name)
    frame = pd.DataFrame(
        {name: labelled(name) for name in (*found.given, "mood")} | {"W": people().W}
    )
    cells = frame.groupby(list(found.given)).W.sum()
    for labels, row in zip(truth.given, truth.p, strict=True):
        here = frame[(frame[list(found.given)] == labels).all(axis=1)].groupby("mood").W.sum()
        assert (here / cells[labels]).reindex(truth.levels, fill_value=0).tolist() == (
            pytest.approx(row.tolist())
        )


def labelled(name):
    """The label of everybody's level of a variable."""
    way = catalogue.record("toy").variables[name][0]
    codes = {int(low): level.label for level in way.levels for low, _ in level.intervals}
    codes |= {int(high): level.label for level in way.levels for _, high in level.intervals}
    return people()[way.column].map(codes)


def test_scales_are_as_the_rule_has_them(raw, declare):
    found = made(raw, n=20)
    assert not found.short
    for task in found.plan.found.tasks:
        anchors = Anchors.of(store.load(task.name))
        assert anchors.zero - anchors.perfect > 0.5 * anchors.zero


def test_an_interrupted_build_goes_on(raw, declare, monkeypatch):
    estimate, done = building.estimate_task, []

    def stops(ready, *arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(ready.task.name)
        return estimate(ready, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(building, "estimate_task", stops)
        with pytest.raises(KeyboardInterrupt):
            made(raw)
    assert not catalogue.fresh_sets()
    again = []
    with monkeypatch.context() as patched:
        patched.setattr(
            building, "estimate_task", lambda r, *a: again.append(r.task.name) or estimate(r, *a)
        )
        made(raw)
    assert len(again) == 5 and not set(again) & set(done)


def test_a_set_that_is_there_is_left_and_another_asks_for_replace(raw, declare, monkeypatch):
    first = made(raw)
    before = contents(first.folder)
    with monkeypatch.context() as patched:
        patched.setattr(building, "build_tasks", lambda *a, **k: pytest.fail("built again"))
        made(raw)
    assert contents(first.folder) == before
    for other in ({"n": 5}, {"dimension": [1]}, {"outcomes": ["mood"]}, {"replicates": 10}):
        with pytest.raises(EpidemiaError, match="--replace to put this one in its place"):
            made(raw, **other)
    assert contents(first.folder) == before
    made(raw, n=5, replace=True)
    assert len(catalogue.fresh_sets()[first.folder].tasks) == 5
    assert len(members("epidemia_fresh")) == 5


# Whose replicates.


def test_declared_and_fresh_tasks_of_one_file_share_their_replicates(raw, declare):
    building.build("toy", raw, replicates=8, progress=False)
    found = made(raw)
    assert found.is_joint
    declared = store.load("epidemia_extra_toy_happy_by_sex")
    assert {store.load(task.name).sample for task in found.plan.found.tasks} == {declared.sample}


def test_of_another_file_or_number_they_are_apart(raw, declare, tmp_path):
    building.build("toy", raw, replicates=10, progress=False)
    declared = store.load("epidemia_extra_toy_happy_by_sex").sample
    one, two = made(raw), made(raw, seed=8)
    assert not one.is_joint and not two.is_joint
    names = {store.load(found.plan.found.tasks[0].name).sample for found in (one, two)}
    assert len(names) == 1 and names != {declared}
    assert next(iter(names)).startswith("toy_2020-fresh ")
    other = tmp_path / "toy.csv"
    people(4).to_csv(other, index=False)
    assert not made(other, seed=9, replicates=10).is_joint
    assert store.load("epidemia_fresh_toy_9_01").sample not in names


# What is left out.


def test_a_set_whose_record_has_changed_is_left_out(raw, declare, caplog):
    found = made(raw)
    declare("title: A toy survey", "title: The toy survey")
    assert found.folder in catalogue.fresh_sets()  # what nobody is asked, or drawn by
    declare("is happy, codes", "is glad, codes")
    with caplog.at_level(logging.WARNING):
        assert not catalogue.fresh_sets()
    assert "the record of toy has changed since it was drawn; make it anew: epidemia tasks" in (
        caplog.text
    )
    assert "--n 8 --seed 7 --dimension 1,2,3 --replicates 8 --replace" in caplog.text
    assert "epidemia_fresh_toy_7_01" not in leaves()
    with pytest.raises(EpidemiaError, match="--replace"):
        made(raw)
    before = found.plan.found.record
    again = made(raw, replace=True)
    assert catalogue.fresh_sets()[again.folder].record != before
    assert store.available()["epidemia_fresh_toy_7_01"].folder == again.folder


def test_other_words_of_the_same_numbers_are_another_truth(raw, declare):
    made(raw, n=2, dimension=[1])
    before = store.load("epidemia_fresh_toy_7_01").fingerprint
    declare("Is this person happy?", "Would they say that they are happy?")
    made(raw, n=2, dimension=[1], replace=True)
    assert store.load("epidemia_fresh_toy_7_01").fingerprint != before


WRONG = {
    "no YAML": (lambda text: "tasks: [", "cannot be read"),
    "nothing": (lambda text: "", "is damaged"),
    "another seed": (lambda text: text.replace("seed: 7", "seed: 8"), "must be called so"),
    "no tasks": (lambda text: text[: text.index("tasks:\n")] + "tasks: []\n", "is damaged"),
    "a field too many": (lambda text: text + "more: 1\n", "is damaged"),
    "edited": (lambda text: text.replace("title: 'TOY", "title: 'Toy"), "is not that of the tasks"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_damaged_set_is_left_out_alone(raw, declare, caplog, case):
    path = made(raw, n=2, dimension=[1]).folder / "tasks.yaml"
    made(raw, seed=11, n=2, dimension=[1])
    change, said = WRONG[case]
    text = change(path.read_text())
    assert text != path.read_text()
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        here = [name for name in store.available() if "_fresh_" in name]
    assert here == ["epidemia_fresh_toy_11_01", "epidemia_fresh_toy_11_02"]
    assert "a set of fresh tasks is left out" in caplog.text and said in caplog.text


@pytest.mark.parametrize("name", ["registry.json", "toy_2020.cells.parquet"])
@pytest.mark.parametrize("text", ["", "{", None])
def test_a_damaged_truth_is_left_out_alone(raw, declare, caplog, name, text):
    path = made(raw, n=2, dimension=[1]).folder / name
    made(raw, seed=11, n=2, dimension=[1])
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with caplog.at_level(logging.WARNING):
        here = [name for name in store.available() if "_fresh_" in name]
    assert here == ["epidemia_fresh_toy_11_01", "epidemia_fresh_toy_11_02"]
    assert "left out" in caplog.text and "epidemia tasks fresh toy --raw FILE" in caplog.text


# The command.


def command(*arguments):
    done = CliRunner().invoke(app, ["tasks", "fresh", *map(str, arguments)])
    return done


def test_the_command_lists_builds_and_says_what_was_refused(raw, declare, home):
    options = ("toy", "--raw", raw, "--n", 5, "--seed", 7, "--replicates", 8)
    done = command(*options, "--list")
    assert done.exit_code == 0, done.output
    assert "epidemia_fresh_toy_7_05" in done.output and "draws kept" in done.output
    assert not (home / "fresh").exists()
    done = command(*options)
    assert done.exit_code == 0, done.output
    assert "5 tasks of toy 2020 are in" in done.output
    assert "takes the two as independent" in done.output
    assert len(members("epidemia_fresh_toy_7")) == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n", 0], "--n 0: at least 1"),
        (["--seed", -1], "--seed -1 is negative"),
        (["--dimension", "0"], "a fresh task has 1 to 3 conditions"),
        (["--dimension", "1,4"], "--dimension 4"),
        (["--dimension", "one"], "expected numbers of conditions"),
        (["--dimension", ""], "expected numbers of conditions"),
        (["--outcomes", "hapy"], "no variable 'hapy' .nearest: happy"),
        (["--outcomes", "sex"], "sex has no 'question'"),
        (["--vintage", "2021"], "no vintage '2021'"),
        (["--replicates", 2], "too few for a quantile"),
    ],
)
def test_what_cannot_be_meant_is_refused(raw, declare, options, said):
    done = command("toy", "--raw", raw, *options)
    assert isinstance(done.exception, EpidemiaError)
    assert re.search(said, str(done.exception)), done.exception


def test_seeds_are_whole_numbers(raw, declare):
    assert command("toy", "--raw", raw, "--seed", "x").exit_code == 2


def test_unknown_surveys_tables_and_files_without_columns(raw, declare, tmp_path):
    with pytest.raises(EpidemiaError, match=r"no survey 'toi' .nearest: toy"):
        plan("toi", [raw])
    with pytest.raises(EpidemiaError, match="published as tables"):
        plan("bls", [raw])
    with pytest.raises(EpidemiaError, match="toy is a survey of your own: give its file"):
        raise command("toy").exception
    lacking = tmp_path / "toy.csv"
    people().drop(columns="HAPPY").to_csv(lacking, index=False)
    with pytest.raises(EpidemiaError, match="lacks columns of toy 2020: happy needs HAPPY"):
        plan("toy", [lacking], progress=False)
    people().drop(columns="RARE").to_csv(lacking, index=False)
    with pytest.raises(EpidemiaError, match="lacks the column of rare"):
        plan("toy", [lacking], outcomes=["rare"], progress=False)


def test_nothing_to_keep(raw, declare):
    with pytest.raises(EpidemiaError, match=r"none of .* draws from toy 2020 can be kept .*answer"):
        planned(raw, outcomes=["rare"])


def test_a_record_with_another_word_before_conditions():
    """What a household owns is no clause of its reference person."""
    record = catalogue.record("scf")
    ways = {name: record.variables[name][0] for name in record.variables}
    from lm_eval_epidemia.elicit.prompts import question

    def asked(*given):
        task = FreshTask(title="t", outcome="debt", given=given, survey="scf", seed=1, number=1)
        labels = [ways[name].levels[0].label for name in given]
        return question(record, "2022", task, ways, labels)

    assert "whose reference person is male and which owns its home. How much" in asked(
        "home_ownership", "sex"
    )
    assert "household in the United States in 2022 which owns its home. How" in asked(
        "home_ownership"
    )


def test_a_set_is_hashed_by_what_it_depends_on(tmp_path, declare):
    record = catalogue.record("toy")
    before = fresh.hash_of(record, "2020")
    for old, new, same in (
        ("licence: none", "licence: some", True),
        ("who {conditions}", "that {conditions}", False),
        ("weight: W,", "weight: STRATUM,", False),
        ("given: [sex]", "given: [region]", False),
        ("label: Young", "label: Younger", False),
        ("column: TOWN", "column: AGE", False),
    ):
        declare(old, new)
        assert (fresh.hash_of(catalogue.record("toy"), "2020") == before) == same, old


def test_json_of_the_registry_says_whose_tasks_these_are(raw, declare):
    found = made(raw)
    registry = json.loads((found.folder / "registry.json").read_text())
    said = registry["truths"]["toy_2020"]["fresh"]
    assert said["seed"] == 7 and said["record"] == found.plan.found.record
