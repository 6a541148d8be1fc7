"""Results as tables: a row per run, and a row per task that a run was asked."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import BENCHMARKS, WAYS, in_way
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.results import decode, naming, replicates
from lm_eval_epidemia.results.collect import ReadFile, read_files, result_files
from lm_eval_epidemia.results.decode import (
    LeafKey,
    leaf,
    read_number,
    to_encodable,
    to_printable,
    to_text,
)
from lm_eval_epidemia.results.naming import KNOWN, add_settings, parse_arguments


class Results(NamedTuple):
    """What was read.

    Attributes
    ----------
    runs : DataFrame
        One row per run, by its number. A run is everything that one model was asked with the same
        settings, in any number of files. Columns: ``model`` (short name), ``settings`` (those that
        are not the usual ones, in words), ``name`` (both), ``kind`` (``run``, ``respondent`` or
        ``published``), ``weights``, ``parameters``, ``date`` (seconds since 1970, of its newest
        file), and one column per setting: a text, empty where it is the usual one.
    scores : DataFrame
        One row per run, task and way: ``run``, ``task``, ``way``, ``group``, ``asked_as`` (what may
        differ between two scores that are then not comparable), ``value`` (the leading metric of
        the benchmark; NaN without a score), ``draws`` and ``population`` (`Draws` or None),
        ``said`` (what was answered, as the file keeps it), ``file``, ``date``, ``task_version`` and
        ``truth`` (empty if they are the installed ones), ``seen``, and one column per other metric,
        NaN where there is none.
    older : DataFrame
        Rows like those of `scores` for which the same run has a newer one, ``value_newest``.
    others : DataFrame
        Other people's tasks: ``run``, ``other`` (the name), ``value``.
    notes : DataFrame
        ``run`` (a name, or empty), ``kind``, ``text``.
    files : DataFrame
        ``run``, ``path``: what was read, the oldest first.
    folders : tuple of Path
        Where it was read.
    """

    runs: pd.DataFrame
    scores: pd.DataFrame
    older: pd.DataFrame
    others: pd.DataFrame
    notes: pd.DataFrame
    files: pd.DataFrame
    folders: tuple[Path, ...] = ()


class Installed(NamedTuple):
    """The truth of a task on this machine."""

    version: int
    fingerprint: str


#: What is said of settings in words, the most important first: see `settings.yaml`.
SETTINGS: dict[str, dict[str, Any]] = KNOWN["said"]

#: Columns of `Results.runs` that are not settings.
NOT_SETTINGS = (
    *("model", "settings", "name", "kind", "weights", "parameters", "date"),
    *("card", "card_folder", "base", "bases"),  # of `tuned` and `choose`
)

#: Columns of `Results.scores` before the metrics.
SCORE = (
    *("run", "task", "way", "group", "asked_as", "value"),
    *("draws", "population", "said", "file", "date", "task_version", "truth", "seen"),
)


def read_results(folders: Iterable[Path]) -> Results:
    """Read the results of any number of runs.

    Parameters
    ----------
    folders : iterable of Path
        Result files, or folders that hold files that lm-eval wrote, at any depth.

    Raises
    ------
    EpidemiaError
        If there is no such file, or none has a task that is known.
    """
    look_at_disk()
    folders = tuple(folders)
    paths = result_files(folders)
    files, unread = read_files(paths)
    # Larger graphs take long to draw: what nobody was asked is left alone.
    tasks = {asked.task for file in files for asked in file.scores}
    installed = {
        task: Installed(benchmark.version(truth), truth.fingerprint)
        for benchmark in BENCHMARKS.values()
        for task in tasks.intersection(benchmark.available())
        for truth in [benchmark.plain.load(task)]  # the same in every way
    }
    notes = [
        (
            "",
            "unread",
            f"{path} is not a result file of lm-eval and was left out ({why}): copy it again from "
            "its source, or run that evaluation again",
        )
        for path, why in unread
    ]
    notes += [("", "file", note) for file in files for note in file.notes]
    if not any(file.scores or file.others for file in files):
        listed = to_printable(few([str(path) for path in paths]))
        lines = [f"no epidemia task is in {listed}", *(to_printable(text) for *_, text in notes)]
        raise EpidemiaError("\n".join(lines))
    return _with_notes(_tables(files, installed), notes, files, folders)


def _tables(files: Sequence[ReadFile], installed: Mapping[str, Installed]) -> Results:
    """Put files into tables, the oldest first."""
    labels = decode.labels_of([other for file in files for other in file.others])
    runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    numbers: dict[tuple[Any, ...], int] = {}
    scores: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    read: list[dict[str, Any]] = []
    for file in files:
        config, settings = file.content.config, settings_in(file, installed)
        weights = naming.weights_of(config, file.content.model_name)
        identity = (weights, *sorted(settings.items()))
        run = numbers.setdefault(identity, len(numbers))
        row = runs.setdefault(identity, {"weights": weights, "parameters": math.nan, **settings})
        size = read_number(config.model_num_parameters)
        row["parameters"] = size if 0 < size < math.inf else row["parameters"]
        row["date"] = read_number(file.content.date)
        row["card"] = None  # see `tuned.add_cards`
        read.append({"run": run, "path": file.path})
        scores += [{"run": run} | row for row in _score_rows(file, installed)]
        others += [
            {"run": run, "other": labels[other], "value": value}
            for other, value in file.others.items()
        ]
    table = name_runs(pd.DataFrame(list(runs.values())).rename_axis("run"))
    with pd.option_context("future.infer_string", False):  # reading rows takes half as long
        every = pd.DataFrame(scores, columns=None if scores else [*SCORE])
    key = ["run", "task", "way"]
    is_older = every.duplicated(key, keep="last")
    newest = every[~is_older].reset_index(drop=True)
    older = every[is_older].merge(newest[[*key, "value"]], on=key, suffixes=("", "_newest"))
    beside = pd.DataFrame(others, columns=["run", "other", "value"])
    return Results(
        table,
        newest,
        older,
        beside.drop_duplicates(["run", "other"], keep="last"),
        pd.DataFrame([], columns=["run", "kind", "text"]),
        pd.DataFrame(read, columns=["run", "path"]),
    )


def _with_notes(
    results: Results,
    notes: list[tuple[str, str, str]],
    files: Sequence[ReadFile],
    folders: tuple[Path, ...],
) -> Results:
    """Say what is superseded, without a score or an error; remove draws that do not match."""
    scores, names = results.scores, results.runs["name"]
    for run, of in results.older.groupby("run"):
        paths = sorted({str(path) for path in of["file"]})
        text = (
            f"{plural(len({*_name_tasks(of)}), 'task')} asked more than once with the same "
            f"settings; the newest result of each counts, not those in "
            f"{plural(len(paths), 'older file')} ({few(paths)})"
        )
        differs = (of["value"] - of["value_newest"]).abs() > 1e-9
        if others := few([*dict.fromkeys(_name_tasks(of[differs]))]):
            text += f", which had another score in {others}"
        notes.append((names[run], "superseded", text))
    is_scored = [of.benchmark.scored for of in decode.leaves_of(scores)]
    unscored = scores[scores["value"].isna() & np.array(is_scored, bool)]
    for run, of in unscored.groupby("run"):
        text = f"no score (NaN) in {plural(len(of), 'task')}: {few([*of['task']])}"
        notes.append((names[run], "unscored", text))
    older_files = {file.path for file in files if file.content.epidemia is None}
    unfit = {
        of: replicates.find_conflicts(drawn.sample for drawn in draws if drawn)
        for of, draws in scores["draws"].groupby([scores["run"], scores["group"]])
    }
    clashes = [unfit[of] for of in zip(scores["run"], scores["group"], strict=True)]
    pairs = zip(scores["draws"], clashes, strict=True)
    clashing = [drawn is not None and drawn.sample in samples for drawn, samples in pairs]
    scores.loc[clashing, ["draws", "population"]] = None
    rows = [*scores.itertuples()]
    whys = [_without_error(*of, older_files) for of in zip(rows, clashes, strict=True)]
    no_error = pd.Series(whys, dtype=object)
    reasons: dict[int, list[str]] = defaultdict(list)
    for (run, why), of in scores.groupby(["run", no_error], sort=False):
        reasons[run].append(f"{_count_tasks(of)}: {why}")
    for run, listed in reasons.items():
        notes.append((names[run], "errors", f"no errors (N/A) for {'; for '.join(listed)}"))
    no_answers = pd.Series(map(_without_answers, rows), dtype=object)
    for (run, why), of in scores.groupby(["run", no_answers]):
        text = f"tables from recorded answers leave out {_count_tasks(of)}, {why}: run them again"
        notes.append((names[run], "answers", text))
    if apart := replicates.find_conflicts(drawn.sample for drawn in scores["draws"] if drawn):
        text = (
            f"models were scored with different replicates of one survey ({few(sorted(apart))}), "
            "so differences between them have no error there and count as ties: run one again"
        )
        notes.append(("", "replicates", text))
    told = [(to_printable(run), kind, to_printable(text)) for run, kind, text in notes]
    table = pd.DataFrame(told, columns=["run", "kind", "text"])
    return results._replace(notes=table, folders=folders)


def _name_tasks(scores: pd.DataFrame) -> list[str]:
    return [*map(in_way, scores["task"], scores["way"])]


def _count_tasks(scores: pd.DataFrame) -> str:
    return f"{plural(len(scores), 'task')} ({few(_name_tasks(scores))})"


def _without_error(row: Any, unfit: set[str], older: set[Path]) -> str | None:
    """Say why the error of a score is not known; None if it is, or there is none."""
    benchmark = leaf(LeafKey(row.task, row.way)).benchmark
    primary = getattr(row, benchmark.primary, row.value)
    if row.draws or math.isnan(primary) or not benchmark.has_error:
        return None
    if unfit:
        return "scored with different replicates of one survey; run them again"
    if row.said is None and benchmark.headline:
        return None  # Its draws are of what was said.
    if row.file in older:
        return "written by an older version, or without our hook; run it again"
    if row.seen < 1 and row.said is not None and not isinstance(row.said, str):
        return "--limit left too few of them; raise it"
    return "the file has no draws for them; run them again"


def _without_answers(row: Any) -> str | None:
    """Say why there are no answers behind a score; None if there are, or none are needed."""
    of = leaf(LeafKey(row.task, row.way)).benchmark
    known = of.read_kept and row.task in of.available() and row.said is None
    why = "come from another truth than the installed one" if row.truth else "are not in the file"
    has_score = not math.isnan(getattr(row, of.primary, row.value))
    return f"whose answers {why}" if known and has_score else None


def name_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the names of models and runs; no two runs have the same."""
    short = naming.short_names({*runs["weights"]})
    settings = [name for name in runs if name not in NOT_SETTINGS]
    runs[settings] = runs[settings].fillna("")
    runs["model"] = [to_printable(short[weights]) for weights in runs["weights"]]
    runs["kind"] = [
        "respondent" if weights.model.startswith("epidemia-baseline") else "run"
        for weights in runs["weights"]
    ]
    settings.sort(key=lambda name: [*SETTINGS, name].index(name))
    known = runs[settings].where(runs[settings] != "")
    several = known.groupby(runs["weights"]).transform("nunique") > 1
    both = (of[settings].to_dict("records") for of in (runs, several))
    runs["settings"] = [", ".join(_describe_settings(*of)) for of in zip(*both, strict=True)]
    twins = runs.groupby(["model", "settings"]).cumcount()
    runs["settings"] += [f" [{twin + 1}]" if twin else "" for twin in twins]
    runs["settings"] = runs["settings"].str.strip()
    pairs = zip(runs["model"], runs["settings"], strict=True)
    runs["name"] = [add_settings(model, filter(None, [words])) for model, words in pairs]
    return runs[[*runs.columns.intersection(NOT_SETTINGS), *settings]]


