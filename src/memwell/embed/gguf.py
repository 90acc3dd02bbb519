"""Any embedding model in a GGUF file, run by llama.cpp in this process (package `xllamacpp`).

The length of the vectors, the context and the pooling are read from the header of the file. The
model is loaded for the first text.
"""

from __future__ import annotations

import secrets
import struct
import tempfile
import threading
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memwell.embed.base import Limits
from memwell.embed.model_files import content_fingerprint
from memwell.embed.requirements import require
from memwell.embed.windows import empty_rows, text_windows, windows
from memwell.errors import BatchRefused, ProviderFailing, ProviderUnavailable
from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

_CHOOSE = "Choose an embedding model such as embeddinggemma-300M-Q8_0.gguf"
PREFIXES = {"gemma-embedding": ("task: search result | query: ", "title: none | text: ")}
"""The prefixes of queries and documents that a model was trained with, by architecture."""
LONGEST_WINDOW = 2_048
"""Tokens. llama.cpp allocates memory for a whole window, and some models read 32,768 tokens."""
_POOLED = {1, 2, 3}
"""The mean, the first token, the last token. Without pooling a text does not get one vector, and
the fourth kind of pooling is for ranking."""
_FILLED = 0.75
"""The estimated share of a window that is filled: code and other languages have more tokens than
the estimate says."""
_LONGEST_SOCKET = 100
_MEGABYTE = 1 << 20


