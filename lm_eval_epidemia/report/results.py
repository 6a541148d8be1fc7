"""lm-eval's result files: who answered what, how it was asked, and what it scored."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.elicit.modes import GENERATED, MODES, Mode, in_mode
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.errors import EpidemiaError, few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.harness.yamls import TASK_VERSION
from lm_eval_epidemia.surveys.record import all_tasks

__all__ = ["Asked", "Entry", "Results", "Score", "model_size", "read_results"]

#: What a prompt variant changes so that scores cannot be compared. The number of sampled answers is
#: not among it: it changes how precise a score is, not what it estimates.
INCOMPARABLE = ("orderings", "fewshot", "gen_prefix", "leading_space")

#: Metrics of other tasks, the first found is shown; then any other that is better when higher.
OTHER_METRICS = ("acc_norm", "acc", "exact_match", "f1")

#: Of a model's arguments, those that make it another model.
MODEL_ARGUMENTS = ("revision", "subfolder", "peft", "delta", "gguf_file", "quantization",
                   "load_in_4bit", "load_in_8bit")  # fmt: skip

#: Names longer than this are cut where they are shown.
LONGEST_NAME = 120


class Asked(NamedTuple):
    """A task in a way of asking."""

    task: str
    mode: Mode


class Score(NamedTuple):
    """What one task of one run came to.

    Attributes
    ----------
    score, error : float
        From 0 to 100, and its standard error; NaN where lm-eval's file says so.
    l1 : float
        The distance, in [0, 2]; NaN if the file lacks it.
    seen : float
        Share of the population asked.
    diagnostics : dict of str to float
        The other metrics of the task: ``choice_mass``, ``order_bias``, ``answered``.
    source : Path
        The result file.
    """

    score: float
    error: float
    l1: float = math.nan
    seen: float = 1.0
    diagnostics: Mapping[str, float] = {}
    source: Path = Path()


@dataclass
class Entry:
    """A model, asked in one way: what can be compared with other models asked so.

    Attributes
    ----------
    model : str
        As its user would name it.
    chat : bool
        Whether its chat template was applied; part of the model rather than of the question.
    variant : str
        All that was said about the prompts with ``--metadata``, for people to read.
    protocol : str
        What keeps these scores from being compared with others: another truth, task version,
        variant of the prompts, ``--limit``. Empty when all is as by default.
    parameters : float or None
        Size of the model.
    scores : dict
        By task and way of asking.
    others : dict of str to float
        Other tasks in the same files: their main metric, in per cent where it is a share.
    reference : bool
        Whether these are published scores instead of a run.
    twin : int
        Tells entries apart whose names are the same where they are cut; 0 for the first.
    """

    model: str
    chat: bool = False
    variant: str = ""
    protocol: str = ""
    parameters: float | None = None
    scores: dict[Asked, Score] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    reference: bool = False
    twin: int = 0

    @property
    def name(self) -> str:
        """The model and how it was asked, in one line; no two entries have the same."""
        said = [part for part in ("chat template" if self.chat else "", self.protocol) if part]
        name = " ".join(self.model.split()) + (f" ({'; '.join(said)})" if said else "")
        name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
        return name + (f" [{self.twin + 1}]" if self.twin else "")


class Results(NamedTuple):
    """What was read.

    Attributes
    ----------
    entries : list of Entry
        In the order of their names.
    notes : list of str
        What a reader must know: files left out, runs superseded, scores that do not exist.
    """

    entries: list[Entry]
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


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run's model, which older files hold as text."""
    arguments = config.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(pair.partition("=")[::2] for pair in arguments.split(",") if pair)
    return dict(arguments)


def _model(config: Mapping[str, Any]) -> tuple[str, str]:
    """Name the model of a run: whole, and what makes it another than its name says."""
    arguments = _arguments(config)
    named = arguments.get("pretrained") or arguments.get("model")
    if not named:
        said = ",".join(f"{key}={value}" for key, value in arguments.items())
        return " ".join(part for part in (str(config.get("model", "model")), said) if part), ""
    given = {key: arguments[key] for key in MODEL_ARGUMENTS if arguments.get(key)}
    # "main" is what everybody gets.
    more = [
        Path(str(value)).name if key == "peft" else f"{key}={value}"
        for key, value in given.items()
        if (key, value) != ("revision", "main")
    ]
    return str(named).rstrip("/"), "".join(f" +{part}" for part in more)


