"""Present findings: tables, figures, the site, data cards of the surveys.

`output` writes findings as tables and rows; `charts` and `site` (with the extra ``report``) draw
them. Numbers are a benchmark's primary metric, in its own direction.
"""
