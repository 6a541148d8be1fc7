"""What a group costs before it is run."""

import pytest
from report_parts import COCAINE, command

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import find_tasks
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.harness.cost import cost, tokenizer


def test_the_cost_of_a_group_is_that_of_its_prompts(tiny_llama):
    loaded = tokenizer(tiny_llama)
    group, sampled = "epidemia_low_nsduh", f"{COCAINE}_sampled"
    asked = [group, sampled, "epidemia_high_meps_closed", f"{COCAINE}_stated"]
    low, drawn, closed, stated = cost(asked, loaded, {"n_samples": 20}, max_gen_toks=50)
    by_task = [[*split(name)["prompt"]] for name, _ in find_tasks(group)]
    ids = [[tuple(loaded(text).input_ids) for text in texts] for texts in by_task]
    prompts = sum(map(len, by_task))
    characters = sum(len(text) for texts in by_task for text in texts)
    assert low[1:5] == (6, prompts, 2 * prompts, characters) and low.written == 0
    assert low.tokens == sum(len(one) for of_task in ids for one in of_task)
    # Distinct tokens: the nodes of the tree that all prompts of a task make, token by token.
    nodes = [{one[:end] for one in of for end in range(1, len(one) + 1)} for of in ids]
    assert low.distinct == sum(map(len, nodes)) < low.tokens
    texts = split(COCAINE, "sampled", Variant(n_samples=20))["prompt"][:]
    assert drawn[1:4] == (1, 220, 220) and drawn.written == 220 * 50
    exact = sum(len(loaded(text).input_ids) for text in texts)
    assert drawn.tokens == pytest.approx(exact, rel=0.02)
    assert drawn.characters == pytest.approx(sum(map(len, texts)), rel=0.01)
    assert closed.prompts == closed.requests and closed.written == 50 * closed.prompts
    assert stated[1:4] == (1, 22, 22) and stated.written == 22 * 50
    plain, balanced, examples = (
        cost(["epidemia_low_gss"], metadata=metadata)[0]
        for metadata in ({}, {"orderings": "balanced"}, {"fewshot": 2})
    )
    assert plain.prompts == 2 * balanced.prompts  # all have three answers: 6 orders, or 3
    assert examples.characters > plain.characters and examples.prompts == plain.prompts


def test_cost_on_the_command_line(tiny_llama):
    shown = command("cost", "epidemia_high_rag", "--tokenizer", tiny_llama)
    assert all(said in shown for said in ("375", "384,000"))
    assert "choice-api" not in shown  # the model writes
    shown = command("cost", f"{COCAINE},{COCAINE}", "epidemia_low_nsduh")
    rows = [line.split()[:4] for line in shown.splitlines() if line.strip().startswith("epidemia_")]
    assert [row[0] for row in rows] == [COCAINE, "epidemia_low_nsduh"]
    assert f"choice-api sends {rows[1][2]} requests" in shown  # the task is one of the group's
    assert "to count tokens, give --tokenizer" in shown and " tokens  " not in shown
    assert f"local-completions {2 * int(rows[1][2])}" in shown
