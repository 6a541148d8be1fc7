"""Train on a fine-tuning dataset with TRL's trainer, and keep the best checkpoint.

TRL provides the loop, the optimiser, checkpoints and several GPUs (``accelerate launch -m
lm_eval_epidemia.cli finetune train ...``). This module adds the loss on soft labels and the files
in the folder; `tokens` turns rows into tokens.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.paths import atomic_write, check_writable, sha256_of
from lm_eval_epidemia.models.loading import Given, explain_loading
from lm_eval_epidemia.results.card import (
    KINDS,
    LOSSES,
    TUNED_CARD,
    DatasetCard,
    Tuned,
    read_card,
    write_card,
)

#: In the folder of a training that has not ended.
CHECKPOINTS, RUN = "checkpoints", "run.json"

#: How often losses are computed on the validation split, in all and an epoch at most (a tenth of
#: the rows twelve times is a third of an epoch's time); how often that of the training is written.
EVALUATIONS, AN_EPOCH, LOGGED = 12, 4, 60

#: In which a training computes.
DTYPES = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class TrainSettings:
    """Training settings; the defaults are the published study's if it states them.

    Attributes
    ----------
    epochs : float
    lr : float
        Learning rate of AdamW (0.9, 0.999), falling linearly to 0.
    batch_size : int
        Rows per step and device.
    seed : int
        Seed of the order of rows and of a LoRA adapter's initial weights.
    r : int or None
        Rank of a LoRA adapter on all linear layers except the head; None trains all weights.
    alpha : int or None
        Its scale; default: twice the rank.
    dtype : str
        Precision of matrix products, ``float32`` or ``bfloat16`` (autocast: weights, updates and
        the loss stay in 32 bits); ``auto`` is bfloat16 on a GPU that supports it, else float32.
    """

    epochs: float = 6
    lr: float = 5e-5
    batch_size: int = 16
    seed: int = 0
    r: int | None = None
    alpha: int | None = None
    dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise EpidemiaError(f"dtype {self.dtype!r}: expected {', '.join(DTYPES)}")
        for name in ("batch_size", "r", "alpha"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise EpidemiaError(f"{name} {value}: expected a whole number from 1 on")
        if not 0 <= self.seed < 2**32:
            raise EpidemiaError(f"seed {self.seed}: expected a whole number from 0 to 2**32 - 1")
        for name in ("epochs", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise EpidemiaError(f"{name} {getattr(self, name)}: expected a number above 0")
        if self.alpha is not None and self.r is None:
            raise EpidemiaError("alpha needs a LoRA adapter: give its rank r too")


def train(model: str, data: Path, out: Path, settings: TrainSettings) -> Tuned:
    """Train a model on a dataset; keep the checkpoint with the lowest validation loss.

    Parameters
    ----------
    model : str
        Name or folder of a causal language model.
    data : Path
        A folder from `epidemia finetune notes`.
    out : Path
        Gets the adapter, or weights and tokenizer, with a card and the losses. An interrupted
        training there continues from its last checkpoint.
    settings : Settings

    Returns
    -------
    Tuned
        The written card.

    Raises
    ------
    EpidemiaError
        If the model, the dataset or the folder cannot be used; nothing is left half-written.
    """
    with needs("finetune", "finetune train"):
        import peft  # noqa: F401
        import trl  # noqa: F401
    card, rows = _load_rows(data)
    last = _last_checkpoint(out)
    before = _begun(model, data, out, card, settings, last)
    tokenizer, weights = _loaded(model, settings)
    longest = getattr(weights.config, "max_position_embeddings", 0) or 10**9
    tokens = {name: encode_rows(card.kind, rows[name], tokenizer, longest) for name in rows}
    check_writable(out)
    with atomic_write(out / RUN) as temporary:
        temporary.write_text(json.dumps(before, indent=2) + "\n", encoding="utf-8")
    trainer = _trainer(card.kind, weights, tokenizer, tokens, out / CHECKPOINTS, settings)
    with _going_on(out):
        trainer.train(resume_from_checkpoint=last)
        return _keep(trainer, tokenizer, model, card, out, settings)


@contextmanager
def _going_on(out: Path) -> Iterator[None]:
    """If a training stops, as on a full disk, say how to continue it."""
    from safetensors import SafetensorError

    try:
        yield
    except (KeyboardInterrupt, OSError, RuntimeError, SafetensorError) as error:
        kept = _last_checkpoint(out)
        how = f"continues from {kept}" if kept else "begins again: no checkpoint is complete"
        why = f"{type(error).__name__} {error}".splitlines()[0]
        raise EpidemiaError(f"the training stopped ({why}): the same command {how}") from error


def _load_rows(data: Path) -> tuple[DatasetCard, Any]:
    """Read a dataset and check it against its card."""
    from datasets import load_from_disk

    from lm_eval_epidemia.estimate import store

    card = read_card(data, DatasetCard)
    with explain_loading(data):
        rows = load_from_disk(str(data))
    here = store.list_available()
    installed = {name: store.load_truth(name).fingerprint for name in card.tasks if name in here}
    if missing := sorted(set(card.tasks) - set(installed)):
        raise EpidemiaError(
            f"{data} is about tasks that are not installed ({few(missing)}): run 'epidemia "
            f"groundtruth build {card.survey}' with the files of {card.vintage}, or make the "
            "dataset here"
        )
    if other := sorted({f for f in installed.values() if f != card.fingerprint}):
        raise EpidemiaError(
            f"{data} was made from truths of {card.survey} {card.vintage} with fingerprint "
            f"{card.fingerprint}, but scores would use the installed ones, {other[0]}: make "
            "the dataset here, or install those truths"
        )
    return card, rows


def _begun(
    model: str, data: Path, out: Path, card: DatasetCard, settings: TrainSettings, last: str | None
) -> dict[str, Any]:
    """Describe this training; refuse a folder of another or a finished training."""
    rows = {str(path.relative_to(data)): sha256_of(path) for path in sorted(data.rglob("*.arrow"))}
    described = {"base": model, "dataset": asdict(card), "rows": rows, "settings": asdict(settings)}
    if (out / TUNED_CARD).exists():
        raise EpidemiaError(f"{out} already holds a tuned model: give another --out")
    has_begun = (out / RUN).exists()
    if not has_begun and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise EpidemiaError(
            f"{out} is not empty and not an interrupted training: give another --out"
        )
    if not has_begun or last is None:
        return described  # there is nothing to go on from
    begun = json.loads((out / RUN).read_text(encoding="utf-8"))
    if differing := [key for key, value in described.items() if begun.get(key) != value]:
        raise EpidemiaError(
            f"{out} holds the checkpoints of another training (different {', '.join(differing)}): "
            "repeat its command to continue it, or give another --out"
        )
    return described


def _loaded(model: str, settings: TrainSettings) -> tuple[Any, Any]:
    """Load tokenizer and weights, in 32 bits, with the adapter if one is trained."""
    import torch
    import transformers

    with explain_loading(Given(model)):
        transformers.AutoConfig.from_pretrained(model)  # whose error says what a folder lacks
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        weights: Any = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    if tokenizer.eos_token is None:
        raise EpidemiaError(
            f"the tokenizer of {model} has no eos_token, which ends texts and pads rows: name "
            "it in its tokenizer_config.json"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if settings.r is not None:
        import peft

        transformers.set_seed(settings.seed)  # the adapter's first weights
        alpha = settings.alpha or 2 * settings.r
        layers: dict[str, Any] = {"target_modules": "all-linear", "task_type": "CAUSAL_LM"}
        adapter = peft.LoraConfig(r=settings.r, lora_alpha=alpha, **layers)
        weights = peft.get_peft_model(weights, adapter)
    return tokenizer, weights


def _trainer(
    kind: str, weights: Any, tokenizer: Any, tokens: Any, checkpoints: Path, settings: TrainSettings
) -> Any:
    import torch
    from transformers import Trainer
    from trl import SFTConfig, SFTTrainer

    class ChoiceTrainer(SFTTrainer):
        """Forward KL from P(Y | X) to the model's distribution of the token after the prompt.

        For a drawn answer, its negative log-likelihood. Probability on tokens other than the
        choices counts as loss, so the model learns to answer with the choices. The head computes
        only the last position.
        """

        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            return_outputs: Any = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            p, labels = inputs["p"], inputs["labels"].clamp(min=0)
            rows, last = torch.arange(len(p)), inputs["attention_mask"].sum(dim=1) - 1
            head = self.accelerator.unwrap_model(model).get_output_embeddings()
            handle = head.register_forward_pre_hook(
                lambda _, given: (given[0][rows, last][:, None], *given[1:])
            )
            try:
                asked = {name: inputs[name] for name in ("input_ids", "attention_mask")}
                outputs = model(**asked, use_cache=False)
            finally:
                handle.remove()
            shown = torch.log_softmax(outputs.logits[:, 0].float(), dim=-1).gather(1, labels)
            # An answer that nobody gives adds nothing: 0 log 0 = 0.
            loss = (torch.xlogy(p, p) - p * shown).sum(dim=1).mean()
            return (loss, outputs) if return_outputs else loss

    class TextTrainer(SFTTrainer):
        """For a text, the negative log-likelihood of all its tokens.

        TRL computes it tile by tile, in kernels for GPUs. On a CPU the model's own loss is faster:
        15 s of processor time in place of 23 for 16 texts of 140 tokens (SmolLM2-135M, LoRA).
        """

        def compute_loss(self, *given: Any, **named: Any) -> Any:
            owner = SFTTrainer if gpu else Trainer
            return owner.compute_loss(self, *given, **named)

    gpu = torch.cuda.is_available()
    able = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
    half = settings.dtype == "bfloat16" or (settings.dtype == "auto" and able)
    steps = math.ceil(len(tokens["train"]) / settings.batch_size)
    total = max(1, math.ceil(steps * settings.epochs))
    every = max(1, total // min(EVALUATIONS, max(1, round(AN_EPOCH * settings.epochs))))
    how = SFTConfig(
        output_dir=str(checkpoints),
        num_train_epochs=settings.epochs,
        learning_rate=settings.lr,
        lr_scheduler_type="linear",
        # Said, so that another version of the trainer trains alike.
        warmup_steps=0,
        adam_beta1=0.9,
        adam_beta2=0.999,
        weight_decay=0.0,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        eval_strategy="steps",
        eval_steps=every,
        eval_on_start=True,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        logging_steps=max(1, total // LOGGED),
        logging_first_step=True,
        seed=settings.seed,
        data_seed=settings.seed,
        report_to="none",
        # On a CPU nothing of what TRL expects of an accelerator; packing wants FlashAttention.
        use_cpu=not gpu,
        bf16=half,
        gradient_checkpointing=gpu,
        packing=False,
        max_length=None,
        loss_type="nll",
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_pin_memory=gpu,
    )
    return (ChoiceTrainer if "prompt" in KINDS[kind] else TextTrainer)(
        model=weights,
        args=how,
        processing_class=tokenizer,
        train_dataset=tokens["train"],
        eval_dataset=tokens["validation"],
        data_collator=make_collator(tokenizer.pad_token_id),
    )


def _last_checkpoint(out: Path) -> str | None:
    """Return the last complete checkpoint, or None: the trainer writes its state last."""
    states = (out / CHECKPOINTS).glob("checkpoint-*/trainer_state.json")
    for state in sorted(states, key=lambda path: -int(path.parent.name.partition("-")[2])):
        with suppress(ValueError):  # cut off by a full disk
            json.loads(state.read_text(encoding="utf-8"))
            return str(state.parent)
    return None


def _keep(
    trainer: Any, tokenizer: Any, model: str, card: DatasetCard, out: Path, settings: TrainSettings
) -> Tuned:
    """Write the best checkpoint's weights, the losses and, last, the card; delete checkpoints."""
    losses = _losses(trainer.state.log_history)
    # The loss before the first step belongs to the base, of which there is no checkpoint.
    tried = [(row.step, row.loss) for row in losses if row.split == "validation" and row.step]
    if not tried or not all(math.isfinite(loss) for _, loss in tried):
        raise EpidemiaError(
            f"the loss is no number (at step {next((s for s, x in tried if x != x), 0)}): the "
            f"learning rate {settings.lr:g} may be too high; checkpoints are in {out / CHECKPOINTS}"
        )
    best_step, best_loss = min(tried, key=lambda row: row[1])
    tuned = Tuned(
        base=model,
        how="full" if settings.r is None else "lora",
        dataset=card,
        settings={key: value for key, value in asdict(settings).items() if value is not None},
        steps=trainer.state.global_step,
        best_step=best_step,
        best_loss=best_loss,
        last_loss=tried[-1][1],
        versions={name: version(name) for name in ("torch", "transformers", "trl", "peft")},
    )
    if not trainer.is_world_process_zero():
        return tuned
    trainer.accelerator.unwrap_model(trainer.model).save_pretrained(out)
    if tuned.how == "full":
        tokenizer.save_pretrained(out)
    with atomic_write(out / LOSSES) as temporary, temporary.open("w", newline="") as file:
        csv.writer(file).writerows([Loss._fields, *losses])
    write_card(out, tuned)
    shutil.rmtree(out / CHECKPOINTS)
    (out / RUN).unlink()
    return tuned


