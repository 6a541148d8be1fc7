"""A table of answers, scored without lm-eval, has the scores and errors that lm-eval gives."""

import ast
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import evaluate
from processes import python

from lm_eval_epidemia.api import load_truth, questions, score_answers, tasks
from lm_eval_epidemia.benchmarks import list_leaves
from lm_eval_epidemia.benchmarks.observation.respondents import simulate_answers
from lm_eval_epidemia.core.errors import EpidemiaError

BY_AGE = "epidemia_low_nsduh_cocaine_ever_by_age"
#: Of seven answers 120 orderings are asked, so that these have an error too.
MANY = "epidemia_low_gss_political_view_by_age"
NOISY = "kind=noisy,noise=0.5,seed=3"
#: One of each way of reading, and of each benchmark.
READ = [
    *(BY_AGE, MANY, f"{BY_AGE}_likelihood", f"{MANY}_stated"),
    "epidemia_high_nsduh_cocaine_ever_by_age_sex_closed",
    "epidemia_quick_high",
    *("epidemia_intervention_tuebingen", "epidemia_intervention_random_retrieval_written"),
    *("epidemia_prior_nhanes", "epidemia_prior_nhanes_grid"),
]


@pytest.fixture(scope="module")
def ran():
    results, samples = {}, {}
    for kind in (NOISY, "kind=truth"):
        names = [
            name
            for name in READ
            if (kind == NOISY) == name.startswith(("epidemia_low", "epidemia_high"))
        ]
        run = evaluate([*names], model_args=kind, log_samples=True)
        results |= run["results"]
        samples |= run["samples"]
    return results, samples


def asked(samples, name):
    """The rows of a task with the answers that a run logged, as another harness would have them."""
    way, rows = list_leaves()[name].way, []
    for sample in samples[name]:
        response = sample["filtered_resps"]
        answer = (
            {"reply": response[0]}
            if isinstance(response[0], str)
            else {"logprobs": [logprob for logprob, _ in response]}
        )
        rows.append({**sample["doc"], "way": way, **answer})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("name", READ)
def test_answers_to_questions_score_as_in_lm_eval(ran, name):
    results, samples = ran
    row = score_answers(asked(samples, name)).iloc[0]
    metric = list_leaves()[name].benchmark.primary
    error = results[name].get(f"{metric}_stderr,none")
    assert (row["name"], row["tasks"], row["metric"]) == (name, 1, metric)
    assert row["value"] == pytest.approx(results[name][f"{metric},none"], abs=1e-9)
    assert row["error"] == pytest.approx(error, abs=1e-9)


def beliefs(*names):
    """What the noisy respondent believes, in long form, its rows in any order."""
    frames = []
    for task in names:
        truth = load_truth(task)
        frames.append(
            truth.to_frame()[["answer"]]
            .rename(columns={"answer": "level"})
            .assign(
                task=task,
                cell=np.repeat(range(len(truth.given)), len(truth.levels)),
                p=simulate_answers(truth, "noisy", noise=0.5, seed=3).ravel(),
            )
        )
    return pd.concat(frames).sample(frac=1, random_state=1)


def test_beliefs_score_as_in_lm_eval_groups_too():
    shipped = tasks(survey="nsduh", group="epidemia_low").query("state == 'shipped'")
    names = [*shipped.task]
    ran = evaluate(["epidemia_low_nsduh"], model_args=NOISY)["results"]
    table = score_answers(beliefs(*names)).set_index("name")
    assert {*table.index} == {*names, "epidemia_low_nsduh", "epidemia_low"}
    for name in (*names, "epidemia_low_nsduh"):
        theirs = [ran[name]["score,none"], ran[name]["score_stderr,none"]]
        assert [table.value[name], table.error[name]] == pytest.approx(theirs, abs=1e-9), name
    assert (table.tasks["epidemia_low"], table.of["epidemia_low"]) == (6, 63)
    assert (table.tasks["epidemia_low_nsduh"], table.of["epidemia_low_nsduh"]) == (6, 6)


