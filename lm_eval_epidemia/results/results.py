"""lm-eval's result files: who answered what, how it was asked, and what it scored."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.benchmarks import BENCHMARKS, OBSERVATION, WAYS, in_way, leaves
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, built
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.names import GROUPS
from lm_eval_epidemia.core.paths import fresh_tasks, home
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, Score, leaf
from lm_eval_epidemia.results.naming import Config, is_chat, pairs, settings_of, weights_of
from lm_eval_epidemia.results.protocol import Protocol, printable
from lm_eval_epidemia.results.replicates import (
    ENDLESS,
    Joint,
    Unusable,
    counted,
    draws_of,
    in_conflict,
    said_in,
)
from lm_eval_epidemia.results.runs import Piece, rows_of
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.fresh import GROUP

#: What a prompt variant changes so that scores cannot be compared. The number of sampled answers is
#: not among it: it changes how precise a score is, not what it estimates.
INCOMPARABLE = (
    "orderings",
    "fewshot",
    "gen_prefix",
    "leading_space",
    "names",
    "system_prompt",
    "structured",
    "wording",
)

#: Metrics of other tasks: the first that a task has is shown. Where it has none of these, it is one
#: that is better when higher, else one that is better when lower, else any.
OTHER_METRICS = ("acc_norm", "acc", "exact_match", "f1")

#: What lm-eval writes of a task beside its metrics.
_NO_METRIC = ("name", "alias", "sample_len", "sample_count", " ")

#: A task or group of one survey.
_OF_OWN = re.compile(r"epidemia_(?:extra_|marginal_)?([a-z][a-z0-9]*)(?:_|$)")

#: What rounding may add to a bound.
ROUNDING = 1e-6


class Results(NamedTuple):
    """What was read.

    Attributes
    ----------
    entries : list of Entry
        In the order of their names.
    notes : list of str
        What a reader must know: files left out, runs superseded, scores that do not exist.
    folders : tuple of Path
        What was read.
    """

    entries: list[Entry]
    notes: list[str]
    folders: tuple[Path, ...] = ()


class _Task(msgspec.Struct):
    metadata: dict[str, Any] | None = None


class _File(msgspec.Struct):
    """What is read of a result file; lm-eval writes more."""

    results: dict[str, dict[str, Any]]
    config: Config = msgspec.field(default_factory=Config)
    configs: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    shots: dict[str, Any] = msgspec.field(default_factory=dict, name="n-shot")
    group_subtasks: dict[str, list[str]] = {}
    higher_is_better: dict[str, Any] = {}
    date: Any = None
    chat_template: Any = None
    system_instruction: str = ""
    system_instruction_sha: str = ""
    epidemia: Joint | None = None


class _Other(NamedTuple):
    """A metric of another task, and how it was asked: values that differ in it are never merged."""

    task: str
    metric: str
    filter: str
    shots: str
    version: str
    limit: str
    lower_is_better: bool


class _Run(NamedTuple):
    """A result file, with the scores of ours in it and what their tasks were made with, by name."""

    path: Path
    file: _File
    scores: dict[str, Score]
    metadata: dict[str, dict[str, Any]]
    others: dict[_Other, float]
    notes: list[str]


def model_size(text: str) -> float:
    """Read a number of parameters: ``7B``, ``350M``, ``1.5e9``."""
    units = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    number, unit = text.strip(), 1.0
    if number and number[-1].upper() in units:
        unit, number = units[number[-1].upper()], number[:-1]
    try:
        size = float(number) * unit
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise EpidemiaError(f"size {text!r}: expected a number of parameters such as 7B or 350M")
    return size


def _number(value: Any) -> float:
    """Read a number that may be missing or "N/A"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _plain(value: Any) -> str:
    """Write a setting as it was given: lm-eval keeps a ``--limit`` of 4 as 4.0."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _variant(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what was asked of the prompts that is not so by default."""
    return tuple(
        (key, str(metadata[key]))
        for key, usual in Variant()._asdict().items()
        if metadata.get(key) is not None and metadata[key] != usual
    )


