"""Prompts as a tree: what is planned, and that models answer as they do without."""

import numpy as np
import pytest
from rounding import assert_same
from test_choice_hf import architecture, both, pairs

from lm_eval_epidemia.models.choices import Batch, Question, plan
from lm_eval_epidemia.models.prefix_tree import (
    Costs,
    Pack,
    blocks_of,
    cost_of_pack,
    cost_of_rows,
    packs,
    plan_paths,
    tree_of,
)

pytest.importorskip("torch")

LLAMA_8B = Costs(32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14_336), 2 * 32 * 4096)


def question(tokens, number=0, shared=0):
    return Question(list(tokens), shared, [number], [1])


def random_questions(number=300, seed=3):
    """Two trunks with branches in branches, some equal, some the beginning of others."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(number):
        tokens = [7] * int(rng.integers(1, 3) * 20)
        for _ in range(rng.integers(0, 4)):
            tokens += [int(rng.integers(0, 3))] * int(rng.integers(1, 12))
        shared = int(rng.integers(0, 3))
        found.append(question(tokens, place, shared))
    return found


def beginnings(questions):
    return {tuple(one.tokens[: end + 1]) for one in questions for end in range(len(one.tokens))}


# The plan.


def test_a_tree_has_each_distinct_beginning_once():
    asked = sorted(random_questions(), key=lambda one: one.tokens)
    tree = tree_of(asked)
    last = tree.last[:, None]
    number = np.arange(len(tree.tokens))
    sees = (number[None] <= number[:, None]) & (number[:, None] <= last.T)
    spelt = {tuple(tree.tokens[row]) for row in sees}
    assert spelt == beginnings(asked) and len(tree.tokens) == len(spelt)
    assert (tree.position == sees.sum(1) - 1).all()
    for one, places in zip(asked, tree.read, strict=True):
        ends = range(len(one.tokens) - one.shared, len(one.tokens) + 1)
        assert [tuple(tree.tokens[sees[p]]) for p in places] == [
            tuple(one.tokens[:e]) for e in ends
        ]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_blocks_see_the_ancestors_of_each_token_once(size):
    tree = tree_of(sorted(random_questions(), key=lambda one: one.tokens))
    blocks = blocks_of(tree, size)
    total = len(tree.tokens)
    number = np.arange(total)
    sees = (number[None] <= number[:, None]) & (number[:, None] <= tree.last[None])
    for place in range(total):
        seen = blocks.keys[place // size][blocks.visible[place // size, place % size]]
        assert sorted(seen) == np.flatnonzero(sees[place]).tolist()
    assert blocks.visible.any(-1).all()
    assert blocks.keys.shape[1] % 8 == 0


@pytest.mark.parametrize("limit", [1, 30, 200, 10_000])
@pytest.mark.parametrize("reads", [1, 20, 10_000])
def test_packs_have_every_question_once_within_the_limits(limit, reads):
    asked = random_questions()
    cut = packs(asked, limit, reads)
    assert sorted(one.requests[0] for pack in cut for one in pack.questions) == list(range(300))
    for pack in cut:
        assert pack.cost == len(beginnings(pack.questions)) == len(tree_of(pack.questions).tokens)
        alone = len(pack.questions) == 1
        assert alone or pack.cost <= limit
        assert alone or sum(one.shared + 1 for one in pack.questions) <= reads
    assert cut == packs(asked[::-1], limit, reads)
    if limit == reads == 10_000:
        assert [pack.cost for pack in cut] == [len(beginnings(asked))]


def test_packs_are_cut_where_the_least_is_computed_again():
    """Two questions of 50 tokens and three branches: five fit, the cut is between the questions."""
    asked = [
        question([trunk] * 50 + [branch] * 10, 3 * trunk + branch)
        for trunk in range(2)
        for branch in range(3)
    ]
    assert [pack.cost for pack in packs(asked, 150, 100)] == [80, 80]


def test_the_cheaper_path_is_chosen():
    """Orders of one question as a tree; questions without a common beginning as rows."""
    alike = [question([1] * 100 + [2 + n] * 10, n) for n in range(40)]
    unlike = [question([2 + n] * 110, n) for n in range(40)]
    (pack,) = plan_paths(alike, 4096, 4096, True, 1000, LLAMA_8B)
    assert isinstance(pack, Pack) and pack.cost == 100 + 400
    assert all(isinstance(one, Batch) for one in plan_paths(unlike, 4096, 99, True, 1000, LLAMA_8B))
    both_kinds = plan_paths(alike + unlike, 600, 99, True, 1000, LLAMA_8B)
    assert {type(one) for one in both_kinds} == {Pack, Batch}
    # Longer than the model's window: rows.
    assert plan_paths(alike, 4096, 99, True, 109, LLAMA_8B) == plan(alike, 4096, True)
    assert plan_paths(alike, 4096, 99, True, 999, LLAMA_8B, "rows") == plan(alike, 4096, True)
    forced = plan_paths(unlike, 4096, 99, True, 999, LLAMA_8B, "tree")
    assert all(isinstance(one, Pack) for one in forced)


def test_costs_by_hand():
    """Weights of 1,000, 2 per pair, attention at 1.5."""
    costs = Costs(1000, 2)
    # 30 + 2 * 10 tokens: one block of 50, that sees itself.
    pack = packs([question([0] * 30 + [n] * 10, n) for n in (1, 2)], 999, 999)[0]
    assert cost_of_pack(pack, costs) == 50_000 + 1.5 * 2 * 50 * 50
    # Four blocks of 16, each with 40 tokens before it at most.
    assert cost_of_pack(pack, costs, 16) == 50_000 + 1.5 * 2 * 64 * (40 + 16)
    assert cost_of_rows(Batch(pack.questions, 0), costs) == 80_000 + 1.5 * 2 * 2 * 40**2 / 2
    behind = 1.5 * 2 * (30**2 / 2 + 2 * 10 * 40)
    assert cost_of_rows(Batch(pack.questions, 30), costs) == 50_000 + behind


# The model.


def forced(monkeypatch, path):
    """All prompts on one path; what was computed."""
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    monkeypatch.setattr(ChoiceHF, "only_path", path)
    read, honest = [], ChoiceHF._read

    def watched(self, batch):
        read.append(batch)
        return honest(self, batch)

    monkeypatch.setattr(ChoiceHF, "_read", watched)
    return read


TEXT = "Among adults in the United States, how many have ever used it? Answer with a letter: "
CASES = {
    "single prompt": [(f"{TEXT}A. Yes B. No", " A")],
    "no common beginning": [(f"{word} is a word.", " A") for word in ("Yes", "No", "May", "So")],
    "one token apart": [(f"{TEXT}{letter}", choice) for letter in "ABCDEF" for choice in "AB"],
    "beginning of another": [(TEXT[:end], " A") for end in (10, 30, 31, 32, 60, 80)],
    "the same twice": [
        (f"{TEXT}A. Yes", " A"),
        (f"{TEXT}A. Yes", " A"),
        (f"{TEXT}B. No", " A"),
        (f"{TEXT}A. Yes", " B"),
    ],
    "choices of several tokens": [
        (f"{TEXT}{x}", f" {choice}")
        for x in "ABC"
        for choice in ("A, yes", "A, no", "B", "(A)", "(B)")
    ],
    "longer than the model": [(f"{TEXT}{'and so on ' * times}", " A") for times in (1, 2, 900)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("batch_size", [1, 2, 64, "auto"])
def test_shapes_of_trees(tiny_llama, monkeypatch, case, batch_size):
    """Limits of one and two prompts fall into branches; one pack of all repeats nothing."""
    read = forced(monkeypatch, "tree")
    assert_same(*both(tiny_llama, CASES[case], batch_size=batch_size))
    assert read and all(isinstance(one, Pack) for one in read)
    if batch_size == "auto":
        asked = [one for pack in read for one in pack.questions]
        assert sum(one.cost for one in read) == len(beginnings(asked))


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_tasks_as_trees(tiny_llama, monkeypatch, batch_size):
    read = forced(monkeypatch, "tree")
    asked = pairs(cells=30)
    assert_same(*both(tiny_llama, asked, batch_size=batch_size))
    limit = batch_size * max(len(one.tokens) for pack in read for one in pack.questions)
    assert all(isinstance(one, Pack) and one.cost <= limit for one in read)
    assert len(read) > 1 or batch_size == 16


@pytest.mark.parametrize("how", [{}, {"truncation": True}])
@pytest.mark.parametrize("side", ["left", "right"])
def test_truncated_prompts(tiny_llama, tmp_path, monkeypatch, how, side):
    """A context of 100 tokens and longer prompts among shorter ones: those are stock's."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama, truncation_side=side)
    tokenizer.save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(tiny_llama).save_pretrained(tmp_path)
    read = forced(monkeypatch, "tree")
    asked = [(f"{TEXT}{'word ' * n}", " A") for n in range(0, 20)]
    assert_same(*both(tmp_path, asked, max_length=100, **how))
    assert all(isinstance(one, Pack) for one in read)
    assert 0 < sum(len(pack.questions) for pack in read) < len(asked)


