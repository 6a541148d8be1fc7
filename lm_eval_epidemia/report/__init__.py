"""What it means: results read and compared, figures, the site, data cards of the surveys.

`results` and `samples` read lm-eval's files, `leaderboard` compares, `output` makes tables, `data`
the rows of figures, `charts` and `site` (with the extra ``report``) draw them. Numbers are those of
a benchmark's primary metric, whichever it is and in its own direction.
"""
