"""Ground truth on disk: what is used, what is refused, and what a kill or a full disk leaves."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import nsduh_2023
from truths import HEROIN, enter

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import registry, store
from lm_eval_epidemia.estimate.check import check, check_all
from lm_eval_epidemia.harness.yamls import task_path
from lm_eval_epidemia.surveys.catalogue import record

EPIDEMIA = [sys.executable, "-m", "lm_eval_epidemia.cli"]
GSS = "epidemia_low_gss_political_view_by_age"
CHIEFS = "epidemia_low_bls_sex_by_occupation"


def epidemia(*arguments, **options):
    options = {"capture_output": True, "text": True, "check": False, **options}
    return subprocess.run([*EPIDEMIA, *map(str, arguments)], **options)


def shipped_as_built(*keys):
    """Copy shipped truths into the user's own folder."""
    folder = store.built_groundtruth()
    folder.mkdir(parents=True)
    shipped = paths.shipped_groundtruth()
    truths = {key: store.read_registry(shipped)[key] for key in keys}
    for truth in truths.values():
        for file in truth["files"].values():
            shutil.copy(shipped / file["name"], folder)
    registry.write_registry(folder, truths)
    return folder


def change(folder, edit):
    path = folder / "registry.json"
    said = json.loads(path.read_text())
    edit(said["truths"])
    path.write_text(json.dumps(said))


# Which truth is used.


def test_the_records_first_vintage_is_scored_whatever_was_built(home):
    shipped_as_built("gss_2018")
    truth = store.load(GSS)
    assert (truth.vintage, truth.state) == ("2022", "shipped")
    assert store.available()[GSS].key == "gss_2022"
    older = store.load(GSS, "2018")
    assert (older.vintage, older.state) == ("2018", "built here")
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
    assert store.load(GSS).state == "built here"


def test_a_build_that_scores_do_not_use_says_so(home, tmp_path):
    folder = shipped_as_built("gss_2018", "gss_2022")
    older = building.Built("gss_2018", folder, [GSS], [])
    assert building.not_scored(older) == (
        "scores of 1 of them go on using gss_2022 (built here), which the record of gss lists "
        "before 2018; 'epidemia anchors gss --compare' shows how they differ"
    )
    assert building.not_scored(building.Built("gss_2022", folder, [GSS], [])) == ""
    elsewhere = building.Built("gss_2022", tmp_path / "elsewhere", [GSS], [])
    assert "scores do not use them" in building.not_scored(elsewhere)


# What is refused.


def swap(truths):
    truths["bls_2023"]["tasks"][CHIEFS]["levels"].reverse()


def drop(truths):
    del truths["bls_2023"]["tasks"][CHIEFS]["levels"]


def rename_columns(truths):
    truths["bls_2023"]["tasks"][CHIEFS]["columns"]["sex"] = "race"


def nothing(truths):
    truths["bls_2023"]["tasks"][CHIEFS] = None


@pytest.mark.parametrize("edit", [swap, drop, rename_columns, nothing])
def test_a_damaged_entry_is_refused_and_no_other_task(home, edit):
    shipped = len(store.available())
    folder = shipped_as_built("bls_2023", "gss_2022")
    change(folder, edit)
    with pytest.raises(EpidemiaError) as caught:
        store.load(CHIEFS)
    said = str(caught.value)
    assert f"the entry of {CHIEFS} in bls_2023" in said
    assert "epidemia groundtruth build bls --vintage 2023 --raw FILE" in said
    assert f"delete {folder}" in said
    # Nothing takes its place, and all else is there, also where task files are made.
    others = set(store.read_registry(folder)["bls_2023"]["tasks"]) - {CHIEFS}
    assert others
    for name in (*others, GSS):
        assert store.load(name).state == "built here"
        assert check(name) == []
    available = store.available()
    assert CHIEFS not in available
    assert len(available) == shipped - 1
    files = {path.stem for path in task_path().rglob("*.yaml")}
    assert CHIEFS not in files
    assert {*others, GSS} <= files
    checked = epidemia("groundtruth", "check")
    assert checked.returncode == 2
    assert "Traceback" not in checked.stderr
    assert f"{CHIEFS}: {folder}" in checked.stderr
    assert f"1 of {shipped} tasks have a wrong ground truth" in checked.stderr


def test_a_missing_replicates_file_is_said_of_its_tasks_and_of_no_other(home):
    folder = shipped_as_built("gss_2022")
    (folder / "gss_2022.replicates.parquet").unlink()
    found = check_all()
    wrong = {name for name, said in found.items() if said}
    assert wrong == set(store.read_registry(folder)["gss_2022"]["tasks"])
    assert "gss_2022.replicates.parquet is missing" in found[GSS][0]


