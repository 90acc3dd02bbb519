"""A query becomes hits: parse, rank, mark, suggest."""
