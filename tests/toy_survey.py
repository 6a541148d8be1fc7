"""A survey of a few tasks and invented people, whose ground truth takes a second to build."""

from pathlib import Path

import numpy as np
import pandas as pd

from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import build as building

RECORD = (Path(__file__).parent / "data" / "toy.yaml").read_text()
#: Begins every record of a toy survey.
HEAD = RECORD.partition("design:")[0]
#: The same with strata, and with a task of every kind, which only what ships or replaces it has.
DESIGNED = RECORD.replace("{weight: W}", "{weight: W, strata: STRATUM, psu: PSU}")
EVERY_KIND = (
    DESIGNED.replace("survey: toy", "survey: gss\nreplaces: gss")
    .replace("  extra:\n", "  low:\n")
    .replace(
        "tasks:\n",
        """  happy_there:
    both: [happy, town]
    question: Is this person happy, and do they live in a town?
    labels: [Happy in town, Happy elsewhere, Unhappy in town, Unhappy elsewhere]
tasks:
  joint:
    - {outcome: happy_there, given: [sex], title: "Toy: Happiness in Town by Sex"}
""",
    )
)


def people(rows=2000):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {name: rng.integers(1, 3, rows) for name in ("REGION", "SEX")}
        | {"W": rng.gamma(3, 10, rows), "W2": rng.gamma(1, 10, rows)}
        | {"TOWN": rng.integers(1, 4, rows), "FAMILY": np.arange(rows) // 2}
    )
    share = 0.2 + 0.2 * frame["REGION"] * frame["SEX"] - 0.1 * (frame["TOWN"] == 2)
    frame["HAPPY"] = (rng.random(rows) < share).astype(int)
    return frame.assign(STRATUM=np.arange(rows) % 20, PSU=np.arange(rows) // 20 % 2)


def declare(home, record=RECORD, survey="toy"):
    folder = home / "surveys"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{survey}.yaml").write_text(record)
    look_at_disk()


def build(raw, out=None, survey="toy", **options):
    options = {"replicates": 8, "progress": False, **options}
    return building.build_survey(survey, raw, out=out, **options)


def contents(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
