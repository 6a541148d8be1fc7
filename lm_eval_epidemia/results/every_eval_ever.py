"""Runs as records of Every Eval Ever (schema 0.3, https://evalevalai.com).

A record has a result for each group and each task, with its other metrics.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pandas as pd

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS, in_way, list_groups, list_leaves
from lm_eval_epidemia.benchmarks.benchmark import Benchmark
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.harness.keys import SECRET
from lm_eval_epidemia.results.decode import read_number, sha_of
from lm_eval_epidemia.results.naming import HASHES, KNOWN, RunConfig, Weights, parse_arguments
from lm_eval_epidemia.results.read import NOT_SETTINGS, describe_setting

#: What our records name as their source, and the folder of them in a data store.
SOURCE = "lm-eval-epidemia"

#: The version of the schema that our records are of.
VERSION = "0.3.0"

#: What is kept of a task's metadata: the rest are arguments of the model.
_METADATA = ("truth", "vintage", *Variant._fields)

#: Arguments of a model that are in no record: how fast it runs, and what may hold a key.
_PRIVATE = (*KNOWN["of_machine"], *SECRET, "token")

#: Backends that run a model in lm-eval's own process, by the library that does; others are called
#: by their own name.
_ENGINES = {"hf": "transformers", "choice-hf": "transformers", "choice-vllm": "vllm"}
_DEPLOYED = (*_ENGINES, "vllm")


def hide_paths(value: Any) -> Any:
    """Remove machine details from a setting: folders above a model, users in addresses."""
    if not isinstance(value, str):
        return value
    if "://" in value:
        parts = urlsplit(value)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    is_path = value.startswith(("/", ".", "~")) or "\\" in value or value.count("/") > 1
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] if is_path else value


def public_name(weights: Weights) -> str:
    """Name a model with everything that distinguishes it."""
    return " +".join(filter(None, map(hide_paths, (weights.model, *weights.more, weights.adapter))))


def public_settings(run: pd.Series) -> dict[str, str]:
    """Return a run's settings that go into a record, by name; only those that are not usual."""
    named = {str(name): value for name, value in run.items() if name not in NOT_SETTINGS}
    return {
        name: str(hide_paths(value))
        for name, value in named.items()
        if isinstance(value, str) and value and name not in (*_PRIVATE, "template", *HASHES)
    }


def public_words(run: pd.Series) -> list[str]:
    """Return a run's settings that go into a record, in words."""
    told = public_settings(run)
    return [
        describe_setting(name, value)
        for name, value in told.items()
        if name != "backend" and value != "auto"
    ]


def model_id(weights: Weights) -> str:
    """Return a model's public name: its Hub name, or the name of its folder."""
    return str(hide_paths(weights.adapter or weights.model))


def model_folder(weights: Weights) -> Path:
    """Return the folder of a model, inside its developer's if that is known."""
    parts = [re.sub(r"[^\w.=,+-]+", "_", part).strip(".") for part in model_id(weights).split("/")]
    return Path(*parts)


def make_record(
    run: pd.Series,
    groups_of: pd.DataFrame,
    tasks: pd.DataFrame,
    said: Mapping[str, str],
    dataset: str | None = None,
) -> dict[str, Any]:
    """Return the record of a run.

    Parameters
    ----------
    run : Series
        A row of `Results.runs`; its result files are read again.
    groups_of : DataFrame
        Its means: ``group``, ``value``, ``error``, ``low``, ``high``, ``tasks``, ``date``.
    tasks : DataFrame
        Its scores, with ``error``, ``low``, ``high`` and the file of each.
    said : mapping of str to str
        Notes on the mean of a group: its settings in words, and doubts.
    dataset : str, optional
        The id on the Hub of the exported questions.
    """
    files = {path: json.loads(path.read_bytes()) for path in sorted({*tasks["file"]})}
    means = [_of_group(row, said[row["group"]]) for _, row in groups_of.iterrows()]
    rows = means + [_of_task(row, files[row["file"]]) for _, row in tasks.iterrows()]
    hub = {"source_type": "hf_dataset", "hf_repo": dataset} if dataset else {}
    for row in rows:
        source = {"dataset_name": row["evaluation_name"], "source_type": "other"}
        row["source_data"] = source | hub
    weights: Weights = run["weights"]
    written = {
        "schema_version": VERSION,
        **_timestamp(run["date"]),
        "source_metadata": {
            "source_name": SOURCE,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {"settings": "; ".join(public_words(run))},
        },
        "eval_library": {
            "name": "lm_eval",
            "version": _versions(files.values(), "lm_eval_version") or "unknown",
            "additional_details": {"plugin": SOURCE, "plugin_version": __version__},
        },
        "model_info": _model(weights, list(files.values())),
        "evaluation_results": rows,
    }
    digest = hashlib.sha256(json.dumps(written, sort_keys=True).encode()).digest()
    now = str(int(time.time()))
    key = str(uuid.UUID(bytes=digest[:16], version=4))
    identity = {
        "evaluation_id": f"{SOURCE}/{model_id(weights)}/{now}-{key}",
        "retrieved_timestamp": now,
    }
    return {"schema_version": VERSION, **identity, **written}


