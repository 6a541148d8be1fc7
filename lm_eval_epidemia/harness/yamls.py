"""Task files for lm-eval, generated from the survey records and the available ground truth.

``task_yamls/`` is the checked-in output for the shipped ground truth. If a user has built ground
truth, the files for all available tasks are in the user's own folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lm_eval_epidemia.ask.variants import SYSTEM_PROMPTS, Variant
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.store import look_at_disk, users_files
from lm_eval_epidemia.core.version import __version__

if TYPE_CHECKING:
    from lm_eval_epidemia.benchmarks import Benchmark, Way
    from lm_eval_epidemia.benchmarks.benchmark import TaskEntry

_NOTE = (
    "# Generated from the survey records; edit those, then run: epidemia tasks write task_yamls\n"
)

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
  max_gen_toks: {most}
"""
#: Where a prompt is put again until the reply can be read.
_TRIES = """repeats: {tries}
filter_list:
  - name: none
    filter:
      - function: custom
        filter_fn: !function lm_eval_epidemia.harness.hooks.first_read_{way}
"""
_BASE = """num_fewshot: 0
fewshot_config:
  samples: []
process_results: !function lm_eval_epidemia.harness.hooks.process_{way}
metric_list:
"""
_METRIC = """  - metric: {name}
    aggregation: {how}
    higher_is_better: {better}
"""

#: The default number of tokens that a model may write.
MOST_TOKENS = 1024

#: Stands between a system prompt and a question, where no chat template does.
_APART = "\n\n"

#: In a folder of task files that 0.1.0 wrote, which has no list of them.
MARKER = "_epidemia"


def _as_yaml(value: Any) -> str:
    """Write a value on one line; unlike JSON, with characters beyond 16 bits as YAML reads them."""
    quote = '"' if isinstance(value, str) else None
    written = yaml.safe_dump(value, default_style=quote, default_flow_style=True, width=math.inf)
    return str(written).strip()


def exported_file(group: str, task: str) -> str:
    """Return where a dataset repository has the questions of a task, both as lm-eval names them."""
    return f"data/{group}/test/{task}.parquet"


def _as_text(prefix: str, way: Way) -> str:
    """Write a text so that lm-eval, which looks for columns and templates, gives it back."""
    from lm_eval_epidemia.ask.way import COMMON

    is_column = prefix in {*COMMON, *way.columns, "prompt"}
    return f"{{{{ {prefix!a} }}}}" if is_column or "{" in prefix else prefix


def _base(benchmark: Benchmark, way: Way, dataset: str | None, variant: Variant) -> str:
    how = _CHOSEN
    if way.generated:
        how = _WRITES.format(temperature=way.temperature, most=MOST_TOKENS)
    if variant.gen_prefix:
        how += f"gen_prefix: {_as_yaml(_as_text(variant.gen_prefix, way))}\n"
    if way.system_prompts and (text := SYSTEM_PROMPTS[variant.system_prompt]):
        how += f"description: {json.dumps(text + _APART)}\n"
    if variant.leading_space is not None and not way.generated:
        how += 'target_delimiter: ""\n'
    hook, metrics = f"!function lm_eval_epidemia.harness.hooks.{way.name}", ""
    for name, metric in benchmark.metrics(way).items():
        better = json.dumps(metric.higher_is_better)
        metrics += _METRIC.format(name=name, how=f"{hook}_{name}", better=better)
    if variant.tries > 1 and way.generated:
        how += _TRIES.format(tries=variant.tries, way=way.name)
        metrics += _METRIC.format(name="tries", how="mean", better="false")
    top = _CUSTOM if dataset is None else _NOTE
    return top + how + _BASE.format(way=way.name) + metrics


def _format_task(
    benchmark: Benchmark,
    entry: TaskEntry,
    way: Way,
    base: str,
    dataset: str | None,
    variant: Variant,
) -> str:
    name, truth = entry.name + way.suffix, way.load(entry.name)
    test_split = name if dataset is None else "test"
    if dataset is None:
        source = f"dataset_kwargs:\n  epidemia_task: {entry.name}\n  epidemia_way: {way.name}\n"
        if chosen := variant.in_task_files:
            source += f"  epidemia_variant: {_as_yaml(chosen)}\n"
    else:
        file = exported_file(entry.group + way.suffix, name)
        source = (
            f"dataset_path: {json.dumps(dataset)}\n"
            f"dataset_kwargs:\n  data_files:\n    test: {file}\n"
        )
    if held := way.structure(truth, variant):
        # In place of the base's: lm-eval merges a file with what it includes by whole keys.
        kwargs: dict[str, Any] = {"until": [], "temperature": way.temperature}
        kwargs |= {"max_gen_toks": MOST_TOKENS, **held}
        source += f"generation_kwargs: {json.dumps(kwargs)}\n"
    # A benchmark's own words are plain names; a vintage or a fingerprint may look like a number.
    about = "".join(f"  {key}: {json.dumps(at)}\n" for key, at in benchmark.metadata(truth).items())
    version = benchmark.version(truth) + way.revision
    return (
        f"{_NOTE}include: {base}\ntask: {name}\ntest_split: {test_split}\n{source}"
        f"metadata:\n  version: {version}\n{about}"
    )


