"""memwell beside other local memories and vector stores, with the same passages and vectors.

`compare` runs on memwell's own environment. `child` and `drivers` run in the environment of each
peer, so that they import nothing of memwell (only the driver of memwell does).
"""
