"""The page for people: server-rendered views of a memory, with a little script."""
