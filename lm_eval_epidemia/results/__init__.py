"""Turn result files into runs with their settings, scores and samples.

`results` and `samples` read lm-eval's files, `runs` and `protocol` tell one run from another,
`naming` names them by their differences, `card` describes the training of a tuned model.
"""
