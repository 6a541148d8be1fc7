"""How it is asked: questions, answer orderings, and the datasets made of both."""
