"""The operations on facts, for every surface.

remember   refuses a text (too short, a secret), reinforces the fact with the same text, or adds it
supersede  keeps the old fact, marks it as superseded, and links it to the new one
forget     erases the fact
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast

from memwell.errors import UNWRITABLE, MemwellError, NotAllowedError, RefusedError
from memwell.facts.comparison import normalised
from memwell.facts.erase import finish_erasures
from memwell.facts.guard import find_secrets, redact, rejection_reason
from memwell.facts.ids import new_id
from memwell.facts.lifetimes import (
    LIFETIMES,
    Lifetimes,
    confidence,
    expiry_time,
    is_expired,
    lifetime,
)
from memwell.model import GLOBAL, SCOPES, Fact, FactEvent, Viewer
from memwell.store.contract.facts import Facts, FactStore, trace_of_edit
from memwell.store.contract.values import FactFilter

Operation = TypeVar("Operation", bound=Callable[..., Any])
CATEGORIES = ("preference", "fact", "decision", "entity", "rule", "technical", "other")
ADDED, REINFORCED, SUPERSEDED = "added", "reinforced", "superseded"
REFUSE, REDACT, ALLOW = SECRETS = ("refuse", "redact", "allow")
MAX_CHARACTERS = 1_000_000
"""A longer text is a document and belongs into a note."""
_MAX_LABEL_CHARACTERS = 60
_MUCH_LEFT = 0.9
"""Reading renews a fact only if less than this share of its lifetime is left: it saves writes."""


@dataclass(frozen=True, slots=True)
class NewFact:
    """A text to remember, and its details."""

    text: str
    category: str = "fact"
    tags: tuple[str, ...] = ()
    source: str = "python"
    origin: str = ""
    importance: float = 0.5
    confidence: float = 1.0
    decay_class: str = "permanent"
    scope: str | None = None
    """None is the viewer's narrowest scope."""
    valid_from: str | None = None
    secrets: str = REFUSE


@dataclass(frozen=True, slots=True)
class RememberResult:
    """The outcome of `remember` or `supersede`: the fact, and the one that it superseded."""

    outcome: str
    fact: Fact
    instead_of: Fact | None = None
    similar_to: Fact | None = None
    """A fact of the scope that says nearly the same; both are stored."""


def _retried(operation: Operation) -> Operation:
    """Run an operation again if a server interrupted it: its transaction left nothing behind."""

    @wraps(operation)
    def run(self: FactService, *args: Any, **kwargs: Any) -> Any:
        return self.store.retrying(lambda: operation(self, *args, **kwargs))

    return cast(Operation, run)


