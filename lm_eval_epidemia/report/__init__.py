"""What it means: results read and compared, figures, the site, data cards of the surveys."""
