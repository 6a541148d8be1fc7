"""`epidemia compare`: two models on our tasks and on those of others; one model in several ways."""

import io
import json
import math
import shlex
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY, recorded
from report_parts import COCAINE, EIGHT, HEROIN, by, command, said, table, write
from sums import EVEN, SIZES, write_tasks
from test_approved import approved

from lm_eval_epidemia import api
from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.versus import _find_side, compare_models
from lm_eval_epidemia.report.screen import LINES
from lm_eval_epidemia.results.documents import answered_in
from lm_eval_epidemia.results.read import read_results

# Other people's tasks.


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Task files in a folder: a group by size, one of equal weights, with rows made here."""
    return write_tasks(tmp_path_factory.mktemp("sums"))


def ran(out, tasks, model, asked=("sums", "even"), **how):
    given = {"model": "hf", "model_args": f"pretrained={model},dtype=float32", "device": "cpu"}
    return recorded(out, [*asked], include_path=str(tasks), batch_size=64, **given, **how)


@pytest.fixture(scope="module")
def answered(tasks, tiny_llama, lettered_llama, tmp_path_factory):
    """Both models' results of all tasks, with samples; a further run with other settings."""
    folder = tmp_path_factory.mktemp("answered")
    for name, path in (("tiny", tiny_llama), ("lettered", lettered_llama)):
        (folder / name).symlink_to(path)
        ran(folder / "results", tasks, folder / name)
    how = {"limit": 4, "apply_chat_template": True}
    ran(folder / "chat", tasks, folder / "lettered", ["even_small"], **how)
    return folder


def compared(one, other, *folders, **how):
    return compare_models(read_results(folders), one, other, **how)


def of_documents(made):
    """Rows on other people's tasks, by task and metric."""
    return made.documents.table.set_index(["task", "metric"])


def test_numbers_are_those_of_the_samples_by_another_route(answered):
    """Samples read as json; a group's number as lm-eval's own file has it."""
    of, right = of_documents(compared("tiny", "lettered", answered / "results")), {}
    both = product((*SIZES, *EVEN), ("acc", "acc_norm"))
    assert {*of.index} == {("sums", "acc"), ("even", "acc"), *both}
    for model, side in (("tiny", "first"), ("lettered", "second")):
        (path,) = (answered / "results").rglob(f"*{model}/results_*.json")
        for group in ("sums", "even"):
            told = json.loads(path.read_text())["results"][group]["acc,none"]
            assert of.loc[group, "acc"][side] == pytest.approx(told)
        for task in (*SIZES, "even_large"):
            (samples,) = path.parent.glob(f"samples_{task}_*.jsonl")
            right[model, task] = pd.read_json(samples, lines=True)[["acc", "acc_norm"]].to_numpy()
    d = {task: right["tiny", task] - right["lettered", task] for task in (*SIZES, "even_large")}
    everything, sums = np.concatenate([d[task][:, 0] for task in SIZES]), of.loc["sums", "acc"]
    assert (sums["wins"], sums["losses"]) == ((everything > 0).sum(), (everything < 0).sum())
    assert sums["wins"] + sums["losses"] >= 10  # else this says little
    assert sums["difference"] == pytest.approx(everything.mean())
    # Two rows of each task are one document: McNemar's test would take them for two.
    assert (sums["clusters"], sums["test"]) == (len(everything) - 8, "paired t")
    assert of.loc["even_large", "acc_norm"]["wins"] == (d["even_large"][:, 1] > 0).sum()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("prompt_hash", "1 of 5 rows of samples had a different prompt"),
        ("target_hash", "1 of 5 rows of samples have a different right answer"),
        ("doc_hash", "left out: 1 document that only tiny was asked, in 1 task (even_small: doc"),
        ("missing", "even_small: samples of both are missing; run them again with --log_samples"),
        ("damaged", "line 5 is not a sample"),
    ],
)
def test_other_or_damaged_samples_cost_their_task_alone(answered, tmp_path, key, says):
    results = shutil.copytree(answered / "results", tmp_path / "results")
    side = "tiny" if key == "damaged" else "lettered"
    (file,) = results.rglob(f"*{side}/samples_even_small_*.jsonl")
    *lines, last = file.read_text().splitlines()
    changed = "{" if key == "damaged" else json.dumps({**json.loads(last), key: "x"})
    file.write_text("\n".join([*lines, changed]))
    if key == "missing":
        file.unlink()
    made = compared("tiny", "lettered", results, cluster="passage")
    assert any("even_small" in note and says in note for note in made.notes)
    gone = {*SIZES, *EVEN, "sums", "even"} - {*made.documents.table["task"]}
    assert gone == (set() if key == "doc_hash" else {"even_small", "even"})


