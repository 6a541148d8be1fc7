"""The command line, as a user types it."""

import io
import json
import os
import runpy
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from conftest import evaluate, nsduh_2023
from lm_eval.utils import make_table
from typer.main import get_command

from lm_eval_epidemia import __version__, cli
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import run as harness_run
from lm_eval_epidemia.models import demo
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.results import read_results
from lm_eval_epidemia.results.samples import elicited, sample_file
from lm_eval_epidemia.surveys.catalogue import all_tasks, record

#: A build of the 2023 file estimates all of the survey's.
NSDUH = len(record("nsduh").all_tasks)
EPIDEMIA = [sys.executable, "-m", "lm_eval_epidemia.cli"]


def epidemia(*arguments, cwd=None, **environment):
    return subprocess.run(
        [*EPIDEMIA, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_names_every_command():
    done = epidemia("--help")
    assert done.returncode == 0
    for command in ("run", "demo", "path", "anchors", "export", "tasks", "groundtruth", "survey"):
        assert f"\n  {command}" in done.stdout


def called(monkeypatch, *arguments):
    """Call the command in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["epidemia", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def commands(command, *above):
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from commands(each, *above, name)
    yield list(above)


@pytest.mark.parametrize("words", commands(get_command(cli.app)), ids=" ".join)
def test_every_command_has_a_short_help(words, monkeypatch, capsys):
    assert called(monkeypatch, *words, "-h") == 0
    assert "usage: " in capsys.readouterr().out.lower()


def test_the_package_is_a_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["epidemia", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("lm_eval_epidemia", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{__version__}\n")


def test_names_are_separated_by_commas_or_spaces(monkeypatch, capsys):
    assert separated(["a,b", "c, d", ",e,"]) == ["a", "b", "c", "d", "e"] and separated([]) == []
    with pytest.raises(EpidemiaError, match="', ,' holds no name"):
        separated([",", ","])
    two = "epidemia_low_nsduh_heroin_ever_by_race", "epidemia_low_nsduh_heroin_ever_by_age"
    for words in (["cost"], ["anchors"]):
        printed = []
        for names in ([",".join(two)], [f"{two[0]},", two[1]], two):
            assert called(monkeypatch, *words, *names) == 0
            printed.append(capsys.readouterr().out)
        assert all(f" {name} " in printed[0] for name in two) and len(set(printed)) == 1
    assert called(monkeypatch, "tasks", "list", "--survey", "fbi,bls") == 0
    listed = capsys.readouterr().out
    assert "epidemia_low_bls_" in listed and "epidemia_low_fbi_" in listed
    assert called(monkeypatch, "quantities", "list", "epidemia_prior_gss,epidemia_prior_scf") == 0
    assert capsys.readouterr().out.count("truth and its standard error") == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["tasks", "list", "--summary"], ["path"], ["plot", "list"]])
def test_an_output_that_cannot_be_written_is_one_line(words, monkeypatch, capsys):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert called(monkeypatch, *words) == 1
    said = "error: the output could not be written: No space left on device\n"
    assert capsys.readouterr().err == said


def test_an_output_that_nobody_reads_any_more_ends_without_a_word(monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as left:
        monkeypatch.setattr(sys, "stdout", left)
        assert called(monkeypatch, "path") == 1
    assert capsys.readouterr().err == ""


def ascii_output(monkeypatch):
    """As Python has it under ``LC_ALL=POSIX PYTHONUTF8=0``."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", stream)
    return lambda: (stream.flush(), stream.buffer.getvalue().decode("ascii"))[1]


def test_commands_print_where_the_locale_knows_only_ascii(monkeypatch):
    printed = ascii_output(monkeypatch)
    assert called(monkeypatch, "quantities", "list", "epidemia_prior_gss") == 0
    assert ": beta, 0.7441 +- 0.015, 3,491 people" in printed()


def test_a_run_ends_well_where_the_locale_knows_only_ascii(monkeypatch):
    """What lm-eval prints at its end, by its own command line or ours: a table with arrows."""
    printed = ascii_output(monkeypatch)
    print(make_table(evaluate(["epidemia_low_nsduh_heroin_ever_by_race"], limit=2)))
    assert "|score " in printed() and "|^  |" in printed()


def test_tasks_list_shows_every_task_with_its_state():
    done = epidemia("tasks", "list")
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if "epidemia_" in line]
    states = dict(lines)
    assert states.keys() == all_tasks().keys()
    assert states["epidemia_low_nsduh_heroin_ever_by_age"].startswith("shipped (2022)")
    assert states["epidemia_low_nsduh_alcohol_past_month_by_age"].startswith("needs NSDUH-2023")
    waiting = sum(state.startswith("needs ") for state in states.values())
    assert f"{len(states) - waiting} of {len(states)} tasks are available" in done.stdout
    assert "nearest: nsduh" in epidemia("tasks", "list", "--survey", "nsdhu").stderr


