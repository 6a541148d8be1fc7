"""What was answered: result files become runs with their settings, scores and samples."""
