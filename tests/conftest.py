"""Shared pieces: an empty home, a synthetic survey file in the official layout, a tiny model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

# Before anything imports a library that might want the network.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

REPOSITORY = Path(__file__).parent.parent
#: Real survey files lie beside the checkout where there are any (here and in CI).
RAW = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Every test has a home of its own, empty at first."""
    folder = tmp_path / "home"
    monkeypatch.setenv("EPIDEMIA_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def fresh_notices():
    """Warnings are counted per process; every test starts at zero."""
    from lm_eval_epidemia import notices

    notices.forget()


def raw_file(survey: str, name: str) -> Path:
    """Return a real survey file; where there is none, the test is skipped and says so."""
    path = RAW / survey / name
    if not path.is_file():
        pytest.skip(f"needs the real survey file {name} beside the checkout")
    return path


@pytest.fixture
def raw_nsduh() -> Path:
    return raw_file("nsduh", "nsduh_2022.parquet")


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
            "VEREP": (1 + rng.integers(0, 2, rows)).astype(float),
        }
    )


@pytest.fixture
def nsduh_parquet(tmp_path) -> Path:
    path = tmp_path / "NSDUH_2023_synthetic.parquet"
    nsduh_2023().to_parquet(path)
    return path


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> Path:
    pytest.importorskip("torch")
    from lm_eval_epidemia.elicit.splits import split
    from lm_eval_epidemia.harness.tiny import make_tiny_llama

    texts = split("epidemia_high_nsduh_cocaine_ever_by_age_sex")["prompt"]
    return make_tiny_llama(tmp_path_factory.mktemp("tiny"), texts)


def evaluate(tasks, **arguments):
    """Run lm-eval in this process with our tasks."""
    from lm_eval import simple_evaluate

    import lm_eval_epidemia

    arguments.setdefault("model", "epidemia-baseline")
    manager = lm_eval_epidemia.task_manager(metadata=arguments.pop("metadata", None))
    arguments.setdefault("model_args", "kind=truth")
    return simple_evaluate(tasks=tasks, task_manager=manager, **arguments)
