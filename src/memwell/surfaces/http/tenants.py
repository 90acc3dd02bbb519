"""Many tenants in one server: a memory for each, which share connections and models.

A token, or a proxy that signs its requests, says whose memory a request uses. The handles of
tenants are small, and the least recently used ones are dropped. Operators limit each tenant by the
settings of the section `tenants`.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from memwell.config.sections import TenantsSettings
from memwell.errors import MemwellError, NotAllowedError
from memwell.memory import Memory
from memwell.memory.tenants import as_tenant, stored_bytes
from memwell.surfaces.http.errors import log

T = TypeVar("T")

MOST_OPEN = 10_000
"""Handles that are kept; each takes some kilobytes."""
TENANT_HEADER, USER_HEADER = "x-memwell-tenant", "x-memwell-user"
TIME_HEADER, SIGNATURE_HEADER = "x-memwell-time", "x-memwell-signature"
_LONGEST_DELAY = 60.0
"""Seconds for which a signature is valid."""
TURN_SECONDS = 10.0
"""How long texts of one tenant are embedded before it is the turn of another."""
_BYTES_SECONDS = 60.0
"""How long the stored bytes of a tenant are taken for unchanged."""


class TenantMemories:
    """The memories of tenants, and a thread that embeds their new texts while its block runs."""

    def __init__(
        self,
        memory: Memory,
        limits: TenantsSettings,
        uploaded_bytes: Callable[[str], int] = lambda _: 0,
    ) -> None:
        """Count the bytes of each tenant's uploaded files, which are not in its memory, too."""
        self._memory = memory
        self._uploaded_bytes = uploaded_bytes
        self._limits = limits
        self._opened: OrderedDict[str, Memory] = OrderedDict()
        self._bytes: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._new_texts: OrderedDict[str, None] = OrderedDict()
        self._has_new_texts = threading.Condition(self._lock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._embed, name="memwell tenants", daemon=True)

    def __enter__(self) -> TenantMemories:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        with self._lock:
            self._has_new_texts.notify_all()
        self._thread.join()

    def get(self, tenant: str) -> Memory:
        """Return the memory of a tenant."""
        with self._lock:
            if tenant not in self._opened:
                self._opened[tenant] = as_tenant(self._memory, tenant)
            return _use(self._opened, tenant)

    # -- limits ------------------------------------------------------------------------------------

    def require_space(self, tenant: str) -> None:
        """Refuse to store more for a tenant that stores too much."""
        most = self._limits.stored_mb
        if most and self._stored_bytes(tenant) > most * 1e6:
            raise NotAllowedError(
                f"The tenant stores more than {most:g} MB",
                "Forget facts or remove notes, or ask the operator for more space",
            )

    def _stored_bytes(self, tenant: str) -> int:
        with self._lock:
            at, count = self._bytes.get(tenant, (-_BYTES_SECONDS, 0))
        if time.monotonic() - at >= _BYTES_SECONDS:
            count = stored_bytes(self.get(tenant)) + self._uploaded_bytes(tenant)
            with self._lock:
                self._bytes[tenant] = (time.monotonic(), count)
                _use(self._bytes, tenant)
        return count

    # -- embedding ---------------------------------------------------------------------------------

    def wake(self, tenant: str) -> None:
        """Embed the new texts of a tenant soon; each tenant waits for its turn."""
        with self._lock:
            self._new_texts[tenant] = None
            self._has_new_texts.notify()

    def _embed(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                while not self._new_texts and not self._stop.is_set():
                    self._has_new_texts.wait()
                if self._stop.is_set():
                    return
                tenant, _ = self._new_texts.popitem(last=False)
            try:
                self._embed_for_a_turn(tenant)
            except MemwellError as error:
                log.info("%s", error)

    def _embed_for_a_turn(self, tenant: str) -> None:
        """Embed texts of a tenant for some seconds; the rest waits until others had their turn."""
        turn = _Turn(self._stop, TURN_SECONDS)
        if self.get(tenant).fill(stop=turn).left and turn.is_set():
            self.wake(tenant)


class _Turn(threading.Event):
    """An event that is also set when another one is, or after some seconds."""

    def __init__(self, stop: threading.Event, seconds: float) -> None:
        super().__init__()
        self._stop = stop
        self._deadline = time.monotonic() + seconds

    def is_set(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._deadline


def _use(entries: OrderedDict[str, T], key: str) -> T:
    """Return an entry, which is now the last to be dropped; drop those that are too many."""
    entries.move_to_end(key)
    while len(entries) > MOST_OPEN:
        entries.popitem(last=False)
    return entries[key]


# -- a proxy that signs ----------------------------------------------------------------------------


def sign(secret: str, tenant: str, user: str, at: str, method: str, target: str) -> str:
    """Return the signature of a request: the HMAC of its tenant, user, time, method and target."""
    message = "\n".join((tenant, user, at, method, target))
    return hmac.new(secret.encode(), message.encode(), sha256).hexdigest()


def is_signed(secret: str, headers: dict[str, str], method: str, target: str) -> bool:
    """Whether a trusted proxy signed these headers lately."""
    tenant, user, at, given = (
        headers.get(name, "")
        for name in (TENANT_HEADER, USER_HEADER, TIME_HEADER, SIGNATURE_HEADER)
    )
    try:
        is_recent = abs(time.time() - float(at)) <= _LONGEST_DELAY
    except ValueError:
        return False
    expected = sign(secret, tenant, user, at, method, target)
    return is_recent and bool(tenant) and hmac.compare_digest(expected, given)
