"""Sets in OpenEstimate's public form: its files of variables and of their baselines, in JSON.

``NAME_variables.json`` has by name the truth of each variable and its text; ``NAME_baselines.json``
has by name and N ("5", "10", "20", "30") the posteriors of 25 draws of N answers, under the priors
Normal(0, sd 100,000) and Beta(1, 1). From a posterior and its prior follow the mean and the
variance of the answers, which is all that scores are made of; a list of the answers themselves may
stand in its place. Job listings and venture capital may
not be redistributed: who has the files makes the tasks of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter

from lm_eval_epidemia.benchmarks.prior.judged import FLAT_SD
from lm_eval_epidemia.benchmarks.prior.quantities import quantity
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX
from lm_eval_epidemia.benchmarks.prior.quantities.wording import QUARTERS
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.store import describe_problem

_Positive = Annotated[FiniteFloat, Field(gt=0)]


class _Variable(BaseModel):
    """A variable of the public form; what else the file has of it is passed over."""

    mean: FiniteFloat
    std: _Positive
    se: _Positive
    base_variable: str
    conditions: Annotated[list[tuple[str, Any]], Field(max_length=len(quantity.DIFFICULTIES) - 1)]
    family: quantity.Family = Field(alias="ground_truth_distribution_type")
    text: Annotated[str, Field(alias="variable", min_length=1)]

    @property
    def stats(self) -> quantity.DomainStats:
        return quantity.DomainStats(self.mean, self.std, self.se)


class _NormalPosterior(BaseModel):
    mu: FiniteFloat
    sigma: Annotated[FiniteFloat, Field(ge=0, lt=FLAT_SD)]

    def sums(self, size: int) -> quantity.Sums:
        """Take the prior off: what `size` answers come to (judged.of_baseline backwards)."""
        squared = self.sigma**2 / (1 - (self.sigma / FLAT_SD) ** 2)
        return quantity.Sums(self.mu * (1 + squared / FLAT_SD**2), squared * size, size)


class _BetaPosterior(BaseModel):
    alpha: Annotated[FiniteFloat, Field(ge=1)]
    beta: Annotated[FiniteFloat, Field(ge=1)]

    def sums(self, _size: int) -> quantity.Sums:
        """Take the prior off; how many the answers count as, alpha and beta tell themselves."""
        size = self.alpha + self.beta - 2
        share = (self.alpha - 1) / size
        return quantity.Sums(share, share * (1 - share), size)


_VARIABLES = TypeAdapter(dict[str, _Variable])
_DRAWN = Field(min_length=quantity.DRAWS, max_length=quantity.DRAWS)
_MEANS = TypeAdapter(Annotated[list[_NormalPosterior], _DRAWN])
_SHARES = TypeAdapter(Annotated[list[_BetaPosterior], _DRAWN])

_FORM = (
    "expected OpenEstimate's NAME_variables.json (by variable: mean, std, se, variable, "
    "base_variable, conditions, ground_truth_distribution_type) and NAME_baselines.json (by "
    f"variable and by each of {', '.join(map(str, quantity.SIZES))}: a list of {quantity.DRAWS} "
    "posteriors, which have mu and sigma for a mean, alpha and beta for a share)"
)

#: In what a mean is measured, as the texts say it: "in units of ug/L", "(in dollars)", "in cm".
_UNIT = re.compile(
    r"\bin units of (?P<named>\S+)|\(in (?P<bracketed>[^()]+)\)|"
    r"\bin (?P<said>(?:(?:thousand|million|billion)s? (?:of )?)?(?:USD|(?:US )?dollars|euros)"
    r"|cm|kg|centimet(?:er|re)s|kilograms|pounds|per ?cent|years|months|weeks|days|hours|minutes)\b"
)

#: Written out in texts; units are called as in the sets that ship.
_SIGNS = {"kilograms": "kg", "centimeters": "cm", "centimetres": "cm"}


def import_quantities(files: Sequence[Path], name: str | None = None) -> quantity.Quantities:
    """Make a set of OpenEstimate's public files.

    Parameters
    ----------
    files : sequence of Path
        ``NAME_variables.json`` and ``NAME_baselines.json``, in any order; each tells by what it
        holds which it is.
    name : str, optional
        Of the set; by default NAME.

    Returns
    -------
    Quantities
        Scores are relative to the "published" draws, as the published ones are. Texts, families,
        truths and conditions are those of the file; units are read from its texts, and kilograms
        and centimeters called kg and cm, as in the sets that ship. Its fingerprint is empty.

    Raises
    ------
    EpidemiaError
        If a file is missing or has another form, or a variable lacks its baselines, or the
        variable without conditions that it is a slice of.
    """
    read = {kind: (content, path) for path in files for kind, content in [_read_file(path)]}
    if not len(read) == len(files) == 2:
        given = few([*map(str, files)])
        raise EpidemiaError(f"{given}: got {' and '.join(read)}, one of each is needed: {_FORM}")
    (content, path), (baselines, _) = read["variables"], read["baselines"]
    try:
        variables = _VARIABLES.validate_python(content)
    except ValueError as error:
        raise EpidemiaError(f"{path}: {describe_problem(error)}: {_FORM}") from error
    draws = [_sums(each, of.family, baselines) for each, of in variables.items()]
    name = name or path.stem.removesuffix("_variables")
    return quantity.Quantities(
        task=PREFIX + name,
        survey=name,
        vintage="OpenEstimate",
        title=f"{name}, in OpenEstimate's form",
        about={
            "source": "imported by the user",
            "citation": "OpenEstimate: Evaluating LLMs on Reasoning Under Uncertainty with "
            "Real-World Data (2025)",
            "files": "; ".join(f"{file.name} sha256 {paths.sha256_of(file)}" for file in files),
            "draws": "published: as their posteriors tell",
        },
        quantities=tuple(_quantity(each, variables, baselines) for each in variables),
        baselines={"published": quantity.stack_draws(draws)},
        scored="published",
        fingerprint="",
    )


def _read_file(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a file, and tell by its first entry what it holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EpidemiaError(f"{path} cannot be read ({error}): {_FORM}") from error
    first = next(iter(content.values()), None) if isinstance(content, dict) else None
    keys = set(first) if isinstance(first, dict) else set()
    if keys & {"mean", "ground_truth_distribution_type"}:
        return "variables", content
    if keys & {str(size) for size in quantity.SIZES}:
        return "baselines", content
    raise EpidemiaError(f"{path} contains {few(sorted(map(str, keys))) or 'nothing'}: {_FORM}")


def _quantity(name: str, variables: Mapping[str, _Variable], baselines: Any) -> quantity.Quantity:
    variable = variables[name]
    n = round((variable.std / variable.se) ** 2)  # where the file does not say how many
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        n = int(baselines[name]["all"][0]["actual_n"])
    base = variables.get(variable.base_variable)
    if base is None or base.conditions:
        base_name = variable.base_variable
        raise EpidemiaError(
            f"{name} is about a slice of {base_name}, but the file lacks {base_name} without "
            "conditions: add it"
        )
    told = None if variable.family == "beta" else _UNIT.search(base.text)
    unit = told[told.lastgroup or 0] if told else ""
    # A mean of what is positive for everybody together is one of what cannot be negative.
    least = 0.0 if base.mean > 0 else None
    return quantity.Quantity(
        name=name,
        base=variable.base_variable,
        conditions=tuple(
            quantity.Condition(on, _level(variables.get(on), level), "")
            for on, level in variable.conditions
        ),
        family=variable.family,
        unit=_SIGNS.get(unit, unit),
        wording=variable.text[:1].lower() + variable.text[1:].rstrip(". "),
        **quantity.list_numbers(variable.stats, n, base.stats, variable.family, least),
    )


def _level(on: _Variable | None, level: Any) -> str:
    """Name a level: of a number its quarter, of a share yes or no."""
    names = () if on is None else ("No", "Yes") if on.family == "beta" else QUARTERS
    return names[int(level)] if level in range(len(names)) else str(level)


def _sums(name: str, family: quantity.Family, baselines: Mapping[str, Any]) -> list[Any]:
    """Return what the draws of a variable come to, by size."""
    form = _SHARES if family == "beta" else _MEANS
    listed = []
    for size in quantity.SIZES:
        try:
            posteriors = form.validate_python(baselines.get(name, {}).get(str(size)))
            listed.append([posterior.sums(size) for posterior in posteriors])
        except (ValueError, AttributeError, ZeroDivisionError) as error:
            about = f"draws of {size} answers about {name} ({family})"
            raise EpidemiaError(f"{about}: {describe_problem(error)}; {_FORM}") from error
    return listed
