"""Written replies are read: a letter, a share, a list of shares, numbers."""
