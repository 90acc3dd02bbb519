"""Readers: each converts the bytes of one file format to text with headings and positions."""
