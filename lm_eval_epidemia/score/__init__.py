"""Scoring shared by all benchmarks: anchors, scores, joint errors, means with their errors.

`collect` arranges the answers of a task by cell and prompt, for every way of asking. Nothing here
depends on lm-eval or on the wording of a prompt.
"""
