"""/v1/files: files are uploaded, and kept as they are under HOME/files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, Depends, Form, Query, Request, UploadFile
from fastapi.responses import FileResponse
from pydantic import Field

from memwell.errors import NotFoundError
from memwell.files import make_private_folder, private_file
from memwell.surfaces.http.errors import FAILURES
from memwell.surfaces.http.viewer import viewer_of
from memwell.surfaces.openai.records import PageRequest, Records, new_id, now, page
from memwell.surfaces.openai.schemas import Deleted, FileObject, FileRecord, Page

Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
_LONGEST_NAME = 200

router = APIRouter(prefix="/v1/files", tags=["OpenAI: files"], responses=FAILURES)


class Files:
    """The uploaded files of a home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "files"
        self.records = Records(self.folder, FileRecord)

    def keep(
        self, content: BinaryIO, name: str, purpose: str, owner: str, lasts: int | None
    ) -> FileRecord:
        """Keep a file; it is there as soon as its record is."""
        at = now()
        file = self.folder / new_id("file-") / safe_name(name)
        make_private_folder(file.parent)
        with private_file(file) as part, part.open("wb") as target:
            shutil.copyfileobj(content, target)
        return self.records.put(
            FileRecord(
                id=file.parent.name,
                bytes=file.stat().st_size,
                created_at=at,
                expires_at=at + lasts if lasts else None,
                filename=file.name,
                purpose=purpose,
                owner=owner,
            )
        )

    def get(self, wanted: str, owner: str) -> FileRecord:
        """Return a file of an owner that has not expired."""
        found = self.records.get(wanted, owner)
        if _has_expired(found):
            raise NotFoundError(f"The file {wanted} has expired", "Upload it again")
        return found

    def of(self, owner: str) -> list[FileRecord]:
        """Return the files of an owner that have not expired."""
        return [file for file in self.records.of(owner) if not _has_expired(file)]

    def place(self, record: FileRecord) -> Path:
        """Return where a file lies."""
        return self.folder / record.id / record.filename

    def remove(self, record: FileRecord) -> None:
        """Keep a file no longer."""
        self.records.remove(record.id)
        shutil.rmtree(self.folder / record.id, ignore_errors=True)

    def sweep(self) -> None:
        """Remove files that have expired, or whose upload or removal did not come to its end."""
        for file in self.records:
            if _has_expired(file):
                self.remove(file)
        for folder in self.folder.glob("file-*/"):
            # One that is new may be somebody's who is about to fill it.
            if self.records.find(folder.name) is None and now() - folder.stat().st_mtime > 3600:
                shutil.rmtree(folder, ignore_errors=True)


def _has_expired(file: FileRecord) -> bool:
    return file.expires_at is not None and file.expires_at <= now()


def safe_name(name: str) -> str:
    """Return the name of a file without folders, and without what no name should have."""
    last = re.split(r"[/\\]", name)[-1]
    kept = re.sub(r"[\x00-\x1f\x7f]", "", last).encode("utf-8", "replace")[:_LONGEST_NAME]
    return kept.decode("utf-8", "ignore").strip(" .") or "file"


def files_of(request: Request) -> Files:
    """Return the files of the server's home."""
    files: Files = request.app.state.files
    return files


def owner_of(request: Request) -> str:
    """Return whose files and vector stores are meant: the user's whose token was given."""
    return viewer_of(request).user


Kept = Annotated[Files, Depends(files_of)]
Owner = Annotated[str, Depends(owner_of)]


class FilePart(PageRequest):
    """Which part of the list of files is asked for."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    purpose: str | None = None


@router.post("", response_model=FileObject)
def upload(
    files: Kept,
    owner: Owner,
    file: UploadFile,
    purpose: Annotated[Purpose, Form()],
    lasts: Annotated[
        int | None, Form(alias="expires_after[seconds]", ge=3600, le=2_592_000)
    ] = None,
) -> Any:
    """Keep a file."""
    return files.keep(file.file, file.filename or "file", purpose, owner, lasts)


@router.get("", response_model=Page[FileObject])
def list_files(files: Kept, owner: Owner, asked: Annotated[FilePart, Query()]) -> Any:
    """List files."""
    found = files.of(owner)
    return page([one for one in found if asked.purpose in (None, one.purpose)], asked)


@router.get("/{file_id}", response_model=FileObject)
def retrieve(file_id: str, files: Kept, owner: Owner) -> Any:
    """Return what is known of a file."""
    return files.get(file_id, owner)


@router.get("/{file_id}/content", responses={200: {"content": {"application/octet-stream": {}}}})
def content(file_id: str, files: Kept, owner: Owner) -> FileResponse:
    """Return a file as it was uploaded."""
    place = files.place(files.get(file_id, owner))
    return FileResponse(place, media_type="application/octet-stream")


@router.delete("/{file_id}", response_model=Deleted)
def delete(file_id: str, files: Kept, owner: Owner, request: Request) -> Any:
    """Remove a file, also from the vector stores that it is in."""
    record = files.records.get(file_id, owner)
    request.app.state.stores.take_out_everywhere(record.id, owner)
    files.remove(record)
    return Deleted(id=record.id, object="file")
