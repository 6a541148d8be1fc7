"""`finetune train` on a tiny random Llama: real training, checkpoints, evaluation by lm-eval."""

import csv
import dataclasses
import errno
import json
import math
import os
import shutil
from contextlib import ExitStack

import datasets
import numpy as np
import pytest
from conftest import evaluate, full_disk

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.finetune import train
from lm_eval_epidemia.finetune.train import TrainSettings
from lm_eval_epidemia.results import card

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

TASK = "epidemia_low_nsduh_cocaine_ever_by_race"


def rows_of(kind):
    truth = store.load_truth(TASK)
    for row in split(TASK):
        p = [float(truth.p[row["cell"]][level]) for level in row["order"]]
        letters = [f" {letter}" for letter in row["choices"]]
        yield {
            "distributions": {"prompt": row["prompt"], "choices": letters, "p": p},
            "answers": {"prompt": row["prompt"], "completion": letters[int(np.argmax(p))]},
            "notes": {"text": row["prompt"] + letters[0]},
        }[kind]


def dataset(folder, kind="distributions", **changed):
    rows = datasets.Dataset.from_list(list(rows_of(kind)))
    datasets.DatasetDict(train=rows, validation=rows).save_to_disk(str(folder))
    sizes = dict.fromkeys(("train", "validation"), len(rows))
    fingerprint = store.load_truth(TASK).fingerprint
    made = card.DatasetCard(kind, "nsduh", "2022", fingerprint, 0, sizes, [TASK])
    card.write_card(folder, dataclasses.replace(made, **changed))
    return folder


def losses_of(folder):
    return list(csv.DictReader((folder / card.LOSSES).open()))


def scored(**arguments):
    arguments = {"dtype": "float32", **arguments}
    results = evaluate([TASK], model="choice-hf", model_args=arguments, device="cpu")
    return results["results"][TASK]


#: Of the training that several tests look at.
USUAL = TrainSettings(epochs=12, lr=1e-3, r=4)


@pytest.fixture(scope="module")
def trained(tiny_llama, tmp_path_factory):
    """A training that nothing interrupted: its folder and its card."""
    folder = tmp_path_factory.mktemp("trained")
    data = dataset(folder / "data")
    return folder / "out", train.train(str(tiny_llama), data, folder / "out", USUAL)


def test_what_is_kept_of_a_training(trained, tiny_llama):
    """The step with the lowest loss, as lm-eval loads it; the card says what it came from."""
    out, tuned = trained
    assert card.read_card(out, card.Tuned) == tuned
    assert (tuned.base, tuned.how, tuned.steps) == (str(tiny_llama), "lora", 12)
    assert tuned.dataset.tasks == [TASK]
    lines = [line for line in losses_of(out) if line["split"] == "validation"]
    kept = [float(line["loss"]) for line in lines if int(line["step"]) == tuned.best_step]
    assert kept == [tuned.best_loss] and tuned.best_loss == min(float(x["loss"]) for x in lines)
    assert tuned.best_loss < 0.99 * float(lines[0]["loss"])
    assert not (out / train.CHECKPOINTS).exists() and not (out / train.RUN).exists()
    base = {"pretrained": str(tiny_llama)}
    before, after = scored(**base), scored(**base, peft=str(out))
    assert after["choice_mass,none"] > before["choice_mass,none"]
    with pytest.raises(EpidemiaError, match="already holds a tuned model"):
        train.train(str(tiny_llama), out.parent / "data", out, USUAL)


@pytest.mark.slow
@pytest.mark.parametrize("r", [8, None], ids=["lora", "full"])
def test_a_model_learns_the_distribution_it_is_shown(tiny_llama, tmp_path, r):
    """From 0 to more than 80, asked by lm-eval; the card says what the weights came from."""
    data, out = dataset(tmp_path / "data"), tmp_path / "tuned"
    # All weights at 0.01 end between 75 and 88, as the processor rounds; at these rates seeds 1
    # to 3 end above 92.
    lr = 1e-2 if r else 3e-3
    tuned = train.train(str(tiny_llama), data, out, TrainSettings(epochs=60, lr=lr, r=r, seed=1))
    assert (tuned.how, tuned.steps) == ("lora" if r else "full", 60)
    before = scored(pretrained=str(tiny_llama))
    own = {"pretrained": str(tiny_llama), "peft": str(out)} if r else {"pretrained": str(out)}
    after = scored(**own)
    assert before["score,none"] == 0 and before["choice_mass,none"] < 0.5
    assert after["score,none"] > 80 and after["choice_mass,none"] > 0.95


