"""What follows from results: one function per finding, each declared in `findings.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.paths import read_yaml

if TYPE_CHECKING:
    from lm_eval_epidemia.findings.finding import Finding
    from lm_eval_epidemia.results.read import Results

#: What is declared of each finding, see `findings.yaml`.
DECLARED: dict[str, dict[str, Any]] = read_yaml(__name__, "findings.yaml")

#: Those of results, in the order of ``--show all``.
FINDINGS = {name: of for name, of in DECLARED.items() if "made_by" in of}


def find(name: str) -> Callable[[Results], Finding]:
    """Return the function of a finding.

    Raises
    ------
    EpidemiaError
        If there is no such finding.
    """
    if name not in FINDINGS:
        raise EpidemiaError(f"no finding {name!r} ({suggest(name, FINDINGS)}): see --show help")
    module, _, function = FINDINGS[name]["made_by"].partition(":")
    made: Callable[[Results], Finding] = getattr(
        import_module(f"lm_eval_epidemia.findings.{module}"), function
    )
    return made
