"""The page for people: server-rendered views of a memory, and a small script."""
