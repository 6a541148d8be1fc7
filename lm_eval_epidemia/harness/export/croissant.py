"""The Croissant file of an exported repository (mlcommons.org/croissant/1.0), with RAI fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.harness.export.config import Config, texts

#: The specification's, to which readers compare.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        name: f"cr:{name}"
        for name in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty"),
            *("fileObject", "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key"),
            *("md5", "parentField", "path", "recordSet", "references", "regex", "repeated"),
            *("replace", "samplingRate", "separator", "source", "subField", "transform"),
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}

_CITE = "The lm-eval-epidemia authors, lm-eval-epidemia; the surveys as README.md cites them."


def croissant_file(configs: Sequence[Config], repository: str | None) -> str:
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
        "@context": _CONTEXT,
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


def _fields(config: Config, split: str) -> Iterator[dict[str, Any]]:
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
