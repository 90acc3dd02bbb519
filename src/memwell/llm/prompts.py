"""The prompts for language models.

A passage is data, even if it looks like instructions. It stands between marks that hold its digest,
so that nobody can write a mark into a text beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2s
from pathlib import Path


def extract_prompt(passage: str, path: str, categories: Sequence[str]) -> tuple[str, str]:
    """Return the system part and the user part of the prompt that extracts facts."""
    system = _read("extract_prompt.txt").replace("CATEGORIES", ", ".join(categories))
    file = json.dumps(path, ensure_ascii=False)
    return system, f"The file is {file}.\n{_mark_text(passage)}\nThe facts, one JSON object a line:"


def hyde_prompt(query: str) -> tuple[str, str]:
    """Return both parts of the prompt for a hypothetical answer in the user's notes."""
    return _read("hyde_prompt.txt"), f"{_mark_text(query)}\nThe passage:"


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").rstrip("\n")


def _mark_text(text: str) -> str:
    digest = blake2s(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"<<<begin {digest}>>>\n{text}\n<<<end {digest}>>>"


def compare_prompt(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return both parts of the prompt that compares statements in pairs."""
    lines = [
        f"{number} older: {json.dumps(older, ensure_ascii=False)}"
        f"\n{number} newer: {json.dumps(newer, ensure_ascii=False)}"
        for number, (older, newer) in enumerate(pairs, 1)
    ]
    text = "\n".join(lines)
    return _read("compare_prompt.txt"), f"{_mark_text(text)}\nThe verdicts, one line a pair:"


def digest_prompt(notes: str) -> tuple[str, str]:
    """Return both parts of the prompt that summarises the notes of a week."""
    return _read("digest_prompt.txt"), f"{_mark_text(notes)}\nThe summary:"
