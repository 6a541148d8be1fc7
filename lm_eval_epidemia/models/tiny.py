"""A tiny random Llama with a tokenizer, made on the spot: a real Hugging Face model for tests.

Its weights are random, so its scores mean nothing; every step from prompt to score is real.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lm_eval_epidemia.ask.orderings import LETTERS

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}</s>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_tiny_llama(folder: Path, texts: Iterable[str], seed: int = 0) -> Path:
    """Save a random two-layer Llama and a byte-level BPE tokenizer trained on `texts`.

    Parameters
    ----------
    folder : Path
        Where ``from_pretrained`` will find both.
    texts : iterable of str
        What the tokenizer learns its merges from.
    seed : int
        Of the weights.

    Returns
    -------
    Path
        `folder`.
    """
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    # As in real tokenizers, a letter after a space is one token.
    letters = [" " + " ".join(LETTERS)] * 500
    bpe.train_from_iterator(
        [*texts, *letters], vocab_size=1000, special_tokens=["<s>", "</s>"], show_progress=False
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe._tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        chat_template=CHAT_TEMPLATE,
    )
    torch.manual_seed(seed)
    # A wide initialisation, so that the letters' probabilities differ visibly.
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            head_dim=32,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            initializer_range=0.25,
            bos_token_id=0,
            eos_token_id=1,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
