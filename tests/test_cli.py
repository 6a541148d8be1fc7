"""The command line, as a user types it."""

import io
import json
import os
import re
import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import called, evaluate, in_a_process, nsduh_2023
from lm_eval.utils import make_table
from typer.main import get_command

from lm_eval_epidemia import __version__, cli
from lm_eval_epidemia.cli import printing
from lm_eval_epidemia.cli.tasks import tasks_list
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import run as harness_run
from lm_eval_epidemia.models import demo
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.results.samples import read_elicited, sample_file
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record

#: A build of the 2023 file estimates all of the survey's.
NSDUH = len(find_record("nsduh").all_tasks)


def process(code, *arguments, cwd=None, **environment):
    """Call the command in a process of its own, after some code."""
    code = f"{code}\nfrom lm_eval_epidemia.cli import main\nmain()"
    return in_a_process("-c", code, *arguments, cwd=cwd, env={**os.environ, **environment})


def row_of(shown, name):
    """The words of the line that has a name."""
    return next(words for words in map(str.split, shown.splitlines()) if name in words)


def commands(command, *above):
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from commands(each, *above, name)
    yield list(above)


def test_every_command_has_a_short_help(epidemia):
    for words in commands(get_command(cli.app)):
        done = epidemia(*words, "-h")
        assert done.returncode == 0 and "usage: " in done.stdout.lower(), words


