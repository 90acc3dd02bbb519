"""The indexes of vector stores. Each store is an agent of its own: HOME/agents/ID/index.db.

A thread brings texts and indexes in step with the records. After a restart it goes on with files
that are in progress, and deletes the remains of stores that were deleted.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memwell.config.fields import Value
from memwell.errors import UnreadableDocumentError
from memwell.files import make_private_folder, private_file
from memwell.ingest.readers.convert import Converter
from memwell.ingest.readers.formats import EXTRA, find_format
from memwell.memory import Memory
from memwell.memory.tenants import share_connections
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.errors import log
from memwell.surfaces.openai.files import TENANT_MARK
from memwell.surfaces.openai.schemas import LastError, VectorStoreFileRecord
from memwell.surfaces.openai.stores import COMPLETED, FAILED, IN_PROGRESS, VectorStores
from memwell.surfaces.worker_group import Group

if TYPE_CHECKING:
    from memwell.embed.providers import Factory

_SETTINGS: dict[str, Value] = {
    **SERVER_SETTINGS,
    "sync.on_search": False,
    "search.decay": "off",
    "remote.base_url": "",
}
"""The indexer itself syncs each file. Documents do not age like daily notes, and a store answers
from its own files only."""
_MOST_OPEN = 16
_SETTINGS_FILE = "memwell.toml", "[scan]\nmax_file_mb = 1000\n"
"""Every file that could be uploaded is indexed, however large."""
_NOT_INDEXED = LastError(code="server_error", message="The file could not be indexed")


class Indexer:
    """Keeps the indexes of vector stores in step while its `with` block runs."""

    def __init__(
        self,
        stores: VectorStores,
        memory: Memory,
        embedders: Mapping[str, Factory] | None = None,
        group: Group | None = None,
    ) -> None:
        """Keep the indexes where the memory is; on a server, all share its connections."""
        self._stores = stores
        self._memory = memory
        self._group = group or Group()
        self._embedders = embedders
        self._memories: dict[str, Memory] = {}
        self._opening = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vector stores", daemon=True)

    def __enter__(self) -> Indexer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._stores.changed.put("")
        self._thread.join()
        for memory in self._memories.values():
            memory.close()
        self._stores.records.close()

    def memory(self, store_id: str) -> Memory:
        """Return the memory that searches a store."""
        with self._opening:
            if store_id not in self._memories:
                while len(self._memories) >= _MOST_OPEN:
                    # Close the one opened first; a search that still uses it opens it again.
                    self._memories.pop(next(iter(self._memories))).close()
                texts = self._stores.texts(store_id)
                make_private_folder(texts)
                server = self._memory.settings.store
                store = self._stores.records.stores.find(store_id)
                tenant = (store and store.owner.rpartition(TENANT_MARK)[0]) or server.tenant
                memory = Memory(
                    self._stores.home,
                    workspace=texts,
                    agent=store_id,
                    embedders=self._embedders,
                    settings={**_SETTINGS, "store.url": server.url, "store.tenant": tenant},
                )
                share_connections(memory, self._memory, tenant)
                self._memories[store_id] = memory
            return self._memories[store_id]

    def _run(self) -> None:
        with (
            _logged_errors("Expired files and deleted stores could not be cleared"),
            self._group.indexing(),
        ):
            self._stores.uploads.sweep()
            folders = {folder.name for folder in self._stores.folder.glob("vs_*/")}
            for store_id in folders | {store.id for store in self._stores.records.stores.select()}:
                self._stores.changed.put(store_id)
        while not self._stop.is_set():
            if store_id := self._stores.changed.get():
                with (
                    _logged_errors(f"The vector store {store_id} could not be indexed"),
                    self._group.indexing(),
                ):
                    self._sync_or_fail(store_id)

    def _sync_or_fail(self, store_id: str) -> None:
        try:
            self._sync_store(store_id)
        except Exception:
            for file in self._stores.records.store_files(store_id).select():
                self._stores.finish_file(store_id, file.id, status=FAILED, last_error=_NOT_INDEXED)
            raise

    def _sync_store(self, store_id: str) -> None:
        """Bring texts and index in step with the records."""
        if self._stores.records.stores.find(store_id) is None:
            self._clear(store_id)
            return
        files = self._stores.records.store_files(store_id).select()
        waiting = [file for file in files if file.status == IN_PROGRESS]
        wanted = {file.id for file in files if file.status in (IN_PROGRESS, COMPLETED)}
        texts = self._stores.texts(store_id)
        surplus = [text for text in texts.glob("*.md") if text.stem not in wanted]
        if not waiting and not surplus:
            return
        memory = self.memory(store_id)
        for text in surplus:
            text.unlink()
        written = [file for file in waiting if self._write_text(file)]
        name, content = _SETTINGS_FILE
        (texts / name).write_text(content, encoding="utf-8")
        memory.index(texts, embed=False)
        memory.fill(stop=self._stop)
        if self._stop.is_set():
            return  # the files stay in progress; the next start goes on with them
        for file in written:
            size = self._stores.text(file).stat().st_size
            self._stores.finish_file(store_id, file.id, status=COMPLETED, usage_bytes=size)

    def _write_text(self, file: VectorStoreFileRecord) -> bool:
        """Write the text of a file where it is indexed; return False if there is none."""
        uploaded = self._stores.records.files.find(file.id)
        if uploaded is None:
            return False  # it is being deleted
        try:
            text = _read_text(uploaded.filename, self._stores.uploads.path(uploaded).read_bytes())
        except UnreadableDocumentError as error:
            last_error = LastError(code="unsupported_file", message=error.what)
            outcome = {"status": FAILED, "last_error": last_error}
            self._stores.finish_file(file.vector_store_id, file.id, **outcome)
            return False
        with private_file(self._stores.text(file)) as part:
            part.write_text(text, encoding="utf-8", newline="")
        return True

    def _clear(self, store_id: str) -> None:
        """Delete the remains of a store."""
        with self._opening:
            if memory := self._memories.pop(store_id, None):
                memory.close()
        for folder in (self._stores.folder / store_id, self._stores.home / "agents" / store_id):
            shutil.rmtree(folder, ignore_errors=True)


def _read_text(name: str, data: bytes) -> str:
    """Return the text of an uploaded file, converted if it is a document."""
    found = find_format(name)
    if found and not found.is_text and found.name != "code":
        if not found.is_installed:
            raise UnreadableDocumentError(f"{found.label} files need {EXTRA} on the server")
        try:
            with Converter() as converter:
                return converter.convert(found, name, data).text
        except UnreadableDocumentError as error:
            raise UnreadableDocumentError(f"The file cannot be read: {error.what}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnreadableDocumentError("The file is not text in UTF-8")
    return text


@contextmanager
def _logged_errors(problem: str) -> Iterator[None]:
    """Log what fails, so that the thread goes on with the next store."""
    try:
        yield
    except Exception:
        log.exception(problem)
