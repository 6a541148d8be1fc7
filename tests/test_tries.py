"""Written answers that are asked for again where they cannot be read, by lm-eval's own client."""

import json
from types import SimpleNamespace

import pytest
from conftest import evaluate, recorded
from scripted_server import scripted
from test_endpoint import seeds, sent

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.harness import yamls
from lm_eval_epidemia.harness.written_replies import ask_until_read, choose_reply
from lm_eval_epidemia.report.site import models
from lm_eval_epidemia.results.choose import keep_runs
from lm_eval_epidemia.results.read import read_results

TASK, WAY = "epidemia_intervention_random", "intervention_written"
NAME = f"{TASK}_written"
STATED = "epidemia_low_nsduh_cocaine_ever_by_age"
#: Which try of each of the first prompts can be read; the last one never.
TRIES, NEEDED, MUMBLED = 3, (1, 2, 3, 1, 99), "That is hard to say."


def prompts():
    return split(TASK, WAY)["prompt"][: len(NEEDED)]


@pytest.fixture
def server():
    """A model that mumbles until it is asked often enough."""
    needed = dict(zip(prompts(), NEEDED, strict=True))

    def reply(text, times):
        return sent("<answer>yes</answer>" if times >= needed[text] else f"{MUMBLED} {times}")

    with scripted(fault=reply) as server:
        yield server


def test_what_cannot_be_read_is_asked_again_and_every_try_is_kept(server, tmp_path):
    """With a seed of its own; the first try is what it is without tries, which are not ranked."""

    def ask(folder, number):
        """Return the run as it was written, its samples, and how often prompts and seeds came."""
        server.asked.clear(), server.payloads.clear()
        how = {"apply_chat_template": True, "limit": len(NEEDED), "metadata": {"tries": number}}
        how["model_args"] = f"base_url={server.url()},model=any,num_concurrent=2,max_retries=1"
        kept = str(tmp_path / f"kept {number}")
        recorded(tmp_path / folder, [NAME], model="local-chat-completions", use_cache=kept, **how)
        results, samples = (
            next((tmp_path / folder).rglob(f"{x}_*")) for x in ("results", "samples")
        )
        lines = [json.loads(line) for line in samples.read_text().splitlines()]
        asked = [server.asked[text] for text in prompts()]
        return json.loads(results.read_text()), lines, asked, {**seeds(server)}

    found, samples, asked, seeded = ask("several", TRIES)
    # Of that which never can be read 3. First tries have the seed of the run, others their own.
    assert asked == [1, 2, 3, 1, 3] == [sample["tries"] for sample in samples]
    assert sorted(seeded.values()) == [1] * 5 + [5]
    assert found["results"][NAME]["tries,none"] == pytest.approx(10 / 5)
    assert found["results"][NAME]["answered,none"] == pytest.approx(4 / 5)
    mumbled, read = [f"{MUMBLED} {time}" for time in (1, 2, 3)], "<answer>yes</answer>"
    assert [sample["filtered_resps"] for sample in samples] == [[read]] * 4 + [mumbled[:1]]
    assert samples[1]["resps"] == [[mumbled[0], read, ""]] and samples[4]["resps"] == [mumbled]
    # The same command again asks nothing, and comes to the same.
    _, again, *nothing = ask("again", TRIES)
    assert nothing == [[0] * 5, {}] and [s["resps"] for s in again] == [s["resps"] for s in samples]
    once, _, asked, first = ask("once", 1)
    assert "tries,none" not in once["results"][NAME] and once["configs"][NAME]["repeats"] == 1
    assert asked == [1] * 5 and first == {seed: n for seed, n in seeded.items() if n == 5}
    results = read_results([tmp_path / "several", tmp_path / "once"])
    assert {*results.scores["asked_as"]} == {"limit=5", f"limit=5; tries={TRIES}"}
    for run, number in results.runs["tries"].items():
        (kept,) = models.collect_replies(keep_runs(results, [run])).values()
        assert (kept["number"], kept["unread"]) == (len(NEEDED), 1 if number else 3)
        assert kept["shown"][0]["reply"] == f"{MUMBLED} 1"


@pytest.mark.parametrize(
    ("task", "way", "text"),
    [
        ("epidemia_intervention_tuebingen", "knowledge_written", "no"),
        (STATED, "stated", "A: 30\nB: 70"),
        (STATED, "sampled", "A"),
        ("epidemia_high_nsduh_marijuana_ever_by_age_sex", "closed", "C"),
        ("epidemia_prior_nhanes", "direct", "<prior>1, 2</prior>"),
        ("epidemia_prior_nhanes", "quantile", ""),
    ],
)
def test_in_every_written_way_the_first_that_can_be_read_counts(task, way, text):
    row = split(task, way, Variant(n_samples=8))[0]
    found = choose_reply(WAYS[way], row, [MUMBLED, text, "no such thing"])
    assert (found, found.tries) == ((text, 2) if text else (MUMBLED, 3))


def test_every_written_way_can_be_asked_again_and_no_other():
    written = [name for name, way in WAYS.items() if way.generated]
    files = yamls.render(variant=Variant(tries=TRIES), chosen=lambda way: way.name in written)
    for way in written:
        (base,) = (text for text in files.values() if f"hooks.first_read_{way}\n" in text)
        assert f"repeats: {TRIES}\n" in base and "metric: tries\n    aggregation: mean\n" in base


def test_ways_and_others_tasks_are_told_apart():
    """Others' repeats are all asked, in one go; ours one after the other until one is read."""
    row, batches = split(TASK, WAY)[0], []

    def request(name, temperature):
        args = "text", {"temperature": temperature, "do_sample": False}
        return SimpleNamespace(task_name=name, doc=row, args=args)

    def ask(requests, tried):
        assert tried == len(batches)
        batches.append(requests)
        return ["yes" if len(batches) == 2 else "?"] * len(requests)

    ours, greedy, other = request(NAME, 0.5), request(NAME, 0), request("theirs", 0)
    asked = [ours, other, ours, other, ours, greedy, greedy]
    assert ask_until_read(asked, {NAME: WAYS[WAY]}, ask) == ["?", "?", "yes", "?", "", "?", "yes"]
    first, second = ([request.task_name for request in batch] for batch in batches)
    assert (first, second) == ([NAME, "theirs", "theirs", NAME], [NAME, NAME])
    sent = [request.arguments for request in batches[1]]
    assert sent == [("text", {"temperature": t, "do_sample": True}) for t in (0.4995, 0.999)]


@pytest.mark.slow
def test_transformers_draws_further_tries(tiny_llama):
    """Weights are random: nothing can be read, and what is drawn is another text each time."""
    how = {"model": "choice-hf", "gen_kwargs": {"max_gen_toks": 8}, "limit": 1}
    how["model_args"] = f"pretrained={tiny_llama},dtype=float32,device=cpu"
    found = evaluate([NAME], metadata={"tries": TRIES}, log_samples=True, **how)
    (sample,) = found["samples"][NAME]
    (written,) = sample["resps"]
    assert len(set(written)) == sample["tries"] == TRIES
    assert sample["filtered_resps"] == written[:1]
