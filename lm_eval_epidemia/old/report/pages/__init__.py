"""The contents of the site's pages: a file per page, with values for the template of its name."""
