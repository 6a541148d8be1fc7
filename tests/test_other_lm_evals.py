"""Other people's runs: with the hook as without it, whatever lm-eval or our files look like."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, SUMS
from lm_evals import KINDS, environment, lm_eval_of

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
#: What differs between two runs that are alike.
CLOCKS = {"date", "start_time", "end_time", "total_evaluation_time_seconds"}


def run(code, where, folder, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**where, **variables},
        check=False,
    )


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


@pytest.fixture(scope="module", params=KINDS)
def other(request, tmp_path_factory):
    """An lm-eval of every kind: its name and the environment in which it is found."""
    return request.param, lm_eval_of(request.param, tmp_path_factory.mktemp("lm_eval"))


@pytest.fixture(scope="module")
def scanning(tmp_path_factory):
    """The environment of an lm-eval that reads entry points."""
    return lm_eval_of("entry points", tmp_path_factory.mktemp("scanning"))


def command_line(where, mine, out, **variables):
    """Run ``lm_eval run`` on somebody else's task; return what it wrote, and its stderr."""
    command = [
        sys.executable,
        "-m",
        "runner",
        "run",
        "--model",
        "steady",
        "--tasks",
        "mine",
        "--include_path",
        mine,
        "--output_path",
        out,
        "--log_samples",
    ]
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=out.parent,
        env={**where, **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (results,), (samples,) = out.rglob("results_*.json"), out.rglob("samples_*.jsonl")
    found = {
        key: value for key, value in json.loads(results.read_text()).items() if key not in CLOCKS
    }
    return json.dumps(found), samples.read_bytes(), done.stderr


@pytest.fixture(scope="module")
def without_us(mine, tmp_path_factory):
    """Results and samples of the installed lm-eval with the hook off."""
    folder = tmp_path_factory.mktemp("without")
    where = lm_eval_of("as installed", folder)
    results, samples, said = command_line(where, mine, folder / "off", EPIDEMIA_AUTOLOAD="0")
    assert "epidemia" not in said
    return results, samples


def test_other_peoples_tasks_run_as_without_the_hook(other, without_us, mine, tmp_path):
    kind, where = other
    results, samples, stderr = command_line(where, mine, tmp_path / "on")
    assert (results, samples) == without_us
    said = [line for line in stderr.splitlines() if "epidemia" in line]
    changed = {"renamed": "is not known to us", "one path only": "include_path: one folder"}
    assert len(said) == (kind in changed), said
    assert changed.get(kind, "") in "".join(said)


INDEX = """
import json
from lm_eval.tasks import TaskManager
tm = TaskManager({arguments})
print(json.dumps({{n: str(e.yaml_path) for n, e in tm.task_index.items()}}))
print(json.dumps(getattr(tm, "include_path", None)))
"""


def test_our_tasks_are_found_in_every_lm_eval_that_lets_us(other, mine, tmp_path):
    kind, where = other
    needed = "2, " if kind == "extra keyword that is needed" else ""
    named = "task_dirs" if kind == "renamed" else "include_path"
    done = run(INDEX.format(arguments=f"{needed}{named}={str(mine)!r}"), where, tmp_path)
    assert done.returncode == 0, done.stderr
    index, shown = map(json.loads, done.stdout.splitlines())
    assert {"builtin", "mine"} <= set(index)
    assert ("epidemia_low" in index) == (kind not in ("renamed", "one path only"))
    # What the user gave, not what we made of it.
    assert shown == (None if kind in ("renamed", "extra keyword") else str(mine))
    assert "overrides" not in done.stderr


def test_positional_arguments_are_handed_on(mine, tmp_path):
    code = INDEX.format(arguments=f"None, [{str(mine)!r}], True, {{'gen_prefix': 'I say'}}")
    where = lm_eval_of("as installed", tmp_path)
    done = run(code, where, tmp_path)
    index = json.loads(done.stdout.splitlines()[0])
    assert {"builtin", "mine"} <= set(index)
    assert Path(index["epidemia_low"]).is_relative_to(where["EPIDEMIA_HOME"])


def test_a_wrong_call_is_lm_evals_own_error(tmp_path):
    where = lm_eval_of("as installed", tmp_path)
    on, off = (
        run("from lm_eval.tasks import TaskManager\nTaskManager(bogus=1)", where, tmp_path, **more)
        for more in ({}, {"EPIDEMIA_AUTOLOAD": "no"})
    )
    assert on.returncode == off.returncode == 1
    assert on.stderr.splitlines()[-1] == off.stderr.splitlines()[-1]
    assert "cannot be offered" not in on.stderr and "During handling" not in on.stderr


#: Counts how often each of our task files is read.
COUNTED = """
import collections, lm_eval.tasks._index as index
read, load = collections.Counter(), index.load_yaml
def counting(path, *args, **kwargs):
    read[str(path)] += "epidemia" in path.name
    return load(path, *args, **kwargs)
index.load_yaml = counting
"""


def test_entry_points_and_the_hook_find_the_same_files_without_a_warning(scanning, tmp_path):
    on, off = (
        run(INDEX.format(arguments=""), scanning, tmp_path, **more)
        for more in ({}, {"EPIDEMIA_AUTOLOAD": "0"})
    )
    assert on.stdout == off.stdout and "epidemia_low" in on.stdout
    assert on.stderr == off.stderr


def built(home):
    """Put a ground truth of the user's own into a home: the shipped one of a survey."""
    (home / "groundtruth").mkdir(parents=True)
    shipped = REPOSITORY / "groundtruth"
    registry = json.loads((shipped / "registry.json").read_text())
    registry["truths"] = {"nsduh_2022": registry["truths"]["nsduh_2022"]}
    for file in registry["truths"]["nsduh_2022"]["files"].values():
        (home / "groundtruth" / file["name"]).symlink_to(shipped / file["name"])
    (home / "groundtruth" / "registry.json").write_text(json.dumps(registry))


@pytest.mark.parametrize("asked", ["metadata={'gen_prefix': 'I say'}", "built"])
def test_what_no_entry_point_can_name_comes_from_the_hook(scanning, home, tmp_path, asked):
    if asked == "built":
        built(home)
    arguments = "" if asked == "built" else asked
    done = run(
        INDEX.format(arguments=arguments), {**scanning, "EPIDEMIA_HOME": str(home)}, tmp_path
    )
    index = json.loads(done.stdout.splitlines()[0])
    ours = [path for name, path in index.items() if name.startswith("epidemia_")]
    assert len(ours) > 500
    assert all(Path(path).is_relative_to(home / "task_yamls") for path in ours)
    assert "overrides" not in done.stderr, done.stderr[:500]


def test_a_user_who_replaces_our_task_is_told_so(scanning, home, mine, tmp_path):
    """Only what we do ourselves is not said."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "low.yaml").write_text("group: epidemia_low\ntask: [builtin]\n")
    arguments = f"include_path={str(theirs)!r}, metadata={{'gen_prefix': 'I say'}}"
    done = run(
        INDEX.format(arguments=arguments), {**scanning, "EPIDEMIA_HOME": str(home)}, tmp_path
    )
    assert json.loads(done.stdout.splitlines()[0])["epidemia_low"].startswith(str(theirs))
    assert done.stderr.count("overrides existing task") == 1


@pytest.mark.parametrize("kind", ["as installed", "entry points"])
def test_epidemia_run_reads_each_task_file_once(kind, tmp_path):
    where = lm_eval_of(kind, tmp_path)
    code = COUNTED + (
        "from lm_eval_epidemia.harness.run import run\n"
        f"run(['--model', 'epidemia-baseline', '--tasks', {TASK!r}, '--limit', '1'])\n"
        "print(len(read), max(read.values()), sum(read.values()))"
    )
    done = run(code, where, tmp_path)
    assert done.returncode == 0, done.stderr
    files, most, total = map(int, done.stdout.splitlines()[-1].split())
    assert files > 500 and most <= 2, done.stdout  # the one that is run is read again
    assert total < files + 10
    assert "overrides" not in done.stderr


# Damaged ground truth. ----------------------------------------------------------------------


def everywhere(found, where=()):
    """Walk through a JSON document: the place of every value in it."""
    if where:
        yield where
    inner = dict(enumerate(found)) if isinstance(found, list) else found
    for key, value in inner.items() if isinstance(inner, dict) else ():
        yield from everywhere(value, (*where, key))


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
    texts = [
        "[]",
        "null",
        '"x"',
        "3",
        "{}",
        '{"schema": 2}',
        '{"schema": 2, "truths": []}',
        '{"schema": 2, "truths": null}',
        '{"schema": 99, "truths": {}}',
        "",
        "{",
        json.dumps(whole)[:-9],
        "[" * 200_000,
    ]
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


DAMAGED = """
import json, logging, os, sys
from lm_eval.tasks import TaskManager
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.harness import yamls
# Writing 586 files takes a second, and is not what is looked at.
yamls.write = lambda folder, files, replace=False: folder.mkdir(parents=True)
found, lines = {{}}, []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("lm_eval_epidemia").addHandler(Keep())
for kind, home in json.loads({homes!r}).items():
    lines.clear()
    notices.forget()
    os.environ["EPIDEMIA_HOME"] = home
    index = TaskManager(include_path={mine!r}).task_index
    found[kind] = {{"theirs": sorted(n for n in index if "epidemia" not in n), "said": lines[:]}}
print(json.dumps(found))
"""


def test_no_damage_to_our_files_stops_somebody_elses_run(mine, tmp_path):
    homes = damaged(tmp_path)
    where = lm_eval_of("as installed", tmp_path)
    code = DAMAGED.format(
        homes=json.dumps({kind: str(home) for kind, home in homes.items()}), mine=str(mine)
    )
    done = run(code, where, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(homes) > 60
    for kind, one in found.items():
        assert one["theirs"] == ["builtin", "mine"], kind
        assert len(one["said"]) <= 1 and "\n" not in "".join(one["said"]), (kind, one["said"])
    for kind in ("[]", "null", '"x"', "3", "binary", "unreadable", "{", "[" * 40):
        if kind in found:
            (line,) = found[kind]["said"]
            assert "cannot be offered to lm-eval" in line and str(homes[kind]) in line, line


def test_a_damaged_registry_changes_no_results(without_us, mine, home, tmp_path):
    (home / "groundtruth").mkdir(parents=True)
    (home / "groundtruth" / "registry.json").write_text("[]")
    where = {**lm_eval_of("as installed", tmp_path), "EPIDEMIA_HOME": str(home)}
    results, samples, said = command_line(where, mine, tmp_path / "on")
    assert (results, samples) == without_us
    assert said.count("cannot be offered to lm-eval") == 1


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


def test_classes_and_functions_look_the_same_to_others(mine, tmp_path):
    where = lm_eval_of("as installed", tmp_path)
    code = OTHERS.format(mine=str(mine))
    on, off = (run(code, where, tmp_path, **more) for more in ({}, {"EPIDEMIA_AUTOLOAD": ""}))
    assert on.returncode == off.returncode == 0, on.stderr + off.stderr
    (found, *seen), (without, *plain) = json.loads(on.stdout), json.loads(off.stdout)
    assert (found, without) == ([True, True, True], [False, False, False])
    assert seen == plain


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_knows_our_tasks(method, mine, tmp_path):
    where = lm_eval_of("as installed", tmp_path)
    (tmp_path / "work.py").write_text(
        "import multiprocessing\n"
        "def known(name):\n"
        "    from lm_eval.tasks import TaskManager\n"
        "    return name in TaskManager().all_tasks\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "        print(pool.map(known, ['epidemia_low', 'builtin']))\n"
    )
    done = subprocess.run(
        [sys.executable, "work.py"],
        capture_output=True,
        text=True,
        env=where,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.strip() == "[True, True]", done.stderr


def test_a_zip_file_of_lm_eval_is_left_whole(tmp_path):
    """One loader executes all modules of a zip file: only the watched one is ours."""
    import zipfile

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
    done = run(code, environment(tmp_path / "them.zip"), tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("['x'] 2 set()", "")


def test_looking_for_a_module_does_not_use_the_hook_up(tmp_path):
    where = lm_eval_of("as installed", tmp_path)
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
    assert run(code, where, tmp_path).stdout.split() == ["True", "True"]
