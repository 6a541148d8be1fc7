"""``python -m lm_eval_epidemia.cli``: the command ``epidemia``."""

from lm_eval_epidemia.cli import main

if __name__ == "__main__":
    main()
