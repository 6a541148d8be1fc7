"""One bad file, one clear line, and the rest of the work goes on; input are real runs, damaged."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from io import StringIO

import pandas as pd
import pytest
from conftest import full_disk
from recorded_runs import copied_run
from report_parts import COCAINE, HEROIN, by
from report_parts import said as run

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import cells
from lm_eval_epidemia.models import demo
from lm_eval_epidemia.report.render import FORMULA
from lm_eval_epidemia.results.decode import printable
from lm_eval_epidemia.results.read import read_results

WAYS = [
    COCAINE,
    HEROIN,
    f"{COCAINE}_likelihood",
    f"{COCAINE}_sampled",
    "epidemia_high_nsduh_cocaine_ever_by_age_sex_closed",
]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    for kind in ("truth", "noisy,noise=0.5"):
        place, how = folder / kind.split(",")[0], {"metadata": {"n_samples": 20}}
        copied_run(tmp_path_factory, place, WAYS, model_args=f"kind={kind}", **how)
    return folder


@pytest.fixture
def runs(real, tmp_path):
    """Two runs, of which `noisy` may be damaged."""
    return shutil.copytree(real, tmp_path / "runs")


def result_file(folder):
    (path,) = folder.rglob("results_*.json")
    return path


def edit(path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def call_model(path, name, **results):
    """Write another name of the model, and results of other tasks."""

    def change(run):
        run["config"]["model_args"] = {"pretrained": name}
        run["results"] |= results

    edit(path, change)


def with_score(text):
    """Write a score as `text`, which json.dumps would not."""

    def change(path):
        edit(path, lambda found: found["results"][COCAINE].update({"score,none": "HERE"}))
        path.write_text(path.read_text().replace('"HERE"', text))

    return change


def with_metric(metric, value, task=COCAINE):
    return lambda path: edit(
        path, lambda found: found["results"][task].update({f"{metric},none": value})
    )


def with_part(key, value):
    return lambda path: edit(path, lambda found: found.update({key: value}))


def made(make):
    def change(path):
        path.unlink()
        make(path)

    return change


#: As JSON has them.
UNREAL_SCORES = 'Infinity -Infinity 1e400 "50" true null [1] {} 1e9 -3 100.1'


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        *((with_score(text), "score is") for text in (*UNREAL_SCORES.split(), "1" + "0" * 400)),
        (with_metric("l1", -0.5), "l1 is -0.5, expected 0 to 2"),
        (with_metric("l1", 2.5), "l1 is 2.5, expected 0 to 2"),
        (with_metric("l1", -2.5, f"{COCAINE}_sampled"), "l1 is -2.5, expected -2 to 2"),
        (with_metric("seen", 1.5), "seen is 1.5, expected 0 to 1"),
        (with_metric("seen", -0.1), "seen is -0.1, expected 0 to 1"),
        (with_metric("score_stderr", -1), "score_stderr is -1"),
        (with_metric("choice_mass", 2.0), "choice_mass is 2.0"),
        (with_metric("order_bias", "much"), "order_bias is 'much', expected 0 to 1"),
        (with_part("configs", []), "$.configs"),
        (with_part("configs", {COCAINE: [1]}), "Expected `object`"),
        (with_part("n-shot", 3), "$.n-shot"),
        (with_part("config", "x"), "$.config"),
        (with_part("config", {"model_args": [1]}), "$.config.model_args"),
        (with_part("group_subtasks", 4), "$.group_subtasks"),
        *((with_part("date", date), "date is") for date in (1e300, -1e300, math.inf, 10**400)),
        (with_part("results", {COCAINE: 3}), "$.results"),
        (made(lambda path: path.write_text("[" * 200_000)), "brackets nested without"),
        (made(lambda path: path.write_text('{"results":' + '{"a":' * 200_000)), "brackets nested"),
        (made(lambda path: path.mkdir()), "a folder, not a file"),
        (made(lambda path: os.mkfifo(path)), "not a file"),
        (made(lambda path: path.symlink_to("nowhere")), "not a file"),
        (made(lambda path: path.symlink_to(path.name)), "not a file"),
        # Nobody may read this file's beginning, root included.
        (made(lambda path: path.symlink_to("/proc/self/mem")), "Input/output error"),
        *(
            (made(lambda path, text=text: path.write_text(text)), why)
            for text, why in {
                "": "Expecting value",
                "[]": "Expected `object`",
                "null": "null",
            }.items()
        ),
        (made(lambda path: path.write_bytes(bytes(range(256)))), "codec can't decode"),
    ],
)
def test_a_result_file_that_is_damaged_is_named_and_left_out(runs, damage, said):
    path = result_file(runs / "noisy")
    damage(path)
    results = read_results([runs])
    assert [*results.runs["model"]] == ["knows the truth (kind=truth)"]
    (note,) = results.notes["text"]
    assert str(path) in note and said in note and "run that evaluation again" in note
    assert "\n" not in note and len(note) < 700
    with pytest.raises(EpidemiaError, match="no epidemia task") as raised:
        read_results([runs / "noisy"])
    assert said in str(raised.value)


def test_an_infinite_error_is_not_known(runs):
    path = result_file(runs / "noisy")
    with_metric("score_stderr", float("inf"))(path)
    results = read_results([runs])
    assert len(results.runs) == 2
    note, without_draws = results.notes["text"]
    assert str(path) in note and "score_stderr is infinite" in note
    assert "no errors (N/A) for 1 task" in without_draws


def test_what_is_odd_but_whole_is_read(runs):
    """Numbers at their bounds, up to rounding; NaN and N/A; parts that are missing or null."""
    path = result_file(runs / "noisy")

    def change(found):
        rows = found["results"]
        rows[COCAINE] |= {"score,none": 100.0000000001, "l1,none": -1e-12}
        rows[f"{COCAINE}_sampled"]["l1,none"] = -0.3
        rows[HEROIN] |= {"score,none": float("nan"), "score_stderr,none": "N/A"}
        rows["mmlu"] = {"acc,none": float("inf"), "acc_stderr,none": "N/A"}
        rows["arc"] = {"acc,none": 0.5}
        found["config"] |= {"gen_kwargs": None, "limit": None, "model_num_parameters": 1e400}
        found |= {"versions": None, "higher_is_better": None, "date": "yesterday"}

    edit(path, change)
    path.write_text(path.read_text(), encoding="utf-8-sig")  # as an editor of Windows saves it
    results = read_results([runs])
    (noisy,) = results.runs.index[results.runs["model"].str.contains("noisy")]
    assert by(results.others, "run", "other") == {(noisy, "arc (acc)"): 0.5}
    assert math.isnan(results.runs["parameters"][noisy])
    assert (results.scores["run"] == noisy).sum() == 5
    bare, endless, unknown = results.notes["text"]
    assert "the file lacks the version or settings of 5 tasks" in bare
    assert "left out mmlu (acc)" in endless and "no score (NaN) in 1 task" in unknown


def test_a_file_counts_once_whatever_links_lead_to_it(runs):
    path = result_file(runs / "noisy")
    (path.parent / "results_z.json").symlink_to(path.name)
    (path.parent / "results_a.json").symlink_to(path.name)
    (runs / "again").symlink_to("noisy")
    results = read_results([runs / "again", runs, path])
    assert results.notes.empty and results.older.empty
    assert not any(file.is_symlink() for file in results.scores["file"])


HOSTILE = "a\x00b\x1b[31m\x07c\ud800\u202ed\nmodel"


def test_names_with_control_characters_are_shown_harmlessly(runs, tmp_path):
    """Two models that differ only in what cannot be shown stay two."""
    for name, kind in ((HOSTILE, "noisy"), (HOSTILE.replace("\x07", "\x06"), "truth")):
        call_model(result_file(runs / kind), name, **{HOSTILE: {"acc,none": 0.5, HOSTILE: 1}})
    (runs / "bad\x1b[31m").mkdir()
    (runs / "bad\x1b[31m" / "results_x.json").write_text("{")
    site = tmp_path / "site"
    said = {form: run("report", runs, "--format", form) for form in ("json", "csv", "latex")}
    said["table"] = run(
        "report", runs, "--html", site, "--show", "leaderboard,other,notes", "--wide"
    )
    shown = printable(HOSTILE)
    assert shown == "a�b�[31m�c��d model" and "[31m" in said["table"].stderr
    for done in said.values():
        assert done.exit_code == 0
        assert not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff\u202e]", done.stdout + done.stderr)
    names = {*read_results([runs]).runs["name"]}
    assert shown in said["table"].stdout and len([name for name in names if shown in name]) == 2
    assert "[31m?c??d" in said["latex"].stdout
    pages = [path.read_text() for path in (site / "index.html", site / "explorer.html")]
    assert all(shown in page and "\x1b" not in page for page in pages)
    for ending in ("svg", "png", "pdf"):
        run("plot", "leaderboard", runs, "--out", tmp_path / f"figure.{ending}")


def test_settings_with_halves_of_characters_are_settings(runs):
    half = "a\ud800\x1b[31m"
    settings = {"gen_prefix": half, "truth": half, "vintage": half}
    edit(
        result_file(runs / "noisy"),
        lambda found: (
            found["configs"][COCAINE]["metadata"].update(settings),
            found["versions"].update({HEROIN: half}),
            found["config"].update(model_args={"pretrained": "x", "other": half}),
        ),
    )
    done = run("report", runs, "--show", "tasks,leaderboard,pairs", "--format", "csv")
    assert done.exit_code == 0 and "gen_prefix=a" in done.stdout and "\x1b" not in done.stdout


# Samples, where the result file keeps no answers.


@pytest.fixture
def sampled(runs):
    for folder in runs.iterdir():
        edit(result_file(folder), lambda found: found["epidemia"].pop("said"))
    return runs


def first_line(change):
    def damage(path):
        line, rest = path.read_text().split("\n", 1)
        found = json.loads(line)
        change(found)
        path.write_text(json.dumps(found) + "\n" + rest)

    return damage


def in_doc(**values):
    return first_line(lambda line: line["doc"].update(values))


@pytest.mark.parametrize(
    ("task", "damage", "said"),
    [
        (COCAINE, in_doc(order=[7, 9]), "the order [7, 9] is not of the design"),
        (COCAINE, in_doc(order=[0]), "the order [0] is not of the design"),
        (COCAINE, in_doc(design="sideways"), "orderings 'sideways' is not known"),
        (COCAINE, in_doc(design="balanced"), "asked in another way than the first"),
        (COCAINE, in_doc(cell=99), "cell 99 of 11"),
        (COCAINE, in_doc(cell=-1), "cell -1 of 11"),
        (COCAINE, in_doc(task=HEROIN), f"it is of {HEROIN}"),
        (COCAINE, in_doc(truth="0123"), "made from ground truth 0123"),
        (COCAINE, first_line(lambda line: line["filtered_resps"].pop()), "1 log-probabilities"),
        (COCAINE, first_line(lambda line: line.update(filtered_resps=[[None, 1]])), "is not a"),
        (COCAINE, lambda path: path.write_bytes(path.read_bytes()[:-200]), "line 22 is not a"),
        (COCAINE, lambda path: path.write_text("[" * 200_000), "line 1 is not a sample"),
        (COCAINE, lambda path: path.write_bytes(bytes(range(256))), "is not a sample"),
        (COCAINE, made(lambda path: path.symlink_to("/proc/self/mem")), "cannot be read"),
        (
            COCAINE,
            first_line(lambda line: line.update(filtered_resps=[["nan", 1]] * 2)),
            "no answers in 1 task",
        ),
        (f"{COCAINE}_likelihood", in_doc(level=7), "level 7 is not asked"),
        (
            f"{COCAINE}_likelihood",
            first_line(lambda line: line["filtered_resps"].pop()),
            "21 log-probabilities, expected 22",
        ),
        (f"{COCAINE}_sampled", in_doc(order=[1, 1]), "the order [1, 1]"),
        (f"{COCAINE}_sampled", in_doc(sample=21), "answer 21 of 20"),
        (f"{COCAINE}_sampled", in_doc(n_samples=10**12), "answer 1 of 1000000000000"),
        (WAYS[-1], in_doc(level=5), "level 5 is not asked"),
    ],
)
def test_samples_that_are_damaged_are_named(sampled, task, damage, said):
    (path,) = (sampled / "noisy").rglob(f"samples_{task}_2*.jsonl")
    damage(path)
    answers, notes = cells.answers(read_results([sampled]))
    (note,) = notes
    assert said in note and (task in note or said.startswith("no answers"))
    # All others are there: of two runs and five tasks, all but one.
    assert len(answers) == 9


def test_samples_that_are_missing_or_changed_are_named(sampled):
    heroin, cocaine = (
        next((sampled / "noisy").rglob(f"samples_{t}_2*")) for t in (HEROIN, COCAINE)
    )
    heroin.unlink()
    cocaine.write_text(cocaine.read_text().replace('"-0.', '"-1.'))
    answers, notes = cells.answers(read_results([sampled]))
    said = "\n".join(notes)
    assert "no answers in 1 task" in said and f"the answers to {COCAINE} are left out" in said
    assert len(answers) == 8


def test_the_site_names_damaged_samples_on_stderr(sampled, tmp_path):
    (path,) = (sampled / "noisy").rglob(f"samples_{COCAINE}_2*.jsonl")
    path.write_bytes(path.read_bytes()[:-200])
    done = run("report", sampled, "--html", tmp_path / "site", "--show", "tilt")
    assert done.exit_code == 0
    assert f"{path}, line 22 is not a sample" in " ".join(done.stderr.split())
    pages = [page.read_text() for page in (tmp_path / "site").rglob("*.html")]
    assert any("line 22 is not a sample" in page for page in pages)


# Output.


COMMANDS = {
    "report": ["report", "RUNS", "--html", "OUT"],
    "plot": ["plot", "leaderboard", "RUNS", "--out", "OUT/figure.svg"],
    "export": ["export", "--out", "OUT"],
    "tasks": ["tasks", "write", "OUT"],
    "card": ["survey", "card", "nsduh", "--out", "OUT"],
    "demo": ["demo", "--out", "OUT"],
}


def run_into(name, runs, out, figure):
    words = {"RUNS": str(runs), "OUT": str(out), "OUT/figure.svg": str(figure)}
    return run(*(words.get(word, word) for word in COMMANDS[name]))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_that_cannot_be_written_is_said_in_a_line(runs, tmp_path, name, monkeypatch):
    """A file, below a file, and where the kernel lets nobody make anything."""
    monkeypatch.setattr(demo, "_evaluate", lambda *_, **__: pytest.fail("checked too late"))
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "sub", "/sys/nowhere"):
        with pytest.raises(EpidemiaError, match=r"file|nowhere") as raised:
            run_into(name, runs, out, f"{out}/figure.svg")
        assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_site_is_refused_before_results_are_read(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(EpidemiaError, match="holds other files"):
        run("report", tmp_path / "nowhere", "--html", tmp_path)
    with pytest.raises(EpidemiaError, match="nowhere does not exist"):
        run("report", tmp_path / "nowhere", "--html", tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


LIMITED = """
import resource, sys
from lm_eval_epidemia.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
sys.argv = ["epidemia", *sys.argv[1:]]
main()
"""


def test_a_disk_that_takes_no_more(runs, tmp_path):
    """Files may have 1,500 bytes in that process; what is there already stays as it is."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", LIMITED, "report", runs, "--html", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "File too large; free some space" in done.stderr.splitlines()[-1]
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("demo", "report")])
def test_what_a_command_says_of_a_disk_that_takes_no_more(runs, tmp_path, name):
    out = tmp_path / "out"
    with pytest.raises(EpidemiaError, match=r"File too large; free some space$"), full_disk(1500):
        run_into(name, runs, out, tmp_path / "figure.svg")
    assert not out.exists() or list(out.iterdir()) == []