def loss_by_hand(folder, rows):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for row in rows:
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer(row["prompt"]).input_ids])).logits[0, -1]
        shown = torch.log_softmax(logits, -1)
        choices, shares = row.get("choices", [row.get("completion")]), row.get("p", [1.0])
        ids = [tokenizer(row["prompt"] + choice).input_ids[-1] for choice in choices]
        terms = zip(shares, ids, strict=True)
        found.append(sum(p * (math.log(p) - float(shown[one])) for p, one in terms if p))
    return float(np.mean(found))


@pytest.mark.parametrize("kind", ["distributions", "answers"])
def test_the_loss_is_the_divergence_from_the_truth(trained, tiny_llama, tmp_path, kind):
    """Before the first step, against the same in double precision, prompt by prompt.

    The answers are trained on in a folder where an earlier training ended before a checkpoint.
    """
    out = trained[0]
    if kind == "answers":
        out = tmp_path / "tuned"
        out.mkdir()
        (out / train.RUN).write_text("{}")
        train.train(
            str(tiny_llama), dataset(tmp_path / "data", kind), out, TrainSettings(epochs=1, r=2)
        )
    first = losses_of(out)[0]
    assert (first["step"], first["split"]) == ("0", "validation")
    expected = loss_by_hand(tiny_llama, list(rows_of(kind)))
    # 32 bits: some hundred additions of numbers of this size.
    assert float(first["loss"]) == pytest.approx(expected, rel=1e-4)


def test_half_precision_is_what_is_asked_for(trained, tiny_llama, tmp_path):
    """The loss before the first step differs from that of 32 bits by what eight bits leave."""
    losses = {"auto": [float(line["loss"]) for line in losses_of(trained[0])]}
    for dtype in ("float32", "bfloat16"):
        out, settings = tmp_path / dtype, TrainSettings(epochs=1, r=4, dtype=dtype)
        tuned = train.train(str(tiny_llama), trained[0].parent / "data", out, settings)
        assert tuned.settings["dtype"] == dtype
        losses[dtype] = [float(line["loss"]) for line in losses_of(out)]
    if not torch.cuda.is_available():
        assert losses["auto"][0] == losses["float32"][0]
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"][0] == pytest.approx(losses["float32"][0], rel=2**-6)


def test_notes_are_learned_as_text(tiny_llama, tmp_path):
    out = tmp_path / "tuned"
    settings = TrainSettings(epochs=4, lr=1e-2, r=8)
    tuned = train.train(str(tiny_llama), dataset(tmp_path / "data", "notes"), out, settings)
    first = next(float(x["loss"]) for x in losses_of(out) if x["split"] == "validation")
    assert tuned.best_loss < 0.8 * first


def test_an_interrupted_training_goes_on_and_comes_to_the_same(
    trained, tiny_llama, tmp_path, monkeypatch
):
    from transformers import TrainerCallback

    class Interrupt(TrainerCallback):
        def on_step_begin(self, args, state, control, **more):
            if state.global_step == 7:
                raise KeyboardInterrupt

    honest = train._trainer

    def interrupted(*arguments):
        trainer = honest(*arguments)
        trainer.add_callback(Interrupt())
        return trainer

    whole, out = trained[0], tmp_path / "parts"
    given = (str(tiny_llama), whole.parent / "data", out)
    monkeypatch.setattr(train, "_trainer", interrupted)
    with pytest.raises(EpidemiaError, match="the same command continues"):
        train.train(*given, USUAL)
    assert not (out / card.TUNED_CARD).exists() and list((out / train.CHECKPOINTS).iterdir())
    monkeypatch.setattr(train, "_trainer", honest)
    with pytest.raises(EpidemiaError, match=r"another training \(different settings\)"):
        train.train(*given, TrainSettings(epochs=12, lr=1e-3, r=8))
    assert train.train(*given, USUAL).steps == 12
    parts, expected = losses_of(out), losses_of(whole)
    assert [row["step"] for row in parts] == [row["step"] for row in expected]
    losses = [[float(row["loss"]) for row in rows] for rows in (parts, expected)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("limit", "r"),
    [
        (1_000, 4),  # of a checkpoint's card
        (20_000, None),  # of its weights, by safetensors
        (600_000, None),  # of its optimizer, by torch
    ],
)
def test_a_training_that_cannot_be_written_says_how_it_goes_on(
    tiny_llama, tmp_path, monkeypatch, limit, r
):
    data, out = dataset(tmp_path / "data"), tmp_path / "out"
    settings, honest = TrainSettings(epochs=1, lr=1e-3, r=r), train._trainer
    with ExitStack() as disk:

        def limited(*arguments):
            trainer = honest(*arguments)
            disk.enter_context(full_disk(limit))
            return trainer

        monkeypatch.setattr(train, "_trainer", limited)
        with pytest.raises(EpidemiaError, match=r"the training stopped \(") as said:
            train.train(str(tiny_llama), data, out, settings)
    assert "the same command begins again" in str(said.value)
    if limit == 20_000:
        monkeypatch.setattr(train, "_trainer", honest)
        assert train.train(str(tiny_llama), data, out, settings).steps == 1


