"""Tokens: who may ask, and as which viewer. Only their hashes are kept."""

from __future__ import annotations

import datetime as dt
import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from memwell.errors import HomeError, MemwellError, NotFoundError
from memwell.files import hold_lock, private_file


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its name: the hash of it, and whose facts are seen with it."""

    name: str
    digest: str
    user: str
    session: str
    created_at: str


class Tokens:
    """The tokens of a home, in a file that is its owner's alone."""

    def __init__(self, home: Path) -> None:
        self._file = home / "tokens.json"
        self._read: tuple[tuple[int, int], list[Token]] | None = None

    def list_all(self) -> list[Token]:
        """Return the tokens, as they are in the file now."""
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if self._read is None or self._read[0] != stamp:
                rows = json.loads(self._file.read_text(encoding="utf-8"))["tokens"]
                self._read = stamp, [Token(**row) for row in rows]
            return self._read[1]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Without the list nobody may be let in.
            raise HomeError(f"{self._file} cannot be read ({error})", "Mend or delete it") from None

    def add(self, name: str, user: str = "", session: str = "") -> str:
        """Make a token and return it, this once."""
        token = secrets.token_urlsafe(32)
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            known = self.list_all()
            if any(other.name == name for other in known):
                raise MemwellError(f"There is a token {name} already", "Choose another name")
            self._write([*known, Token(name, _digest(token), user, session, at)])
        return token

    def remove(self, name: str) -> None:
        """Let a token be good for nothing from now on."""
        with hold_lock(self._file.with_suffix(".lock"), wait=True):
            left = [token for token in self.list_all() if token.name != name]
            if len(left) == len(self.list_all()):
                raise NotFoundError(f"There is no token {name}", "`memwell serve token list`")
            self._write(left)

    def owner_of(self, given: str) -> Token | None:
        """Return the token that is given; how long that takes tells nothing about others."""
        digest = _digest(given)
        fitting = [one for one in self.list_all() if hmac.compare_digest(one.digest, digest)]
        return fitting[0] if fitting else None

    def _write(self, tokens: list[Token]) -> None:
        with private_file(self._file) as part:
            part.write_text(json.dumps({"tokens": [asdict(one) for one in tokens]}, indent=2))


def _digest(token: str) -> str:
    # A token is 256 random bits: nothing slower than this is needed to hide it.
    return sha256(token.encode("utf-8", "replace")).hexdigest()
