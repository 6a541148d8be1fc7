"""Written answers that are asked for again where they cannot be read, by lm-eval's own client."""

import json
from types import SimpleNamespace

import pytest
from conftest import evaluate, recorded
from test_endpoint import endpoint  # noqa: F401 (a fixture)

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.harness import tries, yamls
from lm_eval_epidemia.report.site import replies
from lm_eval_epidemia.results.choose import of_runs
from lm_eval_epidemia.results.read import read_results

TASK = "epidemia_intervention_random"
NAME = f"{TASK}_written"
STATED = "epidemia_low_nsduh_cocaine_ever_by_age"
TRIES = 3
#: Which try of each of the first prompts can be read; the last one never.
NEEDED = (1, 2, 3, 1, 99)
MUMBLED = "That is hard to say."


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """One home for the file: the task files of three tries are written once."""
    folder = tmp_path_factory.getbasetemp() / "home of tries"
    monkeypatch.setenv("EPIDEMIA_HOME", str(folder))


def asked(server, names, run=evaluate, **arguments):
    arguments.setdefault("metadata", {"tries": TRIES})
    where = [] if run is evaluate else [arguments.pop("folder")]
    return run(
        *where,
        names,
        model="local-chat-completions",
        apply_chat_template=True,
        limit=len(NEEDED),
        model_args=f"base_url={server.url},model=tiny,num_concurrent=2,max_retries=1",
        **arguments,
    )


@pytest.fixture
def mumbling(endpoint):  # noqa: F811
    """A server that is understood at the try that `NEEDED` says; it keeps what it was sent."""
    needed = dict(zip(split(TASK, "intervention_written")["prompt"], NEEDED, strict=False))

    def reply(text, times):
        return 200, "<answer>yes</answer>" if times >= needed[text] else f"{MUMBLED} {times}"

    server, bodies = endpoint(reply), []
    respond = server.respond
    server.respond = lambda body: (bodies.append(body), respond(body))[1]
    server.bodies, server.needed = bodies, needed
    return server


def test_what_cannot_be_read_is_asked_again_and_every_try_is_kept(mumbling, tmp_path):
    cache = str(tmp_path / "kept")
    found = asked(mumbling, [NAME], log_samples=True, use_cache=cache)
    row = found["results"][NAME]
    # Tries of each: 1, 2, 3, 1, and 3 of that which never can be read.
    assert row["tries,none"] == pytest.approx((1 + 2 + 3 + 1 + 3) / 5)
    assert row["answered,none"] == pytest.approx(4 / 5)
    assert [*mumbling.asked.values()] and sum(mumbling.asked.values()) == 1 + 2 + 3 + 1 + 3
    for sample, needed in zip(found["samples"][NAME], NEEDED, strict=True):
        number = min(needed, TRIES)
        mumbled = [f"{MUMBLED} {time}" for time in range(1, number + (needed > TRIES))]
        read = ["<answer>yes</answer>"] * (needed <= TRIES)
        unasked = [""] * (TRIES - number)
        assert sample["resps"] == [[*mumbled, *read, *unasked]]
        assert sample["filtered_resps"] == [(read or mumbled)[0]]
        assert sample["tries"] == number
    config = found["configs"][NAME]
    assert config["repeats"] == TRIES
    assert "hooks.first_read_intervention_written" in str(config["filter_list"])
    # The same command again asks nothing, and comes to the same.
    before = len(mumbling.bodies)
    again = asked(mumbling, [NAME], log_samples=True, use_cache=cache)
    assert len(mumbling.bodies) == before
    assert [s["resps"] for s in again["samples"][NAME]] == [
        s["resps"] for s in found["samples"][NAME]
    ]


def test_a_further_try_is_drawn_with_a_seed_of_its_own(mumbling):
    """The first try is what it is without tries: temperature 0 and the seed of the run."""
    asked(mumbling, [NAME])
    by_text = {}
    for body in mumbling.bodies:
        by_text.setdefault(body["messages"][-1]["content"], []).append(body)
    assert {len(bodies) for bodies in by_text.values()} == {1, 2, 3}
    for bodies in by_text.values():
        assert [body["temperature"] for body in bodies] == [0, 0.999, 0.998][: len(bodies)]
        assert len({body["seed"] for body in bodies}) == len(bodies)
    firsts = {bodies[0]["seed"] for bodies in by_text.values()}
    mumbling.bodies.clear()
    asked(mumbling, [NAME], metadata={})
    assert {body["seed"] for body in mumbling.bodies} == firsts and len(firsts) == 1
    assert len(mumbling.bodies) == len(NEEDED)


