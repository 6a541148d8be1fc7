"""The first page: who is compared with whom, which questions are drawn, who is wrong where."""

import re

import numpy as np
import pytest
from conftest import recorded
from report_parts import COCAINE, HEROIN, RACE, write
from test_finetune_report import AGE, BASE, card, put, renamed

from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import start as starting
from lm_eval_epidemia.findings import words
from lm_eval_epidemia.findings.start import make_start
from lm_eval_epidemia.report import charts
from lm_eval_epidemia.report.site.start import make_start_page
from lm_eval_epidemia.score.score import Anchors

SET = [COCAINE, HEROIN, RACE]
MUTE = {"score,none": 0.0, "l1,none": 1.9, "seen,none": 1.0, "choice_mass,none": 0.01}
NSDUH = "National Survey on Drug Use and Health"
WORTH = "epidemia_low_scf_net_worth_by_education"
DIABETES = "epidemia_low_nhanes_diabetes_by_age"


@pytest.fixture
def said(tmp_path):
    """Two models on a set; others on a part, in other words, mute, and with a limit."""

    def model(name, tasks, stamp="2026-01-01", **more):
        write(tmp_path / f"{name}-{stamp}", tasks, f"x/{name}", stamp, **more)

    model("big", dict.fromkeys(SET, (80.0, 1.0)))
    model("small", dict.fromkeys(SET, (40.0, 1.0)))
    model("part", {COCAINE: (100.0, 0.1)})
    model("mute", dict.fromkeys(SET, MUTE))
    model("big", dict.fromkeys(SET, (90.0, 1.0)), "2026-02-01", metadata={"wording": "bare"})
    return read_runs([tmp_path])


def test_a_headline_compares_the_best_with_averages_and_the_next(said):
    start, known = make_start(said), [Anchors.of(store.load_truth(task)) for task in SET]
    averages = np.mean([of.score(of.mean) for of in known])
    first, second, third = start.sentences
    assert (
        first
        == f"big knows these surveys best: 80 of 100; knowing only averages gets {averages:.0f}."
    )
    assert second == "small comes second with 40: a clear difference, on these questions."
    assert re.fullmatch(r"big is furthest off on “ever used \w+”: \d+ percentage points\.", third)
    assert all(len(text.split()) <= 20 for text in start.sentences)
    # The better score of another wording is no rival's.
    assert [said.runs["model"][run] for run in start.compared] == ["big", "small"]
    assert said.runs["wording"][start.compared[0]] == ""


def test_the_best_is_the_first_row_whichever_run_of_a_model_is_newer(tmp_path):
    for name, score, dtype, stamp in (
        ("twice", 80.0, "float32", "2026-01-01"),
        ("twice", 20.0, "bfloat16", "2026-02-01"),
        ("once", 60.0, "bfloat16", "2026-01-01"),
    ):
        how = {"config": {"model_dtype": f"torch.{dtype}"}}
        write(tmp_path / f"{name}-{dtype}", dict.fromkeys(SET, (score, 1.0)), name, stamp, **how)
    start = make_start(read_runs([tmp_path]))
    assert start.sentences[0].startswith("twice knows these surveys best: 80 of 100")
    assert start.sentences[1].startswith("once comes second with 60")
    assert start.compared == [*start.panels[0].rows["run"][:2]] == start.unknown


def test_who_answered_another_set_stands_apart_and_who_is_not_ranked_says_why(said):
    whole, part = make_start(said).panels
    assert whole.title == f"{NSDUH}: 3 of 63 questions, single condition (such as age)"
    assert part.title == f"{NSDUH}: 1 of 63 questions, single condition (such as age)"
    rows = [*zip(whole.rows["name"], whole.rows["why"], whole.rows["own"], strict=True)]
    other = ("big", "asked in another way", ["bare wording"])
    assert rows == [("big", "", []), ("small", "", []), other]
    assert [*part.rows["name"]] == ["part"] and whole.folded == {"does not answer": ["mute"]}


def test_a_topic_is_the_mean_error_of_its_questions_in_points(said):
    start = make_start(said)
    far = {}
    for task in SET:
        at = Anchors.of(store.load_truth(task))
        far[task] = 100 * (at.zero - 0.8 * (at.zero - at.perfect)) / 2
    big = start.topics[start.compared[0]]
    assert big["cocaine_ever"] == pytest.approx(far[COCAINE], abs=1e-6)
    assert big["heroin_ever"] == pytest.approx((far[HEROIN] + far[RACE]) / 2, abs=1e-6)
    assert big.is_monotonic_decreasing


