"""The languages of the page: English in the templates, the others in languages/*.json.

A catalogue maps each English text to its translation. The cookie `language` chooses one, else the
browser's Accept-Language does. Messages of the memory itself (errors, notices) are in English.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

LANGUAGES = {"en": "English", "de": "Deutsch", "zh": "中文"}
COOKIE = "language"
_FOLDER = Path(__file__).parent / "languages"


@cache
def read_catalogue(language: str) -> Mapping[str, str]:
    """Return the translations of a language; English needs none."""
    if language == "en":
        return {}
    texts: dict[str, str] = json.loads((_FOLDER / f"{language}.json").read_text(encoding="utf-8"))
    return texts


def choose_language(cookies: Mapping[str, str], accepted: str) -> str:
    """Return the language of a request: that of the cookie, else the best that is accepted."""
    chosen = cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    wishes = []
    for number, item in enumerate(accepted.split(",")[:20]):
        name, _, quality = item.partition(";q=")
        try:
            wishes.append((-float(quality or 1), number, name.strip().lower().partition("-")[0]))
        except ValueError:
            continue
    return next((name for _, _, name in sorted(wishes) if name in LANGUAGES), "en")


class Translator:
    """Translates the texts of templates into one language; values are escaped, texts are HTML."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._texts = read_catalogue(language)

    def __call__(self, text: str, /, **values: Any) -> Markup:
        """Return the translation of an English text, with values in place of {names}."""
        return Markup(self._texts.get(text, text)).format(**values)

    def count(self, number: int, one: str, many: str) -> Markup:
        """Return the translation of one of two texts, in which {n} is the number."""
        return self(one if number == 1 else many, n=number)
