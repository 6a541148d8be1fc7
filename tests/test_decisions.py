"""`choice-decide` against scripted decision endpoints, whose probabilities are known."""

import json
import math
import re
import sqlite3
from collections import Counter
from functools import cache
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, evaluate
from decision_servers import SAYS, Handler, deciding, hashed
from pydantic import TypeAdapter
from test_choice_api import EVEN, KEY, SEVERAL

from lm_eval_epidemia.ask.bounds import bounds
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings import find
from lm_eval_epidemia.models.baseline import Baseline
from lm_eval_epidemia.models.choice_decide import ChoiceDecide
from lm_eval_epidemia.models.decisions import FORMS, PROBES, TypedQuestion
from lm_eval_epidemia.models.served import Prompt
from lm_eval_epidemia.results.read import read_results

#: Servers, paths and the forms that they take there.
FORM_OF = {
    ("vllm", "systemone"): "systemone",
    ("vllm", "decisions"): "openai",
    ("jev", "systemone"): "systemone",
    ("llama.cpp", "systemone"): "systemone",
    ("ollama", "systemone"): "systemone",
    ("openai", "decisions"): "openai",
    ("sglang", "systemone"): "systemone",
    ("sglang", "decisions"): "sglang",
}
PLACES = ("In a kitchen", "In a garden")
QUESTIONS = {
    "choice": TypedQuestion("Consider a stool.", "Where is it?", PLACES),
    "yes-no": TypedQuestion("Consider a stool.", "Is it old?", ("Yes", "No"), "yes-no"),
    "score": TypedQuestion("Consider a stool.", "How old?", ("New", "Used", "Old"), "score"),
}
GROUP = "epidemia_low_gss"
ORDERED = "epidemia_low_gss_political_view_by_sex"
LEVELS = ("Liberal", "Moderate", "Conservative")
PROBED = {one.state for one in PROBES}
#: vLLM tells no mass of a predicate.
SILENT = ("decisions", "yes-no")
EXACT, EXACT_SCORE = 1e-12, 1e-9

FAULTS = yaml.safe_load((REPOSITORY / "tests/data/decision_faults.yaml").read_text("utf-8"))
#: Enough to have each form, with and without a mass.
SPOILT = (("vllm", "systemone"), ("sglang", "systemone"), ("sglang", "decisions"))
SPOILT += (("openai", "decisions"), ("vllm", "decisions"))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def model(server, path="systemone", **arguments):
    arguments = {"pause": 0.001, "num_concurrent": 4, "max_retries": 2, "timeout": 60, **arguments}
    return ChoiceDecide(base_url=server.url(path), model="any", **arguments)


def ask(lm, asked):
    return lm.served.answer(Prompt(asked, asked.options, []))


def shares(answered):
    p = [math.exp(x) for x, _ in answered.letters]
    return [x / math.fsum(p) for x in p]


@pytest.mark.parametrize(("kind", "path"), FORM_OF)
def test_each_server_is_read_exactly(kind, path):
    with deciding(kind, key=KEY) as server:
        lm = model(server, path)
        for asked in QUESTIONS.values():
            answered, true = ask(lm, asked), hashed(*asked)
            p = [math.exp(x) for x, _ in answered.letters]
            told = kind == "sglang" or (kind == "vllm" and (path, asked.type) != SILENT)
            expected = [round(x, server.digits or 16) for x in true]
            mass = server.mass if told else 1.0
            assert p == pytest.approx([x * mass for x in expected], abs=EXACT)
            assert answered.began == asked.options[true.index(max(true))]
            if server.digits:
                low, high = bounds([x for x, _ in answered.letters])
                assert (low <= true).all() and (true <= high).all() and (low < high).all()
        assert lm.served.form == FORM_OF[kind, path]
        assert not any("Authorization" in headers for headers in server.gets)


