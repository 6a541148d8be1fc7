"""Prompts as a tree: what is planned, and that models answer as they do without."""

import numpy as np
import pytest
from rounding import assert_same
from test_choice_hf import SEVERAL, TEXT, answered, batches, both, loaded, on_path, ours_of, pairs  # noqa: F401

from lm_eval_epidemia.benchmarks.splits import split
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

torch = pytest.importorskip("torch")

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


def test_a_plan_has_every_question_once_within_the_limit():
    rng, questions = np.random.default_rng(3), []
    for number in range(400):
        beginning = [7] * int(rng.integers(0, 3) * 40)
        tokens = [*beginning, *rng.integers(0, 50, rng.integers(4, 30)).tolist()]
        questions.append(question(tokens, number, int(rng.integers(0, 2))))
    for limit in (1, 40, 1000, 10_000):
        costs = []
        for share in (False, True):
            planned = plan(questions, limit, share)
            numbers = [one.requests[0] for batch in planned for one in batch.questions]
            assert sorted(numbers) == list(range(400))
            for batch in planned:
                longest = max(len(one.tokens) for one in batch.questions)
                assert len(batch.questions) == 1 or len(batch.questions) * longest <= limit
                (shared,) = {one.shared for one in batch.questions}
                first = batch.questions[0].tokens[: batch.prefix]
                for one in batch.questions:
                    assert one.tokens[: batch.prefix] == first
                    assert len(one.tokens) - batch.prefix >= shared + 2 or batch.prefix == 0
            costs.append(sum(batch.cost for batch in planned))
            assert any(batch.prefix for batch in planned) == (share and limit >= 1000)
        assert costs[1] < costs[0] or limit < 1000


# The model.


CASES = {
    "single prompt": [(f"{TEXT}A. Yes B. No", " A")],
    "no common beginning": [(f"{word} is a word.", " A") for word in ("Yes", "No", "May", "So")],
    "one token apart": [(f"{TEXT}{letter}", choice) for letter in "ABCDEF" for choice in "AB"],
    "beginning of another": [(TEXT[:end], " A") for end in (10, 30, 31, 32, 60, 80)],
    "the same twice": [
        *((f"{TEXT}{said}", " A") for said in ("A. Yes", "A. Yes", "B. No")),
        (f"{TEXT}A. Yes", " B"),
    ],
    "choices of several tokens": [
        (f"{TEXT}{x}", f" {choice}")
        for x in "ABC"
        for choice in ("A, yes", "A, no", "B", "(A)", "(B)")
    ],
    "longer than the model": [(f"{TEXT}{'and so on ' * times}", " A") for times in (1, 2, 900)],
}


@pytest.mark.rounding
@pytest.mark.parametrize("batch_size", ["1", 2, 64, "auto"])
def test_shapes_of_trees(tiny_llama, batches, on_path, batch_size):  # noqa: F811
    """Limits of one and two prompts fall into branches; one pack of all repeats nothing."""
    on_path("tree")
    for case, asked in CASES.items():
        if (case, batch_size) == ("longer than the model", "auto"):
            continue  # lm-eval's own path, which tries for 20 seconds how large a batch may be
        batches.clear()
        assert_same(*both(tiny_llama, asked, batch_size=batch_size))
        assert batches and all(isinstance(batch, Pack) for batch in batches), case
        if batch_size == "auto":
            questions = [one for pack in batches for one in pack.questions]
            assert sum(pack.cost for pack in batches) == len(beginnings(questions)), case


@pytest.mark.rounding
@pytest.mark.parametrize("batch_size", ["1", 3, 16])
def test_tasks_as_trees(tiny_llama, batches, on_path, batch_size):  # noqa: F811
    on_path("tree")
    assert_same(*both(tiny_llama, pairs(cells=20), batch_size=batch_size))
    limit = int(batch_size) * max(len(one.tokens) for pack in batches for one in pack.questions)
    assert all(isinstance(pack, Pack) and pack.cost <= limit for pack in batches)
    assert len(batches) > 1 or batch_size == 16


