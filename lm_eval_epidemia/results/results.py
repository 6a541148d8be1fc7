"""Read lm-eval's result files: models, settings of asking, and scores."""

from __future__ import annotations

import hashlib
import math
import os
import re
import reprlib
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.benchmarks import BENCHMARKS, OBSERVATION, WAYS, in_way, leaves, unions
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, built
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.core.held import held
from lm_eval_epidemia.core.names import GROUPS
from lm_eval_epidemia.core.paths import fresh_tasks, home
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Metric
from lm_eval_epidemia.results import replicates
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.entry import POPULATION, Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.results.file import ResultFile, TaskConfig, read_file
from lm_eval_epidemia.results.naming import is_chat, pairs, settings_of, weights_of
from lm_eval_epidemia.results.others import Other, labels_of, others_in
from lm_eval_epidemia.results.protocol import Protocol, as_given, number_in, plainly, printable
from lm_eval_epidemia.results.records import is_record, read_record
from lm_eval_epidemia.results.replicates import ENDLESS, Joint
from lm_eval_epidemia.results.runs import Piece, rows_of
from lm_eval_epidemia.results.shards import join_shards
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.fresh import GROUP

#: What a prompt variant changes so that scores can still be compared: the number of sampled answers
#: is how precise a score is, not what it estimates.
COMPARABLE = ("n_samples",)

#: A task or group of one survey.
_OF_OWN = re.compile(r"epidemia_(?:extra_|marginal_)?([a-z][a-z0-9]*)(?:_|$)")

#: What rounding may add to a bound.
ROUNDING = 1e-6

#: Units of numbers of parameters.
UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


class Results(NamedTuple):
    """What was read.

    Attributes
    ----------
    entries : list of Entry
        In the order of their names.
    notes : list of str
        Notes for the reader: files left out, runs superseded, missing scores.
    folders : tuple of Path
        What was read.
    unread : tuple of (Path, str)
        Files that could not be read, each with the reason.
    """

    entries: list[Entry]
    notes: list[str]
    folders: tuple[Path, ...] = ()
    unread: tuple[tuple[Path, str], ...] = ()


class _ReadRun(NamedTuple):
    """A result file, with the scores of our tasks and the settings that made them."""

    path: Path
    file: ResultFile
    scores: dict[Asked, TaskScore]
    metadata: dict[Asked, dict[str, Any]]
    others: dict[Other, float]
    notes: list[str]
    card: Tuned | None = None


def model_size(text: str) -> float:
    """Read a number of parameters: ``7B``, ``350M``, ``1.5e9``."""
    number = text.strip()
    unit = UNITS.get(number[-1:].upper(), 0.0)
    try:
        size = float(number[:-1]) * unit if unit else float(number)
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise EpidemiaError(f"size {text!r}: expected a number of parameters such as 7B or 350M")
    return size


