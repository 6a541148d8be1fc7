"""Task files for lm-eval, generated from the survey records and the ground truth at hand.

``task_yamls/`` is what these functions write for the shipped ground truth; it is checked in. Where
a user has built ground truth, the files for all that is available lie in the user's own folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia import __version__, folders, paths
from lm_eval_epidemia.elicit.modes import GENERATED, MODES, Mode, asks, in_mode
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.record import all_tasks
from lm_eval_epidemia.surveys.record import task as declared_task

__all__ = ["GROUPS", "TASK_VERSION", "render", "task_path", "version", "write"]

#: Changes when all scores stop being comparable; CHANGELOG.md says why. See `version`.
TASK_VERSION = 1

#: The top-level groups; each has a subgroup per survey.
GROUPS = ("epidemia_low", "epidemia_high", "epidemia_extra")


class _Asked(NamedTuple):
    """What a way of asking needs: its hook, the module of its metrics, and these."""

    process: str
    module: str
    #: Whether higher is better. `score_stderr` must follow `score`.
    metrics: dict[str, bool]
    #: Of a way in which the model writes: how random its answer is.
    temperature: float | None = None
    #: Raised when its answers are read in another way, so that scores stop being comparable.
    revision: int = 0


#: A probability is written once, as the model thinks most likely.
_WRITTEN = _Asked(
    "process_written",
    "written",
    {"score": True, "score_stderr": False, "l1": False, "seen": True, "answered": True},
    temperature=0.0,
    revision=1,
)


ASKED: dict[Mode, _Asked] = {
    "letters": _Asked(
        "process_results",
        "metrics",
        {
            "score": True,
            "score_stderr": False,
            "l1": False,
            "seen": True,
            "choice_mass": True,
            "order_bias": False,
        },
    ),
    "likelihood": _Asked(
        "process_likelihood",
        "likelihood",
        {
            "score": True,
            "score_stderr": False,
            "score_expected": True,
            "l1": False,
            "seen": True,
            "choice_mass": True,
            "bin_mass": True,
        },
    ),
    "sampled": _Asked(
        "process_sampled",
        "sampled",
        {
            "score": True,
            "score_stderr": False,
            "l1": False,
            "seen": True,
            "answered": True,
            "order_bias": False,
        },
        temperature=1.0,
        revision=1,
    ),
    "closed": _WRITTEN,
    "rag": _WRITTEN,
}

_NOTE = (
    "# Generated from the survey records; edit those, then run: epidemia tasks write task_yamls\n"
)

BASE = "_epidemia"
_CUSTOM = _NOTE + "custom_dataset: !function lm_eval_epidemia.harness.hooks.load\n"
_CHOSEN = """output_type: multiple_choice
# Columns, not templates: lm-eval builds requests from them many times faster.
doc_to_text: prompt
doc_to_choice: choices
# No answer is the right one; lm-eval wants a target.
doc_to_target: 0
"""
_WRITES = """output_type: generate_until
doc_to_text: prompt
# No answer is the right one; lm-eval wants a target.
doc_to_target: ""
generation_kwargs:
  # Nothing but the model's own end stops it: thinking has empty lines.
  until: []
  # With do_sample, lm-eval would not store responses for --use_cache.
  temperature: {temperature}
  max_gen_toks: 1024
"""
_BASE = """num_fewshot: 0
fewshot_config:
  samples: []
process_results: !function lm_eval_epidemia.harness.hooks.{process}
metric_list:
"""
_METRIC = """  - metric: {name}
    aggregation: !function lm_eval_epidemia.score.{module}.{name}
    higher_is_better: {better}
