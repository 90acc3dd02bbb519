"""Stores: one contract, two engines (SQLite, PostgreSQL), and the copy from one to the other."""
