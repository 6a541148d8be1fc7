"""Inspect's side: tasks, scorers and metrics, and the files that its register of evals wants.

Inspect finds them by the entry point in pyproject.toml, without lm-eval.
"""
