"""One sync of one workspace: which files it takes, and what it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from memwell.config.settings import Settings
from memwell.ingest.chunk_settings import ChunkSettings
from memwell.ingest.scan import Selection
from memwell.ingest.sync import Plan, Writing, apply, plan
from memwell.memory.scope import utc_now
from memwell.model import IndexReport
from memwell.progress import Progress
from memwell.store.contract.values import IndexedFile, Workspace


@dataclass(frozen=True, slots=True)
class SyncJob:
    """One sync of one workspace."""

    workspace: Workspace
    settings: Settings
    workspace_id: int | None
    """The id of the workspace in the index; None if it is not there."""
    synced_at: str | None
    files: dict[str, IndexedFile] = field(default_factory=dict)

    @property
    def never_synced(self) -> bool:
        """Whether no sync has ever ended."""
        return self.synced_at is None

    @property
    def version(self) -> str:
        """The state of the index: the rules and the moment of the last sync."""
        return f"{self.rules} {self.synced_at}"

    @property
    def rules(self) -> tuple[int | None, Selection, ChunkSettings]:
        """All that decides what the index has of the files."""
        return self.workspace_id, self.selection, self.chunk_settings

    @property
    def chunk_settings(self) -> ChunkSettings:
        """How notes are cut into chunks."""
        return ChunkSettings(
            self.settings.chunk.size,
            self.settings.chunk.overlap,
            file_dates=self.settings.scan.date == "file",
            formats=self.settings.scan.formats,
        )

    @property
    def selection(self) -> Selection:
        """Which files are notes."""
        extra = self.settings.scan.extra if self.workspace.conventional else ()
        return Selection(
            self.workspace.path,
            conventional=self.workspace.conventional,
            include=(*self.workspace.include, *extra),
            max_bytes=int(self.settings.scan.max_file_mb * 1e6),
            max_document_bytes=int(self.settings.scan.max_document_mb * 1e6),
            formats=self.settings.scan.formats,
        )

    def plan(self) -> Plan:
        """Compare the files with the index."""
        return plan(self.selection, self.files, self.chunk_settings)

    def apply(self, todo: Plan, writing: Writing, progress: Progress) -> IndexReport:
        """Carry a plan out, and record that it was."""
        root = self.workspace.path
        with writing() as notes:
            workspace_id = notes.workspace(self.workspace.root, folder_id(root))
        report = apply(todo, root, workspace_id, self.chunk_settings, writing, progress)
        with writing() as notes:
            notes.mark_synced(workspace_id, utc_now())
        return report


def folder_id(root: Path) -> str:
    """Return what tells a folder apart on this machine, even if it is renamed."""
    status = root.stat()
    return f"{status.st_dev}:{status.st_ino}"
