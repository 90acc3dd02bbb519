import datetime as dt
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from memwell.config.fields import Value
from memwell.embed.providers import Factory
from memwell.extract.files import IngestReport
from memwell.facts.erase import EraseReport
from memwell.facts.export_import import ImportReport
from memwell.facts.recall import Recall
from memwell.facts.service import NewFact, RememberResult
from memwell.llm.budget import Budget
from memwell.memory import Memory
from memwell.model import (
    Chunk,
    Excerpt,
    Fact,
    FactEvent,
    IndexReport,
    SearchResult,
)
from memwell.progress import Progress
from memwell.reports import Check, FillReport, SpaceStatus, Status
from memwell.search.why import Why
from memwell.store.contract.values import (
    Array,
    BackupReport,
    FactFilter,
    ListedNote,
    MapPoint,
    RestoreReport,
)
from memwell.store.sqlite.verify import Finding

class AsyncFactService:
    def __init__(self, memory: Memory) -> None: ...
    async def remember(
        self, new_fact: NewFact, near: tuple[str, bool] | None = ...
    ) -> RememberResult: ...
    async def supersede(self, old_id: str, new_fact: NewFact) -> RememberResult: ...
    async def forget(self, ids: Sequence[str]) -> list[Fact]: ...
    async def list_scope(self, scope: str) -> list[Fact]: ...
    async def reinforce(self, fact_id: str) -> RememberResult: ...
    async def renew_on_read(self, ids: Sequence[str]) -> None: ...
    async def promote(self, fact_id: str, scope: str) -> Fact: ...
    async def edit(self, fact_id: str, **changes: object) -> Fact: ...
    async def expire(self, fact_id: str, why: str) -> Fact: ...
    async def check(self, new_fact: NewFact) -> Fact | None: ...
    async def prune(self) -> int: ...
    async def find(self, which: FactFilter, limit: int = ...) -> list[Fact]: ...
    async def get(self, fact_id: str) -> Fact: ...
    async def history(self, fact_id: str) -> list[FactEvent]: ...
    async def require_right_to(self, *scopes: str) -> None: ...

class AsyncNoteBrowser:
    def __init__(self, memory: Memory) -> None: ...
    async def notes(self, path: str | None = ...) -> list[ListedNote]: ...
    async def chunks(self, path: str, workspace: str) -> list[Chunk]: ...
    async def texts(self, places: Sequence[tuple[str, str, int]]) -> list[str]: ...
    async def sample_with_vectors(self, most: int) -> tuple[list[MapPoint], Array]: ...

class AsyncMemory:
    memory: Memory
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...
    @property
    def facts(self) -> AsyncFactService: ...
    @property
    def contents(self) -> AsyncNoteBrowser: ...
    def __init__(
        self,
        home: str | Path | None = ...,
        *,
        workspace: str | Path | None = ...,
        fallback_workspace: str | Path | None = ...,
        agent: str | None = ...,
        user: str = ...,
        session: str = ...,
        embedders: Mapping[str, Factory] | None = ...,
        settings: Mapping[str, Value] | None = ...,
        clock: Callable[[], dt.datetime] = ...,
    ) -> None: ...
    async def close(self) -> None: ...
    def as_viewer(self, user: str = ..., session: str = ..., *, is_admin: bool = ...) -> Self: ...
    async def folders(self) -> tuple[Path, ...]: ...
    async def index(
        self, *paths: str | Path, embed: bool = ..., progress: Progress = ...
    ) -> tuple[IndexReport, ...]: ...
    async def fill(
        self, progress: Progress = ..., stop: threading.Event | None = ...
    ) -> FillReport: ...
    async def watch(
        self,
        report: Callable[[IndexReport | str], None],
        stop: threading.Event | None = ...,
        something_new: threading.Event | None = ...,
    ) -> None: ...
    async def reset(self, workspace: str | Path | None = ...) -> None: ...
    async def search(
        self,
        query: str,
        *,
        k: int | None = ...,
        min_score: float | None = ...,
        mode: str | None = ...,
        fusion: str | None = ...,
        diversity: str | None = ...,
        context: str | None = ...,
        group: str | None = ...,
        kind: str | None = ...,
        include_superseded: bool = ...,
        as_of: str | None = ...,
        paths: Iterable[str] | None = ...,
        passage: str = ...,
        transcripts: bool = ...,
        explain: bool = ...,
        today: dt.date | None = ...,
        progress: Progress = ...,
    ) -> SearchResult: ...
    async def search_with(
        self, query: str, changes: Sequence[Mapping[str, Value]], *, k: int | None = ...
    ) -> tuple[SearchResult, ...]: ...
    async def why(
        self,
        query: str,
        path: str,
        *,
        k: int | None = ...,
        mode: str | None = ...,
        today: dt.date | None = ...,
    ) -> Why: ...
    async def recall(
        self,
        message: str,
        *,
        budget: int | None = ...,
        include_superseded: bool = ...,
        as_of: str | None = ...,
    ) -> Recall: ...
    async def search_for_recall(
        self,
        message: str,
        *,
        include_superseded: bool = ...,
        as_of: str | None = ...,
        budget: Budget | None = ...,
    ) -> SearchResult: ...
    async def reset_recall_history(self) -> None: ...
    async def get(self, reference: str) -> Excerpt: ...
    async def note(self, text: str, *, now: dt.datetime | None = ...) -> Excerpt: ...
    async def remember(
        self,
        text: str,
        *,
        category: str = ...,
        tags: Sequence[str] = ...,
        source: str = ...,
        origin: str = ...,
        importance: float = ...,
        confidence: float = ...,
        decay_class: str = ...,
        scope: str | None = ...,
        valid_from: str | None = ...,
        secrets: str = ...,
    ) -> RememberResult: ...
    async def supersede(
        self,
        old: str,
        text: str,
        *,
        category: str = ...,
        tags: Sequence[str] = ...,
        source: str = ...,
        origin: str = ...,
        importance: float = ...,
        confidence: float = ...,
        decay_class: str = ...,
        scope: str | None = ...,
        valid_from: str | None = ...,
        secrets: str = ...,
    ) -> RememberResult: ...
    async def forget(self, *ids: str, predecessors: bool = ...) -> EraseReport: ...
    async def find_lost_facts(self) -> str: ...
    async def ingest_files(
        self,
        root: str | Path,
        *,
        paths: Sequence[str] = ...,
        dry_run: bool = ...,
        progress: Progress = ...,
    ) -> IngestReport: ...
    async def export(self, layout: str = ...) -> str: ...
    async def import_facts(
        self, data: bytes, *, trust: bool = ..., dry_run: bool = ...
    ) -> ImportReport: ...
    async def backup(self, file: str | Path, *, force: bool = ...) -> BackupReport: ...
    async def restore(self, file: str | Path) -> RestoreReport: ...
    async def verify(self, file: str | Path | None = ...) -> list[Finding]: ...
    async def spaces(self) -> tuple[SpaceStatus, ...]: ...
    async def switch_space(self, number: int) -> SpaceStatus: ...
    async def drop_space(self, number: int) -> None: ...
    async def status(self, *, deep: bool = ...) -> Status: ...
    async def doctor(self) -> list[Check]: ...
