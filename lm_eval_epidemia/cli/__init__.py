"""The ``epidemia`` command. Every command calls a function that a Python user can call too."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli import about, completing
from lm_eval_epidemia.cli import fresh as fresh_cli
from lm_eval_epidemia.cli import report as report_cli
from lm_eval_epidemia.cli.finetune import app as finetune_app
from lm_eval_epidemia.cli.options import (
    Backend,
    InVintage,
    Jobs,
    Names,
    NamesOrAll,
    Raw,
    Surveys,
    Text,
    Texts,
)
from lm_eval_epidemia.cli.printing import show, table_of
from lm_eval_epidemia.cli.quantities import app as quantities_app
from lm_eval_epidemia.cli.survey import app as survey_app
from lm_eval_epidemia.core.console import checked_output, print_anything, separated
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.core.version import __version__

app = typer.Typer(
    name="epidemia",
    help="Do language models know how the world is distributed? Ask them with lm-eval.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
tasks_app = typer.Typer(
    no_args_is_help=True, help="List the tasks, draw fresh ones, and write task files."
)
truth_app = typer.Typer(
    no_args_is_help=True, help="Build ground truth from survey files, and check it."
)
#: What commands are for, in the order in which the help lists them.
RUN, LOOK, BUILD, RESEARCH = "Run", "Look", "Build", "Research"
app.add_typer(report_cli.site_app, name="site", rich_help_panel=LOOK)
app.add_typer(tasks_app, name="tasks", rich_help_panel=LOOK)
app.add_typer(survey_app, name="survey", rich_help_panel=BUILD)
app.add_typer(truth_app, name="groundtruth", rich_help_panel=BUILD)
app.add_typer(quantities_app, name="quantities", rich_help_panel=RESEARCH)
app.add_typer(finetune_app, name="finetune", rich_help_panel=RESEARCH)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
    record: Annotated[
        list[Path] | None,
        Option(
            help="Use this survey record of your own, or a folder of them; the option may stand "
            "anywhere and be given several times."
        ),
    ] = None,  # `main` has taken them
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command(
    rich_help_panel=RUN,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(
    arguments: Annotated[
        Texts,
        Argument(help="Every option of lm_eval is taken.", autocompletion=completing.of_lm_eval),
    ] = None,
) -> None:
    """Run lm-eval with its own options; it starts in seconds if only our tasks are asked."""
    from lm_eval_epidemia.harness.run import run as run_lm_eval

    run_lm_eval(arguments or [])


@app.command(rich_help_panel=RUN)
def demo(
    out: Annotated[Path, Option(help="Write lm-eval's results into this folder.")] = Path(
        "epidemia-demo"
    ),
    model: Annotated[
        Texts,
        Option(
            help="Add this model: a folder, a .gguf file or an id of the Hugging Face Hub. "
            "It takes the place of the tiny random one; the option may be given several times."
        ),
    ] = None,
    limit: Annotated[
        int | None, Option(help="Ask models at most so many prompts per task.")
    ] = None,
) -> None:
    """Evaluate respondents whose answers are known, and your models or a tiny one."""
    # Only an id needs the network; asking for it would make an offline run slow.
    if all(Path(given).exists() for given in model or []):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    # lm-eval shows a bar per task and run; the demonstration has one of its own.
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval.utils import setup_logging

    from lm_eval_epidemia.models.demo import demo as run_demo

    setup_logging()
    lines = run_demo(out, limit, model or [])
    groups = list(lines[0].scores)
    title = "Score, 0 to 100 (± standard error)"
    table = table_of(title, "respondent", *groups, right=tuple(groups))
    for line in lines:
        cells = [f"{score:.1f} ± {error:.1f}" for score, error in line.scores.values()]
        table.add_row(line.respondent, *cells)
    show(table)
    print(f"lm-eval's results are in {out.resolve()}")


@app.command(rich_help_panel=RUN)
def path() -> None:
    """Print the folder of our task files, which lm_eval takes as --include_path."""
    from lm_eval_epidemia.harness.yamls import task_path

    print(task_path())


for command in (report_cli.report, report_cli.compare, report_cli.plot):
    app.command(rich_help_panel=LOOK)(command)
app.command(rich_help_panel=LOOK)(about.show)
app.command(rich_help_panel=LOOK)(about.search)


@app.command(rich_help_panel=LOOK)
def anchors(
    names: NamesOrAll = None,
    summary: Annotated[bool, Option("--summary", help="Print one line per group.")] = False,
    compare: Annotated[
        bool, Option("--compare", help="Compare the truth with every other vintage that is here.")
    ] = False,
    vintage: Annotated[
        Text, Option(help="Use the truth of this vintage in place of the one that scores use.")
    ] = None,
    quantile: Annotated[
        float, Option(help="Take this quantile of the bootstrap distances as D_perfect.")
    ] = 0.95,
    bootstrap: Annotated[
        Text,
        Option(
            help="Use this bootstrap: iid, design or population. By default it is what scores use."
        ),
    ] = None,
) -> None:
    """Print the distances that fix each task's scale, and what knowing averages scores."""
    from lm_eval_epidemia.benchmarks.observation.drift import drifts
    from lm_eval_epidemia.benchmarks.observation.scales import has_bootstrap, scales
    from lm_eval_epidemia.cli import listings

    if not 0 < quantile < 1:
        raise EpidemiaError(f"--quantile {quantile} is not between 0 and 1")
    scheme = None if bootstrap is None else _scheme(bootstrap)
    tasks = asked = _anchored(names)
    if compare:
        pairs = drifts(tasks, vintage)
        show(listings.drifts(pairs))
        print("\n".join(listings.drift_notes(pairs)))
        return
    if scheme:
        # One task alone is refused with what it lacks; of several, those that have it are shown.
        tasks = [name for name in asked if has_bootstrap(name, scheme, vintage)] or asked
    listed = scales(tasks, quantile, scheme, vintage)
    show(listings.groups_of_scales(listed) if summary else listings.scales(listed))
    if len(listed) < len(asked):
        lacking, of = len(asked) - len(listed), plural(len(asked), "task")
        print(f"{lacking} of {of} without a {scheme} bootstrap")
    if barely := sum(scale.anchors.barely for scale in listed):
        of = plural(len(listed), "task")
        print(
            f"{barely} of {of} barely informative: D_perfect > 0.8 D_zero, or "
            "less than 1.96 standard errors below it"
        )


