"""`choice-hf` against lm-eval's own `hf` on the same weights: the same numbers, another way."""

import json
from functools import cache
from unittest import mock

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY
from lm_eval.api.registry import get_model
from rounding import assert_same, log_probability, metric
from test_huggingface import TWO_PROCESSES, lm_eval, results_in, samples_in

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.models.prefix_tree import Pack
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.rounding

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"
SEVERAL = "epidemia_low_acs_employer_by_race"
TEXT = "Among adults in the United States, how many have ever used it? Answer with a letter: "


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
        for row in split(task).select(range(cells if task != TASK else min(cells, 22)))
        for letter in row["choices"]
    ]


@cache
def loaded(name, folder, **arguments):
    """A model, loaded once for all tests of a process that want it so."""
    from lm_eval.models.huggingface import HFLM

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    how = {"dtype": "float32", "device": "cpu", "batch_size": 8, **arguments}
    return {"hf": HFLM, "choice-hf": ChoiceHF}[name](pretrained=folder, **how)


@cache
def answered(name, folder, asked, **arguments):
    """What a model answers, as results have it."""
    lm = loaded(name, folder, **arguments)
    answers = lm.loglikelihood(requests(asked), disable_tqdm=True)
    return [[(float(x), str(greedy))] for x, greedy in answers]


def ours_of(folder, asked, **arguments):
    return answered.__wrapped__("choice-hf", str(folder), asked, **arguments)


def both(folder, asked, **arguments):
    """The answers of `choice-hf` and of `hf`, of which the batches make no difference."""
    stock = {name: value for name, value in arguments.items() if name != "batch_size"}
    theirs = answered("hf", str(folder), tuple(asked), **stock)
    return ours_of(folder, asked, **arguments), theirs


def saved(folder, model, tiny_llama):
    """Save a model with the tiny one's tokenizer."""
    from transformers import AutoTokenizer

    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(folder)
    return folder


def weights_of(tiny_llama, **how):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_llama, **how)


@pytest.mark.parametrize("named", ["", "object", "path"])
def test_a_model_in_the_hand_and_its_tokenizer_are_taken_as_stock_takes_them(tiny_llama, named):
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoTokenizer

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    tokenizer = {"object": AutoTokenizer.from_pretrained(tiny_llama), "path": str(tiny_llama)}
    given = {"pretrained": weights_of(tiny_llama, dtype=torch.float32)}
    given |= {"tokenizer": tokenizer[named]} if named else {}
    ours, theirs = (
        [(float(x), str(greedy)) for x, greedy in kind(**given).loglikelihood(requests(pairs()))]
        for kind in (ChoiceHF, HFLM)
    )
    assert_same([ours], [theirs])


@pytest.fixture
def batches(monkeypatch):
    """What `choice-hf` reads, in the order in which it does."""
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    read, honest = [], ChoiceHF._read

    def watched(self, batch):
        read.append(batch)
        return honest(self, batch)

    monkeypatch.setattr(ChoiceHF, "_read", watched)
    return read


@pytest.fixture
def on_path(monkeypatch):
    """Send all prompts one way: as rows, as a tree, or the cheaper one (None)."""
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    return lambda path: monkeypatch.setattr(ChoiceHF, "only_path", path)


# Through lm-eval.


def answers(results, task):
    samples = sorted(results["samples"][task], key=lambda sample: sample["doc_id"])
    return [
        [(float(logprob), str(greedy)) for logprob, greedy in sample["filtered_resps"]]
        for sample in samples
    ]


def assert_same_results(ours, theirs, tasks):
    """Answers and metrics, as far apart as log-probabilities may lie."""
    for task in tasks:
        assert_same(answers(ours, task), answers(theirs, task))
        apart = log_probability(x for answer in answers(theirs, task) for x, _ in answer)
        width = 1.0
        if task in all_tasks():
            anchors = Anchors.of(store.load_truth(task))
            width = anchors.zero - anchors.perfect
        for name, value in theirs["results"][task].items():
            if isinstance(value, float):
                may = metric(name, apart, width)
                assert ours["results"][task][name] == pytest.approx(value, abs=may), name


