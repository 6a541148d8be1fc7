"""A table of answers, scored without lm-eval, has the scores and errors that lm-eval gives."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from conftest import evaluate

from lm_eval_epidemia.api import load_truth, questions, score_answers, tasks
from lm_eval_epidemia.benchmarks import leaves
from lm_eval_epidemia.benchmarks.observation.respondents import answers
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
        found = evaluate([*names], model_args=kind, log_samples=True)
        results |= found["results"]
        samples |= found["samples"]
    return results, samples


def asked(samples, name):
    """The rows of a task with the answers that a run logged, as another harness would have them."""
    way, rows = leaves()[name].way, []
    for sample in samples[name]:
        response = sample["filtered_resps"]
        said = (
            {"reply": response[0]}
            if isinstance(response[0], str)
            else {"logprobs": [logprob for logprob, _ in response]}
        )
        rows.append({**sample["doc"], "way": way, **said})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("name", READ)
def test_answers_to_questions_score_as_in_lm_eval(ran, name):
    results, samples = ran
    row = score_answers(asked(samples, name)).iloc[0]
    metric = leaves()[name].benchmark.primary
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
                p=answers(truth, "noisy", noise=0.5, seed=3).ravel(),
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
    said = beliefs(BY_AGE)
    ages = [f"age: {age}" for (age,) in load_truth(BY_AGE).given]
    as_text = said.assign(given=[ages[cell] for cell in said.cell]).drop(columns="cell")
    as_list = as_text.assign(given=[np.array([given]) for given in as_text.given])
    for given in (as_text, as_list):
        assert score_answers(given).equals(score_answers(said))


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


def test_what_does_not_fit_is_refused_by_name():
    said, rows = beliefs(BY_AGE), questions(BY_AGE).assign(way="letters")
    rows["p"] = [[0.4, 0.4]] * len(rows)

    def changed(column, value, frame=said):
        frame = frame.reset_index(drop=True)
        frame[column] = frame[column].astype(object)
        frame.at[3, column] = value
        return frame

    other_truth = rows.assign(truth="000000000000")
    for frame, message in (
        (said.to_dict(), "answers is a dict: expected a DataFrame"),
        (
            said.drop(columns="p"),
            r"no column p with values \(it has level, task, cell\): expected beliefs",
        ),
        (said.assign(p=float("nan")), "no column p with values"),
        (said.drop(columns="cell"), "no column cell or given"),
        (said.iloc[:0], "answers has no answers|no column"),
        (said.assign(task="epidemia_low_nsduh_cocain"), r"no task '\w+' \(nearest: "),
        (changed("task", None), "no task in row 3: fill it in"),
        (changed("level", "Ja"), r"has no level 'Ja' \(known: No, Yes\)"),
        (changed("cell", 11), "has no cell 11: expected 0 to 10"),
        (changed("p", 1.2), r"cell \d+ \(age: .*\), \w+: p is 1.2: expected a probability"),
        (changed("p", "0.2"), "p is '0.2': expected a probability"),
        (changed("p", 0.999), r"does not sum to 1 over the answers: age=.*: 1\."),
        (said.iloc[1:], r"is not answered whole: it lacks cell \d+ \(age: .*\), \w+; give every"),
        (pd.concat([said, said.iloc[:1]]), "twice: keep one"),
        (rows.drop(columns="p"), "expected beliefs"),
        (rows.iloc[1:], r"not answered whole: cell 0 \(12-13\) has 1 of 2 orderings; answer every"),
        (pd.concat([rows, rows.iloc[:1]]), "a prompt of cell 0 is answered twice"),
        (rows.assign(way="letter"), r"no way of asking 'letter' \(nearest: letters"),
        (rows.assign(way="closed"), r"no task '\w+' in the way 'closed' \(nearest: "),
        (rows.drop(columns="order"), "a row that was asked in the way 'letters' is not one"),
        (rows.assign(reply="A"), "answers has both p and reply: keep one"),
        (rows.drop(columns="p").assign(reply="A"), "of the way 'letters' give logprobs or p"),
        (changed("p", [0.4], rows), "row 3: p is .*expected a list of 2 numbers"),
        (changed("p", [0.4, -0.1], rows), r"row 3: p is \[0.4, -0.1\]: expected probabilities"),
        (
            changed("p", [0.4, 0.1], rows).rename(columns={"p": "logprobs"}),
            "expected log-probabilities, at most 0",
        ),
        (changed("p", [0.9, 0.8], rows), "sum to more than 0 and at most 1: 1.7"),
        (changed("p", [0.0, 0.0], rows), "sum to more than 0"),
        (changed("cell", 40, rows), "no cell 40: expected 0 to 10"),
        (other_truth, "answers are to ground truth 000000000000, but"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            score_answers(frame)


def test_neither_lm_eval_nor_torch_is_needed():
    program = (
        "import sys\n"
        "sys.modules['lm_eval'] = None\n"
        "from lm_eval_epidemia.api import questions, score_answers\n"
        f"rows = questions({BY_AGE!r}).assign(way='letters')\n"
        "rows['p'] = [[0.5, 0.4]] * len(rows)\n"
        "print(score_answers(rows).name[0], 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [BY_AGE, "False"], done.stderr
