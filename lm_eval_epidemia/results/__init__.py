"""Turn result files into two tables, runs and scores, and choose among them.

`read` makes the tables of what `collect` and `decode` read, `naming` names models, `choose`
selects and pairs, `samples` and `documents` read what was answered.
"""
