"""`choice-hf` against lm-eval's own `hf` on the same weights: the same numbers, another way."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from rounding import assert_same, log_probability, metric
from test_huggingface import lm_eval, results_in, samples_in

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.models.choices import Question, plan
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

pytest.importorskip("torch")

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"
SEVERAL = "epidemia_low_acs_employer_by_race"


def answers(results, task):
    samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
    return [
        [(float(logprob), str(greedy)) for logprob, greedy in sample["filtered_resps"]]
        for sample in samples
    ]


def assert_same_metrics(ours, theirs, task):
    """The metrics of a task in two results, as far apart as its log-probabilities may make them."""
    apart = log_probability(x for answer in answers(theirs, task) for x, _ in answer)
    width = 1.0
    if task in all_tasks():
        anchors = Anchors.of(store.load(task))
        width = anchors.zero - anchors.perfect
    for name, value in theirs["results"][task].items():
        if isinstance(value, float):
            may = metric(name, apart, width)
            assert ours["results"][task][name] == pytest.approx(value, abs=may), name


@pytest.mark.parametrize("chat", [False, True])
def test_our_tasks_and_others_through_lm_eval(tiny_llama, mmlu_style, chat):
    import lm_eval_epidemia

    tasks = [TASK, SEVERAL, "lettered", "continued"]
    found = []
    for model in ("hf", "choice-hf"):
        from lm_eval import simple_evaluate

        manager = lm_eval_epidemia.task_manager(include_path=str(mmlu_style))
        found.append(
            simple_evaluate(
                model,
                f"pretrained={tiny_llama},dtype=float32",
                tasks,
                device="cpu",
                batch_size=16,
                apply_chat_template=chat,
                task_manager=manager,
                log_samples=True,
            )
        )
    stock, ours = found
    for task in tasks:
        assert_same(answers(ours, task), answers(stock, task))
        assert_same_metrics(ours, stock, task)


# The model itself, request by request.


def requests(pairs):
    from lm_eval.api.instance import Instance

    return [
        Instance("loglikelihood", {}, arguments=pair, idx=number)
        for number, pair in enumerate(pairs)
    ]


def pairs(tasks=(TASK, SEVERAL), cells=30, choices=" {}"):
    return [
        (row["prompt"], choices.format(letter))
        for task in tasks
        for row in list(split(task))[:cells]
        for letter in row["choices"]
    ]


def both(folder, asked, **arguments):
    """The answers of `choice-hf` and of `hf`."""
    from lm_eval.models.huggingface import HFLM

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    arguments = {
        "pretrained": str(folder),
        "dtype": "float32",
        "device": "cpu",
        "batch_size": 8,
        **arguments,
    }
    return [
        [
            [(float(x), str(greedy))]
            for x, greedy in kind(**arguments).loglikelihood(requests(asked), disable_tqdm=True)
        ]
        for kind in (ChoiceHF, HFLM)
    ]


def architecture(name, vocabulary):
    import transformers as t

    small = {
        "vocab_size": vocabulary,
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "initializer_range": 0.2,
    }
    heads = {
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 64,
    }
    return {
        "gpt2": lambda: t.GPT2Config(
            vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=2, initializer_range=0.2
        ),
        "gemma2": lambda: t.Gemma2Config(
            **small,
            **heads,
            final_logit_softcapping=3.0,
            attn_logit_softcapping=5.0,
            query_pre_attn_scalar=16,
            sliding_window=40,
        ),
        "neox": lambda: t.GPTNeoXConfig(**small, num_attention_heads=2, intermediate_size=64),
        "mamba": lambda: t.MambaConfig(**small, state_size=4),
        "qwen3": lambda: t.Qwen3Config(**small, **heads, tie_word_embeddings=True),
    }[name]()


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "neox", "mamba", "qwen3"])
def test_architectures(tiny_llama, tmp_path, name):
    """Absolute positions, soft-capped logits, sliding windows, no attention, tied heads."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    torch.manual_seed(1)
    # A vocabulary padded beyond the tokenizer's, as many models have it.
    AutoModelForCausalLM.from_config(architecture(name, len(tokenizer) + 24)).save_pretrained(
        tmp_path
    )
    tokenizer.save_pretrained(tmp_path)
    ours, stock = both(tmp_path, pairs(cells=12))
    assert_same(ours, stock)
    assert len({round(x, 3) for ((x, _),) in ours}) > 10