def _timestamp(date: float) -> dict[str, str]:
    return {"evaluation_timestamp": str(int(date))} if math.isfinite(date) else {}


def _versions(files: Iterable[Mapping[str, Any]], key: str) -> str:
    """Return the versions of a library behind the files of a run; they may differ."""
    return ", ".join(sorted({str(file[key]) for file in files if file.get(key)}))


def _model(weights: Weights, files: list[dict[str, Any]]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for file in files:
        own = {key: (file.get("config") or {}).get(key) for key in RunConfig.__struct_fields__}
        config |= {key: value for key, value in own.items() if value not in (None, "", {})}
    arguments = parse_arguments(config.get("model_args")).items()
    config["model_args"] = {key: hide_paths(x) for key, x in arguments if key not in _PRIVATE}
    backend, last = str(config.get("model")), files[-1]
    details = {
        "deployment_type": "self_deployed" if backend in _DEPLOYED else "unknown",
        "model_availability": "unknown",
        "lm_eval_config": json.dumps(config),
        # Of texts that a record leaves out.
        **{
            f"{key}_sha": sha_of(last.get(f"{key}_sha"), last[key])
            for key in ("chat_template", "system_instruction")
            if last.get(key)
        },
    }
    engine = {"name": config["model_args"].get("server") or _ENGINES.get(backend, backend)}
    version = _versions(files, "transformers_version")
    if engine["name"] == "transformers" and version:
        engine["version"] = version
    return {
        "name": public_name(weights),
        "id": model_id(weights),
        "inference_engine": engine,
        "additional_details": details,
    }


def method_of(benchmark: Benchmark) -> str:
    """Name the source of standard errors."""
    return "joint survey replicates" if benchmark.of_surveys else "sampling of questions"


def _bound(end: float) -> float | str:
    """Write the end of a scale as JSON, which has no infinity."""
    return end if math.isfinite(end) else "Infinity" if end > 0 else "-Infinity"


def _result(name: str, benchmark: Benchmark, scored: Any) -> dict[str, Any]:
    """Return the fields that results of groups and tasks share."""
    lead = benchmark.lead
    of: dict[str, Any] = {"score": scored["value"]}
    if math.isfinite(scored["error"]):
        of["uncertainty"] = {
            "standard_error": {"value": scored["error"], "method": method_of(benchmark)},
            "confidence_interval": {
                "lower": scored["low"],
                "upper": scored["high"],
                "confidence_level": 0.95,
                "method": "1.96 standard errors to either side, within the bounds",
            },
        }
    return {
        "evaluation_result_id": f"{name}/{benchmark.leading}",
        "evaluation_name": name,
        **_timestamp(scored["date"]),
        "metric_config": {
            "evaluation_description": benchmark.heading,
            "metric_id": f"epidemia.{benchmark.leading}",
            "metric_name": benchmark.leading,
            "lower_is_better": not lead.higher_is_better,
            "score_type": "continuous",
            "min_score": _bound(lead.low),
            "max_score": _bound(lead.high),
        },
        "score_details": of,
    }


def _of_group(scored: Any, said: str) -> dict[str, Any]:
    row = _result(scored["group"], list_groups()[scored["group"]], scored)
    row["score_details"]["details"] = {"mean_over_tasks": str(scored["tasks"]), "notes": said}
    return row


def _of_task(scored: Any, file: Mapping[str, Any]) -> dict[str, Any]:
    name = in_way(scored["task"], scored["way"])
    benchmark = list_leaves()[name].benchmark
    row, config = _result(name, benchmark, scored), (file.get("configs") or {}).get(name) or {}
    metrics = {
        metric: repr(number)
        for key, value in file["results"][name].items()
        for metric, _, filtered in [key.partition(",")]
        if filtered == "none" and metric != benchmark.leading
        if not math.isnan(number := read_number(value))
    }
    row["score_details"]["details"] = metrics
    told = config.get("metadata") or {}
    metadata = {key: value for key, value in told.items() if key in _METADATA}
    generation = config.get("generation_kwargs") or {} if WAYS[scored["way"]].generated else {}
    known = {key: read_number(generation.get(key)) for key in ("temperature", "top_p", "top_k")}
    arguments = {key: x for key, x in known.items() if math.isfinite(x)}
    if 1 <= (most := read_number(generation.get("max_gen_toks"))) < math.inf:
        arguments["max_tokens"] = int(most)
    row["generation_config"] = {
        "generation_args": arguments,
        "additional_details": {
            "metadata": json.dumps(metadata),
            "task_version": json.dumps((file.get("versions") or {}).get(name)),
            "num_fewshot": json.dumps((file.get("n-shot") or {}).get(name)),
        },
    }
    return row
