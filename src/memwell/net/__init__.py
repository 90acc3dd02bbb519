"""JSON over HTTP: one client, one way to read errors, one retry policy."""
