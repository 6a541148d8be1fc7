"""Fresh tasks: what is drawn and refused, the bytes of a set, how it is found and left out."""

import json
import logging
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import toy_survey
import yaml
from conftest import REPOSITORY, evaluate
from toy_survey import contents
from typer.testing import CliRunner

from lm_eval_epidemia.api import questions, tasks
from lm_eval_epidemia.ask.prompts import TaskQuestions
from lm_eval_epidemia.benchmarks import find_tasks, list_leaves
from lm_eval_epidemia.benchmarks.observation import fresh as making
from lm_eval_epidemia.benchmarks.observation.fresh import (
    Draw,
    Space,
    build_set,
    cache_information,
    draws,
    normalised_information,
    plan_set,
)
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import boosted, estimators, store
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate.check import find_all_faults
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys import catalogue, fresh
from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.microdata import load_microdata

ROWS = 6000
#: Of boosting, in processes of their own: here there are few.
ROUNDS = boosted.ROUNDS
#: A set that is made quickly.
FEW = {"n": 2, "dimension": [1]}
#: Levels of `town` that few people live in: about 12 records each. The record says so too.
TOWNS = 80

#: The toy survey, and tasks that name who is asked.
RECORD, SUBJECTS = (REPOSITORY / "tests/data/toy_fresh.yaml").read_text().split("---\n")


def people(seed=3):
    """Invented people: happiness and mood depend on sex, region and age, a coin on nothing."""
    rng = np.random.default_rng(seed)
    numbers = {"SEX": (1, 3), "REGION": (1, 4), "AGE": (1, 5)}
    frame = pd.DataFrame({name: rng.integers(*ends, ROWS) for name, ends in numbers.items()})
    frame = frame.assign(W=rng.gamma(5, 10, ROWS), STRATUM=np.arange(ROWS) % 30)
    frame["PSU"] = rng.integers(1, 3, ROWS)
    far = rng.random(ROWS) < 0.16
    frame["TOWN"] = np.where(far, rng.integers(1, TOWNS + 1, ROWS), 0)
    share = 0.05 + 0.1 * frame["SEX"] + 0.05 * frame["REGION"] * frame["AGE"]
    frame["HAPPY"] = (rng.random(ROWS) < share).astype(int)
    frame["MOOD"] = 1 + (rng.random(ROWS) < 0.25 * frame["SEX"]) + (rng.random(ROWS) < 0.2)
    frame["RARE"] = (rng.random(ROWS) < 0.012).astype(int)
    frame["COIN"] = np.arange(ROWS) % 2
    frame["NEVER"] = np.where(np.arange(ROWS) < 5990, np.nan, 1)
    return frame


@pytest.fixture(autouse=True)
def quick_boosting(monkeypatch):
    few_rounds(monkeypatch)


def few_rounds(patch):
    """Boost as little as possible; what comes out is not what large cells count."""
    patch.setattr(boosted, "ROUNDS", 4)
    patch.setattr(estimators, "COUNTABLE", math.inf)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.csv"
    people().to_csv(path, index=False)
    return path


@pytest.fixture
def declare(home):
    """Declare the toy survey, as it is or changed."""

    def declare(old="", new=""):
        assert old in RECORD
        toy_survey.declare(home, RECORD.replace(old, new) if old else RECORD)

    declare()
    return declare


@pytest.fixture(scope="module")
def sets(raw, tmp_path_factory):
    """A home with sets that no test changes: it copies them."""
    home = tmp_path_factory.mktemp("sets")
    toy_survey.declare(home, RECORD)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("EPIDEMIA_HOME", str(home))
        look_at_disk()
        few_rounds(patched)
        made(raw)
        for seed in (11, 12):
            made(raw, seed=seed, **FEW)
    return home / "fresh"


@pytest.fixture
def first(raw, home, declare, sets):
    """The set of eight tasks with the seed 7."""
    shutil.copytree(sets / "toy_7", home / "fresh" / "toy_7")
    look_at_disk()
    return made(raw)


