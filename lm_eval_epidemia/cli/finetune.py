"""``epidemia finetune``: does a model learn a distribution from text about it?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from lm_eval_epidemia.cli.options import InVintage, Text, Texts
from lm_eval_epidemia.cli.printing import show, table_of
from lm_eval_epidemia.core.console import separated
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs

if TYPE_CHECKING:
    from lm_eval_epidemia.results.card import DatasetCard

app = typer.Typer(no_args_is_help=True, help="Train on text from the truth: datasets, training.")


@app.command("notes")
def notes(
    survey: Annotated[str, Argument(help="For example nsduh.")],
    out: Annotated[Path, Option(help="A new folder.")],
    kind: Annotated[
        str, Option(help="notes, answers, distributions, statements or shuffled.")
    ] = "notes",
    raw: Annotated[
        list[Path] | None,
        Option(
            help="For notes and shuffled: the survey's file or folder; may be given several times. "
            "Default: the downloaded."
        ),
    ] = None,
    vintage: InVintage = None,
    n: Annotated[
        int | None,
        Option(help="Rows, validation among them. Default: 2500; of distributions, all."),
    ] = None,
    seed: Annotated[int, Option(help="Another seed, other rows.")] = 0,
    tasks: Annotated[
        Text,
        Option(
            help="Tasks, groups or patterns, with commas between. Default: those of one condition; "
            "of notes, all that the file can answer with yes or no."
        ),
    ] = None,
    hold_out: Annotated[
        Texts,
        Option(
            help="cells=SHARE, conditions=NAME,... or tasks=NAME,...; may be given several times."
        ),
    ] = None,
    writer: Annotated[
        str, Option(help="Of notes: template, or a model of lm-eval (hf, vllm, ...).")
    ] = "template",
    writer_args: Annotated[
        str, Option(help="As --model_args of lm_eval: pretrained=NAME,batch_size=8.")
    ] = "",
) -> None:
    """Make a dataset of notes on people of a survey, or one of its controls."""
    from lm_eval_epidemia.finetune.dataset import check_out
    from lm_eval_epidemia.finetune.hold_out import HoldOut
    from lm_eval_epidemia.finetune.make import OF_PEOPLE, TEMPLATE, make, make_notes
    from lm_eval_epidemia.results.card import KINDS

    rows: dict[str, Any] = {"n": n, "seed": seed, "tasks": _tasks(tasks)}
    rows["hold_out"] = HoldOut.parse(hold_out or [])
    if writer_args and writer == TEMPLATE:
        raise EpidemiaError("--writer-args are of a model: name its kind with --writer, as hf")
    if kind not in OF_PEOPLE:
        if kind in KINDS and (raw or vintage or writer != TEMPLATE):
            raise EpidemiaError(
                f"--kind {kind} is made from the truths: --raw, --vintage and --writer are for "
                f"{' and '.join(OF_PEOPLE)}"
            )
        _say(make(survey, kind, out, **rows), out)
        return
    files, model = _raw(survey, raw, vintage), None
    if writer != TEMPLATE:
        from lm_eval_epidemia.models.writer import ModelWriter

        check_out(out.resolve())  # before a model is loaded
        model = ModelWriter(writer, writer_args, seed)
    rows |= {"vintage": vintage, "writer": model, "named": f"{writer} {writer_args}".strip()}
    _say(make_notes(survey, kind, out, files, **rows), out)


@app.command("train")
def train(
    model: Annotated[str, Option(help="Name or folder of a causal language model.")],
    data: Annotated[Path, Option(help="What 'finetune notes' wrote.")],
    out: Annotated[Path, Option(help="A new folder, or one of an interrupted training.")],
    lora: Annotated[
        Text, Option(help="An adapter on all linear layers: r=16 or r=16,alpha=32.")
    ] = None,
    full: Annotated[bool, Option("--full", help="Train all weights.")] = False,
    epochs: Annotated[float, Option(help="All are run, the best checkpoint is kept.")] = 6,
    lr: Annotated[float, Option(help="Of AdamW; falls to 0 linearly.")] = 5e-5,
    batch_size: Annotated[int, Option(help="Rows per step and device.")] = 16,
    seed: Annotated[int, Option(help="Of the order of rows and the adapter.")] = 0,
    stop_early: Annotated[
        bool, Option("--stop-early", help="Stop after 3 evaluations without a lower loss.")
    ] = False,
    dtype: Annotated[
        str, Option(help="float32 or bfloat16; auto: bfloat16 on a GPU that has it.")
    ] = "auto",
) -> None:
    """Train a model on a dataset; keep the checkpoint with the lowest validation loss."""
    from lm_eval_epidemia.finetune import train as training

    with needs("finetune", "finetune train"):
        from lm_eval_epidemia.report.figures import save_losses
    if full == (lora is not None):
        raise EpidemiaError("expected --lora r=16 (an adapter) or --full (all weights), one of two")
    steps: dict[str, Any] = {"epochs": epochs, "lr": lr, "batch_size": batch_size}
    steps |= {"seed": seed, "stop_early": stop_early, "dtype": dtype, **_lora(lora)}
    settings = training.Settings(**steps)
    tuned = training.train(model, data, out, settings)
    if os.environ.get("RANK", "0") != "0":
        return  # under accelerate launch, the first process writes
    save_losses(out)
    print(
        f"{tuned.steps} steps; lowest validation loss {tuned.best_loss:.4f} at step "
        f"{tuned.best_step}, {tuned.last_loss:.4f} at the end"
    )
    what = "weights" if full else "adapter"
    arguments = f"pretrained={out}" if full else f"pretrained={model},peft={out}"
    print(f"{what} and losses are in {out.resolve()}; to evaluate:")
    print(
        f"  lm_eval run --model choice-hf --model_args {arguments} --tasks "
        f"epidemia_low_{tuned.dataset.survey} --output_path results/ --log_samples"
    )


def _lora(given: str | None) -> dict[str, int]:
    """Read ``r=16,alpha=32``."""

    numbers = {}
    for part in given.split(",") if given is not None else []:
        name, _, value = part.strip().partition("=")
        if name not in ("r", "alpha") or not value.isdigit() or name in numbers:
            raise EpidemiaError(f"--lora {given!r}: expected r=16 or r=16,alpha=32")
        numbers[name] = int(value)
    if given is not None and "r" not in numbers:
        raise EpidemiaError(f"--lora {given!r} gives no rank: expected r=16 or r=16,alpha=32")
    return numbers


def _raw(survey: str, raw: list[Path] | None, vintage: str | None) -> list[Path]:
    """Return the files to read: those given, or the downloaded ones if there are any."""
    from lm_eval_epidemia.surveys.catalogue import record
    from lm_eval_epidemia.surveys.download import raw_paths

    entry = record(survey)
    if not raw and all(vintage_.tables for vintage_ in entry.vintages.values()):
        return []
    return raw_paths(entry, raw, vintage)[0]


def _tasks(given: str | None) -> list[str] | None:
    """Spell out names as lm-eval has them, with letters: the way that is trained on."""
    from lm_eval_epidemia.benchmarks import members
    from lm_eval_epidemia.surveys.catalogue import all_tasks

    if given is None:
        return None
    tasks = []
    for name in separated([given]):
        for task, way in members(name):
            if way == "letters" and task in all_tasks():
                tasks.append(task)
            elif not any(sign in name for sign in "*?["):
                raise EpidemiaError(
                    f"--tasks {name}: expected tasks of surveys asked with letters, as "
                    "epidemia_low_nsduh; other ways of asking are evaluated, not trained on"
                )
    return tasks


def _say(card: DatasetCard, out: Path) -> None:
    """Print what is in a dataset, and where it is."""
    table = table_of("", "task", "held out", right=("held out",))
    held = {name: len(cells) for name, cells in card.held_out.items()}
    for name in dict.fromkeys([*card.tasks, *held]):
        out_of = "all" if name not in card.tasks else f"{held[name]} cells" if name in held else ""
        table.add_row(name, out_of)
    show(table)
    for reason, number in card.counts.items():
        print(f"{reason}: {number:,}")
    rows = " and ".join(f"{number:,} {name}" for name, number in card.rows.items())
    print(f"{rows} rows of {card.kind} of {card.survey} {card.vintage} are in {out.resolve()}")
