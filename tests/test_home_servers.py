"""`choice-api` at the servers people run at home: the right letters, or a refusal that helps."""

import logging
import math
import re

import numpy as np
import pytest
from home_servers import AFTER_SAMPLING, NAMES, home, templated
from scripted_server import added, tokens_of, truth
from test_choice_api import SAID, cached, plain, requests

from lm_eval_epidemia.ask.bounds import bounds
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.models.choice_api import ChoiceAPI
from lm_eval_epidemia.models.server_kinds import PROBE

TEXTS = [f"Question {i}?\nAnswer:" for i in range(4)]
LETTERS = "ABCD"
FORMS = [(kind, chat) for kind in NAMES for chat in (False, True)]

#: Faults after which letters are as right as before.
HARMLESS = ("unsorted", "sentencepiece", "bytes")

#: What a refusal says of the others; None: read as ever, where the fault does not touch the form.
FAULTS = SAID["home"]

#: Words of each way out.
WAYS_OUT = {
    "ollama": "/api/generate",
    "llama.cpp": "llama-server -m",
    "mlx": "pip install -U mlx-lm",
    "sglang": "launch_server",
    "lmstudio": r"llama.cpp or vLLM|epidemia_low_stated",
}


def ask(at, chat, **arguments):
    arguments = {"pause": 0.001, "max_retries": 2, "num_concurrent": 2, **arguments}
    lm = ChoiceAPI(base_url=at.url(chat), model="any", **arguments)
    if chat:
        messages = [lm.apply_chat_template([{"role": "user", "content": text}]) for text in TEXTS]
        asked = requests([(one, letter) for one in messages for letter in LETTERS])
    else:
        asked = plain(TEXTS, LETTERS)
    return lm, [x for x, _ in lm.loglikelihood(asked, disable_tqdm=True)]


def is_right(found, kind, chat, read_by):
    """Whether the true letters lie between the bounds."""
    shown = [templated([{"role": "user", "content": text}]) if chat else text for text in TEXTS]
    of = added if "top" in read_by else lambda text, letter: truth(text, f" {letter}")
    true = np.array([of(text, letter) for text in shown for letter in LETTERS])
    low, high = map(np.log, np.maximum(bounds(found), 1e-300))
    return bool((low - 1e-9 <= true).all() and (true <= high + 1e-9).all())


@pytest.mark.parametrize(("kind", "chat"), FORMS)
def test_each_server_is_found_out_and_its_letters_are_right(kind, chat):
    with home(kind) as server:
        lm, found = ask(server, chat)
        told = lm.get_model_info()["choice_api"]
        assert (told["server"], told["repeatable"]) == (NAMES[kind], True)
        assert is_right(found, kind, chat, told["letters_read_by"])
        probes = [body for path, body in server.bodies if PROBE in str(body)]
        assert len(probes) <= 4 and len(server.bodies) == len(probes) + len(TEXTS)
        assert told["tokens"] > 0
        exact = (kind == "sglang" and not chat) or kind == "llama.cpp"
        assert exact == (not any(hasattr(x, "low") for x in found))


@pytest.mark.parametrize("fault", HARMLESS)
@pytest.mark.parametrize(("kind", "chat"), FORMS)
def test_lists_in_no_order_and_other_spellings_of_a_space_change_nothing(kind, chat, fault):
    with home(kind, fault) as server:
        lm, found = ask(server, chat)
        assert is_right(found, kind, chat, lm.served.read_by)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("kind", "chat"), FORMS)
def test_a_fault_is_refused_in_words_that_name_the_server_and_a_way_out(kind, chat, fault):
    if fault == "numbers" and (kind, chat) == ("sglang", False):
        pytest.skip("it is asked by ids")
    with home(kind, fault) as server, pytest.raises(EpidemiaError, match=FAULTS[fault]) as end:
        ask(server, chat)
    said = str(end.value)
    assert "\n" not in said and NAMES[kind] in said
    assert re.search(WAYS_OUT[kind], said)


