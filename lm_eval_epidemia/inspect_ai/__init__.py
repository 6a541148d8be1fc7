"""Support for Inspect: tasks, scorers and metrics, and the files for its register of evals.

Inspect finds them by the entry point in pyproject.toml, without lm-eval.
"""