def saved(tiny_llama, folder, config):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(folder)
    return folder


def other_architecture(name, vocabulary):
    import transformers as t

    small = {
        "vocab_size": vocabulary,
        "num_hidden_layers": 2,
        "hidden_size": 32,
        "num_attention_heads": 2,
        "initializer_range": 0.2,
    }
    if name == "mistral, window of 60":
        return t.MistralConfig(
            **small, num_key_value_heads=1, head_dim=16, intermediate_size=64, sliding_window=60
        )
    if name == "bloom":  # ALiBi: positions are in the scores
        small.pop("num_attention_heads"), small.pop("num_hidden_layers")
        return t.BloomConfig(**small, n_layer=2, n_head=2)
    if name == "gpt-oss":  # sinks, experts, windows in every second layer
        return t.GptOssConfig(
            **small,
            num_key_value_heads=1,
            head_dim=16,
            intermediate_size=64,
            num_local_experts=2,
            num_experts_per_tok=1,
        )
    return architecture(name, vocabulary)


#: Tokens of the longest prompt in a tree: any, none, or a window.
TAKES = {
    "gpt2": "any",
    "neox": "any",
    "qwen3": "any",
    "gemma2": 0,
    "mamba": 0,
    "bloom": 0,
    "gpt-oss": 0,
    "mistral, window of 60": 60,
}


