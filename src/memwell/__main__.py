"""`python -m memwell` is `memwell`."""

from memwell.surfaces.cli import main

main()
