"""The files of a draft, and the columns that a user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.surveys.draft.columns import Field, Header, header_of, shared_column
from lm_eval_epidemia.surveys.draft.wishes import Wishes
from lm_eval_epidemia.surveys.read import FORMATS, suffix_of


class Files(NamedTuple):
    """Files and what they say of themselves."""

    paths: list[Path]
    given: list[Path]
    headers: list[Header]
    columns: list[Field]
    join: str

    @property
    def names(self) -> str:
        return ", ".join(path.name for path in self.given)

    def column(self, name: str, option: str, among: Sequence[Field] | None = None) -> Field:
        """Find a column that an option names."""
        every = self.columns if among is None else among
        for column in every:
            if column.name.casefold() == name.casefold():
                return column
        hint = nearest(name, [column.name for column in every])
        raise EpidemiaError(f"{option} {name}: {self.names} has no such column ({hint})")


def described(given: list[Path], unpacked: list[Path], wishes: Wishes) -> Files:
    if twice := [path.name for n, path in enumerate(given) if path in given[:n]]:
        raise EpidemiaError(f"{twice[0]} is given twice: give each file once")
    if wishes.encoding:
        _check_encoding(wishes.encoding, unpacked)
    headers = [header_of(path, n, wishes.encoding) for n, path in enumerate(unpacked)]
    for path, header in zip(unpacked, headers, strict=True):
        if header.rows == 0:
            raise EpidemiaError(f"{path.name} has zero rows")
    columns = [column for header in headers for column in header.columns]
    join = shared_column(headers, [path.name for path in unpacked], wishes.join)
    return Files(unpacked, given, headers, columns, join or "")


def _check_encoding(encoding: str, files: Sequence[Path]) -> None:
    import codecs

    try:
        codecs.lookup(encoding)
    except LookupError:
        raise EpidemiaError(
            f"--encoding {encoding}: unknown; expected, for example, latin-1, cp1251 or shift-jis"
        ) from None
    if other := [path.name for path in files if not FORMATS.get(suffix_of(path.name))]:
        raise EpidemiaError(
            f"--encoding applies only to SPSS, Stata and SAS files; {other[0]} is read as UTF-8, "
            f"or else as Western European: save it as UTF-8 (iconv -f {encoding} -t utf-8)"
        )


def named(
    read: Files, usable: Sequence[Field], left_out: Mapping[str, Sequence[Field]], wishes: Wishes
) -> dict[str, list[Field]]:
    """Find the columns that --outcomes and --given name."""
    columns: dict[str, list[Field]] = {}
    for option, names in (("--outcomes", wishes.outcomes), ("--given", wishes.given)):
        for name in names or ():
            column = read.column(name, option)
            for reason, gone in left_out.items():
                if column in gone:
                    raise EpidemiaError(f"{option} {name}: this column cannot be used: {reason}")
            columns.setdefault(option, []).append(read.column(name, option, usable))
    return columns
