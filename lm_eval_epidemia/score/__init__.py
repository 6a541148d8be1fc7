"""How well: distances, scores, their errors, and the metrics of a task's answers.

`score`, `monte_carlo`, `confidence` and `respondents` are pure functions of arrays. `collect` and
`metrics` put the answers of a task, whatever the way of asking, against its truth. Nothing here
knows lm-eval or the wording of a prompt.
"""
