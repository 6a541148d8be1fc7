"""How a record corrects the weights of a file that covers only part of its population.

`estimate.adjust` does it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from lm_eval_epidemia.surveys.variable import Strict, Universe


class Margin(Strict):
    """A known distribution of one or several variables of the record.

    Attributes
    ----------
    shares : Any
        Nested lists in the order of the levels; None: the shares in the file.
    """

    variables: tuple[str, ...] = Field(min_length=1)
    shares: Any = None


class Rake(Strict):
    """Rake the weights to known margins of the population that the records represent.

    Attributes
    ----------
    among : tuple of Universe
        The population; all records if empty.
    known : str, optional
        Only records with a value in this column represent the population.
    outcomes : tuple of str
        Only for tasks with these outcomes; all if empty.
    cells_only : bool
        The raked weight gives P(X); P(Y | X) keeps the file's own weight.
    """

    method: Literal["rake"] = "rake"
    reason: str
    margins: tuple[Margin, ...] = Field(min_length=1)
    among: tuple[Universe, ...] = ()
    known: str | None = None
    outcomes: tuple[str, ...] = ()
    cells_only: bool = False


class Rescale(Strict):
    """Scale the weights to a known total; shares do not change."""

    method: Literal["rescale"]
    reason: str
    total: float = Field(gt=0)


Adjustment = Annotated[Rake | Rescale, Field(discriminator="method")]
