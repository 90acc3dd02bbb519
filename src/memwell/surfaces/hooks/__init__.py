"""Recall and capture for agents that call commands at certain events: hooks."""
