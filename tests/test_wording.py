"""Other wordings of every question, made from the records: without context, of a random person,
of the majority, and as an item of the survey."""

import re

import numpy as np
import pytest
from report_parts import HEROIN, by, table, write
from test_approved import approved

from lm_eval_epidemia.ask.prompts import WORDINGS, Wording
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.findings.references import known_scores
from lm_eval_epidemia.findings.wordings import PERMUTATIONS, permutation_p
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

TASK = "epidemia_low_nsduh_marijuana_ever_by_age"


def test_questions_in_every_wording():
    """People, states, households, the book's countries and things, and a trend; approved."""
    lines = []
    for task in (
        *(TASK, HEROIN, "epidemia_low_brfss_diabetes_by_state"),
        "epidemia_high_scf_home_ownership_by_age_sex",
        *(f"epidemia_world_factbook_{of}_by_country" for of in ("fuel", "married_by_18")),
        "epidemia_years_gsstrend_degree_by_year_sex",
    ):
        for name in WORDINGS:
            words = Wording(store.load(task), name)
            lines += [f"{task}, {name or 'usual'}: {words.question(0)}"]
            if name in ("bare", "random"):
                lines += [words.probability(0, 0)]
    approved("wordings.txt", "\n".join(lines) + "\n")


def test_what_no_question_of_any_task_may_say():
    """Of every task, in the first cell. Bare: where, when, of whom; an item: of somebody else."""
    for entry in OBSERVATION.asked("letters"):
        truth, given = store.load(entry.name), all_tasks()[entry.name].given
        vintage = record(truth.survey).vintages[truth.vintage]
        words = {name: Wording(truth, name) for name in WORDINGS}
        texts = {name: of.question(0) for name, of in words.items()}
        assert len(set(texts.values())) >= len(WORDINGS) - 1, texts  # bare may have nothing to drop
        assert all(text.count("{") == 0 and "  " not in text for text in texts.values()), texts
        for text in (texts["bare"], words["bare"].probability(0, 0)):
            assert not re.search("United States|years? or older living|that year", text), text
            assert "year" in given or not re.search(r"\b(19|20)\d\d\b|\{|  ", text), text
            # Who is counted there is those whom such an institution gave a degree.
            assert ("by a US college" in text) == (truth.survey == "ipeds"), text
            assert text.count("US ") == (truth.survey == "ipeds"), text
            assert text.startswith("Consider") or not re.search("this (person|household)", text)
        # With its context it does. The book's figures are each of their own year, trends of many.
        many = truth.survey in ("factbook", "gsstrend", "brfsstrend", "blstrend")
        assert re.search(r"\b(19|20)\d\d\b" if many else re.escape(vintage.said), texts[""])
        assert given == () or texts["bare"] != words["bare"].question(1)
        if not vintage.tables:  # somebody was a respondent
            item = texts["item"].split("] ", 1)[1]
            others = r"\bthis (person|adult|woman|household)\b|\bthey\b|\btheir\b"
            assert not re.search(others, item), item
            assert not re.search(r"\b(has|is|was|does) you\b", item, re.IGNORECASE), item


@pytest.mark.parametrize("way", ["letters", "likelihood", "sampled", "stated"])
def test_every_way_heeds_it_and_changes_nothing_else(way):
    usual, bare = split(TASK, way), split(TASK, way, Variant(wording="bare"))
    assert usual.num_rows == bare.num_rows
    (was, *first), (said, *other) = (of[0].pop("prompt").splitlines() for of in (usual, bare))
    assert "living in the United States" in was and "living in" not in said and "12 or 13" in said
    assert first == other
    assert usual.remove_columns("prompt")[0] == bare.remove_columns("prompt")[0]


def test_a_permutation_test_by_hand():
    """Differences 1, 2 and 4 of three outcomes: of 8 signs, 2 give as large a sum (all or none)."""
    scores = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
    error = (0.25 * 0.75 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "abc") == pytest.approx(0.25, abs=5 * error)
    # Two tasks of one outcome are permuted together: of 4 signs, 2 give as large a sum.
    error = (0.5 * 0.5 / PERMUTATIONS) ** 0.5
    assert permutation_p(scores, "aab") == pytest.approx(0.5, abs=5 * error)
    assert permutation_p(np.ones((3, 4)), "abcd") == 1.0


def worded(folder, wording, values):
    """A run of one model in a wording."""
    metadata = {"wording": wording} if wording else {}
    scores = {task: (float(value), 1.0) for task, value in values.items()}
    write(folder / f"{wording}-{len(values)}", scores, metadata=metadata)


def test_one_model_in_several_wordings(tmp_path):
    """Means 40, 60 and 50; who knows averages only has 49.8 of one task, 74.1 of the other."""
    for wording, first in (("bare", 50), ("random", 40), ("", 30)):
        worded(tmp_path, wording, {TASK: first, HEROIN: first + 20})
    made = read_results([tmp_path])
    found = find("wordings")(made)
    scores = found.table.set_index("wording")["score"].dropna().to_dict()
    assert scores == {"usual": 40.0, "bare": 60.0, "random": 50.0}
    together = found.table.set_index("wording").loc["all"]
    assert together["between"] == pytest.approx(10.0)
    scores = made.scores.assign(known=known_scores(made.scores, made.runs)["score"])
    known = by(scores, "task", of="known")
    flips = sum(low < known[task] < low + 20 for task, low in ((TASK, 30), (HEROIN, 50)))
    assert (together["flips"], together["flips_tasks"]) == (50 * flips, 2)
    # Two outcomes in three wordings differ in 6 ways: no p-value is as small as .05.
    assert np.isnan(together["p"])
    (said,) = find("wordings")(read_results([tmp_path / "-2"])).left_out
    assert "in two wordings: run lm_eval again with --metadata" in said
    # They are not ranked against each other.
    ranks = by(table("leaderboard", tmp_path), "kind", "settings", of="rank")
    assert {ranks["run", words] for words in ("", "bare wording", "random wording")} == {""}
    # A group that was asked in two of the three is compared between these.
    for wording in ("", "bare"):
        worded(tmp_path, wording, {"epidemia_high_nsduh_marijuana_ever_by_age_sex": 20})
    found = table("wordings", tmp_path)
    asked = found["wording"][found["group"] == "epidemia_high"]
    assert [*asked] == ["usual", "bare", "all"]