def test_each_model_may_have_its_own_chat_template_but_not_other_questions(answered, tmp_path):
    """Prompts differ then, and the task's configuration says whether the questions do."""
    shutil.copytree(answered / "chat", tmp_path / "chat")
    folders = [*(answered / "results").glob("*tiny"), tmp_path / "chat"]
    made = compared("tiny", "lettered", *folders)
    assert {*made.documents.table["task"]} == {"even_small"}
    assert made.unlike == {"limit": ("none", "4"), "chat_template": ("none", "yes")}
    assert of_documents(made)["rows"]["even_small", "acc"] == 4
    assert any(note.startswith("not compared: brier_score of even_small") for note in made.notes)
    (file,) = (tmp_path / "chat").rglob("results_*.json")
    written = json.loads(file.read_text())
    for part, value, why in (
        (written["configs"]["even_small"], {"doc_to_text": "{{question}}!"}, ".*doc_to_text"),
        (written["n-shot"], {"even_small": 1}, r".*number of few-shot examples \(0 and 1\)"),
    ):
        part.update(value)
        file.write_text(json.dumps(written))
        with pytest.raises(EpidemiaError, match=f"(?s)asked no task in the same way.*small: {why}"):
            compared("tiny", "lettered", *folders)


def test_rows_are_clustered_by_a_column(answered):
    """Passages: documents two at a time."""
    where = "tiny", "lettered", answered / "results"
    of = of_documents(compared(*where, cluster="passage"))
    # Its numbers are 81 to 95, of passages 40 to 47; 83 is replaced by 82.
    columns = ["clustered_by", "rows", "clusters", "too_few", "test"]
    assert [*of.loc["even_large", "acc"][columns]] == ["passage", 15, 8, "", "paired t"]
    few = of.loc["sums_0", "acc"]
    assert few["too_few"] and few[["low", "high", "p"]].isna().all()
    with pytest.raises(EpidemiaError, match="both models answered has this column; nearest"):
        compared(*where, cluster="pasage")


def test_a_screen_of_words_and_all_numbers_as_csv(answered, monkeypatch):
    """Typed where folders are called like the models, as lm-eval calls them."""
    monkeypatch.chdir(answered)
    both = "tiny", "lettered", "results"
    lines = command("compare", *both).splitlines()
    assert lines[0] == "tiny against lettered" and len(lines) <= LINES
    assert any(line.startswith("sums, acc, 8 tasks, 76 rows of 68 documents: ") for line in lines)
    forms = {form: command("compare", *both, "--format", form) for form in ("csv", "json", "latex")}
    numbers = [row["difference"] for row in json.loads(forms["json"])]
    assert len(numbers) == 2 + 2 * (len(SIZES) + len(EVEN))
    assert [*pd.read_csv(io.StringIO(forms["csv"]))["difference"]] == pytest.approx(numbers)
    assert "\\begin{tabular}" in forms["latex"]


# Our tasks, of constructed files.

HIGH = [
    *(f"epidemia_high_nsduh_{outcome}_ever_by_sex_race" for outcome in ("cocaine", "marijuana")),
    "epidemia_high_scf_home_ownership_by_age_education",
]


def alike(value, tasks=(*EIGHT, *HIGH)):
    return dict.fromkeys(tasks, (value, 1.0))


