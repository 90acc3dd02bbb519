"""Links between notes: which note or image a link means, and which notes link to a note."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

from memwell.ingest.parse_note import as_relative
from memwell.memory import Memory
from memwell.search.links import LinkGraph
from memwell.store.contract.values import LinkedNote, ListedNote
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
_LINE = re.compile(r"L(\d{1,7})")


@dataclass(frozen=True, slots=True)
class NoteLinks:
    """Resolves the links of one note."""

    note: LinkedNote
    graph: LinkGraph

    @classmethod
    def of(cls, note: ListedNote, notes: Iterable[LinkedNote]) -> NoteLinks:
        """Return the resolver of a note among the notes of its workspace."""
        source = LinkedNote(note.path, note.workspace, (note.title,), ())
        return cls(source, LinkGraph(notes))

    def find(self, target: str) -> tuple[LinkedNote, int] | None:
        """Return the note and the line that a link of the note leads to."""
        path, _, fragment = unquote(target.removeprefix(WIKI_SCHEME)).partition("#")
        name = path if target.startswith(WIKI_SCHEME) else as_relative(path)
        found = self.graph.find(name, self.note) if path else self.note
        line = _LINE.match(fragment)
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
    """Return the notes that link to a note, in the order of their paths."""
    links = NoteLinks.of(note, memory.contents.linked_notes(note.workspace))
    listed = {
        other.path: other for other in memory.contents.notes() if other.workspace == note.workspace
    }
    found = links.graph.find(note.path)
    backlinks = links.graph.backlinks(found) if found else []
    return [listed[other.path] for other in backlinks if other.path in listed]
