"""The commands around a run of lm-eval: ``epidemia run``, ``demo``, ``path``, ``cost``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from lm_eval_epidemia.cli.options import Names, Text, Texts
from lm_eval_epidemia.cli.printing import make_table, print_table
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError


def run(
    arguments: Annotated[Texts, Argument(help="Any option of lm_eval.")] = None,
) -> None:
    """Run lm-eval with its own options; with our tasks alone it starts in seconds."""
    from lm_eval_epidemia.harness.run import run_lm_eval as run_lm_eval

    run_lm_eval(arguments or [])


def demo(
    out: Annotated[Path, Option(help="Folder for lm-eval's results.")] = Path("epidemia-demo"),
    model: Annotated[
        Texts,
        Option(
            help="Evaluate this model instead of the tiny random one: a folder, a .gguf file or a "
            "Hugging Face Hub id. Repeat the option for several."
        ),
    ] = None,
    limit: Annotated[
        int | None, Option(help="Ask models the first cells of each task, this many.", min=1)
    ] = None,
) -> None:
    """Evaluate simulated respondents with known answers, and your models or a tiny one."""
    # Only an id needs the network; asking for it would make an offline run slow.
    if all(Path(given).exists() for given in model or []):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("LMEVAL_LOG_LEVEL", "WARNING")
    # lm-eval shows a bar per task and run; the demonstration has one of its own.
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval.utils import setup_logging

    from lm_eval_epidemia.models.demo import demo as run_demo

    setup_logging()
    titles = ("Score, 0 to 100 (± standard error)", "On the questions that models were asked")
    for title, lines in zip(titles, run_demo(out, limit, model or []), strict=False):
        groups = list(lines[0].scores)
        table = make_table(title, "respondent", *groups, right=tuple(groups))
        for line in lines:
            cells = [f"{score:.1f} ± {error:.1f}" for score, error in line.scores.values()]
            table.add_row(line.respondent, *cells)
        print_table(table)
    print(f"lm-eval's results are in {out.resolve()}")
    print(f"next: epidemia report {shlex.quote(str(out))} --html site/")


def path() -> None:
    """Print the folder of our task files, for lm_eval's --include_path."""
    from lm_eval_epidemia.harness.yamls import task_path

    print(task_path())


def cost(
    names: Names,
    tokenizer: Annotated[
        Text, Option(help="Count tokens with this tokenizer: a folder or a model id on the Hub.")
    ] = None,
    metadata: Annotated[
        Text, Option(help="Ask in this variant: JSON, as for lm_eval's --metadata.")
    ] = None,
    max_gen_toks: Annotated[
        int, Option(help="Most tokens that a model may write per answer.")
    ] = 1024,
) -> None:
    """Count prompts, requests and tokens before you spend any."""
    from lm_eval_epidemia.benchmarks import find_leaves
    from lm_eval_epidemia.harness import cost as costs

    for name in (named := split_names(names)):
        find_leaves(name)
    loaded = costs.tokenizer(tokenizer) if tokenizer else None
    lines = costs.cost(named, loaded, _metadata(metadata), max_gen_toks)
    every = (*costs.Cost._fields[1:7], "written at most")
    # Without a tokenizer no tokens are counted.
    counted = [n for n in range(len(every)) if any(line[n + 1] is not None for line in lines)]
    numbers = tuple(every[n] for n in counted)
    table = make_table("", "group", *numbers, right=numbers)
    for line in lines:
        table.add_row(line.name, *(f"{line[n + 1]:,}" for n in counted))
    print_table(table)
    leaves = {name: leaf for line in lines for name, leaf in line.leaves.items()}
    if letters := {name: leaf for name, leaf in leaves.items() if not leaf.written}:
        total = costs.add_costs("", letters)  # of a task that several groups have, once
        print(
            f"with log-probabilities from a server: --model choice-api sends {total.prompts:,} "
            f"requests (one per prompt, for one token each), local-completions {total.requests:,}; "
            f"a decision endpoint (choice-decide) gets {total.prompts:,} at most, input tokens only"
        )
    most = _metadata(metadata).get("tries", 1)
    if most > 1:
        print(f"unreadable replies are asked again: at most {most} times as many requests")
    if loaded is None:
        print("to count tokens, give --tokenizer")


def _metadata(text: str | None) -> dict[str, Any]:
    import json

    try:
        metadata = json.loads(text or "{}")
    except ValueError as error:
        raise EpidemiaError(f"--metadata {text!r} is not JSON: {error}") from None
    if not isinstance(metadata, dict):
        raise EpidemiaError(f"--metadata {text!r}: expected an object, as '{{\"n_samples\": 200}}'")
    return metadata
