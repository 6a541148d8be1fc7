"""The lm-eval side: hooks that task files name, discovery, models, and the commands that run it.

Only this room imports lm-eval. It learns of tasks, ways and metrics from `benchmarks` alone.
"""