def test_what_is_kept_of_a_training_that_stops_later_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "_last_checkpoint", lambda out: f"{out}/checkpoint-3")
    with (
        pytest.raises(EpidemiaError, match=r"No space left.*continues from .*checkpoint-3$"),
        train._going_on(tmp_path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(TypeError), train._going_on(tmp_path):
        raise TypeError("ours")


def test_a_checkpoint_that_is_not_complete_is_passed_over(tmp_path):
    """Its state is written last."""
    for step, state in {1: "{}", 2: "{}", 3: "{", 10: None}.items():
        checkpoint = tmp_path / train.CHECKPOINTS / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        if state is not None:
            (checkpoint / "trainer_state.json").write_text(state)
    assert train._last_checkpoint(tmp_path) == str(checkpoint.with_name("checkpoint-2"))


# Bad input.


def refused(match, model, data, out, **settings):
    with pytest.raises(EpidemiaError, match=match):
        train.train(str(model), data, out, TrainSettings(**settings))
    assert not out.exists() or not any(out.iterdir())


def test_models_that_cannot_be_trained(tiny_llama, tmp_path):
    data, out = dataset(tmp_path / "data"), tmp_path / "out"
    refused("config.json", tmp_path, data, out)
    bare = tmp_path / "bare"
    shutil.copytree(tiny_llama, bare)
    for path in bare.glob("token*"):
        path.unlink()
    refused(r"bare cannot be loaded \(.*tokenizer", bare, data, out)
    cut = tmp_path / "cut"
    shutil.copytree(tiny_llama, cut)
    weights = next(cut.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    refused(r"cut cannot be loaded \(", cut, data, out)
    endless = tmp_path / "endless"
    shutil.copytree(tiny_llama, endless)
    for path in (endless / "tokenizer_config.json", endless / "special_tokens_map.json"):
        if path.exists():
            told = json.loads(path.read_text())
            path.write_text(json.dumps({k: v for k, v in told.items() if "_token" not in k}))
    refused("has no eos_token", endless, data, out)
    refused("./nothing is no file or folder here, and cannot be loaded", "./nothing", data, out)


def test_datasets_that_cannot_be_used(tiny_llama, tmp_path):
    out = tmp_path / "out"
    refused("epidemia_dataset.json cannot be read", tiny_llama, tmp_path, out)
    made = {
        "fingerprint": dataset(tmp_path / "other", fingerprint="0" * 12),
        "tasks": dataset(tmp_path / "unknown", tasks=["epidemia_low_brfss_asthma_by_planet"]),
        "rows": dataset(tmp_path / "rows"),
    }
    refused("fingerprint 000000000000, but scores would use", tiny_llama, made["fingerprint"], out)
    refused("tasks that are not installed", tiny_llama, made["tasks"], out)
    path = made["rows"] / card.DATASET_CARD
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "songs"}))
    refused("kind 'songs', expected one of notes", tiny_llama, made["rows"], out)
    path.write_text("{")
    refused("is not JSON", tiny_llama, made["rows"], out)


def test_settings_and_folders_that_make_no_sense(tiny_llama, tmp_path):
    data = dataset(tmp_path / "data")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    with pytest.raises(EpidemiaError, match="is not empty"):
        train.train(str(tiny_llama), data, tmp_path / "full", TrainSettings())
    rows = list(rows_of("notes"))
    with pytest.raises(EpidemiaError, match="tokens, but the model takes 10"):
        from transformers import AutoTokenizer

        train.encode_rows("notes", rows, AutoTokenizer.from_pretrained(tiny_llama), 10)
