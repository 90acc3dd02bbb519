"""OpenAI's files and vector stores over HTTP."""
