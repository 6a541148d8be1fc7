"""One bad file, one clear line, and the rest of the work goes on; input are real runs, damaged."""

import json
import math
import os
import re
import shutil
import tracemalloc
from io import StringIO

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from recorded_runs import copied_run
from report_parts import COCAINE, HEROIN, by
from report_parts import said as run

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import cells
from lm_eval_epidemia.report.render import FORMULA
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.documents import answered_in
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import read_elicited, sample_file

LIKELIHOOD, SAMPLED = f"{COCAINE}_likelihood", f"{COCAINE}_sampled"
TABLES = yaml.safe_load((REPOSITORY / "tests" / "data" / "reports.yaml").read_text("utf-8"))
CLOSED = "epidemia_high_nsduh_cocaine_ever_by_age_sex_closed"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    for kind in ("truth", "noisy,noise=0.5"):
        asked = [COCAINE, HEROIN, LIKELIHOOD, SAMPLED, CLOSED]
        how = {"model_args": f"kind={kind}", "metadata": {"n_samples": 20}}
        copied_run(tmp_path_factory, folder / kind.split(",")[0], asked, **how)
    return folder


@pytest.fixture
def runs(real, tmp_path):
    """Two runs, of which `noisy` may be damaged."""
    return shutil.copytree(real, tmp_path / "runs")


def result_file(folder):
    (path,) = folder.rglob("results_*.json")
    return path


def edit(path, change):
    """Change the first line of a file of JSON, or all of it."""
    line, end, rest = path.read_text().partition("\n" if path.suffix == ".jsonl" else "\0")
    found = json.loads(line)
    change(found)
    path.write_text(json.dumps(found) + end + rest)


def of_model(name, **others):
    """Another name of the model, and results of other tasks."""
    args = {"model_args": {"pretrained": name}}
    return lambda run: (run["config"].update(args), run["results"].update(others))


def metric(name, value, task=COCAINE):
    return lambda path: edit(path, lambda run: run["results"][task].update({f"{name},none": value}))


def part(**values):
    return lambda path: edit(path, lambda run: run.update(values))


def made(make):
    return lambda path: (path.unlink(), make(path))


def text(written):
    return made(lambda path: path.write_bytes(written))


def link(to):
    return made(lambda path: path.symlink_to(to))


