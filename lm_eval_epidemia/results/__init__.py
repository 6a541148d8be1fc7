"""What was answered: result files become runs with their settings, scores and samples.

`results` and `samples` read lm-eval's files, `runs` and `protocol` tell one run from another,
`naming` says in what they differ, `card` is what a tuned model says of its training.
"""