def test_a_figure_makes_no_folders(runs, tmp_path):
    with pytest.raises(EpidemiaError, match=r"there is no folder .*such: make it first"):
        run("plot", "leaderboard", runs, "--out", tmp_path / "no" / "such" / "figure.svg")
    assert not (tmp_path / "no").exists()
    (tmp_path / "figure.svg").mkdir()
    with pytest.raises(EpidemiaError, match="is a folder"):
        run("plot", "leaderboard", runs, "--out", tmp_path / "figure.svg")


def test_a_cell_of_the_csv_is_no_formula(runs):
    for name in ('=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)"):
        call_model(result_file(runs / "noisy"), name, **{"=1+1": {"acc,none": -0.5}})
        csv = run("report", runs, "--show", "leaderboard,other", "--format", "csv").stdout
        rows = pd.read_csv(StringIO(csv))
        text = rows.select_dtypes(exclude=["number", "bool"])
        shown = {str(cell) for column in text for cell in text[column].dropna()}
        assert f"'{name}" in shown and "'=1+1 (acc)" in shown
        assert not [cell for cell in shown if cell.startswith(FORMULA)]
        # Numbers are numbers.
        assert (rows["value"] == -0.5).any()


def test_latex_of_odd_names(runs):
    """After the end of a row, [ would begin its argument, and * would be swallowed."""
    for name in ("[2cm]x", "*x", "\\input{x}~^$#"):
        call_model(result_file(runs / "noisy"), name)
        latex = run("report", runs, "--format", "latex").stdout
        assert not re.search(r"^[\[*]", latex, re.MULTILINE)
        assert "\\input{" not in latex


def test_markup_in_a_name_is_text(runs):
    call_model(result_file(runs / "noisy"), "[red]x[bold]")
    assert "[red]x[bold]" in run("compare", runs).stdout
