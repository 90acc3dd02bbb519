"""Recall and capture for agents that run commands at certain events (hooks)."""
