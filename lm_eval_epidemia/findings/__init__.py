"""What follows from runs: means and ranks, paired comparisons, interventions, priors.

`leaderboard` puts a report's runs together, `means` averages tasks, `comparison` sets two runs or
two ways of asking against each other, `ranks` follows from that, `data` has the rows of figures.
"""
