"""Sets made of OpenEstimate's public files.

``data/sample_*.json`` holds five variables of its NHANES part in their public form (MIT License,
copyright 2025 Alana Marzoev, Jillian Ross, Jacob Andreas, Mike Cafarella).
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.prior import PRIOR, judged
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.imported import import_quantities
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.cli import app

FILES = [Path(__file__).parent / f"data/sample_{kind}.json" for kind in ("variables", "baselines")]


@pytest.fixture
def variables():
    return json.loads(FILES[0].read_text())


@pytest.fixture
def baselines():
    return json.loads(FILES[1].read_text())


def write(folder, variables, baselines):
    files = [folder / "mine_variables.json", folder / "mine_baselines.json"]
    for path, content in zip(files, (variables, baselines), strict=True):
        path.write_text(json.dumps(content))
    return files


def test_the_command_makes_a_task_whose_truths_and_families_are_those_of_the_file(home):
    result = CliRunner().invoke(app, ["quantities", "import", *map(str, reversed(FILES))])
    assert result.exit_code == 0, result.output
    assert "task epidemia_prior_sample" in result.output
    made, shipped = (
        store.load_quantities("epidemia_prior_sample"),
        store.load_quantities("epidemia_prior_nhanes"),
    )
    assert PRIOR.entries()["epidemia_prior_sample"].group == "epidemia_prior_own"
    of_shipped = {quantity.name: quantity for quantity in shipped.quantities}
    for quantity in made.quantities:
        same = of_shipped[quantity.name]
        assert quantity._replace(wording="", conditions=(), low=0, high=0) == (
            same._replace(wording="", conditions=(), low=0, high=0)
        )
        levels = [(variable, level) for variable, level, _ in quantity.conditions]
        assert levels == [(variable, level) for variable, level, _ in same.conditions]
    # The unit is the shipped set's; the text keeps the file's words, and either may be answered.
    assert list(made.column("unit")) == ["kg", "ug/L", "", "kg", ""]
    assert "in kilograms" in made.quantities[0].wording
    assert made.quantities[3].wording.startswith("the average weight among adult (over 18)")


def test_baselines_are_those_of_the_file_and_score_as_the_published_ones(baselines):
    made, shipped = import_quantities(FILES), store.load_quantities("epidemia_prior_nhanes")
    is_share = made.column("family") == "beta"
    _, a, b = judged.of_baseline(is_share, made.baseline)
    for place, quantity in enumerate(made.quantities):
        for at, size in enumerate(SIZES):
            told = np.array([list(each.values()) for each in baselines[quantity.name][str(size)]])
            np.testing.assert_allclose(a[place, at], told[:, 0], rtol=1e-12)
            np.testing.assert_allclose(b[place, at], told[:, 1], rtol=1e-9)
    # What a prior and the answers make together is told by the posteriors alone.
    places = [list(shipped.column("name")).index(each.name) for each in made.quantities]
    samples = shipped.baselines["published"]
    part = shipped._replace(
        quantities=tuple(shipped.quantities[place] for place in places),
        baselines={"published": type(samples)(*(each[places] for each in samples))},
    )
    priors = np.array([(0, 80, 5), (0, 0.5, 0.1), (2, -2, 0.3), (2, 4.4, 0.1), (1, 2, 9)], float)
    stated = judged.FamilyPriors(*np.repeat(priors[:, None], 5, axis=1).transpose(2, 0, 1))
    one, other = judged.judge(made, stated), judged.judge(part, stated)
    for field in ("ratio", "crps"):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-9)


def test_units_slices_and_people_are_read_from_the_texts_of_other_domains(
    tmp_path, variables, baselines
):
    """As of job listings and venture capital: levels in words, no number of people."""
    texts = {
        "Salary": "The average midpoint (in dollars) of the pay of invented jobs in Utopia",
        "Raised": "The average total raised in millions USD for invented companies.",
        "Staff": "The average number of employees for invented companies",
    }
    mine = {
        name: variables["WeightKg"]
        | {"std": 20.0, "se": 1.0, "variable": text, "base_variable": name}
        for name, text in texts.items()
    }
    mine["single_0"] = mine["Salary"] | {
        "conditions": [["Sector", "Retail"], ["Staff", 2]],
        "nat_langs": ["the company is in retail", "Staff in (8.00, 17.00]"],
    }
    of_each = {key: posteriors for key, posteriors in baselines["WeightKg"].items() if key != "all"}
    made = import_quantities(write(tmp_path, mine, dict.fromkeys(mine, of_each)))
    assert made.task == "epidemia_prior_mine"
    assert list(made.column("unit")) == ["dollars", "millions USD", "", "dollars"]
    assert list(made.column("n")) == [400] * 4  # (20 / 1) ** 2
    assert made.quantities[
        1
    ].wording == "the average total raised in millions USD for invented " + ("companies")
    assert [each.level for each in made.quantities[3].conditions] == ["Retail", "3rd quarter"]


def test_the_example_of_the_page_makes_files_that_are_imported(tmp_path, monkeypatch):
    page = (REPOSITORY / "docs" / "guides" / "priors.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    made = import_quantities([Path("pay_variables.json"), Path("pay_baselines.json")])
    assert made.task == "epidemia_prior_pay"
    base, _, last_quarter, share = made.quantities
    assert (base.n, last_quarter.n, share.n) == (3000, 400, 400)  # said, and (std / se)²
    assert last_quarter.conditions == (("age", "4th quarter", ""),)
    assert (base.unit, share.family) == ("dollars", "beta")
    # A beta's answers are what is left of it without Beta(1, 1).
    assert made.baseline.mean[3, 0, 0] == pytest.approx(2 / 5)
    assert made.baseline.size[3, 0, 0] == 5
