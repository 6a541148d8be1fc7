"""Models: simulated respondents, and fast models for Hugging Face, vLLM and servers."""
