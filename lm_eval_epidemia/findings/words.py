"""Names of groups, scales and columns, for the terminal and for pages."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks import Benchmark
from lm_eval_epidemia.surveys.catalogue import own_surveys, record

#: What groups ask, in plain words.
PLAIN = {
    "epidemia_low": "single condition",
    "epidemia_high_standin": "two to five conditions, with stand-ins",
    "epidemia_high": "two to five conditions",
    "epidemia_extra": "more tasks",
    "epidemia_marginal": "no condition",
    "epidemia_joint": "two answers at once",
    "epidemia_fresh": "fresh tasks",
    "epidemia_prior": "stated prior",
}

#: What a question of a group says of the people.
EXAMPLES = {"epidemia_low": " (such as age)", "epidemia_high": " (such as age and sex)"}

#: What errors are of, by benchmark; of another, of its tasks.
ERRORS = {
    "observation": "survey sampling and answer orderings",
    "quick": "the prediction",
    "intervention": "the samples of names or graphs",
    "prior": "the choice of quantities",
}

CHOICE_MASS = "mean total probability of the answer letters (1 at best), in the group with least."


def plain_name(group: str) -> str:
    """Describe a group: "single condition", "single condition, likelihood"."""
    own = {f"epidemia_{survey}": record(survey).title for survey in own_surveys()}
    for name, says in (own | PLAIN).items():
        if f"{group}_".startswith(f"{name}_"):
            way = group.removeprefix(name).strip("_").replace("_", " ")
            return says + (f", {way}" if way else "")
    return group.removeprefix("epidemia_").replace("_", " ")


def with_example(group: str) -> str:
    """Describe a group, with an example of its conditions if one is listed."""
    return plain_name(group) + EXAMPLES.get(group, "")


def scale(benchmark: Benchmark) -> str:
    """Describe a benchmark's numbers, and the source of their errors."""
    source = f"of {ERRORS[benchmark.name]}" if benchmark.name in ERRORS else "over tasks"
    says = benchmark.says
    if benchmark.name == "observation":
        says = "Score, 0 to 100 (as close as another sample of the survey)"
    error = f" ± standard error ({source})" * benchmark.has_error
    return says + error + benchmark.heading.removeprefix(benchmark.says)
