"""Where memwell is used from: each surface calls `Memory` and decides nothing."""
