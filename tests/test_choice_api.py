"""`choice-api` against a scripted server on 127.0.0.1 whose log-probabilities are known."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, evaluate, in_a_process
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_server import LETTERS, VOCABULARY, added, likeliest, logprobs, scripted, truth

from lm_eval_epidemia.ask.bounds import Within, bounds
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation import metrics
from lm_eval_epidemia.benchmarks.observation.metrics import bound_unseen
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.harness.server_facts import join_url
from lm_eval_epidemia.models.choice_api import ChoiceAPI
from lm_eval_epidemia.models.server_replies import BadReply, ShownTokens, read_by_text, read_shown

TASK = "epidemia_low_nsduh_heroin_ever_by_race"  # 8 prompts, 2 letters
SEVERAL = "epidemia_low_acs_employer_by_sex"  # 48 prompts, 4 letters
EVEN = "epidemia_low_nsduh_marijuana_ever_by_age"  # 22 prompts; about half say yes
KEY = "sk-test-0123456789abcdef"

#: What JSON carries is a float64 to the last bit; adding up and logarithms round a few times.
EXACT = 1e-12


def requests(pairs):
    from lm_eval.api.instance import Instance

    return [
        Instance("loglikelihood", {}, arguments=pair, idx=number, metadata=("some_task", 0, 1))
        for number, pair in enumerate(pairs)
    ]


def plain(texts, letters="ABCD"):
    return requests([(text, f" {letter}") for text in texts for letter in letters])


def model(server, chat=False, **arguments):
    arguments = {"pause": 0.01, "num_concurrent": 4, **arguments}
    return ChoiceAPI(base_url=server.url(chat), model="any", **arguments)


def ask(server, asked, chat=False, **arguments):
    return model(server, chat, **arguments).loglikelihood(asked, disable_tqdm=True)


TWELVE = LETTERS[:12]
TEXTS = [f"Question {i}?\nAnswer:" for i in range(40)]


# Letters: exact, and between bounds.


@pytest.mark.parametrize("variants", ["auto", "one", "sum"])
def test_by_token_ids_every_letter_is_exact(variants):
    with scripted(ids=True) as server:
        found = ask(server, plain(TEXTS, TWELVE), variants=variants)
        assert all("logprob_token_ids" in one for one in server.payloads)
        assert server.answered == dict.fromkeys(TEXTS, 1)
    of = added if variants == "sum" else lambda text, letter: truth(text, f" {letter}")
    expected = [of(text, letter) for text in TEXTS for letter in TWELVE]
    assert [x for x, _ in found] == pytest.approx(expected, abs=EXACT)
    assert not any(isinstance(x, Within) for x, _ in found)
    greedy = [likeliest(text, 1)[0][0] for text in TEXTS for _ in TWELVE]
    spelt = 3 if variants == "sum" else 1
    ways = [(f" {letter}", letter, f"{letter}.")[:spelt] for _ in TEXTS for letter in TWELVE]
    assert [flag for _, flag in found] == [a in b for a, b in zip(greedy, ways, strict=True)]
    assert any(flag for _, flag in found)


@pytest.mark.parametrize(("most", "variants"), [(20, "auto"), (20, "one"), (5, "auto")])
def test_among_the_likeliest_tokens_the_truth_lies_between_the_bounds(most, variants):
    with scripted(most=most) as server:
        found = [x for x, _ in ask(server, plain(TEXTS), variants=variants)]
        assert server.asked.total() == len(TEXTS) + (0 if most == 20 else 2)
    of = added if variants == "auto" else lambda text, letter: truth(text, f" {letter}")
    true = np.array([of(text, letter) for text in TEXTS for letter in "ABCD"])
    low, high = map(np.log, np.maximum(bounds(found), 1e-300))
    assert (low - EXACT <= true).all() and (true <= high + EXACT).all()
    hidden = [isinstance(x, Within) and not x.shown for x in found]
    assert 0 < sum(hidden) < len(found)
    if variants == "one":
        seen = ~np.array(hidden)
        assert np.array(found)[seen] == pytest.approx(true[seen], abs=EXACT)


@given(
    st.lists(st.floats(-12, 6), min_size=4, max_size=40),
    st.integers(1, 20),
    st.booleans(),
    st.integers(1, 6),
)
def test_any_distribution_lies_between_its_bounds(logits, n, add, letters):
    """Tokens in all spellings among words, any number of them shown."""
    tokens = [one for i in range(6) for one in (LETTERS[i], f" {LETTERS[i]}", f"{LETTERS[i]}.")]
    tokens = (tokens + [f"word{i}" for i in range(40)])[: len(logits)]
    x = np.array(logits)
    p = np.exp(x - x.max())
    p /= p.sum()
    top = sorted(zip(tokens, np.log(p).tolist(), strict=True), key=lambda one: -one[1])[:n]
    choices = [f" {letter}" for letter in LETTERS[:letters]]
    found = [value for value, _ in read_by_text(ShownTokens(top, top[0][0]), choices, add)]
    by_token = dict(zip(tokens, p, strict=True))
    low, high = bounds(found)
    for choice, value, a, b in zip(choices, found, low, high, strict=True):
        ways = (choice, choice.strip(), f"{choice.strip()}.") if add else (choice,)
        true = sum(by_token.get(one, 0.0) for one in ways)
        # 20 probabilities are added up and taken from 1.
        assert a * (1 - 1e-12) <= true <= b * (1 + 1e-12) + 1e-14
        assert a * (1 - 1e-12) <= np.exp(value) <= b * (1 + 1e-12)
    shared = sum(np.exp(v) for v in found if isinstance(v, Within) and not v.shown)
    assert shared <= max(1 - sum(np.exp(v) for _, v in top), 20 * 2.0**-24) * (1 + 1e-9)


def test_spellings_are_added_up_and_slips_are_not():
    top = [("A", -1.0), ("A", -1.0), (" A", -2.0), ("A.", -3.0), ("▁B", -2.5), (" x", -4.0)]
    listed = [{"token": token, "logprob": x} for token, x in top]
    told = {"content": [{"token": "A", "top_logprobs": listed}]}
    shown = read_shown({"choices": [{"logprobs": told}]})
    (a, first), (b, second) = read_by_text(shown, ["A", "B"], add=True)
    assert not isinstance(a, Within)  # all three spellings are there
    assert a == pytest.approx(np.log(np.exp(-1) + np.exp(-2) + np.exp(-3)), abs=EXACT)
    # Of B two spellings are not: each has at most what the last one shown has.
    assert b == -2.5 and b.shown
    assert b.high == pytest.approx(np.log(np.exp(-2.5) + 2 * np.exp(-4)), abs=EXACT)
    assert first and not second
    ((alone, _),) = read_by_text(shown, [" B"], add=False)
    assert alone == -2.5 and not isinstance(alone, Within)


# What it may do to a score.


def answers_of(way_name, task, rows, said):
    way = WAYS[way_name]
    return [way.read(way.of_row(row), found) for row, found in zip(rows, said, strict=True)]


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(2, 20),
    st.floats(0.2, 4.0),
    st.sampled_from(
        [("letters", TASK), ("letters", SEVERAL), ("likelihood", SEVERAL), ("likelihood", TASK)]
    ),
)
def test_the_score_is_off_by_no_more_than_said(seed, n, spread, asked):
    """Any model: its true letters, and those read from its n likeliest tokens."""
    way, task = asked
    rows = list(split(task, way))
    shown, true = [], []
    for number, row in enumerate(rows):
        # Near some prompts the letters are likely, near others not.
        text = f"{seed}-{number}"
        found = logprobs(text, spread)
        top = sorted(zip(VOCABULARY, found.tolist(), strict=True), key=lambda one: -one[1])[:n]
        shown.append(read_by_text(ShownTokens(top, top[0][0]), row["choices"], True))
        by_token = dict(zip(VOCABULARY, np.exp(found), strict=True))
        spelt = [(c, f" {c}", f"{c}.") for c in row["choices"]]
        true.append([(float(np.log(sum(map(by_token.get, ways)))), False) for ways in spelt])
    read, exact = (answers_of(way, task, rows, said) for said in (shown, true))
    bound = bound_unseen(read)
    assert bound_unseen(exact) is None
    one, other = (metrics.measure(answers).numbers["score"] for answers in (read, exact))
    assert abs(one - other) <= bound.effect + 1e-9
    assert 0 < bound.mass < 1 and 0 <= bound.effect <= 100


def test_the_effect_of_a_letter_that_is_not_shown():
    """By hand: A has 0.6, the last token shown 0.1, so that B has 0 to 0.1 and counts as 0.1."""
    rows = list(split(EVEN))
    top = [("A", np.log(0.6)), (" x", np.log(0.15)), (" y", np.log(0.1))]
    said = [read_by_text(ShownTokens(top, "A"), row["choices"], False) for row in rows]
    answers = answers_of("letters", EVEN, rows, said)
    found = bound_unseen(answers)
    assert found.mass == pytest.approx(0.1, abs=EXACT)
    # Of one answer (--limit 1) the mass is known and the score is not.
    assert bound_unseen(answers[:1]) == pytest.approx((0.1, np.nan), abs=EXACT, nan_ok=True)
    # P~ = (6/7, 1/7) may be (1, 0). Both orders are asked, so that the elicited distribution is
    # (1/2, 1/2) and the score 0; it may be (4/7, 3/7), if B has nothing in one of them alone, an L1
    # of 1/7. That much less of a distance scores more.
    part = metrics.compare_task(answers).part
    numbers = metrics.measure(answers).numbers
    better = float(part.score_of(max(numbers["l1"] - 1 / 7, 0)))
    assert found.effect == pytest.approx(better - numbers["score"], abs=1e-9)
    assert found.effect > 1


def test_bounds_and_warning_are_in_the_results(caplog, tmp_path):
    """Also when all answers come from the cache."""
    with scripted(most=5) as server:
        how = {"model_args": f"base_url={server.url(False)},model=any,num_concurrent=4"}
        how |= {"model": "choice-api", "use_cache": str(tmp_path / "responses")}
        first = evaluate([TASK], **how)
        asked = server.asked.total()
        again = evaluate([TASK], **how)
        assert server.asked.total() == asked
    row = first["results"][TASK]
    assert 0 < row["unseen_mass,none"] < 1 and 1 < row["unseen_effect,none"] <= 100
    assert again["results"][TASK] == row
    assert "may change the score" in caplog.text
    assert first["config"]["choice_api"]["letters_read_by"] == "top 5"
    from lm_eval.utils import make_table

    assert "unseen_effect" in make_table(first)


# Bad input: what was answered is kept, what passes is asked again.

SAID = yaml.safe_load((REPOSITORY / "tests/data/servers.yaml").read_text())
PASSING = [fault for fault in SAID["passing"] if fault != "drip"]


@pytest.mark.parametrize("fault", [*PASSING, "drip"])
def test_what_passes_is_asked_again_and_said_in_one_line(fault, caplog):
    def fails(text, times):
        return fault if times == 1 and zlib.crc32(text.encode()) % 2 else None

    with scripted(fault=fails) as server:
        # A dripping answer would take 40 s.
        lm = model(server, timeout=2 if fault == "drip" else 60)
        found = lm.loglikelihood(plain(TEXTS[:12]), disable_tqdm=True)
        expected = server.faults[fault]
        assert expected > 2 and server.answered == dict.fromkeys(TEXTS[:12], 1)
    assert len(found) == 48
    said = [one.getMessage() for one in caplog.records if "retrying" in one.getMessage()]
    assert len(said) == 1 and "\n" not in said[0]
    assert SAID["passing"][fault] in said[0]
    assert f"{expected} x " in caplog.records[-1].getMessage()
    low, high = bounds([x for x, _ in found])
    true = np.exp([added(text, letter) for text in TEXTS[:12] for letter in "ABCD"])
    assert (low <= true * (1 + EXACT)).all() and (true <= high * (1 + EXACT)).all()
    assert [*lm.get_model_info()["choice_api"]["asked_again"].values()] == [expected]


@pytest.mark.parametrize("fault", ["fewer", "duplicate"])
def test_fewer_tokens_or_one_twice_are_an_answer(fault):
    with scripted(fault=lambda text, times: fault) as server:
        found = ask(server, plain(TEXTS))
        assert server.answered == dict.fromkeys(TEXTS, 1)
    low, high = bounds([x for x, _ in found])
    true = np.exp([added(text, letter) for text in TEXTS for letter in "ABCD"])
    assert (low <= true * (1 + EXACT)).all() and (true <= high * (1 + EXACT)).all()


def test_retry_after_is_heeded_as_seconds_and_as_a_date():
    with scripted(fault=lambda text, times: "429 date" if times == 1 else None) as server:
        ask(server, plain(TEXTS[:1]))
        # The date is 2 s ahead, in whole seconds; the usual pause is 0.01 s.
        assert server.times[1] - server.times[0] > 0.9


def test_a_server_that_stays_down_ends_the_run_in_one_line(tmp_path):
    served = Counter()

    def down(text, times):
        served["all"] += 1
        return "503" if served["all"] > 10 else None

    cache = str(tmp_path / "responses")
    with scripted(fault=down) as server:
        lm = cached(model(server, max_retries=2), cache)
        with pytest.raises(EpidemiaError) as raised:
            lm.loglikelihood(plain(TEXTS))
        said = str(raised.value)
        assert "in 3 tries; the last error: HTTP 503" in said
        assert "10 of 40 prompts were answered" in said
        assert "in the file of --use_cache" in said and "\n" not in said
        server.fault = lambda text, times: None
        before = set(server.answered)
        lm.loglikelihood(plain(TEXTS))
        assert len(before) == 10 and server.answered == dict.fromkeys(TEXTS, 1)


@pytest.mark.parametrize("fault", SAID["refused"])
def test_what_does_not_pass_is_refused_with_a_way_out(fault):
    with scripted(fault=lambda text, times: fault) as server:
        with pytest.raises(EpidemiaError, match=SAID["refused"][fault]) as raised:
            ask(server, plain(TEXTS))
        assert "\n" not in str(raised.value)
        # Nobody pays for a whole run that comes to nothing.
        assert server.asked.total() <= 34


def test_a_server_that_does_not_count_tokens_cannot_be_limited():
    with scripted(usage=False) as server:
        assert len(ask(server, plain(TEXTS))) == 160
        with pytest.raises(EpidemiaError, match="does not report the tokens"):
            ask(server, plain(TEXTS), max_cost_tokens=1000)


def test_it_stops_before_it_spends_more_than_allowed(tmp_path):
    """11 tokens a prompt."""
    with scripted() as server:
        lm = cached(model(server, max_cost_tokens=120), str(tmp_path / "responses"))
        with pytest.raises(EpidemiaError, match=r"110 tokens were used.*10 of 40") as raised:
            lm.loglikelihood(plain(TEXTS))
        assert "max_cost_tokens=120" in str(raised.value) and server.asked.total() == 10
        more = cached(model(server), str(tmp_path / "responses"))
        more.loglikelihood(plain(TEXTS))
        assert server.answered == dict.fromkeys(TEXTS, 1)


# Keys.


def test_keys_are_sent_and_never_written(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with scripted(key=KEY, fault=lambda text, times: "500" if times == 1 else None) as server:
        how = {"model_args": f"base_url={server.url(False)},model=any,pause=0.01"}
        how |= {"model": "choice-api", "use_cache": str(tmp_path / "responses")}
        found = evaluate([TASK], log_samples=True, **how)
        # The server repeats the key it was sent.
        monkeypatch.setenv("OPENAI_API_KEY", KEY[:-1])
        with pytest.raises(EpidemiaError, match=r"HTTP 401.*OPENAI_API_KEY") as raised:
            ask(server, plain(TEXTS))
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.setenv("MY_HEADER", f"Authorization: Bearer {KEY}")
        assert len(ask(server, plain(TEXTS), header_env="MY_HEADER")) == 160
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"SQLite" in one for one in written)
    everything = [str(found).encode(), caplog.text.encode(), str(raised.value).encode(), *written]
    assert not any(KEY[:-1].encode() in one for one in everything)


@pytest.mark.parametrize("name", ["header", "api_key", "auth_token"])
def test_keys_are_refused_among_the_arguments(name, caplog):
    caplog.set_level(logging.DEBUG)
    given = f"base_url=http://h/v1/completions,{name}={KEY}"
    with pytest.raises(EpidemiaError, match="api_key_env=NAME") as raised:
        evaluate([TASK], model="choice-api", model_args=given)
    assert KEY not in str(raised.value) + caplog.text
    with pytest.raises(EpidemiaError, match=r"base_url=\.\.\., because lm-eval"):
        ChoiceAPI(base_url=f"http://me:{KEY}@h/v1/completions", model="any")


# lm-eval: its other tasks, its arguments, its command line.


def test_lettered_tasks_of_others_and_those_it_cannot_answer(mmlu_style):
    def run(*tasks, chat=False, **how):
        arguments = f"base_url={server.url(chat)},model=any"
        how = {
            "model": "choice-api",
            "model_args": arguments,
            "include_path": str(mmlu_style),
            **how,
        }
        return evaluate([*tasks], **how)

    with scripted(ids=True) as server:
        found = run("lettered", log_samples=True)
        samples = found["samples"]["lettered"]
        assert server.answered.total() == len(samples) == 16
        for sample in samples:
            text = sample["arguments"][0][0]
            expected = [truth(text, f" {letter}") for letter in "ABCD"]
            answers = [float(x) for x, _ in sample["filtered_resps"]]
            assert answers == pytest.approx(expected, abs=EXACT)
        for task, how, said in (
            ("continued", {}, r"continued has the choice ' \d.*local-completions"),
            (f"{TASK}_sampled", {}, "run that task separately, with --model local-completions"),
            (TASK, {"apply_chat_template": True}, "plain text, not chat messages: with --apply"),
            (TASK, {"chat": True}, "accepts chat messages.*--apply_chat_template"),
        ):
            with pytest.raises(EpidemiaError, match=said):
                run(task, **how)


@pytest.mark.parametrize(("url", "tokenize"), SAID["beside"].items())
def test_where_a_server_tells_its_tokens(url, tokenize):
    assert join_url(url, "tokenize") == tokenize


def test_a_wrong_model_name():
    with scripted() as server, pytest.raises(EpidemiaError, match=r"404.*model `other` is unknown"):
        ChoiceAPI(base_url=server.url(False), model="other").loglikelihood(plain(TEXTS))


def test_on_the_command_line_in_a_chat(tmp_path):
    """All of a task, with lm-eval's own output; no tokenizer, no torch."""
    environment = {**os.environ, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(REPOSITORY)}
    with scripted(ids=True, key=KEY) as server:
        line = f"-m lm_eval_epidemia run --model choice-api --tasks {TASK},{SEVERAL} --log_samples"
        line += f" --apply_chat_template --output_path {tmp_path}/out --use_cache {tmp_path}/cache"
        line += f" --model_args base_url={server.url()},model=any,num_concurrent=8"
        done = in_a_process(*line.split(), env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        assert server.answered.total() == len(split(TASK)) + len(split(SEVERAL))
        assert set(server.answered.values()) == {1}
        asked = {(one["max_tokens"], one["temperature"]) for one in server.payloads}
        assert asked == {(1, 0)}
    (file,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(file.read_text())
    assert found["config"]["choice_api"]["letters_read_by"] == "token ids"
    assert "unseen_mass,none" not in found["results"][TASK]
    masses = [sum(np.exp(truth(of["prompt"], c)) for c in of["choices"]) for of in split(TASK)]
    assert found["results"][TASK]["choice_mass,none"] == pytest.approx(np.mean(masses), abs=1e-9)
    assert re.search(r"Prompts: 100%.*(prompt/s|s/prompt), [\d,]+ tokens", done.stderr)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 4 and not any(KEY.encode() in path.read_bytes() for path in written)
    assert KEY not in done.stdout + done.stderr


# Many requests, many faults, and a process that is killed.

MANY = [f"Prompt {i} of many.\nAnswer:" for i in range(2000)]
FAULTS = [*PASSING, "drip"]


def often(text, times):
    """Three in ten, the same in every run; a dripping answer is slow, so there are few of it."""
    drawn = zlib.crc32(f"{text} {times}".encode()) % 1000
    return FAULTS[(drawn // 3) % len(PASSING)] if drawn < 297 else "drip" if drawn < 300 else None


CLIENT = """
import sys, zlib
from lm_eval.api.instance import Instance
from lm_eval.api.model import CachingLM
from lm_eval_epidemia.models.choice_api import ChoiceAPI

url, cache = sys.argv[1:]
texts = [f"Prompt {i} of many.\\nAnswer:" for i in range(2000)]
lm = CachingLM(ChoiceAPI(base_url=url, model="any", num_concurrent=8, pause=0.01, timeout=5), cache)
asked = [Instance("loglikelihood", {}, arguments=(text, f" {letter}"), idx=0)
         for text in texts for letter in "AB"]
print(len(lm.loglikelihood(asked)))
"""


def cached(lm, path):
    from lm_eval.api.model import CachingLM

    return CachingLM(lm, path)


@pytest.mark.slow
def test_two_thousand_prompts_with_faults_and_a_kill(tmp_path):
    """All answered; none twice but the few under way when the process was killed; none lost."""
    from sqlitedict import SqliteDict

    cache, environment = tmp_path / "responses.db", {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with scripted(fault=often, most=20) as server:
        start = ["-c", CLIENT, server.url(False), str(cache)]
        silent = {"env": environment, "stderr": subprocess.DEVNULL}
        client = subprocess.Popen([sys.executable, *start], **silent)
        ends = time.monotonic() + 300  # on a busy machine
        while server.answered.total() < 700 and time.monotonic() < ends and client.poll() is None:
            time.sleep(0.005)
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        time.sleep(0.2)  # what the server was about to send
        before, asked = Counter(server.answered), Counter(server.asked)
        with SqliteDict(str(cache), flag="r") as kept:
            letters = len(kept)
        # Two letters a prompt, both or none; of what was answered all but what was under way.
        assert letters % 2 == 0 and 0 <= before.total() - letters // 2 <= 8
        assert 700 <= before.total() < 2000
        again = in_a_process(*start, env=environment)
        assert again.returncode == 0, again.stderr[-2000:]
        assert again.stdout.strip() == "4000"
        assert set(server.answered) == set(MANY)
        twice = server.answered.total() - len(MANY)
        assert twice == before.total() - letters // 2
        # What had been written was not even asked.
        asked_again = sum(server.asked[text] > asked[text] for text in before)
        assert asked_again == twice
        assert server.faults.total() > 0.25 * server.asked.total()
        assert set(server.faults) >= set(FAULTS)
    with SqliteDict(str(cache), flag="r") as kept:
        assert len(kept) == 4000


def test_an_answer_of_another_form_is_said_and_not_guessed():
    for wrong in ({}, [], *({"choices": [{"logprobs": one}]} for one in SAID["forms"])):
        with pytest.raises(BadReply):
            read_shown(wrong)