def _anchored(names: list[str] | None) -> list[str]:
    """Spell out names as the available tasks they mean, each once; all must have anchors."""
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


def _scheme(name: str) -> Any:
    from lm_eval_epidemia.estimate.sampling import SCHEMES

    if name not in SCHEMES:
        known = " or ".join(", ".join(SCHEMES).rsplit(", ", 1))
        raise EpidemiaError(f"--bootstrap {name!r} is not known: expected {known}")
    return name


@tasks_app.command("list")
def tasks_list(
    names: NamesOrAll = None,
    survey: Annotated[
        Text,
        Option(
            help="List the tasks of these surveys only, such as gss,scf.",
            autocompletion=completing.surveys,
        ),
    ] = None,
    summary: Annotated[bool, Option("--summary", help="Print one line per survey.")] = False,
) -> None:
    """List declared tasks with their state: shipped, built here, or waiting for a file."""
    from pandas import concat

    from lm_eval_epidemia.api import tasks
    from lm_eval_epidemia.benchmarks import meant
    from lm_eval_epidemia.cli import listings

    declared = concat(map(tasks, separated([survey]))) if survey else tasks()
    if names:
        wanted = {leaf.entry.name for name in separated(names) for leaf in meant(name)}
        if beside := sorted(wanted - {*tasks().task}):
            raise EpidemiaError(f"{few(beside)}: no tasks about surveys; see 'epidemia show NAME'")
        declared = declared[declared.task.isin(wanted)]
    if summary:
        show(listings.tasks_summary(declared))
        return
    table = table_of("", "task", "state", "title")
    for task in declared.to_dict("records"):
        state = "needs {needs}" if task["state"] == "waiting" else "{state} ({vintage})"
        table.add_row(task["task"], state.format_map(task), task["title"])
    show(table)
    print(f"{sum(declared.state != 'waiting')} of {plural(len(declared), 'task')} available")
    if survey is None and not names:
        print("others are about causal graphs (docs/interventional.md) and priors (docs/priors.md)")
        print("and epidemia_quick predicts epidemia_low and epidemia_high (docs/running.md)")


tasks_app.command("fresh")(fresh_cli.fresh)


@tasks_app.command("write")
def tasks_write(
    folder: Annotated[Path, Argument(help="A new folder, or one that was written before.")],
) -> None:
    """Write lm-eval's task files of everything whose truth is here."""
    from lm_eval_epidemia.harness import yamls

    files = yamls.render()
    yamls.write(folder, files, replace=True)
    print(f"{len(files)} task files are in {folder.resolve()}")


