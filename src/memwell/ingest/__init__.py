"""A file becomes a note with chunks: scan, parse, chunk, sync, watch."""
