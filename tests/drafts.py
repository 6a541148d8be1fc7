"""Invented people in labelled files, for tests of drafting records from them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from official import save

from lm_eval_epidemia.surveys.catalogue import load_record
from lm_eval_epidemia.surveys.draft.columns import DraftOptions

pyreadstat = pytest.importorskip("pyreadstat")

ROWS = 400
TABLES = yaml.safe_load((REPOSITORY / "tests/data/drafts.yaml").read_text("utf-8"))
LABELS = TABLES["labels"]
YES = DraftOptions(accept=True)


def people(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 1.0,
            "age": rng.integers(18, 90, rows).astype(float),
            "sex": rng.integers(1, 3, rows).astype(float),
            "degree": rng.choice([0.0, 1, 2, 8], rows, p=[0.2, 0.4, 0.3, 0.1]),
            "happy": rng.choice([1.0, 2, 3, 9, np.nan], rows),
            "gun": rng.choice([1.0, 2, 3, -1], rows, p=[0.4, 0.5, 0.05, 0.05]),
            "firstuse": np.where(rng.random(rows) < 0.4, 991.0, rng.integers(10, 60, rows)),
            "bmi": np.round(rng.normal(27, 5, rows), 2),
            "finalwt": rng.gamma(2, 500, rows),
            "vstrat": np.arange(rows) % 10 + 1.0,
            "vpsu": np.arange(rows) // 10 % 2 + 1.0,
            "always": 1.0,
            "rarely": np.where(np.arange(rows) < 40, 1.0, np.nan),
            "note": [f"text {n}" for n in range(rows)],
            "day": pd.to_datetime("2022-01-03") + pd.to_timedelta(np.arange(rows), "D"),
        }
    )


def labelled_sav(folder):
    """What SPSS would leave of these people."""
    path = folder / "mine2022.sav"
    pyreadstat.write_sav(
        people(),
        str(path),
        file_label="A survey: of ours",
        column_labels=TABLES["columns"],
        variable_value_labels=LABELS,
        missing_ranges={"degree": [{"lo": 8, "hi": 9}]},
    )
    return path


def loaded(found, tmp_path):
    path = tmp_path / "loaded.yaml"
    path.write_text(found.text, encoding="utf-8")
    return load_record(path)


def way(record, name):
    return record.variables[name][0]


def labels_of(record, name):
    return [level.label for level in way(record, name).levels]


def csv_of(name="x2020.csv", **columns):
    """Write people of two sexes and these columns into the current folder; return the path."""
    pd.DataFrame({"sex": np.resize([1, 2, 2], ROWS), **columns}).to_csv(name, index=False)
    return Path(name)


def file_of(path, labels=None, **columns):
    """Write people with these answers, over and over, into a file with labels; return the path."""
    frame = pd.DataFrame({name: np.resize(values, ROWS) for name, values in columns.items()})
    save(frame, path, **({"variable_value_labels": labels} if labels else {}))
    return path
