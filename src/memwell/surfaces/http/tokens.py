"""Tokens: who may use the server, and as which viewer. Only their hashes are kept.

Besides, each home has a local token, in a file that only its owner can read: whoever can read the
home may use its servers, and other users of the machine may not.
"""

from __future__ import annotations

import datetime as dt
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from memwell.errors import HomeError, MemwellError, NotFoundError
from memwell.files import hold_lock, private_file, write_errors
from memwell.model import Viewer
from memwell.platform.files import modes_of_others

LOCAL_TOKEN_FILE = "serve.token"
"""In the home."""
_SHORTEST = 32
"""Characters of a local token; a shorter file is damaged."""

RIGHTS = (READ, WRITE, ADMIN) = ("read", "write", "admin")
"""To search and read; to tell, change and forget, too; to change what all share, too."""


@dataclass(frozen=True, slots=True)
class Token:
    """The name of a token, its hash, and the user and session whose facts it shows."""

    name: str
    digest: str
    user: str
    session: str
    created_at: str
    rights: str = ""
    """One of `RIGHTS`; "" for a token from before there were rights: it has all."""
    tenant: str = ""
    """The tenant whose memory it opens; "" is the server's own."""

    def allows(self, needed: str) -> bool:
        """Whether the token has a right; each right includes those before it."""
        return RIGHTS.index(self.rights or ADMIN) >= RIGHTS.index(needed)


class Tokens:
    """The tokens of a home, in a file that only its owner can read.

    Args:
        local: the local token of the home; "" if the server does not ask for it.
        viewer: whose facts the local token shows.

    """

    def __init__(self, home: Path, local: str = "", viewer: Viewer | None = None) -> None:
        self._file = home / "tokens.json"
        self._cached: tuple[tuple[int, int], list[Token]] | None = None
        user, session = (viewer.user, viewer.session) if viewer else ("", "")
        owner = Token("local", _digest(local), user, session, "", ADMIN)
        self._local = [owner] if local else []

    def list_all(self) -> list[Token]:
        """Return the tokens that give access now."""
        return [*self.list_stored(), *self._local]

    def list_stored(self) -> list[Token]:
        """Return the tokens that the file has now."""
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if self._cached is None or self._cached[0] != stamp:
                rows = json.loads(self._file.read_text(encoding="utf-8"))["tokens"]
                self._cached = stamp, [Token(**row) for row in rows]
            return self._cached[1]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Without the list nobody gets access.
            raise HomeError(
                f"{self._file} cannot be read ({error})", "Correct or delete it"
            ) from None

    def add(
        self,
        name: str,
        user: str = "",
        session: str = "",
        rights: str = WRITE,
        tenant: str = "",
    ) -> str:
        """Make a token and return it; it cannot be read again later."""
        token = secrets.token_urlsafe(32)
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            known = self.list_stored()
            if any(other.name == name for other in known):
                raise MemwellError(f"A token {name} exists already", "Choose another name")
            self._write([*known, Token(name, _digest(token), user, session, at, rights, tenant)])
        return token

    def remove(self, name: str) -> None:
        """Revoke a token."""
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            known = self.list_stored()
            left = [token for token in known if token.name != name]
            if len(left) == len(known):
                raise NotFoundError(
                    f"There is no token {name}", "`memwell serve token list` lists the names"
                )
            self._write(left)

    def find(self, given: str) -> Token | None:
        """Return the record of a token, in a time that reveals nothing about other tokens."""
        digest = _digest(given)
        matches = [token for token in self.list_all() if hmac.compare_digest(token.digest, digest)]
        return matches[0] if matches else None

    def is_local(self, given: str) -> bool:
        """Whether this is the local token of the home."""
        return any(hmac.compare_digest(local.digest, _digest(given)) for local in self._local)

    def _write(self, tokens: list[Token]) -> None:
        with private_file(self._file) as part:
            part.write_text(json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=2))


class LocalTokens(Tokens):
    """Only the local token of a home: for a server that has one viewer."""

    def list_stored(self) -> list[Token]:
        """Return nothing: other tokens show the facts of other viewers."""
        return []


def read_local_token(home: Path) -> str:
    """Return the local token of a home; make one if there is none that only the owner can read."""
    file = home / LOCAL_TOKEN_FILE
    if token := _read_private(file):
        return token
    with write_errors(file), hold_lock(home / "tokens.lock", wait=True):
        if token := _read_private(file):  # another process was faster
            return token
        token = secrets.token_urlsafe(32)
        with private_file(file) as part:
            part.write_text(f"{token}\n", encoding="ascii")
        return token


def _read_private(file: Path) -> str:
    """Return the token in a file; "" if it is missing, damaged or open to other users."""
    with suppress(OSError, UnicodeDecodeError):
        token = file.read_text(encoding="ascii").strip()
        if len(token) >= _SHORTEST and not modes_of_others(file):
            return token
    return ""


def _digest(token: str) -> str:
    # A token is 256 random bits: it needs no slower hash.
    return sha256(token.encode("utf-8", "replace")).hexdigest()
