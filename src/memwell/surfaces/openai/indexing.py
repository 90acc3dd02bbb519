"""The indexes of vector stores: each is that of an agent of its own, HOME/agents/ID/index.db.

A thread brings texts and index in step with the records, also after a restart: files that are in
progress are taken in then, and what is left of a store that was removed goes.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from memwell.config.fields import Value
from memwell.files import make_private_folder, private_file
from memwell.memory import Memory
from memwell.surfaces.background import SERVER_SETTINGS
from memwell.surfaces.http.errors import log
from memwell.surfaces.openai.schemas import LastError, VectorStoreFileRecord
from memwell.surfaces.openai.stores import COMPLETED, FAILED, IN_PROGRESS, VectorStores

if TYPE_CHECKING:
    from memwell.embed.providers import Factory

_SETTINGS: dict[str, Value] = {**SERVER_SETTINGS, "search.decay": "off", "remote.base_url": ""}
"""A document does not age as the note of a day does; and a store answers from its own files."""
_MOST_OPEN = 16
_SETTINGS_FILE = "memwell.toml", "[scan]\nmax_file_mb = 1000\n"
"""Whatever could be uploaded is taken in."""
_NOT_TEXT = LastError(code="unsupported_file", message="The file is not text in UTF-8")
_NOT_INDEXED = LastError(code="server_error", message="The file could not be indexed")


class Indexer:
    """Keeps the indexes of vector stores in step, from `with` to the end of it."""

    def __init__(
        self, stores: VectorStores, embedders: Mapping[str, Factory] | None = None
    ) -> None:
        self._stores = stores
        self._embedders = embedders
        self._memories: dict[str, Memory] = {}
        self._opening = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vector stores", daemon=True)

    def __enter__(self) -> Indexer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._stores.changed.put("")
        self._thread.join()
        for memory in self._memories.values():
            memory.close()

    def memory(self, store_id: str) -> Memory:
        """Return the memory that a store is searched by."""
        with self._opening:
            if store_id not in self._memories:
                while len(self._memories) >= _MOST_OPEN:
                    # The one opened first goes; a search that is under way opens it once more.
                    self._memories.pop(next(iter(self._memories))).close()
                texts = self._stores.texts(store_id)
                make_private_folder(texts)
                self._memories[store_id] = Memory(
                    self._stores.home,
                    workspace=texts,
                    agent=store_id,
                    embedders=self._embedders,
                    settings=_SETTINGS,
                )
            return self._memories[store_id]

    def _run(self) -> None:
        self._stores.uploaded.sweep()
        for folder in self._stores.folder.glob("vs_*/"):
            self._stores.changed.put(folder.name)
        while not self._stop.is_set():
            if store_id := self._stores.changed.get():
                try:
                    self._sync_store(store_id)
                except Exception:
                    log.exception("The vector store %s is not in step", store_id)
                    self._give_up(store_id)

    def _sync_store(self, store_id: str) -> None:
        """Make texts and index what the records say."""
        if self._stores.records.find(store_id) is None:
            self._clear(store_id)
            return
        files = [*self._stores.files(store_id)]
        waiting = [file for file in files if file.status == IN_PROGRESS]
        wanted = {file.id for file in files if file.status in (IN_PROGRESS, COMPLETED)}
        texts = self._stores.texts(store_id)
        surplus = [text for text in texts.glob("*.md") if text.stem not in wanted]
        if not waiting and not surplus:
            return
        memory = self.memory(store_id)
        for text in surplus:
            text.unlink()
        taken = [file for file in waiting if self._write_text(file)]
        name, content = _SETTINGS_FILE
        (texts / name).write_text(content, encoding="utf-8")
        memory.index(texts, embed=False)
        memory.fill(stop=self._stop)
        if self._stop.is_set():
            return  # they stay in progress, and are taken up at the next start
        for file in taken:
            size = self._stores.text(file).stat().st_size
            self._stores.finish_file(store_id, file.id, status=COMPLETED, usage_bytes=size)

    def _write_text(self, file: VectorStoreFileRecord) -> bool:
        """Write the text of a file where it is indexed; False if it has none."""
        uploaded = self._stores.uploaded.records.find(file.id)
        if uploaded is None:
            return False  # it is being removed
        try:
            text = self._stores.uploaded.place(uploaded).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            failed = {"status": FAILED, "last_error": _NOT_TEXT}
            self._stores.finish_file(file.vector_store_id, file.id, **failed)
            return False
        with private_file(self._stores.text(file)) as part:
            part.write_text(text, encoding="utf-8", newline="")
        return True

    def _give_up(self, store_id: str) -> None:
        for file in self._stores.files(store_id):
            self._stores.finish_file(store_id, file.id, status=FAILED, last_error=_NOT_INDEXED)

    def _clear(self, store_id: str) -> None:
        """Remove what is left of a store."""
        with self._opening:
            if memory := self._memories.pop(store_id, None):
                memory.close()
        for folder in (self._stores.folder / store_id, self._stores.home / "agents" / store_id):
            shutil.rmtree(folder, ignore_errors=True)
