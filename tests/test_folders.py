"""What is written again is replaced, what is the user's is kept; what cannot be written is said."""

import multiprocessing
import os
import re
import shutil
import signal
import sys

import pytest
from conftest import full_disk
from recorded_runs import copied_run
from report_parts import COCAINE, said

from lm_eval_epidemia.cli.report import read_runs
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.models import demo
from lm_eval_epidemia.report.site import MARKER, build_site

OLD = {"index": "old", "data/a": "old", "data/b": "old", "gone/deep/c": "old"}
NEW = {"index": "new", "data/a": "new", "more/d": "new"}
MINE = {".git/HEAD": "mine", "CNAME": "mine", "data/notes": "mine"}


def fill(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, errors="surrogateescape")


def put(folder, files, marker="marker"):
    with folders.rewrite_folder(folder, marker) as new:
        fill(new, files)


def tree(folder):
    """Every file and link by its path, but for our list."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_text()
        for path in folder.rglob("*")
        if (path.is_symlink() or path.is_file()) and path.name not in (folders.MANIFEST, "marker")
    }


def test_what_is_ours_is_replaced_and_the_rest_kept(tmp_path):
    """A link to a folder is that folder."""
    (tmp_path / "real").mkdir()
    (out := tmp_path / "link").symlink_to("real")
    put(out, OLD)
    fill(out, MINE)
    put(out, NEW)
    assert tree(out) == NEW | MINE and out.is_symlink() and not (out / "gone").exists()


EDITED = "../precious", "/etc/passwd", "data/../../precious", "\udcff\udcfe"


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"more/d": "mine"}, "contains more/d, which we did not write"),
        ({"more": "mine"}, "contains more, which we did not write"),
        *(({folders.MANIFEST: f"{line}\n"}, "was edited or damaged") for line in EDITED),
    ],
)
def test_a_write_that_would_touch_the_users_files_is_refused(tmp_path, there, why):
    put(tmp_path / "out", OLD)
    fill(tmp_path, {"precious": "mine"})
    fill(tmp_path / "out", there)
    before = tree(tmp_path)
    with pytest.raises(EpidemiaError, match=why):
        put(tmp_path / "out", NEW)
    assert tree(tmp_path) == before


def test_links_inside_are_not_followed(tmp_path):
    """What we wrote there, the user has since put elsewhere under the same names."""
    out, elsewhere, mine = tmp_path / "out", tmp_path / "elsewhere", {"deep/c": "mine", "a": "mine"}
    put(out, OLD)
    fill(elsewhere, mine)
    for name in ("gone", "data"):
        shutil.rmtree(out / name)
        (out / name).symlink_to(elsewhere)
        if name == "gone":
            put(out, NEW)
    with pytest.raises(EpidemiaError, match="contains data, gone, which we did not write"):
        put(out, OLD)
    assert tree(elsewhere) == mine and (out / "gone").is_symlink()


def put_until(moment, out):
    """Write, and be killed before the so many-th change of a folder."""
    left = iter(range(moment))

    def hook(event, _):
        changes = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
        if changes and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    put(out, NEW)


@pytest.mark.parametrize("before", [OLD, {}], ids=["again", "first"])
def test_killed_at_any_moment_nothing_is_lost_and_the_next_write_mends_it(tmp_path, before):
    """Killed before the first change of a folder, the second, ... until it comes through."""
    mine = MINE if before else {}
    for moment in range(60):
        out = tmp_path / str(moment) / "out"
        if before:
            put(out, before)
            fill(out, mine)
        child = multiprocessing.get_context("fork").Process(target=put_until, args=(moment, out))
        child.start()
        child.join()
        left = {name: text for name, text in tree(out).items() if folders.STAGING not in name}
        assert {name: left.pop(name) for name in mine} == mine
        # Each page is the old or the new, whole, and finds what it needs; a first write is whole.
        assert left.items() <= before.items() | NEW.items()
        whole = left.items() >= NEW.items()
        assert whole if left.get("index") == "new" else left.keys() >= before.keys()
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL and (before or not out.exists() or left == NEW)
        put(out, NEW)
        assert tree(out) == NEW | mine and [*out.parent.iterdir()] == [out]
    assert left == NEW and moment > (10 if before else 3)


def test_of_two_writers_of_a_folder_the_second_is_refused(tmp_path):
    """They had one staging folder, which each emptied. First a new folder, then one that is there.

    A folder beside it may be written.
    """
    out = tmp_path / "out"
    for files in (OLD, NEW):
        with folders.rewrite_folder(out, "marker") as new:
            fill(new, files)
            for again, given in ((put, {}), (folders.check_rewritable, "marker")):
                with pytest.raises(EpidemiaError, match="another command is writing"):
                    again(out, given)
            put(tmp_path / "beside", OLD)
        assert tree(out) == files


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return copied_run(tmp_path_factory, tmp_path_factory.mktemp("runs"), [COCAINE])


def test_a_site_and_task_files_beside_files_of_the_users(runs, tmp_path):
    site, tasks = tmp_path / "site", tmp_path / "tasks"
    for out, marker in ((site, MARKER), (tasks, yamls.MARKER)):
        put(out, {"data/earlier.js": "old", "index.html": "old"}, marker)
        fill(out, MINE)
    build_site(read_runs([runs]), site)
    said("tasks", "write", tasks)
    files = tree(site)
    for known in (files, tree(tasks)):
        assert known.items() >= MINE.items() and "old" not in known.values()
    # Every placeholder was filled.
    for path in (*site.glob("*.html"), *site.glob("data/*.js")):
        assert not re.findall(r"\{[A-Za-z_]+\}|a given year", path.read_text()), path
    assert "in the 2022-23 academic year" in files["surveys.html"]
    assert "arrested for (offense) in the United States in 2019 or 2024<" in files["surveys.html"]


COMMANDS = {
    "report": ["report", "RUNS", "--html", "OUT"],
    "plot": ["plot", "leaderboard", "RUNS", "--out", "OUT/figure.svg"],
    "export": ["export", "--out", "OUT"],
    "tasks": ["tasks", "write", "OUT"],
    "card": ["survey", "card", "nsduh", "--out", "OUT"],
    "demo": ["demo", "--out", "OUT"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(runs, tmp_path, name, monkeypatch):
    """A file, below a file, among other files, where the kernel lets nobody make anything: said
    before results are read. And a full disk."""
    monkeypatch.setattr(demo, "_evaluate", lambda *_, **__: pytest.fail("checked too late"))

    def write(out, of):
        said(*(word.replace("RUNS", str(of)).replace("OUT", str(out)) for word in COMMANDS[name]))

    fill(tmp_path, there := {"file": "mine", "other/figure.svg/file": "mine"})
    outs = [tmp_path / "file", tmp_path / "file" / "sub", "/sys/nowhere"]
    if name not in ("card", "demo"):  # which write beside them
        outs.append(tmp_path / "other")
    for out in outs:
        with pytest.raises(EpidemiaError, match=r"^[^\n]*(file|other|nowhere)[^\n]*\Z"):
            write(out, "no results")
    if name != "demo":
        with pytest.raises(EpidemiaError, match="too large; free some space"), full_disk(1500):
            write(tmp_path if name == "plot" else tmp_path / "out", runs)
    assert tree(tmp_path) == there
