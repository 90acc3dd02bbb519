"""The stores of a memory: contracts, and their engines SQLite and PostgreSQL."""
