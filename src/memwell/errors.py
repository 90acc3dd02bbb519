"""Every error that memwell raises on purpose.

MemwellError                        an operation failed; the message ends with the remedy
├── ConfigError                     a setting, or the file that holds it, cannot be used
├── NotFoundError                   the named folder, note or passage does not exist
├── HomeError                       the home folder cannot be read or written
│   └── DiskFullError               the disk has no room for the index
├── IndexDatabaseError              the index cannot be used as it is
│   ├── NewerIndexError             a newer memwell wrote it
│   ├── ReadOnlyError               it can be read, but not written
│   ├── CorruptIndexError           it is damaged (handled inside: set aside and rebuilt)
│   ├── StatementTimeoutError       the server took longer for a statement than a tenant may
│   └── TransactionEndedError       the server ended a transaction; it can be tried again
├── KeywordSearchUnavailable        this index has no keyword search; vector search still works
├── VectorSearchUnavailable         the vectors cannot be searched now; keyword search still works
├── BinaryFileError                 a file holds binary data instead of text
├── UnreadableDocumentError         a document cannot be converted to text
├── TooManySectionsError            a note has too many (handled inside: indexed as plain text)
├── RefusedError                    memwell will not remember this text
├── NotAllowedError                 the viewer does not have the right to do this
├── IdTakenError                    the id of a fact belongs to a fact that is not visible
├── EmbeddingError                  an embedding provider, or a server behind one, did not deliver
│   ├── ProviderUnavailable         somebody has to act: the key, the address, the model, the bill
│   ├── ProviderFailing             it may work later: overload, a broken connection
│   │   └── WrongAnswer             it answered, but not with what was asked for
│   └── BatchRefused                it refuses these texts, or so many of them
└── LlmError                        a language model did not deliver
    ├── LlmUnavailable              somebody has to act: the key, the address, the model, the bill
    ├── LlmFailing                  it may work later: overload, a broken connection, no text
    │   └── LlmRefused              it refuses this request; it may take another
    └── BudgetSpent                 the command has used up its calls or tokens

A name that ends in `Error` says which operation failed. The others say which state a provider, a
model or a search is in: `Unavailable` until somebody acts, `Failing` for now, `Refused` for this
input only.
"""

from __future__ import annotations

_REFERENCES: dict[str, str] = {}
"""``${NAME}`` by the content of that environment variable, if a setting refers to it."""
_SHORTEST_SECRET = 8
"""A shorter content is left in messages: it would be found in many other words."""


def hide_content(variable: str, content: str) -> None:
    """Let every message show ``${variable}`` instead of its content, which may be a secret."""
    if len(content) >= _SHORTEST_SECRET:
        _REFERENCES[content] = f"${{{variable}}}"


def as_written(text: str) -> str:
    """Return a message in which ``${NAME}`` stands for the content of each hidden variable."""
    for content, reference in _REFERENCES.copy().items():
        text = text.replace(content, reference)
    return text


class MemwellError(Exception):
    """Base of all errors raised on purpose: `what` went wrong and the `remedy`."""

    def __init__(self, what: str, remedy: str = "") -> None:
        what, remedy = as_written(what), as_written(remedy)
        super().__init__(f"{what}. {remedy}" if remedy else what)
        self.what = what
        self.remedy = remedy


class ConfigError(MemwellError):
    """A setting, or the file that holds it, cannot be used."""


class NotFoundError(MemwellError):
    """The named folder, note or passage does not exist."""


class KeywordSearchUnavailable(MemwellError):
    """SQLite has no FTS5, or the tables of the keyword index are broken; `what` is the reason."""


class HomeError(MemwellError):
    """The home folder cannot be read or written."""


class DiskFullError(HomeError):
    """The disk has no room for the index."""


class IndexDatabaseError(MemwellError):
    """The index cannot be used as it is."""


class NewerIndexError(IndexDatabaseError):
    """A newer memwell wrote the index."""


class ReadOnlyError(IndexDatabaseError):
    """The index can be read, but not written: its server is a read replica, for example."""


class CorruptIndexError(IndexDatabaseError):
    """The index is damaged; `Memory` sets it aside and rebuilds it."""


class StatementTimeoutError(IndexDatabaseError):
    """The server took longer for a statement than a tenant may; nothing was changed."""


class TransactionEndedError(IndexDatabaseError):
    """The server ended a transaction and kept nothing of it: the caller may try again."""


class VectorSearchUnavailable(MemwellError):
    """The store of the vectors cannot be searched now; keyword search still works."""


class BinaryFileError(MemwellError):
    """A file holds binary data instead of text."""

    def __init__(self) -> None:
        super().__init__("The file holds binary data", "memwell reads text only")


class UnreadableDocumentError(MemwellError):
    """A document cannot be converted to text; `what` says why."""


class TooManySectionsError(MemwellError):
    """The sections of a note give too many passages; cut as plain text it gives fewer."""

    def __init__(self, most: int) -> None:
        super().__init__(f"has sections for more than {most} passages")


class RefusedError(MemwellError):
    """memwell will not remember this text."""


class NotAllowedError(MemwellError):
    """The viewer does not have the right to do this."""


class IdTakenError(MemwellError):
    """The id of a fact belongs to a fact that is not visible."""

    def __init__(self, fact_id: str) -> None:
        super().__init__(f"The id {fact_id} is taken", "Give the fact another id")


class EmbeddingError(MemwellError):
    """An embedding provider, or a server behind one, did not deliver."""


class ProviderUnavailable(EmbeddingError):
    """It cannot be used until somebody acts: a package, file or key is missing or refused."""


class ProviderFailing(EmbeddingError):
    """It did not answer, or not with vectors. A later attempt may succeed."""

    def __init__(self, what: str, remedy: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(what, remedy)
        self.retry_after = retry_after
        """Seconds that the provider asked to wait."""


class WrongAnswer(ProviderFailing):
    """It answered, but not with what was asked for: one text of the batch may be the cause."""


class BatchRefused(EmbeddingError):
    """It refuses this batch: the batch is too large, or the provider refuses one of its texts."""


class LlmError(MemwellError):
    """A language model did not deliver."""


class LlmUnavailable(LlmError):
    """It cannot be used until somebody acts: the key, the address, the model, the bill."""


class LlmFailing(LlmError):
    """It did not answer, or not with text. A later attempt may succeed."""

    def __init__(self, what: str, remedy: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(what, remedy)
        self.retry_after = retry_after
        """Seconds that the provider asked to wait."""


class LlmRefused(LlmFailing):
    """It refuses this request, which is too long or not allowed. It may take another."""


class BudgetSpent(LlmError):
    """The command has used up its calls or tokens."""


UNWRITABLE = (HomeError, ReadOnlyError)
"""The errors for a store that cannot be written; much of it can still be read then."""
