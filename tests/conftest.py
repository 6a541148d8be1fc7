"""Shared pieces: an empty home, a synthetic survey file in the official layout, a tiny model."""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import real_model
import replicates
from filelock import FileLock
from hypothesis import HealthCheck, settings

from lm_eval_epidemia.core.store import look_at_disk

# Before anything imports a library that might want the network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Tests run side by side on all cores; threads of tiny models would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A processor told to round as an older one is one for oneDNN too: where ATen alone believes it,
# torch 2.13 packs bfloat16 for the AMX that oneDNN still sees, and stops ("pack_vnni2 ...").
OLDER = {"default": "SSE41", "avx2": "AVX2"}
if capability := OLDER.get(os.environ.get("ATEN_CPU_CAPABILITY", "")):
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", capability)

# On a busy machine an example may take any time; the same examples on every machine and day, so
# that what passes here passes in CI.
settings.register_profile(
    "any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

REPOSITORY = Path(__file__).parent.parent
#: Real survey files lie beside the checkout where there are any (here and in CI).
RAW = REPOSITORY.parent / "shared" / "data"

#: Folders of task files that no test changes.
UNCHANGED = {REPOSITORY.resolve() / "task_yamls"}

#: Files that take longest go first, so that no process is left alone with one at the end.
_SLOWEST = "commands real_model site bad_files finetune_study harness folders endpoint rooms guard"
SLOWEST = [f"test_{name}" for name in f"{_SLOWEST} own_records served".split()]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: [*SLOWEST, item.path.stem].index(item.path.stem))


@pytest.fixture(scope="session")
def rendered(tmp_path_factory) -> Path:
    """Task files for lm-eval, rendered once for all homes of the session, whatever the process.

    `yamls.task_path` names a folder after all that goes into its files, and writes it in one step.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "task_yamls"
    folder.mkdir(exist_ok=True)
    UNCHANGED.add(folder.resolve())
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch, rendered):
    """Every test has a home of its own, with nothing in it but the task files of all homes."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "task_yamls").symlink_to(rendered)
    monkeypatch.setenv("EPIDEMIA_HOME", str(folder))
    look_at_disk()
    return folder


@pytest.fixture(autouse=True)
def fresh_notices():
    """Warnings are counted per process; every test starts at zero."""
    from lm_eval_epidemia.core import notices

    notices.forget()


def called(monkeypatch, *arguments):
    """Call `epidemia` in this process; return its exit code."""
    from lm_eval_epidemia import cli

    monkeypatch.setattr(sys, "argv", ["epidemia", *map(str, arguments)])
    look_at_disk()  # as a new process does
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


def in_a_process(*words, cwd=None, start=(sys.executable,), **more):
    """Run Python with some words in a process of its own; return how it ended and what it said."""
    command = [*start, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, **more)


@pytest.fixture
def epidemia(monkeypatch, capsys):
    """Call `epidemia` in this process; return its exit code and what it printed."""
    monkeypatch.setattr("lm_eval.tasks.TaskManager", None)  # put back after the test

    def run(*arguments):
        capsys.readouterr()
        code, shown = called(monkeypatch, *arguments), capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=shown.out, stderr=shown.err)

    return run


@pytest.fixture
def replicated(monkeypatch):
    """Truths have invented joint replicates."""
    from lm_eval_epidemia.estimate import store

    replicates.install(monkeypatch.setattr)
    yield
    store._load_truth.cache_clear()


def raw_file(survey: str, name: str) -> Path:
    """Return a real survey file; where there is none, the test is skipped and says so."""
    path = RAW / survey / name
    if not path.is_file():
        pytest.skip(f"needs the real survey file {name} beside the checkout")
    return path


@pytest.fixture
def raw_nsduh() -> Path:
    return raw_file("nsduh", "nsduh_2022.parquet")


def shipped_as_built(*keys):
    """Copy shipped truths into the user's own folder."""
    from lm_eval_epidemia.core import paths
    from lm_eval_epidemia.estimate import registry, store

    folder = store.built_groundtruth()
    folder.mkdir(parents=True)
    shipped = paths.shipped_groundtruth()
    truths = {key: store.read_registry(shipped)[key] for key in keys}
    for truth in truths.values():
        for file in truth["files"].values():
            shutil.copy(shipped / file["name"], folder)
    registry.write_registry(folder, truths)
    return folder


