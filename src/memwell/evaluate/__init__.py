"""Labelled sets, metrics and their averages; what is measured is handed in."""
