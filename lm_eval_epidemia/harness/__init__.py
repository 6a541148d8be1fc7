"""The lm-eval side: hooks that task files name, discovery, guard, cost, task files.

It learns of tasks, ways and metrics from `benchmarks` alone. Of the other rooms, only `models`
knows lm-eval.
"""
