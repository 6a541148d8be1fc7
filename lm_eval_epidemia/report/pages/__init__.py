"""What each page of the site shows: a file per page, values for the template of its name."""
