"""Any model that the package sentence-transformers reads, from a folder on this machine.

Nothing is ever downloaded. The model's own prompts for queries and documents are used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from memwell.embed.base import Limits
from memwell.embed.model_files import content_fingerprint
from memwell.embed.requirements import model_folder, require
from memwell.embed.windows import split_rows, text_windows, windows
from memwell.errors import ProviderUnavailable, WrongAnswer
from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

LONGEST_WINDOW = 8_192
"""Tokens, for a model that names no limit."""
_PARTS = {".json", ".txt", ".model", ".safetensors", ".bin"}
"""Endings of the files that decide what a model says."""


class SentenceTransformers:
    """A model from a folder, on torch.

    The fingerprint is read from the files; to say how long its vectors and windows are, it
    loads the model.
    """

    name = "sentence-transformers"
    remote = False
    # torch uses every core by itself.
    limits = Limits(tokens=4_000, texts=64, parallel=1)

    def __init__(self, model: str) -> None:
        """Take the folder that the model lies in."""
        require("sentence_transformers", install="memwell[sentence-transformers]")
        self._folder = model_folder(model, self.name)
        if (
            not (self._folder / "config.json").is_file()
            and not (self._folder / "modules.json").is_file()
        ):
            raise ProviderUnavailable(
                f"There is no sentence-transformers model in {model}",
                "Give the path of a folder with a model: nothing is downloaded",
            )
        self._using = threading.RLock()

    @property
    def model(self) -> str:
        """The folder's name."""
        return self._folder.resolve().name

    @cached_property
    def fingerprint(self) -> str:
        """The model's files: weights, vocabulary, prompts, pooling and longest text."""
        parts = [file for file in self._folder.rglob("*") if file.suffix in _PARTS]
        return f"sentence-transformers {content_fingerprint(sorted(parts))}"

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        return int(self._torch_model.get_embedding_dimension())

    @cached_property
    def window(self) -> int:
        """Tokens of a text that one vector covers, after the marks and the prompt."""
        longest = min(self._torch_model.max_seq_length or LONGEST_WINDOW, LONGEST_WINDOW)
        prompts = self._torch_model.prompts
        prompt = max(self._length(prompts.get(name) or "") for name in ("query", "document"))
        return max(1, int(longest) - self._marks - prompt)

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        cut = [self._cut(text) for text in texts]
        flat = [window for group in cut for window in group]
        return split_rows(self._rows(flat, query=False), [len(group) for group in cut])

    def embed_query(self, text: str) -> Matrix:
        """Embed a query; of a very long one, its first window."""
        return self._rows(self._cut(text)[:1], query=True)

    def _rows(self, texts: list[str], *, query: bool) -> Matrix:
        """Return a vector for each text that is no longer than a window."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        encode = self._torch_model.encode_query if query else self._torch_model.encode_document
        # A tokenizer that two threads use at once says that it is already borrowed.
        with self._using:
            found = encode(texts, show_progress_bar=False, normalize_embeddings=True)
        rows: Matrix = np.asarray(found, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise WrongAnswer(f"{self.model} gave a vector that is not finite")
        return rows

    def _cut(self, text: str) -> list[str]:
        """Cut a text where the model's own tokens end."""
        readable = text.encode(errors="replace").decode()
        if not readable.strip():
            return []
        spans = self._spans(readable)
        if spans is None:
            return text_windows(readable, self.window)
        cut = windows(spans, self.window)
        return [readable[some[0][0] : some[-1][1]] for some in cut if some]

    def _spans(self, text: str) -> list[tuple[int, int]] | None:
        """Return where each token of a text begins and ends, if its tokenizer can tell."""
        if not getattr(self._torch_model.tokenizer, "is_fast", False):
            return None
        with self._using:
            found = self._torch_model.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        return [(start, end) for start, end in found["offset_mapping"]]

    def _length(self, text: str) -> int:
        spans = self._spans(text)
        return count_tokens(text) if spans is None else len(spans)

    @property
    def _marks(self) -> int:
        """How many tokens mark the beginning and end of a text."""
        count = getattr(self._torch_model.tokenizer, "num_special_tokens_to_add", None)
        return int(count()) if count else 0

    @property
    def _torch_model(self) -> Any:
        with self._using:
            return self._loaded

    @cached_property
    def _loaded(self) -> Any:
        with _silence():
            from sentence_transformers import SentenceTransformer

            try:
                return SentenceTransformer(str(self._folder), local_files_only=True)
            except Exception as error:
                raise ProviderUnavailable(
                    f"sentence-transformers cannot load {self._folder}: {error}",
                    "Download the model again, or choose another",
                ) from error


@contextmanager
def _silence() -> Iterator[None]:
    """Keep transformers from drawing bars and writing reports while it loads a model."""
    logging: Any = import_module("transformers.utils.logging")
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
