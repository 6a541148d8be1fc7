"""``numbered``: the answers in their natural order, with numbers instead of letters."""

from dataclasses import replace

from lm_eval_epidemia.benchmarks.observation import letters
from lm_eval_epidemia.elicit.orderings import orderings
from lm_eval_epidemia.elicit.wording import Wording


def rows(truth, variant):
    order = orderings(len(truth.levels), "1")[0]
    answers = "\n".join(f"{number}. {level}" for number, level in enumerate(truth.levels, 1))
    for cell in range(len(truth.given)):
        text = f"{Wording(truth).question(cell)}\n{answers}\nAnswer:"
        yield {"cell": cell, "order": list(order), "design": "1", "prompt": text}


WAY = replace(
    letters.WAY,
    name="numbered",
    suffix="_numbered",
    rows=rows,
    choices=lambda truth: [str(number) for number in range(1, len(truth.levels) + 1)],
    read=lambda row, said: letters.read(row, said)._replace(way="numbered"),
)