def nsduh_2023(rows: int = 1500, seed: int = 5) -> pd.DataFrame:
    """A file in the layout of NSDUH 2023: official columns and codes, invented people."""
    rng = np.random.default_rng(seed)
    age = rng.integers(1, 12, rows)
    ever = [1, 2, 94, 97]

    def yes_no(share):
        p = np.clip(share * (0.3 + age / 12), 0, 0.95)
        answers = np.where(rng.random(rows) < p, 1, 2)
        return np.where(rng.random(rows) < 0.01, rng.choice(ever[2:], rows), answers)

    past = [1, 2, 3, 8, 9, 11, 85, 91, 94, 97, 98]
    return pd.DataFrame(
        {
            "QUESTID2": np.arange(rows) + 10_000_000.0,
            "AGE3": age.astype(float),
            "irsex": rng.integers(1, 3, rows).astype(float),
            "NEWRACE2": rng.integers(1, 8, rows).astype(float),
            "IREDUHIGHST2": rng.integers(1, 12, rows).astype(float),
            "alcever": yes_no(0.8).astype(float),
            "cigever": yes_no(0.5).astype(float),
            "mjever": yes_no(0.45).astype(float),
            "cocever": yes_no(0.15).astype(float),
            "herever": yes_no(0.05).astype(float),
            "alcrec": rng.choice(past, rows, p=[0.4, 0.2, *[0.4 / 9] * 9]).astype(float),
            "cigrec": rng.choice(past, rows, p=[0.2, 0.4, *[0.4 / 9] * 9]).astype(float),
            "ANALWT2_C": rng.gamma(1.0, 4000.0, rows) + 1,
            "VESTR_C": (40001 + np.arange(rows) % 25).astype(float),
            # Two PSUs in each stratum, whatever is drawn.
            "VEREP": np.where(
                np.arange(rows) < 50, 1 + np.arange(rows) // 25, 1 + rng.integers(0, 2, rows)
            ).astype(float),
        }
    )


