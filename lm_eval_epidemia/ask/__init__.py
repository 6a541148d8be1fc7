"""Asking and reading: orderings, prompts, wordings, variants, and what a way of asking is.

`way` defines what every way of asking provides: prompts from a truth, an answer from a response,
distributions from the answers of a task. `responses` reads log-probabilities, `replies` reads
written text. Nothing here depends on models, lm-eval or scores.
"""
