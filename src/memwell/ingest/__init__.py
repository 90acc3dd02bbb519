"""A file becomes rows: scan, read, chunk, sync, watch."""