def test_anchors_and_their_options():
    name = "epidemia_low_nsduh_cocaine_ever_by_race"
    done = epidemia("anchors", name)
    numbers = next(line for line in done.stdout.splitlines() if name in line).split()[1:]
    assert numbers[0] == "4"
    wider = epidemia("anchors", name, "--quantile", "0.975").stdout
    assert float(next(w for w in wider.splitlines() if name in w).split()[5]) > float(numbers[4])
    assert "between 0 and 1" in epidemia("anchors", name, "--quantile", "95").stderr
    assert (
        "iid, design or population" in epidemia("anchors", name, "--bootstrap", "jackknife").stderr
    )
    assert "nearest" in epidemia("anchors", "epidemia_low_nsduh_cocaine_by_race").stderr


def test_groundtruth_check():
    done = epidemia("groundtruth", "check")
    assert done.returncode == 0
    assert f"ground truth of {len(store.available())} tasks is as registered" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("build", "nsduhh", "--raw", "x.dta"), "nearest: nsduh"),
        (("build", "nsduh", "--raw", "x.dta"), "no file x.dta"),
        (("build", "nsduh", "--raw", "x.dta", "--bootstrap", "jack"), "iid, design or population"),
        (("build", "nsduh", "--raw", "x.dta", "--backend", "spark"), "expected loky, dask or ray"),
        (("build", "nsduh", "--raw", "x.dta", "--jobs", "0"), "at least 1, or -1 for all cores"),
        (("build", "nsduh", "--raw", "x.dta", "--jobs", "100000"), "only wait for each other"),
    ],
)
def test_mistakes_are_one_line_without_a_traceback(tmp_path, arguments, said):
    done = epidemia("groundtruth", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")


def test_a_build_says_where_its_output_is_and_tasks_become_available(tmp_path, home):
    raw = tmp_path / "NSDUH_2023.csv"
    nsduh_2023(600).to_csv(raw, index=False)
    done = epidemia("groundtruth", "build", "nsduh", "--raw", raw, "--replicates", "8", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert f"{NSDUH} tasks of nsduh_2023 are in {home / 'groundtruth'}" in done.stdout
    assert f"{NSDUH}/{NSDUH}" in done.stderr
    listed = epidemia("tasks", "list", "--survey", "nsduh").stdout
    assert f"{NSDUH} of {NSDUH} tasks are available" in listed
    assert "built here (2023)" in listed
    folder = Path(epidemia("path").stdout.strip())
    assert folder.parent == home / "task_yamls"
    assert (folder / "epidemia_low.yaml").is_file()
    checked = epidemia("groundtruth", "check")
    assert checked.returncode == 0, checked.stderr


#: `epidemia` that gets Ctrl-C, as a terminal sends it, when so many tasks are finished.
INTERRUPTED = """
import os, signal, sys
import tqdm
honest, left = tqdm.tqdm.update, int(sys.argv.pop(1))

def update(self, n=1):
    global left
    shown = honest(self, n)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return shown

tqdm.tqdm.update = update
from lm_eval_epidemia.cli import main
main()
"""


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_continues(tmp_path, home):
    raw = tmp_path / "NSDUH_2023.csv"
    nsduh_2023(600).to_csv(raw, index=False)
    arguments = ["groundtruth", "build", "nsduh", "--raw", str(raw), "--replicates", "8"]
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "3", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped.returncode == 130, stopped.stderr
    assert "the same command continues" in stopped.stderr
    unfinished = home / "groundtruth" / ".nsduh_2023.unfinished"
    kept = len(list(unfinished.glob("*.json")))
    assert 3 <= kept < NSDUH
    assert not (home / "groundtruth" / "registry.json").exists()
    done = epidemia(*arguments)
    assert done.returncode == 0, done.stderr
    assert f"{NSDUH}/{NSDUH}" in done.stderr
    assert f"{kept}/{NSDUH}" in done.stderr  # the bar starts where it stopped
    assert not unfinished.exists()


def test_run_passes_everything_to_lm_eval(tmp_path):
    done = epidemia(
        "run",
        "--model",
        "epidemia-baseline",
        "--model_args",
        "kind=truth",
        "--tasks",
        "epidemia_low_nsduh",
        "--output_path",
        tmp_path / "out",
        "--log_samples",
        EPIDEMIA_AUTOLOAD="0",
    )
    assert done.returncode == 0, done.stderr
    assert "epidemia_low_nsduh_heroin_ever_by_age" in done.stdout
    assert "Custom kwargs" not in done.stderr  # lm-eval's hint, once per task
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text())["groups"]["epidemia_low_nsduh"]["score,none"] == 100
    samples = list((tmp_path / "out").rglob("samples_*.jsonl"))
    assert len(samples) == 6
    row = json.loads(samples[0].read_text().splitlines()[0])
    assert row["doc"]["prompt"].endswith("Answer:")


def test_run_reads_tasks_from_a_config_file(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("model: epidemia-baseline\nmodel_args: {kind: mean}\ntasks: [epidemia_lo]\n")
    done = epidemia("run", "--config", config)
    assert "no task or group 'epidemia_lo' (nearest: epidemia_low" in done.stderr
    config.write_text(config.read_text().replace("epidemia_lo]", "epidemia_low_nsduh]"))
    done = epidemia("run", "--config", config, "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert "|epidemia_low_nsduh" in done.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- tasks\n", "holds list: expected options of lm-eval by name"),
        ("3\n", "holds int: expected options"),
        ("", "holds NoneType: expected options"),
        ("tasks: 5\n", "has tasks: 5: expected names"),
        ("tasks: [1, null]\n", "has tasks: [1, None]: expected names"),
        ("tasks: [epidemia_low]\nmetadata: 5\n", "has metadata: 5: expected such as"),
        ("a: [\n", "cannot be read as YAML: while parsing"),
        (None, "cannot be read: No such file"),
        ("modl: hf\n", "has 'modl', no option of lm-eval (nearest: model"),
        ("1: 2\n", "has 1, no option of lm-eval"),
        ("model: [a]\n", "has model: ['a']: expected such as model: hf"),
        ("limit: four\n", "has limit: 'four': expected such as limit: 10"),
    ],
)
def test_a_config_file_that_is_none_is_refused(text, says, tmp_path, monkeypatch, capsys):
    config = tmp_path / "run.yaml"
    if text is not None:
        config.write_text(text)
    assert called(monkeypatch, "run", "--config", str(config)) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: --config {config} ") and says in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--tasks", "", "--tasks '': expected names of groups or tasks"),
        ("--tasks", ",", "--tasks ',': expected names of groups or tasks"),
        ("--tasks", "epidemia_marginal_scf*", "Duplicate task"),
        ("--tasks", "arc_easi,", "Tasks not found: arc_easi"),
        ("--tasks", "EPIDEMIA_LOW", "no task or group 'EPIDEMIA_LOW' (nearest: epidemia_low"),
        ("--metadata", '{"fewshot": 1', 'Invalid JSON: {"fewshot": 1'),
        ("--model", "choice-hff", "Attempted to load model 'choice-hff'"),
    ],
)
def test_what_lm_eval_stops_at_is_said_without_a_traceback(
    option, value, says, monkeypatch, capsys
):
    # Only ours are indexed: 14,000 other files take long.
    monkeypatch.setattr(harness_run, "only_ours", lambda tasks: True)
    monkeypatch.setattr(harness_run, "members", lambda name: None)
    monkeypatch.setattr("lm_eval.tasks.TaskManager", None)  # put back after the test
    given = {"--model": "epidemia-baseline", "--tasks": "epidemia_marginal_scf", option: value}
    assert called(monkeypatch, "run", *chain(*given.items())) == 2
    assert says in capsys.readouterr().err.split("error: ")[-1]


