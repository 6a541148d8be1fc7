"""The layout of a published table, as its record describes it; `tables` reads the table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from lm_eval_epidemia.surveys.variable import Listed, Strict


class TableLayout(Strict):
    """A published table: a distribution of `outcome` in each row of `given`.

    Attributes
    ----------
    given : tuple of str
        Conditions; one may be written without a list. Of none, it has one row.
    file : str
        A word in the name of its file, where there are several.
    rows : dict of str to tuple of str
        By condition, the header of the column that names its levels (other spellings may follow).
        Of a single condition, these spellings are enough.
    size : tuple of str
        Header of the column that weighs the rows; none: all alike.
    shares : dict of str to str
        Level of the outcome -> header of its column, 'remainder' for the rest; by default the first
        of the level's names.
    where : dict of str to str
        Only rows with these texts in these columns.
    total : str, optional
        The row of the grand total; it weighs what the other rows leave.
    interval : pair of str, optional
        Headers of the limits of a 95 % confidence interval of the first share.
    within : dict of str to pair of float
        Only rows whose number in these columns lies between: of a year, of a population.
    leave_out : tuple of str
        Patterns of rows left out on purpose: headings, totals.
    """

    outcome: str
    given: Listed
    file: str = ""
    rows: dict[str, Listed] = Field({})
    size: Listed = ()
    shares: dict[str, str] = Field({})
    unit: Literal["percent", "count"]
    where: dict[str, str] = Field({})
    total: str | None = None
    interval: tuple[str, str] | None = None
    within: dict[str, tuple[float, float]] = Field({})
    leave_out: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _rows_of_one(cls, data: Any) -> Any:
        if not isinstance(data, dict) or isinstance(data.get("rows"), dict):
            return data
        given = data.get("given")
        names = [given] if isinstance(given, str) else given
        return {**data, "rows": {names[0]: data.get("rows")}} if names and len(names) == 1 else data

    @model_validator(mode="after")
    def _rows_of_each(self) -> TableLayout:
        if set(self.rows) != set(self.given):
            raise ValueError(
                f"'rows' needs one header for each of {list(self.given)}, got {list(self.rows)}"
            )
        return self

    @property
    def said(self) -> str:
        """What the table is about."""
        return f"{self.outcome} by {', '.join(self.given)}"
