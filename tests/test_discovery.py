"""The start-up hook, entry points, and `epidemia run`, each in an interpreter of its own."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from lm_evals import STARTUP, environment

from lm_eval_epidemia.core import paths

#: Makes the index of lm-eval's own tasks small, so that a test takes seconds: a folder with one.
INDEX = """
import json, sys, pathlib, lm_eval.tasks.manager as manager
manager.__file__ = {defaults!r} + "/manager.py"
from lm_eval.tasks import TaskManager
tm = TaskManager({arguments})
print(json.dumps({{name: str(e.yaml_path) for name, e in tm.task_index.items() if e.yaml_path}}))
"""


def python(code, *flags, **variables):
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        env={**environment(), **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def index(tmp_path):
    defaults = tmp_path / "defaults"
    defaults.mkdir()
    (defaults / "builtin.yaml").write_text("task: builtin\n")

    def run(arguments="", **variables):
        done = python(INDEX.format(defaults=str(defaults), arguments=arguments), **variables)
        run.said = done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_tasks_are_found_without_a_flag(index):
    found = index()
    assert "builtin" in found
    assert {"epidemia_low", "epidemia_high", "epidemia_extra"} <= set(found)
    assert found["epidemia_low"].startswith(str(paths.shipped_task_yamls()))


@pytest.mark.parametrize("off", ["0", "false", "False", "NO", " off ", ""])
def test_the_hook_can_be_switched_off(off):
    code = "import sys; print([type(f).__module__ for f in sys.meta_path])"
    assert "lm_eval_epidemia_startup" not in python(code, EPIDEMIA_AUTOLOAD=off).stdout
    for on in ("1", "true", "yes"):
        assert "lm_eval_epidemia_startup" in python(code, EPIDEMIA_AUTOLOAD=on).stdout


def test_an_index_with_the_hook_off_has_none_of_ours(index):
    assert set(index(EPIDEMIA_AUTOLOAD="0")) == {"builtin"}


def test_an_index_without_defaults_is_left_alone(index, tmp_path):
    assert index("include_defaults=False") == {}


def test_a_users_include_path_keeps_working_and_wins(index, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "mine.yaml").write_text("task: mine\n")
    (theirs / "low.yaml").write_text("group: epidemia_low\ntask: [mine]\n")
    for given in (str(theirs), [str(theirs)]):
        found = index(f"include_path={given!r}")
        assert {"builtin", "mine", "epidemia_high"} <= set(found)
        assert found["epidemia_low"] == str(theirs / "low.yaml")


def test_naming_our_own_folder_too_gives_no_warnings(index, tmp_path):
    found = index(f"include_path={str(paths.shipped_task_yamls())!r}")
    assert "epidemia_low" in found and "builtin" in found
    assert "overrides" not in index.said


def test_damaged_ground_truth_does_not_stop_other_tasks(index, home):
    (home / "groundtruth").mkdir(parents=True)
    (home / "groundtruth" / "registry.json").write_text("{")
    assert set(index()) == {"builtin"}
    assert "registry.json is damaged" in index.said


def test_the_model_is_registered():
    code = (
        "import lm_eval.models\n"
        "from lm_eval.api.registry import get_model\n"
        "print(get_model('epidemia-baseline').__name__)"
    )
    assert python(code).stdout.strip() == "Baseline"
    without = "import lm_eval.models\nfrom lm_eval.api.registry import model_registry as r\n"
    done = python(without + "print('epidemia-baseline' in r)", EPIDEMIA_AUTOLOAD="0")
    assert done.stdout.strip() == "False"


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
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import site; site.addsitedir = None\n" + code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TaskManager" in done.stdout
    assert done.stderr.count("could not announce itself") == 1
    assert "EPIDEMIA_AUTOLOAD=0" in done.stderr


def test_the_hook_imports_nothing_of_ours_until_lm_eval_is_imported():
    done = python("import sys, json; print([m for m in sys.modules if 'epidemia' in m])")
    assert done.stdout.strip() == "['lm_eval_epidemia_startup']"


def test_a_watched_module_looks_as_any_other():
    code = (
        "import lm_eval.models, lm_eval.tasks.manager as m, lm_eval.evaluator, inspect\n"
        "print(vars(m.__loader__) == vars(type(m.__loader__)(m.__name__, m.__file__)))\n"
        "print(inspect.getsource(m)[:4])"
    )
    assert python(code).stdout.split() == ["True", "from"]


def test_an_isolated_interpreter_has_the_hook_and_one_without_site_has_not():
    """Their own start-up module is the installed one."""
    code = "import sys; print('lm_eval_epidemia_startup' in sys.modules)"
    assert python(code, "-I").stdout.split() == ["True"]
    assert python(code, "-S").stdout.split() == ["False"]


def test_a_second_start_up_module_adds_nothing(index, tmp_path):
    """For example of an older version in another folder of packages."""
    other = tmp_path / "site"
    other.mkdir()
    shutil.copy(STARTUP / "lm_eval_epidemia_startup.py", other / "older_startup.py")
    code = INDEX.format(defaults=str(tmp_path / "defaults"), arguments="")
    found = python(f"import sys; sys.path.append({str(other)!r}); import older_startup\n{code}")
    assert json.loads(found.stdout.splitlines()[-1]) == index()
    assert found.stderr == ""


def test_entry_points_are_declared_for_coming_versions():
    (models,) = [e for e in entry_points(group="lm_eval.models") if "epidemia" in e.name]
    assert models.load().__name__ == "Baseline"
    (tasks,) = [e for e in entry_points(group="lm_eval.tasks") if "epidemia" in e.name]
    assert tasks.value == "lm_eval_epidemia.task_yamls"


def test_metadata_meant_for_other_tasks_leaves_ours_where_they_are(index):
    found = index("metadata={'n_samples': 100000, 'max_seq_lengths': [4096]}")
    assert found["epidemia_low"].startswith(str(paths.shipped_task_yamls()))


def test_a_variant_of_the_task_files_has_a_folder_of_its_own(index, home):
    found = index("metadata={'gen_prefix': 'I say'}")
    assert found["epidemia_low"].startswith(str(home / "task_yamls"))
    base = Path(found["epidemia_low"]).parent / "_epidemia"
    assert 'gen_prefix: "I say"' in base.read_text()


def test_the_hook_guards_what_lm_eval_asks_a_model():
    code = (
        "import lm_eval, lm_eval.evaluator\n"
        "print(lm_eval.evaluate is lm_eval.evaluator.evaluate, "
        "hasattr(lm_eval.evaluator.evaluate, '_epidemia'))"
    )
    assert python(code).stdout.split() == ["True", "True"]
    assert python(code, EPIDEMIA_AUTOLOAD="0").stdout.split() == ["True", "False"]