@pytest.mark.parametrize("name", TAKES)
def test_architectures_take_trees_or_keep_to_rows(tiny_llama, tmp_path, monkeypatch, name):
    from transformers import AutoTokenizer

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    vocabulary = len(AutoTokenizer.from_pretrained(tiny_llama)) + 24
    folder = saved(tiny_llama, tmp_path, other_architecture(name, vocabulary))
    longest = ChoiceHF(pretrained=str(folder), dtype="float32", device="cpu")._longest_in_tree
    read = forced(monkeypatch, "tree")
    asked = [*pairs(cells=12), (f"{TEXT}A", " A"), (f"{TEXT}B", " A")]
    assert_same(*both(folder, asked))
    kinds = {type(one) for one in read}
    if TAKES[name] == "any":
        assert longest > 100_000 and kinds == {Pack}
    else:
        assert longest == TAKES[name]
        assert kinds == ({Pack, Batch} if longest else {Batch})
        for one in read:
            assert isinstance(one, Batch) or max(len(q.tokens) for q in one.questions) <= longest


@pytest.mark.parametrize(
    ("arguments", "takes"),
    [
        ({}, True),
        ({"dtype": "bfloat16"}, True),
        ({"attn_implementation": "eager"}, True),
        ({"attn_implementation": "flex_attention"}, False),
        ({"dtype": "float32", "mixed_precision_dtype": "bfloat16"}, False),
    ],
)
def test_what_a_model_is_loaded_with(tiny_llama, arguments, takes):
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    how = {"pretrained": str(tiny_llama), "dtype": "float32", "device": "cpu", **arguments}
    assert bool(ChoiceHF(**how)._longest_in_tree) is takes


