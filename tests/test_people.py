"""Six shares that Americans guessed in 2000: the guesses, who is beaten, and the table."""

import numpy as np
import pytest
from recorded_runs import copied_run

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings import people
from lm_eval_epidemia.results.read import read_results
from lm_eval_epidemia.surveys.catalogue import record

TASK = "epidemia_people_census2000_"


def test_guesses_are_those_of_the_survey():
    """Means and answers of the GSS, as its codebook's counts give them (SOURCE.json)."""
    guesses = people.guesses()
    means = [round(np.average(guess, weights=n), 2) for guess, n in guesses.values()]
    assert (
        [*guesses]
        == [*people.guesses()]
        == ["white", "black", "jewish", "hispanic", "asian", "american_indian"]
    )
    assert means == [58.92, 31.48, 17.88, 24.68, 17.77, 14.21]
    assert [n.sum() for _, n in guesses.values()] == [1318, 1310, 1197, 1277, 1256, 1248]
    assert all(guess.min() >= 0 and guess.max() <= 100 for guess, _ in people.guesses().values())


def test_truths_are_the_figures_of_the_record():
    """Census 2000, table GCT-P6; Jewish people 5.2 million of 281.4 (NJPS)."""
    shares = [store.load(TASK + outcome).p[0, 0] for outcome in people.guesses()]
    assert shares == pytest.approx([0.751, 0.123, 0.018, 0.125, 0.036, 0.009], abs=1e-12)
    assert round(5.2 / 281.4, 3) == 0.018
    assert [task.outcome for task in record("census2000").declared] == list(people.guesses())


def test_the_nearer_figure_counts():
    assert people.off("white", 75.1, [75.1, 69.1, 72.0, 60.0]) == pytest.approx([0, 0, 2.9, 9.1])
    assert people.off("black", 12.3, 10.3) == pytest.approx(2.0)


def test_who_is_beaten_by_hand(monkeypatch):
    """Of ten people six are further off than 12, two as far, two nearer: 6 + 1 of 10."""
    guess, number = np.array([0.0, 10.0, 14.0, 22.0, 50.0]), np.array([1.0, 2.0, 1.0, 1.0, 5.0])
    monkeypatch.setattr(people, "guesses", lambda: {"asian": (guess, number)})
    # From the truth, 10: 10, 0, 4, 12 and 40 off; the answer 14 is 4 off.
    assert people.beaten("asian", 10.0, 14.0) == pytest.approx(100 * (1 + 1 + 5 + 0.5) / 10)


def test_models_stand_beside_the_average_american(tmp_path_factory, tmp_path):
    copied_run(tmp_path_factory, tmp_path, ["epidemia_people"], model_args="kind=truth")
    table = people.people(read_results([tmp_path])).table
    (truth, americans), single = (
        [of for _, of in table[table.question.isna() == whole].groupby("model", sort=False)]
        for whole in (True, False)
    )
    assert truth.beaten.item() == pytest.approx(100, abs=1) and truth.off.item() < 0.01
    assert americans.model.item() == "the average American of 2000 (baseline)"
    # Log-odds of 14 to 59 on those of .9 to 75 per cent: people guess towards one half.
    assert round(americans.slope.item(), 2) == 0.38
    assert [len(of) for of in single] == [6, 6]
    by_hand = single[1].set_index("question").answer
    assert by_hand["white"] == pytest.approx(58.92, abs=0.005)
