"""Keyword search without an engine: normalising, the query as a tree, ranking."""
