"""What the wheel carries, and what an editable install leaves behind."""

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions

import pytest
import yaml
from conftest import REPOSITORY
from processes import python

import lm_eval_epidemia
from lm_eval_epidemia.core import extras

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

pytest.importorskip("hatchling")


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def top_of(wheel):
    """What a wheel puts into site-packages, beside what it says of itself."""
    top = {name.split("/")[0] for name in names_in(wheel)}
    return {name for name in top if not name.endswith(".dist-info")}


#: Tables that hold no one's record.
AGGREGATES = (
    ".cells.parquet",
    ".bootstrap.parquet",
    ".replicates.parquet",
    ".draws.parquet",
    "/published_answers.parquet",
)
STARTUP = {"lm_eval_epidemia_startup.pth", "lm_eval_epidemia_startup.py"}


def built(kind, folder, checkout=REPOSITORY):
    """Build what the backend makes of a checkout into a folder of its own; return the file."""
    code = f"import hatchling.build as b; print(b.build_{kind}({str(folder / kind)!r}))"
    (folder / kind).mkdir()
    return folder / kind / python(code, cwd=checkout).split()[-1]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """A wheel and an editable wheel, built by the backend without fetching anything."""
    folder = tmp_path_factory.mktemp("wheels")
    return built("wheel", folder), built("editable", folder)


def test_the_wheel_carries_its_data_inside_the_package(wheels):
    names = names_in(wheels[0])
    assert "lm_eval_epidemia/task_yamls/epidemia_low.yaml" in names
    assert "lm_eval_epidemia/task_yamls/_epidemia" in names
    assert "lm_eval_epidemia/groundtruth/registry.json" in names
    assert "lm_eval_epidemia/surveys/nsduh.yaml" in names
    assert top_of(wheels[0]) == {"lm_eval_epidemia", *STARTUP} and names >= STARTUP


def test_the_wheel_is_small_and_holds_no_microdata(wheels):
    # Aggregates of eleven surveys with 100 replicates (which hardly pack) and 591 task files.
    assert wheels[0].stat().st_size < 17_000_000
    parquet = [name for name in names_in(wheels[0]) if name.endswith(".parquet")]
    assert all(name.endswith(AGGREGATES) for name in parquet)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The sdist, unpacked, as the backend builds it."""
    folder = tmp_path_factory.mktemp("sdist")
    packed = built("sdist", folder)
    shutil.unpack_archive(packed, folder)
    return packed, folder / packed.name.removesuffix(".tar.gz")


@pytest.mark.slow
def test_the_sdist_holds_the_checkout_and_nothing_that_lies_beside_it(sdist):
    packed, folder = sdist
    tops = {path.name for path in folder.iterdir()}
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    if any(tracked):  # CI tests a copy without .git
        assert tops == {name.split("/")[0] for name in tracked if name} | {"PKG-INFO"}
    assert {".ci", "docs", "groundtruth", "task_yamls", "tests"} <= tops
    assert tops.isdisjoint({".git", ".venv", "shared", "dist", "epidemia-demo"})
    assert packed.stat().st_size < 20_000_000
    # Tables of records would be microdata; a SAS file of flowers tests the reader.
    raw = (".sav", ".dta", ".sas7bdat", ".xpt", ".zip", ".xlsx", ".csv", ".parquet")
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in raw}
    aggregates = {name for name in left if name.startswith("groundtruth/")}
    assert all(name.endswith(AGGREGATES) for name in aggregates if name.endswith("parquet"))
    others = left - aggregates
    assert {name for name in others if not name.endswith(".csv")} == {
        "tests/data/iris.sas7bdat.zip"
    }
    places = ("docs/results/", "lm_eval_epidemia/", "tests/data/")
    assert all(name.startswith(places) for name in others)


@pytest.mark.slow
def test_a_wheel_of_the_sdist_is_that_of_the_checkout(sdist, wheels, tmp_path):
    assert built("wheel", tmp_path, sdist[1]).read_bytes() == wheels[0].read_bytes()


def test_an_editable_install_leaves_no_half_package(wheels):
    assert top_of(wheels[1]) == {"_lm_eval_epidemia.pth", *STARTUP}


#: Which modules may import what an extra installs, beside the base install.
TAKES = yaml.safe_load((REPOSITORY / "tests" / "data" / "takes.yaml").read_text())

#: What others import for us: pandas for its files, transformers and joblib's users for their work.
UNSEEN = {"accelerate", "openpyxl", "scikit-learn", "xlrd", "lm-eval"}


def declared():
    """Return the distributions that pyproject.toml names, by extra; "" for the base install."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    found = {
        extra: {re.match(r"[\w.-]+", given)[0].lower() for given in listed}
        for extra, listed in extras.items()
    }
    for extra, listed in extras.items():  # those that take others in
        for given in listed:
            if others := re.match(rf"{project['name']}\[(.*)\]", given):
                found[extra].discard(project["name"])
                found[extra].update(*(found[other] for other in others[1].split(",")))
    return found


def imported():
    """Return the distributions that each module imports, wherever in it, and those it needs."""
    owners = packages_distributions()
    for path in sorted((REPOSITORY / "lm_eval_epidemia").rglob("*.py")):
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
        others = found - set(sys.stdlib_module_names) - {"lm_eval_epidemia"}
        names = {owners.get(name, [name])[0].lower().replace("_", "-") for name in others}
        yield path.relative_to(REPOSITORY / "lm_eval_epidemia").as_posix(), names


def test_what_is_imported_is_declared_by_extra():
    extras = declared()
    assert set(TAKES) == set(extras) - {"", "dev", "docs"}
    for module, names in imported():
        allowed = extras[""].union(
            *(extras[extra] for extra, modules in TAKES.items() if module in modules)
        )
        assert names <= allowed, f"{module} imports {names - allowed}, which are not declared"


def test_what_is_declared_is_imported():
    used = set().union(*(names for _, names in imported()))
    for extra, names in declared().items():
        if extra not in ("dev", "docs"):
            assert not (idle := names - used - UNSEEN), f"{extra or 'base'} declares {idle}"


# Extras: how to get what is missing.


def test_an_extra_is_installed_from_where_the_package_is(tmp_path, monkeypatch):
    name = f"lm_eval_epidemia-{lm_eval_epidemia.__version__}-py3-none-any.whl"
    either = (
        f"pip install '.[hf]' in a checkout, or from the wheel: pip install 'PATH/TO/{name}[hf]'"
    )
    package = tmp_path / "a place" / "lm_eval_epidemia" / "core" / "extras.py"
    monkeypatch.setattr(extras, "__file__", str(package))
    assert extras.install("hf") == either
    package.parent.mkdir(parents=True)
    (tmp_path / "a place" / "pyproject.toml").touch()
    assert extras.install("hf") == f"pip install -e '{tmp_path / 'a place'}[hf]'"


def test_no_page_or_message_names_an_index_that_does_not_have_the_package():
    folders = (REPOSITORY / name for name in ("lm_eval_epidemia", "docs", "benchmarks"))
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")
    ]
    files += [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", ".ci/run")]
    assert not [path for path in files if "install 'lm-eval-epidemia" in path.read_text()]


def test_an_adapter_needs_no_other_extra_than_its_model():
    assert "peft" in declared()["hf"]
