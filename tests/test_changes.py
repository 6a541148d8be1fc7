"""What another build of the ground truth changes."""

import json

import pytest
from truths import HEROIN, enter
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.observation.changes import changes
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import registry, store


def test_two_folders_are_compared_task_by_task(tmp_path):
    """Everybody says yes with 0.25, then 0.5: the distance is 2 x 0.25 in every cell.

    Respondents that know P(Y) know all there is, and score 100 in both.
    """
    enter(0.25, folder=tmp_path / "old")
    enter(0.5, folder=tmp_path / "new")
    (found,) = changes(tmp_path / "old", tmp_path / "new")
    assert (found.task, found.vintage, found.cells) == (HEROIN, "nsduh 2023", 11)
    assert found.distance == pytest.approx(0.5)
    assert (found.anchors.score_of_mean, found.new_anchors.score_of_mean) == (100, 100)
    truths = {name: store.load_folder(tmp_path / name) for name in ("old", "new")}
    perfect = [of["nsduh_2023", HEROIN].d_perfect() for of in truths.values()]
    assert [found.anchors.perfect, found.new_anchors.perfect] == perfect
    assert not found.same
    (same,) = changes(tmp_path / "new", tmp_path / "new")
    assert same.same


def test_the_command_lists_what_changed_and_counts_the_rest(tmp_path):
    enter(0.25, folder=tmp_path / "old")
    enter(0.5, folder=tmp_path / "new")
    said = CliRunner().invoke(app, ["groundtruth", "changes", *map(str, tmp_path.iterdir())])
    assert said.exit_code == 0, said.output
    assert HEROIN in said.output and "0.5000" in said.output
    assert "0 of 1 truths are unchanged" in said.output
    shipped = str(paths.shipped_groundtruth())
    said = CliRunner().invoke(app, ["groundtruth", "changes", shipped])
    folders = store.folders(paths.shipped_groundtruth())
    truths = [one for folder in folders for one in registry.read_registry(folder).values()]
    number = sum(len(one["tasks"]) for one in truths)
    assert f"{number} of {number} truths are unchanged" in said.output


def test_folders_that_cannot_be_compared_are_refused(tmp_path):
    enter(0.25, folder=tmp_path / "old")
    with pytest.raises(EpidemiaError, match=r"contains no registry.json: give a folder that"):
        changes(tmp_path, tmp_path / "old")
    enter(0.25, key="nsduh_2022", folder=tmp_path / "other")
    with pytest.raises(EpidemiaError, match="no task of the same vintage in common"):
        changes(tmp_path / "old", tmp_path / "other")


def test_check_says_which_truths_have_no_replicates(home):
    enter(0.25)
    path = store.built_groundtruth() / store.REGISTRY
    said = json.loads(path.read_text())
    truth = said["truths"].pop("nsduh_2023")
    truth["vintage"] = "2022"
    del truth["files"]["replicates"]
    for entry in truth["tasks"].values():
        del entry["replicates"], entry["sha256"]
    path.write_text(json.dumps({"schema": 2, "truths": {"nsduh_2022": truth}}))
    found = CliRunner().invoke(app, ["groundtruth", "check"])
    assert "have no joint replicates, so their errors are N/A: nsduh_2022" in found.output