@pytest.mark.parametrize("tasks", [[], ["--config"]], ids=["none", "config"])
def test_run_without_tasks_says_so(tasks, tmp_path, monkeypatch, capsys):
    (tmp_path / "run.yaml").write_text("tasks: []\n")
    arguments = [*tasks, str(tmp_path / "run.yaml")] if tasks else ["--model", "hf"]
    assert called(monkeypatch, "run", *arguments) == 2
    assert "error: --tasks '': expected names of groups" in capsys.readouterr().err


def test_run_takes_names_with_blanks_between_them(monkeypatch, capsys):
    monkeypatch.setattr("lm_eval.tasks.TaskManager", None)  # put back after the test
    names = "epidemia_marginal_scf, epidemia_marginal_gss,"
    called(monkeypatch, "run", "--model", "epidemia-baseline", "--tasks", names, "--limit", "1")
    shown = capsys.readouterr().out
    assert "|epidemia_marginal_scf " in shown and "|epidemia_marginal_gss " in shown


def test_run_refuses_unknown_and_unavailable_tasks():
    base = ["run", "--model", "epidemia-baseline", "--model_args", "kind=truth", "--tasks"]
    assert "nearest: epidemia_low" in epidemia(*base, "epidemia_lo").stderr
    unavailable = epidemia(*base, "epidemia_low_nsduh_alcohol_past_month_by_age")
    assert "needs NSDUH-2023" in unavailable.stderr
    assert unavailable.returncode == 2


