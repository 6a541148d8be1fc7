"""The lm-eval side: hooks that task files name, discovery, guard, cost, task files.

It gets tasks, ways and metrics only from `benchmarks`. The one other room that uses lm-eval is
`models`.
"""
