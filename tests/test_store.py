"""Ground truth on disk: what is used, what is refused, and what a kill or a full disk leaves."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import toy_survey
from conftest import full_disk, nsduh_2023, shipped_as_built
from truths import HEROIN, enter

from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import registry, store
from lm_eval_epidemia.estimate.check import find_faults
from lm_eval_epidemia.estimate.write import open_unfinished
from lm_eval_epidemia.harness.yamls import task_path

GSS = "epidemia_low_gss_political_view_by_age"
CHIEFS = "epidemia_low_bls_sex_by_occupation"


def change(folder, edit):
    path = folder / "registry.json"
    content = json.loads(path.read_text())
    edit(content["truths"])
    path.write_text(json.dumps(content))
    look_at_disk()


# Which truth is used.


def test_the_records_first_vintage_is_scored_whatever_was_built(home, epidemia):
    shipped_as_built("gss_2018")
    truth = store.load_truth(GSS)
    assert (truth.vintage, truth.state) == ("2022", "shipped")
    assert store.list_available()[GSS].key == "gss_2022"
    older = store.load_truth(GSS, "2018")
    assert (older.vintage, older.state) == ("2018", "built here")
    # 2018 is here twice, shipped and built.
    assert store.vintages(GSS) == store.vintages(GSS, "shipped") == ["2022", "2024", "2021", "2018"]
    assert store.vintages(GSS, "built here") == ["2018"]
    # The task files say the same, and so does the list.
    shipped = store.read_registry(paths.shipped_groundtruth())["gss_2022"]
    (file,) = task_path().rglob(f"{GSS}.yaml")
    assert shipped["files"]["cells"]["sha256"][:12] in file.read_text()
    listed = epidemia("tasks", "list", "--survey", "gss").stdout
    assert "shipped (2022)" in listed
    assert "(2018)" not in listed


def test_of_one_vintage_what_was_built_is_scored(home):
    shipped_as_built("gss_2022", "gss_2018")
    assert [place[1:] for place in store.all_places()[GSS]] == [
        ("gss_2022", "built here"),
        ("gss_2022", "shipped"),
        ("gss_2024", "shipped"),
        ("gss_2021", "shipped"),
        ("gss_2018", "built here"),
        ("gss_2018", "shipped"),
    ]
    assert store.load_truth(GSS).state == "built here"


def test_a_build_that_scores_do_not_use_says_so(home, tmp_path):
    folder = shipped_as_built("gss_2018", "gss_2022")
    older = building.Built("gss_2018", folder, [GSS], [])
    assert building.describe_unscored(older) == (
        "scores of 1 of them still use gss_2022 (built here), which the record of gss lists "
        "before 2018: see 'epidemia anchors gss --vintage 2018'"
    )
    assert building.describe_unscored(building.Built("gss_2022", folder, [GSS], [])) == ""
    elsewhere = building.Built("gss_2022", tmp_path / "elsewhere", [GSS], [])
    assert "scores do not use them" in building.describe_unscored(elsewhere)


# What is refused.


def swap(entries, name):
    entries[name]["levels"].reverse()


def drop(entries, name):
    del entries[name]["levels"]


def rename_columns(entries, name):
    entries[name]["columns"] = dict.fromkeys(entries[name]["columns"], "other")


def nothing(entries, name):
    entries[name] = None


def test_damaged_truths_are_refused_and_no_others(home, epidemia):
    """Four entries, each damaged in another way, and a vintage without its replicates."""
    shipped = len(store.list_available())
    folder = shipped_as_built("gss_2022", "scf_2022")
    entries = store.read_registry(folder)
    damaged = list(entries["gss_2022"]["tasks"])[:4]
    whole = {*entries["gss_2022"]["tasks"]} - {*damaged}

    def damage(truths):
        for edit, name in zip((swap, drop, rename_columns, nothing), damaged, strict=True):
            edit(truths["gss_2022"]["tasks"], name)

    change(folder, damage)
    for name in damaged:
        with pytest.raises(EpidemiaError) as caught:
            store.load_truth(name)
        message = str(caught.value)
        assert f"the entry of {name} in gss_2022" in message
        assert "epidemia groundtruth build gss --vintage 2022 --raw FILE" in message
        assert f"delete {folder}" in message
    assert whole
    scf = [*entries["scf_2022"]["tasks"]]
    for name in whole:
        assert store.load_truth(name).state == "built here"
        assert find_faults(name) == []
    (folder / "scf_2022.replicates.parquet").unlink()
    assert "scf_2022.replicates.parquet is missing" in find_faults(scf[0])[0]
    # Nothing takes their place, and all else is there, also where task files are made.
    wrong = {*damaged, *scf}
    available = store.list_available()
    assert wrong.isdisjoint(available) and whole <= {*available}
    assert len(available) == shipped - len(wrong)
    files = {path.stem for path in task_path().rglob("*.yaml")}
    assert wrong.isdisjoint(files) and whole <= files
    refused = epidemia("groundtruth", "check")
    *lines, last = refused.stderr.splitlines()
    assert refused.returncode == 2
    assert {line.partition(": ")[0] for line in lines} == wrong
    assert f"the truth of {len(wrong)} of {shipped} tasks is wrong" in last


def test_levels_in_another_order_than_the_records_are_found(home):
    """As somebody may seal it: the record alone knows the order."""
    folder = shipped_as_built("bls_2023")

    def sealed(truths):
        swap(truths["bls_2023"]["tasks"], CHIEFS)
        truths["bls_2023"] = registry.add_seals(truths["bls_2023"])

    change(folder, sealed)
    (problem,) = find_faults(CHIEFS)
    assert problem == "levels of sex are ['Female', 'Male'], the record's ['Male', 'Female']"


def test_damaged_outlines_are_left_out_with_a_warning_that_names_them(home, caplog):
    folder = shipped_as_built("bls_2023", "gss_2022")
    truths = {**store.read_registry(folder)}
    truth = truths.pop("bls_2023")
    damaged = "the entry bls_2023 is left out.*epidemia groundtruth build"
    for key, outline, warning in (
        ("bls_2023", [], damaged),
        ("bls_2023", {"survey": "bls", "vintage": "2023", "tasks": {}}, damaged),
        ("bls_2023", {"survey": "gss", "vintage": "2023", "tasks": {}, "files": {}}, damaged),
        # Of a survey that is not declared here; the truth may be whole, its record is elsewhere.
        (
            "atlantis_2023",
            {**truth, "survey": "atlantis"},
            "the truth of atlantis_2023 is left out: the survey record of atlantis is missing",
        ),
    ):
        caplog.clear()
        notices.forget()
        registry.write_registry(folder, {**truths, key: outline})
        assert store.load_truth(GSS).state == "built here"
        # A truth whose tasks are unknown takes no task away: what ships is used, and that is said.
        assert store.load_truth(CHIEFS).state == "shipped"
        assert re.search(warning, caplog.text), outline


def test_every_field_of_a_shipped_entry_is_sealed(home):
    """Whatever is changed in a registry, the entry no longer has its hash."""
    truth = store.read_registry(paths.shipped_groundtruth())["nsduh_2022"]
    right = truth["tasks"][HEROIN]["sha256"]
    assert registry.seal(truth, HEROIN) == right
    for field in set(truth) - {"tasks"}:
        assert registry.seal({**truth, field: "other"}, HEROIN) != right, field
    for field in set(truth["tasks"][HEROIN]) - {"sha256"}:
        entry = {**truth["tasks"][HEROIN], field: "other"}
        assert registry.seal({**truth, "tasks": {HEROIN: entry}}, HEROIN) != right, field


# Writing.

TRUTHS = [sys.executable, str(Path(__file__).parent / "truths.py")]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def test_a_kill_at_any_step_of_writing_leaves_the_old_truth_or_the_new(home):
    folder, shares, code = store.built_groundtruth(), [], None
    with subprocess.Popen([*TRUTHS, "killed"], **PIPES) as writers:
        while code != 0:
            shutil.rmtree(folder, ignore_errors=True)
            enter(0.25)
            writers.stdin.write(f"{len(shares)}\n")
            writers.stdin.flush()
            code = int(writers.stdout.readline())
            # Every step was a kill but the last.
            assert code in (0, -signal.SIGKILL)
            truth = store.load_truth(HEROIN)
            assert truth.state == "built here"
            shares.append(float(truth.p[0, 0]))
            assert len(truth.d_perfect() * truth.distances["iid"]) == 200
            # And the next build goes through, and leaves nothing of this one.
            enter(0.75)
            assert store.load_truth(HEROIN).p[0, 0] == 0.75
            left = {path.name.split(".")[1] for path in folder.iterdir() if path.name[0] != "."}
            assert left == {"cells", "bootstrap", "replicates", "json"}
            assert len([path for path in folder.iterdir() if path.name != ".lock"]) == 4
        writers.stdin.close()
    # The old is there up to one of the steps, then the new.
    assert shares == sorted(shares)
    assert set(shares) == {0.25, 0.5}
    assert 8 < len(shares) < 40


def test_a_full_disk_leaves_the_old_truth(home, tmp_path):
    enter(0.5, folder=tmp_path / "new")
    enter(0.25)
    for file in (tmp_path / "new").glob("nsduh*"):
        with (
            pytest.raises(EpidemiaError, match=r"^cannot write .*free some space$"),
            full_disk(file.stat().st_size - 1),
        ):
            enter(0.5)
        assert store.load_truth(HEROIN).p[0, 0] == 0.25
        assert find_faults(HEROIN) == []
    enter(0.5)
    assert store.load_truth(HEROIN).p[0, 0] == 0.5


def test_a_reader_meets_the_new_truth_when_the_old_goes_away_under_it(home, monkeypatch):
    enter(0.25)
    read, done = store._read_rows, []

    def late(place, file, task, none=False):
        if not done:
            done.append(1)
            enter(0.5)
        return read(place, file, task, none)

    monkeypatch.setattr(store, "_read_rows", late)
    assert store.load_truth(HEROIN).p[0, 0] == 0.5


def test_rebuilding_leaves_other_files_of_the_folder_alone(home):
    enter(0.25)
    folder = store.built_groundtruth()
    kept = [
        "nsduh_2023.cells.mine.parquet",
        "nsduh_2022.cells.parquet",
        "notes.txt",
        "nsduh_2023-b.cells.parquet",
        "registry.json.set-aside-1",
    ]
    for name in kept:
        (folder / name).write_text("mine")
    enter(0.5)
    assert [(folder / name).read_text() for name in kept] == ["mine"] * len(kept)


def test_registries_that_cannot_be_read_are_set_aside_by_a_build(home, caplog):
    folder = store.built_groundtruth()
    folder.mkdir(parents=True)
    texts = ["{", "[]", "null", '{"schema": 99}', '{"schema": 2}', '{"schema": 2, "truths": []}']
    for number, text in enumerate(texts, start=1):
        notices.forget()
        (folder / "registry.json").write_text(text)
        look_at_disk()
        with pytest.raises(EpidemiaError, match="sets it aside and starts a new one"):
            store.load_truth(HEROIN)
        enter(0.5)
        assert store.load_truth(HEROIN).p[0, 0] == 0.5
        assert f"it is now registry.json.set-aside-{number}" in caplog.text
    # What was set aside before stays.
    for number, text in enumerate(texts, start=1):
        assert (folder / f"registry.json.set-aside-{number}").read_text() == text


def test_two_builds_that_end_at_once_are_both_entered(home):
    second = threading.Thread(target=enter, args=(0.25, "nsduh_2022"))
    with subprocess.Popen([*TRUTHS, "slow"], **PIPES) as first:
        assert first.stdout.readline() == "read\n"
        second.start()
        # It waits; one that does not would be done, and lost, when the first goes on.
        second.join(timeout=1)
        assert second.is_alive()
        first.communicate("\n", timeout=600)
        second.join(timeout=600)
    assert first.returncode == 0
    entered = store.read_registry(store.built_groundtruth())
    assert set(entered) == {"nsduh_2022", "nsduh_2023"}


@pytest.fixture
def toy(home, tmp_path):
    """Arguments that build the truth of a toy survey."""
    toy_survey.declare(home)
    toy_survey.people().to_csv(tmp_path / "toy.csv", index=False)
    return ("groundtruth", "build", "toy", "--raw", tmp_path / "toy.csv", "--replicates", "4")


def test_a_second_build_of_the_same_is_refused_and_the_first_not_disturbed(toy, epidemia):
    folder = store.built_groundtruth()
    with open_unfinished(folder, "toy_2020"):
        refused = epidemia(*toy)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == refused.stderr.count("epidemia: ") + 1
        assert f"error: another build of toy_2020 is running in {folder}" in refused.stderr
        assert (folder / ".toy_2020.unfinished").is_dir()
    assert not (folder / ".toy_2020.unfinished").exists()


# Faults of place.


@pytest.mark.parametrize("where", ["EPIDEMIA_HOME", "--out"])
def test_a_file_where_the_folder_should_be_is_one_line_before_the_work(
    tmp_path, monkeypatch, epidemia, where
):
    file, raw = tmp_path / "file", tmp_path / "NSDUH_2023.parquet"
    file.write_text("mine")
    nsduh_2023(60).to_parquet(raw)
    if where == "EPIDEMIA_HOME":
        monkeypatch.setenv("EPIDEMIA_HOME", str(file))
    out = ["--out", file] if where == "--out" else []
    refused = epidemia("groundtruth", "build", "nsduh", "--raw", raw, *out)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()  # not even a bar
    assert line.startswith(f"error: cannot write {file}")
    assert line.endswith("a file stands where a folder is needed")
    assert file.read_text() == "mine"


def test_a_disk_that_fills_up_is_one_line_and_the_same_command_goes_on(toy, epidemia):
    with full_disk(1000):
        stopped = epidemia(*toy)
    assert stopped.returncode == 2
    assert "error: cannot write" in stopped.stderr.splitlines()[-1]
    built = epidemia(*toy)
    assert built.returncode == 0, built.stderr
    tasks = len(building.find_record("toy").all_tasks)
    assert f"{tasks}/{tasks}" in built.stderr


def alive(pid):
    """Tell whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


#: Works on this machine's processes as a build does; each says its number and is busy.
WORKERS = """
import os, time, joblib
from lm_eval_epidemia.estimate.build import end_with_parent

def work(_):
    print(os.getpid(), flush=True)
    time.sleep(600)

with joblib.parallel_config("loky", n_jobs=2, initializer=end_with_parent, initargs=(os.getpid(),)):
    joblib.Parallel()(joblib.delayed(work)(n) for n in range(2))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")
def test_workers_end_with_a_build_that_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", WORKERS], stdout=subprocess.PIPE, text=True
    ) as build:
        pids = [int(build.stdout.readline()) for _ in range(2)]
        assert all(map(alive, pids))
        build.kill()
    ends = time.monotonic() + 120  # on a busy machine
    while any(map(alive, pids)) and time.monotonic() < ends:
        time.sleep(0.1)
    left = [*filter(alive, pids)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