@pytest.mark.parametrize("chat", [False, True])
def test_our_tasks_and_others_through_lm_eval(tiny_llama, mmlu_style, chat):
    """All 22 prompts of one task, two cells in 24 orders of another, and tasks of others."""
    from lm_eval import simple_evaluate

    import lm_eval_epidemia

    tasks = [TASK, SEVERAL, "lettered", "continued"]
    manager = lm_eval_epidemia.task_manager(include_path=str(mmlu_style))
    how = {"task_manager": manager, "limit": 48, "apply_chat_template": chat}
    with mock.patch("lm_eval.evaluator.add_env_info"):
        stock, ours = (
            simple_evaluate(loaded(name, str(tiny_llama)), tasks=tasks, log_samples=True, **how)
            for name in ("hf", "choice-hf")
        )
    assert_same_results(ours, stock, tasks)


@pytest.mark.slow
def test_two_processes_give_the_answers_of_one(tiny_llama, tmp_path):
    tasks = [TASK, SEVERAL]

    def run(out, launcher=()):
        given = f"pretrained={tiny_llama},dtype=float32"
        how = ("--model", "choice-hf", "--model_args", given, "--tasks", ",".join(tasks))
        how += ("--device", "cpu", "--batch_size", 16, "--output_path", out, "--log_samples")
        lm_eval(*how, launcher=launcher)
        return {**results_in(out), "samples": {task: samples_in(out, task) for task in tasks}}

    one, two = run(tmp_path / "one"), run(tmp_path / "two", TWO_PROCESSES)
    assert_same_results(two, one, tasks)


def test_a_run_that_stops_goes_on_where_it_stopped(tiny_llama, tmp_path, monkeypatch, batches):
    """In its third batch; what was answered before is in the cache, and is not read again."""
    from lm_eval.api.model import CachingLM

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    asked, watched = pairs(cells=12), ChoiceHF._read

    def stops(self, batch):
        if len(batches) == 2:
            raise KeyboardInterrupt
        return watched(self, batch)

    lm = loaded.__wrapped__("choice-hf", str(tiny_llama), batch_size=4)
    keeping = CachingLM(lm, str(tmp_path / "responses"))
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ChoiceHF, "_read", stops)
        keeping.loglikelihood(requests(asked))
    again = keeping.loglikelihood(requests(asked))
    read = [str(question.tokens) for batch in batches for question in batch.questions]
    assert len(read) == len(set(read)) == 24
    _, stock = both(tiny_llama, asked)
    assert_same([[(x, str(greedy))] for x, greedy in again], stock)


# The model itself, request by request.


DATA = yaml.safe_load((REPOSITORY / "tests/data/architectures.yaml").read_text())
ARCHITECTURES, TOKENIZERS = DATA["models"], DATA["tokenizers"]


def config_of(name, vocabulary):
    """A small model of an architecture."""
    kind, _, more = ARCHITECTURES[name]
    small = {"vocab_size": vocabulary, "num_hidden_layers": 2, "hidden_size": 32}
    return getattr(transformers, kind)(**small, **more, initializer_range=0.2)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_take_trees_or_keep_to_rows(tiny_llama, tmp_path, batches, on_path, name):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(1)
    # A vocabulary padded beyond the tokenizer's, as many models have it.
    vocabulary = len(AutoTokenizer.from_pretrained(tiny_llama)) + 24
    model = AutoModelForCausalLM.from_config(config_of(name, vocabulary))
    folder = saved(tmp_path, model, tiny_llama)
    asked = [*pairs(cells=12), (f"{TEXT}A", " A"), (f"{TEXT}B", " A")]
    ours, stock = both(folder, asked)
    assert_same(ours, stock)
    assert len({round(x, 3) for ((x, _),) in ours}) > 10
    longest = loaded("choice-hf", str(folder))._longest_in_tree
    batches.clear()
    on_path("tree")
    assert_same(ours_of(folder, asked), stock)
    kinds = {type(batch) for batch in batches}
    takes = ARCHITECTURES[name][1]
    if takes == "any":
        assert longest > 100_000 and kinds == {Pack}
    else:
        assert longest == takes and (Pack in kinds) == bool(longest) and len(kinds) <= 2
        packs = [batch for batch in batches if isinstance(batch, Pack)]
        assert len(packs) < len(batches)
        assert all(len(one.tokens) <= longest for pack in packs for one in pack.questions)


