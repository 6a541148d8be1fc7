"""What a group costs."""

import pytest
from typer.testing import CliRunner

from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.cli import app
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.harness.cost import cost, tokenizer

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"


def run(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, EpidemiaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_the_cost_of_a_group_is_that_of_its_prompts(tiny_llama):
    loaded = tokenizer(tiny_llama)
    low, sampled, closed, stated = cost(
        ["epidemia_low_nsduh", f"{TASK}_sampled", "epidemia_high_meps_closed", f"{TASK}_stated"],
        loaded,
        {"n_samples": 20},
        max_gen_toks=50,
    )
    texts = [t for name in names("epidemia_low_nsduh") for t in split(name)["prompt"]]
    assert low[1:5] == (6, len(texts), 2 * len(texts), sum(map(len, texts)))
    assert low.tokens == sum(len(loaded(text).input_ids) for text in texts)
    assert low.written == 0
    # Distinct tokens: the nodes of the tree that all prompts of a task make, token by token.
    nodes = 0
    for name in names("epidemia_low_nsduh"):
        paths = set()
        for text in split(name)["prompt"]:
            ids = tuple(loaded(text).input_ids)
            paths |= {ids[:end] for end in range(1, len(ids) + 1)}
        nodes += len(paths)
    assert low.distinct == nodes < low.tokens
    texts = split(TASK, "sampled", Variant(n_samples=20))["prompt"][:]
    assert sampled[1:4] == (1, 220, 220)
    exact = sum(len(loaded(text).input_ids) for text in texts)
    assert sampled.tokens == pytest.approx(exact, rel=0.02)
    assert sampled.characters == pytest.approx(sum(map(len, texts)), rel=0.01)
    assert sampled.written == 220 * 50
    assert closed.prompts == closed.requests and closed.written == 50 * closed.prompts
    assert stated[1:4] == (1, 22, 22) and stated.written == 22 * 50


def names(group):
    from lm_eval_epidemia.benchmarks import members

    return [task for task, _ in members(group)]


def test_the_cost_of_a_variant():
    (plain,), (balanced,), (examples,) = (
        cost(["epidemia_low_gss"], metadata=metadata)
        for metadata in ({}, {"orderings": "balanced"}, {"fewshot": 2})
    )
    assert plain.prompts == 2 * balanced.prompts  # all have three answers: 6 orders, or 3
    assert plain.tokens is None
    assert examples.characters > plain.characters and examples.prompts == plain.prompts


def test_cost_on_the_command_line(tiny_llama):
    said = run("cost", "epidemia_high_rag", "--tokenizer", tiny_llama)
    assert "epidemia_high_rag" in said and "375" in said and "384,000" in said
    assert "every letter is one token" in said
    assert "choice-api" not in said  # the model writes
    said = run("cost", TASK)
    assert "to count tokens, give --tokenizer" in said and " tokens  " not in said
    assert "choice-api sends 22 requests (one per prompt, for one token each)" in said
    assert "local-completions 44" in said
    said = run("cost", f"{TASK},{TASK}", "epidemia_low_nsduh")
    rows = [line.split()[:4] for line in said.splitlines() if line.strip().startswith("epidemia_")]
    assert [row[0] for row in rows] == [TASK, "epidemia_low_nsduh"]
    assert f"choice-api sends {rows[1][2]} requests" in said  # the task is one of the group's
    with pytest.raises(EpidemiaError, match="expected a folder with a tokenizer"):
        run("cost", TASK, "--tokenizer", "/nowhere/at/all")