def _number(value: Any) -> float:
    """Read a number that may be missing or "N/A"."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def _variant(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was asked of the prompts that is not so by default."""
    usual = Variant()._asdict()
    given = {key: metadata.get(key) for key in usual if metadata.get(key) is not None}
    return {key: value for key, value in given.items() if value != usual[key]}


def _protocol(
    asked: Asked,
    score: Score,
    results: Mapping[str, Any],
    metadata: Mapping[str, Any],
    installed: str | None,
) -> str:
    """Say what keeps a score from being compared with others; empty if nothing does."""
    config, lm_eval_name = results.get("config", {}), in_mode(*asked)
    said = [
        f"{key}={value}" for key, value in _variant(metadata).items() if key in INCOMPARABLE
    ]  # fmt: skip
    if shots := _number(results.get("n-shot", {}).get(lm_eval_name, 0)):
        said.append(f"num_fewshot={shots:g}")
    if results.get("system_instruction"):
        said.append(f"system prompt {results.get('system_instruction_sha') or ''}"[:22].strip())
    version = results.get("versions", {}).get(lm_eval_name, TASK_VERSION)
    if version != TASK_VERSION:
        said.append(f"task version {version}")
    fingerprint = metadata.get("truth")
    if fingerprint and fingerprint != installed:
        said.append(f"truth {metadata.get('vintage', '')} {fingerprint}".replace("  ", " "))
    # With a --limit that a task does not reach, nothing is missing.
    if score.seen < 1:
        said.append(f"limit {config.get('limit')}" if config.get("limit") else "incomplete")
    if asked.mode in GENERATED:
        drawn = {k: v for k, v in (config.get("gen_kwargs") or {}).items() if k != "max_gen_toks"}
        said += [f"{key}={value}" for key, value in drawn.items()]
    return ", ".join(said)


def _score(row: Mapping[str, Any], source: Path) -> Score:
    numbers = {
        name.split(",")[0]: _number(value) for name, value in row.items() if name.endswith(",none")
    }
    main = ("score", "score_stderr", "l1", "seen")
    more = {name: x for name, x in numbers.items() if name not in main and "stderr" not in name}
    seen = numbers.get("seen", 1.0)
    return Score(numbers["score"], numbers.get("score_stderr", math.nan),
                 numbers.get("l1", math.nan), seen, more, source)  # fmt: skip


def _others(results: Mapping[str, Any], ours: set[str]) -> dict[str, float]:
    """Return the main metric of the tasks that are not ours, groups instead of their members."""
    groups, found = results.get("group_subtasks") or {}, {}
    members = {one for listed in groups.values() for one in listed}
    for name, row in results["results"].items():
        if name in ours or name.startswith("epidemia_") or name in members:
            continue
        if not isinstance(row, dict):
            continue
        # "acc,none" since lm-eval 0.4, "acc" before.
        numbers = {
            key.split(",")[0]: float(value)
            for key, value in row.items()
            if isinstance(value, (int, float)) and "stderr" not in key and key != "sample_len"
        }
        better = (results.get("higher_is_better") or {}).get(name) or {}
        wanted = [*OTHER_METRICS, *(key for key in numbers if better.get(key))]
        metric = next((key for key in wanted if key in numbers), None)
        if metric is not None and not math.isnan(numbers[metric]):
            value = numbers[metric]
            share = metric in OTHER_METRICS and 0 <= value <= 1
            limit = (results.get("config") or {}).get("limit")
            said = metric + (f", limit {limit}" if limit else "")
            found[f"{name} ({said})"] = 100 * value if share else value
    return found