@pytest.mark.parametrize("kind", ["lora", "prompt tuning", "prefix tuning"])
def test_adapters(tiny_llama, tmp_path, kind):
    """Changed weights (the output head's too), virtual tokens, virtual keys; only the first as a
    tree, since nothing stands before the prompt."""
    import peft

    changed = {"r": 4, "target_modules": ["q_proj", "v_proj", "lm_head"]}
    config = {
        "lora": peft.LoraConfig(**changed, task_type="CAUSAL_LM"),
        "prompt tuning": peft.PromptTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
        "prefix tuning": peft.PrefixTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
    }[kind]
    adapter = peft.get_peft_model(weights_of(tiny_llama), config)
    torch.manual_seed(5)
    for weights in adapter.parameters():
        if weights.requires_grad:
            torch.nn.init.normal_(weights, std=0.3)
    adapter.save_pretrained(tmp_path)
    asked = pairs(cells=12)
    ours, stock = both(tiny_llama, asked, peft=str(tmp_path))
    assert_same(ours, stock)
    _, plain = both(tiny_llama, asked)
    assert not np.allclose([x for ((x, _),) in stock], [x for ((x, _),) in plain], atol=0.01)
    lm = loaded("choice-hf", str(tiny_llama), peft=str(tmp_path))
    assert bool(lm._longest_in_tree) is (kind == "lora")


def test_four_bit_weights(tiny_llama, tmp_path):
    from transformers import BitsAndBytesConfig

    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    model = weights_of(tiny_llama, quantization_config=how, dtype=torch.float32)
    assert model.model.layers[0].mlp.down_proj.weight.dtype == torch.uint8
    assert_same(*both(saved(tmp_path, model, tiny_llama), pairs(cells=12)))
    packed, plain = (loaded("choice-hf", str(folder)) for folder in (tmp_path, tiny_llama))
    # Two weights in a byte count as two.
    assert packed._longest_in_tree and packed._costs == plain._costs


def test_a_model_spread_over_devices(tiny_llama, tmp_path):
    """`device_map=auto` with too little memory: layers are brought in from the disk one by one."""
    spread = {"parallelize": True, "max_cpu_memory": "200KB", "offload_folder": str(tmp_path)}
    assert_same(*both(tiny_llama, pairs(cells=12), **spread))
    lm = loaded("choice-hf", str(tiny_llama), **spread)
    assert "disk" in lm.model.hf_device_map.values() and lm._longest_in_tree


def test_an_encoder_decoder_takes_the_stock_path(tiny_llama, tmp_path):
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama, pad_token="</s>")
    torch.manual_seed(1)
    small = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2}
    small["vocab_size"] = len(tokenizer)
    config = T5Config(**small, pad_token_id=1, decoder_start_token_id=1)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ours, stock = both(tmp_path, pairs(cells=4))
    assert ours == stock


