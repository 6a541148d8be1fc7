"""Many texts tokenized at once, against the tokenizer on each text."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

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


def test_a_model_that_encodes_otherwise_than_its_tokenizer_is_followed():
    lm = model(fast(TOKENIZERS["bytes"]()))
    honest = lm.tok_encode
    lm.tok_encode = lambda text: [7, *honest(text)]
    assert batch_encoder(lm)(texts(50)) == [lm.tok_encode(text) for text in texts(50)]
