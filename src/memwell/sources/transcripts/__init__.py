"""Sessions of agents as notes: found where each tool keeps them, read from where it was left."""
