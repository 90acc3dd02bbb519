"""Any model that the package sentence-transformers reads, from a folder on this machine.

memwell downloads nothing. It uses the model's own prompts for queries and documents.
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
from memwell.embed.windows import empty_rows, split_rows, text_windows, windows
from memwell.errors import ProviderUnavailable, WrongAnswer
from memwell.token_estimate import count_tokens

if TYPE_CHECKING:
    from memwell.embed.base import Matrix

LONGEST_WINDOW = 8_192
"""Tokens, for a model without a limit of its own."""
_PARTS = {".json", ".txt", ".model", ".safetensors", ".bin"}
"""Suffixes of the files that determine the vectors."""


class SentenceTransformers:
    """A model from a folder, on torch.

    The fingerprint comes from the files. `dimensions` and `window` load the model.
    """

    name = "sentence-transformers"
    remote = False
    # torch uses every core by itself.
    limits = Limits(tokens=4_000, texts=64, parallel=1)

    def __init__(self, model: str) -> None:
        """Take the folder of the model."""
        require("sentence_transformers", install="memwell[sentence-transformers]")
        self._folder = model_folder(model, self.name)
        self.model = self._folder.resolve().name
        if (
            not (self._folder / "config.json").is_file()
            and not (self._folder / "modules.json").is_file()
        ):
            raise ProviderUnavailable(
                f"There is no sentence-transformers model in {model}",
                "Give the path of a folder with a model. memwell does not download models",
            )
        self._using = threading.RLock()

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
        """Tokens of a text that one vector covers, without the special tokens and the prompt."""
        longest = min(self._torch_model.max_seq_length or LONGEST_WINDOW, LONGEST_WINDOW)
        prompts = self._torch_model.prompts
        prompt = max(self._length(prompts.get(name) or "") for name in ("query", "document"))
        return max(1, int(longest) - self._special_tokens - prompt)

    def embed_documents(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed every window of every text."""
        groups = [self._windows(text) for text in texts]
        rows = self._rows([window for group in groups for window in group], query=False)
        return split_rows(rows, [len(group) for group in groups])

    def embed_query(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        return self._rows(self._windows(text)[:1], query=True)

    def _rows(self, texts: list[str], *, query: bool) -> Matrix:
        """Return a vector for each text, which must fit a window."""
        import numpy as np

        if not texts:
            return empty_rows(self.dimensions)
        encode = self._torch_model.encode_query if query else self._torch_model.encode_document
        # A tokenizer raises "Already borrowed" if two threads use it at once.
        with self._using:
            vectors = encode(texts, show_progress_bar=False, normalize_embeddings=True)
        rows: Matrix = np.asarray(vectors, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise WrongAnswer(f"{self.model} returned a vector that is not finite")
        return rows

    def _windows(self, text: str) -> list[str]:
        """Cut a text into windows, at the boundaries of the model's own tokens."""
        readable = text.encode(errors="replace").decode()
        if not readable.strip():
            return []
        spans = self._spans(readable)
        if spans is None:
            return text_windows(readable, self.window)
        groups = windows(spans, self.window)
        return [readable[group[0][0] : group[-1][1]] for group in groups if group]

    def _spans(self, text: str) -> list[tuple[int, int]] | None:
        """Return the start and end of each token of a text, or None if the tokenizer cannot."""
        if not getattr(self._torch_model.tokenizer, "is_fast", False):
            return None
        with self._using:
            encoding = self._torch_model.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        return [(start, end) for start, end in encoding["offset_mapping"]]

    def _length(self, text: str) -> int:
        spans = self._spans(text)
        return count_tokens(text) if spans is None else len(spans)

    @property
    def _special_tokens(self) -> int:
        """The number of special tokens that are added to a text."""
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
    """Keep transformers from printing progress bars and reports while it loads a model."""
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
