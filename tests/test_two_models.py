"""`epidemia compare A B`: our tasks, and documents of real lm-eval runs of other tasks."""

import csv
import io
import json
import shutil

import numpy as np
import pytest
from conftest import recorded
from scipy import stats
from sums import EVEN, SIZES, write_tasks

from lm_eval_epidemia import api
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.versus import _find, compare_models
from lm_eval_epidemia.report.versus import LINES, WIDTH
from lm_eval_epidemia.results.documents import answered_in
from lm_eval_epidemia.results.read import read_results


@pytest.fixture(scope="session")
def tasks(tmp_path_factory):
    """Task files in a folder: a group by size, one of equal weights, with rows made here."""
    return write_tasks(tmp_path_factory.mktemp("sums"))


@pytest.fixture(scope="session")
def answered(tasks, tiny_llama, lettered_llama, tmp_path_factory):
    """Both models' results of all tasks, with samples."""
    folder = tmp_path_factory.mktemp("answered")
    for name, path in (("tiny", tiny_llama), ("lettered", lettered_llama)):
        (folder / name).symlink_to(path)
        ran(folder / "results", tasks, folder / name)
    return folder


def ran(out, tasks, model, asked=("sums", "even"), **how):
    given = {"model": "hf", "model_args": f"pretrained={model},dtype=float32", "device": "cpu"}
    return recorded(out, [*asked], include_path=str(tasks), batch_size=64, **given, **how)


def compared(one, other, *folders, **how):
    return compare_models(read_results(folders), one, other, **how)


def of_documents(made):
    """Rows on other people's tasks, by task and metric."""
    return made.documents.table.set_index(["task", "metric"])


def test_numbers_are_those_of_the_samples_by_another_route(answered):
    """Samples read as json, tests by scipy; a group's number as lm-eval's own file has it."""
    of = of_documents(compared("tiny", "lettered", answered / "results"))
    assert {*of.index} == {
        *(("sums", "acc"), ("even", "acc")),
        *((task, metric) for task in (*SIZES, *EVEN) for metric in ("acc", "acc_norm")),
    }
    results = read_results([answered / "results"])
    files, by_model = {}, {"tiny": {}, "lettered": {}}
    for run in answered_in(results):
        lines = run.samples.read_text().splitlines()
        by_model[results.runs["model"][run.run]][run.task] = [json.loads(line) for line in lines]
        files[results.runs["model"][run.run]] = run.file.results
    first, second = by_model["tiny"], by_model["lettered"]
    for group in ("sums", "even"):
        for model, side in (("tiny", "first"), ("lettered", "second")):
            told = files[model][group]["acc,none"]
            assert of.loc[group, "acc"][side] == pytest.approx(told)
    d = {
        task: np.array(
            [a["acc"] - b["acc"] for a, b in zip(first[task], second[task], strict=True)]
        )
        for task in first
    }
    everything = np.concatenate([d[task] for task in SIZES])
    assert np.count_nonzero(everything) >= 10  # else this says little
    result = of.loc["sums", "acc"]
    assert (result["wins"], result["losses"]) == ((everything > 0).sum(), (everything < 0).sum())
    assert result["difference"] == pytest.approx(everything.mean())
    # Two rows of each task are one document: McNemar's test would take them for two.
    assert (result["clusters"], result["test"]) == (len(everything) - 8, "paired t")
    assert of.loc["even_large", "acc_norm"]["wins"] == sum(
        a["acc_norm"] > b["acc_norm"]
        for a, b in zip(first["even_large"], second["even_large"], strict=True)
    )


