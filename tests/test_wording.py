"""``wording: bare``: questions without place, year and universe, made from the records."""

import re

import pytest

from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
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
            assert said not in text and "{" not in text and "  " not in text, text
            # Who is counted there is those whom such an institution gave a degree.
            assert ("by a US college" in text) == (truth.survey == "ipeds"), text
            assert text.count("US ") == (truth.survey == "ipeds"), text
            assert text.startswith("Consider") or not re.search("this (person|household)", text)
        assert said in usual.question(0)
        assert all_tasks()[entry.name].given == () or bare.question(0) != bare.question(1)


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
