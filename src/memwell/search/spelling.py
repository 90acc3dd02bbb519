"""Spelling suggestions: words of the vocabulary that are similar to a typed word."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Vocabulary = Callable[[int, int], Iterable[str]]
"""Returns the tokens with a length between two numbers, also some that the viewer cannot see."""


def find_nearest(
    word: str,
    vocabulary: Vocabulary,
    document_frequency: Callable[[str], int],
    most: int = 3,
    most_edits: int = 2,
) -> list[str]:
    """Return the tokens with the fewest edits from `word`; ties by frequency.

    Tokens that occur only where the viewer cannot see them are left out before they are ranked.
    """
    allowed = min(most_edits, 1 if len(word) < 5 else 2)
    letters, middle = set(word), len(word) // 2
    first, second = word[:middle], word[middle:]
    swapped = word[: middle - 1] + word[middle : middle + 1] + word[middle - 1 : middle]
    found = []
    for token in vocabulary(len(word) - allowed, len(word) + allowed):
        # One edit leaves a half as it is, unless it swaps the letters between the halves.
        if allowed == 1 and not (token.startswith((first, swapped)) or token.endswith(second)):
            continue
        if len(letters.symmetric_difference(token)) <= 2 * allowed:
            edits = distance(word, token, allowed)
            if 0 < edits <= allowed and (frequency := document_frequency(token)):
                found.append((edits, -frequency, token))
    return [token for _, _, token in sorted(found)[:most]]


def distance(a: str, b: str, limit: int) -> int:
    """Count the edits from `a` to `b` (insert, delete, replace, swap neighbours).

    Anything above `limit` is reported as ``limit + 1``.
    """
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, above, row = row, before, [i]
        for j, other in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
