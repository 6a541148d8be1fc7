"""The structure of the package: who may import whom, what is generated, and what loads lazily."""

import ast
import re
import shutil
from pathlib import Path

import pytest
from conftest import REPOSITORY
from processes import python

import lm_eval_epidemia
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls

PACKAGE = Path(lm_eval_epidemia.__file__).parent


def drawn_rooms():
    """The rooms as CONTRIBUTING.md draws them, the one that stands on nothing first."""
    drawing = (REPOSITORY / "CONTRIBUTING.md").read_text().split("```")[1]
    return re.findall(r"^(\w+)/", drawing, re.MULTILINE)


ROOMS = drawn_rooms()


def files_of(room):
    return sorted((PACKAGE / room).rglob("*.py"))


def imported_by(path):
    """Full names of what a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_in(module, room):
    name = f"lm_eval_epidemia.{room}"
    return module == name or module.startswith(f"{name}.")


def test_the_drawing_shows_every_room():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert {*ROOMS} == folders
    benchmarks = [path.name for path in (PACKAGE / "benchmarks").iterdir() if path.is_dir()]
    drawing = (REPOSITORY / "CONTRIBUTING.md").read_text()
    assert all(f"{name}/" in drawing for name in benchmarks if not name.startswith("_"))


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_imports_from_a_room_below_it(room):
    below = ROOMS[ROOMS.index(room) + 1 :]
    for path in files_of(room):
        for module in imported_by(path):
            assert not any(is_in(module, lower) for lower in below), (path, module)
            # The front door is the package itself.
            assert module not in ("lm_eval_epidemia.__version__", "lm_eval_epidemia.task_manager")


def test_no_benchmark_imports_from_another():
    folders = [path for path in (PACKAGE / "benchmarks").iterdir() if path.is_dir()]
    for folder in folders:
        others = {f"benchmarks.{other.name}" for other in folders if other != folder}
        for path in folder.rglob("*.py"):
            for module in imported_by(path):
                assert not any(is_in(module, other) for other in others), (path, module)
                assert module != "lm_eval_epidemia.benchmarks.BENCHMARKS", path


@pytest.mark.parametrize(
    ("harness", "known_to"),
    # The command `run` sets up lm-eval's log.
    [("lm_eval", ("harness", "models", "cli")), ("inspect_ai", ("inspect_ai",))],
)
def test_a_harness_is_known_to_few_rooms(harness, known_to):
    for room in {*ROOMS} - {*known_to}:
        for path in files_of(room):
            assert harness not in {name.split(".")[0] for name in imported_by(path)}, path


#: Imports each module of its arguments in a process of its own, forked before any of ours was.
ALONE = """
import importlib, os, sys
import datasets, lightgbm, lm_eval.evaluator, networkx, pandas, scipy.stats, sklearn, torch, typer
for name in sys.argv[1:]:
    if os.fork() == 0:
        try:
            importlib.import_module(name)
            for full, module in list(sys.modules.items()):
                room, _, leaf = full.rpartition(".")
                ours = full.startswith("lm_eval_epidemia.")
                if ours and getattr(sys.modules[room], leaf) is not module:
                    print(full, "is hidden after", name)
        except Exception as error:
            print(name, repr(error))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


@pytest.mark.slow  # a process for each of 350 modules
def test_every_module_can_be_imported_first_and_no_name_hides_one():
    names = [
        ".".join(("lm_eval_epidemia", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "startup" and not path.name.startswith("__")
    ]
    lines = python(ALONE, *names).splitlines()
    assert [line for line in lines if "choice-vllm needs vLLM" not in line] == []


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
    """Version 3 of all: boosted truths that keep rare conditions. Since version 1 of them, written
    answers are read, stated ones too, and diabetes is worded in another way."""
    cocaine, diabetes = (
        store.load_truth(f"epidemia_low_{task}")
        for task in ("nsduh_cocaine_ever_by_age", "brfss_diabetes_by_state")
    )
    revisions = [WAYS[way].revision for way in OBSERVATION.ways]
    for truth, base in ((cocaine, 3), (diabetes, 4)):
        versions = [OBSERVATION.version(truth) + revision for revision in revisions]
        assert versions == [base, base, *[base + 1] * 4]


def test_processes_that_start_together_do_not_disturb_each_other(home, monkeypatch):
    """Both find no folder and write; the second finds the first's and leaves it alone."""
    (home / "task_yamls").unlink()  # with the task files of other tests
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
    registry = (paths.shipped_groundtruth() / "registry.json").read_text()
    assert '"file": "nsduh_2022.parquet"' in registry
    assert "/home" not in registry and "/root" not in registry and "/tmp" not in registry


HEAVY = "torch lightgbm transformers datasets pandas sklearn lm_eval inspect_ai"


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
    assert python(code + check).splitlines()[-1] == "HEAVY []"
