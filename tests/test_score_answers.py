"""A table of answers, scored without lm-eval, has the scores and errors that lm-eval gives."""

import ast
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
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
        run = evaluate([*names], model_args=kind, log_samples=True)
        results |= run["results"]
        samples |= run["samples"]
    return results, samples


def asked(samples, name):
    """The rows of a task with the answers that a run logged, as another harness would have them."""
    way, rows = leaves()[name].way, []
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


def test_what_does_not_fit_is_refused_by_name():
    known, rows = beliefs(BY_AGE), questions(BY_AGE).assign(way="letters")
    rows["p"] = [[0.4, 0.4]] * len(rows)

    def changed(column, value, frame=known):
        frame = frame.reset_index(drop=True)
        frame[column] = frame[column].astype(object)
        frame.at[3, column] = value
        return frame

    other_truth = rows.assign(truth="000000000000")
    for frame, message in (
        (known.to_dict(), "answers is a dict: expected a DataFrame"),
        (
            known.drop(columns="p"),
            r"no column p with values \(it has level, task, cell\): expected beliefs",
        ),
        (known.assign(p=float("nan")), "no column p with values"),
        (known.drop(columns="cell"), "no column cell or given"),
        (known.iloc[:0], "an empty table, with no rows: expected beliefs"),
        (pd.DataFrame(), "an empty table, with neither rows nor columns: expected beliefs"),
        (pd.concat([known, known.p], axis=1), "several columns named p: keep one"),
        (known.assign(p=known.p.map(str).map("[{}]".format)), r"the text '\[.*\]' in p, row \d+"),
        (known.assign(task="epidemia_low_nsduh_cocain"), r"no task '\w+' \(nearest: "),
        (changed("task", None), "no task in row 3: fill it in"),
        *(
            (changed(name, ["a"], rows), rf"\['a'\] in {name}, row 3: expected a text")
            for name in ("task", "way", "truth")
        ),
        (changed("level", "Ja"), r"has no level 'Ja' \(known: No, Yes\)"),
        (changed("cell", 11), "has no cell 11: expected 0 to 10"),
        (changed("p", 1.2), r"cell \d+ \(age: .*\), \w+: p is 1.2: expected a probability"),
        (
            changed("p", "0.2"),
            r"'0.2' in p, row 3: expected a number\..*pd\.to_numeric\(answers\['p'\]\)",
        ),
        (changed("level", None), "no level in row 3: fill it in"),
        (changed("p", None), "p is None: expected a probability"),
        (
            changed("p", 0.999),
            rf"{BY_AGE}: p sums over the levels of cell \d+ \(age: .*\) to 1\.\d+, expected 1: cor",
        ),
        (
            known.iloc[1:],
            r"is not answered completely: it lacks cell \d+ \(age: .*\), \w+; give every",
        ),
        (pd.concat([known, known.iloc[:1]]), "twice: keep one"),
        (rows.drop(columns="p"), "expected beliefs"),
        (
            rows.iloc[1:],
            r"not answered completely: cell 0 \(12-13\) has 1 of 2 orderings; answer every",
        ),
        (pd.concat([rows, rows.iloc[:1]]), "a prompt of cell 0 is answered twice"),
        (rows.assign(way="letter"), r"no way of asking 'letter' \(nearest: letters"),
        (rows.assign(way="closed"), r"no task '\w+' in the way 'closed' \(nearest: "),
        (
            rows.drop(columns="order"),
            "row 0: a row of the way 'letters' does not fit .*missing required field `order`",
        ),
        (
            rows.assign(order="0, 1"),
            "Expected `array`, got `str` .* keep its columns and way",
        ),
        (
            rows.assign(way="likelihood"),
            "a row of the way 'likelihood' does not fit .*missing required field `level`",
        ),
        (rows.assign(way="stated", p=[[0.5, 0.5]] * len(rows)), r"or way \('stated'\) was changed"),
        (
            rows.assign(reply="A"),
            "has both p and reply: keep one. In a table of several ways, each",
        ),
        (
            rows.assign(p=[str(p) for p in rows.p]),
            r"text '\[0.4, 0.4\]' in p, row 0: expected a list\..*json\.loads",
        ),
        (
            changed("p", [np.float64(0.4)] * 3, rows),
            r"row 3: p is \[0\.4, 0\.4, 0\.4\]: expected a",
        ),
        (changed("p", ["0.4", "0.5"], rows), r"p is \['0.4', '0.5'\]: expected probabilities"),
        (rows.drop(columns="p").assign(reply="A"), "for the way 'letters' give logprobs or p"),
        (changed("p", [0.4], rows), "row 3: p is .*expected a list of 2 numbers"),
        (changed("p", [0.4, -0.1], rows), r"row 3: p is \[0.4, -0.1\]: expected probabilities"),
        (
            changed("p", [0.4, 0.1], rows).rename(columns={"p": "logprobs"}),
            "expected log-probabilities, at most 0",
        ),
        (changed("p", [0.9, 0.8], rows), "sum to more than 0 and at most 1: 1.7"),
        (
            changed("p", [0.0, 0.0], rows),
            "row 3: p is .* sum to more than 0 .* Where no letter was shown, give each an equal",
        ),
        (changed("cell", 40, rows), "no cell 40: expected 0 to 10"),
        (other_truth, "answers refer to ground truth 000000000000, but"),
    ):
        with pytest.raises(EpidemiaError, match=message):
            score_answers(frame)


