"""Support for Inspect: tasks, scorers and metrics.

Inspect finds them by the entry point in pyproject.toml, without lm-eval.
"""