DAMAGED = [
    *((metric(*given), said) for *given, said in TABLES["metrics"]),
    *((part(**given), said) for given, said in TABLES["parts"]),
    (metric("score", 10**400), "score is"),
    (part(date=10**400), "date is"),
    (text(b"[" * 200_000), "brackets nested without"),
    (text(b'{"results":' + b'{"a":' * 200_000), "brackets nested"),
    (made(lambda path: path.mkdir()), "a folder, not a file"),
    (made(os.mkfifo), "not a file"),
    (link("nowhere"), "not a file"),
    # Nobody may read this file's beginning, root included.
    (link("/proc/self/mem"), "Input/output error"),
    (text(b""), "Expecting value"),
    (text(b"[]"), "Expected `object`"),
    (text(bytes(range(256))), "codec can't decode"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGED)
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


def test_what_is_odd_but_whole_is_read(runs):
    """Numbers at their bounds, up to rounding; NaN, N/A, endless errors; parts missing or null."""
    path = result_file(runs / "noisy")

    def change(found):
        rows = found["results"]
        rows[COCAINE] |= {"score,none": 100.0000000001, "l1,none": -1e-12}
        rows[SAMPLED]["l1,none"] = -0.3
        rows[HEROIN] |= {"score,none": math.nan, "score_stderr,none": "N/A"}
        rows[LIKELIHOOD]["score_stderr,none"] = math.inf
        rows["mmlu"] = {"acc,none": math.inf, "acc_stderr,none": "N/A"}
        rows["gsm8k"] = {"exact_match,strict": 0.5, "exact_match,loose": math.nan}
        rows |= {"empty": {"alias": "empty"}, "mmlu_anatomy": {"acc,none": 0.5}}
        found["config"] |= {"gen_kwargs": None, "limit": 10, "model_num_parameters": 1e400}
        found |= {"versions": None, "higher_is_better": None, "date": "yesterday"}
        # A group without a number hides no task, and what lists none is no group.
        found["group_subtasks"] = {"mmlu": ["mmlu_anatomy"], "empty": []}
        for task, there in (("gsm8k", 20), ("mmlu_anatomy", 10)):
            found["n-samples"][task] = {"original": there, "effective": 10}

    edit(path, change)
    path.write_text(path.read_text(), encoding="utf-8-sig")  # as an editor of Windows saves it
    results = read_results([runs])
    (noisy,) = results.runs.index[results.runs["model"].str.contains("noisy")]
    known = {"mmlu_anatomy (acc, limit 10)": 0.5, "gsm8k (exact_match, strict, limit 10)": 0.5}
    assert by(results.others, "other") == known and {*results.others["run"]} == {noisy}
    limits = {of.task: of.limit for of in answered_in(results)}
    assert (limits["gsm8k"], limits["mmlu_anatomy"]) == ("10", "")
    assert math.isnan(results.runs["parameters"][noisy])
    assert (results.scores["run"] == noisy).sum() == 5
    said = " ".join(results.notes["text"])
    assert f"{LIKELIHOOD}: score_stderr is infinite" in said and "no errors (N/A) for 1" in said
    assert "lacks the version or settings of 5 tasks" in said and "no score (NaN) in 1" in said
    assert re.search(r"left out mmlu \(acc.*gsm8k \(exact_match, loose.*empty \(no metric", said)


HOSTILE = "a\x00b\x1b[31m\x07c\ud800\u202ed\nmodel"
UNSAFE = r"[\x00-\x08\x0b-\x1f\ud800-\udfff\u202e]"


def test_names_and_settings_with_control_characters_are_shown_harmlessly(runs, tmp_path):
    """Two models that differ only in what cannot be shown stay two; damaged samples are named."""
    half = dict.fromkeys(("gen_prefix", "truth", "vintage"), HOSTILE)
    paths = {kind: result_file(runs / kind) for kind in ("noisy", "truth")}
    for kind, name in (("noisy", HOSTILE), ("truth", HOSTILE.replace("\x07", "\x06"))):
        edit(paths[kind], of_model(name, **{HOSTILE: {"acc,none": 0.5, HOSTILE: 1}}))
    edit(paths["noisy"], lambda found: found["epidemia"].pop("said"))
    edit(paths["truth"], lambda found: found["configs"][COCAINE]["metadata"].update(half))
    edit(paths["truth"], lambda found: found["versions"].update({HEROIN: HOSTILE}))
    (samples,) = (runs / "noisy").rglob(f"samples_{COCAINE}_2*.jsonl")
    samples.write_bytes(samples.read_bytes()[:-200])
    (runs / "bad\x1b[31m").mkdir()
    (runs / "bad\x1b[31m" / "results_x.json").write_text("{")
    shows = ["--show", "leaderboard,other,notes,tasks,pairs,tilt", "--wide"]
    said = {"csv": run("report", runs, *shows, "--format", "csv")}
    said["latex"] = run("report", runs, "--format", "latex")
    said["table"] = run("report", runs, "--html", tmp_path / "site", *shows)
    for done in said.values():
        assert done.exit_code == 0 and not re.search(UNSAFE, done.stdout + done.stderr)
    shown = "a�b�[31m�c��d model"
    assert shown in said["table"].stdout and "[31m" in said["table"].stderr
    assert sum(shown in name for name in {*read_results([runs]).runs["name"]}) == 2
    assert "gen_prefix=a" in said["csv"].stdout and "[31m?c??d" in said["latex"].stdout
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert all("\x1b" not in page for page in pages) and sum(shown in page for page in pages) > 1
    assert f"{samples}, line 22 is not a sample" in " ".join(said["table"].stderr.split())
    for ending in ("svg", "png"):
        run("plot", "leaderboard", runs, "--out", tmp_path / f"figure.{ending}")


FORMULAS = ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)"]


