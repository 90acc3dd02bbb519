"""Writes memwell.ts beside this file, from the OpenAPI document of `memwell serve`.

python clients/typescript/generate.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FILE = Path(__file__).with_name("memwell.ts")
TEMPLATE = Path(__file__).with_name("template.ts")
PREFIX = "/api/"
"""The routes of memwell itself; OpenAI's own client is for the others."""
_PRIMITIVES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
Schema = dict[str, Any]


def read_document() -> Schema:
    """Return the OpenAPI document of a server."""
    from memwell import Memory
    from memwell.surfaces.http.app import create_app

    with TemporaryDirectory() as home, Memory(home, settings={"embedding.chain": ()}) as memory:
        return create_app(memory).openapi()


def generate(document: Schema) -> str:
    """Return the client: a type for each schema, and a method for each route."""
    routes = [
        (path, method, route)
        for path, methods in document["paths"].items()
        if path.startswith(PREFIX)
        for method, route in methods.items()
    ]
    schemas = document["components"]["schemas"]
    sent = _reachable([_body(route) for *_, route in routes], schemas)
    received = _reachable([_answer(route) for *_, route in routes], schemas)
    types = [
        _interface(name, schemas[name], all_present=name not in sent)
        for name in schemas
        if name in sent | received
    ]
    methods = [_method(path, method, route) for path, method, route in routes]
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("// types\n", "\n\n".join(types) + "\n")
    return text.replace("  // methods\n", "\n\n".join(methods) + "\n")


def _body(route: Schema) -> Schema:
    content = route.get("requestBody", {}).get("content", {})
    return dict(content.get("application/json", {}).get("schema", {}))


def _answer(route: Schema) -> Schema:
    return dict(route["responses"]["200"]["content"].get("application/json", {}).get("schema", {}))


def _reachable(starts: list[Schema], schemas: Schema) -> set[str]:
    """Return the names of all schemas that some schemas contain."""
    found: set[str] = set()
    waiting = [name for start in starts for name in _references(start)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(schemas[name])
    return found


def _references(schema: Any) -> Iterator[str]:
    yield from re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema))


def _interface(name: str, schema: Schema, *, all_present: bool) -> str:
    required = {*schema.get("properties", {})} if all_present else {*schema.get("required", ())}
    fields = [
        f"  {field}{'' if field in required else '?'}: {_type(inner)}"
        for field, inner in schema.get("properties", {}).items()
    ]
    about = " ".join(schema.get("description", "").split())
    comment = f"/** {about} */\n" if about else ""
    return "\n".join([f"{comment}export interface {name} {{", *fields, "}"])


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(choice) for choice in schema["anyOf"]))
    kind = schema.get("type")
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    if kind == "array":
        inner = _type(schema.get("items", {}))
        return f"Array<{inner}>"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values if isinstance(values, dict) else {})}>"
    return "null" if kind == "null" else _PRIMITIVES.get(str(kind), "unknown")


def _method(path: str, method: str, route: Schema) -> str:
    parameters = route.get("parameters", [])
    in_path = [_camel(one["name"]) for one in parameters if one["in"] == "path"]
    arguments = [
        f"{_camel(one['name'])}: {_type(one['schema'])}"
        for one in parameters
        if one["in"] == "path"
    ]
    query = [one for one in parameters if one["in"] == "query"]
    sent = []
    if body := _body(route):
        arguments.append(f"body: {_type(body)}")
        sent.append("body")
    if query:
        fields = "; ".join(
            f"{one['name']}{'' if one.get('required') else '?'}: {_type(one['schema'])}"
            for one in query
        )
        default = "" if any(one.get("required") for one in query) else " = {}"
        arguments.append(f"query: {{ {fields} }}{default}")
        sent.append("query")
    answer = _type(_answer(route)) if _answer(route) else "string"
    address = re.sub(r"\{(\w+)\}", lambda part: f"${{encodeURIComponent({_camel(part[1])})}}", path)
    quoted = f"`{address}`" if in_path else f'"{address}"'
    options = f"{{ {', '.join(sent)} }}" if sent else "{}"
    call = f"this.#send({method.upper()!r}, {quoted}, {options})".replace("'", '"')
    about = " ".join(route.get("description", "").split())
    return (
        f"  /** {about} */\n"
        f"  {_camel(route['operationId'])}({', '.join(arguments)}): Promise<{answer}> {{\n"
        f"    return {call}\n"
        "  }"
    )


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter[1].upper(), name)


if __name__ == "__main__":
    FILE.write_text(generate(read_document()), encoding="utf-8")
