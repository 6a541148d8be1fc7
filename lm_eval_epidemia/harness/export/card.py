"""What an exported repository says of itself: its card, `eval.yaml` and its Croissant file.

Croissant is mlcommons.org/croissant/1.0, with RAI fields.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import pyarrow as pa
import yaml

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import read_registry
from lm_eval_epidemia.surveys.catalogue import find_record


def dataset_card(configs: Sequence[CardGroup]) -> str:
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
        configs="\n".join(_format_rows(configs)),
        test=columns("test"),
        truth=columns("truth"),
        limits="\n".join(f"- {text}" for text in [*rai["dataLimitations"], *rai["dataBiases"]]),
        personal=rai["personalSensitiveInformation"],
        uses=rai["dataUseCases"],
        sources="\n".join(sources(configs)),
    )


def _format_rows(configs: Sequence[CardGroup]) -> Iterator[str]:
    """Yield a row for each group: its configs in all ways of asking, with tasks and prompts."""
    names, of_group = {config.name for config in configs}, defaultdict[str, list[CardGroup]](list)
    for config in configs:
        bases = (config.name.removesuffix(way.suffix) for way in WAYS.values() if way.suffix)
        others = (base for base in bases if base != config.name and base in names)
        of_group[next(others, config.name)].append(config)
    for base, alike in of_group.items():
        also = ", ".join(f"`{config.name.removeprefix(base)}`" for config in alike[1:])
        tasks = dict.fromkeys(str(len(config.tasks)) for config in alike)
        prompts = "; ".join(f"{config.prompts:,}" for config in alike)
        yield f"| `{base}`{also and f', also {also}'} | {'; '.join(tasks)} | {prompts} |"


def _header(configs: Sequence[CardGroup]) -> str:
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


def sources(configs: Sequence[CardGroup]) -> list[str]:
    """Return the vintage, citation and licence of each survey, once, as lines of the card."""
    places = store.list_available().values()
    lines = []
    for folder, key in sorted({(place.folder, place.key) for place in places}):
        truth = read_registry(folder)[key]
        source = truth["source"]
        lines.append(
            f"- **{find_record(truth['survey']).title}**, vintage {truth['vintage']}. "
            f"{source['citation']} {source['licence']} {source['note']} <{source['page']}>"
        )
    tasks = {task for config in configs for task in config.tasks}
    for name, listed in quantities.list_available().items():
        cited = quantities.load_quantities(name).about
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


@lru_cache(maxsize=1)
def texts() -> dict[str, Any]:
    """Return the texts of the card and the Croissant file."""
    return dict(read_yaml(__package__, "about.yaml"))


class CardGroup(NamedTuple):
    """A group's entry in the card and the Croissant file.

    Attributes
    ----------
    name : str
        The group's name in lm-eval.
    schema : pyarrow.Schema
        Schema of all its files.
    columns : dict of str to list of str
        Columns filled, by split: "test" and, if truths are exported, "truth".
    tasks : list of str
    prompts : int
    """

    name: str
    schema: pa.Schema
    columns: Mapping[str, Sequence[str]]
    tasks: Sequence[str]
    prompts: int

    def files(self, split: str) -> str:
        """Return the pattern of a split's files."""
        return f"data/{self.name}/{split}" + ("/*.parquet" if split == "test" else ".parquet")


_CITE = "The lm-eval-epidemia authors, lm-eval-epidemia; the surveys as README.md cites them."


def croissant_file(configs: Sequence[CardGroup], repository: str | None) -> str:
    """Return the Croissant file.

    Parameters
    ----------
    configs : sequence of Config
    repository : str, optional
        Hub id that holds the files; otherwise they are beside this one.
    """
    said = texts()
    splits = [(config, split) for config in configs for split in config.columns]
    within = {"containedIn": {"@id": "repository"}} if repository else {}
    written = {
        "@context": said["context"],
        "@type": "sc:Dataset",
        "name": said["title"],
        "description": said["description"],
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "version": __version__,
        "license": said["licence"],
        "creator": {"@type": "sc:Organization", "name": "The lm-eval-epidemia authors"},
        "citeAs": _CITE,
        "keywords": said["tags"],
        **({"url": f"https://huggingface.co/datasets/{repository}"} if repository else {}),
        **{f"rai:{name}": text for name, text in said["rai"].items()},
        "distribution": [
            *_repository(repository),
            *(
                {
                    "@type": "cr:FileSet",
                    "@id": f"{config.name}-{split}-files",
                    "name": f"{config.name}-{split}-files",
                    "encodingFormat": "application/x-parquet",
                    "includes": config.files(split),
                    **within,
                }
                for config, split in splits
            ),
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": f"{config.name}-{split}",
                "name": f"{config.name}-{split}",
                "field": [*_fields(config, split)],
            }
            for config, split in splits
        ],
    }
    return json.dumps(written, ensure_ascii=False, indent=1) + "\n"


def _repository(repository: str | None) -> Iterator[dict[str, Any]]:
    if repository:
        yield {
            "@type": "cr:FileObject",
            "@id": "repository",
            "name": "repository",
            "contentUrl": f"https://huggingface.co/datasets/{repository}",
            "encodingFormat": "git+https",
            # A repository has no hash; this is how the specification's examples say so.
            "sha256": "https://github.com/mlcommons/croissant/issues/80",
        }


def _fields(config: CardGroup, split: str) -> Iterator[dict[str, Any]]:
    meaning = texts()["columns"][split]
    for name in config.columns[split]:
        kind, depth = config.schema.field(name).type, 0
        while pa.types.is_list(kind):
            kind, depth = kind.value_type, depth + 1
        number = "sc:Float" if pa.types.is_floating(kind) else "sc:Integer"
        yield {
            "@type": "cr:Field",
            "@id": f"{config.name}-{split}/{name}",
            "name": name,
            "description": meaning.get(name, name),
            "dataType": "sc:Text" if pa.types.is_string(kind) else number,
            **({"repeated": True} if depth else {}),
            "source": {
                "fileSet": {"@id": f"{config.name}-{split}-files"},
                "extract": {"column": name},
            },
        }
