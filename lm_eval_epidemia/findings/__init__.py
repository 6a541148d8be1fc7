"""What follows from results: one function per finding, each in the table `FINDINGS`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from lm_eval_epidemia.core.errors import EpidemiaError, nearest

if TYPE_CHECKING:
    from lm_eval_epidemia.findings.finding import Finding
    from lm_eval_epidemia.results.read import Results

#: Where the function of each finding is: module and name. In the order of ``--show all``.
FINDINGS = {
    "leaderboard": "leaderboard:leaderboard",
    "population": "leaderboard:population",
    "scale": "leaderboard:scales",
    "survey": "leaderboard:survey",
    "domain": "leaderboard:domain",
    "dimension": "leaderboard:dimension",
    "subset": "leaderboard:subset",
    "nodes": "leaderboard:nodes",
    "names": "leaderboard:names",
    "closed": "leaderboard:closed",
    "interventions": "interventions:interventions",
    "shortcut": "interventions:shortcut",
    "memorisation": "interventions:memorisation",
    "notices": "interventions:notices",
    "wins": "priors:wins",
    "priors": "priors:priors",
    "quartiles": "priors:quartiles",
    "uncertainty": "priors:uncertainty",
    "quantities": "quantities:quantities",
    "ablations": "ablations:ablations",
    "published-priors": "priors:published_priors",
    "pairs": "pairs:pairs",
    "versions": "pairs:versions",
    "version-tasks": "pairs:version_tasks",
    "ways": "pairs:ways",
    "side-by-side": "pairs:side_by_side",
    "wording": "pairs:wording",
    "tuning": "tuning:tuning",
    "trained": "tuning:trained",
    "learning": "tuning:learning",
    "losses": "tuning:losses",
    "other": "leaderboard:other",
    "correlation": "leaderboard:correlation",
    "distances": "scales:distances",
    "tilt": "scales:tilt",
    "recalibrated": "scales:recalibrated",
    "standardised": "standardised:standardised",
    "implied": "standardised:implied",
    "letters": "calibration:letters",
    "calibration": "calibration:calibration",
    "order-bias": "calibration:order_bias",
    "places": "countries:places",
    "regions": "countries:regions",
    "years": "years:years",
    "course": "years:course",
    "year-lived": "years:year_lived",
    "people": "people:people",
    "wordings": "wordings:wordings",
    "probe": "probe:probe",
    "tasks": "leaderboard:tasks",
    "notes": "notes:notes",
}


def find(name: str) -> Callable[[Results], Finding]:
    """Return the function of a finding.

    Raises
    ------
    EpidemiaError
        If there is no such finding.
    """
    if name not in FINDINGS:
        raise EpidemiaError(f"no finding {name!r} ({nearest(name, FINDINGS)}): see --show help")
    module, _, function = FINDINGS[name].partition(":")
    made: Callable[[Results], Finding] = getattr(
        import_module(f"lm_eval_epidemia.findings.{module}"), function
    )
    return made
