"""The questions as a Hugging Face dataset repository, with task files that read from it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import track

from lm_eval_epidemia.benchmarks import BENCHMARKS
from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError, plural
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.paths import writing
from lm_eval_epidemia.core.version import __version__
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.surveys.catalogue import record

_COLUMNS = """
| column | meaning |
|---|---|
| `task` | name of the task in lm-eval |
| `truth` | fingerprint of the ground truth the question was made from |
| `cell` | number of the combination of condition values, of the prompt, or of the quantity |
| `given` | the conditions, as `variable: level`; of causal graphs, what is asked of which |
| `order` | level number shown at each letter |
| `design` | which orders the question is asked in |
| `level` | in the other configs, instead of these two: the level whose probability is asked for |
| `sample` | of priors, instead: which of the times that the quantity is asked about, from 1 |
| `family`, `unit` | of priors: the distribution that is asked for, and the unit of the quantity |
| `choices` | the letters; of causal graphs Yes and No; of a quantity (`_grid`) its numbers |
| `prompt` | the text a model continues with one of these, or in writing (`_written`, priors) |
"""

#: Where names of variables come from, for the card.
_NAMES = (
    "- **Tübingen cause-effect pairs** (names and directions, in epidemia_intervention). J. M. "
    "Mooij, J. Peters, D. Janzing, J. Zscheischler and B. Schölkopf, Distinguishing Cause from "
    "Effect Using Observational Data, JMLR 17(32), 2016; list from tejaskasetty/"
    "interventional-reasoning-llms, MIT License."
)


def _data_file(config: str, name: str) -> dict[str, str]:
    return {"split": name, "path": f"data/{config}/{name}.parquet"}


def _card(configs: dict[str, list[str]], places: dict[str, store.Place]) -> str:
    """Write the dataset card: YAML header, contents, vintages, licences and citations."""
    header = {
        "pretty_name": "lm-eval-epidemia",
        "language": ["en"],
        "license": "other",
        "license_name": "us-public-use-files",
        "tags": ["evaluation", "surveys", "probability", "lm-eval"],
        "configs": [
            {"config_name": config, "data_files": [_data_file(config, name) for name in names]}
            for config, names in configs.items()
        ],
    }
    sources = []
    for folder, key in sorted({(place.folder, place.key) for place in places.values()}):
        truth = store.read_registry(folder)[key]
        source = truth["source"]
        sources.append(
            f"- **{record(truth['survey']).title}**, vintage {truth['vintage']}. "
            f"{source['citation']} {source['licence']} {source['note']} <{source['page']}>"
        )
    names = {name for each in configs.values() for name in each}
    sources += [
        f"- **{listed.title}** ({name}). {about['citation']}"
        for name, listed in quantities.available().items()
        if name in names
        for about in [quantities.load(name).about]
        if "citation" in about
    ]
    counts = "\n".join(
        f"- `{config}`: {plural(len(names), 'task')}" for config, names in configs.items()
    )
    return (
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n"
        "# Questions of lm-eval-epidemia\n\n"
        "Does a language model know how often things happen? Each row asks how one group of people "
        "answers one survey question, with the answers lettered in one order; in the configs "
        "`epidemia_intervention...`, what an intervention changes in a causal graph; in "
        "`epidemia_prior...`, what a number is, and how sure one is of it. Scores come "
        f"from lm-eval-epidemia {__version__}, which holds what is true; this dataset holds "
        "questions and no answers.\n\n"
        f"{counts}\n{_COLUMNS}\n## Sources\n\n" + "\n".join([*sources, _NAMES]) + "\n"
    )


@held()
def export(out: Path, push_to_hub: str | None = None) -> Path:
    """Write every available task as a dataset repository.

    Parameters
    ----------
    out : Path
        An empty or new folder. It gets ``README.md`` (the card), ``data/<group>/<task>.parquet``
        and ``task_yamls/`` for ``lm_eval --include_path``, which read the questions from the
        repository instead of the package.
    push_to_hub : str, optional
        Upload to this dataset repository too; the task files then name it.

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
            _fill(out, push_to_hub or str(out))
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


def _fill(out: Path, dataset: str) -> None:
    places = store.available()
    configs: dict[str, list[str]] = {}
    exported = [
        (entry, way)
        for benchmark in BENCHMARKS
        for way in benchmark.ways.values()
        if way.exported
        for entry in benchmark.asked(way.name)
    ]
    for entry, way in track(exported, "Tasks", console=Console(stderr=True), transient=True):
        config, name = entry.group + way.suffix, entry.name + way.suffix
        configs.setdefault(config, []).append(name)
        folder = out / "data" / config
        folder.mkdir(parents=True, exist_ok=True)
        # Arrow aborts the process where a disk is full: what it makes is written by us.
        table = io.BytesIO()
        split(entry.name, way.name).to_parquet(table)
        (folder / f"{name}.parquet").write_bytes(table.getvalue())
    (out / "README.md").write_text(_card(configs, places), encoding="utf-8")
    yamls.write(out / "task_yamls", yamls.render(dataset=dataset))