def test_a_server_in_python_is_not_taken_for_mlx(monkeypatch):
    monkeypatch.setitem(SAYS, "jev", {"/v1/models": {"object": "list", "data": [{"id": "any"}]}})
    monkeypatch.setattr(Handler, "server_version", "BaseHTTP/0.6")
    wrong = {"rename": "Elsewhere"}
    with deciding("jev", fault=lambda asked, times: asked.state not in PROBED and wrong) as server:
        lm = model(server)
        with pytest.raises(EpidemiaError) as raised:
            ask(lm, QUESTIONS["choice"])
    assert lm.served.checked["server"] == "not known" and "MLX" not in str(raised.value)


def spoilt(asked, times):
    """The fault that a question names: once, or always."""
    name, _, when = asked.state.rpartition(", ")
    return FAULTS[name] if when == "always" or (when, times) == ("once", 1) else None


@pytest.fixture(scope="module", params=SPOILT, ids="-".join)
def faulty(request):
    kind, path = request.param
    with deciding(kind, fault=spoilt) as server:
        lm = model(server, path, timeout=1)
        ask(lm, QUESTIONS["choice"])
        yield server, lm


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_never_read_as_an_answer(faulty, name):
    server, lm = faulty
    fault = FAULTS[name]
    if lm.served.form not in fault.get("forms", FORMS):
        pytest.skip("this form does not have it")
    then = fault["then"]
    for when, most in (("once", 2), ("always", 3)):
        asked = QUESTIONS[fault.get("type", "choice")]._replace(state=f"{name}, {when}")
        if then == "error" or (then, when) == ("retried", "always"):
            with pytest.raises(EpidemiaError, match=fault["says"]) as raised:
                ask(lm, asked)
            assert "\n" not in str(raised.value)
        elif then == "refusal":
            answered = ask(lm, asked)
            assert answered.declined and all(math.isnan(x) for x, _ in answered.letters)
        else:
            assert shares(ask(lm, asked)) == pytest.approx(hashed(*asked), abs=EXACT)
        times = sum(n for one, n in server.asked.items() if one.state == asked.state)
        assert times == (most if then == "retried" else 1)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"p": [0.33, 0.66]}, None),
        ({"p": [0.34, 0.67]}, None),
        ({"p": [0.3, 0.6]}, "sum to 1"),
        ({"p": [0.123456789012, 0.2]}, "sum to 1"),
    ],
)
def test_of_rounded_probabilities_only_sums_that_rounding_explains(fault, says):
    """What is not read says nothing of how the server rounds."""
    asked = QUESTIONS["choice"]
    with deciding("jev") as server:
        server.fault = lambda one, times: fault if (one.state, times) == (asked.state, 1) else None
        lm = model(server)
        answered = ask(lm, asked)
    p = [round(x, 2) for x in hashed(*asked)] if says else [x / sum(fault["p"]) for x in fault["p"]]
    assert shares(answered) == pytest.approx(p, abs=EXACT)
    assert [*lm.endpoint.faults] == (["probabilities that do not sum to 1"] if says else [])
    assert lm.served.digits == 2


# Whole runs.


def words_of(prompt):
    """What a prompt says before its options, and its options by letter."""
    text = re.sub(r"\n(Answer with Yes or No\.|Answer:)", "", prompt)
    said, *options = re.split(r"\n[A-Z]\. ", text)
    return " ".join(said.split()), frozenset(options or ("Yes", "No"))


class Respondent:
    """What `epidemia-baseline` believes, by the words of a question."""

    def __init__(self, tasks, kind, **more):
        baseline, self.believed = Baseline(kind=kind, **more), {}
        for task in tasks:
            for row in split(task):
                one = SimpleNamespace(doc=row, task_name=task)
                shown = re.findall(r"\n[A-Z]\. (.*)", row["prompt"]) or ["Yes", "No"]
                p = np.exp(baseline._letters(one))
                self.believed[words_of(row["prompt"])] = dict(zip(shown, p, strict=True))

    def __call__(self, state, instructions, options, kind):
        said = f"{state} {instructions}".removeprefix("Consider this question. ")
        known = self.believed.get((" ".join(said.split()), frozenset(options)))
        return (
            [known[one] for one in options] if known else hashed(state, instructions, options, kind)
        )