@pytest.mark.rounding
@pytest.mark.parametrize("side", ["left", "right"])
def test_truncated_prompts(tiny_llama, tmp_path, batches, on_path, side):  # noqa: F811
    """A context of 100 tokens and longer prompts among shorter ones: those are stock's."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(tiny_llama, truncation_side=side).save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(tiny_llama).save_pretrained(tmp_path)
    on_path("tree")
    asked = [(f"{TEXT}{'word ' * n}", " A") for n in range(0, 20)]
    for how in ({}, {"truncation": True}):
        batches.clear()
        assert_same(*both(tmp_path, asked, max_length=100, **how))
        assert all(isinstance(pack, Pack) for pack in batches)
        assert 0 < sum(len(pack.questions) for pack in batches) < len(asked)


@pytest.mark.rounding
def test_what_a_model_is_loaded_with(tiny_llama):
    for arguments, takes in (
        ({}, True),
        ({"dtype": "bfloat16"}, True),
        ({"attn_implementation": "eager"}, True),
        ({"attn_implementation": "flex_attention"}, False),
        ({"mixed_precision_dtype": "bfloat16"}, False),
    ):
        lm = loaded("choice-hf", str(tiny_llama), **arguments)
        assert bool(lm._longest_in_tree) is takes, arguments


def test_a_window_that_only_the_configuration_names_is_kept_to(tiny_llama, monkeypatch):
    """Layers of some models never hear of their window, which is in the mask."""
    lm = loaded("choice-hf", str(tiny_llama))
    assert lm._longest_in_tree > 60
    for name in ("sliding_window", "attention_chunk_size"):
        with monkeypatch.context() as patched:
            patched.setattr(lm._model.config, name, 60, raising=False)
            assert type(lm)._longest_in_tree.func(lm) == 60


@pytest.mark.rounding
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_wrong_mask_or_position_is_found(tiny_llama, monkeypatch, dtype):
    """The trial refuses a tree in which siblings are seen, or positions run on."""
    from lm_eval_epidemia.models import tree_attention

    lm, honest = loaded("choice-hf", str(tiny_llama), dtype=dtype), tree_attention.tree_of
    for field, change in (
        ("last", lambda tree: np.full_like(tree.last, len(tree.last) - 1)),
        ("position", lambda tree: np.arange(len(tree.tokens))),
    ):

        def wrong(asked, field=field, change=change):
            tree = honest(asked)
            return tree._replace(**{field: change(tree)})

        monkeypatch.setattr(tree_attention, "tree_of", wrong)
        assert type(lm)._longest_in_tree.func(lm) == 0, field


def test_a_model_is_left_as_it_was(tiny_llama):
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from lm_eval_epidemia.models.tree_attention import NAME, tree_attention

    lm = loaded("choice-hf", str(tiny_llama))
    before = lm.model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), tree_attention(lm.model, tree_of([question([1, 2])])):
        assert lm.model.config._attn_implementation == NAME
        1 / 0  # noqa: B018
    assert lm.model.config._attn_implementation == before
    assert NAME not in ALL_ATTENTION_FUNCTIONS


@pytest.mark.rounding
@pytest.mark.parametrize("path", ["rows", "tree"])
def test_no_tensor_of_prompt_times_vocabulary(tiny_llama, monkeypatch, on_path, path):  # noqa: F811
    """The output head sees one position of each prompt, and of a shared beginning."""
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    on_path(path)
    seen, widest, asked = [], [], pairs(cells=20)
    honest, linear = ChoiceHF._logits_at, torch.nn.functional.linear

    def watched(self, ids, *more, **named):
        logits = honest(self, ids, *more, **named)
        seen.append((ids.shape, logits.shape))
        return logits

    def watched_linear(states, weight, *more):
        outputs = linear(states, weight, *more)
        if weight.shape[0] >= 400:  # only the output head is that wide
            widest.append(outputs.shape[:-1].numel())
        return outputs

    monkeypatch.setattr(ChoiceHF, "_logits_at", watched)
    monkeypatch.setattr(torch.nn.functional, "linear", watched_linear)
    ours_of(tiny_llama, asked[:1])  # asks what it can share
    widest.clear(), seen.clear()
    ours_of(tiny_llama, asked)
    # Each prompt once: 20 of two choices, 20 of four.
    assert sum(after[0] * after[1] for _, after in seen) == 40
    assert 40 <= sum(widest) <= 40 + (len(seen) if path == "rows" else 0)
    if path == "rows":
        assert all(after[:2] == (before[0], 1) for before, after in seen)
    answered.__wrapped__("hf", str(tiny_llama), asked[:4])
    assert max(widest) > 50


@pytest.mark.rounding
@pytest.mark.parametrize("path", ["rows", "tree"])
def test_beginnings_are_computed_once(tiny_llama, monkeypatch, on_path, path):  # noqa: F811
    """The 24 orders of a question with four answers, after three solved examples."""
    from lm_eval_epidemia.ask.variants import Variant
    from lm_eval_epidemia.models.choice_hf import ChoiceHF

    rows = list(split(SEVERAL, variant=Variant(fewshot=3)).select(range(24)))
    asked = [(row["prompt"], f" {letter}") for row in rows for letter in row["choices"]]
    computed, honest = [], ChoiceHF._logits_at

    def watched(self, ids, positions, before, **more):
        computed.append(ids.numel())
        return honest(self, ids, positions, before, **more)

    on_path(path)
    monkeypatch.setattr(ChoiceHF, "_logits_at", watched)
    assert_same(*both(tiny_llama, asked))
    whole = loaded("hf", str(tiny_llama)).tokenizer([row["prompt"] for row in rows])["input_ids"]
    assert sum(computed) < 0.4 * sum(map(len, whole))
