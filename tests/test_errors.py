"""What slips are told: each row of `data/errors.yaml` is a command or Python, and its message."""

import logging
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, people_2022

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.store import look_at_disk

ERRORS = yaml.safe_load((REPOSITORY / "tests" / "data" / "errors.yaml").read_text())


def rows(kind):
    """Each slip of a kind: what it is about, what is typed, what is said."""
    return [
        pytest.param(of, line, says, id=f"{of.removeprefix('lm_eval_epidemia.')}: {line}"[:100])
        for of, slips in ERRORS[kind].items()
        for line, says in slips.items()
        if line != "let"
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that rows speak of, and invented people of NSDUH 2022."""
    folder = tmp_path_factory.mktemp("desk")
    for name, text in ERRORS["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    people_2022().to_parquet(folder / "nsduh_2022.parquet")
    record = (REPOSITORY / "tests" / "data" / "toy_fresh.yaml").read_text()
    (folder / "toy.yaml").write_text(record.split("---\n")[0])
    return folder


@pytest.fixture(autouse=True)
def desk(folder, monkeypatch):
    """Work there; nothing is left behind but what an expression writes to be read."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EPIDEMIA_RECORDS", str(folder / "toy.yaml"))
    look_at_disk()
    # lm-eval logs to the stderr that it found first, which was another test's.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    before = {*folder.rglob("*")}
    yield
    for path in sorted({*folder.rglob("*")} - before, reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize(("_", "line", "says"), rows("commands"))
def test_a_command_refuses_in_one_line_without_a_traceback(_, line, says, epidemia):
    before = {*Path().rglob("*")}
    done = epidemia(*line.split())
    assert done.returncode == 2, done.stdout
    assert {*Path().rglob("*")} == before  # it leaves nothing behind
    *logged, said = done.stderr.splitlines()
    assert said.startswith("error: ") and says in said and "Traceback" not in done.stderr
    assert not logged or line.startswith("run ")


@cache
def names_in(module):
    """The names of a module, of `imports` and of the module's `let`."""
    names = {**vars(import_module(module)), "Path": Path}
    names |= {name: import_module(of) for name, of in ERRORS["imports"].items()}
    for name, expression in ERRORS["python"][module].get("let", {}).items():
        names[name] = eval(expression, names)
    return names


@pytest.mark.parametrize(("module", "line", "says"), rows("python"))
def test_python_refuses_in_one_line(module, line, says):
    with pytest.raises(Exception) as raised:
        eval(line, names_in(module))
    error = raised.value
    kind = "" if isinstance(error, EpidemiaError) else f"{type(error).__name__}: "
    assert says in f"{kind}{error}" and "\n" not in str(error)
