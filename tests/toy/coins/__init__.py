"""The toy benchmark: how probable are heads?"""

from lm_eval_epidemia.benchmarks.coins.coin import TASKS, WAY
from lm_eval_epidemia.benchmarks.coins.metrics import measure

from lm_eval_epidemia.ask.way import Metric
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry


class Coins(Benchmark):
    name = "coins"
    base = "_coins"
    groups = ("epidemia_coin",)
    ways = {WAY.name: WAY}
    primary = "squared_error"
    says = "Squared error of stated probabilities"
    digits = 3
    measure = staticmethod(measure)

    def entries(self):
        return {
            name: TaskEntry(
                name, "epidemia_coin", "", f"{one.tosses} tosses", {"tosses": str(one.tosses)}, name
            )
            for name, one in TASKS.items()
        }

    def available(self):
        return TASKS

    def metrics(self, way):
        return {"squared_error": Metric(False, 0, 1), **way.diagnostics}

    def metadata(self, truth):
        return {"truth": truth.fingerprint}


COINS = Coins()
