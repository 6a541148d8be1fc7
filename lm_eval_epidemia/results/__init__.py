"""Turn result files into two tables, runs and scores, and compare what is in them.

`read` makes the tables of what `files` and `file` read, `naming` names models, `choose` selects,
`compare`, `pool` and `ranks` compare, `samples` and `documents` read what was answered.
"""
