"""The tolerance of the numeric tests: above every rounding, far below every fault."""

import numpy as np
import pytest
import rounding

from lm_eval_epidemia.benchmarks.splits import split

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.rounding

TASK = "epidemia_low_nsduh_cocaine_ever_by_age"


@pytest.fixture(scope="module")
def network(tiny_llama):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    rows = [tokenizer(prompt).input_ids for prompt in split(TASK)["prompt"]]
    return AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32), rows


def last(model, ids, **more):
    """Log-probabilities of all tokens after a prompt."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]), **more).logits[0, -1]
    return torch.log_softmax(logits.double(), -1).numpy()


def test_rounding_stays_below_it(network):
    """Against the same network in double precision: every rounding of float32, in any order."""
    model, rows = network
    found = [last(model, ids) for ids in rows]
    exact = [last(model.double(), ids) for ids in rows]
    model.float()
    for one, other in zip(found, exact, strict=True):
        may = [rounding.log_probability([x]) for x in other]
        assert (abs(one - other) <= may).all()
        assert (abs(one - other) > 0).any()


@pytest.mark.parametrize(
    "fault",
    [
        lambda ids: (ids[1:], {}),  # the first token lost
        lambda ids: (ids[:-1], {}),  # read one position too early
        lambda ids: ([0, *ids], {}),  # padding that is seen
        lambda ids: (ids, {"position_ids": torch.tensor([[0, *range(2, len(ids) + 1)]])}),
    ],
)
def test_faults_lie_far_above_it(network, fault):
    model, rows = network
    for ids in rows:
        right = last(model, ids)
        wrong, more = fault(ids)
        may = np.array([rounding.log_probability([x]) for x in right])
        assert np.median(abs(last(model, wrong, **more) - right) / may) > 20


def test_metrics_move_no_further_than_their_bound():
    """A score's bound by brute force: letters moved up and down by what the bound allows."""
    rng, apart = np.random.default_rng(3), 0.01
    for _ in range(200):
        levels = int(rng.integers(2, 6))
        truth, q = rng.dirichlet(np.ones(levels)), rng.dirichlet(np.ones(levels))
        moved = q * np.exp(rng.choice([-apart, apart], levels))
        moved /= moved.sum()
        change = abs(abs(moved - truth).sum() - abs(q - truth).sum())
        assert change <= rounding.metric("l1", apart)
        assert 100 * change / 0.3 <= rounding.metric("score", apart, 0.3)