def test_cells_are_told_by_their_conditions_too():
    by_number = beliefs(BY_AGE)
    ages = [f"age: {age}" for (age,) in load_truth(BY_AGE).given]
    as_text = by_number.assign(given=[ages[cell] for cell in by_number.cell]).drop(columns="cell")
    as_list = as_text.assign(given=[np.array([given]) for given in as_text.given])
    both = as_list.assign(cell=by_number.cell)
    # Some rows by number, the others by conditions.
    mixed = pd.concat([by_number.iloc[:9], as_text.iloc[9:]])
    categories = as_text.astype({"task": "category", "given": "category", "level": "category"})
    # The index may be called like a column, and the table be another library's.
    named, table = both.set_index(["task", "cell"], drop=False), pa.table(as_text)
    for given in (as_text, as_list, both, mixed, categories, named, table):
        assert score_answers(given).equals(score_answers(by_number))


def test_probabilities_of_letters_are_normalised_and_shares_are_not():
    rows = questions(BY_AGE).assign(way="letters")
    truth = load_truth(BY_AGE)
    rows["p"] = [
        list(0.9 * truth.p[cell, order]) for cell, order in zip(rows.cell, rows.order, strict=True)
    ]
    assert score_answers(rows).value[0] == 100
    rows = questions(BY_AGE, "stated").assign(way="stated")
    rows["p"] = [
        list(truth.p[cell, order]) for cell, order in zip(rows.cell, rows.order, strict=True)
    ]
    # Of two answers both orders are all orders: the same as beliefs.
    assert score_answers(rows).value[0] == 100
    rows["p"] = [[0.5 * share for share in p] for p in rows.p]
    with pytest.raises(
        EpidemiaError, match=r"row 0: p is .*: expected shares that sum to 1, not to 0\.5"
    ):
        score_answers(rows)


def uniform(task, way, **variant):
    """The questions of a task as they are exported, with answers that know nothing."""
    rows = questions(task, way, **variant)
    levels = load_truth(task).levels
    rows["ordering"] = rows.groupby("cell").cumcount()
    if "order" in rows:
        rows["answers"] = [[levels[level] for level in order] for order in rows.order]
    if way in ("letters", "likelihood"):
        return rows.assign(logprobs=[[-4.0] * len(choices) for choices in rows.choices])
    if way == "stated":
        return rows.assign(p=[[1 / len(levels)] * len(levels)] * len(rows))
    return rows.assign(reply="A")


@pytest.mark.parametrize(
    ("way", "variant"),
    [
        ("letters", {"orderings": "balanced"}),
        ("letters", {"orderings": 1, "wording": "bare"}),
        ("letters", {"fewshot": 2}),
        ("letters", {"leading_space": True}),
        ("likelihood", {"wording": "bare"}),
        ("stated", {"structured": "json", "wording": "bare"}),
        ("sampled", {"n_samples": 8}),
    ],
)
def test_questions_in_every_variant_are_known(way, variant):
    rows = uniform(BY_AGE, way, **variant)
    shortened = rows.drop(columns=["prompt", "given", "ordering", "answers"], errors="ignore")
    told_first = rows.assign(prompt="You know the United States.\n\n" + rows.prompt)
    table = score_answers(rows)
    as_tuples = rows.map(lambda value: tuple(value) if isinstance(value, list) else value)
    for same in (shortened, told_first, as_tuples):
        assert score_answers(same).equals(table)
    rows.loc[0, "prompt"] = rows.prompt[0] + "\nHint: most people say so."
    with pytest.raises(
        EpidemiaError, match=r"row 0: line \d+ of prompt is 'Hint: most.*it is missing"
    ):
        score_answers(rows)


