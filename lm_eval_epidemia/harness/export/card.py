"""The card of an exported repository, and its `eval.yaml`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.resources import files

import yaml

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import read_registry
from lm_eval_epidemia.harness.export.config import Config, texts
from lm_eval_epidemia.surveys.catalogue import record


def dataset_card(configs: Sequence[Config]) -> str:
    """Return the dataset card: YAML header, contents, limits, and each survey's licence, once."""
    said = texts()

    def columns(split: str) -> str:
        present = {name for config in configs for name in config.columns.get(split, ())}
        known = said["columns"][split]
        return "\n".join(f"| `{name}` | {known[name]} |" for name in known if name in present)

    rai = said["rai"]
    page = (files(__package__) / "card.md").read_text("utf-8")
    return f"---\n{_header(configs)}---\n\n" + page.format(
        description=said["description"],
        version=__version__,
        first=configs[0].name,
        canary=said["canary"],
        configs="\n".join(_rows(configs)),
        test=columns("test"),
        truth=columns("truth"),
        limits="\n".join(f"- {text}" for text in [*rai["dataLimitations"], *rai["dataBiases"]]),
        personal=rai["personalSensitiveInformation"],
        uses=rai["dataUseCases"],
        sources="\n".join(sources(configs)),
    )


def _rows(configs: Sequence[Config]) -> Iterator[str]:
    """Yield a row for each group: its configs in all ways of asking, with tasks and prompts."""
    names, of_group = {config.name for config in configs}, defaultdict[str, list[Config]](list)
    for config in configs:
        bases = (config.name.removesuffix(way.suffix) for way in WAYS.values() if way.suffix)
        others = (base for base in bases if base != config.name and base in names)
        of_group[next(others, config.name)].append(config)
    for base, alike in of_group.items():
        also = ", ".join(f"`{config.name.removeprefix(base)}`" for config in alike[1:])
        tasks = dict.fromkeys(str(len(config.tasks)) for config in alike)
        prompts = "; ".join(f"{config.prompts:,}" for config in alike)
        yield f"| `{base}`{also and f', also {also}'} | {'; '.join(tasks)} | {prompts} |"


def _header(configs: Sequence[Config]) -> str:
    """Return the YAML front matter; a config takes one line."""
    said = texts()
    facts = {
        "pretty_name": said["title"],
        "language": ["en"],
        "license": "other",
        "license_name": "us-public-use-files",
        "task_categories": said["task_categories"],
        "size_categories": [_size(sum(config.prompts for config in configs))],
        "tags": said["tags"],
    }
    listed = [
        {
            "config_name": config.name,
            "data_files": [{"split": name, "path": config.files(name)} for name in config.columns],
        }
        for config in configs
    ]
    lines = "".join(f"- {json.dumps(config)}\n" for config in listed)
    return yaml.safe_dump(facts, sort_keys=False, default_flow_style=None) + f"configs:\n{lines}"


def _size(rows: int) -> str:
    """Return the Hub's word for a number of rows."""
    ends = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}
    return next((word for end, word in ends.items() if rows < end), "1M<n<10M")


def sources(configs: Sequence[Config]) -> list[str]:
    """Return the vintage, citation and licence of each survey, once, as lines of the card."""
    places = store.available().values()
    lines = []
    for folder, key in sorted({(place.folder, place.key) for place in places}):
        truth = read_registry(folder)[key]
        source = truth["source"]
        lines.append(
            f"- **{record(truth['survey']).title}**, vintage {truth['vintage']}. "
            f"{source['citation']} {source['licence']} {source['note']} <{source['page']}>"
        )
    tasks = {task for config in configs for task in config.tasks}
    for name, listed in quantities.available().items():
        cited = quantities.load(name).about
        if "citation" in cited and any(task.startswith(name) for task in tasks):
            lines.append(f"- **{listed.title}** ({name}). {cited['citation']}")
    return [*dict.fromkeys(lines), f"- {texts()['names']}"]


def evaluation(configs: Sequence[str]) -> str:
    """Return ``eval.yaml``, which registers a benchmark on the Hub: every config is a task.

    The Hub expects a framework that it knows; it knows Inspect, but not lm-eval.
    """
    said = texts()
    listed = {
        "name": said["title"],
        "description": said["description"],
        "evaluation_framework": "inspect-ai",
        "tasks": [{"id": name, "config": name, "split": "test"} for name in configs],
    }
    return yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=100)
