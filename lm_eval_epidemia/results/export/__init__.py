"""Questions and truths as a Hugging Face dataset repository, for any harness."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import BENCHMARKS, Way
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.splits import displayed, split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import writing
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.results.export.about import texts
from lm_eval_epidemia.results.export.card import dataset_card, evaluation
from lm_eval_epidemia.results.export.config import Config
from lm_eval_epidemia.results.export.croissant import croissant_file

#: What the columns of questions begin with; those of the way follow, and the canary.
_FIRST = ("task", "way", "cell", "ordering", "prompt", "choices", "answers", "given", "truth")


@held()
def export(out: Path, push_to_hub: str | None = None, stated: bool = False) -> Path:
    """Write every available task as a dataset repository.

    Parameters
    ----------
    out : Path
        An empty or new folder. It gets ``README.md`` (the card), ``eval.yaml``,
        ``croissant.json``, of every group the questions in ``data/<group>/test/<task>.parquet``
        and what is true in ``data/<group>/truth.parquet``, and ``task_yamls/`` for ``lm_eval
        --include_path``, which read the questions from the repository instead of the package.
    push_to_hub : str, optional
        Upload to this dataset repository too; the task files then name it.
    stated : bool
        Write only what is answered in writing: for harnesses without log-probabilities.

    Returns
    -------
    Path
        `out`, absolute.

    Raises
    ------
    EpidemiaError
        If `out` is not an empty folder or cannot be written.
    """
    out = out.resolve()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise EpidemiaError(f"{out} exists and is not an empty folder: give a new one")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        try:
            _fill(out, push_to_hub, stated)
        except BaseException:
            # It was empty; half a repository would only be in the way of the next.
            for path in out.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise
    if push_to_hub:
        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(push_to_hub, repo_type="dataset", exist_ok=True)
        api.upload_folder(folder_path=out, repo_id=push_to_hub, repo_type="dataset")
    return out


class _Asked(NamedTuple):
    """A task in a way of asking."""

    benchmark: Benchmark
    entry: TaskEntry
    way: Way


def _fill(out: Path, repository: str | None, stated: bool) -> None:
    def chosen(way: Way) -> bool:
        return way.exported and (way.generated or not stated)

    groups: dict[str, list[_Asked]] = {}
    for benchmark in BENCHMARKS:
        for way in filter(chosen, benchmark.ways.values()):
            for entry in benchmark.asked(way.name):
                asked = _Asked(benchmark, entry, way)
                groups.setdefault(way.named(entry.group), []).append(asked)
    configs = [
        _config(out, name, members)
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
        (out / name).write_text(text, encoding="utf-8")
    yamls.write(out / "task_yamls", yamls.render(repository or str(out), chosen=chosen))


def _config(out: Path, name: str, members: list[_Asked]) -> Config:
    """Write the splits of a config.

    All have the columns of all, with nothing in those of others: `datasets` and the Hub's viewer
    refuse splits of a config that differ in their columns.
    """
    questions, cells = {}, []
    for asked in members:
        task = asked.way.named(asked.entry.name)
        questions[task], of_task = _tables(asked)
        cells += of_task
    first, truth = next(iter(questions.values())), pa.Table.from_pylist(cells)
    schema = pa.unify_schemas([first.schema, truth.schema], promote_options="permissive")
    for task, table in questions.items():
        _write(table, schema, out / yamls.exported_file(name, task))
    columns = {"test": first.column_names}
    if cells:
        _write(truth, schema, out / f"data/{name}/truth.parquet")
        columns["truth"] = truth.column_names
    prompts = sum(table.num_rows for table in questions.values())
    return Config(name, schema, columns, [*questions], prompts)


def _write(table: pa.Table, schema: pa.Schema, path: Path) -> None:
    """Write a table with all columns of a schema."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nothing = {name: pa.nulls(table.num_rows, schema.field(name).type) for name in schema.names}
    columns = nothing | {name: table[name] for name in table.column_names}
    # Arrow aborts the process where a disk is full: what it makes is written by us.
    written = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns).cast(schema), written, compression="zstd")
    path.write_bytes(written.getvalue())


def _tables(asked: _Asked) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the questions of a task, and a row of what is true for each of its cells."""
    benchmark, entry, way = asked
    truth = way.load(entry.name)
    cells, canary = benchmark.cells(truth), texts()["canary"]
    questions = split(entry.name, way.name).data.table.replace_schema_metadata(None)
    columns = {name: questions[name] for name in questions.column_names}
    columns |= {
        "way": pa.array([way.name] * len(questions)),
        "ordering": pa.array(_places(columns["cell"].to_pylist())),
    }
    shown = [name for name in ("cell", "order", "choices") if name in columns]
    rows = questions.select(shown).to_pylist()
    if (answers := displayed(way, truth, rows, cells.get("levels"))) is not None:
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


def _places(cells: list[int]) -> list[int]:
    """Number the prompts of each cell, from 0."""
    before: Counter[int] = Counter()
    places = []
    for cell in cells:
        places.append(before[cell])
        before[cell] += 1
    return places
