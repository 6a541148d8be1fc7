"""Other people's runs: with the hook as without it, whatever lm-eval or our files look like.

Every lm-eval of `lm_evals.KINDS` in a process of its own is slow; here its signature is tried, and
the installed one as a whole.
"""

import inspect
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY, SUMS, in_a_process
from lm_evals import KINDS, environment, lm_eval_of

from lm_eval_epidemia import benchmarks
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.core import notices, paths
from lm_eval_epidemia.harness import discovery, yamls

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
INSTALLED = "as installed"
#: What differs between two runs that are alike.
CLOCKS = {"date", "start_time", "end_time", "total_evaluation_time_seconds"}


def run(where, folder, *words, **variables):
    return in_a_process(*words, cwd=folder, env={**where, **variables})


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A task of somebody else that needs nothing from the network."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "rows.json").write_text(json.dumps(SUMS))
    (folder / "mine.yaml").write_text(
        f"task: mine\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: "
        f"{folder}/rows.json\ntest_split: test\noutput_type: multiple_choice\n"
        "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
        "metric_list:\n  - metric: acc\n  - metric: acc_norm\n"
    )
    return folder


@pytest.fixture(scope="module")
def lm_evals(tmp_path_factory):
    """The environment of an lm-eval of any kind; each is made once."""
    environments = {}

    def environment_of(kind):
        if kind not in environments:
            environments[kind] = lm_eval_of(kind, tmp_path_factory.mktemp("lm_eval"))
        return environments[kind]

    return environment_of


EVERY_KIND = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != INSTALLED)) for kind in KINDS]
)


def command_line(where, mine, out, **variables):
    """Run ``lm_eval run`` on somebody else's task; return what it wrote, and its stderr."""
    words = ["-m", "runner", "run", "--model", "steady", "--tasks", "mine", "--include_path", mine]
    done = run(where, out.parent, *words, "--output_path", out, "--log_samples", **variables)
    assert done.returncode == 0, done.stderr
    (results,), (samples,) = out.rglob("results_*.json"), out.rglob("samples_*.jsonl")
    same = {key: at for key, at in json.loads(results.read_text()).items() if key not in CLOCKS}
    return json.dumps(same), samples.read_bytes(), done.stderr


@pytest.fixture(scope="module")
def without_us(lm_evals, mine, tmp_path_factory):
    """Results and samples of the installed lm-eval with the hook off."""
    out = tmp_path_factory.mktemp("without") / "off"
    *written, said = command_line(lm_evals(INSTALLED), mine, out, EPIDEMIA_AUTOLOAD="0")
    assert "epidemia" not in said
    return written


@EVERY_KIND
def test_other_peoples_tasks_run_as_without_the_hook(kind, lm_evals, without_us, mine, tmp_path):
    *written, stderr = command_line(lm_evals(kind), mine, tmp_path / "on")
    assert written == without_us
    said = [line for line in stderr.splitlines() if "epidemia" in line]
    changed = {"renamed": "that we do not know", "one path only": "include_path: one folder"}
    assert len(said) == (kind in changed), said
    assert changed.get(kind, "") in "".join(said)


INDEX = """
import json
from lm_eval.tasks import TaskManager
tm = TaskManager({arguments})
print(json.dumps({{n: str(e.yaml_path) for n, e in tm.task_index.items()}}))
print(json.dumps(getattr(tm, "include_path", None)))
"""


def index_of(where, folder, arguments="", **variables):
    """Index tasks in another process; return the file of each, and the process."""
    done = run(where, folder, "-c", INDEX.format(arguments=arguments), **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[0]), done


@EVERY_KIND
def test_our_tasks_are_found_in_every_lm_eval_that_lets_us(kind, lm_evals, mine, tmp_path):
    needed = "2, " if kind == "extra keyword that is needed" else ""
    named = "task_dirs" if kind == "renamed" else "include_path"
    index, done = index_of(lm_evals(kind), tmp_path, f"{needed}{named}={str(mine)!r}")
    assert {"builtin", "mine"} <= set(index)
    assert ("epidemia_low" in index) == (kind not in ("renamed", "one path only"))
    # What the user gave, not what we made of it.
    shown = json.loads(done.stdout.splitlines()[1])
    assert shown == (None if kind in ("renamed", "extra keyword") else str(mine))
    assert "overrides" not in done.stderr


