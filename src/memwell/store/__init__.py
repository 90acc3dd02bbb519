"""What is kept, and how it is found again: SQLite and FTS5."""
