"""The toy benchmark: how probable are heads?"""

from lm_eval_epidemia.benchmarks.coins.coin import TASKS, WAY
from lm_eval_epidemia.benchmarks.coins.metrics import metrics_of

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.elicit.way import by_name

COINS = Benchmark(
    name="coins",
    base="_coins",
    groups=("epidemia_coin",),
    ways=by_name(WAY),
    metrics=metrics_of,
    primary="squared_error",
    says="Squared error of stated probabilities",
    digits=3,
    entries=lambda: {
        name: TaskEntry(
            name, "epidemia_coin", "", f"{one.tosses} tosses", {"tosses": str(one.tosses)}, name
        )
        for name, one in TASKS.items()
    },
    available=lambda: TASKS,
    metadata=lambda coin: {"truth": coin.fingerprint},
    version=lambda coin: 1,
    groups_version=1,
)