def run(server, tasks, path="systemone", more="", **arguments):
    args = f"base_url={server.url(path)},model=any,num_concurrent=4,pause=0.01{more}"
    return evaluate(tasks, model="choice-decide", model_args=args, **arguments)


@cache
def alone(words):
    return evaluate([EVEN, SEVERAL], model_args=words)


@pytest.mark.parametrize(
    ("place", "respondent", "typed"),
    [
        (("vllm", "systemone"), "kind=truth", ""),
        (("vllm", "systemone"), "kind=noisy,noise=0.7", "yes-no"),
        (("vllm", "decisions"), "kind=mean", ""),
        (("jev", "systemone"), "kind=noisy,noise=0.7", ""),
        (("jev", "systemone"), "kind=truth", "yes-no"),
        (("llama.cpp", "systemone"), "kind=uniform", ""),
        (("ollama", "systemone"), "kind=noisy,noise=0.7", ""),
        (("openai", "decisions"), "kind=truth", ""),
        (("openai", "decisions"), "kind=noisy,noise=0.7", "yes-no"),
        (("sglang", "systemone"), "kind=mean", ""),
        (("sglang", "decisions"), "kind=noisy,noise=0.7", "yes-no"),
    ],
    ids=str,
)
def test_respondents_score_as_they_do_without_a_server(place, respondent, typed):
    kind, path = place
    more = dict(pair.split("=") for pair in respondent.split(","))
    with deciding(kind, p=Respondent([EVEN, SEVERAL], **more)) as server:
        found = run(server, [EVEN, SEVERAL], path, metadata={"typed": typed} if typed else None)
        types = {one.type for one in server.answered}
    assert types == {"choice", typed} - {""}
    for task in (EVEN, SEVERAL):
        row, most = found["results"][task], EXACT_SCORE
        if kind == "jev":
            most += row["unseen_effect,none"]
            assert 0 < most < 10
        assert row["score,none"] == pytest.approx(
            alone(respondent)["results"][task]["score,none"], abs=most
        )
    info = found["config"]["choice_decide"]
    assert info["letters_read_by"] == f"{FORM_OF[place]} decisions"
    assert info["digits"] == (2 if kind == "jev" else None) and info["repeatable"]


def test_rounded_decisions_are_called_rounded_and_nothing_is_said_of_letters(caplog):
    tasks = [EVEN, SEVERAL, ORDERED]
    with deciding("jev", digits=1, p=Respondent(tasks, "truth")) as server:
        found = run(server, tasks)["results"]
    effects = [row["unseen_effect,none"] for row in found.values()]
    *said, last = [text for text in caplog.messages if "round" in text or "letter" in text]
    assert min(effects) > 1 and "more tasks have this problem (rounded probabilities)" in last
    assert all("rounded to 1 digit" in text and "letter" not in text for text in said)
    assert any(
        f"by up to {effects[0]:.1f} points. Use a server that shows more digits" in text
        for text in said
    )


def test_levels_are_asked_as_a_score_in_their_order():
    with deciding("sglang", p=Respondent([ORDERED], "noisy", noise=0.7)) as server:
        found = run(server, [ORDERED], "decisions", metadata={"typed": "score"})
        assert {one.type for one in server.answered if one.options[0] in LEVELS} == {"score"}
        assert {one.options for one in server.answered if one.type == "score"} == {LEVELS}
    want = evaluate([ORDERED], model_args="kind=noisy,noise=0.7")["results"][ORDERED]["score,none"]
    assert found["results"][ORDERED]["score,none"] == pytest.approx(want, abs=EXACT_SCORE)


def test_refusals_are_counted_also_when_they_come_from_the_cache(tmp_path):
    cache = str(tmp_path / "answers")
    with deciding("openai", refuses=lambda one: "is male" in one.state, key=KEY) as server:
        first = run(server, [SEVERAL], "decisions", use_cache=cache)
        asked = server.asked.total()
        again = run(server, [SEVERAL], "decisions", use_cache=cache)
        assert server.asked.total() == asked
    for found in (first, again):
        assert found["config"]["choice_decide"]["declined"] == len(split(SEVERAL)) / 2
    assert first["results"] == again["results"]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(KEY.encode() in one for one in written)


