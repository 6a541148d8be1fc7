"""The start-up hook, entry points, and `epidemia run`, each in an interpreter of its own."""

import json
import os
import runpy
import shutil
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from conftest import in_a_process
from lm_evals import STARTUP, environment

from lm_eval_epidemia.core import paths

#: Indexes tasks in several ways; lm-eval's own are one, so that a test takes seconds.
INDEX = """
import json, os, sys, lm_eval.tasks.manager as manager
manager.__file__ = {defaults!r} + "/manager.py"
from lm_eval.tasks import TaskManager
for arguments in {cases!r}:
    print("CASE", file=sys.stderr)
    index = eval(f"TaskManager({{arguments}})").task_index
    print(json.dumps({{name: str(e.yaml_path) for name, e in index.items() if e.yaml_path}}))
"""


def python(code, *flags, **variables):
    done = in_a_process(*flags, "-c", code, env={**environment(), **variables})
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Tasks of lm-eval's own, and of a user who replaces one of ours."""
    folder = tmp_path_factory.mktemp("folders")
    for name, text in {
        "defaults/builtin": "task: builtin\n",
        "theirs/mine": "task: mine\n",
        "theirs/low": "group: epidemia_low\ntask: [mine]\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(text)
    return folder


def indexes(folders, *cases, before="", **variables):
    """Index tasks with each case's arguments; return what is found, and what was said."""
    code = INDEX.format(defaults=str(folders / "defaults"), cases=cases)
    done = python(before + code, **variables)
    said = done.stderr.split("CASE\n")[1:]
    return list(zip(map(json.loads, done.stdout.splitlines()), said, strict=True))


def test_tasks_are_found_without_a_flag_and_a_users_own_win(folders, home):
    ours, theirs = paths.shipped_task_yamls(), folders / "theirs"
    paths_of = (str(theirs), [str(theirs)], str(ours))
    (plain, others, variant, alone, *given) = indexes(
        folders,
        "",
        "metadata={'n_samples': 100000, 'max_seq_lengths': [4096]}",
        "metadata={'gen_prefix': 'I say'}",
        "include_defaults=False",
        *(f"include_path={path!r}" for path in paths_of),
    )
    assert {"builtin", "epidemia_low", "epidemia_high", "epidemia_extra"} <= set(plain[0])
    # Metadata that is meant for other tasks leaves ours where they are.
    assert all(index["epidemia_low"].startswith(str(ours)) for index, _ in (plain, others))
    base = Path(variant[0]["epidemia_low"]).parent / "_epidemia"
    assert base.is_relative_to(home / "task_yamls")
    assert 'gen_prefix: "I say"' in base.read_text()
    assert alone[0] == {}
    for index, _ in given[:2]:
        assert {"builtin", "mine", "epidemia_high"} <= set(index)
        assert index["epidemia_low"] == str(theirs / "low.yaml")
    named, said = given[2]
    assert {"epidemia_low", "builtin"} <= set(named) and "overrides" not in said


def test_an_index_with_the_hook_off_has_none_of_ours(folders):
    ((index, _),) = indexes(folders, "", EPIDEMIA_AUTOLOAD="0")
    assert set(index) == {"builtin"}


def test_the_hook_can_be_switched_off(monkeypatch):
    code = "import sys; print([type(finder).__module__ for finder in sys.meta_path])"
    for value, is_on in (("off", False), ("yes", True)):
        shown = python(code, EPIDEMIA_AUTOLOAD=value).stdout
        assert ("lm_eval_epidemia_startup" in shown) == is_on
    for value in ("0", "false", "False", "NO", " off ", "", "1", "true"):
        monkeypatch.setenv("EPIDEMIA_AUTOLOAD", value)
        monkeypatch.setattr(sys, "meta_path", [])
        runpy.run_path(str(STARTUP / "lm_eval_epidemia_startup.py"))
        assert len(sys.meta_path) == (value in ("1", "true")), value


def test_damaged_ground_truth_does_not_stop_other_tasks(folders, home):
    (home / "groundtruth").mkdir(parents=True)
    (home / "groundtruth" / "registry.json").write_text("{")
    ((index, said),) = indexes(folders, "")
    assert set(index) == {"builtin"}
    assert "registry.json is damaged" in said


#: A model of ours, a watched module as any other, and what lm-eval asks a model, guarded.
HOOKED = """
import inspect, lm_eval, lm_eval.evaluator, lm_eval.models, lm_eval.tasks.manager as m
from lm_eval.api.registry import model_registry
print("epidemia-baseline" in model_registry)
print(lm_eval.evaluate is lm_eval.evaluator.evaluate)
print(hasattr(lm_eval.evaluator.evaluate, "_epidemia"))
print(vars(m.__loader__) == vars(type(m.__loader__)(m.__name__, m.__file__)))
print(inspect.getsource(m)[:4])
"""


def test_what_the_hook_does_to_lm_eval():
    assert python(HOOKED).stdout.split() == ["True"] * 4 + ["from"]
    off = python(HOOKED, EPIDEMIA_AUTOLOAD="0").stdout.split()
    assert off == ["False", "True", "False", "True", "from"]


def test_a_model_that_lm_eval_found_itself_is_left_alone():
    """As after lm-eval has read its entry points (pull request #4013)."""
    code = (
        "from importlib.metadata import entry_points\n"
        "from lm_eval.api.registry import model_registry as models\n"
        "(ours,) = entry_points(group='lm_eval.models', name='choice-hf')\n"
        "models.register('choice-hf', target=ours)\n"
        "import lm_eval.models\n"
        "print(models._objs['choice-hf'] is ours, 'epidemia-baseline' in models, 'hf' in models)"
    )
    assert python(code).stdout.split() == ["True", "True", "True"]


def test_the_hook_never_raises(tmp_path):
    """With our package gone or broken, lm-eval still imports, and one line says what happened."""
    site = tmp_path / "site"
    (site / "lm_eval_epidemia").mkdir(parents=True)
    (site / "lm_eval_epidemia" / "__init__.py").write_text("raise RuntimeError('broken')")
    shutil.copy(STARTUP / "lm_eval_epidemia_startup.py", site)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "import lm_eval_epidemia_startup, lm_eval.tasks.manager as m; print(m.TaskManager)"
    )
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = in_a_process("-S", "-c", "import site; site.addsitedir = None\n" + code, env=own)
    assert done.returncode == 0, done.stderr
    assert "TaskManager" in done.stdout
    assert done.stderr.count("could not announce itself") == 1
    assert "EPIDEMIA_AUTOLOAD=0" in done.stderr