def test_demo_without_torch_is_told_apart(tmp_path):
    """The baselines of the demonstration; .ci/run runs them where torch is truly absent."""
    code = (
        "import sys; sys.argv = ['epidemia', 'demo']\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'torch' else find(n, *a)\n"
        "from lm_eval_epidemia.models import demo\n"
        "demo.RESPONDENTS = {n: demo.RESPONDENTS[n] for n in ('truth', 'uniform')}\n"
        "from lm_eval_epidemia.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = {
        line.split("  ")[1].strip(): line for line in done.stdout.splitlines() if " ± " in line
    }
    assert lines["truth"].count("100.0 ±") == 2
    assert lines["uniform"].count(" 0.0 ±") == 2
    assert "Llama" not in done.stdout
    assert f"results are in {tmp_path / 'epidemia-demo'}" in done.stdout
    folder = tmp_path / "epidemia-demo" / "truth"
    found = read_results([folder])
    for task in demo.KEPT:
        asked = Asked(task, "letters")
        path = sample_file(folder / "results_demo.json", asked)
        assert elicited(path, asked).l1 == pytest.approx(found.entries[0].scores[asked].l1)


def test_tasks_summary_says_per_survey_what_is_there_and_what_it_waits_for():
    lines = epidemia("tasks", "list", "--summary").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    heads = next(line.split() for line in lines if line.split()[:1] == ["survey"])
    kinds = heads[1 : heads.index("shipped")]
    asked = Counter(task.kind for task in all_tasks().values())
    assert rows["all"][1 : len(kinds) + 1] == [str(asked[kind]) for kind in kinds]
    assert sum(asked[kind] for kind in kinds) == len(all_tasks())
    shipped, built, waiting = map(int, rows["all"][len(kinds) + 1 :])
    assert (shipped, built, shipped + waiting) == (len(store.available()), 0, len(all_tasks()))
    assert rows["brfss"][1:4] == ["9", "39", "0"]
    assert rows["brfss"][-2:] == ["2023-published", "LLCP2023XPT.zip"]
    assert rows["nsduh"][1:4] == ["10", "33", "15"]