@pytest.mark.parametrize("name", [*FORMULAS, "[2cm]x", "*x", "\\input{x}~^$#& b_{c}", "[red]x[b]"])
def test_a_name_is_text_and_no_formula_command_or_markup(runs, name):
    """After the end of a row of LaTeX, [ would begin its argument, and * would be swallowed."""
    edit(result_file(runs / "noisy"), of_model(name, **{"=1+1": {"acc,none": -0.5}}))
    csv = run("report", runs, "--show", "leaderboard,other", "--format", "csv").stdout
    rows = pd.read_csv(StringIO(csv))
    # Numbers are numbers.
    assert (rows["value"] == -0.5).any()
    shown = {str(cell) for cell in rows.select_dtypes(exclude=["number", "bool"]).stack()}
    assert "'=1+1 (acc)" in shown and not [cell for cell in shown if cell.startswith(FORMULA)]
    assert (f"'{name}" if name in FORMULAS else name) in shown
    latex = run("report", runs, "--format", "latex").stdout
    assert not re.search(r"^[\[*]", latex, re.MULTILINE) and "\\input{" not in latex
    assert r"\# \& b\_\{c\}" in latex.replace(r"\#\&", r"\# \&") or "&" not in name
    for command in (["compare", runs], ["report", runs], ["report", runs, "--show", "other"]):
        assert name in run(*command).stdout


# Samples, where the result file keeps no answers.


def doc(**values):
    return lambda path: edit(path, lambda line: line["doc"].update(values))


def replies(change):
    return lambda path: edit(path, lambda line: change(line["filtered_resps"]))


def altered(path):
    path.write_text(path.read_text().replace('"-0.', '"-1.'))


@pytest.mark.parametrize(
    ("task", "damage", "said"),
    [
        *((COCAINE + way, doc(**given), said) for way, given, said in TABLES["docs"]),
        (COCAINE, replies(lambda found: found.pop()), "1 log-probabilities"),
        (COCAINE, replies(lambda found: found.insert(0, [None, 1])), "is not a"),
        (COCAINE, text(b"[" * 200_000), "line 1 is not a sample"),
        (COCAINE, text(bytes(range(256))), "is not a sample"),
        (COCAINE, link("/proc/self/mem"), "cannot be read"),
        (COCAINE, lambda path: path.unlink(), "no answers in 1 task"),
        (COCAINE, altered, f"the answers to {COCAINE} are left out"),
        (LIKELIHOOD, replies(lambda found: found.pop()), "21 log-probabilities, expected 22"),
        (CLOSED, doc(level=5), "level 5 is not asked"),
    ],
)
def test_samples_that_are_damaged_are_named(runs, task, damage, said):
    for folder in runs.iterdir():
        edit(result_file(folder), lambda found: found["epidemia"].pop("said"))
    (path,) = (runs / "noisy").rglob(f"samples_{task}_2*.jsonl")
    damage(path)
    answers, notes = cells.collect_answers(read_results([runs]))
    (note,) = notes
    assert said in note and (task in note or said.startswith("no answers"))
    # All others are there: of two runs and five tasks, all but one.
    assert len(answers) == 9


def test_memory_grows_by_the_answers_and_not_by_the_text(real, tmp_path):
    """Samples fifty times as long."""
    asked, long = LeafKey(COCAINE, "sampled"), tmp_path / "long.jsonl"
    file = read_results([real / "noisy"]).scores["file"][0]
    long.write_bytes(sample_file(file, asked).read_bytes() * 50)
    tracemalloc.start()
    read_elicited(long, asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert long.stat().st_size > 15e6 and peak < long.stat().st_size / 2