def test_rows_of_several_ways_are_in_one_table_each_with_its_column():
    letters, stated = uniform(BY_AGE, "letters"), uniform(BY_AGE, "stated")
    table = score_answers(pd.concat([letters, stated], ignore_index=True)).set_index("name")
    for rows in (letters, stated):
        alone = score_answers(rows).set_index("name")
        assert table.loc[alone.index].equals(alone)


def test_warnings_advise_whoever_has_no_lm_eval(caplog):
    rows = questions(BY_AGE, "stated").assign(way="stated", reply="I cannot know.")
    for _ in range(2):  # each table is a run of its own
        score_answers(rows)
    assert caplog.text.count("0% of the replies contained an answer") == 2
    assert "a truncated reply has no answer" in caplog.text
    score_answers(uniform(BY_AGE, "letters"))
    assert "the letters together have a probability of only 0.0366" in caplog.text
    assert "' A' after plain text, 'A' in a chat" in caplog.text and "--" not in caplog.text


def test_neither_lm_eval_nor_torch_is_needed():
    program = (
        "import sys\n"
        "sys.modules['lm_eval'] = None\n"
        "from lm_eval_epidemia.api import questions, score_answers\n"
        f"rows = questions({BY_AGE!r}).assign(way='letters')\n"
        "rows['p'] = [[0.5, 0.4]] * len(rows)\n"
        "print(score_answers(rows).name[0], 'torch' in sys.modules)\n"
    )
    assert python(program).split() == [BY_AGE, "False"]


def test_texts_of_numbers_are_refused_with_what_makes_numbers_of_them():
    known, letters = beliefs(BY_AGE), uniform(BY_AGE, "letters")
    likelihood = uniform(BY_AGE, "likelihood")
    for table, name in (
        (known, "cell"),
        (known, "p"),
        (letters, "cell"),
        (letters, "ordering"),
        (likelihood, "level"),
    ):
        texts = table.assign(**{name: table[name].map(str)})
        message = rf"the text '[\d.e-]+' in {name}, row \d+: expected a number"
        with pytest.raises(EpidemiaError, match=message) as raised:
            score_answers(texts)
        advice = str(raised.value).split("a number, as ")[1].split(" makes of")[0]
        numbers = eval(advice, {"pd": pd, "answers": texts})
        assert score_answers(texts.assign(**{name: numbers})).equals(score_answers(table))


def test_lists_that_a_csv_file_turned_into_texts_come_back_by_the_advice(tmp_path):
    rows = uniform(BY_AGE, "letters")
    scored = score_answers(rows)
    rows.to_csv(tmp_path / "lists.csv", index=False)
    answers = pd.read_csv(tmp_path / "lists.csv", dtype={"truth": str})
    for _ in ("given", "choices", "answers", "order", "logprobs"):
        with pytest.raises(EpidemiaError, match="which csv files keep as text") as raised:
            score_answers(answers)
        name = str(raised.value).split(" in ")[1].split(",")[0]
        advice = str(raised.value).split("of them with ")[1]
        answers[name] = eval(advice, {"json": json, "ast": ast, "answers": answers})
    assert score_answers(answers).equals(scored)
    # As numpy writes them, nothing reads them back.
    rows.to_parquet(tmp_path / "rows.parquet")
    arrays = pd.read_parquet(tmp_path / "rows.parquet")
    arrays.to_csv(tmp_path / "arrays.csv", index=False)
    answers = pd.read_csv(tmp_path / "arrays.csv", dtype={"truth": str})
    with pytest.raises(EpidemiaError, match=r"\['A' 'B'\].*: read the parquet file") as raised:
        score_answers(answers.drop(columns="given"))
    write, read = str(raised.value).split("write your table with ")[1].split(" and read it with ")
    path = tmp_path / "rows.jsonl"
    eval(write, {"answers": arrays, "path": path})
    again = eval(read, {"pd": pd, "path": path})
    assert score_answers(again).equals(scored)
    assert score_answers(arrays.map(lambda x: list(x) if isinstance(x, np.ndarray) else x)).equals(
        scored
    )