def test_the_package_is_a_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["epidemia", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("lm_eval_epidemia", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{__version__}\n")


def test_names_are_separated_by_commas_or_spaces(epidemia):
    assert (
        split_names(["a,b", "c, d", ",e,"]) == ["a", "b", "c", "d", "e"] and split_names([]) == []
    )
    two = "epidemia_low_nsduh_heroin_ever_by_race", "epidemia_low_nsduh_heroin_ever_by_age"
    for command in (["cost"], ["anchors"], ["tasks", "list"], ["show"]):
        printed = {
            epidemia(*command, *names).stdout
            for names in ([",".join(two)], [f"{two[0]},", two[1]], two)
        }
        assert len(printed) == 1 and all(f"{name} " in min(printed) for name in two)
    done = epidemia("tasks", "list", "epidemia_low_bls_likelihood,fbi", two[0])
    assert "5 of 5 tasks available" in done.stdout
    listed = epidemia("tasks", "list", "--survey", "fbi,bls").stdout
    assert "epidemia_low_bls_" in listed and "epidemia_low_fbi_" in listed
    listed = epidemia("quantities", "list", "epidemia_prior_gss,epidemia_prior_scf").stdout
    assert listed.count("truth with standard error") == 2


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


def test_a_narrow_terminal_gets_two_lines_a_task_and_no_folded_columns(monkeypatch, capsys):
    monkeypatch.setattr(printing, "terminal_width", lambda: 80)
    tasks_list(["epidemia_low_nsduh"])
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("epidemia_low_nsduh_marijuana_ever_by_age")
    assert lines[place + 1] == "  shipped (2022): NSDUH: Marijuana Ever Used by Age"


def test_tasks_list_shows_every_task_with_its_state(epidemia):
    shown = epidemia("tasks", "list").stdout
    table, quick = shown.rsplit("and epidemia_quick", 1)
    rows = (line for line in table.splitlines() if line.startswith("  epidemia_"))
    states = dict(line.split(maxsplit=1) for line in rows)
    assert "predicts epidemia_low" in quick and states.keys() == all_tasks().keys()
    assert states["epidemia_low_nsduh_heroin_ever_by_age"].startswith("shipped (2022)")
    assert states["epidemia_low_nsduh_alcohol_past_month_by_age"].startswith("needs NSDUH-2023")
    waiting = sum(state.startswith("needs ") for state in states.values())
    assert f"{len(states) - waiting} of {len(states)} tasks available" in shown
    assert "107 of 169 tasks (63 of 75 in epidemia_low, 44 of 94 in epidemia_high)" in shown
    assert "tasks of brfss wait: it needs LLCP2023XPT.zip (https://" in shown
    assert "epidemia survey download nsduh, then epidemia groundtruth build nsduh" in shown
    named = [name for name, state in states.items() if ", stand-in" in state]
    assert len(named) == 50 and "epidemia_high_standin: 44 of the 94" in shown


def test_tasks_list_counts_against_the_whole_study_and_is_never_empty(epidemia):
    shown = epidemia("tasks", "list", "epidemia_high_standin").stdout
    assert "94 of 94 tasks available" in shown and "epidemia_high_standin: 44 of the 94" in shown
    assert "from the published study: 44 of 169 tasks (44 of 94 in epidemia_high)" in shown
    shown = epidemia("tasks", "list", "epidemia_extra").stdout
    assert "published study" not in shown
    shown = epidemia("tasks", "list", "--survey", "gss").stdout
    assert "10 of 169 tasks (10 of 75 in epidemia_low)" in shown and "standin" not in shown


def test_anchors_and_their_options(epidemia):
    name = "epidemia_low_nsduh_cocaine_ever_by_race"
    _, cells, *_, perfect, _ = row_of(epidemia("anchors", name).stdout, name)
    wider = row_of(epidemia("anchors", name, "--quantile", "0.975").stdout, name)
    assert cells == "4" and float(wider[5]) > float(perfect)


def test_groundtruth_check(epidemia):
    done = epidemia("groundtruth", "check")
    assert done.returncode == 0
    assert f"ground truth of {len(store.list_available())} tasks is as registered" in done.stdout


@pytest.fixture(scope="module")
def nsduh_file(tmp_path_factory):
    raw = tmp_path_factory.mktemp("raw") / "NSDUH_2023.csv"
    nsduh_2023(600).to_csv(raw, index=False)
    return raw


BUILD = ["groundtruth", "build", "nsduh", "--replicates", "4", "--marginal", "--raw"]
MARGINAL = sum(task.kind == "marginal" for task in find_record("nsduh").all_tasks)


def test_a_build_says_where_its_output_is_and_tasks_become_available(nsduh_file, home, epidemia):
    done = epidemia(*BUILD, nsduh_file)
    assert done.returncode == 0, done.stderr
    assert f"{MARGINAL} tasks of nsduh_2023 are in {home / 'groundtruth'}" in done.stdout
    assert f"{MARGINAL}/{MARGINAL}" in done.stderr
    assert "built here (2023)" in epidemia("tasks", "list", "--survey", "nsduh").stdout
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
"""


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_continues(
    nsduh_file, home, epidemia
):
    # One job: several may finish every task before the interrupt reaches the first process.
    stopped = process(INTERRUPTED, "3", *BUILD, str(nsduh_file), "--jobs", "1")
    assert stopped.returncode == 130, stopped.stderr
    assert "repeat the command to continue" in stopped.stderr
    unfinished = home / "groundtruth" / ".nsduh_2023.unfinished"
    kept = len(list(unfinished.glob("*.json")))
    assert 3 <= kept < MARGINAL
    assert not (home / "groundtruth" / "registry.json").exists()
    done = epidemia(*BUILD, nsduh_file)
    assert done.returncode == 0, done.stderr
    assert f"{MARGINAL}/{MARGINAL}" in done.stderr
    assert f"{kept}/{MARGINAL}" in done.stderr  # the bar starts where it stopped
    assert not unfinished.exists()


def test_run_passes_everything_to_lm_eval(tmp_path):
    words = "run --model epidemia-baseline --model_args kind=truth --tasks epidemia_low_nsduh"
    words += f" --output_path {tmp_path / 'out'} --log_samples"
    done = process("", *words.split(), EPIDEMIA_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    assert "epidemia_low_nsduh_heroin_ever_by_age" in done.stdout
    assert "Custom kwargs" not in done.stderr  # lm-eval's hint, once per task
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text())["groups"]["epidemia_low_nsduh"]["score,none"] == 100
    samples = list((tmp_path / "out").rglob("samples_*.jsonl"))
    assert len(samples) == 6
    row = json.loads(samples[0].read_text().splitlines()[0])
    assert row["doc"]["prompt"].endswith("Answer:")


def test_run_reads_tasks_from_a_config_file(tmp_path, epidemia):
    config = tmp_path / "run.yaml"
    config.write_text("model: epidemia-baseline\nmodel_args: {kind: mean}\ntasks: [epidemia_lo]\n")
    said = epidemia("run", "--config", config).stderr
    assert "no task or group 'epidemia_lo' (nearest: epidemia_low" in said
    config.write_text(config.read_text().replace("epidemia_lo]", "epidemia_low_nsduh]"))
    done = epidemia("run", "--config", config, "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert "|epidemia_low_nsduh" in done.stdout


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ("epidemia_marginal_scf*", "Duplicate task"),
        ("EPIDEMIA_LOW", "no task or group 'EPIDEMIA_LOW' (nearest: epidemia_low"),
        ("arc_easi,", "Tasks not found: arc_easi"),
    ],
)
def test_what_lm_eval_stops_at_is_said_without_a_traceback(tasks, says, monkeypatch, epidemia):
    # Only ours are indexed: 14,000 other files take long.
    monkeypatch.setattr(harness_run, "has_only_ours", lambda tasks: True)
    monkeypatch.setattr(harness_run, "find_tasks", lambda name: None)
    done = epidemia("run", "--model", "epidemia-baseline", "--tasks", tasks)
    assert done.returncode == 2 and says in done.stderr.split("error: ")[-1]


def test_run_takes_names_with_blanks_between_them(epidemia):
    names = "epidemia_marginal_scf, epidemia_marginal_gss,"
    done = epidemia("run", "--model", "epidemia-baseline", "--tasks", names, "--limit", "1")
    assert "|epidemia_marginal_scf " in done.stdout and "|epidemia_marginal_gss " in done.stdout


@pytest.mark.slow  # all tasks; .ci/run runs it where torch is truly absent, a sibling is below
def test_demo_without_torch_is_told_apart(tmp_path, monkeypatch, epidemia):
    """The baselines of the demonstration."""
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == "torch" else name)
    monkeypatch.setattr(demo, "SHOWN", ({"kind": "truth"}, {"kind": "uniform"}))
    monkeypatch.chdir(tmp_path)
    done = epidemia("demo")
    assert done.returncode == 0, done.stderr
    lines = {row.split("  ")[1].strip(): row for row in done.stdout.splitlines() if " ± " in row}
    assert lines["knows the truth"].count("100.0 ±") == 2
    assert lines["guesses uniformly"].count(" 0.0 ±") == 2
    assert "Llama" not in done.stdout
    assert f"results are in {tmp_path / 'epidemia-demo'}\nnext: epidemia report" in done.stdout
    folder = tmp_path / "epidemia-demo" / "knows_the_truth"
    scores = read_results([folder]).scores.set_index(["task", "way"])
    for task in demo.KEPT:
        asked = LeafKey(task, "letters")
        path = sample_file(folder / "results_demo.json", asked)
        assert read_elicited(path, asked).l1 == pytest.approx(scores["l1"][asked])


def test_the_demonstration_does_not_show_what_git_says(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    monkeypatch.setattr(demo, "SHOWN", ({"kind": "truth"},))
    monkeypatch.setattr(demo, "DEMO_GROUPS", ("epidemia_low_fbi",))
    monkeypatch.setattr(demo, "KEPT", ("epidemia_low_fbi_sex_by_offense",))
    monkeypatch.chdir(tmp_path)
    ((line,),) = demo.demo(tmp_path / "out")
    assert line.scores["epidemia_low_fbi"][0] == 100
    assert "fatal" not in capfd.readouterr().err


def test_tasks_summary_says_per_survey_what_is_there_and_what_it_waits_for(epidemia):
    lines = epidemia("tasks", "list", "--summary").stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    heads = rows["survey"]
    kinds = heads[1 : heads.index("shipped")]
    asked = Counter(task.kind for task in all_tasks().values())
    assert rows["all"][1 : len(kinds) + 1] == [str(asked[kind]) for kind in kinds]
    assert sum(asked[kind] for kind in kinds) == len(all_tasks())
    shipped, built, waiting = map(int, rows["all"][len(kinds) + 1 :])
    assert (shipped, built, shipped + waiting) == (len(store.list_available()), 0, len(all_tasks()))
    assert rows["brfss"][1:4] == ["9", "39", "0"]
    assert rows["brfss"][-2:] == ["2023-published", "LLCP2023XPT.zip"]
    assert rows["nsduh"][1:4] == ["10", "33", "15"]


def test_anchors_of_a_survey_a_vintage_and_a_summary(epidemia):
    listed = epidemia("anchors", "gss").stdout
    assert listed.count("epidemia_low_gss_") == 10
    older = epidemia("anchors", "gss", "--vintage", "2018").stdout
    assert older.count("epidemia_low_gss_") == 10 and older != listed
    summary = epidemia("anchors", "scf", "--summary").stdout
    assert "epidemia_high_scf" in summary and "_by_" not in summary
    assert "standin" not in summary
    union = epidemia("anchors", "epidemia_high_standin", "--summary").stdout
    assert re.search(r"─ *\n +epidemia_high_standin +94 .*\n +epidemia_extra +50 ", union)


def test_survey_check_and_card(tmp_path, nsduh_file, epidemia):
    done = epidemia("survey", "check", "nsduh", "--raw", nsduh_file)
    assert done.returncode == 0, done.stderr
    assert "nsduh 2023: 600 rows, weight ANALWT2_C" in done.stdout
    assert f"{NSDUH} of {NSDUH} tasks with all columns" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "alcohol_past_month" in line)
    assert row.split()[1] == "alcrec"
    card = epidemia("survey", "card", "ipeds").stdout
    assert card.startswith("# Integrated Postsecondary") or "Degrees" in card
    written = epidemia("survey", "card", "ipeds", "scf", "--out", tmp_path / "cards")
    assert "2 data cards in" in written.stdout
    assert (tmp_path / "cards" / "scf.md").is_file()