def test_a_task_whose_documents_are_all_different_has_mcnemar_and_scipys_p(answered, tmp_path):
    results = copied(answered, tmp_path)
    for file in results.rglob("samples_even_large_*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:  # the second row once more becomes a document of its own
            line["doc_hash"] += str(line["doc_id"])
        file.write_text("\n".join(map(json.dumps, lines)))
    of = of_documents(compared("tiny", "lettered", results)).loc["even_large", "acc"]
    tosses = of["wins"] + of["losses"]
    assert tosses and of["test"] == "McNemar, exact"
    assert of["p"] == stats.binomtest(int(of["wins"]), int(tosses)).pvalue


def copied(answered, folder):
    return shutil.copytree(answered / "results", folder / "results")


def test_documents_that_only_one_has_are_named(answered, tasks, tmp_path):
    results = copied(answered, tmp_path)
    (lettered,) = results.glob("*lettered")
    shutil.rmtree(lettered)
    ran(results, tasks, answered / "lettered", limit=4)
    made = compared("tiny", "lettered", results)
    assert made.notes[0] == (
        "left out: 56 documents that only tiny was asked, in 10 tasks (sums_0: doc_id 4, 5; "
        "sums_1: doc_id 4, 5, 6; sums_2: doc_id 4, 5, 6 and 1 more; ...)"
    )
    assert made.notes[1].startswith("not compared: brier_score of sums_0, sums_1, sums_2 and 7")
    rows = of_documents(made)["rows"]
    assert (rows["sums_7", "acc"], rows["sums", "acc"]) == (4, 32)
    assert made.unlike == {"limit": ("none", "4")}


def test_other_prompts_versions_and_examples_are_refused(answered, tasks, tmp_path):
    results = copied(answered, tmp_path)
    ran(tmp_path / "more", tasks, answered / "lettered", asked=["even"], num_fewshot=1)
    folders = [*results.glob("*tiny"), tmp_path / "more"]
    with pytest.raises(EpidemiaError, match="were asked no task in the same way") as stopped:
        compared("tiny", "lettered", *folders)
    assert (
        "not compared: even_small, even_large: tiny and lettered were asked with different "
        "number of few-shot examples (0 and 1)" in str(stopped.value)
    )
    for key, why in (
        ("prompt_hash", "1 of 5 rows of samples had a different prompt"),
        ("target_hash", "1 of 5 rows of samples have a different right answer"),
        (
            "doc_hash",
            "left out: 1 document that only tiny was asked, in 1 task (even_small: doc_id 4)",
        ),
    ):
        changed = shutil.copytree(results, tmp_path / key)
        (file,) = changed.rglob("*lettered/samples_even_small_*.jsonl")
        *lines, last = file.read_text().splitlines()
        file.write_text("\n".join([*lines, json.dumps({**json.loads(last), key: "x"})]))
        notes = compared("tiny", "lettered", changed).notes
        assert any("even_small" in note and why in note for note in notes), key
        assert any(note.startswith("even is not compared as a whole") for note in notes) == (
            key != "doc_hash"
        )


def test_each_model_may_have_its_own_chat_template(answered, tasks, tmp_path):
    """Prompts differ then, and the task's configuration says whether the questions do."""
    results = copied(answered, tmp_path)
    chat = tmp_path / "chat"
    ran(chat, tasks, answered / "lettered", asked=["even_small"], apply_chat_template=True)
    folders = [*results.glob("*tiny"), chat]
    made = compared("tiny", "lettered", *folders)
    assert {*made.documents.table["task"]} == {"even_small"}
    assert made.unlike["chat_template"] == ("none", "yes")
    (file,) = chat.rglob("results_*.json")
    written = json.loads(file.read_text())
    written["configs"]["even_small"]["doc_to_text"] = "{{question}}!"
    file.write_text(json.dumps(written))
    with pytest.raises(EpidemiaError, match="the task's files differ in doc_to_text"):
        compared("tiny", "lettered", *folders)


def test_rows_are_clustered_by_a_column(answered):
    """Passages: documents two at a time."""
    of = of_documents(compared("tiny", "lettered", answered / "results", cluster="passage"))
    large = of.loc["even_large", "acc"]
    # Its numbers are 81 to 95, of passages 40 to 47; 83 is replaced by 82.
    columns = ["clustered_by", "rows", "clusters", "too_few", "test"]
    assert [*large[columns]] == ["passage", 15, 8, "", "paired t"]
    few = of.loc["sums_0", "acc"]
    assert few["too_few"] == "too few clusters by passage"
    assert few[["low", "high", "p"]].isna().all()
    with pytest.raises(EpidemiaError, match="both models answered has this column; nearest"):
        compared("tiny", "lettered", answered / "results", cluster="pasage")


def test_a_screen_of_words_and_all_numbers_as_csv(answered, epidemia, monkeypatch):
    """Typed where folders are called like the models, as lm-eval calls them."""
    monkeypatch.chdir(answered)
    both = "tiny", "lettered", "results"
    done = epidemia("compare", *both)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "tiny against lettered" and len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("sums, acc, 8 tasks, 76 rows of 68 documents: ") for line in lines)
    assert epidemia("compare", "--models", *both).stdout == done.stdout
    forms = "csv", "json", "latex"
    shown = {form: epidemia("compare", *both, "--format", form).stdout for form in forms}
    rows = list(csv.DictReader(io.StringIO(shown["csv"])))
    assert len(rows) == 2 + 2 * (len(SIZES) + len(EVEN))
    written = [row["difference"] for row in json.loads(shown["json"])]
    assert [float(row["difference"]) for row in rows] == pytest.approx(written)
    assert "\\begin{tabular}" in shown["latex"]


