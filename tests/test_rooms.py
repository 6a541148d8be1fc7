"""The structure of the package: who may import whom, what is generated, and what loads lazily."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

import lm_eval_epidemia
from lm_eval_epidemia import paths
from lm_eval_epidemia.benchmarks import OBSERVATION
from lm_eval_epidemia.elicit.ways import WAYS
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls

PACKAGE = Path(lm_eval_epidemia.__file__).parent
#: Data flow downwards; a room imports from the rooms above it. `benchmarks` is one file.
ROOMS = ["surveys", "graphs", "estimate", "quantities", "elicit", "finetune", "score",
         "fresh", "benchmarks", "harness", "report"]  # fmt: skip


def files_of(room):
    alone = PACKAGE / f"{room}.py"
    return [alone] if alone.is_file() else sorted((PACKAGE / room).rglob("*.py"))


def imported_by(path):
    """Full names of what a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_from_a_room_below_it(room):
    below = ROOMS[ROOMS.index(room) + 1 :]
    for path in files_of(room):
        for module in imported_by(path):
            for lower in (*below, "api", "cli"):
                name = f"lm_eval_epidemia.{lower}"
                assert module != name and not module.startswith(f"{name}."), (path, module)


def test_the_report_needs_results_and_no_harness():
    for path in files_of("report"):
        assert not any("lm_eval_epidemia.harness" in one for one in imported_by(path)), path


def test_only_the_harness_knows_lm_eval():
    for room in (
        "surveys",
        "graphs",
        "estimate",
        "elicit",
        "finetune",
        "score",
        "fresh",
        "benchmarks",
        "report",
    ):
        for path in files_of(room):
            assert not any(one.split(".")[0] == "lm_eval" for one in imported_by(path)), path


def test_task_yamls_are_what_the_records_generate():
    files = yamls.render()
    folder = REPOSITORY / "task_yamls"
    found = {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".yaml", ""}
    }
    assert found == files, "run: epidemia tasks write task_yamls"


def test_versions_are_of_the_wording_and_of_the_reading():
    """Version 2 of all: boosted truths without fold luck. Since version 1 of them, written answers
    are read, stated ones too, and diabetes is worded in another way."""
    cocaine, diabetes = (
        store.load(f"epidemia_low_{task}")
        for task in ("nsduh_cocaine_ever_by_age", "brfss_diabetes_by_state")
    )
    revisions = [WAYS[way].revision for way in OBSERVATION.ways]
    assert [OBSERVATION.version(cocaine) + revision for revision in revisions] == [2, 2, 3, 3, 3, 3]
    assert [OBSERVATION.version(diabetes) + revision for revision in revisions] == [
        3,
        3,
        4,
        4,
        4,
        4,
    ]


def test_shared_bases_are_not_indexed_and_groups_hold_only_available_tasks():
    files = yamls.render()
    assert "_epidemia" in files
    low = files["nsduh/epidemia_low_nsduh.yaml"]
    assert "heroin_ever_by_age" in low
    assert "past_month" not in low
    assert "extra" not in files["epidemia_low.yaml"]


def test_processes_that_start_together_do_not_disturb_each_other(home, monkeypatch):
    """Both find no folder and write; the second finds the first's and leaves it alone."""
    shutil.copytree(paths.shipped_groundtruth(), store.built_groundtruth())
    render, folders = yamls.render, []

    def overtaken(**arguments):
        if not folders:
            folders.append(None)
            folders.append(yamls.task_path())  # the other process, in the middle of ours
        return render(**arguments)

    monkeypatch.setattr(yamls, "render", overtaken)
    ours = yamls.task_path()
    assert ours == folders[1]
    assert (ours / "epidemia_low.yaml").is_file()
    assert [path.name for path in (home / "task_yamls").iterdir()] == [ours.name]


def test_ground_truth_holds_no_records_and_no_paths():
    for path in paths.shipped_groundtruth().iterdir():
        assert path.stat().st_size < 4_000_000
    assert sum(path.stat().st_size for path in paths.shipped_groundtruth().iterdir()) < 15_000_000
    registry = (paths.shipped_groundtruth() / store.REGISTRY).read_text()
    assert '"file": "nsduh_2022.parquet"' in registry
    assert "/home" not in registry and "/root" not in registry and "/tmp" not in registry


HEAVY = "torch lightgbm transformers datasets pandas sklearn lm_eval"


@pytest.mark.parametrize(
    "code",
    [
        "import lm_eval_epidemia",
        "import sys; sys.argv = ['epidemia', '--help']\n"
        "from lm_eval_epidemia.cli import main\n"
        "try: main()\nexcept SystemExit: pass",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    check = f"\nimport sys; print('HEAVY', [m for m in '{HEAVY}'.split() if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + check], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"
