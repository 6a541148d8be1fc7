"""Models that cannot be loaded, or only in part: one error each, before the work begins."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import evaluate

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.notices import forget
from lm_eval_epidemia.models import demo, loading
from lm_eval_epidemia.models.loading import Given

torch = pytest.importorskip("torch")

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"
LAYERS = 2  # of the tiny model


def load(**model_args):
    """Load a model as `lm_eval --model choice-hf --model_args ...` does."""
    import lm_eval.models  # noqa: F401
    from lm_eval.api.registry import get_model

    from lm_eval_epidemia.harness.discovery import extend_models

    extend_models()
    made = {name: str(value) for name, value in model_args.items()}
    return get_model("choice-hf").create_from_arg_obj(
        {"dtype": "float32", **made}, {"device": "cpu", "batch_size": 8}
    )


def copy_of(folder, into, *without):
    """Copy a model without the files whose names begin so."""
    shutil.copytree(folder, into)
    for path in into.iterdir():
        if path.name.startswith(without):
            path.unlink()
    return into


def adapter_for(base, into, **config):
    """Save a random LoRA adapter for a base."""
    import peft

    torch.manual_seed(0)
    given = {"r": 2, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
    made = peft.get_peft_model(
        base, peft.LoraConfig(**{**given, **config}, init_lora_weights=False)
    )
    made.save_pretrained(into)
    return into


def llama(tiny_llama, **changed):
    """A random model of the tiny one's kind, in another shape."""
    from transformers import AutoConfig, LlamaForCausalLM

    config = AutoConfig.from_pretrained(tiny_llama)
    for name, value in changed.items():
        setattr(config, name, value)
    return LlamaForCausalLM(config)


@pytest.fixture
def bad(tiny_llama, tmp_path):
    """Folders that look like a model, and what is said of each."""
    pytest.importorskip("gguf")
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "new.gguf", "frobnicate")
    writer.add_block_count(1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "page.gguf").write_text("<html>not found</html>")
    tokenizer = ("token", "chat")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    return {
        tmp_path / "nowhere" / "model": r"model is no file or folder here, and cannot be loaded \(",
        "no-owner/no-model": r"no-owner/no-model is no file .* cannot be loaded \(OSError: ",
        tiny_llama / "config.json": r"config.json cannot be loaded \(",
        copy_of(tiny_llama, tmp_path / "a", *tokenizer): r"/a cannot be loaded \(.*tokenizer",
        copy_of(tiny_llama, tmp_path / "b", "config.json"): r"/b cannot be loaded \(.*config.json",
        adapter: r"adapter cannot be loaded \(.*config.json",
        tmp_path: r"cannot be loaded \(.*config.json",
        tmp_path / "new.gguf": r"cannot be loaded \(.*frobnicate",
        tmp_path / "page.gguf": r"cannot be loaded \(",
        tmp_path / "third.gguf": r"cannot be loaded \(.*third.gguf",
    }


def test_each_is_one_error_of_choice_hf(bad):
    for named, said in bad.items():
        given = Given.of(str(named))
        more = {"gguf_file": given.gguf_file} if given.gguf_file else {}
        with pytest.raises(EpidemiaError, match=said) as raised:
            load(pretrained=given.pretrained, **more)
        assert "\n" not in str(raised.value)


