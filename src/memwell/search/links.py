"""Links between notes: which note a link means, and which notes a note is linked with.

A [[link]] names a note by its path, its file name, its title or an alias. Among several notes of a
name, the one in the folder of the link comes first, then the one with the shortest path. A link of
Markdown is a path as seen from the folder of its note, or from the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from memwell.store.contract.values import LinkedNote

_FILTER = re.compile(r'(?<![\w"])(links|backlinks):(?:"([^"]+)"|([^\s()"]+))')


@dataclass(frozen=True, slots=True)
class LinkFilters:
    """The filters ``links:`` and ``backlinks:`` of a query: names of notes."""

    links: tuple[str, ...] = ()
    """Notes that these link to."""
    backlinks: tuple[str, ...] = ()
    """Notes that link to these."""

    @property
    def is_empty(self) -> bool:
        """Whether there is neither."""
        return not (self.links or self.backlinks)


def split_links(text: str) -> tuple[str, LinkFilters]:
    """Return a query without its filters of links, and these; alone they list the notes."""
    found = _FILTER.findall(text)
    if not found:
        return text, LinkFilters()
    names = {
        kind: tuple(quoted or plain for name, quoted, plain in found if name == kind)
        for kind in ("links", "backlinks")
    }
    return _FILTER.sub("", text).strip() or "path:*", LinkFilters(**names)


class LinkGraph:
    """The links between some notes."""

    def __init__(self, notes: Iterable[LinkedNote]) -> None:
        self._notes = sorted(notes, key=lambda note: (len(note.path), note.path))
        self._by_name: dict[str, list[LinkedNote]] = {}
        for names in (_paths, _file_names, _titles):  # a path counts before a title
            for note in self._notes:
                for name in names(note):
                    self._by_name.setdefault(name.casefold(), []).append(note)

    def find(self, name: str, source: LinkedNote | None = None) -> LinkedNote | None:
        """Return the note that a name means, in a link of the note `source`."""
        name = name.partition("#")[0].partition("|")[0].strip().strip("/")
        folder = PurePosixPath(source.path).parent if source else None
        if folder is not None and name.startswith("."):
            paths = [_normalised(folder / name), _normalised(PurePosixPath(name))]
            return next(filter(None, (self._at(path, source) for path in paths)), None)
        known = self._known(name, source)
        near = [note for note in known if PurePosixPath(note.path).parent == folder]
        return next(iter(near or known), None)

    def _at(self, path: str, source: LinkedNote | None) -> LinkedNote | None:
        """Return the note at a path, whose suffix may be left out."""
        wanted = path.casefold()
        return next(
            (
                note
                for note in self._known(path, source)
                if wanted in (name.casefold() for name in _paths(note))
            ),
            None,
        )

    def _known(self, name: str, source: LinkedNote | None) -> list[LinkedNote]:
        """Return the notes of the workspace of `source` (else of all) that have a name."""
        return [
            note
            for note in self._by_name.get(name.casefold(), [])
            if source is None or note.workspace == source.workspace
        ]

    def links(self, note: LinkedNote) -> list[LinkedNote]:
        """Return the notes that a note links to, each once, in the order of their paths."""
        found = [self.find(target, note) for target in note.targets]
        return _unique(one for one in found if one and one != note)

    def backlinks(self, note: LinkedNote) -> list[LinkedNote]:
        """Return the notes that link to a note."""
        return _unique(one for one in self._notes if one != note and note in self.links(one))

    def select(self, filters: LinkFilters) -> tuple[frozenset[str], list[str]]:
        """Return the paths that satisfy all filters, and notices on names that no note has."""
        paths: frozenset[str] | None = None
        notices = []
        for names, related in (
            (filters.links, self.links),
            (filters.backlinks, self.backlinks),
        ):
            for name in names:
                note = self.find(name)
                if note is None:
                    notices.append(f"No note is called {name!r}")
                found = frozenset(one.path for one in related(note)) if note else frozenset[str]()
                paths = found if paths is None else paths & found
        return paths or frozenset(), notices


def _paths(note: LinkedNote) -> Sequence[str]:
    return note.path, str(PurePosixPath(note.path).with_suffix(""))


def _file_names(note: LinkedNote) -> Sequence[str]:
    path = PurePosixPath(note.path)
    ends = ["/".join(path.with_suffix("").parts[at:]) for at in range(1, len(path.parts))]
    return path.name, path.stem, *ends


def _titles(note: LinkedNote) -> Sequence[str]:
    return note.names


def _normalised(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _unique(notes: Iterable[LinkedNote]) -> list[LinkedNote]:
    return sorted({note.path: note for note in notes}.values(), key=lambda note: note.path)
