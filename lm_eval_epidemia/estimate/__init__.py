"""How often: from microdata to ground truth P(Y | X), its sampling error, and the files of both.

`prepare` (or `published.load_shares`) says what a task is made from, an estimator (`estimators`,
`published`) fits it, `estimator.estimate_task` adds the sampling error, and `build` does this for
all tasks of a survey. `write` and `registry` put down what comes out, `store` reads it, `check`
doubts it. What is kept are aggregates, never a person's record, and the same inputs give the same
bytes.
"""
