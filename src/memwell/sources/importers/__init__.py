"""Importers: each reads the export or the folder of one other program and plans what to add."""