def test_each_stops_the_demonstration_before_its_baselines(bad, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_evaluate", lambda *_, **__: pytest.fail("checked too late"))
    for named, said in bad.items():
        with pytest.raises(EpidemiaError, match=said):
            demo.demo(tmp_path / "out", models=[str(named)])
    assert not (tmp_path / "out").exists()


def test_a_named_tokenizer_mends_a_folder_without_one(tiny_llama, tmp_path):
    folder = copy_of(tiny_llama, tmp_path / "a", "token", "chat")
    assert load(pretrained=folder, tokenizer=tiny_llama).tokenizer.vocab_size > 0
    with pytest.raises(EpidemiaError, match=rf"{tiny_llama} cannot be loaded \(.*tokenizer"):
        load(pretrained=tiny_llama, tokenizer=folder)


def test_a_folder_without_weights(tiny_llama, tmp_path):
    folder = copy_of(tiny_llama, tmp_path / "a", "model")
    with pytest.raises(EpidemiaError, match=r"/a cannot be loaded \(OSError: .*model\.safetensors"):
        load(pretrained=folder)


def test_without_torch_the_extra_is_named(tiny_llama, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_evaluate", lambda *_, **__: pytest.fail("checked too late"))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        EpidemiaError,
        match=r"needs torch, which is not installed: pip install .*\[hf\]'",
    ):
        demo.demo(tmp_path, models=[str(tiny_llama)])


def test_a_model_given_twice_is_refused(tiny_llama, tmp_path):
    with pytest.raises(EpidemiaError, match="is given more than once"):
        demo.demo(tmp_path, models=[str(tiny_llama), str(tiny_llama)])


# Adapters.


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"hidden_size": 96},
            r"cannot be loaded \(.*size mismatch for \S+layers.0.*\[2, 96\].*\[2, 64\]",
        ),
        (
            {"num_hidden_layers": LAYERS + 2},
            rf"does not fit .*8 of its weights do not exist in the base, .*layers.{LAYERS}"
            ".*trained on somebody/other-base",
        ),
        (
            {"num_hidden_layers": LAYERS - 1},
            r"does not fit .*4 weights that the base needs are not in it, as .*s\.1",
        ),
    ],
    ids=["wider", "deeper", "shallower"],
)
def test_an_adapter_of_another_base_is_refused(tiny_llama, tmp_path, changed, said):
    """peft itself says nothing of a deeper one, and only warns of a shallower one."""
    pytest.importorskip("peft")
    base = llama(tiny_llama, **changed)
    base.config._name_or_path = base.name_or_path = "somebody/other-base"
    adapter = adapter_for(base, tmp_path / "adapter")
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "somebody/other-base"
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(EpidemiaError, match=f"peft={adapter} {said}"):
        load(pretrained=tiny_llama, peft=adapter)


def test_an_adapter_that_fits_but_names_another_base_is_warned_of(tiny_llama, tmp_path, caplog):
    pytest.importorskip("peft")
    forget()
    base = llama(tiny_llama)
    adapter = adapter_for(base, tmp_path / "adapter")
    path = adapter / "adapter_config.json"
    for named, warned in (("hub/" + tiny_llama.name, False), ("somebody/other-base", True)):
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": named})
        )
        load(pretrained=tiny_llama, peft=adapter)
        said = f"trained on {named} by its own account, but is loaded onto {tiny_llama}"
        assert (said in caplog.text) == warned


def test_an_adapter_of_other_weights_of_the_same_shape_is_refused(
    tiny_llama, tmp_path, monkeypatch
):
    pytest.importorskip("peft")
    forget()
    other = tmp_path / "elsewhere" / tiny_llama.name
    llama(tiny_llama).save_pretrained(other)
    adapter = adapter_for(llama(tiny_llama), tmp_path / "adapter")
    path = adapter / "adapter_config.json"
    config = json.loads(path.read_text())

    def put_on(pretrained, named):
        path.write_text(json.dumps({**config, "base_model_name_or_path": str(named)}))
        loading._check_base(str(adapter), str(named), str(pretrained))

    # Of the same name, and a copy of another name
    path.write_text(json.dumps({**config, "base_model_name_or_path": str(other)}))
    with pytest.raises(EpidemiaError, match=f"was trained on {other}, whose weights are not those"):
        load(pretrained=tiny_llama, peft=adapter)
    copied = copy_of(tiny_llama, tmp_path / "copied")
    put_on(tiny_llama, copied)
    # On the Hub: names tell, but where both were downloaded the weights do.
    with pytest.raises(EpidemiaError, match=r"give that as pretrained, or mend .*adap"):
        put_on("a/instruct", "a/base")
    put_on("a/base", "b/Base")
    downloaded = {"a/base": tiny_llama, "b/copy": copied, "b/base": other}
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda named, local_files_only: downloaded[named]
    )
    put_on("a/base", "b/copy")
    put_on("b/copy", tiny_llama)
    with pytest.raises(EpidemiaError, match="whose weights are not those"):
        put_on("a/base", "b/base")


