"""Texts put together from the tokens of their lines, against the tokenizer on each text."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.models import choices
from lm_eval_epidemia.models.choices import batch_encoder

OPTIONS = ["18-25¹", "26 to 34", "35-49\t", "50-64.", " 65 and more", "Prefer\r", "", "é\u2028no"]


def texts(number=600, seed=3):
    """Lines in changing orders: letters, empty lines, spaces at both ends, ends of other kinds."""
    draw, made = random.Random(seed), []
    for _ in range(number):
        order = draw.sample(OPTIONS, draw.randint(2, len(OPTIONS)))
        lines = [f"{letter}. {one}" for letter, one in zip("ABCDEFGH", order, strict=False)]
        beginning = draw.choice(["", "<s>", "How old are you?\n", "<s>\n\nHow old?\n", "\n"])
        made.append(
            beginning + draw.choice(["\n", "\n\n"]).join(lines) + "\nAnswer:" * (len(made) % 2)
        )
    return made


TRAINED = {"special_tokens": ["<unk>", "<s>", "</s>"], "show_progress": False}


def bpe(pre=None, normalizer=None, post=None):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, **TRAINED)
    tokenizer.train_from_iterator(texts(200, seed=5), trainer)
    if post is not None:
        tokenizer.post_processor = post
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", **TRAINED)
    tokenizer.train_from_iterator(texts(200, seed=5), trainer)
    return tokenizer


TOKENIZERS = {
    "bytes": lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "a space before the first word": lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "merges across lines": lambda: bpe(),
    "lines become spaces": lambda: bpe(
        pre_tokenizers.Metaspace(), normalizers.Replace(Regex(r"\s+"), " ")
    ),
    "ends with a token of its own": lambda: bpe(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        post=TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]),
    ),
    "unigram": unigram,
}


def model(tokenizer, add_bos_token=None):
    """What lm-eval's models have of this."""

    def tok_encode(text):
        special = {} if add_bos_token is None else {"add_special_tokens": add_bos_token}
        if text.startswith("<s>"):
            special = {"add_special_tokens": False}
        return tokenizer.encode(text, **special)

    return SimpleNamespace(
        tokenizer=tokenizer,
        prefix_token_id=tokenizer.bos_token_id,
        tok_encode=tok_encode,
        add_bos_token=add_bos_token,
    )


def fast(made):
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.mark.parametrize("add_bos_token", [None, True, False])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_as_the_tokenizer_has_each_text(kind, add_bos_token):
    lm = model(fast(TOKENIZERS[kind]()), add_bos_token)
    encoder, asked = batch_encoder(lm), texts()
    for start in range(0, len(asked), 250):
        part = asked[start : start + 250]
        assert encoder(part) == [lm.tok_encode(text) for text in part]
    assert encoder([]) == []


@pytest.mark.parametrize(("kind", "most"), [("bytes", 0.2), ("merges across lines", 1.0)])
def test_a_known_line_is_not_tokenized_again(kind, most, monkeypatch):
    tokenizer, given = fast(TOKENIZERS[kind]()), []
    honest = PreTrainedTokenizerFast.__call__

    def counted(self, text, *args, **more):
        given.extend(text if isinstance(text, list) else [])
        return honest(self, text, *args, **more)

    monkeypatch.setattr(PreTrainedTokenizerFast, "__call__", counted)
    asked = [row["prompt"] for row in split("epidemia_low_acs_salary_by_race")]
    batch_encoder(model(tokenizer))(asked)
    assert len(given) <= most * len(asked) and len(given) == len(set(given))


def test_offsets_that_lie_are_found_out():
    """Tokens of a line that depend on the lines before it, from a tokenizer that denies it."""
    tokenizer = fast(TOKENIZERS["bytes"]())

    class Liar:
        is_fast = True

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def encode(self, text, **special):
            ids = tokenizer.encode(text, **special)
            return [*ids[:-1], len(text) % 7] if "65" in text else ids

        def __call__(self, given, return_offsets_mapping=False, **special):
            found = tokenizer(given, return_offsets_mapping=True, **special)
            return {**found, "input_ids": [self.encode(text, **special) for text in given]}

    lm = model(Liar())
    asked = texts()
    assert batch_encoder(lm)(asked) == [lm.tok_encode(text) for text in asked]


def test_a_tokenizer_that_tells_no_offsets():
    tokenizer = fast(TOKENIZERS["bytes"]())

    class Slow:
        """As tokenizers in Python are: no offsets, and an error for those who ask for them."""

        is_fast = False

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def __call__(self, given, **special):
            assert "return_offsets_mapping" not in special
            return tokenizer(given, **special)

    lm = model(Slow())
    assert batch_encoder(lm)(texts(50)) == [lm.tok_encode(text) for text in texts(50)]
    assert choices._cut([("A\n", "B", True)], choices.TextTokens([1], None)) is None