def _describe_settings(row: Mapping[str, str], several: Mapping[str, bool]) -> Iterator[str]:
    """Say the settings of a run that are not the usual ones."""
    for name, value in row.items():
        silent = SETTINGS.get(name, {}).get("silent", ())
        if value and (several[name] or not {value, "*"} & {*silent}):
            yield describe_setting(name, value)


def describe_setting(name: str, value: str) -> str:
    """Say a setting: ``limit 10``, ``temperature=0.5``."""
    words = SETTINGS[name]["words"] if name in SETTINGS else f"{name}={{value}}"
    return to_printable(words.format(value=value))


def settings_in(file: ReadFile, installed: Mapping[str, Installed]) -> dict[str, str]:
    """Return the settings of a file's run: texts, without those that are the usual ones."""
    read, asked = file.content, list(file.scores)
    each = [_find_settings(file, a, installed) for a in asked]
    weights = naming.weights_of(read.config, read.model_name)
    revision = [part for part in weights.more if part.startswith("revision=")]
    told = {
        **dict(naming.settings_of(read.config)),
        "revision": "".join(revision).removeprefix("revision="),
        "chat_template": "yes" if read.chat_template or naming.is_chat(read.config) else "",
        "template": decode.sha_of(read.chat_template_sha, read.chat_template),
        "system": decode.sha_of(read.system_instruction_sha, read.system_instruction),
        "limit": _limit(file),
        **{key: _join_values(of.get(key) for of in each) for key in dict.fromkeys(chain(*each))},
    }
    if any(WAYS[way].drawn for _, way in asked) and read.config.torch_seed is not None:
        told["torch_seed"] = str(read.config.torch_seed)
    return {key: to_encodable(value) for key, value in told.items() if value}


