"""The lm-eval side: hooks that task files name, discovery, models, and the commands that run it."""
