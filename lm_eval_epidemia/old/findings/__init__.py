"""Compute the findings of a report from runs: means, ranks, comparisons, interventions, priors.

`leaderboard` collects a report's runs, `means` averages tasks, `comparison` compares two runs or
two ways of asking, `ranks` builds on that, `data` has the rows of figures.
"""
