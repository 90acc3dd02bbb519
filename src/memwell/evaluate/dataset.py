"""A labelled dataset: documents, queries, and which document answers which query.

A folder with ``corpus.jsonl`` (id, text, title?, date?, group?, session?), ``queries.jsonl``
(id, text, category?, group?) and ``qrels.tsv`` (query, document, grade).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from memwell.errors import MemwellError, NotFoundError

T = TypeVar("T")


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
        Document(**_texts(row, "title", "group", "session"), date=row.get("date"))
        for row in _rows(folder / "corpus.jsonl")
    )
    relevant = _judgements(folder / "qrels.tsv")
    questions = [
        Question(**_texts(row, "group", "category")) for row in _rows(folder / "queries.jsonl")
    ]
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


def _lines(file: Path, expected: str, parse: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    """Yield each line that is not empty: its place, and what `parse` makes of it."""
    number, line = 0, ""
    try:
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{file}:{number}", parse(line)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{file} does not exist", "A dataset needs corpus.jsonl, queries.jsonl and qrels.tsv"
        ) from error
    except UnicodeDecodeError as error:
        raise MemwellError(f"{file} is not UTF-8 ({error})", "Save it as UTF-8") from error
    except ValueError as error:
        raise MemwellError(
            f"{file}:{number} is not {expected} ({error}): {line[:80]!r}", "Correct that line"
        ) from error


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, each with its place in the file under ""."""

    def parse(line: str) -> dict[str, Any]:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError("not an object")
        return row

    for place, row in _lines(file, "a JSON object", parse):
        yield {**row, "": place}


def _texts(row: Mapping[str, Any], *optional: str) -> dict[str, str]:
    """Return the id, the text and the optional fields of a row."""
    for name in ("id", "text"):
        if name not in row:
            raise MemwellError(f"{row['']} has no {name!r}", "Every line needs an id and a text")
    texts = {name: str(row.get(name) or "") for name in optional}
    return {"id": str(row["id"]), "text": str(row["text"]), **texts}


def _judgements(file: Path) -> dict[str, dict[str, float]]:
    def parse(line: str) -> tuple[str, str, float]:
        query, document, grade = line.split("\t")
        return query, document, float(grade)

    relevant: dict[str, dict[str, float]] = {}
    expected = "query, document and grade between tabs"
    for _, (query, document, grade) in _lines(file, expected, parse):
        if grade > 0:
            relevant.setdefault(query, {})[document] = grade
    return relevant