def _protocol(name: str, asked: Asked, run: _Run, installed: Mapping[str, Any]) -> Protocol:
    """Return what keeps a score from being compared with others."""
    file, metadata, way = run.file, run.metadata[name], WAYS[asked.way]
    shots = _number(file.shots.get(name, 0))
    prompt = hashlib.sha256(file.system_instruction.encode("utf-8", "replace")).hexdigest()
    truth = installed.get(asked.task)
    usual = leaf(asked).benchmark.version(truth) + way.revision if truth else None
    found = file.versions.get(name, usual)
    fingerprint = str(metadata.get("truth") or "")
    other = fingerprint not in ("", truth.fingerprint if truth else None)
    # With a --limit that a task does not reach, nothing is missing.
    incomplete = run.scores[name].seen < 1
    drawn = pairs(file.config.gen_kwargs).items() if way.generated else ()
    return Protocol(
        variant=tuple(
            pair
            for pair in _variant(metadata)
            if pair[0] in INCOMPARABLE and leaf(asked).heeds(pair[0])
        ),
        num_fewshot=f"{shots:g}" if shots else "",
        system_prompt=(file.system_instruction_sha or prompt) if file.system_instruction else "",
        task_version="" if usual in (None, found) else str(found),
        truth=fingerprint if other else "",
        vintage=str(metadata.get("vintage", "")) if other else "",
        incomplete=incomplete,
        limit=_plain(file.config.limit) if incomplete else "",
        drawn=tuple((key, str(value)) for key, value in drawn if key != "max_gen_toks"),
    )