def test_without_tries_nothing_changes(mumbling):
    found = asked(mumbling, [NAME], metadata={"tries": 1})
    assert sum(mumbling.asked.values()) == len(NEEDED)
    assert "tries,none" not in found["results"][NAME]
    assert found["configs"][NAME]["repeats"] == 1
    assert Variant(tries=1).in_task_files == {} and Variant(tries=2).in_task_files == {"tries": 2}
    rows = [split(TASK, "intervention_written", Variant(tries=n))[:] for n in (1, TRIES)]
    assert rows[0] == rows[1]


def test_a_report_tells_tries_and_does_not_rank_them_with_single_ones(mumbling, tmp_path):
    for number in (1, TRIES):
        mumbling.asked.clear()
        folder = tmp_path / str(number)
        asked(mumbling, [NAME], run=recorded, folder=folder, metadata={"tries": number})
    results = read_results([tmp_path])
    assert {*results.runs["tries"]} == {"", str(TRIES)}
    assert {*results.scores["asked_as"]} == {"limit=5", f"limit=5; tries={TRIES}"}
    several = results.scores[results.scores["asked_as"] != "limit=5"].iloc[0]
    assert (several["tries"], several["answered"]) == (2, 0.8)
    for run, tries_ in results.runs["tries"].items():
        (kept,) = replies.of_models(of_runs(results, [run])).values()
        assert (kept["number"], kept["unread"]) == (len(NEEDED), 1 if tries_ else 3)
        assert kept["shown"][0]["reply"] == f"{MUMBLED} 1"


@pytest.mark.parametrize(
    "task, way, text",
    [
        (TASK, "knowledge_written", "no"),
        (STATED, "stated", "A: 30\nB: 70"),
        (STATED, "sampled", "A"),
        ("epidemia_high_nsduh_marijuana_ever_by_age_sex", "closed", "C"),
        ("epidemia_prior_nhanes", "direct", "<prior>1, 2</prior>"),
        ("epidemia_prior_nhanes", "quantile", ""),
    ],
)
def test_in_every_written_way_the_first_that_can_be_read_counts(task, way, text):
    task = "epidemia_intervention_tuebingen" if way == "knowledge_written" else task
    row = split(task, way, Variant(n_samples=8))[0]
    found = tries.first_read(WAYS[way], row, [MUMBLED, text, "no such thing"])
    if text:
        assert (found, found.tries) == (text, 2)
    else:
        assert (found, found.tries) == (MUMBLED, 3)
    assert json.dumps(found) == json.dumps(str(found))


def test_every_written_way_can_be_asked_again_and_no_other():
    files = yamls.render(variant=Variant(tries=TRIES), chosen=lambda way: way.name in WRITTEN)
    for way in WRITTEN:
        hook = f"hooks.first_read_{way}\n"
        bases = [text for text in files.values() if hook in text]
        assert len(bases) == 1 and f"repeats: {TRIES}\n" in bases[0]
        assert "  - metric: tries\n    aggregation: mean\n" in bases[0]


WRITTEN = [name for name, way in WAYS.items() if way.generated]


def test_ways_and_others_tasks_are_told_apart():
    """Others' repeats are all asked, in one go; ours one after the other until one is read."""
    row = split(TASK, "intervention_written")[0]
    ours, other = (
        SimpleNamespace(task_name=name, doc=row, args=("text", {"temperature": 0.5}), arguments=())
        for name in (NAME, "theirs")
    )
    batches = []

    def ask(requests):
        batches.append([request.task_name for request in requests])
        return ["yes" if len(batches) == 2 else "?"] * len(requests)

    requests = [ours, other, ours, other, ours]
    found = tries.until_read(requests, {NAME: WAYS["intervention_written"]}, ask)
    assert found == ["?", "?", "yes", "?", ""]
    assert batches == [[NAME, "theirs", "theirs"], [NAME]]
    again = tries._again(ours, 2)
    assert again.arguments == ("text", {"temperature": 0.499}) and ours.arguments == ()


def test_odd_numbers_of_tries_and_ways_that_write_nothing_are_refused():
    for number in (0, 21, "3", True):
        with pytest.raises(EpidemiaError, match=r"tries .*: expected a whole number from 1 to 20"):
            Variant.of({"tries": number})
    with pytest.raises(EpidemiaError, match="tries does not change epidemia_intervention_random"):
        evaluate([TASK], metadata={"tries": 3}, limit=1)


@pytest.mark.slow
def test_transformers_draws_further_tries(tiny_llama):
    """Weights are random: nothing can be read, and what is drawn is another text each time."""
    found = evaluate(
        [NAME],
        model="choice-hf",
        model_args=f"pretrained={tiny_llama},dtype=float32,device=cpu",
        gen_kwargs={"max_gen_toks": 8},
        metadata={"tries": TRIES},
        log_samples=True,
        limit=1,
    )
    (sample,) = found["samples"][NAME]
    (written,) = sample["resps"]
    assert len(set(written)) == sample["tries"] == TRIES
    assert sample["filtered_resps"] == written[:1]