def renamed(adapter):
    from safetensors.torch import load_file, save_file

    path = adapter / "adapter_model.safetensors"
    save_file({k.replace("q_proj", "z_proj"): v for k, v in load_file(path).items()}, path)


def configured(**changed):
    def change(adapter):
        path = adapter / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return change


def written(change, file="adapter_model.safetensors"):
    def damage(adapter):
        path = adapter / file
        if file.endswith(".bin"):
            (adapter / "adapter_model.safetensors").rename(path)
        path.write_bytes(change(path.read_bytes()))

    return damage


@pytest.mark.parametrize(
    ("damage", "says"),
    {
        "half": (written(lambda whole: whole[: len(whole) // 2]), ""),
        "empty": (written(lambda whole: b""), ""),
        "page": (written(lambda whole: b"<html>" + whole[6:]), ""),
        "no weights": (written(lambda whole: b"\x02" + bytes(7) + b"{}"), ""),
        "no config": (written(lambda whole: b"{}", "adapter_config.json"), ""),
        "half a config": (written(lambda whole: b'{"r":', "adapter_config.json"), ""),
        "zip": (written(lambda whole: b"PK\x03\x04", "adapter_model.bin"), ""),
        "gone": (lambda adapter: (adapter / "adapter_model.safetensors").unlink(), r" cannot be"),
        "renamed": (renamed, ".* does not fit"),
        "r": (configured(r=4), r" cannot be loaded \(.*size mismatch"),
        "modules": (configured(target_modules=["nowhere"]), ".* not found in the base model"),
        "alpha": (configured(lora_alpha="x"), r" cannot be loaded \(TypeError: "),
        "r0": (configured(r=0), r" cannot be loaded \(ValueError: "),
        "type": (configured(peft_type="LOHA"), ""),
    }.values(),
)
def test_a_damaged_or_changed_adapter_is_refused_by_its_name(tiny_llama, tmp_path, damage, says):
    pytest.importorskip("peft")
    adapter = adapter_for(llama(tiny_llama), tmp_path / "adapter")
    configured(base_model_name_or_path=str(tiny_llama))(adapter)
    damage(adapter)
    with pytest.raises(EpidemiaError, match=f"peft={adapter}{says}"):
        load(pretrained=tiny_llama, peft=adapter)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pretrain": "x"}, r"a model without pretrained= cannot be loaded \(TypeError: "),
        ({"max_length": -1}, "max_length=-1: expected the most tokens, at least 1"),
        ({"max_length": 0}, "max_length=0: expected"),
        ({"max_length": "many"}, "max_length=many: expected"),
        ({"max_length": 60.5}, "max_length=60.5: expected"),
        ({"dtype": "int8"}, r"cannot be loaded \(ValueError: .*dtype"),
        ({"max_lenght": 60}, r"cannot be loaded \(TypeError: .*'max_lenght'"),
        ({"dtype": "float33"}, r"cannot be loaded \(AttributeError: .*'float33'"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_arguments_that_choice_hf_does_not_have_are_refused(tiny_llama, arguments, says):
    base = {} if "pretrain" in arguments else {"pretrained": tiny_llama}
    with pytest.raises(EpidemiaError, match=says):
        load(**base, **arguments)


def test_an_adapter_for_other_layers_is_refused(tiny_llama, tmp_path):
    pytest.importorskip("peft")
    from transformers import GPT2Config, GPT2LMHeadModel

    other = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=100))
    adapter = adapter_for(other, tmp_path / "a", target_modules=["c_attn"], fan_in_fan_out=True)
    with pytest.raises(
        EpidemiaError, match=r"cannot be loaded \(.*\{'c_attn'\} not found in the base"
    ):
        load(pretrained=tiny_llama, peft=adapter)


def test_what_is_no_adapter_is_refused(tiny_llama, tmp_path):
    pytest.importorskip("peft")
    for given, said in {
        tiny_llama: "adapter_config.json",
        tmp_path: "adapter_config.json",
        tmp_path / "no" / "such" / "adapter": "adapter_config.json",
        "no-owner/no-adapter": "adapter_config.json",
    }.items():
        with pytest.raises(EpidemiaError, match=f"peft={given} cannot be loaded .*{said}"):
            load(pretrained=tiny_llama, peft=given)


def log_probabilities(**model_args):
    found = evaluate(
        [TASK],
        model="choice-hf",
        device="cpu",
        batch_size=8,
        log_samples=True,
        model_args={"dtype": "float32", **{name: str(v) for name, v in model_args.items()}},
    )
    return np.array(
        [[float(x) for x, _ in sample["filtered_resps"]] for sample in found["samples"][TASK]]
    )


def test_neither_an_adapter_nor_tuned_weights_are_ignored(tiny_llama, tmp_path):
    """Both are the same change: merged into the weights it gives what the adapter gives."""
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
    adapter = adapter_for(base, tmp_path / "adapter")
    whole = peft.PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32), adapter
    ).merge_and_unload()
    whole.save_pretrained(tmp_path / "tuned")
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(tmp_path / "tuned")
    before = log_probabilities(pretrained=tiny_llama)
    adapted = log_probabilities(pretrained=tiny_llama, peft=adapter)
    tuned = log_probabilities(pretrained=tmp_path / "tuned")
    # A random adapter of this size moves them by whole units; rounding, by 1e-5.
    assert abs(adapted - before).min(axis=1).max() > 0.1
    assert np.allclose(adapted, tuned, atol=1e-4, rtol=0)


# The demonstration with a model.


def test_the_demonstration_with_two_models(tiny_llama, tmp_path, monkeypatch):
    """Their lines are what `lm_eval --model choice-hf` gives, and no tiny random one is made."""
    monkeypatch.setattr(demo, "SHOWN", ())
    monkeypatch.setattr(demo, "DEMO_GROUPS", ("epidemia_low",))
    plain = copy_of(tiny_llama, tmp_path / "plain", "chat")
    _, lines = demo.demo(tmp_path / "out", limit=1, models=[str(tiny_llama), str(plain)])
    names = [f"{tiny_llama.name} (choice-hf, chat)", "plain (choice-hf)"]
    beside = ["knows averages only", "guesses uniformly"]
    assert [line.respondent for line in lines] == [*names, *beside]
    # Who guesses is asked the same cells: its anchor, 0, in each of the six tasks.
    assert lines[-1].scores["epidemia_low_nsduh"][0] == 0
    for line, folder, chat in zip(lines[:2], (tiny_llama, plain), (True, False), strict=True):
        expected = evaluate(
            ["epidemia_low_nsduh"],
            model="choice-hf",
            apply_chat_template=chat,
            limit=1,
            device="cpu",
            batch_size=16,
            model_args={"pretrained": str(folder), "dtype": "float32"},
        )["results"]["epidemia_low_nsduh"]
        assert line.scores == {
            "epidemia_low_nsduh": (expected["score,none"], expected["score_stderr,none"])
        }
    folders = {path.name: path for path in (tmp_path / "out").iterdir()}
    assert {*folders} == {"plain_choice_hf", f"{tiny_llama.name}_choice_hf_chat"}
    (samples,) = folders["plain_choice_hf"].glob("samples_*.jsonl")
    assert "marijuana_ever_by_age" in samples.name and len(samples.read_text().splitlines()) == 2


def test_models_of_the_same_name_are_told_apart(tiny_llama, tmp_path):
    one, two = (copy_of(tiny_llama, tmp_path / name / "model") for name in "ab")
    found = demo._models([str(one), str(two), str(tiny_llama)])
    assert [model.name for model in found] == [str(one), str(two), Path(tiny_llama).name]