def test_anchors_of_a_survey_a_vintage_a_summary_and_a_comparison():
    listed = epidemia("anchors", "gss").stdout
    assert listed.count("epidemia_low_gss_") == 10
    older = epidemia("anchors", "gss", "--vintage", "2018").stdout
    assert older.count("epidemia_low_gss_") == 10 and older != listed
    summary = epidemia("anchors", "scf", "--summary").stdout
    assert "epidemia_high_scf" in summary and "_by_" not in summary
    compared = epidemia("anchors", "bls", "--compare").stdout
    rows = [line.split() for line in compared.splitlines() if "sex_by_occupation" in line]
    assert [row[1:4] for row in rows] == [
        ["2023", "2022", "314"],
        ["2023", "2021", "314"],
        ["2023", "2019", "314"],
    ]
    assert "in two vintages" in epidemia("anchors", "scf", "--compare").stderr


def test_survey_check_and_card(tmp_path):
    raw = tmp_path / "NSDUH_2023.csv"
    nsduh_2023(300).to_csv(raw, index=False)
    done = epidemia("survey", "check", "nsduh", "--raw", raw)
    assert done.returncode == 0, done.stderr
    assert "nsduh 2023: 300 rows, weight ANALWT2_C" in done.stdout
    assert f"{NSDUH} of {NSDUH} tasks have their columns" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "alcohol_past_month" in line)
    assert row.split()[1] == "alcrec"
    card = epidemia("survey", "card", "ipeds")
    assert card.stdout.startswith("# Integrated Postsecondary") or "Degrees" in card.stdout
    written = epidemia("survey", "card", "ipeds", "scf", "--out", tmp_path / "cards")
    assert "2 data cards in" in written.stdout
    assert (tmp_path / "cards" / "scf.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("survey", "download", "fbi"), "cde.ucr.cjis.gov"),
        (("survey", "download", "scff"), "nearest: scf"),
        (("survey", "download", "scf", "--vintage", "2021"), "no vintage '2021'"),
        (("groundtruth", "build", "scf"), "run 'epidemia survey download scf'"),
        (("groundtruth", "build", "scf", "gss", "--raw", "x.dta"), "build one by one"),
        (("groundtruth", "build", "scf", "--raw", "x.dta"), "no file x.dta"),
    ],
)
def test_what_the_survey_commands_refuse(tmp_path, arguments, said):
    done = epidemia(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_what_the_baseline_and_cost_refuse():
    base = ["run", "--tasks", "epidemia_low_nsduh", "--model", "epidemia-baseline", "--model_args"]
    for arguments, said in (
        ("kind=noisy,noise=abc", "noise='abc': expected a number from 0"),
        ("kind=noisy,noise=nan", "expected a number from 0"),
        ("kind=truth,seed=x", "seed='x': expected a number"),
        ("kind=noisy,seed=0.5", "seed=0.5: expected a whole number"),
        ("kind=truth,bias=1", "no argument 'bias' (nearest: position_bias)"),
    ):
        done = epidemia(*base, arguments)
        assert done.returncode == 2 and said in done.stderr, (arguments, done.stderr[-500:])
        assert "Traceback" not in done.stderr
    few = epidemia("cost", "epidemia_low_nsduh", "--max-gen-toks", "0")
    assert few.returncode == 2 and "at least 1 token" in few.stderr