def test_the_hook_imports_nothing_of_ours_until_lm_eval_is_imported():
    done = python("import sys, json; print([m for m in sys.modules if 'epidemia' in m])")
    assert done.stdout.strip() == "['lm_eval_epidemia_startup']"


def test_an_isolated_interpreter_has_the_hook_and_one_without_site_has_not():
    """Their own start-up module is the installed one."""
    code = "import sys; print('lm_eval_epidemia_startup' in sys.modules)"
    assert python(code, "-I").stdout.split() == ["True"]
    assert python(code, "-S").stdout.split() == ["False"]


def test_a_second_start_up_module_adds_nothing(folders, tmp_path):
    """For example of an older version in another folder of packages."""
    shutil.copy(STARTUP / "lm_eval_epidemia_startup.py", tmp_path / "older_startup.py")
    before = f"import sys; sys.path.append({str(tmp_path)!r}); import older_startup\n"
    ((index, said),) = indexes(folders, "", before=before)
    files = [path for name, path in index.items() if name.startswith("epidemia_")]
    assert len(index) == len(files) + 1 and len(files) == len(set(files)) > 500
    assert said == ""


def test_entry_points_are_declared_for_coming_versions():
    (models,) = [e for e in entry_points(group="lm_eval.models") if "epidemia" in e.name]
    assert models.load().__name__ == "Baseline"
    (tasks,) = [e for e in entry_points(group="lm_eval.tasks") if "epidemia" in e.name]
    assert tasks.value == "lm_eval_epidemia.task_yamls"


@pytest.mark.parametrize("program", ["lm_eval", pytest.param("-m lm_eval", marks=pytest.mark.slow)])
def test_our_errors_end_lm_evals_command_in_a_line(program, tmp_path):
    here = Path(sys.executable).parent / "lm_eval"
    start = [str(here)] if program == "lm_eval" else [sys.executable, "-m", "lm_eval"]
    line = "run --model epidemia-baseline --model_args kind=mien --tasks epidemia_quick"
    done = in_a_process(*line.split(), start=start, env=environment(), cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last == "error: epidemia-baseline has no kind='mien' (nearest: mean)"