def _find_settings(
    file: ReadFile, asked: LeafKey, installed: Mapping[str, Installed]
) -> dict[str, Any]:
    """Return the settings that a task was asked with, where they are not the usual ones.

    Among them its version and its truth (vintage and fingerprint): empty if these are installed.
    """
    metadata, way, here = file.metadata[asked], WAYS[asked.way], installed.get(asked.task)
    usual, truth = here and here.version + way.revision, str(metadata.get("truth") or "")
    version = file.content.versions.get(in_way(*asked), usual)
    is_usual = here is None or version == usual
    is_here = truth in ("", here and here.fingerprint)
    told: dict[str, Any] = {
        "num_fewshot": file.content.shots.get(in_way(*asked)) or None,
        "task_version": "" if is_usual else str(version),
        "truth": "" if is_here else " ".join([*str(metadata.get("vintage", "")).split(), truth]),
    }
    if way.generated:
        given = parse_arguments(file.content.config.gen_kwargs).items()
        told |= {key: decode.format_setting(value) for key, value in given}
        if told.get("temperature") == decode.format_setting(way.temperature):
            del told["temperature"]
    return told | {
        key: to_text(metadata[key])  # False is a value
        for key, usual in Variant()._asdict().items()
        if metadata.get(key) not in (None, usual)
    }


