"""Other wordings of every question, made from the records: without context, of a random person,
of the majority, and as an item of the survey."""

import re

import numpy as np
import pytest
from report_parts import HEROIN, by, table, write

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.prompts import WORDINGS
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.references import known_scores
from lm_eval_epidemia.findings.wordings import PERMUTATIONS, permutation_p
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

TASK = "epidemia_low_nsduh_marijuana_ever_by_age"
BARE = Variant(wording="bare")


def test_the_bare_form():
    for task, question, probability in (
        (
            TASK,
            "Has a person who is 12 or 13 years old ever, even once, used marijuana or another "
            "cannabis product?",
            "a person who is 12 or 13 years old has ever used marijuana?",
        ),
        (
            "epidemia_low_brfss_diabetes_by_state",  # the state is what is asked about
            "Has a person living in Alabama ever been told by a health professional that they have "
            "diabetes, apart from diabetes only during pregnancy?",
            "a person living in Alabama has been told they have diabetes, apart from diabetes only "
            "during pregnancy?",
        ),
    ):
        bare = Wording(store.load(task), "bare")
        assert bare.question(0) == question
        assert bare.probability(0, 0) == f"What is the probability that {probability}"


def test_no_bare_question_says_where_when_or_of_whom():
    """Of every task, in the first cell: and with its context it does."""
    for entry in OBSERVATION.asked("letters"):
        truth = store.load(entry.name)
        said = record(truth.survey).vintages[truth.vintage].said
        usual, bare = Wording(truth), Wording(truth, "bare")
        for text in (bare.question(0), bare.probability(0, 0)):
            assert not re.search("United States|years? or older living|that year", text), text
            year = r"\b(19|20)\d\d\b|" if "year" not in all_tasks()[entry.name].given else ""
            assert not re.search(year + r"\{|  ", text), text
            # Who is counted there is those whom such an institution gave a degree.
            assert ("by a US college" in text) == (truth.survey == "ipeds"), text
            assert text.count("US ") == (truth.survey == "ipeds"), text
            assert text.startswith("Consider") or not re.search("this (person|household)", text)
        # The book's figures are each of their own year, and trends of many.
        own = re.escape(said)
        if truth.survey in ("factbook", "gsstrend", "brfsstrend", "blstrend"):
            own = r"\b(19|20)\d\d\b"
        assert re.search(own, usual.question(0))
        assert all_tasks()[entry.name].given == () or bare.question(0) != bare.question(1)


CHILD = "a person aged 12 or older living in the United States in 2022 who is 12 or 13 years old"


@pytest.mark.parametrize(
    ("task", "wording", "question"),
    [
        (
            HEROIN,
            "random",
            f"Suppose you choose at random {CHILD}. Has this person ever, even once, used heroin?",
        ),
        (
            HEROIN,
            "majority",
            f"Consider {CHILD}. Has this person ever, even once, used heroin? Which answer is true "
            "of the largest number of 100 such people?",
        ),
        (
            HEROIN,
            "item",
            f"[National Survey on Drug Use and Health, 2022] The respondent is {CHILD}. Have you "
            "ever, even once, used heroin?",
        ),
        (
            "epidemia_high_scf_home_ownership_by_age_sex",
            "item",
            "[Survey of Consumer Finances, summary extract public data, 2022] The respondent is a "
            "household in the United States in 2022 whose reference person is 18 to 24 years old "
            "and is male. Does your household own its home?",
        ),
        (
            "epidemia_world_factbook_fuel_by_country",
            "item",
            "[The World Factbook, 2025] Consider one ton of the carbon dioxide released by burning "
            "coal, oil and natural gas in Afghanistan in 2023. Which fuel did that ton come from?",
        ),
        (
            "epidemia_world_factbook_married_by_18_by_country",
            "item",
            "[The World Factbook, 2025] Consider a woman aged 20 to 24 living in Afghanistan "
            "around 2018. Before she turned 18, had this woman married, or started to live with a "
            "partner as if married?",
        ),
        (
            "epidemia_years_gsstrend_degree_by_year_sex",
            "item",
            "[General Social Survey, 1975] The respondent is a person aged 18 or older living in "
            "the United States in 1975 who is male. What is the highest diploma or degree you "
            "have?",
        ),
    ],
)
def test_other_wordings(task, wording, question):
    truth = store.load(task)
    assert Wording(truth, wording).question(0) == question


def test_a_random_one_has_a_probability():
    wording = Wording(store.load(HEROIN), "random")
    assert wording.probability(0, 0) == (
        f"Suppose you choose at random {CHILD}. What is the probability that this person has ever "
        "used heroin?"
    )