def read(raw):
    return load_microdata(catalogue.find_record("toy"), [raw], every=True)


@pytest.fixture
def data(raw, declare):
    return read(raw)


def planned(raw, **options):
    options = {"n": 8, "seed": 7, "replicates": 8, **options}
    return plan_set("toy", [raw], progress=False, **options)


def made(raw, jobs=1, replace=False, **options):
    return build_set(planned(raw, **options), jobs=jobs, replace=replace, progress=False)


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
    task = making._make_task(data, Draw(outcome, given), 7, 1)
    assert record.survey == task.survey
    return making.refusal(data, task, cache_information(data), replicates)


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
    assert refused(data, *drawn) == (case if case in making.REASONS else "declared")
    if limit is not None:
        monkeypatch.setattr(making, *limit)
        assert refused(data, *drawn) is None
    else:
        other = "happy" if drawn[1] == "mood" else "sex"
        declare(f"given: [{other}], title", "given: [town], title")
        assert refused(read(raw), *drawn) is None


def test_what_breaks_no_rule_is_kept(data):
    for draw in (("happy", "region"), ("mood", "sex", "age"), ("happy", "sex", "region")):
        assert refused(data, *draw) is None
    # Nearly nobody has it.
    assert refused(data, "happy", "never") == "empty"


def test_a_condition_of_a_part_of_the_population(raw, home, declare):
    rule = {"method": "rake", "reason": "Some regions lack mood.", "outcomes": ["mood"]}
    listed = yaml.safe_load(RECORD)
    listed["vintages"]["2020"]["adjustments"] = [{**rule, "margins": [{"variables": ["region"]}]}]
    toy_survey.declare(home, yaml.safe_dump(listed, sort_keys=False))
    data = read(raw)
    assert refused(data, "happy", "region", "mood") == "part"
    assert refused(data, "mood", "region") is None


