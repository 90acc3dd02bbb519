"""The views of notes: the tree, a rendered note, its images and neighbours, and the log."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse

from memwell.errors import MemwellError, NotFoundError
from memwell.memory import Memory
from memwell.model import Chunk, Hit, cite_lines
from memwell.store.contract.values import ListedNote
from memwell.surfaces.http.viewer import ViewerMemory
from memwell.surfaces.web.fact_pages import check_form_token
from memwell.surfaces.web.markdown import render_note
from memwell.surfaces.web.note_links import (
    IMAGE_TYPES,
    NoteLinks,
    find_image,
    find_linking_notes,
)
from memwell.surfaces.web.render import PageRoute, page
from memwell.surfaces.web.views import find_note, note_link

_MOST_IN_TREE = 1500
"""With more notes, the tree shows the folders, and only one of them is open."""
_MOST_FOUND = 300
_TEXT_FILES = (".md", ".markdown", ".mdx", ".txt", ".rst")
"""Files that are shown as they are; the index has the text of others."""
_RELATED = 6
_LEAST_RELATED = 3
_QUOTED = 1000
_WORDS = 20
_IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(slots=True)
class Folder:
    """A folder of the tree."""

    name: str
    path: str
    folders: dict[str, Folder] = field(default_factory=dict)
    notes: list[ListedNote] = field(default_factory=list)
    count: int = 0
    """Notes in it and in its folders."""


@router.get("/notes")
def notes_page(
    request: Request, memory: ViewerMemory, filter: str = "", folder: str = ""
) -> HTMLResponse:
    """Show the notes as a tree of folders, or those that a filter selects."""
    notes = memory.contents.notes()
    words = filter.casefold().split()
    if words:
        named = [(note, f"{note.path} {note.title}".casefold()) for note in notes]
        notes = [note for note, name in named if all(word in name for word in words)]
    return page(
        request,
        "notes.html",
        filter=filter,
        folder=folder,
        roots=build_tree(notes),
        count=len(notes),
        found=notes[:_MOST_FOUND] if words else None,
        most=_MOST_FOUND,
        is_small=len(notes) <= _MOST_IN_TREE,
        workspaces=[str(path) for path in memory.folders()],
    )


def build_tree(notes: list[ListedNote]) -> list[Folder]:
    """Return a folder for each workspace, with its folders and notes by name."""
    roots: dict[str, Folder] = {}
    for note in sorted(notes, key=lambda note: (note.workspace, note.path.casefold())):
        at = roots.setdefault(note.workspace, Folder(note.workspace, note.workspace))
        at.count += 1
        for name in note.path.split("/")[:-1]:
            at = at.folders.setdefault(name, Folder(name, f"{at.path}/{name}"))
            at.count += 1
        at.notes.append(note)
    return [*roots.values()]


@router.post("/notes", dependencies=[Depends(check_form_token)])
def add_note(
    memory: ViewerMemory, text: Annotated[str, Form()], workspace: Annotated[str, Form()] = ""
) -> RedirectResponse:
    """Append a text to today's log of a workspace."""
    folders = [str(folder) for folder in memory.folders()]
    if workspace not in folders:
        raise NotFoundError(f"There is no workspace {workspace!r}", "Choose one from the list")
    store = {"store.url": memory.settings.store.url}
    with Memory(memory.home, workspace=workspace, agent=memory.agent, settings=store) as writer:
        added = writer.note(text.replace("\r\n", "\n"))
    return RedirectResponse(note_link(added.path, added.workspace, added.start_line), 303)


# -- one note --------------------------------------------------------------------------------------


@router.get("/note")
def note_page(
    request: Request, memory: ViewerMemory, path: str, workspace: str = ""
) -> HTMLResponse:
    """Show a note as Markdown, in the passages of the index."""
    note = find_note(memory, path, workspace)
    chunks = memory.contents.chunks(note.path, note.workspace)
    links = NoteLinks.of(note, memory.contents.linked_notes(note.workspace))
    sections = render_note(
        _read_text(memory, note, chunks),
        chunks,
        note.title,
        links.note_address,
        links.image_address,
    )
    file = posixpath.join(note.workspace, note.path)
    return page(
        request,
        "note.html",
        note=note,
        sections=sections,
        folder=posixpath.dirname(note.path),
        cite=lambda section: cite_lines(note.path, section.start_line, section.end_line),
        editors=[] if request.app.state.reachable else _editor_links(file),
        file=file,
    )


def _read_text(memory: Memory, note: ListedNote, chunks: list[Chunk]) -> str:
    """Return the file as it is now; if it cannot be read here, what the index has of it."""
    if note.path.lower().endswith(_TEXT_FILES):
        try:
            return memory.get(posixpath.join(note.workspace, note.path)).text
        except MemwellError:
            pass
    text = ""
    for chunk in chunks:
        repeated, new = chunk.text[: chunk.overlap], chunk.text[chunk.overlap :]
        missing = chunk.start_line - 1 + repeated.count("\n") - text.count("\n")
        text += "\n" * max(0, missing) + new
    return text


def _editor_links(file: str) -> list[tuple[str, str]]:
    return [
        ("VS Code", f"vscode://file{quote(file if file.startswith('/') else f'/{file}')}"),
        ("Obsidian", f"obsidian://open?path={quote(file, safe='')}"),
    ]


@router.get("/note/related")
def related(
    request: Request, memory: ViewerMemory, path: str, workspace: str = "", part: bool = False
) -> HTMLResponse:
    """Show the notes that link to a note, and those with a similar meaning."""
    note = find_note(memory, path, workspace)
    template = "_related.html" if part else "related.html"
    linking, similar = find_linking_notes(memory, note), _find_similar(memory, note)
    return page(request, template, note=note, linking=linking, similar=similar)


def _find_similar(memory: Memory, note: ListedNote) -> list[Hit]:
    """Return the best passages of other notes, by the vector of the note's beginning."""
    chunks = memory.contents.chunks(note.path, note.workspace)
    text = "\n".join(chunk.text for chunk in chunks)[:_QUOTED].strip()
    words = " ".join(re.findall(r"\w+", note.title or text)[:_WORDS])  # no operators, no filters
    hits = memory.search(words, passage=text, k=_RELATED + 1, kind="note", mode="meaning").hits
    others = [hit for hit in hits if (hit.path, hit.workspace) != (note.path, note.workspace)]
    similar = [hit for hit in others if not hit.weak] or others[:_LEAST_RELATED]
    return similar[:_RELATED]


@router.get("/note/image")
def image(memory: ViewerMemory, path: str, workspace: str) -> FileResponse:
    """Send an image of a workspace; nothing in it can run."""
    roots = [folder for folder in memory.folders() if str(folder) == workspace]
    file = find_image(roots[0], path) if roots else None
    if file is None:
        raise NotFoundError(f"There is no image {path!r}", "Check the link in the note")
    headers = {"Content-Security-Policy": _IMAGE_POLICY}
    return FileResponse(file, media_type=IMAGE_TYPES[file.suffix.lower()], headers=headers)