@pytest.mark.parametrize(("kind", "chat"), [(k, c) for k, c in FORMS if k not in ("sglang",)])
@pytest.mark.parametrize("fault", ["twice", "never"])
def test_a_template_around_both_forms_or_neither_is_refused(kind, chat, fault):
    with home(kind, fault) as server:
        with pytest.raises(EpidemiaError, match="the same answer after plain text and in a chat"):
            ask(server, chat)
        if kind == "lmstudio":  # who knows better says so
            assert len(ask(server, chat, server="openai")[1]) == 16


@pytest.mark.parametrize(("kind", "chat"), FORMS)
def test_answers_that_are_not_repeatable_are_said_and_kept(kind, chat, caplog, tmp_path):
    with home(kind, "unrepeatable") as server:
        lm, _ = ask(server, chat)
        assert lm.get_model_info()["choice_api"]["repeatable"] is False
    assert "not repeatable" in caplog.text


CUTTING = [("ollama", False), ("ollama", True), ("llama.cpp", False)]


@pytest.mark.parametrize(("kind", "chat"), CUTTING)
def test_a_prompt_that_was_cut_is_refused(kind, chat):
    said = "--num_fewshot" if kind == "ollama" else "larger -c"
    with home(kind, "cut") as server, pytest.raises(EpidemiaError, match=said) as end:
        ask(server, chat)
    assert NAMES[kind] in str(end.value)


def test_a_chat_of_several_turns_is_refused_where_turns_may_be_dropped():
    """Ollama keeps the system message and the last, and counts the tokens of what it kept."""
    turns = [{"role": role, "content": "A"} for role in ("system", "user", "assistant", "user")]
    with home("ollama") as server:
        lm = ChoiceAPI(base_url=server.url(True), model="any", pause=0.001)
        asked = requests([(lm.apply_chat_template(turns), letter) for letter in LETTERS])
        with pytest.raises(EpidemiaError, match=r"2 questions.*leave out --fewshot_as_multiturn"):
            lm.loglikelihood(asked, disable_tqdm=True)
    with home("llama.cpp") as server:
        lm = ChoiceAPI(base_url=server.url(True), model="any", pause=0.001)
        asked = requests([(lm.apply_chat_template(turns), letter) for letter in LETTERS])
        assert len(lm.loglikelihood(asked, disable_tqdm=True)) == len(LETTERS)


def test_ollama_gets_a_context_that_holds_the_longest_prompt(monkeypatch):
    with home("ollama") as server:
        lm = ChoiceAPI(base_url=server.url(False), model="any", pause=0.001)
        lm.loglikelihood(plain([" word1" * 3000 + "Answer:", "Answer:"], "AB"), disable_tqdm=True)
        assert {body["options"]["num_ctx"] for _, body in server.bodies if "raw" in body} == {16384}


@pytest.mark.parametrize("words", [2047, 2048, 3071])
def test_a_chat_of_any_length_is_read_where_the_context_holds_it(words):
    """The size of the context is asked for, and not guessed from that of the prompt."""
    with home("ollama") as server:
        lm = ChoiceAPI(base_url=server.url(True), model="any", pause=0.001, enable_thinking=False)
        frame = len(tokens_of(templated([{"role": "user", "content": ""}])))
        text = " word1" * (words - frame)
        message = lm.apply_chat_template([{"role": "user", "content": text}])
        assert len(tokens_of(templated([{"role": "user", "content": text}]))) == words
        lm.loglikelihood(requests([(message, letter) for letter in LETTERS]), disable_tqdm=True)
        bodies = [body for path, body in server.bodies if path == "/api/chat"]
        assert {(body["truncate"], body["think"]) for body in bodies} == {(False, False)}
        assert all(body["options"]["num_ctx"] > words for body in bodies)


@pytest.mark.parametrize("chat", [False, True])
def test_a_llama_server_that_is_still_loading_is_waited_for(chat, caplog):
    """Not taken for another one: it says 503 to all but /v1/models."""
    with home("llama.cpp") as server:
        server.loading = 10  # GETs, five at a time
        lm, found = ask(server, chat, max_retries=4)
        assert lm.served.server == "llama.cpp b7000" and lm.served.read_by == "top 300"
        assert is_right(found, "llama.cpp", chat, "top 300")
    assert "while it loads its model; retrying" in caplog.text
    with home("llama.cpp") as server:
        server.loading = 1000
        failed = r"in 3 tries; the last error: HTTP 503 .* loads its mo"
        with pytest.raises(EpidemiaError, match=failed):
            ask(server, chat)
        assert not server.bodies


