"""Tables of objects whose modules are imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Lazy(Mapping[str, T]):
    """Objects by name, in a fixed order; to list the names imports nothing.

    Parameters
    ----------
    package : str
    places : mapping of str to str
        By name, the module below the package and the object's name there: ``"letters:WAY"``.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self.package, self.places = package, places

    def __getitem__(self, name: str) -> T:
        module, _, attribute = self.places[name].partition(":")
        found: T = getattr(import_module(f"{self.package}.{module}"), attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)
