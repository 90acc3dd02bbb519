"""Dictionaries of everyday English words, written for `training.korean` and `training.russian`."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def read_words(language: str) -> dict[str, dict[str, list[str]]]:
    """Return the words of each English one, by section."""
    sections: dict[str, dict[str, list[str]]] = {}
    text = Path(__file__).with_name(f"{language}_words.txt").read_text(encoding="utf-8")
    section: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif not line.startswith("#"):
            for entry in line.split(";"):
                english, _, found = entry.partition(":")
                words = [word.strip().replace("_", " ") for word in found.split(",")]
                section[english.strip()] = words
    return sections
