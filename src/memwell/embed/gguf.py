"""Any embedding model in a GGUF file, run by llama.cpp in this process (package `xllamacpp`).

What the file says of itself (length of vectors, context, pooling) is read from its first bytes;
the model is loaded when the first text comes.
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
from memwell.embed.windows import text_windows, windows
from memwell.errors import BatchRefused, ProviderFailing, ProviderUnavailable
from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

EXAMPLE = "embeddinggemma-300M-Q8_0.gguf"
PREFIXES = {"gemma-embedding": ("task: search result | query: ", "title: none | text: ")}
"""What a model was trained to see before queries and documents, by architecture."""
LONGEST_WINDOW = 2_048
"""Tokens; llama.cpp sets memory aside for a whole window, and some models read 32,768."""
_POOLED = {1, 2, 3}
"""The mean, the first token, the last one. Without pooling there is no vector for a text, and
the fourth kind is for ranking."""
_FILLED = 0.75
"""Of a window, by our estimate: code and other languages have more tokens than it says."""
_LONGEST_SOCKET = 100
_MEGABYTE = 1 << 20


class GGUF:
    """An embedding model from a GGUF file."""

    name = "gguf"
    remote = False
    # llama.cpp uses every core by itself; small batches let others have a turn.
    limits = Limits(tokens=2_000, texts=64, parallel=1)

    def __init__(
        self,
        model: str,
        *,
        folder: Path | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        """Take a path, or the name of a file in `folder`; prefixes replace the model's own."""
        require("xllamacpp", install="memwell[gguf]")
        self._file = _find_model(model, folder)
        self._header = read_header(self._file)
        usual = PREFIXES.get(self._header.architecture, ("", ""))
        self.query_prefix = usual[0] if query_prefix is None else query_prefix
        self.document_prefix = usual[1] if document_prefix is None else document_prefix
        self.dimensions = self._header.dimensions
        self.window = min(self._header.context, LONGEST_WINDOW)
        self._loading = threading.Lock()

    @property
    def model(self) -> str:
        """The file's name without its ending."""
        return self._file.stem

    @cached_property
    def fingerprint(self) -> str:
        """The file, its windows, and what is put before a text."""
        prefixes = f"{self.query_prefix!r} {self.document_prefix!r}"
        return f"gguf {content_fingerprint([self._file])} {self.dimensions} windows of {self.window} {prefixes}"

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        return [self._embed(self._split_windows(text, self.document_prefix)) for text in texts]

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        return self._embed(self._split_windows(text, self.query_prefix)[:1])[:1]

    def _split_windows(self, text: str, prefix: str) -> list[_Window]:
        """Cut a text into windows that leave room for the prefix; blank ones are none."""
        room = int(self.window * _FILLED) - count_tokens(prefix)
        readable = text.encode(errors="replace").decode()
        cut = text_windows(readable, max(1, room))
        return [_Window(prefix, window) for window in cut if window.strip()]

    def _embed(self, windows_of_text: Sequence[_Window]) -> Matrix:
        """Return a vector for each window, several for one that was longer than estimated."""
        import numpy as np

        rows = np.zeros((0, self.dimensions), dtype=np.float32)
        for window in windows_of_text:
            answer = self._request(window.prefix + window.text)
            vectors = self._embed(window.halves()) if answer is None else self._vector(answer)
            rows = np.vstack([rows, vectors])
        return rows

    def _request(self, text: str) -> bytes | None:
        """Return the four-byte floats of a vector, or none if the text does not fit."""
        with self._loading:
            server = self._server
        answer = server.handle_embeddings({"input": [text], "encoding_format": "base64"})
        error = answer.get("error")
        if error is None:
            return b64decode(answer["data"][0]["embedding"])
        if "too large" in error["message"] or error["type"] == "exceed_context_size_error":
            return None
        raise ProviderFailing(f"{self.model} gave no vector: {error['message']}")

    def _vector(self, answer: bytes) -> Matrix:
        """Return the vector as a matrix of one row, normalised."""
        import numpy as np

        vector: Matrix = np.frombuffer(answer, "<f4").astype(np.float32)[None]
        if vector.shape[1] != self.dimensions:
            raise ProviderUnavailable(
                f"{self._file} gives {vector.shape[1]} dimensions and says {self.dimensions}",
                "Choose another model",
            )
        length = float(np.linalg.norm(vector))
        if not 0 < length < float("inf"):
            raise ProviderFailing(f"{self.model} gave a vector that has no direction")
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
        # It always listens. On a socket whose folder is gone at once, nobody can reach it.
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
    """A part of a text, and what is put before it."""

    prefix: str
    text: str

    def halves(self) -> list[_Window]:
        if len(self.text) < 2:
            raise BatchRefused("The prefix leaves no room for a text", "Make it shorter")
        return [_Window(self.prefix, half) for half in windows(self.text, len(self.text) // 2)]


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says of its model."""

    architecture: str
    dimensions: int
    context: int
    pooling: int


def read_header(file: Path) -> Header:
    """Read what a file says of its model, or say why it is of no use here."""
    found: dict[str, Any] = {}
    try:
        with file.open("rb") as opened:
            if opened.read(4) != b"GGUF":
                raise ProviderUnavailable(f"{file} is not a GGUF file", f"Choose one, as {EXAMPLE}")
            for key, value in _entries(opened):
                # The vocabulary is long and comes last: leave it alone if nothing is missing.
                if key.startswith("tokenizer.") and _header(found):
                    break
                found[key] = value
    except (OSError, ValueError) as error:
        raise ProviderUnavailable(
            f"{file} cannot be read as a GGUF file: {error}", "Download the model again"
        ) from error
    header = _header(found)
    if header is None or header.pooling not in _POOLED:
        raise ProviderUnavailable(
            f"{file} is not an embedding model: its architecture is "
            f"{found.get('general.architecture')} and it has no pooling",
            f"Choose one, as {EXAMPLE}",
        )
    return header


def _header(found: dict[str, Any]) -> Header | None:
    """Return what is told by the entries found so far, if it is all."""
    name = found.get("general.architecture")
    length = found.get(f"{name}.embedding_length_out") or found.get(f"{name}.embedding_length")
    context = found.get(f"{name}.context_length")
    pooling = found.get(f"{name}.pooling_type")
    if not (isinstance(name, str) and length and context and pooling is not None):
        return None
    return Header(name, length, context, pooling)


def _entries(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Read the names and values that follow the first four bytes; of a list, only the name."""
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
"""The kinds of value that are numbers, and how `struct` calls them."""
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
        raise ValueError("it ends too early")
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
        raise ValueError("it ends too early")
    return struct.unpack(form, data)


def _find_model(model: str, folder: Path | None) -> Path:
    """Return the file of a model that is given by path, or by name in the folder."""
    places = [Path(model).expanduser()]
    if folder is not None:
        places += [folder / model, folder / f"{model}.gguf"]
    for place in places:
        if place.is_file():
            return place
    where = f"Put it into {folder}, or give" if folder else "Give"
    raise ProviderUnavailable(f"There is no GGUF model {model}", f"{where} the path of the file")