"""


def _base(mode: Mode, dataset: str | None, variant: Variant) -> str:
    asked = ASKED[mode]
    how = _WRITES.format(temperature=asked.temperature) if mode in GENERATED else _CHOSEN
    if variant.gen_prefix:
        how += f"gen_prefix: {json.dumps(variant.gen_prefix)}\n"
    if variant.leading_space is not None and mode not in GENERATED:
        how += 'target_delimiter: ""\n'
    metrics = "".join(
        _METRIC.format(name=name, module=asked.module, better=str(better).lower())
        for name, better in asked.metrics.items()
    )
    top = _CUSTOM if dataset is None else _NOTE
    return top + how + _BASE.format(process=asked.process) + metrics


def version(truth: store.GroundTruth, mode: Mode) -> int:
    """Return a task's version: `TASK_VERSION` and what its wording and its reading add to it.

    Scores of another version cannot be compared.
    """
    wording = ways_of(truth)[declared_task(truth.task).outcome].revision
    return TASK_VERSION + ASKED[mode].revision + wording


def _task(
    truth: store.GroundTruth, mode: Mode, base: str, group: str, dataset: str | None,
    variant: Variant,
) -> str:  # fmt: skip
    name = in_mode(truth.task, mode)
    if dataset is None:
        source = f"dataset_kwargs:\n  epidemia_task: {truth.task}\n"
        source += "" if mode == "letters" else f"  epidemia_mode: {mode}\n"
        if chosen := variant.in_task_files:
            source += f"  epidemia_variant: {json.dumps(chosen)}\n"
    else:
        source = f"dataset_path: {json.dumps(dataset)}\ndataset_name: {group}\n"
    return (
        f"{_NOTE}include: {base}\n"
        f"task: {name}\n"
        f"test_split: {name}\n"
        f"{source}"
        "metadata:\n"
        f"  version: {version(truth, mode)}\n"
        f"  survey: {truth.survey}\n"
        f'  vintage: "{truth.vintage}"\n'
        f'  truth: "{truth.fingerprint}"\n'
    )


def _group(name: str, mode: Mode, members: list[str]) -> str:
    lines = [f"{_NOTE}group: {name}", "task:", *(f"  - {member}" for member in members)]
    lines.append("aggregate_metric_list:")
    for metric in (metric for metric in ASKED[mode].metrics if metric != "score_stderr"):
        lines += [f"  - metric: {metric}", "    aggregation: mean", "    weight_by_size: false"]
    lines += ["metadata:", f"  version: {TASK_VERSION + ASKED[mode].revision}"]
    return "\n".join(lines) + "\n"


def render(
    places: dict[str, store.Place], dataset: str | None = None, variant: Variant | None = None
) -> dict[str, str]:
    """Return the text of every task file, by its path relative to the folder.

    Parameters
    ----------
    places : dict
        The available tasks, as `store.available` returns them.
    dataset : str, optional
        Read the questions from this dataset repository (a folder or an id on the Hub) instead of
        the package. Sampled answers are left out: they are as many as a run wants.
    variant : Variant, optional
        Write what it asks of a task file.
    """
    files, variant = {}, variant or Variant()
    for mode in MODES:
        if dataset is not None and mode == "sampled":
            continue
        base = in_mode(BASE, mode)
        files[base] = _base(mode, dataset, variant)
        # Letters, the plain way of asking, lie at the top; each other way in a folder of its own.
        above = "" if mode == "letters" else f"{mode}/"
        up = "../" * (above.count("/") + 1)
        for group in GROUPS:
            surveys: dict[str, list[str]] = {}
            for task in all_tasks().values():
                if task.group == group and task.name in places and asks(mode, task):
                    surveys.setdefault(task.survey, []).append(task.name)
            top = in_mode(group, mode)
            for survey, members in surveys.items():
                name = in_mode(f"{group}_{survey}", mode)
                names = [in_mode(member, mode) for member in members]
                files[f"{above}{survey}/{name}.yaml"] = _group(name, mode, names)
                for member in members:
                    files[f"{above}{survey}/{in_mode(member, mode)}.yaml"] = _task(
                        store.load(member), mode, up + base, top, dataset, variant
                    )
            if surveys:
                names = [in_mode(f"{group}_{survey}", mode) for survey in surveys]
                files[f"{above}{top}.yaml"] = _group(top, mode, names)
    return files


def write(folder: Path, files: dict[str, str], replace: bool = False) -> None:
    """Write task files elsewhere and put them in place when all are whole.

    Parameters
    ----------
    folder : Path
    files : dict of str to str
        As `render` returns them.
    replace : bool
        Replace what an earlier write put into the folder, and keep what is not ours; see
        `folders.rewritten`. Without it, a folder that is there already is left alone: another
        process was faster.

    Raises
    ------
    EpidemiaError
        If the folder cannot be written, or holds files that are not ours.
    """
    if replace:
        with folders.rewritten(folder, BASE) as temporary:
            _fill(temporary, files)
        return
    with paths.writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _fill(temporary, files)
            temporary.chmod(0o755)
            try:
                temporary.replace(folder)
            except OSError:
                if not folder.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def task_path(variant: Variant | None = None) -> Path:
    """Return the folder of task files for everything available here.

    Where the user built ground truth, or the variant asks something of the task files, it is a
    folder in ``paths.home()``, named after the state of the ground truth, the package and the
    variant: a change of one makes a new one, and processes that start together, or still read the
    old one, do not disturb each other.
    """
    chosen = (variant or Variant()).in_task_files
    registry = store.built_groundtruth() / store.REGISTRY
    if not registry.is_file() and not chosen:
        return paths.shipped_task_yamls()
    state = hashlib.sha256(__version__.encode())
    for file in (registry, paths.shipped_groundtruth() / store.REGISTRY):
        state.update(file.read_bytes() if file.is_file() else b"")
    state.update(json.dumps(chosen, sort_keys=True).encode() if chosen else b"")
    folder = paths.home() / "task_yamls" / state.hexdigest()[:12]
    if not folder.is_dir():
        write(folder, render(store.available(), variant=variant))
    return folder