@dataclass(slots=True)
class FactService:
    """The facts of a home, for one viewer at one time."""

    store: FactStore
    viewer: Viewer
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    lifetimes: Lifetimes = field(default_factory=lambda: LIFETIMES)

    # -- operations --------------------------------------------------------------------------------

    @_retried
    def remember(self, new_fact: NewFact, near: tuple[str, bool] | None = None) -> RememberResult:
        """Store a text as a fact, or reinforce the fact that says the same.

        `near` is the id of a fact with nearly the same vector, and whether it says the same.
        """
        _check_details(new_fact)
        text = _storable_text(new_fact)
        with self.store.change(self.viewer) as facts:
            scope, target = self._resolve_scope(new_fact.scope)
            self.require_right_to(scope)
            similar = self._find_similar(facts, near)
            known = self._find_duplicate(facts, text, scope)
            if near and near[1]:
                known = known or similar
            if known:
                return self._confirm(facts, known)
            fact = self._add(facts, new_fact, text, scope, target)
            return RememberResult(ADDED, fact, similar_to=similar)

    def _find_similar(self, facts: Facts, near: tuple[str, bool] | None) -> Fact | None:
        """Return a fact by its id; an index may still show one that is gone."""
        ids = (near[0],) if near else ()
        return next(iter(facts.find(FactFilter(ids=ids))), None) if ids else None

    @_retried
    def supersede(self, old_id: str, new_fact: NewFact) -> RememberResult:
        """Store a text in place of a fact, in its scope, and mark the old fact as superseded."""
        _check_details(new_fact)
        text = _storable_text(new_fact)
        with self.store.change(self.viewer) as facts:
            old = facts.get(old_id)
            self.require_right_to(old.scope)
            if old.superseded_by:
                raise MemwellError(
                    f"The fact {old_id} is already superseded by {old.superseded_by}",
                    f"Supersede {old.superseded_by} instead",
                )
            known = self._find_duplicate(facts, text, old.scope)
            if known and known.id == old.id:
                return self._confirm(facts, old)
            fact = known or self._add(facts, new_fact, text, old.scope, old.target)
            ended = replace(old, superseded_by=fact.id, valid_until=self._timestamp())
            return RememberResult(SUPERSEDED, fact, self._change(facts, ended, SUPERSEDED, fact.id))

    @_retried
    def supersede_by(self, old_id: str, new_id: str) -> Fact:
        """Mark a fact as superseded by another fact of its scope that exists already."""
        with self.store.change(self.viewer) as facts:
            old, new = facts.get(old_id), facts.get(new_id)
            self.require_right_to(old.scope)
            if (old.scope, old.target) != (new.scope, new.target) or old.id == new.id:
                raise MemwellError(
                    f"The fact {new_id} cannot supersede {old_id}", "Name another fact of its scope"
                )
            ended = replace(old, superseded_by=new.id, valid_until=self._timestamp())
            return self._change(facts, ended, SUPERSEDED, new.id)

    @_retried
    def restore(self, fact_id: str) -> Fact:
        """Make a superseded fact valid again; the one that superseded it stays as it is."""
        with self.store.change(self.viewer) as facts:
            fact = replace(facts.get(fact_id), superseded_by=None, valid_until=None)
            self.require_right_to(fact.scope)
            self._refuse_duplicate(facts, fact)
            return self._change(facts, fact, "restored")

    @_retried
    def forget(self, ids: Sequence[str]) -> list[Fact]:
        """Remove facts and return them; with an unknown id, remove nothing."""
        with self.store.change(self.viewer) as facts:
            gone = [facts.get(fact_id) for fact_id in dict.fromkeys(ids)]
            self.require_right_to(*(fact.scope for fact in gone))
            facts.record_pending_erasure(gone)
            facts.delete(fact.id for fact in gone)
            return gone

    @_retried
    def list_scope(self, scope: str) -> list[Fact]:
        """Return all facts of a scope, including superseded ones."""
        self._resolve_scope(scope)
        with self.store.for_viewer(self.viewer) as facts:
            return facts.find(FactFilter(scope=scope, superseded=True))

    @_retried
    def reinforce(self, fact_id: str) -> RememberResult:
        """Confirm a fact: raise its confidence and start its lifetime again."""
        with self.store.change(self.viewer) as facts:
            fact = facts.get(fact_id)
            self.require_right_to(fact.scope)
            return self._confirm(facts, fact)

    @_retried
    def renew_on_read(self, ids: Sequence[str]) -> None:
        """Start the lifetime of facts again, if reading renews them and part of it is over.

        A store that cannot be written leaves them unchanged.
        """
        due = [fact for fact in self.find(FactFilter(ids=tuple(ids))) if self._needs_renewal(fact)]
        if due:
            with suppress(*UNWRITABLE), self.store.change(self.viewer) as facts:
                for fact in due:
                    expires_at = self._expiry(fact.decay_class)
                    self._change(facts, replace(facts.get(fact.id), expires_at=expires_at), "read")

    def _needs_renewal(self, fact: Fact) -> bool:
        life = lifetime(fact.decay_class, self.lifetimes)
        if not (life.renewed_by_reading and life.lasts and fact.expires_at):
            return False
        left = dt.datetime.fromisoformat(fact.expires_at) - self.now
        return left < life.lasts * _MUCH_LEFT

    @_retried
    def promote(self, fact_id: str, scope: str) -> Fact:
        """Move a fact to a wider scope, so that more viewers see it."""
        with self.store.change(self.viewer) as facts:
            fact = facts.get(fact_id)
            scope, target = self._resolve_scope(scope)
            self.require_right_to(scope)
            if SCOPES.index(scope) >= SCOPES.index(fact.scope):
                raise MemwellError(
                    f"{scope} is not wider than {fact.scope}, the scope of {fact_id}",
                    f"Use one of {', '.join(SCOPES[: SCOPES.index(fact.scope)]) or 'none'}",
                )
            wider = replace(fact, scope=scope, target=target)
            self._refuse_duplicate(facts, wider)
            return self._change(facts, wider, "promoted", scope)

    @_retried
    def edit(self, fact_id: str, **changes: object) -> Fact:
        """Change details of a fact; a new text is checked as in `remember`, the old one erased."""
        fact, has_new_text = self._edit(fact_id, changes)
        if has_new_text:
            with suppress(MemwellError):  # the fact is edited; the next process erases the rest
                # The text may be one that was replaced before and is still to be erased.
                self.store.clear_pending([trace_of_edit(fact).id])
                finish_erasures(self.store)
        return fact

    def _edit(self, fact_id: str, changes: dict[str, Any]) -> tuple[Fact, bool]:
        with self.store.change(self.viewer) as facts:
            old = facts.get(fact_id)
            fact = replace(old, **changes)
            fact = replace(fact, tags=_folded(fact.tags))
            self.require_right_to(fact.scope)
            edited = NewFact(
                fact.text,
                fact.category,
                fact.tags,
                importance=fact.importance,
                confidence=fact.confidence,
            )
            _check_details(edited)
            if "text" in changes:
                _storable_text(edited)
            self._refuse_duplicate(facts, fact)
            has_new_text = fact.text != old.text
            if has_new_text:
                facts.record_pending_erasure([trace_of_edit(old)])
            return self._change(facts, fact, "edited", ", ".join(changes)), has_new_text

    @_retried
    def expire(self, fact_id: str, why: str) -> Fact:
        """Let a fact expire now, without a fact in its place."""
        with self.store.change(self.viewer) as facts:
            at = self._timestamp()
            ended = replace(facts.get(fact_id), expires_at=at, valid_until=at)
            self.require_right_to(ended.scope)
            return self._change(facts, ended, "expired", why)

    def check(self, new_fact: NewFact) -> Fact | None:
        """Raise the errors of `remember`; return the fact that has the same text, if any."""
        _check_details(new_fact)
        text = _storable_text(new_fact)
        scope, _ = self._resolve_scope(new_fact.scope)
        if not self.store.exists:
            return None
        return next(iter(self.find(FactFilter(normalised=normalised(text), scope=scope), 1)), None)

    @_retried
    def prune(self) -> int:
        """Remove expired facts; return how many."""
        with self.store.change(self.viewer) as facts:
            gone = facts.find(FactFilter(expired_before=self._timestamp(), superseded=True))
            facts.record_pending_erasure(gone)
            return facts.delete(fact.id for fact in gone)

    @_retried
    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts that have not expired, the newest first."""
        with self.store.for_viewer(self.viewer) as facts:
            return [
                self._with_current_confidence(fact)
                for fact in facts.find(self._unexpired(which), limit)
            ]

    @_retried
    def get(self, fact_id: str) -> Fact:
        """Return a fact, also one that was superseded."""
        with self.store.for_viewer(self.viewer) as facts:
            return self._with_current_confidence(facts.get(fact_id))

    @_retried
    def history(self, fact_id: str) -> list[FactEvent]:
        """Return the events of a fact, and of the facts that it superseded."""
        with self.store.for_viewer(self.viewer) as facts:
            return facts.history(fact_id)

    def _unexpired(self, which: FactFilter) -> FactFilter:
        as_of = which.as_of and parse_time("as_of", which.as_of)
        return replace(which, live_at=self._timestamp(), as_of=as_of)

    def _with_current_confidence(self, fact: Fact) -> Fact:
        """Return a fact with its confidence after decay."""
        expires = dt.datetime.fromisoformat(fact.expires_at) if fact.expires_at else None
        since = dt.datetime.fromisoformat(fact.confirmed_at)
        return replace(fact, confidence=confidence(fact.confidence, since, expires, self.now))

    def require_right_to(self, *scopes: str) -> None:
        """Raise an error unless the viewer may change the facts of scopes."""
        if GLOBAL in scopes and not self.viewer.is_admin:
            raise NotAllowedError(
                "Everybody sees global facts, and only the right admin allows to change them",
                "Use a token of `memwell serve token add NAME --rights admin`, or another scope",
            )

    # -- helpers -----------------------------------------------------------------------------------

    def _timestamp(self) -> str:
        return self.now.astimezone(dt.UTC).isoformat(timespec="milliseconds")

    def _expiry(self, decay_class: str) -> str | None:
        return _to_iso(expiry_time(decay_class, self.now, self.lifetimes))

    def _resolve_scope(self, named: str | None) -> tuple[str, str]:
        scope = named or self.viewer.narrowest
        if scope not in SCOPES:
            raise MemwellError(f"{scope!r} is not a scope", f"Use one of {', '.join(SCOPES)}")
        targets = dict(self.viewer.scopes)
        if scope not in targets:
            raise MemwellError(
                f"The scope is {scope}, but no {scope} is given",
                f"Name the {scope}: --{scope} NAME",
            )
        return scope, targets[scope]

    def _find_duplicate(self, facts: Facts, text: str, scope: str) -> Fact | None:
        """Return the fact of a scope that has the same text; delete it if it has expired."""
        for fact in facts.find(FactFilter(normalised=normalised(text), scope=scope)):
            expires = dt.datetime.fromisoformat(fact.expires_at) if fact.expires_at else None
            if expires and is_expired(expires, self.now):
                facts.record_pending_erasure([fact])
                facts.delete([fact.id])
            else:
                return fact
        return None

    def _refuse_duplicate(self, facts: Facts, fact: Fact) -> None:
        """Raise an error if another fact of the scope has the same text."""
        twin = self._find_duplicate(facts, fact.text, fact.scope)
        if twin and twin.id != fact.id and fact.superseded_by is None:
            raise MemwellError(
                f"The fact {twin.id} of the same scope has the same text already",
                f"Run `memwell forget {fact.id}`",
            )

    def _change(self, facts: Facts, fact: Fact, what: str, detail: str = "") -> Fact:
        """Write a changed fact and the event that changed it."""
        facts.change(fact, normalised(fact.text), what, self._timestamp(), detail)
        return fact

    def _confirm(self, facts: Facts, fact: Fact) -> RememberResult:
        stronger = replace(
            fact,
            confirmed_at=self._timestamp(),
            confidence=1 - (1 - fact.confidence) / 2,
            expires_at=self._expiry(fact.decay_class),
        )
        return RememberResult(REINFORCED, self._change(facts, stronger, REINFORCED))

    def _add(self, facts: Facts, new_fact: NewFact, text: str, scope: str, target: str) -> Fact:
        fact = self._create(new_fact, text, scope, target)
        facts.add(fact, normalised(text))
        facts.note(fact.id, fact.created_at, ADDED, fact.source)
        return fact

    def _create(self, new_fact: NewFact, text: str, scope: str, target: str) -> Fact:
        at = self._timestamp()
        return Fact(
            id=new_id(int(self.now.timestamp() * 1000)),
            text=text,
            category=new_fact.category,
            source=new_fact.source,
            origin=new_fact.origin,
            importance=new_fact.importance,
            confidence=new_fact.confidence,
            decay_class=new_fact.decay_class,
            created_at=at,
            confirmed_at=at,
            expires_at=self._expiry(new_fact.decay_class),
            valid_from=new_fact.valid_from and parse_time("valid_from", new_fact.valid_from),
            valid_until=None,
            superseded_by=None,
            scope=scope,
            target=target if scope != GLOBAL else "",
            tags=_folded(new_fact.tags),
        )


def _folded(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are stored: without regard to case, each once, in order."""
    return tuple(sorted({tag.casefold() for tag in tags}))


