"""``epidemia finetune``: does a model learn a distribution from text about it?"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from lm_eval_epidemia.cli.options import InVintage, Raw, Survey, Text, Texts, complete_tasks
from lm_eval_epidemia.cli.printing import make_table, print_table
from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs

if TYPE_CHECKING:
    from lm_eval_epidemia.results.card import DatasetCard

app = typer.Typer(
    no_args_is_help=True,
    help="Train models on text made from the truth, and test whether they learn it.",
)


@app.command("notes")
def notes(
    survey: Survey,
    out: Annotated[Path, Option(help="New folder to write.")],
    kind: Annotated[
        str, Option(help="Kind of text: notes, answers, distributions, statements or shuffled.")
    ] = "notes",
    raw: Raw = None,
    vintage: InVintage = None,
    n: Annotated[
        int | None,
        Option(help="Number of rows, with validation. Default: 2500; for distributions all."),
    ] = None,
    per_person: Annotated[
        int, Option(help="Notes about each person drawn, for notes and shuffled.")
    ] = 1,
    seed: Annotated[int, Option(help="Random seed; another seed gives other rows.")] = 0,
    tasks: Annotated[
        Text,
        Option(
            help="Tasks, groups or patterns to write about, A,B. Default: tasks with one "
            "condition; for notes, all that the file answers with yes or no.",
            autocompletion=complete_tasks,
        ),
    ] = None,
    hold_out: Annotated[
        Texts,
        Option(help="Hold out cells=SHARE, conditions=NAME,NAME or tasks=NAME,NAME; repeatable."),
    ] = None,
    writer: Annotated[
        str,
        Option(help="Writer of notes: 'template', or a model of lm-eval: hf,pretrained=NAME."),
    ] = "template",
) -> None:
    """Make a dataset of notes on people in a survey, or a control dataset."""
    from lm_eval_epidemia.finetune.hold_out import HoldOut
    from lm_eval_epidemia.finetune.make import OF_PEOPLE, TEMPLATE, check_out, make_data, make_notes
    from lm_eval_epidemia.results.card import KINDS

    rows: dict[str, Any] = {"n": n, "seed": seed, "tasks": _find_tasks(tasks)}
    rows["hold_out"] = HoldOut.parse(hold_out or [])
    if kind not in OF_PEOPLE:
        if kind in KINDS and (raw or vintage or writer != TEMPLATE or per_person != 1):
            raise EpidemiaError(
                f"--kind {kind} takes no --raw, --vintage, --per-person or --writer, which are for "
                f"{' and '.join(OF_PEOPLE)}"
            )
        _say(make_data(survey, kind, out, **rows), out)
        return
    files, model = _raw(survey, raw, vintage), None
    if writer != TEMPLATE:
        from lm_eval_epidemia.models.writer import ModelWriter

        check_out(out.resolve())  # before a model is loaded
        model = ModelWriter(*writer.partition(",")[::2], seed)
    rows |= {"vintage": vintage, "per_person": per_person, "writer": model}
    rows["named"] = writer.replace(",", " ", 1)
    _say(make_notes(survey, kind, out, files, **rows), out)


@app.command("train")
def train(
    model: Annotated[str, Option(help="Causal language model to train: a folder or a Hub id.")],
    data: Annotated[Path, Option(help="Dataset: a folder that 'finetune notes' wrote.")],
    out: Annotated[
        Path, Option(help="Folder to write: a new one, or that of an interrupted training.")
    ],
    lora: Annotated[
        Text, Option(help="Train an adapter on all linear layers: r=16 or r=16,alpha=32.")
    ] = None,
    full: Annotated[bool, Option("--full", help="Train all weights.")] = False,
    epochs: Annotated[float, Option(help="Number of epochs; the best checkpoint is kept.")] = 6,
    lr: Annotated[
        float, Option(help="Initial learning rate of AdamW; it falls linearly to 0.")
    ] = 5e-5,
    batch_size: Annotated[int, Option(help="Rows per step and device.")] = 16,
    seed: Annotated[int, Option(help="Random seed for the order of rows and the adapter.")] = 0,
    dtype: Annotated[
        str,
        Option(help="Train in float32 or bfloat16; 'auto': bfloat16 on a GPU that supports it."),
    ] = "auto",
) -> None:
    """Train a model on a dataset; keep the checkpoint with the lowest validation loss."""
    from lm_eval_epidemia.finetune import train as training

    with needs("finetune", "finetune train"):
        from lm_eval_epidemia.report.figures import save_losses
    if full == (lora is not None):
        raise EpidemiaError("expected either --lora r=16 (an adapter) or --full (all weights)")
    how: dict[str, Any] = {"dtype": dtype, **_lora(lora)}
    settings = training.TrainSettings(epochs, lr, batch_size, seed, **how)
    tuned = training.train(model, data, out, settings)
    if os.environ.get("RANK", "0") != "0":
        return  # under accelerate launch, the first process writes
    save_losses(out)
    print(
        f"{tuned.steps} steps; validation loss: lowest {tuned.best_loss:.4f} at step "
        f"{tuned.best_step}, last {tuned.last_loss:.4f}"
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
    if given is None:
        return {}
    if not (numbers := re.fullmatch(r"r=(\d+)(?:,\s*alpha=(\d+))?", given.strip())):
        raise EpidemiaError(f"--lora {given!r}: expected r=16 or r=16,alpha=32")
    rank, alpha = numbers.groups()
    return {"r": int(rank)} | ({"alpha": int(alpha)} if alpha else {})


def _raw(survey: str, raw: list[Path] | None, vintage: str | None) -> list[Path]:
    """Return the files to read: those given, or else the downloaded ones."""
    from lm_eval_epidemia.surveys.catalogue import find_record
    from lm_eval_epidemia.surveys.raw import raw_paths

    entry = find_record(survey)
    if not raw and all(vintage_.tables for vintage_ in entry.vintages.values()):
        return []
    return raw_paths(entry, raw, vintage)[0]


def _find_tasks(given: str | None) -> list[str] | None:
    """Return the letter tasks that names mean: training uses that way of asking."""
    from lm_eval_epidemia.benchmarks import find_tasks
    from lm_eval_epidemia.surveys.catalogue import all_tasks

    if given is None:
        return None
    tasks = []
    for name in split_names([given]):
        for task, way in find_tasks(name):
            if way == "letters" and task in all_tasks():
                tasks.append(task)
            elif not any(sign in name for sign in "*?["):
                raise EpidemiaError(
                    f"--tasks {name}: expected survey tasks asked by letter: epidemia_low_nsduh"
                )
    return tasks


def _say(card: DatasetCard, out: Path) -> None:
    """Print a dataset's size, contents and folder."""
    table = make_table("", "task", "held out", right=("held out",))
    held = {name: len(cells) for name, cells in card.held_out.items()}
    for name in dict.fromkeys([*card.tasks, *held]):
        out_of = "all" if name not in card.tasks else f"{held[name]} cells" if name in held else ""
        table.add_row(name, out_of)
    print_table(table)
    for reason, number in card.counts.items():
        print(f"{reason}: {number:,}")
    rows = " and ".join(f"{number:,} {name}" for name, number in card.rows.items())
    print(f"{rows} rows of {card.kind} of {card.survey} {card.vintage} are in {out.resolve()}")