def test_a_cell_that_contradicts_given_is_refused():
    truth = load_truth(BY_AGE)
    ages = [f"age: {age}" for (age,) in truth.given]
    known = beliefs(BY_AGE).reset_index(drop=True)
    known["given"] = [[ages[cell]] for cell in known.cell]
    cell = known.cell[0]
    known["cell"] = 10 - known.cell
    message = (
        rf"{BY_AGE}, row 0: cell is {10 - cell} \({ages[10 - cell]}\), but given is "
        rf"'{ages[cell]}', which is cell {cell}: correct the wrong one"
    )
    with pytest.raises(EpidemiaError, match=message):
        score_answers(known)
    known["given"] = "age: 30-43"
    with pytest.raises(
        EpidemiaError, match=r"which is no cell of the task \(nearest: 'age: 30-34'"
    ):
        score_answers(known)
    rows = uniform(BY_AGE, "letters").assign(cell=lambda rows: 10 - rows.cell)
    with pytest.raises(
        EpidemiaError, match=r"row 0: cell is 10 \(age: .*, but given is 'age: 12-13'"
    ):
        score_answers(rows)


def uniform(task, way, **variant):
    """The questions of a task as they are exported, with answers that know nothing."""
    rows = questions(task, way, **variant).assign(way=way)
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


def test_letters_that_stand_for_variables_are_a_wording_too():
    task = "epidemia_intervention_random"
    rows = questions(task, names="letters").assign(way="intervention")
    rows["p"] = [[0.5, 0.4]] * len(rows)
    assert score_answers(rows).name[0] == task
    rows.loc[3, "prompt"] = questions(task).prompt[3]
    with pytest.raises(EpidemiaError, match="row 3: line 1 of prompt is"):
        score_answers(rows)


def test_questions_that_were_changed_are_refused():
    rows = uniform(BY_AGE, "letters")
    swapped = {
        "order": [order[::-1] for order in rows.order],
        "answers": [answers[::-1] for answers in rows.answers],
        "choices": [choices[::-1] for choices in rows.choices],
        "ordering": 1 - rows.ordering,
        "design": "random:9",
        "prompt": [prompt.replace("ever", "never") for prompt in rows.prompt],
    }
    for column, values in swapped.items():
        # A change of `order` shows in what is displayed in that order.
        named = r"line \d of prompt is" if column in ("order", "prompt") else f"{column} has"
        where = r"cell 0 and order \[(0, 1|1, 0)\]"
        message = (
            f"{BY_AGE}, row 0: {named} .*, but for {where} it (has|is) .*: give the rows as .* made"
        )
        with pytest.raises(EpidemiaError, match=message):
            score_answers(rows.assign(**{column: values}))
    quick = questions("epidemia_quick_low", "quick").assign(way="quick")
    quick["p"] = [[0.9 / len(choices)] * len(choices) for choices in quick.choices]
    assert len(score_answers(quick)) == 2
    with pytest.raises(EpidemiaError, match="row 0: order has"):
        score_answers(quick.assign(order=[order[::-1] for order in quick.order]))
    with pytest.raises(EpidemiaError, match="has no place 7: expected 0 to 1"):
        score_answers(quick.assign(place=[7, *quick.place[1:]]))


def test_what_has_no_truth_has_no_score():
    undated = questions("epidemia_years_undated_gsstrend_degree").assign(way="undated")
    undated["p"] = [[0.2] * 4] * len(undated)
    with pytest.raises(EpidemiaError, match="undated_gsstrend_degree has no truth"):
        score_answers(undated)
    priors = questions("epidemia_prior_nhanes").assign(way="direct", reply="", unit="kg")
    with pytest.raises(EpidemiaError, match="unit has 'kg', but for cell 0 and sample 1 it has"):
        score_answers(priors)