# The signature of a TaskManager, tried in this process.


class Asked:
    """What a `TaskManager` keeps of its arguments, and which paths it reads."""

    def __init__(self, verbosity=None, include_path=None, include_defaults=True, metadata=None):
        self.include_path, self.metadata, self.task_index = include_path, metadata, {}
        self.read = include_path


def extended(task_manager):
    """Extend a class of managers as the hook extends lm-eval's."""

    class TaskManager(task_manager):
        __init__ = task_manager.__init__

    discovery.extend_tasks(SimpleNamespace(TaskManager=TaskManager))
    return TaskManager


def test_the_arguments_of_a_manager_are_handed_on_with_ours_among_them():
    ours, extend = paths.shipped_task_yamls(), extended(Asked)
    assert extend().read == [ours] and extend().include_path is None
    for manager in (extend(include_path="mine"), extend(None, ["mine"], True, {"other": 1})):
        assert manager.read == [ours, "mine"] and manager.include_path in ("mine", ["mine"])
    assert extend("info", metadata={"orderings": 1}).metadata == {"orderings": 1}
    # Where ours are not asked for, or are there already.
    assert extend(None, "mine", False).read == "mine"
    assert extend(include_path=[str(ours), "mine"]).read == [str(ours), "mine"]
    (variant,) = extend(metadata={"gen_prefix": "I say"}).read
    assert 'gen_prefix: "I say"' in (variant / "_epidemia").read_text()
    for wrong in (Asked, extend):
        with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
            wrong(bogus=1)
    assert inspect.signature(extend) == inspect.signature(Asked)


def test_managers_of_other_lm_evals_get_ours_or_are_left_as_they_are(caplog):
    ours = paths.shipped_task_yamls()

    class Needs(Asked):
        def __init__(self, workers, *, include_path=None, include_defaults=True, strict=False):
            super().__init__(None, include_path)
            self.workers, self.strict = workers, strict

    class Renamed(Asked):
        def __init__(self, task_dirs=None, include_defaults=True):
            super().__init__(None, task_dirs)

    class OneOnly(Asked):
        def __init__(self, include_path=None, include_defaults=True):
            if isinstance(include_path, list):
                raise TypeError("include_path: one folder")
            super().__init__(None, include_path)

    class Scans(Asked):
        def __init__(self, include_path=None, include_defaults=True):
            super().__init__(None, include_path)
            self.task_index = {TASK: SimpleNamespace(yaml_path=ours / "nsduh" / f"{TASK}.yaml")}

    class ScansAsLater(Asked):  # as 0.5 keeps its index
        def __init__(self, include_path=None, include_defaults=True):
            super().__init__(None, include_path)
            del self.task_index
            self._task_index = {TASK: SimpleNamespace(yaml_path=ours / "nsduh" / f"{TASK}.yaml")}

    needs = extended(Needs)(2, include_path="mine", strict=True)
    assert (needs.workers, needs.strict, needs.read) == (2, True, [ours, "mine"])
    for finds in (Scans, ScansAsLater):  # it finds ours by itself
        assert extended(finds)(include_path="mine").read == "mine"
    assert not caplog.records
    assert extended(Renamed)(task_dirs="mine").read == "mine"
    assert (
        "TaskManager(self, task_dirs=None, include_defaults=True) that we do not know"
        in caplog.text
    )
    assert extended(OneOnly)(include_path="mine").read == "mine"
    assert "could not be added to lm-eval: TypeError: include_path: one folder" in caplog.text


# Entry points. ------------------------------------------------------------------------------


