"""Facts: remember, supersede, expire, forget; export and import; recall for a prompt."""