def retokenized(tiny_llama, folder, change):
    """The tiny model with a changed tokenizer."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    described = json.loads(AutoTokenizer.from_pretrained(tiny_llama).backend_tokenizer.to_str())
    for part, changed in TOKENIZERS[change].items():
        described[part] = (described[part] or {}) | changed
    weights_of(tiny_llama).save_pretrained(folder)
    own = Tokenizer.from_str(json.dumps(described))
    fast = PreTrainedTokenizerFast(tokenizer_object=own, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("change", TOKENIZERS)
def test_tokenizers(tiny_llama, tmp_path, change):
    folder = retokenized(tiny_llama, tmp_path, change)
    for choices in (" {}", "{}", "\n{}", " {}."):
        assert_same(*both(folder, pairs(cells=6, choices=choices)))


def test_contexts_that_begin_with_bos_or_end_in_spaces(tiny_llama, tmp_path):
    folder = retokenized(tiny_llama, tmp_path, "with bos")
    asked = [
        (f"{start}{prompt}{end}", choice)
        for prompt, choice in pairs(cells=3)
        for start in ("", "<s>")
        for end in ("", " ", "\n", " \n\n")
    ]
    for more in ({}, {"add_bos_token": True}, {"add_bos_token": False}):
        assert_same(*both(folder, asked, **more))


def test_requests_that_cannot_share_a_pass_are_answered_as_stock_does(tiny_llama, batches):
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
    # One without a context leaves the others their pass.
    batches.clear()
    asked = pairs(cells=3)
    assert_same(*both(tiny_llama, [asked[0], ("", " A"), *asked[1:]]))
    assert sum(len(one.requests) for batch in batches for one in batch.questions) == len(asked)


def test_positions_that_turn_otherwise_in_long_prompts(tiny_llama, tmp_path):
    """Of such a model a prompt beyond the length of its training shares nothing with others."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    torch.manual_seed(1)
    rope = {"rope_type": "longrope", "rope_theta": 10_000.0, "factor": 8.0}
    rope |= {"original_max_position_embeddings": 64, "short_factor": [1.0] * 8}
    rope["long_factor"] = [6.0] * 8
    small = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
    small |= {"intermediate_size": 64, "initializer_range": 0.2, "max_position_embeddings": 2048}
    config = LlamaConfig(vocab_size=len(tokenizer), **small, rope_parameters=rope)
    folder = saved(tmp_path, LlamaForCausalLM(config), tiny_llama)
    short = [pair for pair in pairs(cells=4) if len(tokenizer(pair[0])["input_ids"]) < 60]
    # The beginnings are within that length.
    long = [(f"{text}{' Take your time, and say it.' * 6}\nAnswer:", one) for text, one in short]
    assert len(short) > 4
    for asked in (short, long):
        alone = answered("hf", str(folder), tuple(asked), batch_size=1)
        assert_same(ours_of(folder, asked), alone)


def test_bfloat16_is_as_exact_as_stock(tiny_llama):
    """Against float32, both carry rounding errors of one size, whatever the processor rounds."""
    asked = pairs(cells=20)
    _, exact = both(tiny_llama, asked)

    def error(answers):
        apart = [x - y for ((x, _),), ((y, _),) in zip(answers, exact, strict=True)]
        return np.sqrt(np.mean(np.square(apart)))

    ours, stock = both(tiny_llama, asked, dtype="bfloat16")
    # 120 log-probabilities: their mean square is known to some 13 %, so its root is within 2.
    assert 0 < error(ours) <= 2 * error(stock)


def test_log_probabilities_that_are_not_numbers_stay_so(tiny_llama, tmp_path):
    """A broken model: NaN here as there, and our metrics say so instead of giving a score."""
    model = weights_of(tiny_llama)
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    for rows in both(saved(tmp_path, model, tiny_llama), pairs(cells=3)):
        assert np.isnan([x for ((x, _),) in rows]).all()


@pytest.mark.parametrize(
    ("given", "tokens"), [(1, 4096), (None, 4096), ("auto", 4096), ("1", 7), (2, 14), ("2", 14)]
)
def test_batches_are_filled_unless_a_size_is_given(tiny_llama, given, tokens):
    """lm-eval's command line hands on the number 1 for none, and text for what was given."""
    from lm_eval.config.evaluate_config import EvaluatorConfig

    from lm_eval_epidemia.models.choices import Question

    assert repr(EvaluatorConfig().batch_size) == "1"
    sized = {} if given is None else {"batch_size": given}
    lm = get_model("choice-hf").create_from_arg_string(
        f"pretrained={tiny_llama},dtype=float32", {"device": "cpu", **sized}
    )
    assert lm._token_limit([Question([1] * 7, 0, [0], [1])]) == tokens
    # What takes the stock path is asked as ever.
    assert str(lm.batch_size) == str(given or 1)


def test_memory_that_runs_out_halves_the_batches(tiny_llama, monkeypatch):
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    honest, sizes, asked = ChoiceHF._read, [], pairs(cells=20)

    def tight(self, batch):
        sizes.append(len(batch.questions))
        if len(batch.questions) > 5:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return honest(self, batch)

    _, stock = both(tiny_llama, asked)
    monkeypatch.setattr(ChoiceHF, "_read", tight)
    assert_same(ours_of(tiny_llama, asked, batch_size="auto"), stock)
    assert max(sizes) > 5 and sizes[-1] <= 5
    monkeypatch.setattr(ChoiceHF, "_read", lambda self, batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ours_of(tiny_llama, asked)
