"""An estimate of the number of tokens in a text, without a tokenizer."""

from __future__ import annotations

import re

from memwell.scripts import ONE_TOKEN_EACH

CHARACTERS_PER_TOKEN = 4
_ONE_TOKEN_EACH = re.compile(f"[{ONE_TOKEN_EACH}]")


def count_tokens(text: str) -> int:
    """Estimate the tokens of `text`: four characters are one, a CJK character is one."""
    return -(-quarter_tokens(text) // CHARACTERS_PER_TOKEN)


def quarter_tokens(text: str) -> int:
    """Estimate the size of `text` in quarters of a token."""
    return len(text) if text.isascii() else len(text) + 3 * len(_ONE_TOKEN_EACH.findall(text))