class GGUF:
    """An embedding model from a GGUF file."""

    name = "gguf"
    remote = False
    # llama.cpp uses every core by itself. Small batches let other callers have a turn.
    limits = Limits(tokens=2_000, texts=64, parallel=1)

    def __init__(
        self,
        model: str,
        *,
        folder: Path | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        """Take a path, or the name of a file in `folder`. Prefixes replace those of the model."""
        require("xllamacpp", install="memwell[gguf]")
        self._file = _find_model(model, folder)
        self.model = self._file.stem
        self._header = read_header(self._file)
        for_query, for_document = PREFIXES.get(self._header.architecture, ("", ""))
        self.query_prefix = for_query if query_prefix is None else query_prefix
        self.document_prefix = for_document if document_prefix is None else document_prefix
        self.dimensions = self._header.dimensions
        self.window = min(self._header.context, LONGEST_WINDOW)
        self._loading = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """The file, its windows and its prefixes."""
        prefixes = f"{self.query_prefix!r} {self.document_prefix!r}"
        model = f"{content_fingerprint([self._file])} {self.dimensions}"
        return f"gguf {model} windows of {self.window} {prefixes}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [self._embed(self._split_windows(text, self.document_prefix)) for text in texts]

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        return self._embed(self._split_windows(text, self.query_prefix)[:1])[:1]

    def _split_windows(self, text: str, prefix: str) -> list[_Window]:
        """Cut a text into windows that leave room for the prefix, without blank ones."""
        room = int(self.window * _FILLED) - count_tokens(prefix)
        readable = text.encode(errors="replace").decode()
        cut = text_windows(readable, max(1, room))
        return [_Window(prefix, window) for window in cut if window.strip()]

    def _embed(self, windows_of_text: Sequence[_Window]) -> Matrix:
        """Return a vector for each window; a window that is longer than estimated gets several."""
        import numpy as np

        rows = empty_rows(self.dimensions)
        for window in windows_of_text:
            answer = self._request(window.prefix + window.text)
            vectors = self._embed(window.halves()) if answer is None else self._vector(answer)
            rows = np.vstack([rows, vectors])
        return rows

    def _request(self, text: str) -> bytes | None:
        """Return the four-byte floats of a vector, or None if the text does not fit."""
        with self._loading:
            server = self._server
        answer = server.handle_embeddings({"input": [text], "encoding_format": "base64"})
        error = answer.get("error")
        if error is None:
            return b64decode(answer["data"][0]["embedding"])
        if "too large" in error["message"] or error["type"] == "exceed_context_size_error":
            return None
        raise ProviderFailing(f"{self.model} did not return a vector: {error['message']}")

    def _vector(self, answer: bytes) -> Matrix:
        """Return the vector as a matrix of one row, normalised."""
        import numpy as np

        vector: Matrix = np.frombuffer(answer, "<f4").astype(np.float32)[None]
        if vector.shape[1] != self.dimensions:
            raise ProviderUnavailable(
                f"{self._file} returns {vector.shape[1]} dimensions instead of {self.dimensions}",
                "Choose another model",
            )
        length = float(np.linalg.norm(vector))
        if not 0 < length < float("inf"):
            raise ProviderFailing(f"{self.model} returned a vector of zeros, NaN or infinity")
        return vector / np.float32(length)

    @cached_property
    def _server(self) -> Any:
        import xllamacpp

        settings = xllamacpp.CommonParams()
        settings.model.path = str(self._file)
        settings.embedding = True
        settings.n_ctx = settings.n_batch = settings.n_ubatch = self.window
        settings.verbosity = -1
        settings.warmup = settings.ui = settings.endpoint_slots = False
        settings.offline = True
        # It always listens. Nobody can reach a socket whose folder is deleted at once.
        settings.api_keys = [secrets.token_hex()]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as private:
            socket = f"{private}/memwell.sock"
            if len(socket) < _LONGEST_SOCKET:
                settings.hostnames = [socket]
            try:
                return xllamacpp.Server(settings)
            except RuntimeError as error:
                raise ProviderUnavailable(
                    f"llama.cpp cannot load {self._file}: the file is cut short or damaged, or "
                    f"its architecture ({self._header.architecture}) is too new",
                    "Download the model again, or pip install --upgrade xllamacpp",
                ) from error


@dataclass(frozen=True, slots=True)
class _Window:
    """A window of a text, and the prefix before it."""

    prefix: str
    text: str

    def halves(self) -> list[_Window]:
        if len(self.text) < 2:
            raise BatchRefused("The prefix leaves no room for a text", "Choose a shorter prefix")
        return [_Window(self.prefix, half) for half in windows(self.text, len(self.text) // 2)]


@dataclass(frozen=True, slots=True)
class Header:
    """The properties of a model in the header of its GGUF file."""

    architecture: str
    dimensions: int
    context: int
    pooling: int


def read_header(file: Path) -> Header:
    """Read the header of a file; raise `ProviderUnavailable` if memwell cannot use the model."""
    entries: dict[str, Any] = {}
    try:
        with file.open("rb") as opened:
            if opened.read(4) != b"GGUF":
                raise ProviderUnavailable(f"{file} is not a GGUF file", _CHOOSE)
            for key, value in _entries(opened):
                # The vocabulary is long and comes last: do not read it if nothing is missing.
                if key.startswith("tokenizer.") and _header(entries):
                    break
                entries[key] = value
    except (OSError, ValueError) as error:
        raise ProviderUnavailable(
            f"{file} cannot be read as a GGUF file: {error}", "Download the model again"
        ) from error
    header = _header(entries)
    if header is None or header.pooling not in _POOLED:
        raise ProviderUnavailable(
            f"{file} is not an embedding model: its architecture is "
            f"{entries.get('general.architecture')} and it has no pooling",
            _CHOOSE,
        )
    return header


def _header(entries: dict[str, Any]) -> Header | None:
    """Return the header if the entries read so far are enough."""
    name = entries.get("general.architecture")
    length = entries.get(f"{name}.embedding_length_out") or entries.get(f"{name}.embedding_length")
    context = entries.get(f"{name}.context_length")
    pooling = entries.get(f"{name}.pooling_type")
    if not (isinstance(name, str) and length and context and pooling is not None):
        return None
    return Header(name, length, context, pooling)


def _entries(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that follow the first four bytes; a list comes without values."""
    version, _, count = _unpack(file, "<IQQ")
    if version not in (2, 3):
        raise ValueError(f"version {version}")
    for _ in range(count):
        key = _string(file)
        (kind,) = _unpack(file, "<I")
        if kind != _LIST:
            yield key, _value(file, kind)
        else:
            yield key, None
            _skip_list(file)


_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""The kinds of value that are numbers, and their formats in `struct`."""
_STRING, _LIST = 8, 9


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind not in _NUMBERS:
        raise ValueError(f"a value of kind {kind}")
    return _unpack(file, "<" + _NUMBERS[kind])[0]


def _string(file: BinaryIO) -> str:
    (length,) = _unpack(file, "<Q")
    if length > _MEGABYTE:
        raise ValueError(f"a name of {length} bytes")
    data = file.read(length)
    if len(data) < length:
        raise ValueError("the file ends too early")
    return data.decode()


def _skip_list(file: BinaryIO) -> None:
    kind, count = _unpack(file, "<IQ")
    if kind in _NUMBERS:
        file.seek(count * struct.calcsize("<" + _NUMBERS[kind]), 1)
        return
    for _ in range(count):
        _value(file, kind)


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    size = struct.calcsize(form)
    data = file.read(size)
    if len(data) < size:
        raise ValueError("the file ends too early")
    return struct.unpack(form, data)


def _find_model(model: str, folder: Path | None) -> Path:
    """Return the file of a model that is named by its path, or by its name in the folder."""
    candidates = [Path(model).expanduser()]
    if folder is not None:
        candidates += [folder / model, folder / f"{model}.gguf"]
    for file in candidates:
        if file.is_file():
            return file
    where = f"Put it into {folder}, or give" if folder else "Give"
    raise ProviderUnavailable(f"There is no GGUF model {model}", f"{where} the path of the file")