def test_levels_in_another_order_than_the_records_are_found(home):
    """As in a registry of 0.1.0, which has no seals: then the record alone knows the order."""
    folder = shipped_as_built("bls_2023")

    def unsealed(truths):
        swap(truths)
        for entry in truths["bls_2023"]["tasks"].values():
            del entry["sha256"]

    change(folder, unsealed)
    (problem,) = check(CHIEFS)
    assert problem == "levels of sex are ['Female', 'Male'], the record's ['Male', 'Female']"


def test_the_registry_of_the_last_release_still_loads(home):
    """Schema 2, as 0.1.0 wrote it: no seals, no replicates."""
    folder = shipped_as_built("gss_2022")
    said = json.loads((folder / "registry.json").read_text())
    del said["truths"]["gss_2022"]["files"]["replicates"]
    for entry in said["truths"]["gss_2022"]["tasks"].values():
        del entry["sha256"], entry["replicates"]
    (folder / "registry.json").write_text(json.dumps({**said, "schema": 2}))
    truth, shipped = store.load(GSS), store.load(GSS, state="shipped")
    assert truth.state == "built here"
    assert (truth.p == shipped.p).all()
    assert truth.d_perfect() == shipped.d_perfect()
    assert (truth.sample, truth.replicates) == (None, None)
    assert check(GSS) == []


@pytest.mark.parametrize(
    ("key", "outline"),
    [
        ("bls_2023", []),
        ("bls_2023", {"survey": "bls", "vintage": "2023", "tasks": {}}),
        ("bls_2023", {"survey": "gss", "vintage": "2023", "tasks": {}, "files": {}}),
        ("atlantis_2023", None),
    ],
)
def test_a_damaged_outline_is_left_out_with_a_warning_that_names_it(home, caplog, key, outline):
    folder = shipped_as_built("bls_2023", "gss_2022")

    def edit(known):
        truth = known.pop("bls_2023")
        known[key] = {**truth, "survey": "atlantis"} if outline is None else outline

    change(folder, edit)
    assert store.load(GSS).state == "built here"
    # A truth whose tasks are unknown takes no task away: what ships is used, and that is said.
    assert store.load(CHIEFS).state == "shipped"
    if outline is None:
        # Of a survey that is not declared here; the truth may be whole, its record is elsewhere.
        assert f"the truth of {key} is left out: there is no record of atlantis here" in caplog.text
    else:
        assert f"the entry {key} is left out" in caplog.text
        assert "epidemia groundtruth build" in caplog.text


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


def truths(*arguments):
    return subprocess.run(
        [*TRUTHS, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_kill_at_any_step_of_writing_leaves_the_old_truth_or_the_new(home):
    folder, seen = store.built_groundtruth(), []
    for step in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        enter(0.25)
        done = truths("killed", step)
        truth = store.load(HEROIN)
        assert truth.state == "built here"
        seen.append(float(truth.p[0, 0]))
        assert len(truth.d_perfect() * truth.distances["iid"]) == 200
        # And the next build goes through, and leaves nothing of this one.
        enter(0.75)
        assert store.load(HEROIN).p[0, 0] == 0.75
        left = {path.name.split(".")[1] for path in folder.iterdir() if path.name[0] != "."}
        assert left == {"cells", "bootstrap", "replicates", "json"}
        assert len([path for path in folder.iterdir() if path.name != ".lock"]) == 4
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.returncode == 0
    # Every step was a kill but the last; the old is there up to one of them, then the new.
    assert seen == sorted(seen)
    assert set(seen) == {0.25, 0.5}
    assert len(seen) > 8


def test_a_full_disk_leaves_the_old_truth(home, tmp_path):
    enter(0.5, folder=tmp_path / "new")
    enter(0.25)
    for file in (tmp_path / "new").glob("nsduh*"):
        done = truths("limited", file.stat().st_size - 1)
        assert done.returncode == 1
        assert done.stderr.startswith("error: cannot write"), done.stderr
        assert done.stderr.endswith("make room there\n")
        assert store.load(HEROIN).p[0, 0] == 0.25
        assert check(HEROIN) == []
    enter(0.5)
    assert store.load(HEROIN).p[0, 0] == 0.5


def test_a_reader_meets_the_new_truth_when_the_old_goes_away_under_it(home, monkeypatch):
    enter(0.25)
    read, done = store._read, []

    def late(place, file, task, none=False):
        if not done:
            done.append(1)
            enter(0.5)
        return read(place, file, task, none)

    monkeypatch.setattr(store, "_read", late)
    assert store.load(HEROIN).p[0, 0] == 0.5


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


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"schema": 99}', '{"schema": 2}', '{"schema": 2, "truths": []}', "["],
)
def test_a_registry_that_cannot_be_read_is_set_aside_by_a_build(home, caplog, text):
    folder = store.built_groundtruth()
    folder.mkdir(parents=True)
    (folder / "registry.json").write_text(text)
    with pytest.raises(EpidemiaError, match="sets it aside and begins another"):
        store.load(HEROIN)
    enter(0.5)
    assert store.load(HEROIN).p[0, 0] == 0.5
    assert "It is now registry.json.set-aside-1" in caplog.text
    assert (folder / "registry.json.set-aside-1").read_text() == text
    # What was set aside before stays.
    (folder / "registry.json").write_text("{{")
    enter(0.25)
    assert (folder / "registry.json.set-aside-1").read_text() == text
    assert (folder / "registry.json.set-aside-2").read_text() == "{{"