def _variant(metadata: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the non-default settings of the prompts."""
    return tuple(
        (key, str(metadata[key]))
        for key, usual in Variant()._asdict().items()
        if metadata.get(key) is not None and metadata[key] != usual
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _protocol(asked: Asked, run: _ReadRun, installed: Mapping[str, Any]) -> Protocol:
    """Return the settings in which a score must agree with others to be compared."""
    file, metadata, way, name = run.file, run.metadata[asked], WAYS[asked.way], in_way(*asked)
    shots, system = number_in(file.shots.get(name, 0)), file.system_instruction
    truth = installed.get(asked.task)
    usual = leaf(asked).benchmark.version(truth) + way.revision if truth else None
    version = file.versions.get(name, usual)
    fingerprint = str(metadata.get("truth") or "")
    other = fingerprint not in ("", truth.fingerprint if truth else None)
    # Of a run: a task that is short enough to be whole belongs with those that were cut.
    incomplete = any(score.seen < 1 for score in run.scores.values())
    heeded = [
        pair
        for pair in _variant(metadata)
        if pair[0] not in COMPARABLE and leaf(asked).heeds(pair[0])
    ]
    given = pairs(file.config.gen_kwargs) if way.generated else {}
    drawn = {key: plainly(value) for key, value in given.items() if key != "max_gen_toks"}
    if drawn.get("temperature") == plainly(way.temperature):
        del drawn["temperature"]
    return Protocol(
        variant=tuple(heeded),
        num_fewshot=f"{shots:g}" if shots else "",
        system_prompt=(file.system_instruction_sha or _sha(system)) if system else "",
        task_version="" if usual in (None, version) else str(version),
        truth=fingerprint if other else "",
        vintage=str(metadata.get("vintage", "")) if other else "",
        incomplete=incomplete,
        limit=as_given(file.config.limit) if incomplete else "",
        drawn=tuple(sorted(drawn.items())),
    )


def _read(path: Path) -> _ReadRun:
    """Read a result file, its scores and those of other tasks; ValueError as in `read_file`."""
    file, notes, card = read_record(path) if is_record(path) else (read_file(path), [], None)
    notes = [*(f"{path}: {note}" for note in notes), *_unknown(path, file)]
    run = _ReadRun(path, file, {}, {}, {}, notes, card)
    for name, row in file.results.items():
        ours = leaves().get(name)
        if ours and f"{ours.benchmark.primary},none" in row:
            asked = Asked(ours.entry.name, ours.way)
            metadata = msgspec.convert(file.configs.get(name) or {}, TaskConfig).metadata
            run.metadata[asked] = metadata or {}
            run.scores[asked] = _score(run, asked, row)
    told = file.versions.keys() & file.configs.keys()
    if bare := [in_way(*asked) for asked in run.scores if in_way(*asked) not in told]:
        run.notes.append(
            f"{path}: the file lacks the version or settings of {plural(len(bare), 'task')} "
            f"({few(bare)}), so they are ranked as if these were the usual ones: copy the "
            "file again from where lm_eval wrote it"
        )
    others = others_in(file, leaves())
    if without := [other for other, value in others.items() if math.isnan(value)]:
        labels = labels_of(without)
        run.notes.append(
            f"{path}: left out {few([labels[other] for other in without])}: none of their "
            "metrics is a finite number"
        )
    run.others.update({other: x for other, x in others.items() if not math.isnan(x)})
    # Of many files these are most of what they hold, and in the scores by now.
    joint = file.epidemia or Joint()
    for read in (file.results, file.configs, file.higher_is_better, joint.replicates, joint.said):
        read.clear()
    return run


def _kind_of(name: str) -> tuple[str, str]:
    """Return the kind of an unknown task, and the user's survey that it belongs to."""
    survey = _OF_OWN.match(name)
    if name.startswith(PREFIX):
        return "quantities", ""
    if name.startswith(f"{GROUP}_"):
        return "fresh", ""
    if survey and survey[1] not in {*records(), *GROUPS}:
        return "own", survey[1]
    return "other", ""


def _unknown(path: Path, file: ResultFile) -> list[str]:
    """Say which of our tasks are unknown here."""
    ours = {in_way(group, leaf_.way) for leaf_ in leaves().values() for group in leaf_.entry.groups}
    ours |= unions().keys()
    kinds: dict[str, list[str]] = {"quantities": [], "fresh": [], "own": [], "other": []}
    surveys: dict[str, None] = {}
    for name in file.results:
        known = name in leaves() or name in ours or file.group_subtasks.get(name)
        if name.startswith("epidemia_") and not known:
            kind, survey = _kind_of(name)
            kinds[kind].append(name)
            surveys |= {survey: None} if survey else {}
    reasons = {
        "quantities": ": their quantities are not here. Make the set again with 'epidemia "
        "quantities new SURVEY --raw FILE --n N --seed SEED' as before, or copy its files (.json "
        f"and .draws.parquet) into {built()}",
        "fresh": ": these fresh tasks are not here. Make the set again with 'epidemia tasks fresh "
        "SURVEY --raw FILE --n N --seed SEED' as before, or copy its folder into "
        f"{fresh_tasks()}",
        "own": f": there is no record of {few(list(surveys))} here. For your own surveys a "
        "report needs the record and the truth: copy both from the machine of the run "
        f"(here {home() / 'surveys'} and {home() / 'groundtruth'}), or name the record "
        "with --record and build the truth again",
        "other": ": this version of lm-eval-epidemia does not know them; install the version of "
        "the run",
    }
    return [
        f"{path}: left out {few(names)}{reasons[kind]}" for kind, names in kinds.items() if names
    ]


def _score(run: _ReadRun, asked: Asked, row: Mapping[str, Any]) -> TaskScore:
    """Read the scores of a task, and note what cannot be used; ValueError as in `read_file`."""
    name, ours, joint = in_way(*asked), leaf(asked), run.file.epidemia or Joint()
    primary, metrics = ours.benchmark.primary, ours.metrics
    given = {
        metric: value
        for key, value in row.items()
        for metric, _, filtered in [key.partition(",")]
        if filtered == "none"
    }
    endless = [
        metric
        for metric in metrics
        if metrics[metric].high == math.inf and number_in(given.get(metric)) > ENDLESS
    ]
    if endless:
        given |= dict.fromkeys(endless, math.nan)
        run.notes.append(
            f"{run.path}: {name}: {few(endless)} is infinite or too large, and counts as "
            "unknown: one reply may be absurd; look at the other metrics in the file"
        )
    without = math.isnan(number_in(given[primary]))
    numbers = {metric: _checked(asked, metrics, metric, x, without) for metric, x in given.items()}
    draws = {}
    # What has no score has no draws, whatever is written of it.
    if name in joint.replicates and not without and f"{primary}_stderr" not in endless:
        low, high, cut = metrics[primary].low, metrics[primary].high, metrics[primary].cut
        bounds = {primary: (low, high) if cut else (-ENDLESS, ENDLESS)}
        # Only there a sample is one of a survey: elsewhere it is one of questions.
        survey = ours.entry.facets["survey"] if ours.benchmark is OBSERVATION else ""
        try:
            draws = replicates.draws_of(joint.replicates[name], survey, bounds)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    leading = ours.benchmark.leading if ours.benchmark.scored else ""
    answers, fingerprint = None, run.metadata[asked].get("truth")
    if name in joint.said:
        try:
            answers = replicates.said_in(name, joint.said[name], numbers, fingerprint)
        except replicates.Unusable as error:
            run.notes.append(
                f"{run.path}: {name}: tables from its answers leave it out, because its truth "
                f"on this machine cannot be used: {error}"
            )
    more = {
        printable(metric): x
        for metric, x in numbers.items()
        if metric != leading and "stderr" not in metric
    }
    at = draws.get(primary)
    if leading not in (primary, ""):
        at = replicates.headline_draws(name, answers)
    value, date = numbers.get(leading, math.nan), number_in(run.file.date)
    return TaskScore(value, at, more, draws.get(POPULATION), run.path, answers, date)


def _checked(
    asked: Asked, metrics: Mapping[str, Metric], metric: str, value: Any, without: bool
) -> float:
    """Read a metric of a task with or without a score; ValueError if its value is impossible."""
    known, number = metrics.get(metric), number_in(value)
    low, high = (known.low, known.high) if known else (-math.inf, math.inf)
    # Probabilities that sum to more than 1 are why there is no score.
    high = math.inf if without and metric == "choice_mass" else high
    unknown = value == "N/A" or (isinstance(value, float) and math.isnan(value))
    inside = math.isfinite(number) and low - ROUNDING <= number <= high + ROUNDING
    if not (unknown or inside):
        bounded = math.isfinite(low) or math.isfinite(high)
        expected = f"{low} to {high}" if bounded else "a number"
        given = reprlib.repr(value)
        raise ValueError(f"{in_way(*asked)}: {metric} is {given}, expected {expected}")
    return number


def _below(folder: Path) -> Iterator[Path]:
    """Yield the result files below a folder; follow links, and read each folder once."""
    read: set[str] = set()
    for base, below, files in os.walk(folder, followlinks=True):
        if os.path.realpath(base) in read:
            below.clear()
            continue
        read.add(os.path.realpath(base))
        # A folder of that name is no result file, which is said when it is read.
        names = (*files, *below)
        paths = (Path(base) / name for name in names)
        yield from (p for p in paths if fnmatchcase(p.name, "results*.json") or is_record(p))


def result_files(folders: Iterable[Path]) -> list[Path]:
    """Return the result files in folders, each once even if links repeat it."""
    files: dict[str, Path] = {}
    for folder in folders:
        # Unlike Path's, False where it may not be looked at.
        if not os.path.exists(folder):  # noqa: PTH110
            raise EpidemiaError(
                f"{folder} does not exist: give the folder that lm_eval wrote (--output_path)"
            )
        here = [folder] if folder.is_file() else sorted(_below(folder))
        if not here:
            raise EpidemiaError(
                f"{folder} holds no results_*.json: give the folder that lm_eval wrote "
                "(--output_path), or one with records from 'epidemia share', with their "
                "original names (UUID.json)"
            )
        for file in here:
            # Samples lie beside the file itself, not beside a link to it.
            if files.setdefault(os.path.realpath(file), file).is_symlink():
                files[os.path.realpath(file)] = file
    return list(files.values())


@held()
def read_results(folders: Iterable[Path], sizes: Mapping[str, float] | None = None) -> Results:
    """Read the results of any number of runs.

    Each run has one entry: files with the same settings belong to one run, see `runs`.

    Parameters
    ----------
    folders : iterable of Path
        Result files, or folders that hold, at any depth, ``results_*.json`` or records of Every
        Eval Ever with the names that 'epidemia share' gave them.
    sizes : mapping of str to float, optional
        Numbers of parameters by model, in place of those in the files.

    Raises
    ------
    EpidemiaError
        If there is no such file, or none has one of our tasks.
    """
    runs, notes, unread, known_numbers = [], [], [], dict[str, int]()
    folders = tuple(folders)
    for path in (files := result_files(folders)):
        try:
            run = _read(path)
            drawn = [
                x for score in run.scores.values() for x in (score.draws, score.population) if x
            ]
            known_numbers = replicates.counted(drawn, known_numbers)
            runs.append(run)
            notes += run.notes
        except ValueError as error:
            unread.append((path, printable(str(error))))
            notes.append(_left_out(path, error))
    # Larger graphs take long to draw: what nobody was asked is left alone.
    tasks = {asked.task for run in runs for asked in run.scores}
    installed = {
        task: benchmark.plain.load(task)  # the same in every way
        for benchmark in BENCHMARKS
        for task in tasks.intersection(benchmark.available())
    }
    notes += _join_shards(runs, installed)
    labels = labels_of([other for run in runs for other in run.others])
    pieces = [piece for run in sorted(runs, key=_when) for piece in _pieces(run, installed, labels)]
    notes = [printable(note) for note in notes]
    if not any(piece.entry.scores for piece in pieces):
        listed = printable(few([str(file) for file in files]))
        raise EpidemiaError("\n".join([f"no epidemia task is in {listed}", *notes]))
    entries, of_rows = rows_of(pieces)
    notes += map(printable, of_rows)
    if records := [run for run in runs if is_record(run.path)]:
        notes.append(
            f"{plural(len(records), 'run')} read from records of Every Eval Ever: these hold "
            "no samples, so tables from cells and samples leave them out"
        )
    older = {run.path for run in runs if run.file.epidemia is None}
    for entry in entries:
        entry.parameters = (sizes or {}).get(entry.model, entry.parameters)
        unscored = [
            asked.task
            for asked, score in entry.scores.items()
            if math.isnan(score.value) and leaf(asked).benchmark.scored
        ]
        if unscored:
            notes.append(
                f"{entry.name}: no score (NaN) in {plural(len(unscored), 'task')}: {few(unscored)}"
            )
        notes += _without_errors(entry, older, installed)
    notes += _in_conflict(entries)
    if unknown := set(sizes or {}) - {entry.model for entry in entries}:
        known = ", ".join(sorted({entry.model for entry in entries}))
        raise EpidemiaError(f"a size was given for {few(sorted(unknown))}: expected {known}")
    entries.sort(key=lambda entry: (entry.protocol, entry.name))
    return Results(entries, notes, folders, tuple(unread))


def _join_shards(runs: Iterable[_ReadRun], installed: Mapping[str, Any]) -> list[str]:
    """Put together tasks whose prompts are spread over files of one run; return notes.

    The newest file gets the whole, the others lose their parts. A ``--limit`` makes no shards.
    """
    parts: dict[tuple[Asked, Hashable], list[_ReadRun]] = defaultdict(list)
    for run in sorted(runs, key=_when):
        entry = entry_of(run.file)
        for asked, score in run.scores.items():
            if score.seen < 1 and not run.file.config.limit:
                how = replace(_protocol(asked, run, installed), incomplete=False)
                same = (entry.weights, entry.chat, entry.settings, how, _details(asked, run))
                parts[asked, same].append(run)
    joined, notes = Counter[tuple[Path, ...]](), []
    for (asked, _), several in parts.items():
        if len(several) < 2 or leaf(asked).benchmark is not OBSERVATION:
            continue
        paths = tuple(run.path for run in several)
        try:
            whole = join_shards(asked, paths)
        except EpidemiaError as error:
            notes.append(f"{in_way(*asked)} is not put together from {len(several)} files: {error}")
            continue
        if whole is not None:
            for run in several[:-1]:
                del run.scores[asked]
            several[-1].scores[asked] = whole._replace(date=number_in(several[-1].file.date))
            joined[paths] += 1
    return notes + [
        f"{plural(number, 'task')} put together from {len(paths)} files of one run "
        f"({few(list(map(str, paths)))}); tables from samples leave them out"
        for paths, number in joined.items()
    ]


def _left_out(path: Path, error: ValueError) -> str:
    what = (
        "a record as 'epidemia share' writes it" if is_record(path) else "a result file of lm-eval"
    )
    return (
        f"{path} is not {what} and was left out ({error}): copy it again from its source, or "
        "run that evaluation again"
    )


def _in_conflict(entries: Sequence[Entry]) -> list[str]:
    """Say which samples of one name differ between entries."""
    samples = (score.draws.sample for e in entries for score in e.scores.values() if score.draws)
    if not (apart := sorted(replicates.in_conflict(samples))):
        return []
    return [
        f"models were scored with different replicates of one survey ({few(apart)}). "
        "Differences between them have no error there and count as ties: run one again"
    ]


def _primary(asked: Asked, score: TaskScore) -> float:
    """Return the primary metric, which is listed with the others unless it is the headline."""
    return score.metrics.get(leaf(asked).benchmark.primary, score.value)


def _without_errors(entry: Entry, older: Collection[Path], installed: Collection[str]) -> list[str]:
    """Say which errors of an entry are unknown, and remove draws that do not match.

    Parameters
    ----------
    entry : Entry
    older : collection of Path
        Result files without draws.
    installed : collection of str
        Tasks whose truth is here.
    """
    unfit = replicates.in_conflict(
        score.draws.sample for score in entry.scores.values() if score.draws
    )
    parts: dict[str, list[str]] = {}
    for asked, score in entry.scores.items():
        if score.draws and score.draws.sample in unfit:
            entry.scores[asked] = score._replace(draws=None, population=None)
            why = "scored with different replicates of one survey; run them again"
        elif (
            score.draws or math.isnan(_primary(asked, score)) or not leaf(asked).benchmark.has_error
        ):
            continue
        elif score.said is None and leaf(asked).benchmark.headline:
            continue  # Its draws are of what was said: the note below says why that is not known.
        elif score.source in older:
            why = "written by an older version, or without our hook; run it again"
        elif score.seen < 1 and score.said:
            why = "--limit left too few of them; raise it"
        else:
            why = (
                "the file has no draws for them. If the truth had no replicates, rebuild it "
                "('epidemia groundtruth build SURVEY --raw FILE'); then run them again"
            )
        parts.setdefault(why, []).append(in_way(*asked))
    reasons = [
        f"{plural(len(tasks), 'task')} ({few(tasks)}): {why}" for why, tasks in parts.items()
    ]
    notes = [f"{entry.name}: no errors (N/A) for {'; for '.join(reasons)}"] if reasons else []
    silent = [
        in_way(*asked)
        for asked, score in entry.scores.items()
        if leaf(asked).metrics[leaf(asked).benchmark.primary].kept is not None
        if score.said is None and asked.task in installed
        if not math.isnan(_primary(asked, score))
    ]
    if silent:
        other = "come from another truth than the installed one"
        why = other if entry.protocol.truth else "are not in the file"
        notes.append(
            f"{entry.name}: tables from recorded answers leave out "
            f"{plural(len(silent), 'task')} ({few(silent)}), whose answers {why}: run them "
            "again"
        )
    return notes


def _when(run: _ReadRun) -> tuple[float, str]:
    date = number_in(run.file.date)
    return -math.inf if math.isnan(date) else date, str(run.path)


def entry_of(file: ResultFile) -> Entry:
    """Return the model of a file and how it was run, without how it was asked."""
    config, template = file.config, file.chat_template
    weights, parameters = weights_of(config), number_in(config.model_num_parameters)
    settings = settings_of(config)
    if template:
        settings += (("chat_template", file.chat_template_sha or _sha(str(template))),)
    return Entry(
        printable(weights.name),
        bool(template) or is_chat(config),
        weights=weights,
        settings=settings,
        parameters=parameters if 0 < parameters < math.inf else None,
        date=number_in(file.date),
    )


def _pieces(
    run: _ReadRun, installed: Mapping[str, Any], labels: Mapping[Other, str]
) -> Iterator[Piece]:
    """Split a file into one part per way of asking, and other tasks."""
    plain = replace(entry_of(run.file), card=run.card)
    entries: dict[tuple[Any, ...], Entry] = {}
    for asked, score in run.scores.items():
        protocol, details = _protocol(asked, run, installed), _details(asked, run)
        entry = entries.setdefault(
            (protocol, details), replace(plain, protocol=protocol, details=details, scores={})
        )
        entry.variant = entry.variant or _variant(run.metadata[asked])
        entry.scores[asked] = score
    yield from (Piece(run.path, entry) for entry in entries.values())
    # Other tasks belong to the model whatever way ours were asked in; a run of theirs alone too.
    if others := {labels[other]: value for other, value in run.others.items()}:
        yield Piece(run.path, replace(plain, others=others))


def _details(asked: Asked, run: _ReadRun) -> tuple[tuple[str, str], ...]:
    """Return the settings that affect written answers and are not in `Protocol`."""
    way, config = WAYS[asked.way], run.file.config
    if not way.generated:
        return ()
    details = {"max_gen_toks": pairs(config.gen_kwargs).get("max_gen_toks", "")}
    if way.drawn:
        details["torch_seed"] = "" if config.torch_seed is None else config.torch_seed
    if "n_samples" in way.columns:
        details["n_samples"] = run.metadata[asked].get("n_samples") or Variant().n_samples
    return tuple((key, str(value)) for key, value in details.items())