def _read(path: Path, names: Mapping[str, Asked]) -> _Run:
    """Read a result file; ValueError, with the reason, if lm-eval did not write it so."""
    # A pipe would wait for its writer.
    if not path.is_file():
        raise ValueError("not a file but a folder" if path.is_dir() else "not a file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            found = {key: value for key, value in found.items() if value is not None}
        file = msgspec.convert(found, _File)
    except RecursionError:
        raise ValueError("brackets in brackets without end") from None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    ours = {
        name: row
        for name, row in file.results.items()
        if name in names and f"{leaves()[name].benchmark.primary},none" in row
    }
    metadata = {
        name: msgspec.convert(file.configs.get(name) or {}, _Task).metadata or {} for name in ours
    }
    joint = file.epidemia or Joint()
    scores, notes = {}, _unknown(path, file, names)
    for name, row in ours.items():
        endless = [metric for metric in leaves()[name].metrics if _is_endless(name, metric, row)]
        if endless:
            notes.append(
                f"{path}: {name}: {few(endless)} is infinite, or too large to reckon with, and "
                "counts as not known: one reply may be absurd; look at the other metrics in the "
                "file, as tables leave out a task without its score"
            )
        known = {
            key: math.nan if key.partition(",")[0] in endless else value
            for key, value in row.items()
        }
        primary = leaves()[name].benchmark.primary
        lost = {primary, f"{primary}_stderr"} & set(endless)
        scores[name] = _score(name, known, path, None if lost else joint.replicates.get(name))
        if name in joint.said:
            numbers = {
                metric: _number(known.get(f"{metric},none")) for metric in leaves()[name].metrics
            }
            try:
                said = said_in(name, joint.said[name], numbers, metadata[name].get("truth"))
            except Unusable as error:
                said = None
                notes.append(
                    f"{path}: {name}: its truth on this machine cannot be used, so that the tables "
                    f"made of what was said leave it out: {error}"
                )
            scores[name] = scores[name]._replace(said=said)
    others = _others(file, names)
    if without := [one for one, value in others.items() if math.isnan(value)]:
        labels = _labels(without)
        notes.append(
            f"{path}: left out are {few([labels[one] for one in without])}: no metric of theirs is "
            "a finite number"
        )
    others = {one: value for one, value in others.items() if not math.isnan(value)}
    return _Run(path, file, scores, metadata, others, notes)


def _is_endless(name: str, metric: str, row: Mapping[str, Any]) -> bool:
    """Whether a metric without an upper bound is larger than can be reckoned with."""
    return (
        leaves()[name].metrics[metric].high == math.inf
        and _number(row.get(f"{metric},none")) > ENDLESS
    )


def _unknown(path: Path, file: _File, names: Mapping[str, Asked]) -> list[str]:
    """Say which tasks of ours are not known here."""
    ours = {in_way(group, one.way) for one in leaves().values() for group in one.entry.groups}
    unknown = [
        name
        for name in file.results
        if name.startswith("epidemia_")
        and name not in names
        and name not in ours
        and not file.group_subtasks.get(name)
    ]
    notes = []
    if sets := [name for name in unknown if name.startswith(PREFIX)]:
        notes.append(
            f"{path}: left out are {few(sets)}, of quantities that are not here: make the set with "
            "'epidemia quantities new SURVEY --raw FILE --n N --seed SEED' as it was made, or copy "
            f"its files (.json and .draws.parquet) into {built()}"
        )
    if drawn := [name for name in unknown if name.startswith(f"{GROUP}_")]:
        notes.append(
            f"{path}: left out are {few(drawn)}, fresh tasks that are not here: make the set with "
            "'epidemia tasks fresh SURVEY --raw FILE --n N --seed SEED' as it was made, or copy "
            f"its folder into {fresh_tasks()}"
        )
    others = [name for name in unknown if not name.startswith((PREFIX, f"{GROUP}_"))]
    surveys = {name: str(match[1]) for name in others if (match := _OF_OWN.match(name))}
    mine = {name: one for name, one in surveys.items() if one not in {*records(), *GROUPS}}
    if mine:
        notes.append(
            f"{path}: left out are {few(list(mine))}: there is no record of "
            f"{few(list(dict.fromkeys(mine.values())))} here. Of your own surveys a report needs "
            f"the record and the truth: copy both from where they were run (here "
            f"{home() / 'surveys'} and {home() / 'groundtruth'}), or name the record with --record "
            "and build anew"
        )
    if others := [name for name in others if name not in mine]:
        notes.append(
            f"{path}: left out are {few(others)}, which this version of lm-eval-epidemia does not "
            "know: install the one that they were run with"
        )
    return notes


def _score(name: str, row: Mapping[str, Any], source: Path, joint: dict[str, Any] | None) -> Score:
    mine = leaves()[name]
    known, primary = mine.metrics, mine.benchmark.primary
    without = math.isnan(_number(row[f"{primary},none"]))
    numbers = {}
    for key, value in row.items():
        metric, _, of = key.partition(",")
        if of == "none":
            low, high = known[metric][2:4] if metric in known else (-math.inf, math.inf)
            # Probabilities that sum to more than 1 are why there is no score.
            high = math.inf if without and metric == "choice_mass" else high
            numbers[metric] = number = _number(value)
            unknown = value == "N/A" or (isinstance(value, float) and math.isnan(value))
            inside = math.isfinite(number) and low - ROUNDING <= number <= high + ROUNDING
            if not (unknown or inside):
                bounded = math.isfinite(low) or math.isfinite(high)
                expected = f"{low} to {high}" if bounded else "a number"
                raise ValueError(f"{name}: {metric} is {reprlib.repr(value)}, expected {expected}")
    value, draws = numbers.pop(primary), {}
    # What has no score has no draws, whatever is written of it.
    if joint is not None and not without:
        try:
            bounds = {primary: known[primary][2:4] if known[primary].cut else (-ENDLESS, ENDLESS)}
            # Only there a sample is one of a survey: elsewhere it is one of questions.
            survey = mine.entry.facets["survey"] if mine.benchmark is OBSERVATION else ""
            draws = draws_of(joint, survey, bounds)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    more = {printable(metric): x for metric, x in numbers.items() if "stderr" not in metric}
    return Score(value, draws.get(primary), more, draws.get(POPULATION), source)


def _others(file: _File, ours: Collection[str]) -> dict[_Other, float]:
    """Return a metric of each other task and filter, of groups instead of their members.

    NaN where none is a finite number.
    """
    groups = {name for name, listed in file.group_subtasks.items() if listed}
    rows = {
        name: metrics
        for name, row in file.results.items()
        if name not in ours and not name.startswith("epidemia_")
        # A group without metrics of its own is no task that lacks them.
        if (metrics := _metrics(row) or ({} if name in groups else {"": {"no metric": math.nan}}))
    }
    # A group stands for its members where it has a number.
    members = {
        member
        for name in groups & rows.keys()
        if not all(math.isnan(one) for numbers in rows[name].values() for one in numbers.values())
        for member in file.group_subtasks[name]
    }
    found = {}
    for name in (name for name in rows if name not in members):
        better = file.higher_is_better.get(name)
        higher = better if isinstance(better, dict) else {}
        asked = file.shots.get(name), file.versions.get(name), file.config.limit
        shots, version, limit = map(_plain, asked)
        for filtered, numbers in rows[name].items():
            known = [metric for metric in numbers if not math.isnan(numbers[metric])]
            metric = min(known or numbers, key=lambda one: _preference(one, higher.get(one)))
            lower = higher.get(metric) is False
            other = _Other(name, metric, filtered, shots, version, limit, lower)
            found[other] = numbers[metric]
    return found


def _preference(metric: str, higher_is_better: Any) -> int:
    """Order the metrics of a task: the least is shown."""
    if metric in OTHER_METRICS:
        return OTHER_METRICS.index(metric)
    return len(OTHER_METRICS) + (
        0 if higher_is_better is True else 1 if higher_is_better is False else 2
    )


def _metrics(row: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics of a task by filter; NaN for what is no finite number."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for key, value in row.items():
        # "acc,none" since lm-eval 0.4, "acc" before.
        metric, _, filtered = key.partition(",")
        if key not in _NO_METRIC and "stderr" not in metric:
            number = _number(value)
            finite = number if math.isfinite(number) else math.nan
            found["" if filtered == "none" else filtered][metric] = finite
    return found


def _labels(others: Collection[_Other]) -> dict[_Other, str]:
    """Name columns: number of examples and version only of tasks that were run with several."""
    shots, versions = defaultdict(set), defaultdict(set)
    for one in others:
        shots[one.task].add(one.shots)
        versions[one.task].add(one.version)
    labels = {}
    for one in others:
        said = (
            one.metric,
            one.filter,
            one.shots and f"{one.shots}-shot" * (len(shots[one.task]) > 1),
            one.version and f"version {one.version}" * (len(versions[one.task]) > 1),
            one.limit and f"limit {one.limit}",
            "lower is better" * one.lower_is_better,
        )
        labels[one] = printable(f"{one.task} ({', '.join(filter(None, said))})")
    return labels


def _below(folder: Path) -> Iterator[Path]:
    """Yield the result files below a folder; links are followed, and each folder is read once."""
    read: set[str] = set()
    for base, below, files in os.walk(folder, followlinks=True):
        if os.path.realpath(base) in read:
            below.clear()
            continue
        read.add(os.path.realpath(base))
        # A folder of that name is no result file, which is said when it is read.
        names = (*files, *below)
        yield from (Path(base) / name for name in names if fnmatchcase(name, "results*.json"))


def _files(folders: Iterable[Path]) -> list[Path]:
    """Return the result files in folders, each once, whatever links lead to it."""
    files: dict[str, Path] = {}
    for folder in folders:
        # Unlike Path's, False where it may not be looked at.
        if not os.path.exists(folder):  # noqa: PTH110
            raise EpidemiaError(f"{folder} does not exist: give what was --output_path of lm_eval")
        here = [folder] if folder.is_file() else sorted(_below(folder))
        if not here:
            raise EpidemiaError(
                f"{folder} holds no results_*.json: give the folder that was --output_path of "
                "lm_eval"
            )
        for file in here:
            # Samples lie beside the file itself, not beside a link to it.
            if files.setdefault(os.path.realpath(file), file).is_symlink():
                files[os.path.realpath(file)] = file
    return list(files.values())


def read_results(folders: Iterable[Path], sizes: Mapping[str, float] | None = None) -> Results:
    """Read the results of any number of runs.

    There is one entry for each run: files whose settings are the same are of one, see `runs`.

    Parameters
    ----------
    folders : iterable of Path
        Result files, or folders that hold ``results_*.json`` at any depth.
    sizes : mapping of str to float, optional
        Numbers of parameters by model, where the files do not tell or should not.

    Raises
    ------
    EpidemiaError
        If there is no such file, or none has a task of ours.
    """
    names = {name: Asked(one.entry.name, one.way) for name, one in leaves().items()}
    runs, notes, known_numbers = [], [], dict[str, int]()
    folders = tuple(folders)
    for path in (files := _files(folders)):
        try:
            run = _read(path, names)
            drawn = [x for one in run.scores.values() for x in (one.draws, one.population) if x]
            known_numbers = counted(drawn, known_numbers)
            runs.append(run)
            notes += run.notes
        except ValueError as error:
            notes.append(
                f"{path} is not a result file of lm-eval and was left out ({error}): copy it again "
                "from where lm_eval wrote it, or run that evaluation again"
            )
    # Larger graphs take long to draw: what nobody was asked is left alone.
    in_runs = {names[name].task for run in runs for name in run.scores}
    installed = {
        task: benchmark.plain.load(task)  # the same in every way
        for benchmark in BENCHMARKS
        for task in in_runs.intersection(benchmark.available())
    }
    labels = _labels([one for run in runs for one in run.others])
    pieces = [
        one for run in sorted(runs, key=_when) for one in _pieces(run, names, installed, labels)
    ]
    notes = [printable(note) for note in notes]
    if not any(piece.entry.scores for piece in pieces):
        listed = printable(few([str(file) for file in files]))
        raise EpidemiaError("\n".join([f"no task of ours is in {listed}", *notes]))
    found, said = rows_of(pieces)
    notes += [printable(note) for note in said]
    for entry in found:
        entry.parameters = (sizes or {}).get(entry.model, entry.parameters)
        unscored = [asked.task for asked, one in entry.scores.items() if math.isnan(one.value)]
        if unscored:
            notes.append(f"{entry.name}: no score (NaN) in {len(unscored)} tasks: {few(unscored)}")
        older = {run.path for run in runs if run.file.epidemia is None}
        notes += _without_errors(entry, older, installed)
    samples = (one.draws.sample for e in found for one in e.scores.values() if one.draws)
    apart = in_conflict(samples)
    if sets := sorted(sample for sample in apart if sample.startswith(PREFIX)):
        notes.append(
            f"models were asked about different sets of quantities of one name ({few(sets)}): they "
            "are not compared; run one again with the other's set"
        )
    if apart := apart.difference(sets):
        notes.append(
            f"models were scored with different replicates of one survey ({few(sorted(apart))}): "
            "what differs between them has no error there, and counts as a tie; run one again"
        )
    if unknown := set(sizes or {}) - {entry.model for entry in found}:
        known = ", ".join(sorted({entry.model for entry in found}))
        raise EpidemiaError(f"a size was given for {few(sorted(unknown))}; the models are {known}")
    ordered = sorted(found, key=lambda entry: (entry.protocol, entry.name))
    return Results(ordered, notes, folders)


def _without_errors(entry: Entry, older: Collection[Path], installed: Collection[str]) -> list[str]:
    """Say of which tasks an entry's errors are not known, and take away those that do not fit.

    Parameters
    ----------
    entry : Entry
    older : collection of Path
        Result files without draws.
    installed : collection of str
        Tasks whose truth is here.
    """
    unfit = in_conflict(one.draws.sample for one in entry.scores.values() if one.draws)
    parts: dict[str, list[str]] = {}
    for asked, one in entry.scores.items():
        if one.draws and one.draws.sample in unfit:
            entry.scores[asked] = one._replace(draws=None, population=None)
            why = "scored with different replicates of one survey; run them again"
        elif one.draws or math.isnan(one.value) or not leaf(asked).benchmark.has_error:
            continue
        elif one.source in older:
            why = "written by an older version, or without our hook; run it again"
        elif one.seen < 1 and one.said:
            why = "a --limit left too few of them; raise it"
        else:
            why = (
                "the file has no draws of them: the truth had no replicates (rebuild it with "
                "'epidemia groundtruth build SURVEY --raw FILE'), or the file was cut; run them "
                "again"
            )
        parts.setdefault(why, []).append(in_way(*asked))
    said = "; of ".join(f"{len(tasks)} tasks ({few(tasks)}): {why}" for why, tasks in parts.items())
    notes = [f"{entry.name}: errors N/A of {said}"] if said else []
    silent = [
        in_way(*asked)
        for asked, one in entry.scores.items()
        if _is_silent(asked, one) and asked.task in installed
    ]
    if silent:
        other = "is of another truth than the installed one"
        why = other if entry.protocol.truth else "is not in the file"
        notes.append(
            f"{entry.name}: what was said in {len(silent)} tasks ({few(silent)}) {why}, so that "
            "the tables made of it leave them out; run them again"
        )
    return notes


def _is_silent(asked: Asked, one: Score) -> bool:
    """Whether answers are missing that the benchmark keeps."""
    keeps = leaf(asked).benchmark.measure.kept is not None
    return keeps and one.said is None and not math.isnan(one.value)


def _when(run: _Run) -> tuple[float, str]:
    date = _number(run.file.date)
    return -math.inf if math.isnan(date) else date, str(run.path)


def _pieces(
    run: _Run,
    names: Mapping[str, Asked],
    installed: Mapping[str, Any],
    labels: Mapping[_Other, str],
) -> Iterator[Piece]:
    """Part a file into what was asked in one way each, and other tasks."""
    config, template = run.file.config, run.file.chat_template
    weights, parameters = weights_of(config), _number(config.model_num_parameters)
    settings = settings_of(config)
    if template:
        sha = hashlib.sha256(str(template).encode("utf-8", "replace")).hexdigest()
        settings += (("chat_template", sha),)
    plain = Entry(
        printable(weights.name),
        bool(template) or is_chat(config),
        weights=weights,
        settings=settings,
        parameters=parameters if 0 < parameters < math.inf else None,
    )
    made: dict[tuple[Any, ...], Entry] = {}
    for name, score in run.scores.items():
        asked, metadata = names[name], run.metadata[name]
        protocol, details = _protocol(name, asked, run, installed), _details(asked, run, metadata)
        entry = made.setdefault(
            (protocol, details), replace(plain, protocol=protocol, details=details, scores={})
        )
        entry.variant = entry.variant or _variant(metadata)
        entry.scores[asked] = score
    yield from (Piece(run.path, entry) for entry in made.values())
    # Other tasks belong to the model whatever way ours were asked in; a run of theirs alone too.
    if others := {labels[one]: value for one, value in run.others.items()}:
        yield Piece(run.path, replace(plain, others=others))


def _details(asked: Asked, run: _Run, metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what written answers depend on and `Protocol` does not hold."""
    way, config = WAYS[asked.way], run.file.config
    if not way.generated:
        return ()
    found = {"max_gen_toks": pairs(config.gen_kwargs).get("max_gen_toks", "")}
    if way.drawn:
        found["torch_seed"] = "" if config.torch_seed is None else config.torch_seed
    if "n_samples" in way.columns:
        found["n_samples"] = metadata.get("n_samples") or Variant().n_samples
    return tuple((key, str(value)) for key, value in found.items())
