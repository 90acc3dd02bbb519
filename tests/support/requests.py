"""Structured random requests, made from /openapi.json: half wrong values, half existing objects."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

TEXTS = [
    "The cat is called Miso.",
    "会议",
    "a OR (b",
    "path:*",
    '"',
    "zebra heron",
    "x" * 3_000,
    "é\u0301",
]
TIMES = ["2026-01-01", "2026-02-30", "yesterday", "", "2026-01-01T00:00:00Z", "9999-12-31", "-1"]
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    "",
    "\x00",
    "../../etc/passwd",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "\ud83d",
]
KINDS = {
    "fact_id": "fact",
    "old": "fact",
    "ids": "fact",
    "file_id": "file",
    "file_ids": "file",
    "vector_store_id": "store",
    "batch_id": "batch",
    "number": "space",
    "reference": "note",
    "path": "note",
    "paths": "note",
    "after": "file",
    "before": "file",
}
"""What the values of a field name."""
CREATING: dict[str, tuple[str, Callable[[Any], str]]] = {
    "/api/remember": ("fact", lambda answer: answer["fact"]["id"]),
    "/v1/files": ("file", lambda answer: answer["id"]),
    "/v1/vector_stores": ("store", lambda answer: answer["id"]),
    "/v1/vector_stores/{vector_store_id}/file_batches": ("batch", lambda answer: answer["id"]),
}
FEWEST = 5
"""Objects of a kind: if there are fewer, the next request creates one."""


@dataclass(frozen=True)
class Request:
    """One request: `path` as it is described, `url` as it is sent."""

    method: str
    path: str
    url: str
    body: bytes | None
    content_type: str = "application/json"


class Requests:
    """Makes requests for the operations of a server, and remembers the objects it has."""

    def __init__(self, description: Mapping[str, Any], chance: random.Random) -> None:
        self.chance = chance
        self.objects: defaultdict[str, list[Any]] = defaultdict(list)
        self._schemas = description["components"]["schemas"]
        self._operations = {
            (method.upper(), path): operation
            for path, methods in description["paths"].items()
            for method, operation in methods.items()
        }

    def make(self) -> Request:
        """Make the next request."""
        lacking = [
            path
            for path, (kind, _) in CREATING.items()
            if len(self.objects[kind]) < FEWEST and (kind != "batch" or self.objects["store"])
        ]
        if lacking:
            return self._build("POST", lacking[0], wrong=0.0)
        method, path = self.chance.choice([*self._operations])
        return self._build(method, path, wrong=self.chance.choice([0.0, 0.0, 0.1, 0.5]))

    def learn(self, request: Request, status: int, body: bytes) -> None:
        """Remember an object that was created, and forget those that are gone."""
        if status == 200 and request.method == "POST" and request.path in CREATING:
            kind, find = CREATING[request.path]
            self.objects[kind] = [*self.objects[kind][-40:], find(json.loads(body))]
        if status == 200 and request.method == "DELETE":
            for ids in self.objects.values():
                ids[:] = [key for key in ids if str(key) not in request.url]
        if status == 200 and request.path == "/api/forget" and request.body:
            gone = json.loads(request.body)["ids"]
            self.objects["fact"] = [key for key in self.objects["fact"] if key not in gone]

    def _build(self, method: str, path: str, wrong: float) -> Request:
        operation = self._operations[method, path]
        url, query = path, {}
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            value = self._value(name, parameter["schema"], wrong)
            if parameter["in"] == "path":
                url = url.replace(f"{{{name}}}", quote(_as_text(value), safe="") or "%20")
            elif parameter.get("required") or self.chance.random() < 0.3:
                query[name] = _as_text(value)
        if query:
            url += f"?{urlencode(query, errors='replace')}"
        content = operation.get("requestBody", {}).get("content", {})
        if "multipart/form-data" in content:
            return Request(method, path, url, *self._upload())
        body = None
        if "application/json" in content:
            schema = content["application/json"]["schema"]
            body = json.dumps(self._value("", schema, wrong)).encode()
            if self.chance.random() < wrong / 10:
                body = body[: len(body) // 2]
        return Request(method, path, url, body)

    def _upload(self) -> tuple[bytes, str]:
        name = self.chance.choice(["a.md", "b.txt", "会议.md", "c.pdf", "..", "x.json"])
        text = self.chance.choice(TEXTS) * self.chance.choice([0, 1, 3])
        parts = [
            '--soak\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n',
            f'--soak\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: text/plain\r\n\r\n{text}\r\n--soak--\r\n",
        ]
        return "".join(parts).encode(), "multipart/form-data; boundary=soak"

    def _value(self, name: str, schema: Mapping[str, Any], wrong: float) -> Any:
        """A value for a field: an existing object, one that fits the schema, or a wrong one."""
        if self.chance.random() < wrong:
            return self.chance.choice(ODD)
        if "$ref" in schema:
            return self._value(name, self._schemas[schema["$ref"].rsplit("/", 1)[1]], wrong)
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._value(name, self.chance.choice(schema[choice]), wrong)
        if "const" in schema or "enum" in schema:
            return self.chance.choice(schema.get("enum") or [schema["const"]])
        if name in KINDS and schema.get("type") in ("string", "integer"):
            return self.chance.choice(self.objects[KINDS[name]] or ["none"])
        return self._of_type(name, schema, wrong)

    def _of_type(self, name: str, schema: Mapping[str, Any], wrong: float) -> Any:
        match schema.get("type"):
            case "object":
                return self._object(schema, wrong)
            case "array":
                count = self.chance.randint(schema.get("minItems", 0), 2)
                return [self._value(name, schema["items"], wrong) for _ in range(max(count, 1))]
            case "string":
                return self._text(name)
            case "integer":
                lowest, highest = schema.get("minimum", 0), schema.get("maximum", 100)
                return self.chance.randint(int(lowest), min(int(highest), int(lowest) + 50))
            case "number":
                return self.chance.choice([0, 0.5, 1])
            case "boolean":
                return self.chance.random() < 0.5
        return None

    def _object(self, schema: Mapping[str, Any], wrong: float) -> dict[str, Any]:
        required = schema.get("required", ())
        filled = {
            name: self._value(name, of, wrong)
            for name, of in schema.get("properties", {}).items()
            if name in required or self.chance.random() < 0.3
        }
        if self.chance.random() < wrong and filled:
            del filled[self.chance.choice([*filled])]
        if schema.get("additionalProperties"):
            filled["key"] = self._value("key", schema["additionalProperties"], wrong)
        return filled

    def _text(self, name: str) -> str:
        match name:
            case "as_of" | "valid_from":
                return self.chance.choice(TIMES)
            case "scope":
                return self.chance.choice(["global", "agent", "user", "session"])
            case "decay_class":
                return self.chance.choice(["permanent", "session", "stable"])
            case "secrets":
                return self.chance.choice(["refuse", "redact", "keep"])
            case "text":
                return f"{self.chance.choice(TEXTS)} Fact {self.chance.randrange(10**6)}."
        return self.chance.choice(TEXTS)


def _as_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()