def test_two_builds_that_end_at_once_are_both_entered(home):
    with subprocess.Popen([*TRUTHS, "slow"], **PIPES) as first:
        assert first.stdout.readline() == "read\n"
        with subprocess.Popen([*TRUTHS, "enter", "0.25", "nsduh_2022"]) as second:
            # It waits; one that does not would be done, and lost, when the first goes on.
            with pytest.raises(subprocess.TimeoutExpired):
                second.wait(timeout=8)
            first.communicate("\n", timeout=600)
            assert second.wait(timeout=600) == 0
        assert first.returncode == 0
    entered = store.read_registry(store.built_groundtruth())
    assert set(entered) == {"nsduh_2022", "nsduh_2023"}


def test_a_second_build_of_the_same_is_refused_and_the_first_not_disturbed(home, nsduh_parquet):
    folder = store.built_groundtruth()
    arguments = ("groundtruth", "build", "nsduh", "--raw", nsduh_parquet, "--replicates", "4")
    with subprocess.Popen([*TRUTHS, "at work", str(folder)], **PIPES) as first:
        assert first.stdout.readline() == "at work\n"
        done = epidemia(*arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == done.stderr.count("epidemia: ") + 1
        assert f"error: another build of nsduh_2023 is at work in {folder}" in done.stderr
        assert (folder / ".nsduh_2023.unfinished").is_dir()
        first.communicate("\n", timeout=600)
        assert first.returncode == 0
    assert not (folder / ".nsduh_2023.unfinished").exists()


# Faults of place.


@pytest.mark.parametrize("where", ["EPIDEMIA_HOME", "--out"])
def test_a_file_where_the_folder_should_be_is_one_line_before_the_work(
    tmp_path, nsduh_parquet, where
):
    file = tmp_path / "file"
    file.write_text("mine")
    environment = {**os.environ, "EPIDEMIA_HOME": str(tmp_path / "home")}
    arguments = ["groundtruth", "build", "nsduh", "--raw", nsduh_parquet, "--replicates", "4"]
    if where == "--out":
        arguments += ["--out", file]
    else:
        environment["EPIDEMIA_HOME"] = str(file)
    done = epidemia(*arguments, env=environment)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()  # not even a bar
    assert line.startswith(f"error: cannot write {file}")
    assert line.endswith("what should be a folder is a file")
    assert file.read_text() == "mine"


def test_a_disk_that_fills_up_is_one_line_and_the_same_command_goes_on(home, tmp_path):
    raw = tmp_path / "NSDUH_2023.parquet"
    nsduh_2023(60).to_parquet(raw)
    arguments = ["groundtruth", "build", "nsduh", "--raw", raw, "--replicates", "4"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    done = epidemia(
        *arguments, preexec_fn=limit, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error: cannot write" in done.stderr.splitlines()[-1]
    again = epidemia(*arguments)
    assert again.returncode == 0, again.stderr
    tasks = len(record("nsduh").all_tasks)
    assert f"{tasks}/{tasks}" in again.stderr


def alive(pid):
    """Tell whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if int(parent) == pid:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")
def test_workers_end_with_a_build_that_is_killed(home, nsduh_parquet):
    arguments = ["groundtruth", "build", "nsduh", "--raw", str(nsduh_parquet), "--jobs", "2"]
    # So many replicates that every worker is in the middle of a task for minutes.
    with subprocess.Popen(
        [*EPIDEMIA, *arguments, "--replicates", "20000"], stderr=subprocess.DEVNULL
    ) as build:
        deadline = time.monotonic() + 600
        workers = []
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
            workers = [
                pid
                for pid in children(build.pid)
                if b"popen_loky_posix" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
        assert len(workers) == 2
        while time.monotonic() < deadline and not all(
            b"lightgbm" in Path(f"/proc/{pid}/maps").read_bytes() for pid in workers
        ):
            time.sleep(0.2)  # until they are at work
        build.kill()
    try:
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not any(map(alive, workers))
    finally:
        for pid in filter(alive, workers):
            os.kill(pid, signal.SIGKILL)
