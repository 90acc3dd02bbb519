"""The packed text: compressed files of lines, whose fields are separated by control characters."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

SYNTHETIC = "synthetic"
"""The file and the shard of translations by machine."""
MANUALS = {
    "astro_docs",
    "cloudflare_docs",
    "code_docstrings",
    "debian_descriptions",
    "debian_docs_html",
    "debian_install_guide",
    "docker_docs",
    "docs_multilingual",
    "dotnet_docs",
    "fastapi_docs",
    "github_docs",
    "hf_course",
    "istio_docs",
    "k8s_docs",
    "k8s_en_body",
    "libreoffice",
    "mdn",
    "mdn_en",
    "php_manual",
    "pingcap_docs_zh",
    "powershell_docs",
    "python_docs",
    "python_docs2",
    "react_dev",
    "tensorflow_docs",
    "tldr_pages",
}
"""The shards about software: most of the text, and what a first training has learnt well."""
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n+")


def read_lines(file: Path) -> list[list[str]]:
    """Return the lines of a packed file: the shard, the language and the texts."""
    return [
        line.split("\x01") for line in lzma.decompress(file.read_bytes()).decode().split("\x00")
    ]


def write_lines(file: Path, lines: Iterable[Sequence[str]]) -> None:
    """Write lines as `read_lines` reads them."""
    with lzma.open(file, "wb", preset=9) as target:
        target.write("\x00".join("\x01".join(line) for line in lines).encode())


def sentences(text: str) -> list[str]:
    """Cut a text after each sentence; all but the first begin with a space."""
    parts = [part for part in _SENTENCE.split(text) if part.strip()]
    return [part if number == 0 else " " + part for number, part in enumerate(parts)]
