"""The command ``epidemia anchors``: the distances that fix 0 and 100."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from lm_eval_epidemia.cli.groundtruth import scheme_of
from lm_eval_epidemia.cli.options import NamesOrAll, Text
from lm_eval_epidemia.cli.printing import show
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError, plural


def anchors(
    names: NamesOrAll = None,
    summary: Annotated[bool, Option("--summary", help="Print one line per group.")] = False,
    vintage: Annotated[
        Text, Option(help="Use the truth of this vintage instead of the one that scores use.")
    ] = None,
    quantile: Annotated[
        float, Option(help="Quantile of the bootstrap distances that is D_perfect.")
    ] = 0.95,
    bootstrap: Annotated[
        Text,
        Option(help="Bootstrap: iid, design or population. Default: the one that scores use."),
    ] = None,
) -> None:
    """Print the distances that set each task's scale, and the score for knowing averages only."""
    from lm_eval_epidemia.benchmarks.observation.respondents import has_bootstrap, scales
    from lm_eval_epidemia.cli import listings
    from lm_eval_epidemia.estimate import store

    if not 0 < quantile < 1:
        raise EpidemiaError(f"--quantile {quantile}: expected a number between 0 and 1")
    scheme = None if bootstrap is None else scheme_of(bootstrap)
    tasks = asked = _anchored(names)
    # One task alone is refused with what it lacks; of several, those that have it are shown.
    if scheme:
        tasks = [name for name in asked if has_bootstrap(name, scheme, vintage)] or asked
    if vintage:
        tasks = [name for name in tasks if vintage in store.vintages(name)] or tasks
    listed = scales(tasks, quantile, scheme, vintage)
    show(listings.groups_of_scales(listed) if summary else listings.scales(listed))
    if len(listed) < len(asked):
        lacking, of = len(asked) - len(listed), plural(len(asked), "task")
        what = " and ".join(
            [f"a truth of {vintage}"] * bool(vintage) + [f"a {scheme} bootstrap"] * bool(scheme)
        )
        print(f"{lacking} of {of} lack {what}")
    if barely := sum(scale.anchors.barely for scale in listed):
        of = plural(len(listed), "task")
        print(
            f"{barely} of {of} are barely informative: D_perfect > 0.8 D_zero, or less than 1.96 "
            "standard errors below it"
        )


def _anchored(names: list[str] | None) -> list[str]:
    """Return the available tasks that names mean, each once; all must have anchors."""
    from lm_eval_epidemia.benchmarks import in_way, leaves, members
    from lm_eval_epidemia.estimate import store

    if not names:
        return list(store.available())
    known, tasks = leaves(), dict[str, None]()
    for name in separated(names):
        for task, way in members(name):
            leaf = known[in_way(task, way)]
            if without := leaf.benchmark.without_anchors:
                of = leaf.group if name == leaf.group else f"{name}: {leaf.group}"
                raise EpidemiaError(f"{of} {without.format(task=task, way=way)}")
            tasks[task] = None
    return list(tasks)
