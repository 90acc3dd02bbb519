"""Whether a prompt names a subject: something that a memory could be about.

"Yes, do it", "continue" and "commit this and push" do not. They consist of function words, of
acknowledgements and of orders about the work at hand, which order_words.txt lists by language.
"""

from __future__ import annotations

from pathlib import Path

from memwell.store.words.function_words import has_other_words, read_words


def has_subject(prompt: str) -> bool:
    """Whether a prompt has a word besides those of its grammar, acknowledgements and orders."""
    return has_other_words(prompt, read_words(Path(__file__).with_name("order_words.txt")))
