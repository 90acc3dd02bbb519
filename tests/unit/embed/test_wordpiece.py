"""memwell's two WordPiece tokenizers return the tokens of the package `tokenizers`."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memwell.embed.wordpiece import MULTILINGUAL, UNCASED, WordPiece
from tests.conftest import EXAMPLES

pytest.importorskip("tokenizers", reason="tokenizers, to compare with, is not installed")


BOTH = pytest.mark.parametrize("ours", [UNCASED, MULTILINGUAL], ids=["uncased", "multilingual"])


@cache
def theirs(ours: WordPiece) -> Any:
    """The same tokenizer; special tokens in a text are plain text, as in memwell."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    model = models.WordPiece(ours.vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    if ours is UNCASED:
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        accents_stay = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), accents_stay])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]
        )
    return tokenizer


def expect_equal(ours: WordPiece, text: str) -> None:
    expected = theirs(ours).encode(text, add_special_tokens=False).ids
    assert ours.encode(text) == expected, [f"U+{ord(character):04X}" for character in text[:9]]


def known_to_both(character: str) -> bool:
    """Whether both put the character into the same category.

    Their tables are older than Python's, and where one of their CJK blocks begins is mistyped.
    """
    if unicodedata.normalize("NFKC", character) != unicodedata.ucd_3_2_0.normalize(
        "NFKC", character
    ):
        return False
    now = unicodedata.category(character)
    before = unicodedata.ucd_3_2_0.category(character)
    letter_since = before == "Cn" and now[0] not in "CMP"
    return (
        now not in ("Cs", "Cn")
        and (now == before or letter_since)
        and not "\U0002b820" <= character <= "\U0002b91f"
    )


WRITABLE = st.characters(exclude_categories=["Cs", "Cn"]).filter(known_to_both)
SCRIPTS = st.sampled_from(
    [
        *"aZß İıſﬁ１é\u0301ñåøŁđ",
        *"中文日本語かなカナー한국어ไทยहिन्दीعربي",
        *"😀👩🏽‍💻🇩🇪❤️",
        *"\0\t\n\r\v\f\x1c\x7f\x85\u00a0\u00ad\u200b\u200d\u2028\u2029\u3000\ufeff\ufffd\ue000",
        *"!?.,;:'\"()[]{}<>#*_-–—…“”«»$€+=^`|~¿、。・",
        "[CLS]",
        "[UNK]",
        "##ing",
        "unaffable",
    ]
)


@BOTH
@given(text=st.text(WRITABLE))
@example(text="\u1e9e\u0130")
def test_any_text_has_the_same_tokens(ours: WordPiece, text: str) -> None:
    expect_equal(ours, text)


@BOTH
@given(text=st.lists(SCRIPTS).map("".join))
def test_texts_of_many_scripts_have_the_same_tokens(ours: WordPiece, text: str) -> None:
    expect_equal(ours, text)


@BOTH
@given(word=st.text("abcdefghijklmnopqrstuvwxyz", min_size=90, max_size=110))
def test_long_words_have_the_same_tokens(ours: WordPiece, word: str) -> None:
    expect_equal(ours, word)


@BOTH
def test_a_word_is_unknown_from_101_letters_on(ours: WordPiece) -> None:
    assert ours.encode("a" * 100) != [ours.unknown]
    assert ours.encode("a" * 101) == [ours.unknown]


@BOTH
@pytest.mark.parametrize("block", range(0, 0x30000, 0x1000), ids=hex)
def test_every_character_has_the_same_tokens(ours: WordPiece, block: int) -> None:
    """Between two letters, so that a dropped character differs from one that separates words."""
    for character in filter(known_to_both, map(chr, range(block, block + 0x1000))):
        expect_equal(ours, f"a{character}b")


@BOTH
def test_the_example_notes_have_the_same_tokens(ours: WordPiece) -> None:
    notes = list(EXAMPLES.rglob("*.md"))
    assert notes
    for note in notes:
        expect_equal(ours, note.read_text(encoding="utf-8"))
