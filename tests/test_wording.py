"""Other wordings of every question, made from the records: without context, of a random person,
of the majority, and as an item of the survey."""

import re

import pytest

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.prompts import WORDINGS
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.results.results import read_results
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
            assert not re.search(r"\b(19|20)\d\d\b|\{|  ", text), text
            # Who is counted there is those whom such an institution gave a degree.
            assert ("by a US college" in text) == (truth.survey == "ipeds"), text
            assert text.count("US ") == (truth.survey == "ipeds"), text
            assert text.startswith("Consider") or not re.search("this (person|household)", text)
        # The book's figures are each of their own year.
        own = r"\b20\d\d\b" if truth.survey == "factbook" else re.escape(said)
        assert re.search(own, usual.question(0))
        assert all_tasks()[entry.name].given == () or bare.question(0) != bare.question(1)


HEROIN = "epidemia_low_nsduh_heroin_ever_by_age"
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
            f"Consider {CHILD}. Has this person ever, even once, used heroin? Which answer would "
            "be true of most of 100 such people?",
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
            "[The World Factbook, 2025] Consider one ton of the carbon dioxide that came from "
            "burning coal, oil and gas in Afghanistan in 2023. Which fuel did that ton come from?",
        ),
        (
            "epidemia_world_factbook_married_by_18_by_country",
            "item",
            "[The World Factbook, 2025] The respondent is a woman aged 20 to 24 living in "
            "Afghanistan around 2018. Did you marry, or start to live with a partner as if "
            "married, before you turned 18?",
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
    from test_cost_and_compare import result_file

    result_file(tmp_path / "a", {TASK: (40.0, 1.0)})
    result_file(tmp_path / "b", {TASK: (60.0, 1.0)}, metadata={"wording": "bare"})
    one, other = read_results([tmp_path]).entries
    assert one.protocol != other.protocol and "wording=bare" in other.name + one.name
