"""/v1/files: uploaded files. Their contents are HOME/files/ID/NAME."""

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
from memwell.surfaces.openai.paging import PageRequest, page
from memwell.surfaces.openai.records import RecordDatabase, new_id, now
from memwell.surfaces.openai.schemas import Deleted, FileObject, Page, UploadRecord

Purpose = Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"]
_LONGEST_NAME = 200

router = APIRouter(prefix="/v1/files", tags=["OpenAI: files"], responses=FAILURES)


class Files:
    """The uploaded files of a home. A file exists as soon as its record does."""

    def __init__(self, home: Path, records: RecordDatabase) -> None:
        self.folder = home / "files"
        self.records = records

    def add(
        self, content: BinaryIO, name: str, purpose: str, owner: str, lifetime: int | None
    ) -> UploadRecord:
        """Write a file and its record; `lifetime` is in seconds."""
        created_at = now()
        file = self.folder / new_id("file-") / safe_name(name)
        make_private_folder(file.parent)
        with private_file(file) as part, part.open("wb") as target:
            shutil.copyfileobj(content, target)
        return self.records.files.put(
            UploadRecord(
                id=file.parent.name,
                bytes=file.stat().st_size,
                created_at=created_at,
                expires_at=created_at + lifetime if lifetime else None,
                filename=file.name,
                purpose=purpose,
                owner=owner,
            )
        )

    def get(self, file_id: str, owner: str) -> UploadRecord:
        """Return a file of an owner that has not expired."""
        file = self.records.files.get(file_id, owner)
        if _has_expired(file):
            raise NotFoundError(f"The file {file_id} has expired", "Upload it again")
        return file

    def list_of(self, owner: str) -> list[UploadRecord]:
        """Return the files of an owner that have not expired."""
        return [file for file in self.records.files.select(owner=owner) if not _has_expired(file)]

    def stored_bytes(self, tenant: str) -> int:
        """Return the size of the files that the users of a tenant uploaded."""
        rows = self.records.read(
            "SELECT coalesce(sum(json_extract(record, '$.bytes')), 0) FROM files"
            " WHERE substr(owner, 1, length(:start)) = :start",
            {"start": f"{tenant}{TENANT_MARK}"},
        )
        return int(rows[0][0]) if rows else 0

    def path(self, record: UploadRecord) -> Path:
        """Return the path of a file's content."""
        return self.folder / record.id / record.filename

    def delete(self, file_id: str) -> None:
        """Delete a file's record, then its content."""
        self.records.files.remove(file_id)
        shutil.rmtree(self.folder / file_id, ignore_errors=True)

    def sweep(self) -> None:
        """Delete files that have expired, and the remains of interrupted uploads and deletions."""
        for file in self.records.files.select():
            if _has_expired(file):
                self.delete(file.id)
        for folder in self.folder.glob("file-*/"):
            # A new folder may belong to an upload that is not finished.
            is_old = now() - folder.stat().st_mtime > 3600
            if is_old and self.records.files.find(folder.name) is None:
                shutil.rmtree(folder, ignore_errors=True)


def _has_expired(file: UploadRecord) -> bool:
    return file.expires_at is not None and file.expires_at <= now()


def safe_name(name: str) -> str:
    """Return the name of a file without folders and control characters, shortened."""
    last = re.split(r"[/\\]", name)[-1]
    shortened = re.sub(r"[\x00-\x1f\x7f]", "", last).encode("utf-8", "replace")[:_LONGEST_NAME]
    return shortened.decode("utf-8", "ignore").strip(" .") or "file"


def files_of(request: Request) -> Files:
    """Return the files of the server's home."""
    files: Files = request.app.state.files
    return files


def owner_of(request: Request) -> str:
    """Return the user whose token was given: files and vector stores are theirs alone."""
    viewer = viewer_of(request)
    return f"{viewer.tenant}{TENANT_MARK}{viewer.user}" if viewer.tenant else viewer.user


TENANT_MARK = "\x1f"
"""Stands between tenant and user in the name of an owner."""
ServerFiles = Annotated[Files, Depends(files_of)]
Owner = Annotated[str, Depends(owner_of)]


class FileListRequest(PageRequest):
    """Which part of the list of files is asked for."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    purpose: str | None = None


@router.post("", response_model=FileObject)
def upload_file(
    files: ServerFiles,
    owner: Owner,
    file: UploadFile,
    purpose: Annotated[Purpose, Form()],
    lifetime: Annotated[
        int | None, Form(alias="expires_after[seconds]", ge=3600, le=2_592_000)
    ] = None,
) -> Any:
    """Upload a file."""
    return files.add(file.file, file.filename or "file", purpose, owner, lifetime)


@router.get("", response_model=Page[FileObject])
def list_files(
    files: ServerFiles, owner: Owner, request: Annotated[FileListRequest, Query()]
) -> Any:
    """List files."""
    matches = [file for file in files.list_of(owner) if request.purpose in (None, file.purpose)]
    return page(matches, request)


@router.get("/{file_id}", response_model=FileObject)
def retrieve_file(file_id: str, files: ServerFiles, owner: Owner) -> Any:
    """Return the record of a file."""
    return files.get(file_id, owner)


@router.get("/{file_id}/content", responses={200: {"content": {"application/octet-stream": {}}}})
def retrieve_file_content(file_id: str, files: ServerFiles, owner: Owner) -> FileResponse:
    """Return the content of a file, as it was uploaded."""
    path = files.path(files.get(file_id, owner))
    return FileResponse(path, media_type="application/octet-stream")


@router.delete("/{file_id}", response_model=Deleted)
def delete_file(file_id: str, files: ServerFiles, owner: Owner, request: Request) -> Any:
    """Delete a file, also from the vector stores that it is in."""
    files.records.files.get(file_id, owner)
    request.app.state.stores.remove_file_everywhere(file_id)
    files.delete(file_id)
    return Deleted(id=file_id, object="file")