#: Counts how often each of our task files is read.
COUNTED = f"""
import collections, lm_eval.tasks._index as index
read, load = collections.Counter(), index.load_yaml
def counting(path, *args, **kwargs):
    read[str(path)] += "epidemia" in path.name
    return load(path, *args, **kwargs)
index.load_yaml = counting
from lm_eval_epidemia.harness.run import run_lm_eval as run
run(['--model', 'epidemia-baseline', '--tasks', {TASK!r}, '--limit', '1'])
print(len(read), max(read.values()), sum(read.values()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [INSTALLED, "entry points"])
def test_epidemia_run_reads_each_task_file_once(kind, lm_evals, tmp_path):
    done = run(lm_evals(kind), tmp_path, "-c", COUNTED)
    assert done.returncode == 0, done.stderr
    files, most, total = map(int, done.stdout.splitlines()[-1].split())
    assert files > 500 and most <= 2, done.stdout  # the one that is run is read again
    assert total < files + 10
    assert "overrides" not in done.stderr


# Damaged ground truth. ----------------------------------------------------------------------


def everywhere(value, where=()):
    """Walk through a JSON document: the place of every value in it."""
    if where:
        yield where
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    for key, below in inner.items() if isinstance(inner, dict) else ():
        yield from everywhere(below, (*where, key))


def with_wrong(document, where):
    """Return a document in which one value has a type that it cannot have."""
    document = json.loads(json.dumps(document))
    inner = document
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = 3 if isinstance(inner[where[-1]], (dict, list, str)) else ["?"]
    return document


def damaged(folder):
    """Make homes with every kind of damaged registry; return them by kind."""
    homes = {}

    def home(kind):
        homes[kind] = folder / f"home-{len(homes)}"
        (homes[kind] / "groundtruth").mkdir(parents=True)
        return homes[kind] / "groundtruth" / "registry.json"

    registry = json.loads((REPOSITORY / "groundtruth" / "registry.json").read_text())
    truth = registry["truths"]["nsduh_2022"]
    truth["tasks"] = {TASK: truth["tasks"][TASK]}
    whole = {"schema": registry["schema"], "truths": {"nsduh_2022": truth}}
    texts = ["[]", "null", '"x"', "3", "{}", "", "{", json.dumps(whole)[:-9], "[" * 200_000]
    texts += ['{"schema": 2}', '{"schema": 2, "truths": []}', '{"schema": 2, "truths": null}']
    texts.append('{"schema": 99, "truths": {}}')
    for text in texts:
        home(text[:40]).write_text(text)
    home("binary").write_bytes(bytes(range(256)))
    home("folder").mkdir()
    if Path("/proc/self/mem").exists():
        home("unreadable").symlink_to("/proc/self/mem")
    for where in everywhere(whole):
        home(f"wrong: {where}").write_text(json.dumps(with_wrong(whole, where)))
    (folder / "file").write_text("no folder")
    homes["home is a file"] = folder / "file"
    homes["home of nobody"] = "~nobody-of-this-name/epidemia"
    return homes


def test_no_damage_to_our_files_stops_somebody_elses_run(tmp_path, monkeypatch, caplog):
    """Nothing ships here: all that is read is what was damaged, for one way of asking."""
    monkeypatch.setattr(type(OBSERVATION), "ways", {"letters": OBSERVATION.ways["letters"]})
    monkeypatch.setattr(paths, "shipped_groundtruth", lambda: tmp_path / "nothing")
    monkeypatch.setattr(benchmarks, "BENCHMARKS", {"observation": OBSERVATION})
    monkeypatch.setattr(yamls, "write_tasks", lambda folder, files: None)
    homes, manager = damaged(tmp_path), extended(Asked)
    assert len(homes) > 60
    for kind, home in homes.items():
        caplog.clear()
        notices.forget()
        monkeypatch.setenv("EPIDEMIA_HOME", str(home))
        asked = manager(include_path="mine")
        assert asked.include_path == "mine" and "mine" in asked.read, kind
        said = [entry.getMessage() for entry in caplog.records]
        assert len(said) <= 1 and "\n" not in "".join(said), (kind, said)
        if kind in ("[]", "null", '"x"', "3", "binary", "unreadable", "{", "[" * 40):
            assert "could not be added to lm-eval" in said[0] and str(home) in said[0], said


# What others do with these classes. ---------------------------------------------------------


OTHERS = """
import copy, inspect, pickle, importlib, json
import lm_eval.tasks.manager as m
import lm_eval.evaluator as e

class Theirs(m.TaskManager):
    def __init__(self, path):
        super().__init__(None, path, True, {{}})

