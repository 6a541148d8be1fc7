"""Which lm-eval may be let in: what this package relies on, tried with the one installed.

When all of this passes with a newer lm-eval (and the rest of the suite), raise the upper bound of
lm-eval in pyproject.toml. One test fails on the day when lm-eval no longer needs the start-up hook.
"""

import inspect
import json
import re
from importlib.metadata import version

import pytest
from conftest import REPOSITORY, evaluate
from lm_evals import environment
from packaging.specifiers import SpecifierSet
from processes import python

from lm_eval_epidemia.harness import hooks

TASK = "epidemia_low_nsduh_heroin_ever_by_race"
INSTALLED = f"lm-eval {version('lm-eval')}"
PIN = re.search(r'"lm-eval(>=[^"]+)"', (REPOSITORY / "pyproject.toml").read_text())[1]


def test_the_installed_lm_eval_is_one_that_is_asked_for():
    assert SpecifierSet(PIN).contains(version("lm-eval"), prereleases=True), (
        f"{INSTALLED} is not {PIN}: where the other tests of this file pass, raise the bound"
    )


class TooOften(Exception):
    """An aggregation was called again and again: do not wait for a hundred thousand times."""


@pytest.fixture
def calls(monkeypatch):
    """How often an aggregation of ours was called."""
    hook, seen = hooks.letters_score, []
    score = hook.function

    def counted(items):
        seen.append(len(items))
        if len(seen) > 5:
            raise TooOften
        return score(items)

    monkeypatch.setattr(hook, "function", counted)
    return seen


def called_once(calls):
    """Run lm-eval with its default `bootstrap_iters`; say what is wrong."""
    try:
        results = evaluate([TASK])
    except TooOften:
        results = None
    assert len(calls) == 1, (
        f"{INSTALLED} calls an aggregation of ours {len(calls)} times or more in a run with the "
        "default bootstrap_iters (0.5 does so 100,000 times, hours for a group): keep it out with "
        "the upper bound in pyproject.toml until ours can be exempted"
    )
    return results


def test_an_aggregation_of_ours_is_called_once_per_task(calls):
    called_once(calls)


def test_the_places_where_we_take_hold_are_there():
    import lm_eval.evaluator
    from lm_eval.api.registry import model_registry
    from lm_eval.tasks.manager import TaskManager

    why = f"{INSTALLED} has changed {{}}: see harness/discovery.py"
    taken = inspect.signature(TaskManager).parameters
    assert {"include_path", "include_defaults", "metadata"} <= taken.keys(), why.format(taken)
    assert isinstance(TaskManager(include_defaults=False).task_index, dict), why.format("the index")
    first = next(iter(inspect.signature(lm_eval.evaluator.evaluate).parameters))
    assert first == "lm", why.format("evaluate")
    assert "target" in inspect.signature(model_registry.register).parameters, why.format("registry")


def with_version(folder, found):
    """Make an interpreter believe that another lm-eval is installed."""
    for name, given, more in (
        ("lm_eval", found, ""),
        ("lm_eval_epidemia", "0", f"Requires-Dist: lm-eval{PIN}\n"),
    ):
        info = folder / f"{name}-{given}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {given}\n{more}"
        )
    return environment(folder)


@pytest.mark.parametrize(
    ("found", "warned"), [("0.4.14.dev1", 0), ("0.4.12", 1), ("0.5.0.dev2", 1)]
)
def test_an_lm_eval_that_was_forced_is_said_once_and_only_to_our_users(tmp_path, found, warned):
    code = (
        "from lm_eval.tasks import TaskManager\n"
        "TaskManager(include_defaults=False)\n"
        "print('so far', flush=True)\n"
        "from lm_eval_epidemia.harness.hooks import load\n"
        f"for _ in range(3): load({TASK!r})\n"
    )
    told = f"import sys; sys.stderr = sys.stdout\n{code}"
    before, after = python(told, env=with_version(tmp_path, found)).split("so far")
    assert "epidemia" not in before
    assert after.count(f"lm-eval {found} is installed") == warned, after
    assert after.count("pip install 'lm-eval") == warned


#: What lm-eval finds of ours: tasks without its own, tasks beside one of its own, models.
FINDS = f"""
import json, pathlib, lm_eval.models, lm_eval.tasks.manager as manager
from lm_eval.api.registry import model_registry
manager.__file__ = str(pathlib.Path("own/manager.py").resolve())
alone, beside = (manager.TaskManager(include_defaults=own).all_tasks for own in (False, True))
print(json.dumps([{TASK!r} in alone, {TASK!r} in beside, "choice-hf" in model_registry]))
"""


def finds(where, folder, **variables):
    own = folder / "own"
    own.mkdir(exist_ok=True)
    (own / "builtin.yaml").write_text("task: builtin\n")
    printed = python(FINDS, cwd=folder, env={**where, **variables})
    return json.loads(printed.splitlines()[-1])


@pytest.mark.slow
def test_lm_eval_still_needs_the_start_up_hook(tmp_path):
    assert finds(environment(), tmp_path) == [False, True, True]  # with the hook: the test can fail
    alone, beside, models = finds(environment(), tmp_path, EPIDEMIA_AUTOLOAD="0")
    assert alone == beside, (
        f"{INSTALLED} reads entry points of tasks beside its own tasks only: finds_unaided of "
        "harness/discovery.py asks it without them, and our tasks are indexed twice"
    )
    assert not (alone or models), (
        f"{INSTALLED} finds by entry points: our tasks {alone}, our models {models}. Where both "
        'are True, see "When the hook can go" in docs/evidence/discovery.md'
    )
