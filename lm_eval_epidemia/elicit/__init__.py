"""How it is asked: questions, answer orderings, and the datasets made of both; what comes back.

`ways` holds the ways of asking, a file each: from a truth to prompts, from a response to an answer,
from the answers of a task to distributions. `splits` makes a dataset of a task in a way. Nothing
here knows a model, lm-eval, or how well somebody answered.
"""