tm = Theirs({mine!r})
assert {{"mine", "builtin"}} <= set(tm.all_tasks), tm.all_tasks
assert tm.include_path == {mine!r}
for twin in (copy.deepcopy(tm), pickle.loads(pickle.dumps(tm))):
    assert sorted(twin.task_index) == sorted(tm.task_index) and twin.include_path == {mine!r}
known = ["epidemia_low" in tm.all_tasks]
importlib.reload(m)
known.append("epidemia_low" in m.TaskManager().all_tasks)
importlib.reload(e)
known.append(hasattr(e.evaluate, "_epidemia"))
seen = m.TaskManager.__init__, e.evaluate, e.simple_evaluate
print(json.dumps([known, [[str(inspect.signature(f)), f.__qualname__, f.__doc__] for f in seen],
                  str(inspect.signature(m.TaskManager)), sorted(vars(m.TaskManager)),
                  sorted(vars(e))]))
"""


@pytest.mark.slow
def test_classes_and_functions_look_the_same_to_others(lm_evals, mine, tmp_path):
    command = lm_evals(INSTALLED), tmp_path, "-c", OTHERS.format(mine=str(mine))
    on, off = run(*command), run(*command, EPIDEMIA_AUTOLOAD="")
    assert on.returncode == off.returncode == 0, on.stderr + off.stderr
    (known, *seen), (without, *plain) = json.loads(on.stdout), json.loads(off.stdout)
    assert (known, without) == ([True, True, True], [False, False, False])
    assert seen == plain


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_knows_our_tasks(method, lm_evals, tmp_path):
    (tmp_path / "work.py").write_text(
        "import multiprocessing\n"
        "def known(name):\n"
        "    from lm_eval.tasks import TaskManager\n"
        "    return name in TaskManager().all_tasks\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "        print(pool.map(known, ['epidemia_low', 'builtin']))\n"
    )
    done = run(lm_evals(INSTALLED), tmp_path, "work.py")
    assert done.stdout.strip() == "[True, True]", done.stderr


def test_a_zip_file_of_lm_eval_is_left_whole(tmp_path):
    """One loader executes all modules of a zip file: only the watched one is ours."""
    with zipfile.ZipFile(tmp_path / "them.zip", "w") as archive:
        for name, text in {
            "lm_eval/__init__.py": "",
            "lm_eval/tasks/__init__.py": "from lm_eval.tasks.manager import TaskManager\n",
            "lm_eval/tasks/helper.py": "x = 1\n",
            "lm_eval/tasks/manager.py": "from lm_eval.tasks.helper import x\n"
            "class TaskManager:\n    task_index = {}\n"
            "    def __init__(self, include_path=None, include_defaults=True):\n"
            "        self.include_path = include_path\n        self.seen = list(include_path)\n",
            "lm_eval/tasks/later.py": "y = 2\n",
        }.items():
            archive.writestr(name, text)
    code = (
        "import lm_eval.tasks, lm_eval.tasks.later, lm_eval.tasks.helper\n"
        "tm = lm_eval.tasks.TaskManager(['x'])\n"
        "print(tm.include_path, len(tm.seen), vars(lm_eval.tasks.manager.__loader__).keys()"
        " & {'exec_module'})"
    )
    done = run(environment(tmp_path / "them.zip"), tmp_path, "-c", code)
    assert (done.stdout.strip(), done.stderr) == ("['x'] 2 set()", "")


@pytest.mark.slow
def test_looking_for_a_module_does_not_use_the_hook_up(lm_evals, tmp_path):
    code = (
        "import importlib.util, sys\n"
        "assert importlib.util.find_spec('lm_eval.tasks.manager')\n"
        "from lm_eval.tasks import TaskManager\n"
        "print('epidemia_low' in TaskManager().all_tasks)\n"
        "for name in [name for name in sys.modules if name.startswith('lm_eval.')]:\n"
        "    del sys.modules[name]\n"
        "from lm_eval.tasks import TaskManager\n"
        "print('epidemia_low' in TaskManager().all_tasks)\n"
    )
    assert run(lm_evals(INSTALLED), tmp_path, "-c", code).stdout.split() == ["True", "True"]
