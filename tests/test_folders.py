"""Folders that are written again: what is ours is replaced, what is the user's is kept."""

import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import recorded
from typer.testing import CliRunner

from lm_eval_epidemia.cli import app
from lm_eval_epidemia.cli.report import read
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.report.site import MARKER, build_site

COCAINE = "epidemia_low_nsduh_cocaine_ever_by_age"
#: Has a page of its own only where it was asked so; as letters every task has one.
ASKED = "epidemia_low_nsduh_heroin_ever_by_age_likelihood"


def fill(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def put(folder, files):
    with folders.rewritten(folder, "marker") as new:
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


OLD = {"index": "old", "data/a": "old", "data/b": "old", "gone/deep/c": "old"}
NEW = {"index": "new", "data/a": "new", "more/d": "new"}
MINE = {".git/HEAD": "mine", "CNAME": "mine", "data/notes": "mine"}


def test_what_is_ours_is_replaced_and_the_rest_kept(tmp_path):
    out = tmp_path / "out"
    put(out, OLD)
    fill(out, MINE)
    put(out, NEW)
    assert tree(out) == NEW | MINE
    assert not (out / "gone").exists()
    put(out, OLD)
    assert tree(out) == OLD | MINE


def test_what_another_command_wrote_is_not_removed(tmp_path):
    """Records would go the way of an export, and the other way round."""
    out = tmp_path / "out"
    put(out, OLD)
    refused = pytest.raises(EpidemiaError, match=r"the output of another command \(data/a, .*give")
    with refused, folders.rewritten(out, ".epidemia-site") as new:
        fill(new, NEW)
    assert tree(out) == OLD


def test_the_users_files_are_never_in_our_way(tmp_path):
    out = tmp_path / "out"
    put(out, OLD)
    fill(out, {"more/d": "mine"})
    with pytest.raises(EpidemiaError, match="contains more/d, which we did not write"):
        put(out, NEW)
    assert tree(out) == OLD | {"more/d": "mine"}
    shutil.rmtree(out / "more")
    (out / "more").write_text("mine")
    with pytest.raises(EpidemiaError, match="contains more, which we did not write"):
        put(out, NEW)
    assert tree(out) == OLD | {"more": "mine"}


def test_a_folder_that_is_not_ours_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(EpidemiaError, match="holds other files"):
        put(tmp_path, NEW)
    assert tree(tmp_path) == {"thesis.tex": "mine"}
    with pytest.raises(EpidemiaError, match="is a file"):
        put(tmp_path / "thesis.tex", NEW)


@pytest.mark.parametrize("line", ["../precious", "/etc/passwd", "data/../../precious", "\\xff"])
def test_a_list_that_is_not_as_written_is_not_followed(tmp_path, line):
    out = tmp_path / "out"
    put(out, OLD)
    (tmp_path / "precious").write_text("mine")
    raw = line.encode() if line.isascii() and "\\" not in line else b"\xff\xfe"
    (out / folders.MANIFEST).write_bytes(raw + b"\n")
    with pytest.raises(EpidemiaError, match="was edited or damaged"):
        put(out, NEW)
    assert (tmp_path / "precious").read_text() == "mine" and tree(out) == OLD


def test_links_inside_are_not_followed(tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    put(out, OLD)
    fill(elsewhere, {"deep/c": "mine", "a": "mine"})
    # What we wrote there, the user has since put elsewhere under the same names.
    shutil.rmtree(out / "gone")
    (out / "gone").symlink_to(elsewhere)
    put(out, NEW)
    assert tree(elsewhere) == {"a": "mine", "deep/c": "mine"} and (out / "gone").is_symlink()
    (out / "data" / "a").unlink()
    (out / "data").rmdir()
    (out / "data").symlink_to(elsewhere)
    with pytest.raises(EpidemiaError, match="contains data, gone, which we did not write"):
        put(out, OLD)
    assert tree(elsewhere) == {"a": "mine", "deep/c": "mine"}


def test_a_link_to_a_folder_is_that_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    put(tmp_path / "link", OLD)
    put(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink() and tree(tmp_path / "real") == NEW


def test_a_folder_without_a_list_keeps_everything_and_says_so(tmp_path, caplog):
    out = tmp_path / "out"
    fill(out, {"marker": "0.1.0", "index": "old", "page": "old", "CNAME": "mine"})
    put(out, NEW)
    assert tree(out) == NEW | {"page": "old", "CNAME": "mine"}
    assert "kept no list of its files" in caplog.text


KILLED = """
import os, signal, sys
from pathlib import Path
from lm_eval_epidemia.core import folders

left = int(sys.argv[2])

def hook(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
with folders.rewritten(Path(sys.argv[1]), "marker") as new:
    for name in sys.argv[3:]:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text("new")
"""


def test_killed_at_any_moment_nothing_is_lost_and_the_next_write_mends_it(tmp_path):
    """Killed before the first change of a folder, the second, ... until it comes through."""
    for moment in range(60):
        out = tmp_path / str(moment)
        put(out, OLD)
        fill(out, MINE)
        done = subprocess.run([sys.executable, "-c", KILLED, out, str(moment), *NEW], check=False)
        left = {name: text for name, text in tree(out).items() if folders.STAGING not in name}
        assert {name: left.pop(name) for name in MINE} == MINE
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        # Each page is the old or the new, whole, and finds what it needs.
        assert left["index"] in ("old", "new")
        assert left.items() <= OLD.items() | NEW.items()
        if left["index"] == "old":
            assert left.keys() >= OLD.keys()
        else:
            assert left.items() >= NEW.items()
        put(out, NEW)
        assert tree(out) == NEW | MINE
    assert left == NEW and moment > 10


def test_of_two_writers_of_a_folder_the_second_is_refused(tmp_path):
    """Whether the folder is new or there; they had one staging folder, which each emptied."""
    for out in (tmp_path / "new", tmp_path / "there"):
        if out.name == "there":
            put(out, OLD)
        with folders.rewritten(out, "marker") as new:
            (new / "page").write_text("new")
            with pytest.raises(EpidemiaError, match="another command is writing"):
                put(out, NEW)
            with pytest.raises(EpidemiaError, match="another command is writing"):
                folders.check_rewritable(out, "marker")
            with folders.rewritten(tmp_path / f"beside {out.name}", "marker"):
                pass
        assert tree(out)["page"] == "new"
        put(out, NEW)
        assert tree(out) == NEW


def test_killed_in_the_first_write(tmp_path):
    out = tmp_path / "out"
    for moment in range(20):
        done = subprocess.run([sys.executable, "-c", KILLED, out, str(moment), *NEW], check=False)
        # There is nothing or all of it.
        assert not out.exists() or tree(out) == NEW
        if done.returncode == 0:
            break
    assert tree(out) == NEW and moment > 3
    assert [*tmp_path.iterdir()] == [out]


# Both that use it.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, tasks in (("both", [COCAINE, ASKED]), ("one", [COCAINE])):
        recorded(folder / name, tasks)
    return {name: read([folder / name]) for name in ("both", "one")}


@pytest.fixture(scope="module")
def site(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "site"
    build_site(runs["both"], out)
    return out


def test_no_page_has_anything_left_to_be_filled_in(site):
    for page in [*site.glob("*.html"), *site.glob("data/*.js")]:
        text = page.read_text()
        assert not re.findall(r"\{[A-Za-z_]+\}|a given year", text), page.name
    surveys = (site / "surveys.html").read_text()
    assert "in the 2022-23 academic year" in surveys
    assert "arrested for (offense) in the United States in 2019 or 2024<" in surveys


def test_a_site_in_a_repository_of_the_users(runs, site, tmp_path):
    out = shutil.copytree(site, tmp_path / "site")
    assert (out / "data" / f"{ASKED}.js").is_file()
    fill(out, MINE)
    build_site(runs["one"], out)
    assert {name: text for name, text in tree(out).items() if name in MINE} == MINE
    assert not (out / "data" / f"{ASKED}.js").exists() and (out / "index.html").is_file()
    # A site of version 0.1.0, which has a marker and no list.
    (out / folders.MANIFEST).unlink()
    (out / MARKER).write_text("0.1.0\n")
    (out / "left-over.html").write_text("old")
    build_site(runs["one"], out)
    assert {name: text for name, text in tree(out).items() if name in MINE} == MINE
    assert (out / "left-over.html").exists() and (out / MARKER).read_text() == ""


def test_task_files_beside_files_of_the_users(tmp_path):
    out = tmp_path / "tasks"

    def write():
        done = CliRunner().invoke(app, ["tasks", "write", str(out)])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception

    write()
    mine = {".git/HEAD": "mine", "acs/notes.txt": "mine"}
    fill(out, mine)
    first = tree(out)
    written = {yamls.MARKER: "x", "nsduh/some_task.yaml": "y"}
    yamls.write(out, written, replace=True)
    assert tree(out) == written | mine
    write()
    assert tree(out) == first
    fill(tmp_path / "other", {"thesis.tex": "mine"})
    out = tmp_path / "other"
    with pytest.raises(EpidemiaError, match="holds other files"):
        write()
    out = tmp_path / "other" / "thesis.tex"
    with pytest.raises(EpidemiaError, match="is a file"):
        write()
