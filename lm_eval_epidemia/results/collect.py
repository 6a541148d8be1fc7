"""Read lm-eval's result files: the scores of our tasks, what made them, and other tasks."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.ask.way import Metric
from lm_eval_epidemia.benchmarks import WAYS, in_way, list_leaves, list_unions
from lm_eval_epidemia.benchmarks.benchmark import Kept
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, find_built_folder
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.core.names import GROUPS
from lm_eval_epidemia.core.paths import find_fresh_folder, home
from lm_eval_epidemia.core.store import read_disk_once
from lm_eval_epidemia.results import decode, replicates
from lm_eval_epidemia.results.decode import LeafKey, TaskScore, leaf, read_number, to_printable
from lm_eval_epidemia.results.naming import KNOWN
from lm_eval_epidemia.results.replicates import ENDLESS, OwnSection
from lm_eval_epidemia.surveys.catalogue import records
from lm_eval_epidemia.surveys.fresh import GROUP

#: A task or group of one survey.
_OF_OWN = re.compile(r"epidemia_(?:extra_|marginal_)?([a-z][a-z0-9]*)(?:_|$)")

#: What rounding may add to a bound.
ROUNDING = 1e-6


class ReadFile(NamedTuple):
    """A result file, with the scores of our tasks and the settings that made them."""

    path: Path
    content: decode.ResultFile
    scores: dict[LeafKey, TaskScore]
    metadata: dict[LeafKey, dict[str, Any]]
    others: dict[decode.Other, float]
    notes: list[str]

    @property
    def when(self) -> tuple[float, str]:
        """Sort key: the oldest first."""
        date = read_number(self.content.date)
        return -math.inf if math.isnan(date) else date, str(self.path)


def read_files(paths: Iterable[Path]) -> tuple[list[ReadFile], list[tuple[Path, str]]]:
    """Read result files, the oldest first; and say which cannot be read, and why."""
    files, unread, known_numbers = [], [], dict[str, int]()
    for path in paths:
        try:
            file = _read_scores(path)
            drawn = [
                x for score in file.scores.values() for x in (score.draws, score.population) if x
            ]
            known_numbers = replicates.count_draws(drawn, known_numbers)
            files.append(file)
        except ValueError as error:
            unread.append((path, to_printable(str(error))))
    return sorted(files, key=lambda file: file.when), unread


def _read_scores(path: Path) -> ReadFile:
    """Read a result file, its scores and those of other tasks; ValueError as in `read_file`."""
    file = decode.read_file(path)
    read = ReadFile(path, file, {}, {}, {}, _unknown(path, file))
    for name, row in file.results.items():
        ours = list_leaves().get(name)
        if ours and f"{ours.benchmark.primary},none" in row:
            asked = LeafKey(ours.entry.name, ours.way)
            metadata = msgspec.convert(file.configs.get(name) or {}, decode.TaskConfig).metadata
            read.metadata[asked] = metadata or {}
            try:
                read.scores[asked] = _score(read, asked, row)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
    told = file.versions.keys() & file.configs.keys()
    if bare := [in_way(*asked) for asked in read.scores if in_way(*asked) not in told]:
        read.notes.append(
            f"{path}: the file lacks the version or settings of {plural(len(bare), 'task')} "
            f"({few(bare)}), so they are ranked as if these were the usual ones: copy the "
            "file again from where lm_eval wrote it"
        )
    others = decode.others_in(file, list_leaves())
    if without := [other for other, value in others.items() if math.isnan(value)]:
        labels = decode.labels_of(without)
        read.notes.append(
            f"{path}: left out {few([labels[other] for other in without])}: none of their "
            "metrics is a finite number"
        )
    read.others.update({other: x for other, x in others.items() if not math.isnan(x)})
    # Of many files these are most of what they hold, and in the scores by now.
    joint = file.epidemia or OwnSection()
    for part in (file.results, file.configs, file.higher_is_better, joint.replicates, joint.said):
        part.clear()
    return read


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


@read_disk_once
def _known_names() -> frozenset[str]:
    """Return the names of our tasks and groups."""
    known = list_leaves()
    groups = [in_way(group, of.way) for of in known.values() for group in of.entry.groups]
    return frozenset({*known, *list_unions(), *groups})


def _unknown(path: Path, file: decode.ResultFile) -> list[str]:
    """Say which of our tasks are unknown here."""
    known = _known_names()
    kinds: dict[str, list[str]] = {kind: [] for kind in KNOWN["unknown"]}
    surveys: dict[str, None] = {}
    for name in file.results:
        if name in known or file.group_subtasks.get(name) or not name.startswith("epidemia_"):
            continue
        kind, survey = _kind_of(name)
        kinds[kind].append(name)
        surveys |= {survey: None} if survey else {}
    places: dict[str, Any] = {
        "quantities": find_built_folder(),
        "fresh": find_fresh_folder(),
        "home": home(),
    }
    places["surveys"] = few([*surveys])
    return [
        f"{path}: left out {few(names)}: {KNOWN['unknown'][kind].format(**places)}"
        for kind, names in kinds.items()
        if names
    ]


def _score(read: ReadFile, asked: LeafKey, row: Mapping[str, Any]) -> TaskScore:
    """Read the scores of a task, and note what cannot be used; ValueError if one is impossible."""
    name, ours, joint = in_way(*asked), leaf(asked), read.content.epidemia or OwnSection()
    benchmark, primary, metrics = ours.benchmark, ours.benchmark.primary, ours.metrics
    given = {key[: -len(",none")]: value for key, value in row.items() if key.endswith(",none")}
    endless = [
        metric
        for metric, of in metrics.items()
        if of.high == math.inf and read_number(given.get(metric)) > ENDLESS
    ]
    if endless:
        given |= dict.fromkeys(endless, math.nan)
        read.notes.append(
            f"{read.path}: {name}: {few(endless)} is infinite or too large, and counts as "
            "unknown: one reply may be absurd; look at the other metrics in the file"
        )
    without = math.isnan(read_number(given[primary]))
    numbers = {metric: _read_metric(metric, x, metrics, without) for metric, x in given.items()}
    draws = {}
    # What has no score has no draws, whatever is written of it.
    if name in joint.replicates and not without and f"{primary}_stderr" not in endless:
        low, high, cut = metrics[primary].low, metrics[primary].high, metrics[primary].cut
        bounds = {primary: (low, high) if cut else (-ENDLESS, ENDLESS)}
        # Elsewhere a sample is one of questions.
        survey = ours.entry.facets["survey"] if benchmark.of_surveys else ""
        draws = replicates.read_draws(joint.replicates[name], survey, bounds)
    kept, said, at = None, joint.said.get(name), draws.get(primary)
    if benchmark.read_kept and said is not None:
        kept = None if without else _read_kept(read, asked, said, numbers)
        said = kept and kept.answers
    leading = benchmark.leading if benchmark.scored else ""
    if leading not in (primary, ""):
        at = kept and kept.draws
    more = {
        to_printable(metric): x
        for metric, x in numbers.items()
        if metric != leading and "stderr" not in metric
    }
    return TaskScore(numbers.get(leading, math.nan), at, more, draws.get(decode.POPULATION), said)


def _read_kept(
    read: ReadFile, asked: LeafKey, said: str, numbers: Mapping[str, float]
) -> Kept | None:
    """Read recorded answers and check them; None if their questions are not those known here."""
    way, benchmark = WAYS[asked.way], leaf(asked).benchmark
    try:
        truth = way.load(asked.task)
    except EpidemiaError as error:
        read.notes.append(
            f"{read.path}: {in_way(*asked)}: tables from its answers leave it out, because its "
            f"truth on this machine cannot be used: {error}"
        )
        return None
    if (read.metadata[asked].get("truth") or truth.fingerprint) != truth.fingerprint:
        return None
    assert benchmark.read_kept
    return replicates.check_kept(benchmark.read_kept(said, truth, way), numbers, benchmark.primary)


def _read_metric(metric: str, value: Any, metrics: Mapping[str, Metric], without: bool) -> float:
    """Read a metric of a task with or without a score; ValueError if its value is impossible."""
    known, number = metrics.get(metric), read_number(value)
    low, high = (known.low, known.high) if known else (-math.inf, math.inf)
    # Probabilities that sum to more than 1 are why there is no score.
    high = math.inf if without and metric == "choice_mass" else high
    unknown = value == "N/A" or (isinstance(value, float) and math.isnan(value))
    if not unknown and not (math.isfinite(number) and low - ROUNDING <= number <= high + ROUNDING):
        bounded = math.isfinite(low) or math.isfinite(high)
        expected = f"{low} to {high}" if bounded else "a number"
        raise ValueError(f"{metric} is {reprlib.repr(value)}, expected {expected}")
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
        yield from filter(_may_be_results, (Path(base) / name for name in (*files, *below)))


def _may_be_results(path: Path) -> bool:
    """Tell result files by name or, of ``--output_path x.json``, by how they begin."""
    if fnmatchcase(path.name, "results*.json"):
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"results"' in file.read(64)


def result_files(folders: Iterable[Path]) -> list[Path]:
    """Return the result files in folders, each once even if links repeat it."""
    files: dict[str, Path] = {}
    for folder in folders:
        # Unlike Path's, these are False where it may not be looked at.
        here = [folder] if os.path.isfile(folder) else sorted(_below(folder))  # noqa: PTH113
        if not here:
            is_there = os.path.exists(folder)  # noqa: PTH110
            why = "holds no results_*.json" if is_there else "does not exist"
            raise EpidemiaError(
                f"{folder} {why}: give the folder that lm_eval wrote (--output_path)"
            )
        for file in here:
            # Samples lie beside the file itself, not beside a link to it.
            if files.setdefault(os.path.realpath(file), file).is_symlink():
                files[os.path.realpath(file)] = file
    return list(files.values())
