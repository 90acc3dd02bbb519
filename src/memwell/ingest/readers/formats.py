"""The file formats that memwell reads besides Markdown and plain text.

A package offers a reader through an entry point of the group ``memwell.readers``. Its name is the
suffix of the files without the dot, and the name that ``scan.formats`` lists. It is a function that
takes the bytes and the name of a file, and returns a `Document`. It runs in a process of its own
that has a memory limit and a time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from memwell.errors import MemwellError

if TYPE_CHECKING:
    from memwell.ingest.readers.document import Document

    ReadDocument: TypeAlias = Callable[[bytes, str], Document]

GROUP = "memwell.readers"
TEXT = ("markdown", "text", "rst")
"""The formats that need no reader."""
EXTRA = "memwell[documents]"
CODE_SUFFIXES = tuple(
    f".{name}"
    for name in (
        *("py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "go", "rs", "java", "kt", "swift"),
        *("scala", "c", "h", "cc", "cpp", "hpp", "cs", "php", "rb", "sh", "bash", "lua", "sql"),
        *("r", "jl", "ex", "exs", "hs", "zig", "dart"),
    )
)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format and its reader."""

    name: str
    label: str
    """The format as people call it."""
    suffixes: tuple[str, ...]
    module: str = ""
    """The module in this package whose function `read` converts a file."""
    package: str = ""
    """The package that the reader imports, if it is an extra."""
    is_packed: bool = False
    """Whether a file is much larger than its text."""
    version: int = 1
    """Raise it if the same file gives another text now: it is then read again."""

    has_source_lines: bool = False
    """Whether its lines are those of the file."""

    @property
    def is_text(self) -> bool:
        """Whether a file is a note as it is."""
        return self.name in TEXT

    @property
    def is_installed(self) -> bool:
        """Whether the reader can be imported."""
        return not self.package or _is_importable(self.package)

    def load(self) -> ReadDocument:
        """Import the reader."""
        if self.module:
            module = import_module(f"memwell.ingest.readers.{self.module}")
            return cast("ReadDocument", module.read)
        from importlib.metadata import entry_points

        for entry_point in entry_points(group=GROUP, name=self.name):
            return cast("ReadDocument", entry_point.load())
        raise MemwellError(
            f"{self.name} is not a file format that memwell reads",
            f"Choose among {', '.join(BUILT_IN)} in scan.formats, or install a package for it",
        )


BUILT_IN = {
    found.name: found
    for found in (
        Format("markdown", "Markdown", (".md", ".markdown", ".mdx")),
        Format("text", "text", (".txt",)),
        Format("rst", "reStructuredText", (".rst",), version=2),
        Format("org", "Org", (".org",), "org", has_source_lines=True),
        Format("notebook", "Jupyter", (".ipynb",), "notebook", is_packed=True),
        Format("mail", "e-mail", (".eml", ".mbox"), "mail", is_packed=True),
        Format("pdf", "PDF", (".pdf",), "pdf", "pypdfium2", is_packed=True),
        Format("docx", "Word", (".docx",), "docx", is_packed=True),
        Format("epub", "EPUB", (".epub",), "epub", is_packed=True),
        Format("html", "HTML", (".html", ".htm", ".xhtml"), "html"),
        Format("code", "source code", CODE_SUFFIXES, "code", has_source_lines=True),
    )
}


def find_format(path: str, names: tuple[str, ...] = ()) -> Format | None:
    """Return the format of a file by its name: one that ``scan.formats`` names comes first."""
    suffix = path[path.rfind(".") :].lower()
    return selected_formats(names).get(suffix) or _by_suffix().get(suffix)


@cache
def selected_formats(names: tuple[str, ...]) -> dict[str, Format]:
    """Return the formats that ``scan.formats`` names, by suffix."""
    return {
        suffix: found
        for name in names
        for found in [format_named(name)]
        for suffix in found.suffixes
    }


def format_named(name: str) -> Format:
    """Return a format: a built-in one, or the one of an entry point, whose name is the suffix."""
    return BUILT_IN.get(name) or Format(name, name, (f".{name.lower()}",))


def find_reader_of(name: str) -> Format | None:
    """Return the format of a file that the user names: built in, or of an installed package."""
    from importlib.metadata import entry_points

    suffix = name.rpartition(".")[2].lower()
    offered = entry_points(group=GROUP, name=suffix)
    return find_format(name) or (format_named(suffix) if offered else None)


def known_suffixes() -> list[str]:
    """Return the suffixes of the built-in formats, without those of source code."""
    return [one for found in BUILT_IN.values() if found.name != "code" for one in found.suffixes]


@cache
def _by_suffix() -> dict[str, Format]:
    return {suffix: found for found in BUILT_IN.values() for suffix in found.suffixes}


@cache
def _is_importable(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None
