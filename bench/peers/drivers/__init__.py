"""One module for each store: how it stores passages with given vectors, and how it searches them.

Each has `VECTORS` (the form in which it takes vectors), `READS` (the parts of `Passages` that it
writes), `build(folder, passages)` and `connect(folder, passages)`. The latter returns a function
that takes a question, its vector and a number of passages, and returns the ids of the passages
found, best first.
"""