@truth_app.command("build")
def truth_build(
    surveys: Surveys,
    raw: Raw = None,
    vintage: InVintage = None,
    bootstrap: Annotated[
        Texts,
        Option(
            help="Use this bootstrap: iid, design or population. By default all are used that the "
            "survey allows."
        ),
    ] = None,
    replicates: Annotated[
        int,
        Option(
            help="Draw so many bootstrap replicates, half as many for tasks of several conditions."
        ),
    ] = 200,
    jobs: Jobs = 1,
    backend: Backend = None,
    out: Annotated[
        Path | None,
        Option(help="Write into this folder. By default it is your own, which lm_eval reads."),
    ] = None,
    marginal: Annotated[
        bool,
        Option("--marginal", help="Build only the tasks without conditions, which takes seconds."),
    ] = False,
    joint: Annotated[
        bool,
        Option(
            "--joint", help="Build only the joint outcomes of two questions, which takes seconds."
        ),
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
    from lm_eval_epidemia.findings.contrasts import CONTRASTS
    from lm_eval_epidemia.harness.discovery import forget_cached_requests
    from lm_eval_epidemia.harness.yamls import task_path

    only = [kind for kind, chosen in (("marginal", marginal), ("joint", joint)) if chosen]
    how: dict[str, Any] = {"replicates": replicates, "jobs": jobs, "backend": backend, "out": out}
    how |= {"bootstrap": [_scheme(name) for name in bootstrap or []] or None, "only": only}
    if counted:
        how["counted"] = [contrast.task for contrast in CONTRASTS]
    surveys = separated(surveys)
    if raw and len(surveys) > 1:
        raise EpidemiaError(
            f"--raw is of one survey, {len(surveys)} were named ({few(surveys)}): build one by "
            "one; several files of one survey take --raw before each"
        )
    for survey in surveys:
        try:
            built = build(survey, raw, vintage=vintage, **how)
        except KeyboardInterrupt:
            _complain("\ninterrupted; finished tasks are kept, the same command continues")
            raise typer.Exit(130) from None
        are = "is" if len(built.tasks) == 1 else "are"
        tasks = plural(len(built.tasks), "task")
        print(f"{tasks} of {built.key} {are} in {built.folder.resolve()}")
        if built.left_out:
            left_out = plural(len(built.left_out), "task")
            print(f"{left_out} left out, for variables that the files lack:")
            for name in built.left_out:
                print(f"  {name}")
        if reason := not_scored(built):
            print(reason)
        if out is None:
            asked = leaves().items()
            forget_cached_requests(name for name, leaf in asked if leaf.entry.name in built.tasks)
    if out is None and not counted:
        print(f"lm-eval finds them in {task_path()}")


@truth_app.command("check")
def truth_check() -> None:
    """Check that all ground truth that is used here is whole and as registered."""
    from lm_eval_epidemia.estimate.check import check_all
    from lm_eval_epidemia.estimate.store import without_replicates

    checked = check_all()
    wrong = {name: problems for name, problems in checked.items() if problems}
    for name, problems in wrong.items():
        for problem in problems:
            _complain(f"{name}: {problem}")
    if wrong:
        raise EpidemiaError(
            f"{len(wrong)} of {plural(len(checked), 'task')} with a wrong ground truth"
        )
    print(f"ground truth of {plural(len(checked), 'task')} is as registered")
    if lacking := ", ".join(without_replicates()):
        print(f"without joint replicates, so that errors are N/A: {lacking} (build anew)")


@truth_app.command("changes")
def truth_changes(
    old: Annotated[Path, Argument(help="A folder of ground truth.")],
    new: Annotated[
        Path | None, Argument(help="Another one. By default it is what the package ships.")
    ] = None,
) -> None:
    """Say task by task what another build of the truth changes."""
    from lm_eval_epidemia.benchmarks.observation.changes import changes
    from lm_eval_epidemia.cli import listings
    from lm_eval_epidemia.core import paths

    common = changes(old, new or paths.shipped_groundtruth())
    if moved := [change for change in common if not change.same]:
        show(listings.changes(moved))
    print(f"{len(common) - len(moved)} of {len(common)} truths are as they were")
    if gone := sum(change.errors != change.new_errors for change in common):
        print(f"{gone} of {len(common)} have joint replicates, so errors, in one of them only")


@app.command(rich_help_panel=RUN)
def cost(
    names: Names,
    tokenizer: Annotated[
        Text,
        Option(
            help="Count tokens with this tokenizer, a folder or the name of a model on the Hub."
        ),
    ] = None,
    metadata: Annotated[
        Text, Option(help="Ask in this variant: JSON, as lm_eval takes it.")
    ] = None,
    max_gen_toks: Annotated[
        int, Option(help="Let a model write at most so many tokens per answer.")
    ] = 1024,
) -> None:
    """Count the prompts, requests and tokens of groups before anything is spent."""
    from lm_eval_epidemia.benchmarks import meant
    from lm_eval_epidemia.harness import cost as costs

    for name in (named := separated(names)):
        meant(name)
    loaded = costs.tokenizer(tokenizer) if tokenizer else None
    lines = costs.cost(named, loaded, _metadata(metadata), max_gen_toks)
    numbers = (*costs.Cost._fields[1:7], "written at most")
    table = table_of("", "group", *numbers, right=numbers)
    for line in lines:
        counts = line[1:8]
        table.add_row(line.name, *("" if count is None else f"{count:,}" for count in counts))
    show(table)
    leaves = {name: leaf for line in lines for name, leaf in line.leaves.items()}
    if letters := {name: leaf for name, leaf in leaves.items() if not leaf.written}:
        total = costs.together("", letters)  # of a task that several groups have, once
        print(
            f"by log-probabilities of a server: --model choice-api sends {total.prompts:,} "
            "requests (one per prompt, for one token each), local-completions "
            f"{total.requests:,}"
        )
    if loaded is None:
        print("tokens are counted with --tokenizer")
    elif several := costs.letters_of_several_tokens(loaded):
        print(
            f"{len(several)} letters ({', '.join(several[:5])} ...) are not one token: they are "
            "scored by all their tokens, with the same result, in a forward pass per letter"
        )
    else:
        print("every letter is one token")


def _metadata(text: str | None) -> dict[str, Any]:
    import json

    try:
        metadata = json.loads(text or "{}")
    except ValueError as error:
        raise EpidemiaError(f"--metadata {text!r} is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise EpidemiaError(f"--metadata {text!r}: expected an object, as '{{\"n_samples\": 200}}'")
    return metadata


@app.command(rich_help_panel=BUILD)
def export(
    out: Annotated[Path, Option(help="Write into this new folder.")],
    push_to_hub: Annotated[
        Text, Option(help="Upload to this dataset repository of the Hugging Face Hub too.")
    ] = None,
) -> None:
    """Write the questions as a dataset repository of Hugging Face."""
    from lm_eval_epidemia.results.export import export as export_dataset

    folder = export_dataset(out, push_to_hub)
    print(f"the dataset repository is in {folder}")
    print(f"try: lm_eval --include_path {folder / 'task_yamls'} --tasks epidemia_low --model ...")


def _take_records(line: list[str]) -> list[str]:
    """Take ``--record PATH`` out of a command line, for this process and those it starts."""
    rest, given, words = [], [], iter(line)
    for word in words:
        name, is_equal, value = word.partition("=")
        if name != "--record":
            rest.append(word)
        elif value := value if is_equal else next(words, ""):
            given.append(str(Path(value).resolve()))
        else:
            raise EpidemiaError("--record wants the path of a record (.yaml) or of a folder")
    if given:
        from lm_eval_epidemia.surveys.catalogue import RECORDS

        before = filter(None, [os.environ.get(RECORDS)])
        os.environ[RECORDS] = os.pathsep.join([*before, *given])
    return rest


def main() -> None:
    """Run the command; what a user can mend is one line without a traceback."""
    print_anything()
    try:
        with checked_output():
            app(_take_records(sys.argv[1:]), prog_name="epidemia")
    except EpidemiaError as error:
        _complain(f"error: {error}")
        sys.exit(2)
    except Exception as error:
        if not _without_docstrings():
            raise
        _complain(f"error: {type(error).__name__}: {error}\n{NO_DOCSTRINGS}")
        sys.exit(2)


def _complain(text: str) -> None:
    print(text, file=sys.stderr)


NO_DOCSTRINGS = (
    "PYTHONOPTIMIZE=2 (python -OO) takes the docstrings out of every library; altair, lightgbm, "
    "peft and transformers read theirs and stop without them: unset it, or set it to 1"
)


def _without_docstrings() -> bool:
    return sys.flags.optimize > 1
