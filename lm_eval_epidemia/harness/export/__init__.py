"""Questions and truths as a Hugging Face dataset repository, for any harness."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, Way, in_way
from lm_eval_epidemia.benchmarks.benchmark import Leaf
from lm_eval_epidemia.benchmarks.splits import list_choices, split
from lm_eval_epidemia.core import folders
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.harness.export.card import (
    CardGroup,
    croissant_file,
    dataset_card,
    evaluation,
    texts,
)

#: The file by which a folder is known that was exported before.
MARKER = ".epidemia-export"

#: What the columns of questions begin with; those of the way follow, and the canary.
_FIRST = ("task", "way", "cell", "ordering", "prompt", "choices", "answers", "given", "truth")


def export(out: Path, push_to_hub: str | None = None, stated: bool = False) -> Path:
    """Write every available task as a dataset repository.

    Parameters
    ----------
    out : Path
        A new folder, or an earlier export: its files are replaced once the new ones are complete,
        and other files are kept; see `folders.rewrite_folder`. It gets ``README.md`` (the card),
        ``eval.yaml``, ``croissant.json``, the questions of every group in
        ``data/<group>/test/<task>.parquet`` and its truths in ``data/<group>/truth.parquet``, and
        ``task_yamls/`` for ``lm_eval --include_path``, which read the questions from the repository
        instead of the package.
    push_to_hub : str, optional
        Also upload to this dataset repository; the task files then name it.
    stated : bool
        Export only tasks with written answers, for harnesses without log-probabilities.

    Returns
    -------
    Path
        `out`, absolute.

    Raises
    ------
    EpidemiaError
        If `out` holds other files or another command's output, or cannot be written; if
        `push_to_hub` is not a Hub id; or if the upload fails.
    """
    out = out.resolve()
    if push_to_hub:
        check_hub_id("--push-to-hub", push_to_hub)
    with folders.rewrite_folder(out, MARKER) as staging:
        _fill(staging, out, push_to_hub, stated)
        written = [path.relative_to(staging) for path in staging.rglob("*") if path.is_file()]
    if push_to_hub:
        _upload(out, written, push_to_hub)
    return out


def _upload(folder: Path, files: Iterable[Path], repository: str) -> None:
    """Upload these files of a folder, which may also hold the user's files."""
    from huggingface_hub import CommitOperationAdd, HfApi

    added = [CommitOperationAdd(file.as_posix(), folder / file) for file in files]
    api = HfApi()
    message = f"Questions and truths of lm-eval-epidemia {__version__}"
    try:
        api.create_repo(repository, repo_type="dataset", exist_ok=True)
        api.create_commit(repository, added, commit_message=message, repo_type="dataset")
    except Exception as error:  # of the network, of the Hub, or of its client
        raise EpidemiaError(
            f"{folder} is complete, but the upload to {repository} failed "
            f"({type(error).__name__}: {' '.join(str(error).split())}): "
            f"try again with 'hf upload --repo-type dataset {repository} {folder}'"
        ) from None


def check_hub_id(option: str, repository: str) -> None:
    """Refuse anything but a Hub repository id, before any work."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    with suppress(HFValidationError):
        validate_repo_id(repository)
        if "/" in repository:
            return
    raise EpidemiaError(
        f"{option} {repository!r}: expected an id on the Hub, OWNER/NAME, such as me/questions"
    )


def _fill(folder: Path, out: Path, repository: str | None, stated: bool) -> None:
    """Write the export into a folder that will become `out`, the path in its task files."""

    def chosen(way: Way) -> bool:
        return way.exported and (way.generated or not stated)

    groups: dict[str, list[Leaf]] = {}
    for benchmark in BENCHMARKS.values():
        for way in filter(chosen, benchmark.ways.values()):
            for entry in benchmark.asked(way.name):
                group = way.named(entry.group)
                groups.setdefault(group, []).append(Leaf(benchmark, entry, way.name, group))
    configs = [
        _config(folder, name, members)
        for name, members in track(
            groups.items(), "Groups", console=Console(stderr=True), transient=True
        )
    ]
    pages = {
        "README.md": dataset_card(configs),
        "eval.yaml": evaluation([*groups]),
        "croissant.json": croissant_file(configs, repository),
    }
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    yamls.fill_folder(folder / "task_yamls", yamls.render(repository or str(out), chosen=chosen))


def _config(folder: Path, name: str, members: list[Leaf]) -> CardGroup:
    """Write the splits of a config.

    All splits have all columns, empty if unused: `datasets` and the Hub's viewer refuse splits of a
    config with different columns.
    """
    questions, cells = {}, []
    for asked in members:
        task = in_way(asked.entry.name, asked.way)
        questions[task], of_task = _tables(asked)
        cells += of_task
    first, truth = next(iter(questions.values())), pa.Table.from_pylist(cells)
    schema = pa.unify_schemas([first.schema, truth.schema], promote_options="permissive")
    for task, table in questions.items():
        _write_parquet(table, schema, folder / yamls.exported_file(name, task))
    columns = {"test": first.column_names}
    if cells:
        _write_parquet(truth, schema, folder / f"data/{name}/truth.parquet")
        columns["truth"] = truth.column_names
    prompts = sum(table.num_rows for table in questions.values())
    return CardGroup(name, schema, columns, [*questions], prompts)


def _write_parquet(table: pa.Table, schema: pa.Schema, path: Path) -> None:
    """Write a table with all columns of a schema."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nothing = {name: pa.nulls(table.num_rows, schema.field(name).type) for name in schema.names}
    columns = nothing | {name: table[name] for name in table.column_names}
    # Arrow aborts the process where a disk is full: what it makes is written by us.
    written = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns).cast(schema), written, compression="zstd")
    path.write_bytes(written.getvalue())


def _tables(asked: Leaf) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the questions of a task, and a row of truth for each of its cells."""
    benchmark, entry, way = asked.benchmark, asked.entry, WAYS[asked.way]
    truth = way.load(entry.name)
    cells, canary = benchmark.cells(truth), texts()["canary"]
    questions = split(entry.name, way.name).data.table.replace_schema_metadata(None)
    columns = {name: questions[name] for name in questions.column_names}
    cell = questions["cell"].to_pandas()
    columns |= {
        "way": pa.array([way.name] * len(questions)),
        # The prompts of each cell are numbered from 0.
        "ordering": pa.array(cell.groupby(cell).cumcount()),
    }
    shown = [name for name in ("cell", "order", "choices") if name in columns]
    rows = questions.select(shown).to_pylist()
    if (answers := list_choices(way, truth, rows, cells.get("levels"))) is not None:
        columns["answers"] = pa.array(answers, pa.list_(pa.string()))
    order = dict.fromkeys([*(name for name in _FIRST if name in columns), *columns])
    columns = {name: columns[name] for name in order} | {"canary": [canary] * len(questions)}
    given, fingerprint = way.described(truth) if cells else [], truth.fingerprint
    of_cells = [
        {
            **{"task": entry.name, "cell": cell, "given": given[cell], "truth": fingerprint},
            **{name: values[cell] for name, values in cells.items()},
            "canary": canary,
        }
        for cell in range(len(given))
    ]
    return pa.table(columns), of_cells
