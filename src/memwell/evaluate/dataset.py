"""A labelled dataset: documents, queries, and which document answers which query.

A folder with ``corpus.jsonl`` (id, text, title?, date?, group?, session?), ``queries.jsonl``
(id, text, category?, group?) and ``qrels.tsv`` (query, document, grade).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError, NotFoundError


@dataclass(frozen=True, slots=True)
class Document:
    """A text that can be found."""

    id: str
    text: str
    title: str = ""
    date: str | None = None
    group: str = ""
    session: str = ""
    """Consecutive documents of one session are neighbours, as the passages of a note are."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query; with a `group`, only documents of that group are searched."""

    id: str
    text: str
    group: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A labelled dataset, complete in memory."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    relevant: Mapping[str, Mapping[str, float]]
    """For each question, the grade of each document that answers it."""


def load(folder: Path) -> Dataset:
    """Read a dataset; questions without a relevant document are left out."""
    if not folder.is_dir():
        raise NotFoundError(
            f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}",
            "Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv, or a .jsonl or .yaml"
            " file of your own cases",
        )
    documents = tuple(
        Document(
            _text(row, "id"),
            _text(row, "text"),
            str(row.get("title") or ""),
            row.get("date"),
            str(row.get("group") or ""),
            str(row.get("session") or ""),
        )
        for row in _rows(folder / "corpus.jsonl")
    )
    relevant = _judgements(folder / "qrels.tsv")
    questions = tuple(
        Question(
            _text(row, "id"),
            _text(row, "text"),
            str(row.get("group") or ""),
            str(row.get("category") or ""),
        )
        for row in _rows(folder / "queries.jsonl")
    )
    answered = tuple(question for question in questions if relevant.get(question.id))
    if not answered:
        raise MemwellError(
            f"No query of {folder} has a relevant document", "Check the ids in qrels.tsv"
        )
    known = {document.id for document in documents}
    if not any(known & relevant[question.id].keys() for question in answered):
        raise MemwellError(
            f"No relevant document of {folder} is in corpus.jsonl", "Check the ids in qrels.tsv"
        )
    return Dataset(folder.name, documents, answered, relevant)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise ValueError("not an object")
                    yield {**row, "": f"{file}:{number}"}
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{file} does not exist", "A dataset needs corpus.jsonl, queries.jsonl and qrels.tsv"
        ) from error
    except UnicodeDecodeError as error:
        raise MemwellError(f"{file} is not UTF-8 ({error})", "Save it as UTF-8") from error
    except ValueError as error:
        raise MemwellError(
            f"{file}:{number} is not a JSON object ({error})", "Correct that line"
        ) from error


def _text(row: Mapping[str, Any], key: str) -> str:
    if key not in row:
        raise MemwellError(f"{row['']} has no {key!r}", "Every line needs an id and a text")
    return str(row[key])


def _judgements(file: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{file} does not exist", "A dataset needs corpus.jsonl, queries.jsonl and qrels.tsv"
        ) from error
    except UnicodeDecodeError as error:
        raise MemwellError(f"{file} is not UTF-8 ({error})", "Save it as UTF-8") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            query, document, grade = line.split("\t")
            if float(grade) > 0:
                found.setdefault(query, {})[document] = float(grade)
        except ValueError as error:
            raise MemwellError(
                f"{file}:{number} is not query, document and grade between tabs: {line!r}",
                "Correct that line",
            ) from error
    return found