@pytest.mark.parametrize("kind", ["lora", "prompt tuning", "prefix tuning"])
def test_adapters(tiny_llama, tmp_path, kind):
    """PEFT adapters: changed weights (the output head's too), virtual tokens, virtual keys."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    config = {
        "lora": peft.LoraConfig(
            r=4, target_modules=["q_proj", "v_proj", "lm_head"], task_type="CAUSAL_LM"
        ),
        "prompt tuning": peft.PromptTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
        "prefix tuning": peft.PrefixTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
    }[kind]
    base = AutoModelForCausalLM.from_pretrained(tiny_llama)
    adapter = peft.get_peft_model(base, config)
    torch.manual_seed(5)
    for weights in adapter.parameters():
        if weights.requires_grad:
            torch.nn.init.normal_(weights, std=0.3)
    adapter.save_pretrained(tmp_path)
    asked = pairs(cells=12)
    ours, stock = both(tiny_llama, asked, peft=str(tmp_path))
    assert_same(ours, stock)
    plain = both(tiny_llama, asked)[1]
    assert not np.allclose([x for ((x, _),) in stock], [x for ((x, _),) in plain], atol=0.01)


def test_four_bit_weights(tiny_llama, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    model = AutoModelForCausalLM.from_pretrained(
        tiny_llama, quantization_config=how, dtype=torch.float32
    )
    assert model.model.layers[0].mlp.down_proj.weight.dtype == torch.uint8
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(tmp_path)
    assert_same(*both(tmp_path, pairs(cells=12)))


def test_a_model_spread_over_devices(tiny_llama, tmp_path):
    """`device_map=auto` with too little memory: layers are brought in from the disk one by one."""
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    spread = {"parallelize": True, "max_cpu_memory": "200KB", "offload_folder": str(tmp_path)}
    ours, stock = both(tiny_llama, pairs(cells=12), **spread)
    assert_same(ours, stock)
    model = ChoiceHF(pretrained=str(tiny_llama), dtype="float32", device="cpu", **spread).model
    assert "disk" in model.hf_device_map.values()


def test_an_encoder_decoder_takes_the_stock_path(tiny_llama, tmp_path):
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.pad_token = "</s>"
    torch.manual_seed(1)
    T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=32,
            d_kv=16,
            d_ff=64,
            num_layers=1,
            num_heads=2,
            pad_token_id=1,
            decoder_start_token_id=1,
        )
    ).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ours, stock = both(tmp_path, pairs(cells=4))
    assert ours == stock


def retokenized(tiny_llama, folder, change):
    """The tiny model with a changed tokenizer."""
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

    whole = AutoTokenizer.from_pretrained(tiny_llama)
    described = json.loads(whole.backend_tokenizer.to_str())
    more = change(described) or {}
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(described)),
        bos_token="<s>",
        eos_token="</s>",
        **more,
    ).save_pretrained(folder)
    AutoModelForCausalLM.from_pretrained(tiny_llama).save_pretrained(folder)
    return folder


def without_merges(described):
    described["model"]["merges"] = []


def with_bos(described):
    described["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }


def space_apart(described):
    """The space is a token of its own and never joins the letter, as in some tokenizers."""
    described["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False},
            {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": False,
            },
        ],
    }


@pytest.mark.parametrize("change", [without_merges, with_bos, space_apart])
@pytest.mark.parametrize("choices", [" {}", "{}", "\n{}", " {}."])
def test_tokenizers(tiny_llama, tmp_path, change, choices):
    ours, stock = both(retokenized(tiny_llama, tmp_path, change), pairs(cells=6, choices=choices))
    assert_same(ours, stock)


def test_contexts_that_begin_with_bos_or_end_in_spaces(tiny_llama, tmp_path):
    folder = retokenized(tiny_llama, tmp_path, with_bos)
    asked = [
        (f"{start}{prompt}{end}", choice)
        for prompt, choice in pairs(cells=3)
        for start in ("", "<s>")
        for end in ("", " ", "\n", " \n\n")
    ]
    for more in ({}, {"add_bos_token": True}, {"add_bos_token": False}):
        assert_same(*both(folder, asked, **more))


def test_requests_that_cannot_share_a_pass_are_answered_as_stock_does(tiny_llama):
    asked = [
        *pairs(cells=2),
        ("The capital of England is", " London, on the river Thames, as everybody knows"),
        ("The capital of England is", " L"),
        (pairs(cells=1)[0][0], " A"),  # asked twice
        (" ".join(f"word{i}" for i in range(900)), " end"),  # beyond the context of 1,024
        ("x", " y"),
    ]
    assert_same(*both(tiny_llama, asked))
    assert_same(*both(tiny_llama, [("", " A"), *asked, ("", " B")]))
    assert_same(*both(tiny_llama, [("", " A")]))


def test_a_request_without_a_context_leaves_the_others_their_pass(tiny_llama, monkeypatch):
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    asked, seen = pairs(cells=3), []
    read = ChoiceHF._read

    def counted(self, batch):
        seen.extend(batch.questions)
        return read(self, batch)

    monkeypatch.setattr(ChoiceHF, "_read", counted)
    assert_same(*both(tiny_llama, [asked[0], ("", " A"), *asked[1:]]))
    assert sum(len(one.requests) for one in seen) == len(asked)


def test_positions_that_turn_otherwise_in_long_prompts(tiny_llama, tmp_path):
    """Of such a model a prompt beyond the length of its training shares nothing with others."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.2,
        max_position_embeddings=2048,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "short_factor": [1.0] * 8,
            "long_factor": [6.0] * 8,
        },
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    short = [pair for pair in pairs(cells=4) if len(tokenizer(pair[0])["input_ids"]) < 60]
    # The beginnings are within that length.
    long = [(f"{text}{' Take your time, and say it.' * 6}\nAnswer:", one) for text, one in short]
    assert len(short) > 4
    for asked in (short, long):
        assert_same(both(tmp_path, asked)[0], both(tmp_path, asked, batch_size=1)[1])


