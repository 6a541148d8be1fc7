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
#: Data flow downwards; a room imports from the rooms above it.
ROOMS = ["surveys", "estimate", "elicit", "score", "harness", "report"]


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_from_a_room_below_it(room):
    below = ROOMS[ROOMS.index(room) + 1 :]
    for path in (PACKAGE / room).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = []
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                for lower in below:
                    assert not module.startswith(f"lm_eval_epidemia.{lower}"), (path, module)


def test_score_and_estimate_know_nothing_of_lm_eval():
    for room in ("surveys", "estimate", "elicit", "score", "report"):
        for path in (PACKAGE / room).glob("*.py"):
            tree = ast.parse(path.read_text())
            imported = {
                name
                for node in ast.walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom))
                for name in [getattr(node, "module", None), *[a.name for a in node.names]]
                if name
            }
            assert not any(n == "lm_eval" or n.startswith("lm_eval.") for n in imported), path


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
    """Since version 1, written answers are read and diabetes is worded in another way."""
    cocaine, diabetes = (
        store.load(f"epidemia_low_{task}")
        for task in ("nsduh_cocaine_ever_by_age", "brfss_diabetes_by_state")
    )
    assert [OBSERVATION.version(cocaine) + way.revision for way in WAYS.values()] == [1, 1, 2, 2, 2]
    assert [OBSERVATION.version(diabetes) + way.revision for way in WAYS.values()] == [
        2,
        2,
        3,
        3,
        3,
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
        assert path.stat().st_size < 3_000_000
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
