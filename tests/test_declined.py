"""Prompts that a server's content filter declines count as if they had not been asked."""

import json

import pytest
from conftest import evaluate
from lm_eval.utils import sanitize_list
from scripted_server import scripted

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.decode import Asked
from lm_eval_epidemia.results.samples import answers_in

TASK = "epidemia_low_acs_employer_by_sex"  # 48 prompts of 2 cells, 4 letters
AZURE = b'{"error": {"message": "The prompt triggered our policy", "code": "content_filter"}}'
FLAGGED = b'{"error": {"message": "requires moderation and your input was flagged"}}'
#: Statuses and bodies, and the finish reason of an answer.
FILTERS = {"azure": (400, AZURE), "openrouter": (403, FLAGGED), "in an answer": (200, AZURE)}
FILTERS["finish_reason"] = "filtered"


def run(server, tasks=(TASK,), more="", **arguments):
    given = f"base_url={server.url(False)},model=any,num_concurrent=2,pause=0.001{more}"
    return evaluate(
        list(tasks), model="choice-api", model_args=given, log_samples=True, **arguments
    )


def declining(bad, how="azure"):
    return scripted(fault=lambda text, times: FILTERS[how] if text in bad else None)


@pytest.mark.parametrize("how", FILTERS)
def test_a_declined_prompt_is_left_out_and_counted(how, tmp_path, caplog):
    """The first prompts that are asked, among them the one that finds out how to ask."""
    rows = sorted(split(TASK), key=lambda row: row["prompt"])
    bad = {rows[0]["prompt"], next(r["prompt"] for r in rows[1:] if r["cell"] == rows[0]["cell"])}
    with declining(bad, how) as server:
        found, again = (run(server, use_cache=f"{tmp_path}/kept") for _ in range(2))
        assert server.asked.total() == 48 and all(server.asked[text] == 1 for text in bad)
    row = found["results"][TASK]
    assert again["results"][TASK] == row and "declined 2 prompts, left out" in caplog.text
    assert [of["config"]["choice_api"]["declined"] for of in (found, again)] == [2, 2]
    if how != "azure":
        return
    # One of the two cells lacks prompts, as if they had not been asked.
    kept = [n for n, each in enumerate(split(TASK)) if each["prompt"] not in bad]
    with scripted() as server:
        expected = run(server, samples={TASK: kept})["results"][TASK]
    assert row == {**expected, "sample_len": row["sample_len"]} and 0.3 < row["seen,none"] < 0.7
    # And so it is read from samples.
    samples = found["samples"][TASK]
    for each in samples:
        each |= {name: sanitize_list(each[name]) for name in ("resps", "filtered_resps")}
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
    assert len(answers_in(tmp_path / "samples.jsonl", Asked(TASK, "letters"))) == 46


def test_a_run_of_which_too_much_is_declined_stops_with_the_reason(tmp_path):
    bad, cache = sorted(split(TASK)["prompt"])[-3:], {"use_cache": f"{tmp_path}/kept"}
    with declining(bad) as server:
        with pytest.raises(EpidemiaError, match=r"declines 3 prompts, more than 5% \(The prompt"):
            run(server)
        # One that goes on has little left but these, and ends.
        bad.pop()
        with pytest.raises(EpidemiaError, match="max_cost_tokens"):
            run(server, more=",max_cost_tokens=300", **cache)
        assert run(server, **cache)["config"]["choice_api"]["declined"] == 2


def test_a_task_that_is_declined_as_a_whole_has_no_score_and_others_keep_theirs():
    small = "epidemia_low_nsduh_heroin_ever_by_race"
    large = "epidemia_low_acs_employment_status_by_race"
    with declining({*split(small)["prompt"]}) as server:
        found = run(server, [small, large])["results"]
    assert "score,none" not in found[small] and found[large]["seen,none"] == 1
