"""`choice-api` against lm-eval's `local-completions`, on one server in one run.

    python benchmarks/served.py [--prompts 400] [--choices 8] [--concurrent 16]
        [--url http://HOST:PORT/v1/completions --model NAME --tokenizer FOLDER] [--delay 0.0]

Without ``--url`` the server is the scripted one of the tests, which computes nothing: the ratio is
then of requests and of what each client does around them. ``--delay`` lets it take so many seconds
a request, as a model would.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lm_eval.api.instance import Instance

SERVER = Path(__file__).parents[1] / "tests" / "scripted_server.py"

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"


def questions(prompts: int, choices: int) -> list[str]:
    """Prompts of as many lettered answers."""
    listed = "\n".join(f"{LETTERS[i]}. answer number {i}" for i in range(choices))
    return [
        f"Which is the answer to question {i}, asked of nobody in particular?\n{listed}\nAnswer:"
        for i in range(prompts)
    ]


def seconds(lm: Any, asked: list[Instance]) -> float:
    start = time.perf_counter()
    found = lm.loglikelihood(asked)
    taken = time.perf_counter() - start
    assert len(found) == len(asked) and all(x <= 0 for x, _ in found)
    return taken


@contextmanager
def scripted(delay: float) -> Iterator[str]:
    """The scripted server in a process of its own; its address."""
    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "port"
        server = subprocess.Popen([sys.executable, str(SERVER), str(port), str(delay)])
        try:
            while not (port.exists() and port.read_text()):
                assert server.poll() is None
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port.read_text()}"
        finally:
            server.terminate()
            server.wait()


def asked_so_far(address: str) -> int:
    with urllib.request.urlopen(f"{address}/asked") as reply:
        return int(reply.read())


def tokenizer(folder: Path) -> Path:
    """One of words, for `local-completions`, which needs one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["<unk>", *LETTERS])}
    made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>").save_pretrained(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--choices", type=int, default=8)
    parser.add_argument("--concurrent", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--url", help="of completions")
    parser.add_argument("--model", default="any")
    parser.add_argument("--tokenizer")
    options = parser.parse_args()
    texts = questions(options.prompts, options.choices)
    asked = [
        Instance("loglikelihood", {}, arguments=(text, f" {letter}"), idx=number)
        for text in texts
        for number, letter in enumerate(LETTERS[: options.choices])
    ]
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    from lm_eval_epidemia.models.choice_api import ChoiceAPI

    with ExitStack() as stack:
        url, address = options.url, ""
        if url is None:
            address = stack.enter_context(scripted(options.delay))
            url = f"{address}/v1/completions"
        folder = options.tokenizer or str(
            tokenizer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        )
        ours = ChoiceAPI(base_url=url, model=options.model, num_concurrent=options.concurrent)
        theirs = LocalCompletionsAPI(
            base_url=url,
            model=options.model,
            num_concurrent=options.concurrent,
            tokenizer=folder,
            tokenizer_backend="huggingface",
        )
        rates, rows = [], []
        # Ours first, with nothing in the server's prefix cache; echoing a prompt passes that over.
        for name, lm in (("choice-api", ours), ("local-completions", theirs)):
            before, busy = asked_so_far(address) if address else 0, time.process_time()
            rates.append(options.prompts / seconds(lm, asked))
            busy = 1000 * (time.process_time() - busy) / options.prompts
            sent = (asked_so_far(address) - before) / options.prompts if address else float("nan")
            rows.append(f"| {name} | {rates[-1]:,.1f} | {sent:.2f} | {busy:.2f} |")
        print("| client | prompts/s | requests per prompt | its own ms per prompt |")
        print("|---|--:|--:|--:|", *rows, sep="\n")
        print(f"\nchoice-api / local-completions = {rates[0] / rates[1]:.1f}")


if __name__ == "__main__":
    main()
