"""Sentences on the files beneath a workspace that are not indexed, with what takes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from memwell.ingest.readers.formats import EXTRA, Format, find_format, selected_formats
from memwell.ingest.scan import Selection, scan

_NAMED = 5
_UNSAID = frozenset({"code"})
"""A folder may have thousands of such files, and nobody takes them for notes."""


def describe_left_out(selection: Selection) -> tuple[str, ...]:
    """Return a sentence for each kind of file that is left out."""
    whole = scan(replace(selection, include=(*selection.include, ".")))
    taken = whole if "." in selection.include else scan(selection)
    selected = selected_formats(selection.formats)
    lines = []
    if beyond := [path for path in whole.files if path not in taken.files]:
        more = f" and {len(beyond) - _NAMED} more" if len(beyond) > _NAMED else ""
        lines.append(
            f"{_count(len(beyond), 'note')} not indexed: {', '.join(beyond[:_NAMED])}{more}."
            f" `memwell index {selection.root}` indexes all notes beneath this folder"
        )
    # A file that was named is taken although its format is not selected.
    named = Counter(find_format(path, selection.formats) for path in whole.files)
    for found, count in (whole.left_out | taken.left_out).items():
        left = count - (0 if found.suffixes[0] in selected else named[found])
        if left and found.name not in _UNSAID:
            lines.append(_describe(found, left))
    return tuple(lines)


def _describe(found: Format, count: int) -> str:
    if not found.is_installed:
        needs = "needs" if count == 1 else "need"
        files = f"{count} {found.label} file{'' if count == 1 else 's'}"
        return f"{files} {needs} {EXTRA}: pip install '{EXTRA}'"
    return f'{_count(count, f"{found.label} file")} not indexed: add "{found.name}" to scan.formats'


def _count(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"