def people_2022(rows=600, seed=3):
    """A file in the layout of the NSDUH 2022 subset, of invented people."""
    rng = np.random.default_rng(seed)
    age = rng.integers(1, 12, rows)

    def first_use(share):
        used = rng.random(rows) < np.clip(share * (0.2 + age / 8), 0, 0.95)
        return np.where(used, rng.integers(12, 30, rows), 991).astype(float)

    return pd.DataFrame(
        {
            "AGE3": age.astype(float),
            "irsex": rng.integers(1, 3, rows).astype(float),
            "NEWRACE2_4grp": rng.integers(1, 5, rows).astype(float),
            "EDUHIGHCAT": np.where(age <= 3, 5, rng.integers(1, 5, rows)).astype(float),
            "IRALCAGE": first_use(0.8),
            "IRCIGAGE": first_use(0.5),
            "IRMJAGE": first_use(0.5),
            "IRCOCAGE": first_use(0.2),
            "IRHERAGE": first_use(0.1),
            "ANALWT2_C": rng.gamma(1.0, 4000.0, rows) + 1,
            "VESTR_C": (40001 + np.arange(rows) % 10).astype(float),
            "VEREP": (1 + np.arange(rows) // 10 % 2).astype(float),
        }
    )


@pytest.fixture
def nsduh_parquet(tmp_path) -> Path:
    path = tmp_path / "NSDUH_2023_synthetic.parquet"
    nsduh_2023().to_parquet(path)
    return path


def made_once(factory, name, make) -> Path:
    """Return a folder that the first process of the session to want it makes for all of them."""
    own = factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with FileLock(f"{place}.lock"):
        if not place.exists():
            make(place.with_suffix(".part")).rename(place)
    return place


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    pytest.importorskip("torch")
    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.models.tiny import make_tiny_llama

    texts = split("epidemia_high_nsduh_cocaine_ever_by_age_sex")["prompt"]
    return made_once(tmp_path_factory, "tiny", lambda folder: make_tiny_llama(folder, texts))


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """A real model, 540 MB: from the cache, or fetched and converted once (see real_model.py)."""
    pytest.importorskip("torch")
    try:
        return real_model.real_model()
    except real_model.Unavailable as error:
        if os.environ.get(
            "EPIDEMIA_TEST_MODEL"
        ):  # who names a folder wants these tests, as CI does
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def lettered_llama(tmp_path_factory) -> Path:
    """A tiny Llama that answers every prompt in its chat template with a letter."""
    pytest.importorskip("torch")
    return made_once(tmp_path_factory, "lettered", make_lettered_llama)


def make_lettered_llama(folder: Path) -> Path:
    """Save a tiny Llama that answers with letters.

    A direction is found along which the hidden states at the place of the answer are alike, and
    added to the rows of the output head that belong to letters: A and B become likely there, the
    other letters after them, and they differ as the random model has it.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from lm_eval_epidemia.ask.orderings import LETTERS
    from lm_eval_epidemia.benchmarks.observation import OBSERVATION
    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.models.tiny import make_tiny_llama

    tasks = [f"epidemia_low_nsduh_{name}_by_age" for name in ("cocaine_ever", "marijuana_ever")]
    texts = [
        text
        for task in tasks
        for mode in OBSERVATION.ways
        if mode != "stated"  # which is answered in lines
        for text in split(task, mode)["prompt"][:22]
    ]
    make_tiny_llama(folder, texts)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        states = []
        for text in texts:
            said = [{"role": "user", "content": text}]
            chat = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(chat, add_special_tokens=False, return_tensors="pt").input_ids
            states.append(model.model(ids).last_hidden_state[0, -1])
        direction = torch.linalg.lstsq(torch.stack(states), torch.ones(len(states), 1)).solution
        rows = [tokenizer.convert_tokens_to_ids(letter) for letter in LETTERS]
        wanted = torch.tensor([[18.0], [18.0], *[[12.0]] * (len(rows) - 2)])
        model.lm_head.weight *= 0.2
        model.lm_head.weight[rows] += wanted * direction.T
    model.save_pretrained(folder)
    return folder


@functools.cache
def parse_once():
    """Let lm-eval parse each task file that nobody changes once, not for every manager."""
    import lm_eval.tasks._index as index

    parse, parsed = index.load_yaml, functools.cache(index.load_yaml)

    def load_yaml(path, **how):
        real = Path(path).resolve()
        if UNCHANGED.isdisjoint(real.parents):
            return parse(path, **how)
        return copied(parsed(real, **how))

    index.load_yaml = load_yaml


def copied(value):
    """Copy lists and mappings, the rest of what YAML holds is never changed."""
    if isinstance(value, dict):
        return {key: copied(inside) for key, inside in value.items()}
    return [copied(inside) for inside in value] if isinstance(value, list) else value


def evaluate(tasks, **arguments):
    """Run lm-eval in this process with our tasks."""
    from lm_eval import simple_evaluate

    import lm_eval_epidemia

    parse_once()
    arguments.setdefault("model", "epidemia-baseline")
    found = {name: arguments.pop(name, None) for name in ("metadata", "include_path")}
    manager = lm_eval_epidemia.task_manager(**found)
    arguments.setdefault("model_args", "kind=truth")
    # lm-eval lists all installed packages after every run: seconds, for what no test looks at.
    with mock.patch("lm_eval.evaluator.add_env_info"):
        return simple_evaluate(tasks=tasks, task_manager=manager, **arguments)


def rows_of(name):
    """The rows of a table in ``tests/data``, each a JSON object in a line of its own."""
    lines = (Path(__file__).parent / "data" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return list(map(json.loads, lines))


def answers_to(task, way, reply, variant=None):
    """Answers to all prompts of a task, as the metrics take them; `reply` takes a row."""
    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.harness import hooks

    process = getattr(hooks, f"process_{way}")
    return [process(row, reply(row))["score"] for row in split(task, way, variant)]


SUMS = [
    {"question": f"{a} plus {b} is", "choices": [str(a + b + d) for d in (0, 1, 2, 5)], "answer": 0}
    for a in range(2, 6)
    for b in range(2, 6)
]


@pytest.fixture(scope="session")
def mmlu_style(tmp_path_factory):
    """Tasks of other people: lettered answers with two solved examples; answers of any length."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "rows.json").write_text(json.dumps(SUMS))
    for name in ("lettered", "continued"):
        text = (REPOSITORY / "tests" / "data" / f"{name}.yaml").read_text()
        (folder / f"{name}.yaml").write_text(text.replace("FOLDER", str(folder)))
    return folder


@contextmanager
def full_disk(size):
    """The kernel refuses to write more than so many bytes to a file, as on a full disk.

    No bar is drawn: tqdm never gives its lock back if it cannot write one.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with mock.patch.multiple("tqdm.std.tqdm", display=mock.DEFAULT, clear=mock.DEFAULT):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def recorded(folder, tasks, **arguments):
    """Run lm-eval in this process, and leave what its command line leaves: results and samples."""
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(folder))
    results = evaluate(tasks, log_samples=True, evaluation_tracker=tracker, **arguments)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    return folder


@pytest.fixture(scope="session")
def vllm_venv() -> Path:
    """The virtual environment with vLLM on CPU, which EPIDEMIA_TEST_VLLM names."""
    venv = Path(os.environ.get("EPIDEMIA_TEST_VLLM", "/nowhere"))
    if not (venv / "bin" / "vllm").is_file():
        pytest.skip("needs vLLM in a virtual environment named by EPIDEMIA_TEST_VLLM")
    return venv