def test_who_is_asked_is_what_most_declared_tasks_say(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(RECORD + SUBJECTS)
    record = load_record(path)
    universe, subject = making.who_is_asked(record, "happy")
    assert universe[0].codes == ((2, 2), (3, 3))
    assert subject == "an adult in {year} who {conditions}"
    assert making.who_is_asked(record, "mood") == ((), None)
    # Only subjects that a state follows, and everybody is asked: the record's own.
    assert making.who_is_asked(record, "rare") == ((), None)
    # Nobody can say of whom the coin is asked in another subject.
    assert making.who_is_asked(record, "coin") is None
    assert making._is_phrased(record, "region")
    path.write_text(RECORD + SUBJECTS.replace("happy, given: [region]", "happy, given: [town]"))
    assert not making._is_phrased(load_record(path), "region")
    # One declared task of everybody and one of adults: of equally many the first.
    path.write_text(RECORD + SUBJECTS.replace("happy, given: [age]", "mood, given: [age]"))
    assert making.who_is_asked(load_record(path), "happy") == ((), None)


def test_universe_and_subject_are_taken_over(raw, home, declare):
    toy_survey.declare(home, RECORD + SUBJECTS)
    found = made(raw, outcomes=["happy"], dimension=[2], n=1)
    task = found.plan.fresh_set.tasks[0]
    truth = store.load_truth(task.name)
    assert task.universe[0].column == "AGE"
    assert "Consider an adult in 2020 who" in questions(task.name).prompt[0]
    frame = people()
    assert truth.n.sum() < (frame.AGE.isin([2, 3])).sum() + 1


# What is built.


def test_the_same_bytes_again_and_with_two_processes(raw, home, declare, sets, monkeypatch):
    # What is missing is made again.
    folder = shutil.copytree(sets / "toy_11", home / "fresh" / "toy_11")
    before = contents(folder)
    tables = (f"toy_2020.{table}.parquet" for table in ("cells", "bootstrap", "replicates"))
    assert set(before) == {"tasks.yaml", "registry.json", *tables}
    for name in before:
        (folder / name).unlink()
        look_at_disk()
        made(raw, seed=11, **FEW)
        assert contents(folder) == before, name
    monkeypatch.setattr(boosted, "ROUNDS", ROUNDS)  # as other processes boost
    several = {"n": 2, "replicates": 4, "dimension": [2]}
    before = contents(made(raw, **several).folder)
    shutil.rmtree(home / "fresh" / "toy_7")
    look_at_disk()
    assert contents(made(raw, 2, **several).folder) == before


def test_another_seed_draws_others_and_more_begin_with_the_same(raw, declare):
    def drawn(**options):
        return [(one.outcome, one.given) for one in planned(raw, **options).fresh_set.tasks]

    eight = drawn()
    assert drawn() == eight
    assert drawn(n=3) == eight[:3]
    assert drawn(seed=8) != eight
    assert {len(given) for _, given in drawn(dimension=[2])} == {2}
    assert {outcome for outcome, _ in drawn(outcomes=["mood"])} == {"mood"}


def test_counts_of_draws_add_up(raw, declare):
    found = planned(raw, n=1000)
    drawn = found.fresh_set.draws
    assert drawn.tried == found.size == drawn.kept + sum(drawn.refused.values())
    assert set(drawn.refused) <= set(making.REASONS) and drawn.refused["declared"] == 3
    assert "fewer than the 1000 asked for: nothing else is left to draw" in found.lacking
    assert f"{drawn.kept} of {drawn.tried} draws kept; refused: 3 the survey declares" in found.said
    assert not planned(raw).lacking


def test_draws_that_are_given_up(raw, declare, monkeypatch):
    monkeypatch.setattr(making, "ATTEMPTS", 1)
    found = planned(raw, n=30)
    assert found.fresh_set.draws.tried == 30 > found.fresh_set.draws.kept
    assert "after 30 of" in found.lacking
    none = r"none of .* draws from toy 2020 meets the conditions .*answer"
    with pytest.raises(EpidemiaError, match=none):
        planned(raw, outcomes=["rare"])


def test_truth_scores_100_and_uniform_0_in_every_way_of_asking(raw, first):
    drawn, before = first.plan.fresh_set, set(list_leaves())
    names = [task.name for task in drawn.tasks]
    assert names[0] == "epidemia_fresh_toy_7_01" and before.issuperset(names)
    assert {len(task.given) for task in drawn.tasks} == {1, 2, 3}
    for kind, score in (("truth", 100), ("uniform", 0)):
        results = evaluate([drawn.group], model_args=f"kind={kind}")
        assert [results["results"][name]["score,none"] for name in names] == [score] * len(names)
    assert not {name: wrong for name, wrong in find_all_faults().items() if wrong and name in names}
    # They say the seed and the record.
    said = results["configs"][names[0]]["metadata"]
    assert said["seed"] == "7" and said["record"] == drawn.record[:12]
    assert said["truth"] == store.load_truth(names[0]).fingerprint
    registry = json.loads((first.folder / "registry.json").read_text())["truths"]["toy_2020"]
    assert registry["fresh"]["seed"] == 7 and registry["fresh"]["record"] == drawn.record
    for group in ("epidemia_fresh", drawn.group):
        assert find_tasks(group)[0] == (names[0], "letters")
        for way in ("likelihood", "sampled"):
            assert find_tasks(f"{group}_{way}")[0] == (names[0], way)
            assert (yamls.task_path() / way / f"epidemia_fresh_{way}.yaml").is_file()
    likelihood = [f"{name}_likelihood" for name in names]
    scores = evaluate(likelihood)["results"]
    assert np.mean([scores[name]["score,none"] for name in likelihood]) > 50
    listed = tasks("toy")
    assert (listed.group == "epidemia_fresh").sum() == 8
    assert {*listed[listed.group == "epidemia_fresh"].state} == {"built here"}


def test_scales_are_as_the_rule_has_them(first):
    assert not first.short
    for task in first.plan.fresh_set.tasks:
        anchors = Anchors.of(store.load_truth(task.name))
        assert anchors.zero - anchors.perfect > 0.5 * anchors.zero


def test_many_answers_and_several_conditions_are_counted(raw, declare):
    found = made(raw, outcomes=["mood"], dimension=[2], n=1).plan.fresh_set.tasks[0]
    truth = store.load_truth(found.name)
    frame = pd.DataFrame({name: labelled(name) for name in (*found.given, "mood")})
    cells = [frame[name] for name in found.given]
    counted = pd.crosstab(cells, frame.mood, people().W, aggfunc="sum", normalize="index")
    expected = counted.reindex(index=truth.given, columns=truth.levels, fill_value=0)
    assert truth.p == pytest.approx(expected.to_numpy())


def labelled(name):
    """The label of everybody's level of a variable."""
    way = catalogue.find_record("toy").variables[name][0]
    codes = {end: level.label for level in way.levels for ends in level.intervals for end in ends}
    return people()[way.column].map(codes)


def test_an_interrupted_build_goes_on(raw, declare, monkeypatch):
    few = {"n": 4, "replicates": 4}
    estimate, done, again = building.estimate_task, [], []

    def stops(ready, *arguments):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(ready.task.name)
        return estimate(ready, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(building, "estimate_task", stops)
        with pytest.raises(KeyboardInterrupt):
            made(raw, **few)
    assert not catalogue.fresh_sets()
    monkeypatch.setattr(
        building, "estimate_task", lambda r, *a: again.append(r.task.name) or estimate(r, *a)
    )
    made(raw, **few)
    assert len(again) == 2 and not set(again) & set(done)


def test_another_set_asks_for_replace(raw, first):
    before = contents(first.folder)
    for other in ({"n": 5}, {"dimension": [1]}, {"outcomes": ["mood"]}, {"replicates": 10}):
        with pytest.raises(EpidemiaError, match="or replace that set with --replace"):
            made(raw, **other)
    assert contents(first.folder) == before
    made(raw, n=2, replace=True)
    assert len(catalogue.fresh_sets()[first.folder].tasks) == 2
    assert len(find_tasks("epidemia_fresh")) == 2


# Whose replicates.


def test_declared_and_fresh_tasks_of_one_file_share_their_replicates(raw, declare, tmp_path):
    building.build_survey("toy", raw, replicates=8, progress=False)
    # The survey's name means what its record declares.
    assert not any("fresh" in name for name, _ in find_tasks("toy"))
    declared = store.load_truth("epidemia_extra_toy_happy_by_sex").sample

    def sample(raw, seed, **options):
        found = made(raw, seed=seed, **FEW, **options)
        return store.load_truth(found.plan.fresh_set.tasks[0].name).sample, found.is_joint

    assert sample(raw, 7) == (declared, True)
    # Of another number they are apart, and alike; of another file apart from these.
    one, other = (sample(raw, seed, replicates=10) for seed in (8, 9))
    assert one == other and one[0].startswith("toy_2020-fresh ") and not one[1]
    people(4).to_csv(tmp_path / "toy.csv", index=False)
    name, is_joint = sample(tmp_path / "toy.csv", 10)
    assert not is_joint and name not in (declared, one[0])


# What is left out.


def test_a_set_whose_record_has_changed_is_left_out(raw, declare, first, caplog):
    found = first
    declare("title: A toy survey", "title: The toy survey")
    assert found.folder in catalogue.fresh_sets()  # what nobody is asked, or drawn by
    declare("is happy, codes", "is glad, codes")
    with caplog.at_level(logging.WARNING):
        assert not catalogue.fresh_sets()
    said = "record of toy has changed since these tasks were drawn; draw them again: epidemia tasks"
    assert said in caplog.text
    assert "--n 8 --seed 7 --dimension 1,2,3 --replicates 8 --replace" in caplog.text
    assert "epidemia_fresh_toy_7_01" not in list_leaves()
    with pytest.raises(EpidemiaError, match="--replace"):
        made(raw)
    before = found.plan.fresh_set.record
    again = made(raw, replace=True)
    assert catalogue.fresh_sets()[again.folder].record != before
    assert store.list_available()["epidemia_fresh_toy_7_01"].folder == again.folder


def test_other_words_of_the_same_numbers_are_another_truth(raw, declare):
    made(raw, **FEW)
    before = store.load_truth("epidemia_fresh_toy_7_01").fingerprint
    declare("Is this person happy?", "Would they say that they are happy?")
    made(raw, **FEW, replace=True)
    assert store.load_truth("epidemia_fresh_toy_7_01").fingerprint != before


WRONG = {
    "no YAML": (lambda text: "tasks: [", "cannot be read"),
    "nothing": (lambda text: "", "is damaged"),
    "another seed": (lambda text: text.replace("seed: 11", "seed: 8"), "rename its folder to that"),
    "no tasks": (lambda text: text[: text.index("tasks:\n")] + "tasks: []\n", "is damaged"),
    "a field too many": (lambda text: text + "more: 1\n", "is damaged"),
    "edited": (
        lambda text: text.replace("title: 'TOY", "title: 'Toy"),
        "does not belong to the tasks",
    ),
}


def test_a_damaged_set_or_truth_is_left_out_alone(declare, home, sets, caplog):
    """The one with the seed 11, beside a sound one."""
    shutil.copytree(sets, home / "fresh")
    folder = home / "fresh" / "toy_11"
    text = (folder / "tasks.yaml").read_text()
    damages = [("tasks.yaml", change(text), said) for change, said in WRONG.values()]
    assert text not in [damaged for _, damaged, _ in damages]
    mend = "epidemia tasks fresh toy --raw FILE"
    truth = ("registry.json", "toy_2020.cells.parquet")
    damages += [(name, damaged, mend) for name in truth for damaged in ("", "{", None)]
    for name, damaged, said in damages:
        before = (folder / name).read_bytes()
        (folder / name).unlink()
        if damaged is not None:
            (folder / name).write_text(damaged)
        look_at_disk()
        notices.forget()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            here = {n.rpartition("_")[0] for n in store.list_available() if "_fresh_" in n}
        assert here == {"epidemia_fresh_toy_7", "epidemia_fresh_toy_12"}, (name, damaged)
        assert "left out" in caplog.text and said in caplog.text, (name, damaged)
        (folder / name).write_bytes(before)


# The command.


def command(*arguments):
    return CliRunner().invoke(app, ["tasks", "fresh", *map(str, arguments)])


def test_the_command_lists_builds_and_says_what_was_refused(raw, declare, home):
    options = ("toy", "--raw", raw, "--n", 5, "--seed", 7, "--replicates", 8)
    done = command(*options, "--list")
    assert done.exit_code == 0, done.output
    assert "epidemia_fresh_toy_7_05" in done.output and "draws kept" in done.output
    assert not (home / "fresh").exists()
    done = command(*options)
    assert done.exit_code == 0, done.output
    assert "5 tasks of toy 2020 are in" in done.output
    assert "take the two as independent" in done.output
    assert len(find_tasks("epidemia_fresh_toy_7")) == 5


def test_a_record_with_another_word_before_conditions():
    """What a household owns is no clause of its reference person."""
    record = catalogue.find_record("scf")
    ways = {name: record.variables[name][0] for name in record.variables}

    def asked(*given):
        task = FreshTask(title="t", outcome="debt", given=given, survey="scf", seed=1, number=1)
        labels = [ways[name].levels[0].label for name in given]
        return TaskQuestions(record, "2022", task, ways).question(labels)

    both = "whose reference person is male and which owns its home. How much"
    assert both in asked("home_ownership", "sex")
    alone = "household in the United States in 2022 which owns its home. How"
    assert alone in asked("home_ownership")


def test_a_set_is_hashed_by_what_it_depends_on(tmp_path, declare):
    record = catalogue.find_record("toy")
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
        assert (fresh.hash_of(catalogue.find_record("toy"), "2020") == before) == same, old