class Loss(NamedTuple):
    """A row of the file of losses."""

    step: int
    epoch: float
    split: str
    loss: float


def _losses(history: Iterable[Mapping[str, Any]]) -> list[Loss]:
    """Read the trainer's log, without repeated measurements after continuing from a checkpoint."""
    losses: dict[tuple[int, str], Loss] = {}
    for entry in history:
        for key, split in (("loss", "train"), ("eval_loss", "validation")):
            if key in entry:
                loss = Loss(entry["step"], round(entry["epoch"], 4), split, entry[key])
                losses.setdefault((loss.step, split), loss)
    return list(losses.values())


#: What the loss does not look at.
IGNORED = -100


def encode_rows(kind: str, rows: Any, tokenizer: Any, longest: int) -> Any:
    """Turn rows into tokens.

    Parameters
    ----------
    kind : str
        A key of `card.KINDS`.
    rows : datasets.Dataset
    tokenizer : PreTrainedTokenizerBase
    longest : int
        Tokens that the model takes; a longer row is an error and is never cut.

    Returns
    -------
    datasets.Dataset
        ``input_ids`` and ``labels``. A text ends with the end-of-text token, and all its tokens
        count. For a prompt, ``labels`` are the last tokens of the choices that may follow it, and
        ``p`` their target probabilities; a drawn answer has one label. If all choices begin with
        the same tokens (such as a separate space), these are at the end of ``input_ids``.

    Raises
    ------
    EpidemiaError
        If a row is too long, or if choices differ in more than their last token.
    """
    import datasets

    encoded_rows = []
    for row in rows:
        if "prompt" in KINDS[kind]:
            choices, p = row.get("choices", [row.get("completion")]), row.get("p", [1.0])
            ids, labels = _choices(row["prompt"], choices, tokenizer)
            encoded_rows.append({"input_ids": ids, "labels": labels, "p": p})
        else:
            ids = [*tokenizer(row["text"])["input_ids"], tokenizer.eos_token_id]
            encoded_rows.append({"input_ids": ids, "labels": ids})
        if len(ids) > longest:
            raise EpidemiaError(
                f"a row has {len(ids)} tokens, but the model takes {longest}: {str(row)[:80]}"
            )
    return datasets.Dataset.from_list(encoded_rows)


