"""The recipe of docs/reference/letters.md: a proxy that searches, and the two runs paired."""

import io
import json
import re
import threading
from http.server import ThreadingHTTPServer

import pandas as pd
import pytest
from conftest import REPOSITORY, evaluate
from report_parts import command
from scripted_server import scripted

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.benchmarks.observation.likelihood import bin_of
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.estimate import store

TASKS = [
    "epidemia_high_nsduh_marijuana_ever_by_sex_race",
    "epidemia_high_nsduh_marijuana_ever_by_education_sex",
]
FOUND = "A survey puts it at {letter}."


def answers():
    """By question, the letter of the interval that holds the truth."""
    found = {}
    for task in TASKS:
        p = store.load_truth(task).p
        for row in split(task, "rag"):
            number = bin_of(float(p[row["cell"], row["level"]]))
            found[row["prompt"].partition("\n")[0]] = LETTERS[number]
    return found


def test_the_proxy_of_the_page_finds_what_the_plain_model_does_not_know(tmp_path, monkeypatch):
    page = (REPOSITORY / "docs" / "reference" / "letters.md").read_text()
    (code,) = re.findall(r"```python\n(import json\nfrom http.server.*?)```", page, re.DOTALL)
    known = answers()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    recipe = {"__name__": "recipe"}
    exec(compile(code, "recipe", "exec"), recipe)
    with pytest.raises(NotImplementedError, match="your search engine"):
        recipe["search"]("?")
    recipe["search"] = lambda question: FOUND.format(letter=known[question.partition("\n")[0]])
    recipe["Searching"].log_message = lambda *_: None

    def reply(text, times):
        """A model that says what stands before the question, and 0% where nothing does."""
        found = re.match(r"A survey puts it at (\w)\.\n\n", text)
        message = {"role": "assistant", "content": found[1] if found else "A"}
        return 200, json.dumps({"choices": [{"index": 0, "message": message}]}).encode()

    # The model behind both is one, and gets the key of whoever asks.
    with (
        scripted(fault=reply, key="sk-none", models=("PLAIN",)) as plain,
        ThreadingHTTPServer(("127.0.0.1", 0), recipe["Searching"]) as searching,
    ):
        threading.Thread(target=searching.serve_forever, daemon=True).start()
        recipe["PLAIN"] = plain.url()
        proxy = f"http://127.0.0.1:{searching.server_address[1]}/v1/chat/completions"
        for url, name in ((plain.url(), "PLAIN"), (proxy, "RETRIEVING")):
            results = evaluate(
                [f"{task}_rag" for task in TASKS],
                model="local-chat-completions",
                model_args=f"base_url={url},model={name}",
                apply_chat_template=True,
            )
            folder = tmp_path / name
            folder.mkdir()
            results.pop("samples", None)
            (folder / "results_2026.json").write_text(json.dumps(results, default=str))
        searching.shutdown()
        assert len(plain.payloads) == 2 * len(known)
    said = command(
        "report", tmp_path, "--pair", "PLAIN=RETRIEVING", *["--show", "versions", "--format", "csv"]
    )
    rows = pd.read_csv(io.StringIO(said)).to_dict("records")
    row = next(row for row in rows if row["group"] == "epidemia_high_rag")
    # About half say yes: nobody knows less than who says 0%. Within an interval, 2.5 % is missed.
    assert row["model"] == "RETRIEVING" and row["tasks"] == 2 and row["difference"] > 90
