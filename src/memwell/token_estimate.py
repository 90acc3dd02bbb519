"""How long a text is, in tokens, without anybody's tokenizer."""

from __future__ import annotations

import re

CHARACTERS_PER_TOKEN = 4
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)


def count_tokens(text: str) -> int:
    """Estimate the tokens of `text`: four characters are one, a CJK character is one."""
    return -(-quarter_tokens(text) // CHARACTERS_PER_TOKEN)


def quarter_tokens(text: str) -> int:
    """Return the size of `text` in quarter tokens."""
    return len(text) if text.isascii() else len(text) + 3 * len(_CJK.findall(text))
