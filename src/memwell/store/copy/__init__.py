"""Copying a memory from one store to another."""
