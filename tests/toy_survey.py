"""A survey of a few tasks and invented people, whose ground truth takes a second to build."""

import numpy as np
import pandas as pd

from lm_eval_epidemia.core.store import look
from lm_eval_epidemia.estimate import build as building

#: Begins every record of a toy survey.
HEAD = """
survey: toy
domain: economic
title: A toy survey
publisher: Nobody
homepage: https://example.org
licence: none
citation: none
subject: a person in {year} who {conditions}
"""
RECORD = (
    HEAD
    + """\
design: {weight: W}
vintages:
  "2020":
    year: 2020
    files: [{name: toy.csv}]
    page: "https://example.org/toy"
    adjustments:
      - method: rake
        reason: Towns are oversampled.
        margins: [{variables: [town], shares: [0.3, 0.7]}]
variables:
  town:
    column: TOWN
    levels:
      - {label: In town, phrase: lives in a town, codes: [1]}
      - {label: Elsewhere, phrase: lives elsewhere, codes: [2, 3]}
  region:
    column: REGION
    levels:
      - {label: North, phrase: lives in the north, codes: [1]}
      - {label: South, phrase: lives in the south, codes: [2]}
  sex:
    column: SEX
    levels:
      - {label: Male, phrase: is male, codes: [1]}
      - {label: Female, phrase: is female, codes: [2]}
  happy:
    column: HAPPY
    question: Is this person happy?
    levels:
      - {label: "Yes", phrase: is happy, codes: [1]}
      - {label: "No", phrase: is not happy, codes: [0]}
tasks:
  extra:
    - {outcome: happy, given: [region], title: "Toy: Happiness by Region"}
    - {outcome: happy, given: [sex], title: "Toy: Happiness by Sex"}
    - {outcome: happy, given: [region, sex], title: "Toy: Happiness by Region and Sex"}
"""
)
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
    look()


def build(raw, out=None, survey="toy", **options):
    options = {"replicates": 8, "progress": False, **options}
    return building.build(survey, raw, out=out, **options)


def contents(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