def test_bfloat16_is_as_exact_as_stock(tiny_llama):
    """Against float32, both carry rounding errors of one size, whatever the processor rounds."""
    asked = pairs(cells=20)
    exact = both(tiny_llama, asked)[1]

    def error(answers):
        apart = [x - y for ((x, _),), ((y, _),) in zip(answers, exact, strict=True)]
        return np.sqrt(np.mean(np.square(apart)))

    ours, stock = both(tiny_llama, asked, dtype="bfloat16")
    # 120 log-probabilities: their mean square is known to some 13 %, so its root is within 2.
    assert 0 < error(ours) <= 2 * error(stock)


def test_log_probabilities_that_are_not_numbers_stay_so(tiny_llama, tmp_path):
    """A broken model: NaN here as there, and our metrics say so instead of giving a score."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_llama)
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(tmp_path)
    ours, stock = both(tmp_path, pairs(cells=3))
    assert np.isnan([x for ((x, _),) in ours]).all() and np.isnan([x for ((x, _),) in stock]).all()


def test_memory_that_runs_out_halves_the_batches(tiny_llama, monkeypatch):
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    honest, sizes = ChoiceHF._read, []

    def tight(self, batch):
        sizes.append(len(batch.questions))
        if len(batch.questions) > 5:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return honest(self, batch)

    plain = both(tiny_llama, pairs(cells=30))[0]
    monkeypatch.setattr(ChoiceHF, "_read", tight)
    again = both(tiny_llama, pairs(cells=30), batch_size="auto")[0]
    assert_same(again, plain)
    assert max(sizes) > 5 and Counter(sizes).most_common(1)[0][0] <= 5
    monkeypatch.setattr(ChoiceHF, "_read", lambda self, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        both(tiny_llama, pairs(cells=2))


@pytest.mark.parametrize("path", ["rows", "tree"])
def test_no_tensor_of_prompt_times_vocabulary(tiny_llama, monkeypatch, path):
    """The output head sees one position of each prompt, and of a shared beginning."""
    import torch

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    monkeypatch.setattr(ChoiceHF, "only_path", path)
    seen = []
    honest = ChoiceHF._logits_at

    def watched(self, ids, *more, **named):
        logits = honest(self, ids, *more, **named)
        seen.append((ids.shape, logits.shape))
        return logits

    widest = []
    linear = torch.nn.functional.linear

    def watched_linear(states, weight, *more):
        made = linear(states, weight, *more)
        if weight.shape[0] >= 400:  # only the output head is that wide
            widest.append(made.shape[:-1].numel())
        return made

    monkeypatch.setattr(ChoiceHF, "_logits_at", watched)
    monkeypatch.setattr(torch.nn.functional, "linear", watched_linear)
    from lm_eval.models.huggingface import HFLM

    arguments = {"pretrained": str(tiny_llama), "dtype": "float32", "device": "cpu"}
    model = ChoiceHF(**arguments, batch_size=8)
    model.loglikelihood(requests(pairs(cells=20)[:1]), disable_tqdm=True)  # asks what it can share
    widest.clear(), seen.clear()
    model.loglikelihood(requests(pairs(cells=20)), disable_tqdm=True)
    # Each prompt once: 20 of two choices, 20 of four.
    assert sum(after[0] * after[1] for _, after in seen) == 40
    assert 40 <= sum(widest) <= 40 + (len(seen) if path == "rows" else 0)
    if path == "rows":
        assert all(after[:2] == (before[0], 1) for before, after in seen)
    HFLM(**arguments, batch_size=8).loglikelihood(requests(pairs(cells=2)), disable_tqdm=True)
    assert max(widest) > 50


@pytest.mark.parametrize("path", ["rows", "tree"])
def test_beginnings_are_computed_once(tiny_llama, monkeypatch, path):
    """The 24 orders of a question with four answers, after three solved examples."""
    from lm_eval_epidemia.elicit.variants import Variant
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    rows = list(split(SEVERAL, variant=Variant(fewshot=3)))[:48]
    asked = [(row["prompt"], f" {letter}") for row in rows for letter in row["choices"]]
    computed = []
    honest = ChoiceHF._logits_at

    def watched(self, ids, positions, before, **more):
        computed.append(ids.numel())
        return honest(self, ids, positions, before, **more)

    monkeypatch.setattr(ChoiceHF, "only_path", path)
    monkeypatch.setattr(ChoiceHF, "_logits_at", watched)
    ours, stock = both(tiny_llama, asked)
    assert_same(ours, stock)
    from transformers import AutoTokenizer

    whole = sum(
        map(
            len, AutoTokenizer.from_pretrained(tiny_llama)([r["prompt"] for r in rows])["input_ids"]
        )
    )
    assert sum(computed) < 0.4 * whole


@pytest.mark.parametrize("limit", [1, 40, 1000, 10_000])
@pytest.mark.parametrize("share", [False, True])
def test_a_plan_has_every_question_once_within_the_limit(limit, share):
    rng = np.random.default_rng(3)
    questions = []
    for number in range(1000):
        beginning = [7] * int(rng.integers(0, 3) * 40)
        tokens = [*beginning, *rng.integers(0, 50, rng.integers(4, 30)).tolist()]
        questions.append(Question(tokens, int(rng.integers(0, 2)), [number], [1]))
    batches = plan(questions, limit, share)
    planned = [one.requests[0] for batch in batches for one in batch.questions]
    assert sorted(planned) == list(range(1000))
    for batch in batches:
        longest = max(len(one.tokens) for one in batch.questions)
        assert len(batch.questions) == 1 or len(batch.questions) * longest <= limit
        (shared,) = {one.shared for one in batch.questions}
        first = batch.questions[0].tokens[: batch.prefix]
        for one in batch.questions:
            assert one.tokens[: batch.prefix] == first
            assert len(one.tokens) - batch.prefix >= shared + 2 or batch.prefix == 0
    if share and limit >= 1000:
        assert any(batch.prefix for batch in batches)
        plain = plan(questions, limit, False)
        assert sum(b.cost for b in batches) < sum(b.cost for b in plain)


def test_two_processes_give_the_answers_of_one(tiny_llama, tmp_path):
    def run(out, launcher=()):
        lm_eval(
            "--model",
            "choice-hf",
            "--model_args",
            f"pretrained={tiny_llama},dtype=float32",
            "--tasks",
            f"{TASK},{SEVERAL}",
            "--device",
            "cpu",
            "--batch_size",
            16,
            "--output_path",
            out,
            "--log_samples",
            launcher=launcher,
        )
        return {**results_in(out), "samples": {t: samples_in(out, t) for t in (TASK, SEVERAL)}}

    one = run(tmp_path / "one")
    two = run(
        tmp_path / "two",
        [
            sys.executable,
            "-m",
            "accelerate.commands.launch",
            "--cpu",
            "--num_processes",
            "2",
            "--num_machines",
            "1",
            "--mixed_precision",
            "no",
            "--dynamo_backend",
            "no",
            "-m",
        ],
    )
    for task in (TASK, SEVERAL):
        assert_same(answers(two, task), answers(one, task))
        assert_same_metrics(two, one, task)


KILLED = """
import json, os, signal, sys
from pathlib import Path
from lm_eval import simple_evaluate
import lm_eval_epidemia
from lm_eval_epidemia.models.choice_hf import ChoiceHF