def _files(folders: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for folder in folders:
        if not folder.exists():
            raise EpidemiaError(f"{folder} does not exist: give what was --output_path of lm_eval")
        here = [folder] if folder.is_file() else sorted(folder.rglob("results*.json"))
        if not here:
            raise EpidemiaError(
                f"{folder} holds no results_*.json: give the folder that was --output_path of "
                "lm_eval"
            )
        files += [file for file in here if file not in files]
    return files


def read_results(
    folders: Iterable[Path], sizes: Mapping[str, float] | None = None
) -> Results:  # fmt: skip
    """Read the results of any number of runs.

    Of one model asked in one way there is one entry: where two runs hold the same task, the later
    one counts, and a note says so.

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
    names = {in_mode(task, mode): Asked(task, mode) for task in all_tasks() for mode in MODES}
    runs, notes = [], []
    for file in (files := _files(folders)):
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
            list(results["results"].items())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            notes.append(f"{file} is not a result file of lm-eval and was left out ({error!r})")
            continue
        runs.append((_number(results.get("date")), file, results))
    runs.sort(key=lambda run: (run[0] if not math.isnan(run[0]) else -math.inf, str(run[1])))
    entries: dict[tuple[str, ...], Entry] = {}
    installed = {name: store.load(name).fingerprint for name in store.available()}
    for _date, file, results in runs:
        _enter(entries, notes, file, results, names, installed)
    found = [entry for entry in entries.values() if entry.scores]
    if not found:
        listed = few([str(file) for file in files])
        raise EpidemiaError("\n".join([f"no task of ours is in {listed}", *notes]))
    _shorten(found)
    names_seen: Counter[str] = Counter()
    for entry in found:
        names_seen[entry.name] += 1
        entry.twin = names_seen[entry.name] - 1
        entry.parameters = (sizes or {}).get(entry.model, entry.parameters)
        unscored = [asked.task for asked, one in entry.scores.items() if math.isnan(one.score)]
        if unscored:
            notes.append(f"{entry.name}: no score (NaN) in {len(unscored)} tasks: {few(unscored)}")
    if unknown := set(sizes or {}) - {entry.model for entry in found}:
        known = ", ".join(sorted({entry.model for entry in found}))
        raise EpidemiaError(f"a size was given for {few(sorted(unknown))}; the models are {known}")
    return Results(sorted(found, key=lambda entry: (entry.protocol, entry.name)), notes)


def _enter(
    entries: dict[tuple[str, ...], Entry], notes: list[str], file: Path,
    results: dict[str, Any], names: dict[str, Asked], installed: Mapping[str, str],
) -> None:  # fmt: skip
    """Add one file to the entries."""
    model, more = _model(results.get("config") or {})
    chat = bool(results.get("chat_template"))
    parameters = _number((results.get("config") or {}).get("model_num_parameters"))
    replaced: dict[str, list[Path]] = {}
    mine = set()
    for name, row in results["results"].items():
        if name not in names or not isinstance(row, dict) or "score,none" not in row:
            continue
        asked, score = names[name], _score(row, file)
        metadata = ((results.get("configs") or {}).get(name) or {}).get("metadata") or {}
        protocol = _protocol(asked, score, results, metadata, installed.get(asked.task))
        key = (model, more, str(chat), protocol)
        mine.add(key)
        entry = entries.setdefault(key, Entry(model + more, chat, protocol=protocol))
        said = ", ".join(f"{name}={value}" for name, value in _variant(metadata).items())
        entry.variant = entry.variant or said
        if parameters > 0:
            entry.parameters = parameters
        if asked in entry.scores:
            replaced.setdefault(entry.name, []).append(entry.scores[asked].source)
        entry.scores[asked] = score
    for name, sources in replaced.items():
        notes.append(
            f"{name}: {len(sources)} tasks are in two runs; {file} is later and counts, "
            f"{few(sorted({str(source) for source in sources}))} does not"
        )
    # Other tasks belong to the model whatever way ours were asked in; a run of theirs alone too.
    others = _others(results, set(names))
    if others:
        keys = mine or {(model, more, str(chat), "")}
        for key in keys:
            entries.setdefault(key, Entry(model + more, chat)).others.update(others)


def _shorten(entries: Sequence[Entry]) -> None:
    """Call models by the last part of their path, where that tells them apart."""
    whole = {entry.model for entry in entries}
    short = {name: name if "=" in name.split(" +")[0] else _last(name) for name in whole}
    several = {name for name, count in Counter(short.values()).items() if count > 1}
    for entry in entries:
        if short[entry.model] not in several:
            entry.model = short[entry.model]


def _last(name: str) -> str:
    model, *more = name.split(" +")
    return " +".join([Path(model).name, *more])
