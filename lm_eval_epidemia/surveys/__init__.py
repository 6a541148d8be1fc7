"""What the world recorded: one declarative record per survey, and the readers for raw files."""