def test_the_line_says_where_no_template_could_be_seen(caplog):
    """SGLang's plain text is read by ids, its chat as text."""
    unseen = "plain text and chat could not be compared"
    with caplog.at_level(logging.INFO, "lm_eval_epidemia"):
        with home("sglang") as server:
            ask(server, False)
        assert unseen in caplog.text
        caplog.clear()
        with home("llama.cpp") as server:
            ask(server, False)
        assert "is llama.cpp" in caplog.text and unseen not in caplog.text


@pytest.mark.parametrize("fault", AFTER_SAMPLING)
@pytest.mark.parametrize(("kind", "chat"), FORMS)
def test_probabilities_after_sampling_are_none_of_the_model(kind, chat, fault):
    """Nor is it said that plain text and chat give the same answer, though both are certain."""
    if (kind, chat) == ("sglang", False) and fault != "greedy":
        pytest.skip("it is asked by ids")
    said = "shows probabilities after sampling, not those of any"
    with home(kind, fault) as server, pytest.raises(EpidemiaError, match=said) as raised:
        ask(server, chat, num_concurrent=1)
    assert "the same answer" not in str(raised.value) and len(server.bodies) <= 7
    with home("llama.cpp", "sampled") as server, pytest.raises(EpidemiaError, match="log-prob"):
        ask(server, False)


@pytest.mark.parametrize("kind", ["llama.cpp", "lmstudio"])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("most", [10, 45, 60, 90, 130])
def test_no_token_is_used_beyond_the_limit(kind, chat, most):
    """The prompts and the probes of how the server answers; the server counts them."""
    with home(kind) as server:
        with pytest.raises(EpidemiaError, match=f"max_cost_tokens={most}: ") as raised:
            ask(server, chat, max_cost_tokens=most)
        used = sum(n for n in map(cost, server.bodies))
        assert used <= most and f": {used} tokens were used" in str(raised.value)


def cost(asked):
    _, body = asked
    return len(tokens_of(body["prompt"] if "prompt" in body else templated(body["messages"]))) + 1


@pytest.mark.parametrize("chat", [False, True])
def test_an_old_mlx_that_shows_numbers_is_to_be_updated(chat):
    said = r"as numbers.*pip install"
    with home("mlx", "old") as server, pytest.raises(EpidemiaError, match=said):
        ask(server, chat)


def test_plain_text_at_ollamas_completions_is_refused_and_at_generate_it_is_raw():
    with home("ollama") as server:
        for arguments in ({}, {"server": "ollama"}):
            url = f"{server.root}/v1/completions"
            lm = ChoiceAPI(base_url=url, model="any", **arguments)
            with pytest.raises(EpidemiaError, match="base_url=http://HOST:11434/api/generate"):
                lm.loglikelihood(plain(TEXTS, LETTERS))
        assert not server.bodies
        ask(server, False)
        plain_text = [body for path, body in server.bodies if path == "/api/generate"]
        assert all(body["raw"] and body["truncate"] is False for body in plain_text)


def test_the_server_may_be_named():
    """No question is asked, and its forms are taken."""
    with home("llama.cpp") as server:
        lm, found = ask(server, False, server="openai")
        assert lm.served.read_by == "top 20" and is_right(found, "llama.cpp", False, "top 20")
        assert {path for path, _ in server.bodies} == {"/v1/completions", "/v1/chat/completions"}
        lm, found = ask(server, False, server="llama.cpp")
        assert lm.served.read_by == "top 300" and lm.served.server == "llama.cpp"


def test_the_line_and_the_file_name_the_server(tmp_path, caplog):
    path = str(tmp_path / "kept")
    with home("llama.cpp") as server, caplog.at_level(logging.INFO, "lm_eval_epidemia"):
        for _ in range(2):
            lm = ChoiceAPI(base_url=server.url(False), model="any")
            cached(lm, path).loglikelihood(plain(TEXTS, LETTERS))
            told = lm.get_model_info()["choice_api"]
            assert (told["server"], told["repeatable"]) == ("llama.cpp b7000", True)
    assert "is llama.cpp b7000; letters are read by top 300" in caplog.text
    assert math.isfinite(lm.served.tokens)
