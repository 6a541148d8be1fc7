"""``numbered``: the answers in their natural order, with numbers instead of letters."""

from lm_eval_epidemia.ask.orderings import orderings
from lm_eval_epidemia.benchmarks.observation.letters import Letters


class Numbered(Letters):
    name = "numbered"
    suffix = "_numbered"

    def rows(self, truth, variant):
        order = orderings(len(truth.levels), "1")[0]
        numbered = enumerate(truth.levels, 1)
        answers = "\n".join(f"{number}. {level}" for number, level in numbered)
        for cell, question in enumerate(self.questions(truth, variant)):
            text = f"{question}\n{answers}\nAnswer:"
            yield {"cell": cell, "order": list(order), "design": "1", "prompt": text}

    def choices(self, truth):
        return [str(number) for number in range(1, len(truth.levels) + 1)]


WAY = Numbered()
