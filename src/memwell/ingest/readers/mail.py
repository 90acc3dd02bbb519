"""E-mail: a message (.eml), or the messages of a mailbox (.mbox).

The position in a mailbox is the number of the message.
"""

from __future__ import annotations

import datetime as dt
import email
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage

from memwell.errors import UnreadableDocumentError
from memwell.ingest.readers.document import Document, Section
from memwell.ingest.readers.html import read_html

_BEGIN = re.compile(rb"(?:\A|(?<=\n))From [^\n]*\r?\n")
_SHOWN = ("From", "To", "Cc", "Date", "Subject")


def read(data: bytes, name: str) -> Document:
    """Convert a message or a mailbox."""
    is_mailbox = name.lower().endswith(".mbox")
    messages = [_parse(part) for part in (_split(data) if is_mailbox else [data])]
    if not any(message.keys() for message in messages):
        raise UnreadableDocumentError("it has no headers of an e-mail")
    sections = [
        Section(
            _text(message),
            (_header(message, "Subject"),) if _header(message, "Subject") else (),
            f"message={number}" if is_mailbox else "",
            is_plain=True,
        )
        for number, message in enumerate(messages, 1)
    ]
    if is_mailbox:
        return Document(tuple(sections))
    return Document(tuple(sections), _header(messages[0], "Subject"), _date(messages[0]))


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a mailbox; a line "From " in a text is written as ">From "."""
    starts = [*_BEGIN.finditer(data)]
    ends = [*(match.start() for match in starts[1:]), len(data)]
    for match, end in zip(starts, ends, strict=False):
        yield re.sub(rb"(?m)^>(>*From )", rb"\1", data[match.end() : end])


def _parse(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=policy.default)


def _text(message: EmailMessage) -> str:
    headers = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    attached = [name for part in _parts(message) if (name := _file_name(part))]
    if attached:
        headers.append(f"Attached: {', '.join(attached)}")
    return "\n".join([*headers, "", _body(message).strip(), ""])


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):
        return ""  # the parser of headers fails on some that are not valid


def _body(message: EmailMessage) -> str:
    for kind in ("plain", "html"):
        try:
            part = message.get_body((kind,))
            content = part.get_content() if part else ""
        except (KeyError, LookupError, ValueError, AttributeError, TypeError):
            payload = message.get_payload(decode=True)
            content = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
        if isinstance(content, str) and content.strip():
            text = read_html(content).text if kind == "html" else content
            return text.replace("\r", "").replace("\0", " ")
    return ""


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    try:
        yield from message.iter_attachments()
    except (AttributeError, KeyError, TypeError, ValueError):
        return


def _file_name(part: EmailMessage) -> str:
    try:
        return part.get_filename() or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _date(message: EmailMessage) -> str | None:
    try:
        date = message["Date"].datetime
    except (AttributeError, ValueError, TypeError, IndexError, OverflowError):
        return None
    return date.date().isoformat() if isinstance(date, dt.datetime) else None
