"""How often: from microdata to ground truth P(Y | X), its sampling error, and the files of both."""