def _choices(prompt: str, choices: list[str], tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the tokens before each choice's last one, and the last ones, split as in lm-eval."""
    before = tokenizer(prompt)["input_ids"]
    after = [tokenizer(prompt + choice)["input_ids"][len(before) :] for choice in choices]
    if not all(after) or len({tuple(tokens[:-1]) for tokens in after}) > 1:
        raise EpidemiaError(
            f"with this tokenizer the choices {choices} differ in more than their last token: soft "
            "labels need one token each; use kind 'answers'"
        )
    return [*before, *after[0][:-1]], [tokens[-1] for tokens in after]


def make_collator(pad: int) -> Any:
    """Return a function that combines rows into a batch, padded on the right."""

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        import torch
        from torch.nn.utils.rnn import pad_sequence

        def filled(name: str, value: float, kind: Any = torch.long) -> Any:
            columns = [torch.tensor(row[name], dtype=kind) for row in rows]
            return pad_sequence(columns, batch_first=True, padding_value=value)

        ids = filled("input_ids", pad)
        length = torch.tensor([len(row["input_ids"]) for row in rows])
        batch = {
            "input_ids": ids,
            "labels": filled("labels", IGNORED),
            "attention_mask": (torch.arange(ids.shape[1]) < length[:, None]).long(),
        }
        if "p" in rows[0]:
            batch["p"] = filled("p", 0.0, torch.float32)
        return batch

    return collate
