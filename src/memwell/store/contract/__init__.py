"""The contract of every store: protocols that SQLite and PostgreSQL implement, and their values.

The docstring of a method stands in its protocol; an implementation, which names the protocol as its
base class, repeats it only where it adds something.
"""
