"""What the wheel carries, and what an editable install leaves behind."""

import subprocess
import sys
import zipfile

import pytest
from conftest import REPOSITORY

pytest.importorskip("hatchling")


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A wheel and an editable wheel, built by the backend without fetching anything."""
    folder = tmp_path_factory.mktemp("wheels")
    code = (
        "import sys, hatchling.build as b\n"
        f"print(b.build_wheel({str(folder)!r}))\n"
        f"print(b.build_editable({str(folder / 'editable')!r}))"
    )
    (folder / "editable").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    plain, editable = done.stdout.split()[-2:]
    return folder / plain, folder / "editable" / editable


def test_the_wheel_carries_its_data_inside_the_package(wheels):
    names = names_in(wheels[0])
    assert "lm_eval_epidemia/task_yamls/epidemia_low.yaml" in names
    assert "lm_eval_epidemia/task_yamls/_epidemia" in names
    assert "lm_eval_epidemia/groundtruth/registry.json" in names
    assert "lm_eval_epidemia/surveys/nsduh.yaml" in names
    assert {"lm_eval_epidemia_startup.pth", "lm_eval_epidemia_startup.py"} <= names
    top = {name.split("/")[0] for name in names}
    assert {t for t in top if not t.endswith(".dist-info")} == {
        "lm_eval_epidemia",
        "lm_eval_epidemia_startup.pth",
        "lm_eval_epidemia_startup.py",
    }


def test_the_wheel_is_small_and_holds_no_microdata(wheels):
    # Aggregates of eleven surveys and 360 task files: two megabytes, packed.
    assert wheels[0].stat().st_size < 4_000_000
    parquet = [name for name in names_in(wheels[0]) if name.endswith(".parquet")]
    assert all(name.endswith((".cells.parquet", ".bootstrap.parquet")) for name in parquet)


def test_an_editable_install_leaves_no_half_package(wheels):
    top = {name.split("/")[0] for name in names_in(wheels[1])}
    assert {t for t in top if not t.endswith(".dist-info")} == {
        "_lm_eval_epidemia.pth",
        "lm_eval_epidemia_startup.pth",
        "lm_eval_epidemia_startup.py",
    }
