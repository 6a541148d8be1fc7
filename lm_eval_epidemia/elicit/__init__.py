"""How it is asked and read: orderings, prompts, wordings, variants, and what a way of asking is.

`way` says what every way of asking has to say: from a truth to prompts, from a response to an
answer, from the answers of a task to distributions. `responses` reads log-probabilities, `replies`
what a model writes. Nothing here knows a model, lm-eval, or how well somebody answered.
"""