def test_samples_that_are_missing_or_damaged_cost_their_task_alone(answered, tmp_path, epidemia):
    results = copied(answered, tmp_path)
    (missing,) = results.rglob("*lettered/samples_sums_0_*.jsonl")
    missing.unlink()
    (damaged,) = results.rglob("*tiny/samples_even_small_*.jsonl")
    damaged.write_text(f"{{{damaged.read_text()}")
    made = compared("tiny", "lettered", results, cluster="passage")
    assert {*made.documents.table["task"]} == {*SIZES, *EVEN} - {"sums_0", "even_small"}
    notes = "\n".join(made.notes)
    assert "not compared: sums_0: samples of both are missing; run them again with" in notes
    assert "not compared: even_small: " in notes and "line 1 is not a sample" in notes
    for file in results.rglob("samples_*"):
        file.unlink()
    said = epidemia("compare", "tiny", "lettered", results).stderr
    assert "were asked no task in the same way" in said
    assert "even_large, even_small, sums_0 and 7 more: samples of both are missing" in said


# -- Over our tasks, of constructed files --------------------------------------------------------

LOW = [
    *(f"epidemia_low_acs_{outcome}_by_sex" for outcome in ("employer", "salary", "education")),
    *(f"epidemia_low_scf_{outcome}_by_age" for outcome in ("assets", "debt", "net_worth")),
    *(f"epidemia_low_nsduh_{outcome}_ever_by_age" for outcome in ("cocaine", "heroin")),
]
HIGH = [
    *(f"epidemia_high_nsduh_{outcome}_ever_by_sex_race" for outcome in ("cocaine", "marijuana")),
    "epidemia_high_scf_home_ownership_by_age_education",
]


def scored(folder, name, values, error=1.0, **config):
    """A result file with scores, the population's alike; errors are of the asking alone."""
    rows = {
        task: {"score,none": x, "score_population,none": x, "score_stderr,none": error}
        for task, x in values.items()
    }
    asking = {"score": error, "score_population": error}
    drawn = {
        task: {"sample": "", "score": "", "score_population": "", "asking": asking}
        for task in values
    }
    named = {"pretrained": f"org/{name}"} if name else {}
    arguments = {**named, **config.pop("model_args", {})}
    folder.mkdir(parents=True)
    written = {
        "results": rows,
        "config": {"model": "hf", "model_args": arguments, **config},
        "epidemia": {"replicates": drawn},
    }
    (folder / "results_2026.json").write_text(json.dumps(written))


@pytest.fixture
def ours(tmp_path):
    """The large is 10 to 17 points better in low, and 30 better or worse in high."""
    small = dict.fromkeys([*LOW, *HIGH], 40.0)
    large = {task: 50.0 + place for place, task in enumerate(LOW)}
    large |= dict(zip(HIGH, (70.0, 70.0, 10.0), strict=True))
    scored(tmp_path / "small", "small-1B", small)
    scored(tmp_path / "large", "large-7B", large, model_args={"dtype": "bfloat16"})
    return tmp_path


def test_who_is_better_in_words(ours, epidemia):
    """Low: mean 13.5 over 8 outcomes, sd 2.449, so 13.5 -+ 2.365 * 2.449 / sqrt(8): 11.5 to 15.5.

    The error of these tasks is sqrt(2 / 8) = .5. High: (30 + 30 - 30) / 3 = 10, error sqrt(2 / 3).
    """
    done = epidemia("compare", "small-1B", "org/large-7B", ours)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert text.startswith("small-1B against large-7B Run differently: dtype auto / bfloat16.")
    assert (
        "epidemia_low, 8 tasks on 8 outcomes: large-7B is better, here and elsewhere, by 13.5 "
        "points (here ± 0.5; elsewhere 11.5 to 15.5). Tasks won: 0 against 8, 0 ties." in text
    )
    assert (
        "epidemia_high, 3 tasks on 3 outcomes: large-7B is better here (elsewhere not "
        "shown) by 10.0 points (here ± 0.8; too few outcomes to generalise). Tasks won: 1 "
        "against 2, 0 ties." in text
    )
    assert "epidemia_low + epidemia_high, 11 tasks on 10 outcomes: " in text
    assert len(done.stdout.splitlines()) <= LINES
    table = epidemia("compare", "small-1B", "large-7B", ours, "--format", "csv").stdout
    rows = {row["group"]: row for row in csv.DictReader(io.StringIO(table))}
    assert float(rows["epidemia_low"]["difference"]) == -13.5
    assert rows["epidemia_low"]["verdict"] == "worse"


