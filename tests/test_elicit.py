"""Orderings, wording, splits, and the snapshot of every prompt."""

import hashlib
import json
import re
from math import factorial
from pathlib import Path

import numpy as np
import pytest

from lm_eval_epidemia.ask import orderings as orders
from lm_eval_epidemia.ask import prompts
from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.splits import list_choices, split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

SNAPSHOT = Path(__file__).parent / "data" / "prompt_hashes.json"
#: To be read by a person after every change of a record: one prompt per task.
READABLE = Path(__file__).parent / "data" / "one_prompt_per_task.txt"


def test_all_orderings_up_to_120_and_so_many_distinct_ones_beyond():
    for levels in (2, 3, 4, 5, 6, 8, 24, 26):
        shown = orders.orderings(levels)
        assert len(set(shown)) == len(shown) == min(factorial(levels), 120)
        assert all(sorted(order) == list(range(levels)) for order in shown)


def test_sampled_orderings_stay_the_same():
    # They are part of what a score means: another seed or library must not change them silently.
    digest = hashlib.sha256(json.dumps([orders.orderings(k) for k in (6, 7, 24)]).encode())
    assert digest.hexdigest()[:16] == "04b40e414fd0cfa6"


def test_balanced_shows_each_answer_once_in_each_place():
    for levels in (2, 3, 5, 7, 24):
        shown = np.array(orders.orderings(levels, "balanced"))
        assert shown.shape == (levels, levels)
        assert (np.sort(shown, axis=0) == np.arange(levels)[:, None]).all()
        assert (np.sort(shown, axis=1) == np.arange(levels)).all()


def test_designs_are_spelled_out():
    assert {orders.design_of(k) for k in (2, 5)} == {"all"}
    assert {orders.design_of(k) for k in (6, 24)} == {"random:120"}
    assert orders.design_of(3, "random:200") == "all"
    assert orders.design_of(8, "random:7") == "random:7"
    assert len(orders.orderings(6, "all")) == 720
    assert orders.orderings(4, 1) == orders.orderings(4, "1") == ((0, 1, 2, 3),)
    # The first N of the default's: a smaller sample is a part of the larger one.
    assert orders.orderings(7, "random:50") == orders.orderings(7)[:50]


def test_prompts_without_an_order_display_their_choices_or_nothing():
    rows = split("epidemia_intervention_random", "intervention")
    assert list_choices(WAYS["intervention"], None, rows, None) == [["Yes", "No"]] * len(rows)
    assert list_choices(WAYS["direct"], None, split("epidemia_prior_gss", "direct"), None) is None


def all_prompts():
    """Of sampled answers a few per cell: more of them are the same text, with other numbers."""
    few = Variant(n_samples=8)
    for benchmark in BENCHMARKS.values():
        for way in benchmark.ways:
            for name in sorted(entry.name for entry in benchmark.asked(way)):
                yield in_way(name, way), split(name, way, few)["prompt"][:]


def hashed(prompts):
    return hashlib.sha256("\0".join(prompts).encode()).hexdigest()


def one_prompt_per_task():
    """Every declared task, also those without a truth: the cell in the middle of its levels."""
    pages = []
    for name, declared in all_tasks().items():
        survey = find_record(declared.survey)
        if name in store.list_available():
            truth = store.load_truth(name)
            vintage, ways = truth.vintage, find_variables(truth)
            given = truth.given[len(truth.given) // 2]
        else:
            vintage = survey.official
            ways = {v: survey.variables[v][0] for v in (declared.outcome, *declared.given)}
            levels = [ways[v].levels for v in declared.given]
            given = tuple(level[len(level) // 2].label for level in levels)
        answers = [level.label for level in ways[declared.outcome].levels]
        questions = prompts.TaskQuestions(survey, vintage, declared, ways)
        asked = prompts.prompt(questions.question(given), answers)
        said = questions.probability(given, len(answers) - 1)
        pages.append(f"== {name}\n{asked}\n-- {said}\n")
    return "\n".join(pages)


def test_one_prompt_per_task_is_there_to_be_read():
    """Run this file to renew it, and read what changed: articles, plurals, no code, no "nan"."""
    text = one_prompt_per_task()
    assert text == READABLE.read_text()
    assert text.count("== epidemia_") == len(all_tasks())
    signs = [" a a", " a e", " an b", " who a ", "nan ", "{", "}", "  ", " is is ", " who who"]
    plain = text.replace("D. ", "").replace("A. ", "")
    assert not [sign for sign in signs if sign in plain]


def test_prompts_are_those_of_the_snapshot_and_clean():
    """A changed prompt changes scores: raise TASK_VERSION, then run this file to renew."""
    snapshot, plain = json.loads(SNAPSHOT.read_text()), set(store.list_available())
    for name, texts in all_prompts():
        assert hashed(texts) == snapshot.pop(name), name
        if name in plain:
            assert not [text for text in texts if re.search(r"\bnan\b|\{|  ", text)], name
            assert all(text.endswith("\nAnswer:") for text in texts)
    assert not snapshot


if __name__ == "__main__":
    READABLE.write_text(one_prompt_per_task())
    hashes = {name: hashed(texts) for name, texts in all_prompts()}
    SNAPSHOT.write_text(json.dumps(hashes, indent=1) + "\n")


@pytest.mark.parametrize("way", sorted(OBSERVATION.ways))
def test_rows_are_those_that_datasets_decodes_one_by_one(way):
    """Of the split itself, which is read a thousand rows at a time, and of what is made of it."""
    import datasets

    task = "epidemia_high_nsduh_cocaine_ever_by_age_education_sex_race"
    found = split(task, way, Variant(n_samples=8))
    ours, theirs = list(found), list(datasets.Dataset.__iter__(found))
    assert len(ours) == found.num_rows > (1000 if way == "sampled" else 200)
    assert ours == theirs and [list(row) for row in ours] == [list(row) for row in theirs]
    types = [[type(value) for value in row.values()] for row in (ours[0], theirs[0])]
    assert types[0] == types[1]
    assert ours[0]["choices"] is not ours[1]["choices"]  # who changes one row, changes one row
    assert list(found.select([5, 2])) == [ours[5], ours[2]]
    assert next(iter(found.shuffle(seed=1))) in ours
    assert list(found.with_format(columns=["cell"])) == [{"cell": row["cell"]} for row in ours]
    assert found.with_format("numpy")[0]["cell"] == ours[0]["cell"]
    assert list(found.map(lambda row: {"cell": row["cell"] + 1}))[3]["cell"] == ours[3]["cell"] + 1
    assert found.features == datasets.Dataset.from_list(ours, features=found.features).features
