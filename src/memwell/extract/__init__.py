"""Facts out of text, by rules or by a chat model."""
