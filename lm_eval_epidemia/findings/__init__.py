"""What follows from runs: means and ranks, paired comparisons, interventions, priors."""
