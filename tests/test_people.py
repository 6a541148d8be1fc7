"""Six shares that Americans guessed in 2000: the guesses, who is beaten, and the table."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import recorded

from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings import people
from lm_eval_epidemia.surveys.catalogue import record

TASK = "epidemia_people_census2000_"


def test_guesses_are_those_of_the_survey():
    """Means and answers of the GSS, as its codebook's counts give them (SOURCE.json)."""
    means = {outcome: round(people.mean_guess(outcome), 2) for outcome in people.QUESTIONS}
    assert means == {
        "white": 58.92,
        "black": 31.48,
        "jewish": 17.88,
        "hispanic": 24.68,
        "asian": 17.77,
        "american_indian": 14.21,
    }
    numbers = {outcome: int(n.sum()) for outcome, (_, n) in people.guesses().items()}
    assert numbers == {
        "white": 1318,
        "black": 1310,
        "jewish": 1197,
        "hispanic": 1277,
        "asian": 1256,
        "american_indian": 1248,
    }
    assert all(guess.min() >= 0 and guess.max() <= 100 for guess, _ in people.guesses().values())


def test_truths_are_the_figures_of_the_record():
    """Census 2000, table GCT-P6; Jewish people 5.2 million of 281.4 (NJPS)."""
    shares = {o: store.load(TASK + o).p[0, 0] for o in people.QUESTIONS}
    assert shares == pytest.approx(
        {
            "white": 0.751,
            "black": 0.123,
            "jewish": 0.018,
            "hispanic": 0.125,
            "asian": 0.036,
            "american_indian": 0.009,
        },
        abs=1e-12,
    )
    assert round(5.2 / 281.4, 3) == 0.018
    assert [task.outcome for task in record("census2000").declared] == list(people.QUESTIONS)


def test_the_nearer_figure_counts():
    assert people.off("white", 75.1, [75.1, 69.1, 72.0, 60.0]) == pytest.approx([0, 0, 2.9, 9.1])
    assert people.off("black", 12.3, 10.3) == pytest.approx(2.0)


def test_who_is_beaten_by_hand(monkeypatch):
    """Of ten people six are further off than 12, two as far, two nearer: 6 + 1 of 10."""
    guess, number = np.array([0.0, 10.0, 14.0, 22.0, 50.0]), np.array([1.0, 2.0, 1.0, 1.0, 5.0])
    monkeypatch.setattr(people, "guesses", lambda: {"asian": (guess, number)})
    # From the truth, 10: 10, 0, 4, 12 and 40 off; the answer 14 is 4 off.
    assert people.beaten("asian", 10.0, 14.0) == pytest.approx(100 * (1 + 1 + 5 + 0.5) / 10)
    assert people.mean_guess("asian") == pytest.approx((20 + 14 + 22 + 250) / 10)


def test_the_report_has_the_table(tmp_path):
    out = tmp_path / "out"
    recorded(out, ["epidemia_people"])
    command = [sys.executable, "-m", "lm_eval_epidemia.cli", "report", str(out), "--people"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    table = done.stdout.split("Compared with the guesses of Americans")[1]
    assert "the average American of 2000" in table and "100 %" in table
    means = next(line for line in table.splitlines() if "average American" in line)
    # Log-odds of 14 to 59 on those of .9 to 75 per cent: people guess towards one half.
    assert "0.38" in means