def test_every_question_can_be_put_in_every_wording():
    """An item is put to the respondent: nothing is left of somebody else."""
    for entry in OBSERVATION.asked("letters"):
        truth = store.load(entry.name)
        texts = {name: Wording(truth, name).question(0) for name in WORDINGS}
        assert len(set(texts.values())) >= len(WORDINGS) - 1, texts  # bare may have nothing to drop
        assert all(text.count("{") == 0 and "  " not in text for text in texts.values())
        if record(truth.survey).vintages[truth.vintage].tables:
            continue  # nobody was a respondent
        item = texts["item"].split("] ", 1)[1]
        assert not re.search(r"\bthis (person|adult|woman|household)\b|\bthey\b|\btheir\b", item), (
            item
        )
        assert not re.search(r"\b(has|is|was|does) you\b", item, re.IGNORECASE), item


def test_what_asks_for_one_answer_has_no_probability():
    for wording, ask in (
        ("majority", lambda words: words.hundred()),
        ("majority", lambda words: words.probability(0, 0)),
        ("item", lambda words: words.probability(0, 0)),
    ):
        with pytest.raises(EpidemiaError, match=rf"wording '{wording}' .*letters \(epidemia_low\)"):
            ask(Wording(store.load(HEROIN), wording))


@pytest.mark.parametrize("way", ["letters", "likelihood", "sampled", "stated"])
def test_every_way_heeds_it_and_changes_nothing_else(way):
    usual, bare = split(TASK, way), split(TASK, way, BARE)
    assert usual.num_rows == bare.num_rows
    first, other = usual[0], bare[0]
    assert "living in the United States" in first["prompt"]
    assert "living in" not in other["prompt"] and "12 or 13" in other["prompt"]
    assert first["prompt"].splitlines()[1:] == other["prompt"].splitlines()[1:]
    assert {k: v for k, v in first.items() if k != "prompt"} == {
        k: v for k, v in other.items() if k != "prompt"
    }


def test_wordings_are_not_ranked_against_each_other(tmp_path):
    worded(tmp_path, "", {TASK: 40})
    worded(tmp_path, "bare", {TASK: 60})
    ranks = by(table("leaderboard", tmp_path), "kind", "settings", of="rank")
    assert ranks["run", ""] == ranks["run", "bare wording"] == ""


def worded(folder, wording, values):
    """A run of one model in a wording."""
    metadata = {"wording": wording} if wording else {}
    scores = {task: (float(value), 1.0) for task, value in values.items()}
    return write(folder / f"{wording}-{len(values)}", scores, metadata=metadata).parent


def test_a_permutation_test_by_hand():
    """Differences 1, 2 and 4 of three outcomes: of 8 signs, 2 give as large a sum (all or none)."""
    scores = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    error = (0.25 * 0.75 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "abc") == pytest.approx(0.25, abs=5 * error)
    # Two tasks of one outcome are permuted together: of 4 signs, 2 give as large a sum.
    error = (0.5 * 0.5 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "aab") == pytest.approx(0.5, abs=5 * error)
    assert permutation_p(np.ones((3, 4)), "abcd") == 1.0


def test_wordings_that_change_nothing_are_seldom_found_to():
    """Scores of wordings that differ by chance alone: p below .05 in at most about 5 of 100."""
    rng = np.random.default_rng(1)
    runs = [permutation_p(rng.normal(size=(3, 8)), range(8)) for _ in range(200)]
    # Binomial of 200 and .05: 10, and 3.1 to either side.
    assert 2 <= sum(p <= 0.05 for p in runs) <= 20


def test_one_model_in_several_wordings(tmp_path):
    """Means 40, 60 and 50; who knows averages only has 49.8 of one task, 74.1 of the other."""
    for wording, first in (("bare", 50), ("random", 40), ("", 30)):
        usual = worded(tmp_path, wording, {TASK: first, HEROIN: first + 20})
    found = table("wordings", tmp_path).set_index("wording")
    scores = found["score"].dropna().to_dict()
    assert scores == {"usual": 40.0, "bare": 60.0, "random": 50.0}
    together = found.loc["all"]
    assert together["between"] == pytest.approx(10.0)
    made = read_results([usual])
    known = by(
        made.scores.assign(known=known_scores(made.scores, made.runs)["score"]), "task", of="known"
    )
    flips = sum(low < known[task] < low + 20 for task, low in ((TASK, 30), (HEROIN, 50)))
    assert (together["flips"], together["flips_tasks"]) == (50 * flips, 2)
    # Two outcomes in three wordings differ in 6 ways: no p-value is as small as .05.
    assert np.isnan(together["p"])
    # A group that was asked in two of the three is compared between these.
    for wording in ("", "bare"):
        worded(tmp_path, wording, {"epidemia_high_nsduh_marijuana_ever_by_age_sex": 20})
    found = table("wordings", tmp_path)
    asked = found["wording"][found["group"] == "epidemia_high"]
    assert [*asked] == ["usual", "bare", "all"]
    (said,) = find("wordings")(made).left_out
    assert "in two wordings: run lm_eval again with --metadata" in said
