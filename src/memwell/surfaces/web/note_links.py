"""Links between notes: which note or image a link means, and which notes link to a note."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

from memwell.memory import Memory
from memwell.store.contract.values import ListedNote
from memwell.surfaces.web.markdown import WIKI_SCHEME
from memwell.surfaces.web.views import note_link

IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}
_IMAGE_FOLDERS = ("", "attachments", "assets", "images", "img", "media")
_MOST_CANDIDATES = 50
_LINE = re.compile(r"L(\d{1,7})")
_LINK = re.compile(r"\[\[([^\[\]\n|]+)(?:\|[^\[\]\n]*)?\]\]|\]\(<?([^)\s>]+)")


@dataclass(frozen=True, slots=True)
class NoteLinks:
    """Resolves the links of one note."""

    note: ListedNote
    by_path: dict[str, ListedNote]
    by_name: dict[str, ListedNote]

    @classmethod
    def of(cls, note: ListedNote, notes: Iterable[ListedNote]) -> NoteLinks:
        """Return the resolver of a note among the notes of its workspace."""
        same = [other for other in notes if other.workspace == note.workspace]
        by_name: dict[str, ListedNote] = {}
        for other in same:
            for name in (posixpath.splitext(posixpath.basename(other.path))[0], other.title):
                by_name.setdefault(name.casefold(), other)
        return cls(note, {other.path: other for other in same}, by_name)

    def find(self, target: str) -> tuple[ListedNote, int] | None:
        """Return the note and the line that a link of the note leads to."""
        is_wiki = target.startswith(WIKI_SCHEME)
        path, _, fragment = unquote(target.removeprefix(WIKI_SCHEME)).partition("#")
        line = _LINE.match(fragment)
        names = self._paths(path) if path else [self.note.path]
        found = next((self.by_path[name] for name in names if name in self.by_path), None)
        if found is None and is_wiki:
            found = self.by_name.get(path.strip().casefold())
        return (found, int(line[1]) if line else 1) if found else None

    def note_address(self, target: str) -> str | None:
        """Return the address of the note that a link leads to."""
        found = self.find(target)
        return note_link(found[0].path, found[0].workspace, found[1]) if found else None

    def image_address(self, target: str) -> str | None:
        """Return the address of an image of the workspace."""
        path = unquote(urlsplit(target.removeprefix(WIKI_SCHEME)).path)
        for folder in _IMAGE_FOLDERS:
            for name in self._relative(posixpath.join(folder, path)):
                if find_image(Path(self.note.workspace), name):
                    values = {"path": name, "workspace": self.note.workspace}
                    return f"/note/image?{urlencode(values)}"
        return None

    def _paths(self, path: str) -> list[str]:
        """Return the paths that a link may mean, with and without the ending of a note."""
        return [name + end for name in self._relative(path) for end in ("", ".md", ".markdown")]

    def _relative(self, path: str) -> list[str]:
        """Return a path as seen from the folder of the note, and from the workspace."""
        near = posixpath.join(posixpath.dirname(self.note.path), path)
        normal = (posixpath.normpath(name.lstrip("/")) for name in (near, path))
        return [name for name in dict.fromkeys(normal) if not name.startswith("..")]


def find_image(root: Path, path: str) -> Path | None:
    """Return an image of a workspace; None if it is something else, hidden or outside."""
    try:
        file = (root / path).resolve()
        inside = file.relative_to(root.resolve())
    except (OSError, ValueError, RuntimeError):
        return None
    is_hidden = any(part.startswith(".") for part in inside.parts)
    is_image = file.suffix.lower() in IMAGE_TYPES
    return file if is_image and not is_hidden and os.path.isfile(file) else None


def find_linking_notes(memory: Memory, note: ListedNote) -> list[ListedNote]:
    """Return the notes that link to a note: keyword search finds candidates, their links decide."""
    stem = posixpath.splitext(posixpath.basename(note.path))[0]
    names = {re.sub(r'["\s]+', " ", name) for name in (stem, note.title) if name.strip()}
    query = " OR ".join(f'"{name}"' for name in sorted(names))
    result = memory.search(query, k=_MOST_CANDIDATES, kind="note", mode="words", min_score=0)
    of_workspace = NoteLinks.of(note, memory.contents.notes())
    found = []
    for hit in result.hits:
        other = of_workspace.by_path.get(hit.path)
        if other is None or other == note or hit.workspace != note.workspace:
            continue
        links = replace(of_workspace, note=other)
        text = "\n".join(chunk.text for chunk in memory.contents.chunks(hit.path, hit.workspace))
        targets = (
            f"{WIKI_SCHEME}{match[1]}" if match[1] else match[2] for match in _LINK.finditer(text)
        )
        if any((at := links.find(target)) and at[0] == note for target in targets):
            found.append(other)
    return found