def test_one_model_alone_is_not_the_best_and_has_no_middle(tmp_path):
    write(tmp_path, dict.fromkeys(SET, (80.0, 1.0)), "x/alone")
    start = make_start(read_runs([tmp_path]))
    assert start.sentences[0].startswith("alone gets 80 of 100; knowing only averages gets ")
    assert start.questions == [] and start.drawn == []  # its answers are missing


def test_the_drawn_questions_have_an_order_one_of_each_survey_and_one_where_all_are_wrong(tmp_path):
    asked = [COCAINE, HEROIN, RACE, WORTH, DIABETES]
    for noise in (0.2, 0.9):
        recorded(tmp_path / f"{noise}", asked, model_args=f"kind=noisy,noise={noise},seed=1")
    results = read_runs([tmp_path])
    start = make_start(results)
    assert {RACE} & {of.task for of in start.questions} == set()
    assert {of.survey for of in start.questions[:3]} == {"nsduh", "scf", "nhanes"}
    assert len(start.questions) == 4  # heroin and cocaine are of one survey
    assert all(of.answer not in starting.NEGATIVE for of in start.questions)
    titles = {of.task: of.title for of in start.questions}
    assert titles[COCAINE] == "Ever used cocaine, by age"
    tiles = make_start_page(results, start, {}, [])["tiles"]
    for tile, of in zip(tiles, start.questions, strict=True):
        # A line per model, in the order that the page's script knows; and what is said on hover.
        assert tile["svg"].count("every_marks") == len(tile["runs"]) == 2
        assert tile["svg"].count("<title>") == len(of.cells)
        best, cells = of.answers[start.drawn[0]], of.cells["truth"]
        at = np.abs(best - cells).argmax()
        assert (
            f"survey {cells[at]:.0%}" in tile["first"][0] and f"{best[at]:.0%}" in tile["first"][1]
        )
        assert f"cell={at}" in tile["href"]
        assert len(re.findall(r'class="[^"]*worst_marks".*?</g>', tile["svg"])) == 1
        assert 'width="378" height="195"' in tile["svg"]  # axes are in line
    # The third sentence is the largest of these errors that can be said, and it is drawn.
    says = re.fullmatch(r"Even .+ that (\d+%) of .+; the survey says (\d+%)\.", start.sentences[2])
    drawn = [tile["first"] for tile in tiles]
    assert says and any(f" {says[2]}" in a and f" {says[1]}" in b for a, b in drawn)


def test_what_one_does_is_said_of_many_and_labels_that_fit_are_shown():
    for task, level, says in (
        (COCAINE, "Yes", "people aged 12 or 13 have ever used cocaine"),
        ("epidemia_low_meps_inpatient_visits_by_age_group", "0", "had no hospital inpatient stays"),
        ("epidemia_low_scf_home_ownership_by_age", "No", ""),
    ):
        said = words.say_event(store.load_truth(task), 0, level)
        assert said.endswith(says) and bool(said) == bool(says)
    short = [words.reword(text, "labels") for text in ("No high school diploma", "College degree")]
    assert short == ["No diploma", "College"]
    assert charts._choose_labels([short[0], "High school", "Some college", short[1]]) == [*range(4)]
    assert charts._choose_labels(["wide " * 20] * 9) == [0, 8]


def test_at_least_one_drawn_question_is_one_where_all_are_wrong(tmp_path, monkeypatch):
    recorded(tmp_path / "mean", [COCAINE, WORTH, DIABETES], model_args="kind=mean")
    results = read_runs([tmp_path])
    every = sorted(make_start(results).questions, key=lambda of: of.wrong)
    monkeypatch.setattr(starting, "DRAWN", 1)
    monkeypatch.setattr(starting, "WRONG", every[-1].wrong)
    assert [of.task for of in make_start(results).questions] == [every[-1].task]


def test_who_was_trained_on_the_questions_stands_last_and_is_not_compared(tmp_path):
    runs = recorded(tmp_path / "runs", [AGE], model_args="kind=truth")
    plain = recorded(tmp_path / "plain", [AGE], model_args="kind=noisy,noise=0.3")
    renamed(
        runs, tmp_path / "all" / "tuned", pretrained=BASE, peft=put(tmp_path / "adapter", card())
    )
    renamed(plain, tmp_path / "all" / "other", pretrained="x/other")
    panel = make_start(read_runs([tmp_path / "all"])).panels[0]
    assert [*panel.rows["why"]] == ["", "trained on these questions"]
    assert panel.rows["value"].iloc[1] == 100 and panel.rows["name"].iloc[0] == "other"