def _group(benchmark: Benchmark, name: str, way: Way, members: list[str], variant: Variant) -> str:
    listed = "".join(f"  - {member}\n" for member in members)
    tries = ["tries"] if variant.tries > 1 and way.generated else []
    metrics = "".join(
        f"  - metric: {metric}\n    aggregation: mean\n    weight_by_size: false\n"
        for metric in [*benchmark.metrics(way), *tries]
        if not metric.endswith("_stderr")
    )
    version = benchmark.groups_version + way.revision
    return (
        f"{_NOTE}group: {name}\ntask:\n{listed}aggregate_metric_list:\n{metrics}"
        f"metadata:\n  version: {version}\n"
    )


def render(
    dataset: str | None = None,
    variant: Variant | None = None,
    chosen: Callable[[Way], bool] = lambda way: True,
) -> dict[str, str]:
    """Return the text of each file for the tasks available here, by its path in the folder.

    Parameters
    ----------
    dataset : str, optional
        Read the questions from this dataset repository (a folder or an id on the Hub) instead of
        the package.
    variant : Variant, optional
        Write the files for this variant.
    chosen : callable
        Selects the ways of asking.
    """
    # Where nothing is rendered, nothing of this is imported: it takes most of a second.
    from lm_eval_epidemia.benchmarks import BENCHMARKS

    files: dict[str, str] = {}
    for benchmark in BENCHMARKS.values():
        for way in benchmark.ways.values():
            if chosen(way):
                files |= _of_way(benchmark, way, dataset, variant or Variant())
    return files


def _of_way(
    benchmark: Benchmark, way: Way, dataset: str | None, variant: Variant
) -> dict[str, str]:
    """Return the files of a benchmark in one way of asking."""
    from lm_eval_epidemia.benchmarks import list_unions

    base, with_parts = benchmark.base + way.suffix, benchmark.parts(way)
    files = {base: _base(benchmark, way, dataset, variant)}
    asked = benchmark.asked(way.name)
    # The plain way of asking lies at the top; each other way in a folder of its own.
    above = f"{way.name}/" if way.suffix else ""
    for group in benchmark.every_group:
        parts: dict[str, list[TaskEntry]] = {}
        for entry in asked:
            if entry.group == group:
                parts.setdefault(entry.part, []).append(entry)
        listed: list[str] = []
        for part, entries in parts.items():
            folder = above + (f"{entries[0].facets['survey']}/" if part else "")
            include = "../" * folder.count("/") + base
            for entry in entries:
                text = _format_task(benchmark, entry, way, include, dataset, variant)
                files[f"{folder}{entry.name}{way.suffix}.yaml"] = text
            names = [entry.name + way.suffix for entry in entries]
            if part in with_parts:
                name = part + way.suffix
                files[f"{folder}{name}.yaml"] = _group(benchmark, name, way, names, variant)
                names = [name]
            listed += names
        if listed:
            name = group + way.suffix
            files[f"{above}{name}.yaml"] = _group(benchmark, name, way, listed, variant)
    for name in (way.named(union) for union in benchmark.unions):
        listed = [entry.name + way.suffix for entry in asked]
        listed = [task for task in listed if task in list_unions().get(name, ())]
        if listed and len(listed) == len(list_unions()[name]):
            files[f"{above}{name}.yaml"] = _group(benchmark, name, way, listed, variant)
    return files


def write_tasks(folder: Path, files: dict[str, str]) -> None:
    """Write task files in a staging folder and move them into place when all are complete.

    An existing folder is left alone: another process was faster.

    Parameters
    ----------
    folder : Path
    files : dict of str to str
        As `render` returns them.

    Raises
    ------
    EpidemiaError
        If the folder cannot be written.
    """
    with paths.guard_write(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as staging:
            new = Path(staging) / "new"
            fill_folder(new, files)
            try:
                new.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise


def fill_folder(folder: Path, files: dict[str, str]) -> None:
    """Write task files into a folder, as `render` returns them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def task_path(variant: Variant | None = None) -> Path:
    """Return the folder of task files for all tasks available here.

    If the user built ground truth or quantities, or the variant changes task files, it is a folder
    in ``paths.home()``, named by a hash of these, the package and the variant. Any change makes a
    new folder, so processes that run at the same time do not disturb each other.
    """
    look_at_disk()
    chosen = (variant or Variant()).in_task_files
    built = [path for path in users_files() if path.suffix in (".json", ".yaml")]
    if not built and not chosen:
        return paths.shipped_task_yamls()
    state = hashlib.sha256(__version__.encode())
    # Registries and the records of sets of quantities hold the hashes of their numbers.
    for file in (*sorted(paths.shipped_groundtruth().rglob("*.json")), *built):
        state.update(file.read_bytes() if file.is_file() else b"")
    state.update(_as_yaml(chosen).encode() if chosen else b"")
    folder = paths.home() / "task_yamls" / state.hexdigest()[:12]
    if not folder.is_dir():
        write_tasks(folder, render(variant=variant))
    return folder
