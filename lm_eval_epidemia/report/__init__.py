"""What it means: data cards of the surveys."""