def test_what_is_always_refused_ends_the_run():
    ends = pytest.raises(EpidemiaError, match="all that were asked")
    with deciding("openai", refuses=lambda one: one.state not in PROBED) as server, ends as raised:
        run(server, [EVEN], "decisions")
    assert "were answered" not in str(raised.value)  # none was


def test_refused_probes_are_no_refused_prompts():
    with deciding("openai", refuses=lambda one: one.state in PROBED) as server:
        found = run(server, [EVEN], "decisions")
    assert found["results"][EVEN]["seen,none"] == 1
    assert found["config"]["choice_decide"]["declined"] == 0
    assert "repeatable" not in found["config"]["choice_decide"]


def test_refusals_stand_in_rows_of_tasks_and_groups_and_in_reports(tmp_path, caplog):
    with deciding("openai", refuses=lambda one: "is male" in one.state) as server:
        made = run(server, [GROUP], "decisions", limit=2)
    (tmp_path / "results_refused.json").write_text(json.dumps(made, default=str))
    found = made["results"]
    shares = [row["answered,none"] for name, row in found.items() if name != GROUP]
    assert min(shares) < 1 and found[GROUP]["answered,none"] == pytest.approx(np.mean(shares))
    assert {row["choice_mass,none"] for row in found.values()} == {"N/A"}
    (said,) = [text for text in caplog.messages if "declined" in text]
    assert re.search(r"declined [\d,]+ of [\d,]+ prompts, .*: epidemia_low_\w+ \(\d+\)", said)
    (row,) = (
        find("leaderboard")(read_results([tmp_path]))
        .table.query("kind == 'run'")
        .to_dict("records")
    )
    assert row["answered"] == pytest.approx(np.mean(shares)) and math.isnan(row["choice_mass"])


def test_a_task_that_is_refused_whole_has_no_score_and_reports_say_so(tmp_path):
    with deciding("openai", refuses=lambda one: "Liberal" in one.options) as server:
        made = run(server, [EVEN, ORDERED], "decisions")
    (tmp_path / "results_refused.json").write_text(json.dumps(made, default=str))
    assert math.isnan(made["results"][ORDERED]["score,none"])
    notes = read_results([tmp_path]).notes
    assert notes["text"].tolist() == [f"no score (NaN) in 1 task: {ORDERED}"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"status": 200, "body": "<!doctype html><html>Welcome</html>"}, "4 tries.*a web page"),
        ({"rename": "Elsewhere"}, "4 tries.*options"),
    ],
)
def test_an_address_that_never_answers_as_it_should_is_given_up_soon(fault, says):
    with deciding("jev", fault=lambda asked, times: fault) as server:
        lm = model(server, max_retries=9)
        with pytest.raises(EpidemiaError, match=says):
            ask(lm, QUESTIONS["choice"])
        assert server.asked.total() == 4


def test_a_choice_that_contradicts_its_probabilities_is_counted():
    wrong = {"answer": {"choice": PLACES[0]}, "p": [0.25, 0.75]}
    with deciding("llama.cpp", fault=lambda asked, times: asked.state not in PROBED and wrong) as s:
        lm = model(s)
        answered = ask(lm, QUESTIONS["choice"])
    assert shares(answered) == pytest.approx([0.25, 0.75]) and answered.began == PLACES[1]
    assert lm.served.checked["contradicted"] == 1


@pytest.mark.parametrize(
    ("kind", "most"), [("vllm", 26), ("llama.cpp", 255), ("ollama", 255), ("openai", 255)]
)
def test_as_many_options_as_a_server_takes_and_no_more(kind, most):
    path = "decisions" if kind == "openai" else "systemone"
    with deciding(kind, digits=None) as server:
        lm = model(server, path)
        asked = TypedQuestion("Consider a stool.", "Where?", tuple(f"{n:03}" for n in range(most)))
        assert shares(ask(lm, asked)) == pytest.approx(hashed(*asked), abs=EXACT)
        with pytest.raises(EpidemiaError, match="at most"):
            ask(lm, asked._replace(options=(*asked.options, "one more")))


