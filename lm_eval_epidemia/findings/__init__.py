"""What follows from results: one function per finding; `FINDINGS` is their table."""
