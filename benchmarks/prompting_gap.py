"""What the way of asking does to the score of one small model.

    python benchmarks/prompting_gap.py

No model that knows anything ships with this project, so one is made: a Llama of 1.5 million
weights, trained here on the NSDUH questions themselves, in plain text and in a
chat template, answered with letters drawn from the truth. It never saw a `gen_prefix`, a letter
without its leading space in plain text, or solved examples: the table shows what each of these
costs a model that was not made for it. Then lm-eval's `hf` backend asks it in every way, and
`epidemia compare`'s own functions put the scores side by side.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("LMEVAL_LOG_LEVEL", "ERROR")
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

GROUP = "epidemia_low_nsduh"
STEPS, BATCH = 1500, 32

#: What is asked: the group's suffix, whether in the chat template, and the variant.
WAYS = (
    ("", False, {}),
    ("", False, {"leading_space": False}),
    ("", False, {"gen_prefix": "The answer is"}),
    ("", False, {"fewshot": 3}),
    ("", False, {"orderings": "balanced"}),
    ("", True, {}),
    ("", True, {"leading_space": True}),
    ("", True, {"gen_prefix": "The answer is"}),
    ("_sampled", True, {"n_samples": 100}),
    ("_likelihood", False, {}),
    ("_likelihood", True, {}),
)


def solved(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Every prompt of the group in the ways of asking it is trained for, with one answer each."""
    from lm_eval_epidemia.ask.orderings import LETTERS
    from lm_eval_epidemia.ask.variants import Variant
    from lm_eval_epidemia.benchmarks.observation.likelihood import BIN_LETTERS, bin_of
    from lm_eval_epidemia.benchmarks.splits import split
    from lm_eval_epidemia.estimate import store

    pairs = []
    for task in (name for name in store.list_available() if name.startswith(f"{GROUP}_")):
        truth = store.load_truth(task)
        for mode, times in (("letters", 10), ("sampled", 1), ("likelihood", 3)):
            for row in split(task, mode, Variant(n_samples=20)):
                p = truth.p[row["cell"]]
                for _ in range(times):
                    if mode == "likelihood":
                        letter = BIN_LETTERS[bin_of(p[row["level"]])]
                    else:
                        shown = p[row["order"]]
                        letter = LETTERS[rng.choice(len(p), p=shown / shown.sum())]
                    pairs.append((row["prompt"], letter))
    return pairs


def train(folder: Path) -> None:
    """Train a small Llama to answer, half of the time in its chat template."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from lm_eval_epidemia.models.tiny import make_tiny_llama

    rng = np.random.default_rng(0)
    pairs = solved(rng)
    make_tiny_llama(folder, sorted({prompt for prompt, _ in pairs}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=160,
            intermediate_size=480,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            bos_token_id=0,
            eos_token_id=1,
        )
    )
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{weights / 1e6:.1f} million weights, {len(pairs):,} solved prompts", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=STEPS)
    start = time.perf_counter()
    for step in range(STEPS):
        rows = []
        for number in rng.integers(0, len(pairs), BATCH):
            prompt, letter = pairs[number]
            if rng.random() < 0.5:
                said = [{"role": "user", "content": prompt}]
                text = tokenizer.apply_chat_template(
                    said, tokenize=False, add_generation_prompt=True
                )
                answer = letter
            else:
                text, answer = prompt, f" {letter}"
            context = tokenizer(text, add_special_tokens=False).input_ids
            rows.append((context, [*tokenizer(answer, add_special_tokens=False).input_ids, 1]))
        longest = max(len(context) + len(answer) for context, answer in rows)
        ids = torch.zeros(BATCH, longest, dtype=torch.long)
        labels = torch.full((BATCH, longest), -100)
        for row, (context, answer) in enumerate(rows):
            end = len(context) + len(answer)
            ids[row, :end] = torch.tensor(context + answer)
            labels[row, len(context) : end] = torch.tensor(answer)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 249:
            print(
                f"step {step + 1}: loss {loss.item():.3f}, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    model.save_pretrained(folder)


def main() -> None:
    from lm_eval import simple_evaluate

    import lm_eval_epidemia

    with tempfile.TemporaryDirectory(prefix="epidemia-") as name:
        folder = Path(name)
        train(folder)
        print("| asked by | template | variant | score | l1 | letters' mass or answered |")
        print("|---|---|---|--:|--:|--:|")
        for suffix, chat, variant in WAYS:
            group = f"{GROUP}{suffix}"
            results = simple_evaluate(
                "hf",
                f"pretrained={folder},dtype=float32",
                [group],
                device="cpu",
                batch_size=64,
                task_manager=lm_eval_epidemia.task_manager(metadata=variant),
                log_samples=False,
                apply_chat_template=chat,
                gen_kwargs={"max_gen_toks": 4} if "sampled" in suffix else None,
            )["results"]
            rows = [row for task, row in results.items() if "_by_" in task]
            score, l1 = (np.mean([row[f"{m},none"] for row in rows]) for m in ("score", "l1"))
            error = results[group]["score_stderr,none"]
            said = "answered" if suffix == "_sampled" else "choice_mass"
            mass = np.mean([row[f"{said},none"] for row in rows])
            shown = ", ".join(f"{key}: {value}" for key, value in variant.items())
            print(
                f"| {suffix.removeprefix('_') or 'letters'} | {'chat' if chat else 'plain'} | "
                f"{shown} | {score:.1f} ± {error:.1f} | {l1:.3f} | {mass:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