def test_names_that_are_wrong_or_of_several_runs(ours, epidemia):
    def refused(*arguments):
        done = epidemia("compare", *arguments)
        assert done.returncode == 2 and not done.stdout
        return done.stderr

    for wrong in ("large", "7b"):
        said = refused("small-1B", wrong, ours)
        assert f"no model '{wrong}' in these results; nearest: large-7B" in said
    assert "are the same model" in refused("small-1B", "org/small-1B", ours)
    assert "folder that lm_eval wrote (--output_path): epidemia compare 'a b' c RE" in (
        refused("a b", "c")
    )
    assert "nowhere does not exist" in refused("small-1B", "large-7B", "nowhere")
    assert "'small-1B' holds no results" in refused("small-1B", ours)
    assert "no run has this setting" in refused(ours, "--where", "precision=none")
    scored(ours / "again", "large-7B", {LOW[0]: 90.0}, model_args={"dtype": "float32"})
    several = refused("small-1B", "large-7B", ours)
    assert "large-7B was asked the same survey tasks in 2 runs; choose one:" in several
    # The other has neither.
    named = "large-7B (bfloat16)"
    assert several.endswith(f":\n  'large-7B (float32)'\n  '{named}'\n")
    removed = refused("small-1B", "large-7B", ours, "--where", "dtype=float32")
    assert removed == (
        "error: --where dtype=float32 leaves no run of 'small-1B'; its runs have: dtype is auto\n"
    )
    scored(ours / "both", "other", {LOW[0]: 50.0}, model_args={"dtype": "float32"})
    assert refused("other", "large-7B", ours).endswith(
        f":\n  'large-7B (float32)', or --where dtype=float32\n  '{named}'\n"
    )
    done = epidemia("compare", "other", "large-7B", ours, "--where", "dtype=float32")
    assert "large-7B is" in done.stdout
    done = epidemia("compare", "small-1B", named, ours)
    assert done.returncode == 0 and "by 13.5 points" in " ".join(done.stdout.split())
    done = epidemia("compare", "large-7B (float32)", named, ours)
    assert "by 40.0 points" in " ".join(done.stdout.split())


def test_the_name_of_a_run_chooses_it(ours, epidemia):
    """Where the model is called so too: small-1B and small-1B (chat template)."""
    chat = dict.fromkeys([*LOW, *HIGH], 45.0)
    scored(ours / "chat", "small-1B", chat)
    (file,) = (ours / "chat").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": "{{m}}"}))
    run, plain = "small-1B (chat template)", "small-1B"
    done = epidemia("compare", plain, run, ours)
    assert done.returncode == 0, done.stderr
    assert f"{run} is better, here and elsewhere, by 5.0 points" in " ".join(done.stdout.split())
    assert "its model has others" not in done.stderr
    done = epidemia("compare", plain, "large-7B", ours)
    assert (
        f"note: {plain} means the run with this name; its model has others: '{run}'" in done.stderr
    )
    assert "by 13.5 points" in " ".join(done.stdout.split())
    several = epidemia("compare", f"org/{plain}", "large-7B", ours).stderr
    chosen = f"{plain}, or --where chat_template=none,template=none"
    assert several.endswith(f"choose one:\n  '{run}'\n  {chosen}\n")


