"""What it looks like: tables, figures, the site, data cards of the surveys.

`output` lays findings out as tables and rows, `charts` and `site` (with the extra ``report``) draw
them. Numbers are those of a benchmark's primary metric, in its own direction.
"""
