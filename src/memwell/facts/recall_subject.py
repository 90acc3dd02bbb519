"""Whether a prompt names a subject, something that a memory could be about, and how clearly.

"Yes, do it", "continue" and "commit this and push" do not. They consist of function words, of
acknowledgements and of orders about the work at hand, which order_words.txt lists by language. The
more of a prompt is such words ("make the tests pass"), the more relevant a memory has to be.
"""

from __future__ import annotations

from pathlib import Path

from memwell.store.words.function_words import count_content_words, read_words

_RISE = 0.5
"""How far the threshold is raised for a prompt of orders, as a share of the way to 1."""


def has_subject(prompt: str) -> bool:
    """Whether a prompt has a word besides those of its grammar, acknowledgements and orders."""
    return _count_words(prompt)[1] > 0


def least_relevance(prompt: str, min_score: float) -> float:
    """Return the relevance that a memory needs to be recalled, `min_score` or more."""
    content, of_subject = _count_words(prompt)
    orders = 1 - of_subject / content if content else 0.0
    return min_score + _RISE * orders * (1 - min_score)


def _count_words(prompt: str) -> tuple[int, int]:
    return count_content_words(prompt, read_words(Path(__file__).with_name("order_words.txt")))