def test_a_request_that_is_too_large_is_said():
    with deciding("ollama") as server:
        lm = model(server)
        ask(lm, QUESTIONS["choice"]._replace(state="x" * 60_000))
        with pytest.raises(EpidemiaError, match="request body too large"):
            ask(lm, QUESTIONS["choice"]._replace(state="x" * 66_000))


def test_requests_and_answers_are_those_of_the_openai_package():
    from openai.types.decision import Decision
    from openai.types.decision_create_params import DecisionCreateParams

    for asked in QUESTIONS.values():
        body = FORMS["openai"].body("any", asked)
        sent = TypeAdapter(DecisionCreateParams)
        assert json.loads(sent.dump_json(sent.validate_python(body))) == body
        for kind in ("openai", "vllm"):
            with deciding(kind) as server:
                reply, _ = server.answer("/v1/decisions", body)
            Decision.model_validate(reply, strict=True)


@pytest.mark.parametrize(
    ("kind", "path", "more", "says"),
    [
        ("openai", "systemone", {}, "HTTP 404"),
        ("jev", "systemone", {"models": ("other",)}, "HTTP 404.*does not exist"),
        ("vllm", "systemone", {"serves": False}, "HTTP 501.*serve another model"),
        ("openai", "decisions", {"key": "another"}, "rejects the key"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(kind, path, more, says):
    with deciding(kind, **more) as server, pytest.raises(EpidemiaError, match=says) as raised:
        run(server, [EVEN], path)
    assert "\n" not in str(raised.value) and KEY not in str(raised.value)


@pytest.mark.parametrize("kind", ["openai", "sglang", "vllm"])
def test_a_spoilt_first_answer_does_not_choose_another_form(kind):
    seen = Counter()

    def first(asked, times):
        seen["all"] += 1
        return {"p": [0.1, 0.1]} if seen["all"] == 1 else None

    with deciding(kind, fault=first) as server:
        lm = model(server, "decisions")
        ask(lm, QUESTIONS["choice"])
    assert lm.served.form == FORM_OF[kind, "decisions"] and seen["all"] > 10


def test_the_model_that_answers_is_recorded_and_no_cache_holds_that_of_another(tmp_path, caplog):
    names, cache = iter(()), str(tmp_path / "answers")
    with deciding("vllm", fault=lambda *_: {"reply": {"model": next(names)}, "p": ()}) as server:

        def record(*told, **more):
            nonlocal names
            names = chain(*told)
            return run(server, [EVEN], **more)["config"]["choice_decide"].get("answered_by")

        def changes():
            return [text for text in caplog.messages if "ask a server of one model" in text]

        assert record(repeat("path/any")) == "path/any" and not changes()
        assert record(repeat(None)) is None
        again = {"use_cache": cache, "more": ",max_cost_tokens=1500"}
        with pytest.raises(EpidemiaError, match="max_cost_tokens"):
            record(repeat("path/any"), **again)
        (file,) = map(sqlite3.connect, tmp_path.iterdir())
        held = [*file.iterdump()]
        with pytest.raises(EpidemiaError, match=r"answers of path/any, but OTHER answers now: g"):
            record(repeat("OTHER"), use_cache=cache)
        assert held == [*file.iterdump()] and not changes()
        both = record(repeat("path/any", 11), repeat("OTHER"), use_cache=cache)
        assert both == "OTHER and path/any" and len(changes()) == 1
        assert record(use_cache=cache) == both


def test_a_run_stops_at_its_budget_and_goes_on(tmp_path):
    how = {"more": ",max_cost_tokens=2000", "use_cache": str(tmp_path / "answers")}
    with deciding("vllm") as server:
        with pytest.raises(EpidemiaError, match="max_cost_tokens=2000"):
            run(server, [SEVERAL], **how)
        before = {one for one in server.answered if one.state not in PROBED}
        run(server, [SEVERAL], use_cache=how["use_cache"])
        asked = {one: n for one, n in server.answered.items() if one.state not in PROBED}
    assert 0 < len(before) < len(asked) == len(split(SEVERAL)) and {*asked.values()} == {1}