def _join_values(values: Iterable[Any]) -> str:
    return " ".join(sorted({to_text(value) for value in values} - {""}))


def _limit(file: ReadFile) -> str:
    """Return the ``--limit`` that cut something off; ``incomplete`` if it was not a limit."""
    scores = file.scores.values()
    if scores and all(score.seen >= 1 for score in scores):
        return ""
    # Of other people's tasks a file does not say how much was asked.
    return to_text(file.content.config.limit) or ("incomplete" if scores else "")


def _score_rows(file: ReadFile, installed: Mapping[str, Installed]) -> Iterator[dict[str, Any]]:
    """Yield a row for each of our tasks in a file."""
    for asked, score in file.scores.items():
        told = _find_settings(file, asked, installed)
        yield {
            **asked._asdict(),
            "group": leaf(asked).group,
            "asked_as": _asked_as(file, asked, told),
            **{"value": score.value, "draws": score.draws, "population": score.population},
            **{"said": score.said, "file": file.path, "date": read_number(file.content.date)},
            **{key: to_encodable(told[key]) for key in ("task_version", "truth")},
            "seen": score.seen,
            **{name: x for name, x in score.metrics.items() if name != "seen"},
        }


def _asked_as(file: ReadFile, asked: LeafKey, settings: Mapping[str, Any]) -> str:
    """Say the settings that a score heeds, where they are not the usual ones."""
    read, heeds = file.content, leaf(asked).heeds
    told = {
        key: value
        for key, value in settings.items()
        if key not in ("n_samples", "max_gen_toks") and (key not in Variant._fields or heeds(key))
    }
    told["limit"] = read.config.limit if file.scores[asked].seen < 1 else None
    told["system"] = decode.sha_of(read.system_instruction_sha, read.system_instruction)
    parts = [f"{key}={to_text(value)}" for key, value in sorted(told.items()) if value]
    return to_encodable("; ".join(parts))