model, folder, batches, tasks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
honest, log = ChoiceHF._read, (folder / "read.txt").open("a")

def counted(self, batch):
    global batches
    if batches == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    batches -= 1
    found = honest(self, batch)
    for one in batch.questions:
        log.write(str(one.tokens) + "\\n")
    log.flush()
    return found

ChoiceHF._read = counted
results = simple_evaluate(
    "choice-hf", f"pretrained={model},dtype=float32", tasks, device="cpu", batch_size=16,
    task_manager=lm_eval_epidemia.task_manager(), use_cache=str(folder / "responses"),
)
results = {key: results[key] for key in ("results", "samples")}
(folder / "results.json").write_text(json.dumps(results, default=str))
"""


def test_a_run_that_is_killed_goes_on_where_it_stopped(tiny_llama, tmp_path):
    def run(folder, batches):
        folder.mkdir(exist_ok=True)
        arguments = map(str, (tiny_llama, folder, batches, TASK, SEVERAL))
        return subprocess.run(
            [sys.executable, "-c", KILLED, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )

    assert run(tmp_path / "whole", -1).returncode == 0
    first = run(tmp_path / "killed", 5)
    assert first.returncode == -signal.SIGKILL
    read = (tmp_path / "killed" / "read.txt").read_text().splitlines()
    assert 0 < len(read) < 22 + len(split(SEVERAL))
    again = run(tmp_path / "killed", -1)
    assert again.returncode == 0, again.stderr[-2000:]
    both_runs = (tmp_path / "killed" / "read.txt").read_text().splitlines()
    assert len(both_runs) == len(set(both_runs)) == 22 + len(split(SEVERAL))
    one, two = (
        json.loads((tmp_path / folder / "results.json").read_text())
        for folder in ("whole", "killed")
    )
    for task in (TASK, SEVERAL):
        assert_same(answers(two, task), answers(one, task))
        assert_same_metrics(two, one, task)