def test_a_run_has_its_own_tasks_of_others(tmp_path):
    """m was asked arc in the run of its name and in that of 10 documents.

    Two runs that differ in our tasks alone have the same samples, which are no comparison.
    """
    for name, limit in (("whole", None), ("cut", 10.0)):
        scored(tmp_path / name, "m", dict.fromkeys(HIGH, 45.0), limit=limit)
        file = tmp_path / name / "results_2026.json"
        written = json.loads(file.read_text())
        written["results"] = {
            task: {**row, "seen,none": 0.5 if limit else 1.0}
            for task, row in written["results"].items()
        }
        written["results"]["arc"] = {"acc,none": 0.4}
        written["n-samples"] = {"arc": {"original": 20, "effective": limit or 20}}
        file.write_text(json.dumps(written))
        file.with_name("samples_arc_2026.jsonl").touch()
    results = read_results([tmp_path])
    answered = answered_in(results)
    for name, folder in (("m", "whole"), ("m (limit 10)", "cut")):
        side = _find(name, results, answered, "")
        assert side.answered["arc"].path.parent.name == folder
    # What only the other was asked is of both.
    (tmp_path / "cut" / "samples_arc_2026.jsonl").unlink()
    file = tmp_path / "cut" / "results_2026.json"
    written = json.loads(file.read_text())
    del written["results"]["arc"]
    file.write_text(json.dumps(written))
    with pytest.raises(EpidemiaError, match="were asked no task in the same way") as stopped:
        compared("m", "m (limit 10)", tmp_path)
    assert "arc" not in str(stopped.value)


def test_folders_of_two_models_are_compared_without_names(ours, epidemia):
    for form in ("table", "csv"):
        done = epidemia("compare", ours / "small", ours / "large", "--format", form)
        named = epidemia("compare", "small-1B", "large-7B", ours, "--format", form)
        assert done.stdout == named.stdout
    done = epidemia("compare", ours / "large", ours / "small")
    assert done.stdout.startswith("large-7B against small-1B\n")
    scored(ours / "third", "third", dict.fromkeys(LOW, 30.0))
    done = epidemia("compare", ours)
    assert done.returncode == 2 and "nothing to compare: " in done.stderr
    command = f"epidemia compare large-7B small-1B {ours}"
    assert done.stderr.endswith(f"; or name two models: {command}\n")
    assert epidemia(*command.split()[1:]).returncode == 0


def test_who_does_not_answer_is_not_compared(ours, epidemia):
    (path,) = (ours / "large").glob("*.json")
    written = json.loads(path.read_text())
    for task in LOW:
        written["results"][task]["choice_mass,none"] = 0.02
    path.write_text(json.dumps(written))
    done = epidemia("compare", "small-1B", "large-7B", ours)
    assert "epidemia_low: not compared, as large-7B (bfloat16) does not answer" in done.stderr
    assert "epidemia_low," not in done.stdout and "epidemia_high, " in done.stdout
    for task in HIGH:
        written["results"].pop(task)
    path.write_text(json.dumps(written))
    error = epidemia("compare", "small-1B", "large-7B", ours).stderr
    assert error.startswith("error: small-1B and large-7B cannot be compared\n")


def test_predictions_are_not_compared_and_what_to_run_is_said(tmp_path, epidemia):
    quick = dict.fromkeys(("epidemia_quick_low", "epidemia_quick_high"), 50.0)
    scored(tmp_path / "a", "a", quick)
    scored(tmp_path / "b", "b", quick)
    alone = (
        "epidemia_quick only predicts scores, so it is not compared: run epidemia_low and "
        "epidemia_high with both"
    )
    done = epidemia("compare", "a", "b", tmp_path)
    first, *notes = done.stderr.splitlines()
    assert first == f"error: {alone}" and not any("is not compared" in note for note in notes)
    scored(tmp_path / "c", "c", {LOW[0]: 40.0})
    said = epidemia("compare", "a", "c", tmp_path).stderr
    assert "a and c share no task: run both on the same tasks" in said
    for name in "ab":
        scored(tmp_path / f"low-{name}", name, {LOW[0]: 40.0})
    assert alone in compared("a", "b", tmp_path).notes


def test_a_respondents_run_is_named_by_what_it_knows(tmp_path):
    config = {"model": "epidemia-baseline", "model_args": {"kind": "mean"}}
    scored(tmp_path / "m", "m", dict.fromkeys(LOW, 20.0))
    scored(tmp_path / "whole", "", dict.fromkeys(LOW, 30.0), **config)
    scored(tmp_path / "chat", "", dict.fromkeys(LOW, 40.0), **config)
    (file,) = (tmp_path / "chat").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": "{{m}}"}))
    with pytest.raises(EpidemiaError) as stopped:
        compared("knows averages only", "m", tmp_path)
    assert "\n  'knows averages only (kind=mean, chat template)'" in str(stopped.value)
    run = "knows averages only (kind=mean, chat template)"
    of_run = compared(run, "m", tmp_path)
    assert of_run.one.name == run and of_run.ours.table["difference"][0] == 20.0


