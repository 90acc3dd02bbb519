"""Speed, memory and quality of memwell, measured: run `python -m bench` (see README.md)."""
