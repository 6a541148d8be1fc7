"""How well: pure numpy on probabilities. Nothing here knows of lm-eval's classes or of prompts."""