def test_rows_of_several_ways_are_in_one_table_each_with_its_column():
    letters, stated = uniform(BY_AGE, "letters"), uniform(BY_AGE, "stated")
    table = score_answers(pd.concat([letters, stated], ignore_index=True)).set_index("name")
    for rows in (letters, stated):
        alone = score_answers(rows).set_index("name")
        assert table.loc[alone.index].equals(alone)
    with pytest.raises(EpidemiaError, match="no way in row 22: fill it in, or score beliefs in a"):
        score_answers(pd.concat([letters, beliefs(BY_AGE)], ignore_index=True))
    with pytest.raises(EpidemiaError, match="_stated has no answers: for the way 'stated'"):
        score_answers(pd.concat([letters, stated.drop(columns="p")], ignore_index=True))


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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [BY_AGE, "False"], done.stderr


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
        advice = str(raised.value).split("become numbers with ")[1]
        numbers = eval(advice, {"pd": pd, "answers": texts})
        assert score_answers(texts.assign(**{name: numbers})).equals(score_answers(table))


def test_lists_that_a_csv_file_turned_into_texts_come_back_by_the_advice(tmp_path):
    rows = uniform(BY_AGE, "letters")
    scored = score_answers(rows)
    rows.to_csv(tmp_path / "lists.csv", index=False)
    answers = pd.read_csv(tmp_path / "lists.csv", dtype={"truth": str})
    for _ in ("given", "choices", "answers", "order", "logprobs"):
        with pytest.raises(EpidemiaError, match="A csv file keeps lists as texts") as raised:
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
    write, read = str(raised.value).split("write it with ")[1].split(" and read it with ")
    path = tmp_path / "rows.jsonl"
    eval(write, {"answers": arrays, "path": path})
    again = eval(read, {"pd": pd, "path": path})
    assert score_answers(again).equals(scored)
    assert score_answers(arrays.map(lambda x: list(x) if isinstance(x, np.ndarray) else x)).equals(
        scored
    )


def test_what_questions_returns_is_scored_as_it_is():
    rows = questions(BY_AGE)
    assert [*rows.columns[:2]] == ["task", "way"]
    rows["logprobs"] = [[-4.0, -4.0]] * len(rows)
    assert score_answers(rows).name[0] == BY_AGE
    lists, likelihood = rows.rename(columns={"logprobs": "p"}), uniform(BY_AGE, "likelihood")
    for table in (rows, lists, likelihood):
        for without in (table.drop(columns="way"), table.assign(way=None)):
            with pytest.raises(EpidemiaError, match=r"no column way .*: the rows are questions"):
                score_answers(without)


def test_conditions_in_another_order_are_told_which_cells_are_near():
    task = "epidemia_high_nsduh_cocaine_ever_by_age_sex"
    truth = load_truth(task)
    known = beliefs(task)
    given = [
        ", ".join(f"{k}: {v}" for k, v in zip(("sex", "age"), truth.given[cell][::-1], strict=True))
        for cell in known.cell
    ]
    cell = known.cell.iloc[0]
    age, sex = truth.given[cell]
    right = f"age: {age}, sex: {sex}"
    with pytest.raises(EpidemiaError, match=rf"nearest: '{right}'(, '|\))"):
        score_answers(known.assign(given=given).drop(columns="cell"))


def test_of_a_prompt_the_first_line_that_differs_is_shown():
    rows = uniform(BY_AGE, "letters")
    prompt = rows.prompt[0]
    first, *_, last = prompt.split("\n")
    for changed, message in (
        (
            prompt + "\n",
            rf"prompt ends with '{last}\\n', but for .* ends with '{last}' \(the white",
        ),
        (prompt[: -len(last) - 1], rf"line 4 of prompt is missing, but for .* it is '{last}'"),
        (
            prompt.replace("No", "Nein"),
            r"line \d of prompt is '\w\. Nein', but for .* is '\w\. No'",
        ),
        (f"Think.\n{prompt.replace('No', 'Nein')}", r"line \d of prompt is '\w\. Nein', but"),
        (f"Think.\n{first}!\n" + prompt.split("\n", 1)[1], r"line 2 of prompt is '.*!', but"),
    ):
        with pytest.raises(EpidemiaError, match=f"row 0: {message}"):
            score_answers(rows.assign(prompt=[changed, *rows.prompt[1:]]))