#: The large is 10 to 17 points better in low, and 30 better or worse in high.
LARGE = {task: (50.0 + place, 1.0) for place, task in enumerate(EIGHT)}
LARGE |= {**alike(70.0, HIGH[:2]), **alike(10.0, HIGH[2:])}
SILENT = {task: {"score,none": 50.0, "choice_mass,none": 0.02} for task in EIGHT}
HALF, FULL = {"dtype": "bfloat16"}, {"dtype": "float32"}
QUICK = ["epidemia_quick_low", "epidemia_quick_high"]

#: By folder: the model (of our respondents, none), its arguments, scores, what else the file says.
RUNS = {
    "small": ("org/small-1B", {}, alike(40.0), {}),
    "chat": ("org/small-1B", {}, alike(45.0), {"chat_template": "{{m}}"}),
    "large": ("org/large-7B", HALF, LARGE, {}),
    "shots": ("org/large-7B", HALF, LARGE, {"n-shot": dict.fromkeys(EIGHT[:3], 5)}),
    "silent": ("org/large-7B", HALF, {**LARGE, **SILENT}, {}),
    "mute": ("org/large-7B", HALF, SILENT, {}),
    "full": ("org/large-7B", FULL, alike(90.0, EIGHT[:1]), {}),
    "other": ("org/other", FULL, alike(50.0, EIGHT[:1]), {}),
    "third": ("third", {}, alike(30.0, [*EIGHT, "epidemia_low_fbi_sex_by_offense"]), {}),
    **{f"low-{name}": (name, {}, alike(40.0, EIGHT[:1]), {}) for name in "ab"},
    **{f"quick-{name}": (name, {}, alike(50.0, QUICK), {}) for name in "ab"},
    **{f"m-{x}": ("m", {"revision": x}, alike(20.0, EIGHT), {}) for x in "xy"},
    "noisy-3": (None, {"kind": "noisy", "noise": ".3"}, alike(60.0, EIGHT), {}),
    "noisy-6": (None, {"kind": "noisy", "noise": ".6"}, alike(30.0, EIGHT), {}),
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours")
    for name, (model, arguments, scores, more) in RUNS.items():
        config = {"model_args": {"pretrained": model, **arguments}}
        if model is None:
            config = {"model": "epidemia-baseline", "model_args": arguments}
        write(folder / name, scores, config=config, **more)
    (folder / "damaged").mkdir()
    (folder / "damaged" / "results_2025.json").write_text('{"results": ')
    return folder


def test_who_is_better(ours):
    """Low: mean 13.5 over 8 outcomes, sd 2.449, so 13.5 -+ 2.365 * 2.449 / sqrt(8): 11.5 to 15.5.

    The error of these tasks is sqrt(2 / 8) = .5. High: (30 + 30 - 30) / 3 = 10, error sqrt(2 / 3).
    """
    folders = ours / "small", ours / "large"
    made = api.compare("small-1B", "org/large-7B", folders)
    table = made.table.set_index("group")
    numbers = ["difference", "corrected_error", "low", "high", "wins", "losses"]
    low, high = (table.loc[f"epidemia_{of}", numbers].tolist() for of in ("low", "high"))
    assert low == pytest.approx([-13.5, 0.5, -15.5478, -11.4522, 0, 8], abs=1e-4)
    assert high == pytest.approx([-10, math.sqrt(2 / 3), math.nan, math.nan, 1, 2], nan_ok=True)
    # Python has what the command prints, and folders of two models need no names.
    for names in (["small-1B", "large-7B"], []):
        assert f"{made}\n" == command("compare", *names, *folders)
    assert made.unlike == {"dtype": ("auto", "bfloat16")} and not made.notes
    with pytest.raises(EpidemiaError, match=r"where=\{'dtype': .* leaves no run of 'small"):
        api.compare("small-1B", "large-7B", folders, {"dtype": "bfloat16"})
    with pytest.raises(EpidemiaError, match=r"where='dtype': expected settings"):
        api.compare("small-1B", "large-7B", folders, "dtype")
    with pytest.raises(EpidemiaError, match=r"None and 'small-1B': expected the names of two"):
        api.compare(None, "small-1B", folders)
    with pytest.raises(EpidemiaError, match=r"epidemia-baseline --model_args kind=mean alike"):
        api.compare("small-1B", "knows averages only", folders)


TYPED = yaml.safe_load((REPOSITORY / "tests/data/compare.yaml").read_text())["typed"]


def test_what_is_said_of_names_and_of_what_is_not_compared(ours, epidemia, monkeypatch):
    monkeypatch.chdir(ours)
    told = []
    for line in TYPED:
        done = epidemia("compare", *shlex.split(line))
        told.append(f"$ epidemia compare {line}\n{done.stderr}{done.stdout}[{done.returncode}]\n")
    approved("compare.txt", "\n".join(told))


def test_a_run_has_its_own_tasks_of_others(tmp_path):
    """m was asked arc in the run of its name and in that of 10 documents.

    Two runs that differ in our tasks alone have the same samples, which are no comparison.
    """
    for name, limit, seen in (("m", None, 1.0), ("m (limit 10)", 10.0, 0.5)):
        sizes = {"n-samples": {"arc": {"original": 20, "effective": limit or 20}}}
        row = {"score,none": 45.0, "seen,none": seen}
        asked = {**dict.fromkeys(HIGH, row), "arc": {"acc,none": 0.4}}
        path = write(tmp_path / name, asked, "m", config={"limit": limit}, **sizes)
        (samples := path.with_name("samples_arc_2026-01-01.jsonl")).touch()
    results = read_results([tmp_path])
    for name in ("m", "m (limit 10)"):
        side = _find_side(name, results, answered_in(results), "")
        assert side.answered["arc"].path.parent.name == name
    # What only the other was asked is of both.
    samples.unlink()
    written = json.loads(path.read_text())
    del written["results"]["arc"]
    path.write_text(json.dumps(written))
    with pytest.raises(EpidemiaError, match="were asked no task in the same way") as stopped:
        compared("m", "m (limit 10)", tmp_path)
    assert "arc" not in str(stopped.value)


# One model in several ways, wordings and versions.


def test_ways_are_side_by_side_over_common_tasks_and_paired_by_task(tmp_path):
    write(tmp_path / "a", {COCAINE: (40.0, 3.0), HEROIN: (20.0, 4.0), "mmlu": (1.0, 0.1)}, "m")
    asked = {f"{COCAINE}_stated": (50.0, 6.0), f"{HEROIN}_stated": (26.0, 3.0)}
    asked |= {f"{COCAINE}_sampled": (30.0, 1.0), f"{HEROIN}_sampled": {"score,none": math.nan}}
    write(tmp_path / "b", asked, "m")
    found = table("side-by-side", tmp_path)
    assert {*by(found, "model", "group", "tasks")} == {("m", "epidemia_low", 1)}
    rows = [["letters", 40.0, 3.0], ["stated", 50.0, 6.0], ["sampled", 30.0, 1.0]]
    assert found[["way", "value", "error"]].to_numpy().tolist() == rows
    # Likelihoods of another task are paired with nothing.
    third = "epidemia_low_nsduh_marijuana_ever_by_age_likelihood"
    write(tmp_path / "c", {third: (20.0, 1.0)}, "m")
    found = table("ways", tmp_path)
    pairs = {("stated", "letters"): 8, ("sampled", "letters"): -10, ("stated", "sampled"): 20}
    assert by(found, "asked", "other", of="difference") == pairs
    (stated,) = found[found["tasks"] == 2].to_dict("records")
    assert (stated["group"], stated["corrected"]) == ("epidemia_low_stated", 8.0)
    # Errors of the asking alone here, which are independent: sqrt(3^2 + 6^2 + 4^2 + 3^2) / 2
    assert stated["corrected_error"] == pytest.approx(math.sqrt(9 + 36 + 16 + 9) / 2)
    assert (stated["wins"], stated["ties"], stated["losses"]) == (0, 2, 0)
    shown = command("compare", tmp_path)
    assert "One model asked in two ways" in shown and "+8.0" in shown


def test_what_has_no_task_in_all_ways_is_nothing_to_compare(tmp_path):
    unknown = {COCAINE: {"score,none": math.nan}, "mmlu": {"acc,none": 1.0}}
    for tasks in (unknown, {COCAINE: (40.0, 3.0), f"{HEROIN}_sampled": (20.0, 4.0)}):
        write(tmp_path / "a", tasks, "m")
        with pytest.raises(EpidemiaError, match="nothing to compare: no task has a score in all"):
            command("compare", tmp_path / "a")
    # Beside a group that has one.
    write(tmp_path / "b", {f"{COCAINE}_likelihood": (30.0, 3.0), COCAINE: (35.0, 3.0)}, "other")
    done = said("compare", tmp_path)
    assert "m: no task of epidemia_low has a score in all its ways" in done.stderr
    assert "30.0 ± 3.0" in done.stdout


def test_wordings_are_paired_by_task_where_nothing_else_differs(tmp_path):
    bare = {"wording": "bare"}
    write(tmp_path / "a", {COCAINE: (40.0, 3.0), HEROIN: (20.0, 4.0)}, "m")
    write(tmp_path / "b", {COCAINE: (50.0, 6.0), HEROIN: (22.0, 3.0)}, "m", metadata=bare)
    # Another model's, and with examples: these have no usual one beside them.
    for model, more in (("other", {}), ("m", {"fewshot": 2})):
        write(tmp_path / model, {HEROIN: (90.0, 1.0)}, model, metadata={**bare, **more})
    found = table("wordings", tmp_path)[["model", "wording", "tasks", "score"]].fillna(0)
    expected = [["m", "usual", 2, 30.0], ["m", "bare", 2, 36.0], ["m", "all", 2, 0.0]]
    assert found.to_numpy().tolist() == expected
    shown = command("compare", tmp_path)
    assert "One model in several wordings" in shown and "36.0" in shown


def test_pairs_by_hand(tmp_path):
    """Over the tasks of both, and over those in which the first scored 0; `=` may be in a name."""
    rag = find_tasks("epidemia_high_rag")

    def served(model, *scores, tasks=rag):
        config = {"model": "choice-api", "model_args": {"model": model}}
        of = {f"{task}_rag": (score, 1.0) for (task, _), score in zip(tasks, scores, strict=False)}
        write(tmp_path / model, of, config=config)

    served("a=b,x=1", 0.0, 30.0, 0.0)
    served("c", 20.0, 35.0, 8.0)
    assert table("versions", tmp_path).empty
    for pairs, rows in (
        # (20 + 5 + 8) / 3, and (20 + 8) / 2; the same again is no other comparison.
        (["a=b,x=1=c"] * 2, [["c", "a=b,x=1", 3, 11.0], ["c", "a=b,x=1", 2, 14.0]]),
        (["c=a=b,x=1"], [["a=b,x=1", "c", 3, -11.0]]),
    ):
        found = table("versions", tmp_path, pairs=pairs)
        columns = ["model", "other", "tasks", "difference"]
        assert found[columns].to_numpy().tolist() == rows
        assert [*found["where"]] == ["", "the second has 0"][: len(rows)]
    served("a", 1.0)
    served("b,x=1=c", 1.0, tasks=rag[1:])
    with pytest.raises(EpidemiaError, match="is ambiguous: expected BASE=OTHER, of a, a=b"):
        table("versions", tmp_path, pairs=["a=b,x=1=c"])
    apart = [tmp_path / "a", tmp_path / "b,x=1=c"]
    notes = [*read_runs(apart, pairs=["a=b,x=1=c"]).notes["text"]]
    assert "--pair a=b,x=1=c: the two share no task that was asked in the same way" in notes
    with pytest.raises(EpidemiaError, match="no model and its instruct version were asked the sam"):
        command("report", *apart, "--pair", "a=b,x=1=c", "--show", "versions")