def test_tasks_asked_otherwise_are_left_out_and_counted(ours, epidemia):
    """Another number of examples in every task: nothing is left to compare."""
    path = ours / "large" / "results_2026.json"
    written = json.loads(path.read_text())
    written["n-shot"] = dict.fromkeys(LOW[:3], 5)
    path.write_text(json.dumps(written))
    done = epidemia("compare", "small-1B", "large-7B", ours)
    assert "epidemia_low: left out 3 of 8 common tasks" in done.stderr
    assert "epidemia_low, 5 tasks on 5 outcomes: " in done.stdout


def test_models_of_one_name_are_called_by_the_settings_that_differ(tmp_path, epidemia):
    noise = "knows the truth with noise (kind=noisy, noise=.{})"
    for tenth in (3, 6):
        arguments = {"kind": "noisy", "noise": f".{tenth}"}
        values = dict.fromkeys(LOW, 90.0 - 10 * tenth)
        config = {"model": "epidemia-baseline", "model_args": arguments}
        scored(tmp_path / str(tenth), "", values, **config)
    done = epidemia("compare", noise.format(3), noise.format(6), tmp_path)
    assert "8 outcomes: knows the truth with noise (noise=.3) is" in " ".join(done.stdout.split())
    scored(tmp_path / "m", "m", dict.fromkeys(LOW, 20.0), model_args={"revision": "a"})
    scored(tmp_path / "n", "m", dict.fromkeys(LOW, 20.0), model_args={"revision": "b"})
    hint = epidemia("compare", "m", noise.format(3), tmp_path).stderr
    assert "no model 'm' in these results; nearest: m +revision=a, m +revision=b" in hint
    made = compared("m +revision=b", noise.format(3), tmp_path)
    assert made.called == ("m +revision=b", "knows the truth with noise")


def test_python_has_what_the_command_prints(ours, epidemia):
    made = api.compare("small-1B", "org/large-7B", str(ours))
    assert f"{made}\n" == epidemia("compare", "small-1B", "large-7B", ours).stdout
    assert (made.one, made.other) == ("small-1B", "large-7B")
    assert made.unlike == {"dtype": ("auto", "bfloat16")}
    assert all("the file lacks" in note for note in made.notes)
    table = epidemia("compare", "small-1B", "large-7B", ours, "--format", "csv").stdout
    rows = [*csv.DictReader(io.StringIO(table))]
    assert [row["verdict"] for row in rows] == [*made.table.verdict]
    assert [float(row["difference"]) for row in rows] == [*made.table.difference]
    for where, message in (
        ({"dtype": "bfloat16"}, "where={'dtype': 'bfloat16'} leaves no run of 'small-1B'; its"),
        ({"precision": "none"}, "where={'precision': 'none'}: no run has this setting; expected"),
        ({"wording": "a b", "limit": "1"}, "where={'wording': 'a b', 'limit': '1'} leaves no run:"),
    ):
        with pytest.raises(EpidemiaError) as stopped:
            api.compare("small-1B", "large-7B", [ours], where)
        assert str(stopped.value).startswith(message)
    scored(ours / "again", "large-7B", {LOW[0]: 90.0}, model_args={"dtype": "float32"})
    scored(ours / "both", "other", {LOW[0]: 50.0}, model_args={"dtype": "float32"})
    with pytest.raises(EpidemiaError, match=r", or where=\{'dtype': 'float32'\}\n"):
        api.compare("other", "large-7B", ours)


def test_tasks_that_only_one_was_asked_are_counted(ours):
    one_more = dict.fromkeys([*LOW, *HIGH, "epidemia_low_fbi_sex_by_offense"], 30.0)
    scored(ours / "third", "third", one_more)
    notes = compared("third", "small-1B", ours).notes
    alone = "left out: 1 task that only third was asked (epidemia_low_fbi_sex_by_offense)"
    assert notes[-1] == alone


def test_a_damaged_file_beside_good_ones_is_named(ours, epidemia):
    (ours / "large" / "results_2025.json").write_text('{"results": ')
    done = epidemia("compare", "small-1B", "large-7B", ours)
    assert done.returncode == 0 and "results_2025.json is not a result file" in done.stderr
    # It may be of the model that is not there.
    said = epidemia("compare", "small-1B", "other", ours).stderr
    assert "no model 'other'" in said and "results_2025.json is not a result file" in said
    # What else there is to say of the results is no part of it.
    assert len(said.splitlines()) == 2
