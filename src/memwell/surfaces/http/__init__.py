"""The memory over HTTP: JSON for every verb, and the vector stores of OpenAI's interface."""
