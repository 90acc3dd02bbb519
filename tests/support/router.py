"""A router before two real servers: each transaction runs on the server of its tenant.

It stands for a cluster that distributes the tables by tenant. A client begins a transaction, the
router reads the tenant from the setting that the transaction begins with, and sends everything up to
its end to one of the servers. It refuses a statement on a table that does not name this tenant as a
constant, and has the server plan each new statement: it must need one partition of each table, which
is that of the tenant. Statements that read only the catalogue go to the first server, as to a
coordinator.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg

from memwell.store.postgres.migrate import migrate
from memwell.store.postgres.schema import TABLES
from tests.support.cluster import USER, Cluster

_PORT = 5432
_SPREAD = "DELETE FROM memwell.commits"
"""The one statement that all servers run: every process deletes old marks when it starts."""
_LITERAL = r"E'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'"
_TOKEN = re.compile(rf"{_LITERAL}|\"[^\"]*\"|;", re.S)
_SETTING = re.compile(rf"SET LOCAL memwell\.tenant = ({_LITERAL})", re.S)
_OF_TENANT = re.compile(rf"\btenant = (?:(\$\d+)|({_LITERAL}))", re.S)
_TABLE = re.compile(rf"\b({'|'.join(TABLES)})\b")
_PLANNED = re.compile(r"\s*(?:DECLARE .*? FOR )?((?:SELECT|INSERT|UPDATE|DELETE|WITH)\b.*)", re.S)
_PART = re.compile(rf'"Relation Name": "({"|".join(TABLES)})_(\d)"')


def server_of(tenant: str) -> int:
    """The number of the server that has a tenant."""
    return crc32(tenant.encode()) % 2


@dataclass(frozen=True)
class Message:
    """A message of the protocol: its type and its content."""

    kind: bytes
    content: bytes

    def __bytes__(self) -> bytes:
        return self.kind + struct.pack("!i", len(self.content) + 4) + self.content


@dataclass(frozen=True)
class Statement:
    """A statement, with the values and the types that go with it."""

    text: str
    values: tuple[bytes | None, ...] = ()
    types: tuple[int, ...] = ()
    formats: tuple[int, ...] = ()

    @property
    def shape(self) -> str:
        """The statement without the values that are written into it."""
        return " ".join(re.sub(_LITERAL, "''", self.text).split())

    @property
    def tables(self) -> set[str]:
        return {*_TABLE.findall(self.shape)}

    def names(self, tenant: str) -> bool:
        """Whether a constant of the statement is the tenant."""
        constants = {_unquote(literal) for literal in re.findall(_LITERAL, self.text, re.S)}
        return tenant in constants or tenant.encode() in self.values

    def tenant(self) -> str | None:
        """The tenant that the statement sets or names."""
        if setting := _SETTING.search(self.text):
            return _unquote(setting[1])
        if named := _OF_TENANT.search(self.text):
            value = self.values[int(named[1][1:]) - 1] if named[1] else None
            return value.decode() if value else _unquote(named[2]) if named[2] else None
        return None


@dataclass
class Router:
    """Routes the connections to a socket in a folder; its findings are for the test to read."""

    folder: Path
    servers: Sequence[Cluster]
    statements: set[str] = field(default_factory=set)
    """Every statement that named its tenant, without its values."""
    wrong: list[str] = field(default_factory=list)
    """Statements that were refused, or that need more than the tenant's partition."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._planners = [
            psycopg.connect(server.url(), autocommit=True, options="-c search_path=memwell,public")
            for server in self.servers
        ]
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / f".s.PGSQL.{_PORT}"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str = "postgres", user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&port={_PORT}"

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run a statement of a test on the server of the tenant that it names, or on both."""
        is_for_all = "role_bindings" in statement  # a table of the coordinator
        named = None if is_for_all else re.search(r"'(tenant-[^']*)'", statement)
        chosen = [self.servers[server_of(named[1])]] if named else self.servers
        found = [server.execute(statement, database) for server in chosen]
        return found[0]

    def close(self) -> None:
        self._listener.close()
        for planner in self._planners:
            planner.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=_Connection(self, client).run, daemon=True).start()

    def problem(self, statement: Statement, tenant: str | None, number: int) -> str:
        """Why a statement cannot be routed; empty if it can."""
        if not statement.tables or statement.text.startswith(_SPREAD):
            return ""
        if tenant is None or not statement.names(tenant):
            found = f"it does not name its tenant {tenant}"
        else:
            found = self._plan(statement, number)
        with self._lock:
            if found:
                self.wrong.append(f"{found}: {statement.shape}")
            else:
                self.statements.add(statement.shape)
        return found

    def _plan(self, statement: Statement, number: int) -> str:
        """Why the plan of a statement needs more than one tenant; a superuser plans it."""
        planned = _PLANNED.fullmatch(statement.text)
        if statement.shape in self.statements or not planned:
            return ""
        with self._lock:
            result = self._planners[number].pgconn.exec_params(
                f"EXPLAIN (FORMAT JSON) {planned[1]}".encode(),
                statement.values or None,
                statement.types or None,
                statement.formats or None,
            )
        if not result.ntuples:
            return f"it cannot be planned ({result.error_message.decode().strip()})"
        plan = (result.get_value(0, 0) or b"").decode()
        parts = {part for _, part in _PART.findall(plan)}
        return f"it needs {len(parts)} partitions" if len(parts) > 1 else ""


class _Connection:
    """A client, and its connections to the servers."""

    def __init__(self, router: Router, client: socket.socket) -> None:
        self._router = router
        self._client = client
        self._servers = [socket.socket(socket.AF_UNIX) for _ in router.servers]
        self._is_trusted = False
        self._tenant: str | None = None
        self._number: int | None = None
        """The server that runs the present transaction."""

    def run(self) -> None:
        with self._client, ExitStack() as open_servers, suppress(ConnectionError, OSError):
            for server in self._servers:
                open_servers.enter_context(server)
            self._start()
            while batch := self._receive_batch():
                self._answer(batch)

    def _start(self) -> None:
        """Connect to both servers as the client wants to connect."""
        (length,) = struct.unpack("!i", _receive(self._client, 4))
        wanted = _receive(self._client, length - 4)
        self._is_trusted = f"user\0{USER}\0".encode() in wanted
        for number, (server, cluster) in enumerate(
            zip(self._servers, self._router.servers, strict=True)
        ):
            server.connect(f"{cluster.folder}/.s.PGSQL.{_PORT}")
            server.sendall(struct.pack("!i", length) + wanted)
            for message in _receive_answer(server):
                if message.kind == b"K":  # a pooler has process ids of its own
                    message = Message(b"K", struct.pack("!ii", 1, 1))
                if number == 0:
                    self._client.sendall(bytes(message))

    def _receive_batch(self) -> list[Message]:
        """Return the messages up to one that asks for an answer; none if the client left."""
        batch: list[Message] = []
        while not batch or batch[-1].kind not in (b"Q", b"S"):
            message = _receive_message(self._client)
            if message.kind == b"X":
                return []
            batch.append(message)
        return batch

    def _answer(self, batch: Sequence[Message]) -> None:
        statements = [*_find_statements(batch)]
        if self._number is None:
            tenants = (statement.tenant() for statement in statements)
            self._tenant = next((tenant for tenant in tenants if tenant), None)
            self._number = server_of(self._tenant) if self._tenant else 0
        number = self._number
        problems = [
            problem
            for statement in statements
            if not self._is_trusted
            and (problem := self._router.problem(statement, self._tenant, number))
        ]
        if problems:
            self._refuse(problems[0])
            return
        data = b"".join(map(bytes, batch))
        if any(statement.text.startswith(_SPREAD) for statement in statements):
            for other in self._servers:
                if other is not self._servers[number]:
                    other.sendall(data)
                    [*_receive_answer(other)]
        self._servers[number].sendall(data)
        for message in _receive_answer(self._servers[number]):
            self._client.sendall(bytes(message))
            if message == Message(b"Z", b"I"):  # the transaction is over
                self._number = self._tenant = None

    def _refuse(self, problem: str) -> None:
        fields = b"SERROR\0VERROR\0C0A000\0M" + problem.encode() + b"\0\0"
        state = b"I" if self._tenant is None else b"E"
        self._client.sendall(bytes(Message(b"E", fields)) + bytes(Message(b"Z", state)))


def _find_statements(batch: Sequence[Message]) -> Iterator[Statement]:
    """The statements of messages; a query without values may have several."""
    text, types = "", ()
    for message in batch:
        if message.kind == b"Q":
            yield from map(Statement, _split(message.content[:-1].decode()))
        elif message.kind == b"P":
            assert message.content.startswith(b"\0"), "a pooler carries no prepared statements"
            raw, rest = message.content[1:].split(b"\0", 1)
            text, types = raw.decode(), struct.unpack(f"!{(len(rest) - 2) // 4}i", rest[2:])
        elif message.kind == b"B":
            formats, values = _read_values(message.content[2:])
            yield Statement(text, values, types, formats)


def _read_values(content: bytes) -> tuple[tuple[int, ...], tuple[bytes | None, ...]]:
    """The formats and the values of a message that binds them."""
    (count,) = struct.unpack_from("!h", content)
    formats = struct.unpack_from(f"!{count}h", content, 2)
    at = 2 + 2 * count
    (number,) = struct.unpack_from("!h", content, at)
    at += 2
    values: list[bytes | None] = []
    for _ in range(number):
        (length,) = struct.unpack_from("!i", content, at)
        at += 4
        values.append(None if length < 0 else content[at : at + length])
        at += max(0, length)
    return (formats if count == number else (*formats, *[0] * number)[:number]), tuple(values)


def _split(query: str) -> Iterator[str]:
    """The statements of a query."""
    begin = 0
    for token in _TOKEN.finditer(query):
        if token[0] == ";":
            yield query[begin : token.start()].strip()
            begin = token.end()
    if last := query[begin:].strip():
        yield last


def _unquote(literal: str) -> str:
    if literal.startswith("E"):
        literal = re.sub(r"\\(.)", r"\1", literal[1:], flags=re.S)
    return literal[1:-1].replace("''", "'")


def _receive(peer: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = peer.recv(min(count - len(data), 1 << 20))
        if not part:
            raise ConnectionError
        data += part
    return bytes(data)


def _receive_message(peer: socket.socket) -> Message:
    kind, length = struct.unpack("!ci", _receive(peer, 5))
    return Message(kind, _receive(peer, length - 4))


def _receive_answer(server: socket.socket) -> Iterator[Message]:
    """The messages of a server up to the one that says that it is ready."""
    while True:
        message = _receive_message(server)
        yield message
        if message.kind == b"Z":
            return


@contextmanager
def router(servers: Sequence[Cluster], folder: Path) -> Iterator[Router]:
    """Run a router before servers with the tables of memwell, until the end of the block."""
    for server in servers:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            migrate(connection)
    made = Router(folder, servers)
    try:
        yield made
    finally:
        made.close()


def tenants_of(server: Cluster) -> dict[str, set[str]]:
    """The tenants that have rows in each table of a server."""
    return {
        table: {
            tenant for (tenant,) in server.execute(f"SELECT DISTINCT tenant FROM memwell.{table}")
        }
        for table in TABLES
    }


def to_json(made: Router) -> str:
    """What a router found, and which tenants the servers have."""
    tenants = [tenants_of(server) for server in made.servers]
    return json.dumps(
        {
            "statements": sorted(made.statements),
            "wrong": made.wrong,
            "tenants": [{table: sorted(names) for table, names in of.items()} for of in tenants],
        }
    )
