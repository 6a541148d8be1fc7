"""The toy benchmark's record, as it would stand in ``benchmarks.py``."""

from lm_eval_epidemia.elicit.ways.coin import TASKS

from lm_eval_epidemia.benchmarks import Benchmark, Entry
from lm_eval_epidemia.score import coins

COINS = Benchmark(
    name="coins",
    base="_coins",
    groups=("epidemia_coin",),
    ways=("coin",),
    metrics=coins.metrics_of,
    primary="squared_error",
    says="Squared error of stated probabilities",
    digits=3,
    entries=lambda: {
        name: Entry(
            name, "epidemia_coin", "", f"{one.tosses} tosses", {"tosses": str(one.tosses)}, name
        )
        for name, one in TASKS.items()
    },
    available=lambda: TASKS,
    metadata=lambda coin: {"truth": coin.fingerprint},
    version=lambda coin: 1,
    groups_version=1,
)
