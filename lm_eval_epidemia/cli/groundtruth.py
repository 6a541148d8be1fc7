"""The commands ``epidemia groundtruth``: truths built from survey files, checked, compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from lm_eval_epidemia.cli.options import Backend, InVintage, Jobs, Raw, Surveys, Texts
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural

app = typer.Typer(no_args_is_help=True, help="Build ground truth from survey files, and check it.")


@app.command("build")
def truth_build(
    surveys: Surveys,
    raw: Raw = None,
    vintage: InVintage = None,
    bootstrap: Annotated[
        Texts,
        Option(help="Bootstrap: iid, design or population. Default: all that the survey allows."),
    ] = None,
    replicates: Annotated[
        int,
        Option(
            help="Number of bootstrap replicates; tasks with several conditions get half as many."
        ),
    ] = 200,
    jobs: Jobs = 1,
    backend: Backend = None,
    out: Annotated[
        Path | None,
        Option(help="Folder to write. Default: your own, which lm_eval reads."),
    ] = None,
    marginal: Annotated[
        bool,
        Option("--marginal", help="Build only tasks without conditions (takes seconds)."),
    ] = False,
    joint: Annotated[
        bool,
        Option("--joint", help="Build only joint outcomes of two questions (takes seconds)."),
    ] = False,
    counted: Annotated[
        bool,
        Option(
            "--counted",
            help="Build only the counts that standardised effects of boosted tasks need.",
        ),
    ] = False,
) -> None:
    """Build the truth of every task that the files of a survey allow."""
    from lm_eval_epidemia.benchmarks import leaves
    from lm_eval_epidemia.estimate.build import build, not_scored
    from lm_eval_epidemia.findings.standardised import CONTRASTS
    from lm_eval_epidemia.harness.discovery import forget_cached_requests
    from lm_eval_epidemia.harness.yamls import task_path

    only = [kind for kind, chosen in (("marginal", marginal), ("joint", joint)) if chosen]
    how: dict[str, Any] = {"replicates": replicates, "jobs": jobs, "backend": backend, "out": out}
    how |= {"bootstrap": [scheme_of(name) for name in bootstrap or []] or None, "only": only}
    if counted:
        how["counted"] = [contrast.task for contrast in CONTRASTS]
    surveys = separated(surveys)
    if raw and len(surveys) > 1:
        raise EpidemiaError(
            f"--raw belongs to one survey, but {len(surveys)} were named ({few(surveys)}): build "
            "them one by one. For several files of one survey, repeat --raw"
        )
    for survey in surveys:
        try:
            built = build(survey, raw, vintage=vintage, **how)
        except KeyboardInterrupt:
            print(
                "\ninterrupted: finished tasks are kept; repeat the command to continue",
                file=sys.stderr,
            )
            raise typer.Exit(130) from None
        are = "is" if len(built.tasks) == 1 else "are"
        tasks = plural(len(built.tasks), "task")
        print(f"{tasks} of {built.key} {are} in {built.folder.resolve()}")
        if built.left_out:
            left_out = plural(len(built.left_out), "task")
            print(f"{left_out} left out, because the files lack what they need:")
            for name in built.left_out:
                print(f"  {name}")
        for reason in built.skipped.values():
            print(f"skipped, without a truth: {reason}")
        if reason := not_scored(built):
            print(reason)
        if out is None:
            asked = leaves().items()
            forget_cached_requests(name for name, leaf in asked if leaf.entry.name in built.tasks)
    if out is None and not counted:
        print(f"lm-eval reads them from {task_path()}")


@app.command("check")
def truth_check() -> None:
    """Check that all ground truth used here is complete and as registered."""
    from lm_eval_epidemia.api import tasks
    from lm_eval_epidemia.cli.listings import waiting
    from lm_eval_epidemia.estimate.check import check_all
    from lm_eval_epidemia.estimate.store import without_replicates

    checked = check_all()
    wrong = {name: problems for name, problems in checked.items() if problems}
    for name, problems in wrong.items():
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)
    if wrong:
        raise EpidemiaError(
            f"{len(wrong)} of {plural(len(checked), 'task')} have a wrong ground truth"
        )
    print(f"ground truth of {plural(len(checked), 'task')} is as registered")
    for line in waiting(tasks()):
        print(line)
    if lacking := ", ".join(without_replicates()):
        print(
            f"these have no joint replicates, so their errors are N/A: {lacking} (build them anew)"
        )


def scheme_of(name: str) -> Any:
    from lm_eval_epidemia.estimate.sampling import SCHEMES

    if name not in SCHEMES:
        known = " or ".join(", ".join(SCHEMES).rsplit(", ", 1))
        raise EpidemiaError(f"--bootstrap {name!r}: expected {known}")
    return name
