"""LangGraph: a store for the long-term memory of agents."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import operator
from collections.abc import Iterable
from hashlib import blake2s
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from memwell.memory import Memory
from memwell.model import Fact
from memwell.store.contract.values import FactFilter

_SOURCE = "langgraph"
_COMPARISONS = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_TEXT_KEYS = ("text", "content", "memory", "data", "value")


class MemwellStore(BaseStore):
    """Keeps the items of LangGraph as facts, which every other surface of memwell finds, too.

    The text of a fact is the namespace, the key and the text of the item; its origin is the item.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in order."""
        return [self._run(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in order, in a thread."""
        return await asyncio.to_thread(self.batch, [*ops])

    def _run(self, op: Op) -> Result:
        match op:
            case GetOp():
                fact = self._find(op.namespace, op.key)
                return _to_item(fact) if fact else None
            case PutOp():
                return self._put(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._list_namespaces(op)
        raise TypeError(f"{op!r} is not an operation of a store")

    def _find(self, namespace: tuple[str, ...], key: str) -> Fact | None:
        found = self.memory.facts.find(FactFilter(tag=_tag(namespace, key), source=_SOURCE), 1)
        return found[0] if found else None

    def _put(self, op: PutOp) -> None:
        old = self._find(op.namespace, op.key)
        if op.value is None:
            if old:
                self.memory.forget(old.id)
            return
        origin = json.dumps([op.namespace, op.key, op.value, _now()], ensure_ascii=False)
        text = f"{' '.join((*op.namespace, op.key))}: {_text(op.value)}"
        if old:
            self.memory.facts.edit(old.id, text=text, origin=origin)
        else:
            tags = [_tag(op.namespace, op.key)]
            self.memory.remember(text, tags=tags, source=_SOURCE, origin=origin, secrets="redact")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix = op.namespace_prefix
        items = {
            fact.id: item
            for fact in self.memory.facts.find(FactFilter(source=_SOURCE))
            if (item := _to_item(fact)).namespace[: len(prefix)] == prefix
            and _matches(item.value, op.filter or {})
        }
        ranked: list[tuple[Item, float | None]]
        if op.query and items:
            hits = self.memory.search(
                op.query, k=op.limit + op.offset, kind="fact", paths=items, group="passages"
            ).hits
            ranked = [(items[hit.path], hit.score) for hit in hits if hit.path in items]
        else:
            ranked = [(item, None) for item in items.values()]
        return [
            SearchItem(
                item.namespace, item.key, item.value, item.created_at, item.updated_at, score
            )
            for item, score in ranked[op.offset : op.offset + op.limit]
        ]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        facts = self.memory.facts.find(FactFilter(source=_SOURCE))
        namespaces = {
            namespace[: op.max_depth]
            for namespace in (_to_item(fact).namespace for fact in facts)
            if all(_is_match(namespace, condition) for condition in op.match_conditions or ())
        }
        return sorted(namespaces)[op.offset : op.offset + op.limit]


def _tag(namespace: tuple[str, ...], key: str) -> str:
    return f"lg-{blake2s(json.dumps([namespace, key]).encode(), digest_size=12).hexdigest()}"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()


def _text(value: Any) -> str:
    """Return the text of an item: a field that usually has it, or else all of it."""
    texts = [value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)]
    return texts[0] if texts else json.dumps(value, ensure_ascii=False)


def _to_item(fact: Fact) -> Item:
    namespace, key, value, updated_at = json.loads(fact.origin)
    return Item(
        namespace=tuple(namespace),
        key=key,
        value=value,
        created_at=dt.datetime.fromisoformat(fact.created_at),
        updated_at=dt.datetime.fromisoformat(updated_at),
    )


def _matches(value: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for key, expected in wanted.items():
        rules = expected if isinstance(expected, dict) else {"$eq": expected}
        for name, other in rules.items():
            if key not in value or not _COMPARISONS[name](value[key], other):
                return False
    return True


def _is_match(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    part = namespace[-len(path) :] if condition.match_type == "suffix" else namespace[: len(path)]
    return len(part) == len(path) and all(
        wanted in ("*", name) for wanted, name in zip(path, part, strict=True)
    )
