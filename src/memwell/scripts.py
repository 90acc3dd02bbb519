"""Scripts that are written without spaces between words: sets of characters for regex classes."""

from __future__ import annotations

IDEOGRAPHIC = (
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\uf900-\ufaff"
    "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3\U00020000-\U0003ffff"
)
"""Chinese, Japanese, Yi and Korean. Korean has spaces, but its particles stick to the noun
(회의 + 를), so that pairs of characters find words that whole words miss."""

HIRAGANA = "\u3041-\u309f"
"""The Japanese letters of particles and endings."""

ALPHABETIC = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u0f40-\u0fbc\u1000-\u103f\u1050-\u108f"
    "\u1780-\u17d3\u1950-\u1974\u1980-\u19c9\u1a20-\u1a7c\u1b00-\u1b4b\ua980-\ua9c0\uaa60-\uaa7f"
    "\uaa80-\uaadf"
)
"""Letters of Thai, Lao, Tibetan, Myanmar, Khmer and related scripts."""

UNSPACED = IDEOGRAPHIC + ALPHABETIC
"""The letters that keyword search indexes in pairs, and that count as words of their own when two
texts are compared. Punctuation and digits are not among them."""

ONE_TOKEN_EACH = (
    "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Characters that models spend about one token on: whole blocks of Chinese, Japanese and Korean.
Unlike `UNSPACED` they contain punctuation such as 。 and exclude Thai, whose letters share tokens.
Chunk sizes depend on this set: if it changes, raise `CHUNKER_VERSION`."""
