"""Old names of hooks, for task files that version 0.1.0 wrote; new ones are in `benchmarks`."""
