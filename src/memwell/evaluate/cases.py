"""A user's own cases: queries and the notes that they should find.

A ``.jsonl`` file with ``{"query": ..., "note": path or [paths], "category"?: ...}`` a line; or a
``.yaml`` file with a list of the same, or with the queries of each note under its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from memwell.errors import MemwellError, NotFoundError
from memwell.evaluate.dataset import Dataset, Document, Question

if TYPE_CHECKING:
    import yaml

_JSONL = (".jsonl", ".ndjson")
_YAML = (".yaml", ".yml")
_FIELDS = '"query" (a text), "note" (a path or a list of paths) and, optionally, "category"'
_JSON_SHAPE = f"Expected a JSON object a line with {_FIELDS}"
_YAML_SHAPE = f"Expected a list of mappings with {_FIELDS}; or a list of queries for each note path"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, the notes that it should find, and its line in the file."""

    query: str
    notes: tuple[str, ...]
    category: str = ""
    line: int = 0


def read_cases(file: Path) -> tuple[Case, ...]:
    """Read a file of cases; an error names the line of anything else."""
    kind = file.suffix.lower()
    if kind not in _JSONL + _YAML:
        raise MemwellError(
            f"{file} is neither JSONL nor YAML by its name",
            f"Name it {', '.join('*' + suffix for suffix in _JSONL + _YAML)}",
        )
    parse, shape = (_from_jsonl, _JSON_SHAPE) if kind in _JSONL else (_from_yaml, _YAML_SHAPE)
    try:
        cases = tuple(parse(_text(file)))
    except _MalformedCase as error:
        where = f"{file}:{error.line}" if error.line else f"{file}"
        raise MemwellError(f"{where} {error}", shape) from error
    if not cases:
        raise MemwellError(f"{file} has no case", shape)
    return cases


def to_dataset(name: str, cases: Sequence[Case]) -> Dataset:
    """Return cases as a dataset: its documents are the notes, its question ids are numbers."""
    notes = dict.fromkeys(note for case in cases for note in case.notes)
    return Dataset(
        name,
        tuple(Document(note, "") for note in notes),
        tuple(
            Question(str(number), case.query, category=case.category)
            for number, case in enumerate(cases, 1)
        ),
        {str(number): dict.fromkeys(case.notes, 1.0) for number, case in enumerate(cases, 1)},
    )


def check_notes(
    file: Path, cases: Sequence[Case], known: Callable[[Iterable[str]], set[str]]
) -> None:
    """Raise an error that names every note that `known` does not return."""
    lines: dict[str, int] = {}
    for case in cases:
        for note in case.notes:
            lines.setdefault(note, case.line)
    indexed = known(lines)
    missing = [f"{note} ({file}:{line})" for note, line in lines.items() if note not in indexed]
    if missing:
        raise NotFoundError(
            f"Not in the index: {', '.join(missing)}",
            "Use a path as `memwell search` shows it, or run `memwell index`",
        )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise MemwellError(f"{file} is not UTF-8 ({error})", "Save it as UTF-8") from error
    except OSError as error:
        raise NotFoundError(
            f"{file} cannot be read ({error.strerror})", "Check its name and permissions"
        ) from error


class _MalformedCase(Exception):
    """The line of a case, or 0, and the reason why it is not one."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def _case(fields: Mapping[str, Any], line: int) -> Case:
    for name in ("query", "note"):
        if name not in fields:
            raise _MalformedCase(line, f'has no "{name}"')
    query, category = fields["query"], fields.get("category") or ""
    named = fields["note"]
    notes = named if isinstance(named, list) else [named]
    if not _is_text(query):
        raise _MalformedCase(line, f'has a "query" that is not a text: {query!r}')
    if not notes or not all(_is_text(note) for note in notes):
        what = f'has a "note" that is neither a path nor a list of paths: {named!r}'
        raise _MalformedCase(line, what)
    if not isinstance(category, str):
        raise _MalformedCase(line, f'has a "category" that is not a text: {category!r}')
    paths = dict.fromkeys(PurePosixPath(note.strip()).as_posix() for note in notes)
    return Case(query.strip(), tuple(paths), category.strip(), line)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# -- JSONL -----------------------------------------------------------------------------------------


def _from_jsonl(text: str) -> Iterator[Case]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _MalformedCase(number, f"is not JSON ({error})") from error
        if not isinstance(fields, dict):
            raise _MalformedCase(number, f"is not a JSON object: {line.strip()[:80]}")
        yield _case(fields, number)


# -- YAML ------------------------------------------------------------------------------------------
# Nodes are read instead of values: they know their lines, and a query `yes` stays a text.


def _from_yaml(text: str) -> Iterator[Case]:
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        yield from _yaml_cases(root) if root else ()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _MalformedCase(line, f"is not YAML ({error.problem})") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _MalformedCase(0, f"is not YAML ({error})") from error


def _yaml_cases(root: yaml.Node) -> Iterator[Case]:
    import yaml

    if isinstance(root, yaml.SequenceNode):
        for item in root.value:
            if not isinstance(item, yaml.MappingNode):
                raise _MalformedCase(_line(item), "is not a mapping with a query and a note")
            fields = {_scalar(key) or "": _plain(value) for key, value in item.value}
            yield _case(fields, _line(item))
    elif isinstance(root, yaml.MappingNode):
        for note, queries in root.value:
            if not queries.value:
                raise _MalformedCase(_line(queries), "names a note without a query")
            listed = isinstance(queries, yaml.SequenceNode)
            for query in queries.value if listed else [queries]:
                yield _case({"query": _plain(query), "note": _plain(note)}, _line(query))
    else:
        raise _MalformedCase(_line(root), "is neither a list nor a mapping")


def _plain(node: yaml.Node) -> str | list[str | None] | None:
    """Return a scalar as it was written, a list of scalars, or None for anything else."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_scalar(item) for item in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> str | None:
    import yaml

    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
        return None
    return str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
