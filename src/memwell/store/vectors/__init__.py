"""Vector search beside SQLite: scan, snapshot, sqlite-vec, LanceDB."""
