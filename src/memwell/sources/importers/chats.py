"""Exports of ChatGPT and Claude: each conversation becomes a transcript."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memwell.errors import MemwellError
from memwell.facts.guard import redact
from memwell.sources.importers.plan import (
    IMPORTED,
    TRANSCRIPTS,
    ImportPlan,
    objects,
    parse_json,
    read_files,
    texts,
)
from memwell.sources.transcripts.conversation_notes import group_turns
from memwell.sources.transcripts.turns import (
    ASSISTANT,
    USER,
    Turn,
    join_texts,
    parse_time,
    text_of,
)

CHATGPT, CLAUDE = "chatgpt", "claude"
_MAPPING = "mapping"
_UNSAFE = re.compile(r"[^\w.-]+")


def plan_chatgpt(path: Path) -> ImportPlan:
    """Plan the import of an export of ChatGPT: the archive, its folder or conversations.json."""
    plan = ImportPlan(CHATGPT)
    for name, data in read_files(path, (".json",)):
        if name == path.name or Path(name).name.startswith("conversations"):
            for conversation in objects(parse_json(name, data)):
                session = text_of(conversation.get("conversation_id") or conversation.get("id"))
                _add(plan, session, conversation.get("title"), _chatgpt_turns(conversation))
    return _checked(plan, path, "conversations.json")


def _chatgpt_turns(conversation: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the turns of the branch that was shown last, from the first message on."""
    mapping = conversation.get(_MAPPING)
    nodes = mapping if isinstance(mapping, dict) else {}
    key: Any = conversation.get("current_node")
    branch: list[dict[str, Any]] = []
    visited: set[str] = set()
    while isinstance(key, str) and key in nodes and key not in visited:
        visited.add(key)
        branch.append(nodes[key])
        key = nodes[key].get("parent")
    for node in reversed(branch or objects([*nodes.values()])[::-1]):
        message = node.get("message")
        if not isinstance(message, dict):
            continue
        author, content = message.get("author"), message.get("content")
        role = author.get("role") if isinstance(author, dict) else None
        hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
        if role in (USER, ASSISTANT) and isinstance(content, dict) and not hidden:
            parts = texts(content.get("parts"))
            text = "\n\n".join(parts) or text_of(content.get("text"))
            yield str(role), text, message.get("create_time") or conversation.get("create_time")


def plan_claude(path: Path) -> ImportPlan:
    """Plan the import of an export of Claude: conversations, projects and memories."""
    plan = ImportPlan(CLAUDE)
    for name, data in read_files(path, (".json",)):
        kind = Path(name).stem
        if name == path.name or kind.startswith("conversations"):
            for conversation in objects(parse_json(name, data)):
                session = text_of(conversation.get("uuid"))
                _add(plan, session, conversation.get("name"), _claude_turns(conversation))
        elif kind.startswith("projects"):
            for project in objects(parse_json(name, data)):
                _add_project(plan, project)
        elif kind.startswith("memories"):
            value = parse_json(name, data)
            for number, memory in enumerate(objects(value if isinstance(value, list) else [value])):
                _add_note(plan, f"memories{f'-{number}' if number else ''}", _strings(memory), {})
    return _checked(plan, path, "conversations.json")


def _claude_turns(conversation: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for message in objects(conversation.get("chat_messages")):
        speaker = USER if message.get("sender") in ("human", USER) else ASSISTANT
        text = join_texts(message.get("content")) or text_of(message.get("text"))
        attached = objects(message.get("attachments"))
        contents = [text_of(one.get("extracted_content")) for one in attached]
        yield speaker, "\n\n".join(filter(None, [text, *contents])), message.get("created_at")


def _add_project(plan: ImportPlan, project: dict[str, Any]) -> None:
    name = text_of(project.get("name")) or "project"
    fields = {"title": name, "date": text_of(project.get("created_at"))[:10]}
    about = [text_of(project.get("description")), text_of(project.get("prompt_template"))]
    _add_note(plan, f"projects/{name}/{name}", "\n\n".join(filter(None, about)), fields)
    for document in objects(project.get("docs")):
        title = text_of(document.get("filename")) or "document"
        fields = {"title": title, "date": text_of(document.get("created_at"))[:10]}
        _add_note(plan, f"projects/{name}/{title}", text_of(document.get("content")), fields)


def _add_note(plan: ImportPlan, name: str, text: str, fields: dict[str, str]) -> None:
    if not text.strip():
        return
    lines = [f"{key}: {json.dumps(value)}" for key, value in fields.items() if value]
    header = "\n".join(["---", *lines, "---", "", ""]) if lines else ""
    path = "/".join(_UNSAFE.sub("-", part).strip("-.") or "-" for part in name.split("/"))
    path = path.removesuffix(".md")
    plan.notes[f"{IMPORTED}/{plan.source}/{path}.md"] = f"{header}{redact(text.strip())}\n"


def _strings(value: Any) -> str:
    """Return the texts in a value, however deeply they are nested."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n\n".join(filter(None, map(_strings, inner)))


def _add(
    plan: ImportPlan, session: str, title: Any, messages: Iterator[tuple[str, str, Any]]
) -> None:
    turns = [
        Turn(speaker, text, parse_time(at), session, "")
        for speaker, text, at in messages
        if text.strip()
    ]
    if turns:
        plan.conversations += 1
        plan.turns += len(turns)
        for note, text in group_turns(plan.source, turns, text_of(title)).items():
            plan.notes[f"{TRANSCRIPTS}/{note.path}"] = note.front_matter + text


def _checked(plan: ImportPlan, path: Path, expected: str) -> ImportPlan:
    if not plan.notes:
        raise MemwellError(
            f"{path} has no {expected} with messages",
            f"Name the archive that {plan.source} sent you, its folder, or {expected}",
        )
    return plan