def _check_details(new_fact: NewFact) -> None:
    """Raise an error for a detail that is out of range."""
    for name, value in (("importance", new_fact.importance), ("confidence", new_fact.confidence)):
        if not 0 <= value <= 1:
            raise MemwellError(
                f"{name} = {value} is not between 0 and 1", "Use a number between 0 and 1"
            )
    for label in (new_fact.category, *new_fact.tags):
        if not label.strip() or len(label) > _MAX_LABEL_CHARACTERS or "\n" in label:
            raise MemwellError(f"{label!r} is not a category or tag", "Use one or two words")
    if new_fact.secrets not in SECRETS:
        raise MemwellError(
            f"secrets = {new_fact.secrets!r} is not valid", f"Use one of {', '.join(SECRETS)}"
        )


def _storable_text(new_fact: NewFact) -> str:
    """Return the text as it is stored, or raise `RefusedError`."""
    text = new_fact.text.encode("utf-8", "replace").decode().strip()
    if len(text) > MAX_CHARACTERS:
        raise RefusedError(
            f"Not remembered: {len(text):,} characters are too long for a fact",
            "Keep the text as a note instead",
        )
    if reason := rejection_reason(text):
        raise RefusedError(f"Not remembered: {reason}", "Write a sentence of at least three words")
    found = find_secrets(text) if new_fact.secrets != ALLOW else []
    if found and new_fact.secrets == REFUSE:
        kinds = ", ".join(sorted({secret.kind for secret in found}))
        raise RefusedError(
            f"Not remembered: it contains a secret ({kinds})",
            "Leave the secret out, or set secrets to redact or allow",
        )
    return redact(text) if found else text


def parse_time(name: str, value: str) -> str:
    """Return a day or time that a user gives in the form that facts store it: ISO, in UTC."""
    try:
        return str(_to_iso(dt.datetime.fromisoformat(value).astimezone()))
    except (ValueError, OverflowError):
        raise MemwellError(
            f"{name} = {value!r} is not a time", "Write it like 2026-02-10 or 2026-02-10T14:15"
        ) from None


def _to_iso(at: dt.datetime | None) -> str | None:
    return at.astimezone(dt.UTC).isoformat(timespec="milliseconds") if at else None