def test_a_wrong_mask_or_position_is_found(tiny_llama, monkeypatch):
    """The trial refuses a tree in which siblings are seen, or positions run on."""
    from lm_eval_epidemia.models import tree_attention
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    honest = tree_attention.tree_of
    for dtype in ("float32", "bfloat16"):
        how = {"pretrained": str(tiny_llama), "dtype": dtype, "device": "cpu"}
        for field, change in (
            ("last", lambda tree: np.full_like(tree.last, len(tree.last) - 1)),
            ("position", lambda tree: np.arange(len(tree.tokens))),
        ):
            with monkeypatch.context() as patched:
                patched.setattr(
                    tree_attention,
                    "tree_of",
                    lambda asked, f=field, c=change: (t := honest(asked))._replace(**{f: c(t)}),
                )
                assert ChoiceHF(**how)._longest_in_tree == 0, (dtype, field)


def test_a_model_is_left_as_it_was(tiny_llama):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from lm_eval_epidemia.models.choice_hf import ChoiceHF
    from lm_eval_epidemia.models.tree_attention import NAME, tree_attention

    lm = ChoiceHF(pretrained=str(tiny_llama), dtype="float32", device="cpu")
    before = lm.model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), tree_attention(lm.model, tree_of([question([1, 2])])):
        assert lm.model.config._attn_implementation == NAME
        1 / 0  # noqa: B018
    assert lm.model.config._attn_implementation == before
    assert NAME not in ALL_ATTENTION_FUNCTIONS


@pytest.mark.parametrize("kind", ["lora", "prompt tuning", "prefix tuning"])
def test_adapters_take_trees_where_nothing_stands_before_the_prompt(tiny_llama, tmp_path, kind):
    import peft
    from transformers import AutoModelForCausalLM

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    config = {
        "lora": peft.LoraConfig(r=4, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM"),
        "prompt tuning": peft.PromptTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
        "prefix tuning": peft.PrefixTuningConfig(num_virtual_tokens=6, task_type="CAUSAL_LM"),
    }[kind]
    base = AutoModelForCausalLM.from_pretrained(tiny_llama)
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    lm = ChoiceHF(pretrained=str(tiny_llama), dtype="float32", device="cpu", peft=str(tmp_path))
    assert bool(lm._longest_in_tree) is (kind == "lora")


def test_a_model_spread_over_devices_and_one_of_four_bits_take_trees(tiny_llama, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    spread = {"parallelize": True, "max_cpu_memory": "200KB", "offload_folder": str(tmp_path)}
    lm = ChoiceHF(pretrained=str(tiny_llama), dtype="float32", device="cpu", **spread)
    assert "disk" in lm.model.hf_device_map.values() and lm._longest_in_tree

    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    model = AutoModelForCausalLM.from_pretrained(
        tiny_llama, quantization_config=how, dtype=torch.float32
    )
    model.save_pretrained(tmp_path / "four")
    AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(tmp_path / "four")
    lm = ChoiceHF(pretrained=str(tmp_path / "four"), dtype="float32", device="cpu")
    assert lm._longest_in_tree
    # Two weights in a byte count as two.
    plain = ChoiceHF(pretrained=str(tiny_llama), dtype="float32", device="cpu")
    assert lm._costs == plain._costs
