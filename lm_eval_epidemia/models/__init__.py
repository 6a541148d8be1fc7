"""Who answers: reference respondents, and fast models for Hugging Face, vLLM and servers."""
