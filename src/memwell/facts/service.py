"""Remembering, superseding and forgetting: what becomes of a fact, whoever asks.

remember   refused (junk, a secret) · reinforced (it is known already) · added
supersede  the old one stays, is no longer held true, and says what came instead
forget     nothing of it stays
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar, cast

from memwell.errors import UNWRITABLE, MemwellError, RefusedError
from memwell.facts.guard import redact, rejection_reason, secrets
from memwell.facts.lifetimes import (
    LIFETIMES,
    Lifetimes,
    confidence,
    expiry_time,
    is_expired,
    lifetime,
)
from memwell.model import GLOBAL, SCOPES, Fact, FactEvent, Viewer
from memwell.store.contract.facts import Facts, FactStore
from memwell.store.sqlite.facts import FactFilter, new_id

Verb = TypeVar("Verb", bound=Callable[..., Any])
CATEGORIES = ("preference", "fact", "decision", "entity", "rule", "technical", "other")
ADDED, REINFORCED, SUPERSEDED = "added", "reinforced", "superseded"
REFUSE, REDACT, ALLOW = SECRETS = ("refuse", "redact", "allow")
LONGEST = 1_000_000
"""Characters of a fact: more is a document, which belongs into a note."""
_LONGEST_LABEL = 60
_MUCH_LEFT = 0.9
"""Of a life, what must be left that reading a fact need not renew it: a write less."""
_NEGATIONS = frozenset(
    (
        "not",
        "no",
        "never",
        "none",
        "without",
        "t",
        "cannot",
        "nicht",
        "kein",
        "keine",
        "nie",
        "ne",
        "pas",
        "jamais",
        "sin",
        "nunca",
    )
)
_NOT_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NewFact:
    """A text to remember, and what is known of it."""

    text: str
    category: str = "fact"
    tags: tuple[str, ...] = ()
    source: str = "cli"
    origin: str = ""
    importance: float = 0.5
    confidence: float = 1.0
    decay_class: str = "permanent"
    scope: str | None = None
    """None is the viewer's narrowest."""
    valid_from: str | None = None
    secrets: str = REFUSE


@dataclass(frozen=True, slots=True)
class RememberResult:
    """What came of remembering: the fact concerned, and the one it took the place of."""

    outcome: str
    fact: Fact
    instead_of: Fact | None = None


def _repeatable(verb: Verb) -> Verb:
    """Run a verb again where a server interrupted it: of what was interrupted nothing stays."""

    @wraps(verb)
    def run(self: FactService, *given: Any, **named: Any) -> Any:
        return self.store.retrying(lambda: verb(self, *given, **named))

    return cast(Verb, run)


@dataclass(slots=True)
class FactService:
    """The facts of a home, for one viewer, at one time."""

    store: FactStore
    viewer: Viewer
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    lifetimes: Lifetimes = field(default_factory=lambda: LIFETIMES)

    # -- the verbs ---------------------------------------------------------------------------------

    @_repeatable
    def remember(self, telling: NewFact) -> RememberResult:
        """Keep a text, or reinforce the fact that says the same."""
        text = _check_text(telling)
        with self.store.change(self.viewer) as facts:
            scope, target = self._scope(telling.scope)
            known = self._find_duplicate(facts, text, scope)
            if known:
                return RememberResult(REINFORCED, self._confirm(facts, known, REINFORCED))
            fact = self._new(telling, text, scope, target)
            facts.add(fact, normalised(text))
            facts.note(fact.id, fact.created_at, ADDED, fact.source)
            return RememberResult(ADDED, fact)

    @_repeatable
    def supersede(self, old_id: str, telling: NewFact) -> RememberResult:
        """Keep a text in place of a fact, in the same scope; the old one is no longer held true."""
        text = _check_text(telling)
        with self.store.change(self.viewer) as facts:
            old = facts.get(old_id)
            if old.superseded_by:
                raise MemwellError(
                    f"The fact {old_id} was superseded already, by {old.superseded_by}",
                    f"Supersede {old.superseded_by}",
                )
            known = self._find_duplicate(facts, text, old.scope)
            if known and known.id == old.id:
                return RememberResult(REINFORCED, self._confirm(facts, old, REINFORCED))
            fact = known or self._new(telling, text, old.scope, old.target)
            if known is None:
                facts.add(fact, normalised(text))
                facts.note(fact.id, self._stamp(), ADDED, fact.source)
            ended = replace(old, superseded_by=fact.id, valid_until=self._stamp())
            facts.change(ended, normalised(old.text), SUPERSEDED, self._stamp(), fact.id)
            return RememberResult(SUPERSEDED, fact, ended)

    @_repeatable
    def forget(self, ids: Sequence[str]) -> list[Fact]:
        """Remove facts and return them; an id that is unknown stops it before anything goes."""
        with self.store.change(self.viewer) as facts:
            gone = [facts.get(fact_id) for fact_id in dict.fromkeys(ids)]
            facts.record_pending_erasure(gone)
            facts.delete(fact.id for fact in gone)
            return gone

    @_repeatable
    def list_scope(self, scope: str) -> list[Fact]:
        """Return all facts of a scope, also those that are no longer held true."""
        self._scope(scope)
        with self.store.for_viewer(self.viewer) as facts:
            return facts.find(FactFilter(scope=scope, superseded=True))

    @_repeatable
    def reinforce(self, fact_id: str) -> RememberResult:
        """Record that a fact was told again."""
        with self.store.change(self.viewer) as facts:
            return RememberResult(REINFORCED, self._confirm(facts, facts.get(fact_id), REINFORCED))

    @_repeatable
    def renew_on_read(self, ids: Sequence[str]) -> None:
        """Begin the lives of facts anew that reading renews, where much of them is over.

        Where nothing can be written they live on as they are.
        """
        due = [fact for fact in self.find(FactFilter(ids=tuple(ids))) if self._is_due(fact)]
        if due:
            with suppress(*UNWRITABLE), self.store.change(self.viewer) as facts:
                for fact in due:
                    ends = self._end(fact.decay_class)
                    renewed = replace(facts.get(fact.id), expires_at=ends)
                    facts.change(renewed, normalised(fact.text), "read", self._stamp())

    def _is_due(self, fact: Fact) -> bool:
        life = lifetime(fact.decay_class, self.lifetimes)
        if not (life.renewed_by_reading and life.lasts and fact.expires_at):
            return False
        left = dt.datetime.fromisoformat(fact.expires_at) - self.now
        return left < life.lasts * _MUCH_LEFT

    @_repeatable
    def promote(self, fact_id: str, scope: str) -> Fact:
        """Let more see a fact: only ever a wider scope than its own."""
        with self.store.change(self.viewer) as facts:
            fact = facts.get(fact_id)
            scope, target = self._scope(scope)
            if SCOPES.index(scope) >= SCOPES.index(fact.scope):
                raise MemwellError(
                    f"{scope} is no wider than {fact.scope}, the scope of {fact_id}",
                    f"Use one of {', '.join(SCOPES[: SCOPES.index(fact.scope)]) or 'none'}",
                )
            wider = replace(fact, scope=scope, target=target)
            self._refuse_duplicate(facts, wider)
            facts.change(wider, normalised(fact.text), "promoted", self._stamp(), scope)
            return wider

    @_repeatable
    def edit(self, fact_id: str, **changes: object) -> Fact:
        """Correct what is known of a fact; another text is checked like a new one."""
        with self.store.change(self.viewer) as facts:
            fact = replace(facts.get(fact_id), **changes)  # type: ignore[arg-type]
            _check_text(
                NewFact(
                    fact.text,
                    fact.category,
                    fact.tags,
                    importance=fact.importance,
                    confidence=fact.confidence,
                )
            )
            self._refuse_duplicate(facts, fact)
            facts.change(fact, normalised(fact.text), "edited", self._stamp(), ", ".join(changes))
            return fact

    @_repeatable
    def expire(self, fact_id: str, why: str) -> Fact:
        """Hold a fact true no longer, from now on, though nothing came in its place."""
        with self.store.change(self.viewer) as facts:
            at = self._stamp()
            ended = replace(facts.get(fact_id), expires_at=at, valid_until=at)
            facts.change(ended, normalised(ended.text), "expired", at, why)
            return ended

    def check(self, telling: NewFact) -> Fact | None:
        """Raise what `remember` would; return the fact that says the same, letter for letter."""
        text = _check_text(telling)
        scope, _ = self._scope(telling.scope)
        if not self.store.exists:
            return None
        return next(iter(self.find(FactFilter(normalised=normalised(text), scope=scope), 1)), None)

    @_repeatable
    def prune(self) -> int:
        """Remove what has expired; return how many facts that were."""
        with self.store.change(self.viewer) as facts:
            gone = facts.find(FactFilter(expired_before=self._stamp(), superseded=True))
            return facts.delete(fact.id for fact in gone)

    @_repeatable
    def find(self, which: FactFilter, limit: int = -1) -> list[Fact]:
        """Return facts that have not expired, the newest first."""
        with self.store.for_viewer(self.viewer) as facts:
            return [self._as_of_now(fact) for fact in facts.find(self._live(which), limit)]

    @_repeatable
    def get(self, fact_id: str) -> Fact:
        """Return a fact, also one that was superseded."""
        with self.store.for_viewer(self.viewer) as facts:
            return self._as_of_now(facts.get(fact_id))

    @_repeatable
    def history(self, fact_id: str) -> list[FactEvent]:
        """Return what happened to a fact, and to those it superseded."""
        with self.store.for_viewer(self.viewer) as facts:
            return facts.history(fact_id)

    def _live(self, which: FactFilter) -> FactFilter:
        as_of = which.as_of and parse_time("as_of", which.as_of)
        return replace(which, live_at=self._stamp(), as_of=as_of)

    def _as_of_now(self, fact: Fact) -> Fact:
        """Return a fact with the confidence that is left of it."""
        ends = dt.datetime.fromisoformat(fact.expires_at) if fact.expires_at else None
        since = dt.datetime.fromisoformat(fact.confirmed_at)
        return replace(fact, confidence=confidence(fact.confidence, since, ends, self.now))

    # -- how they do it ----------------------------------------------------------------------------

    def _stamp(self) -> str:
        return self.now.astimezone(dt.UTC).isoformat(timespec="milliseconds")

    def _end(self, decay_class: str) -> str | None:
        return _iso(expiry_time(decay_class, self.now, self.lifetimes))

    def _scope(self, named: str | None) -> tuple[str, str]:
        scope = named or self.viewer.narrowest
        if scope not in SCOPES:
            raise MemwellError(f"{scope!r} is no scope", f"Use one of {', '.join(SCOPES)}")
        targets = dict(self.viewer.scopes)
        if scope not in targets:
            raise MemwellError(
                f"There is no {scope} whose fact it could be", f"Name the {scope}: --{scope} NAME"
            )
        return scope, targets[scope]

    def _find_duplicate(self, facts: Facts, text: str, scope: str) -> Fact | None:
        """Return the fact that says the same in a scope; one that has expired makes room."""
        found = facts.find(FactFilter(normalised=normalised(text), scope=scope))
        for fact in found:
            ends = dt.datetime.fromisoformat(fact.expires_at) if fact.expires_at else None
            if ends and is_expired(ends, self.now):
                facts.delete([fact.id])
            else:
                return fact
        return None

    def _refuse_duplicate(self, facts: Facts, fact: Fact) -> None:
        """Refuse what would make a fact say the same as another one of its scope."""
        twin = self._find_duplicate(facts, fact.text, fact.scope)
        if twin and twin.id != fact.id and fact.superseded_by is None:
            raise MemwellError(
                f"The fact {twin.id} of the same scope says so already", f"Forget {fact.id}"
            )

    def _confirm(self, facts: Facts, fact: Fact, what: str) -> Fact:
        stronger = replace(
            fact,
            confirmed_at=self._stamp(),
            confidence=1 - (1 - fact.confidence) / 2,
            expires_at=self._end(fact.decay_class),
        )
        facts.change(stronger, normalised(fact.text), what, self._stamp())
        return stronger

    def _new(self, telling: NewFact, text: str, scope: str, target: str) -> Fact:
        at = self._stamp()
        return Fact(
            id=new_id(int(self.now.timestamp() * 1000)),
            text=text,
            category=telling.category,
            source=telling.source,
            origin=telling.origin,
            importance=telling.importance,
            confidence=telling.confidence,
            decay_class=telling.decay_class,
            created_at=at,
            confirmed_at=at,
            expires_at=self._end(telling.decay_class),
            valid_from=telling.valid_from and parse_time("valid_from", telling.valid_from),
            valid_until=None,
            superseded_by=None,
            scope=scope,
            target=target if scope != GLOBAL else "",
            tags=tuple(sorted({tag.casefold() for tag in telling.tags})),
        )


def says_the_same(one: str, other: str) -> bool:
    """Whether texts whose vectors are alike also agree in what vectors hardly tell apart.

    Another number, a "not" more, or the same words in another order make it another fact.
    """
    first, second = (normalised(text).split() for text in (one, other))
    shared, different = {*first} & {*second}, {*first} ^ {*second}
    if any(word in _NEGATIONS or not word.isalpha() for word in different):
        return False
    return [word for word in first if word in shared] == [word for word in second if word in shared]


def normalised(text: str) -> str:
    """Return a text without case, accents of writing, punctuation and spacing: for comparing."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _NOT_LETTERS.sub(" ", plain).strip()


def _check_text(telling: NewFact) -> str:
    """Return the text as it is kept, or say why it is not."""
    text = telling.text.encode("utf-8", "replace").decode().strip()
    if len(text) > LONGEST:
        raise RefusedError(
            f"A fact of {len(text):,} characters is a document", "Keep it as a note instead"
        )
    if reason := rejection_reason(text):
        raise RefusedError(f"Not remembered: {reason}", "Tell a fact in a sentence")
    for name, value in (("importance", telling.importance), ("confidence", telling.confidence)):
        if not 0 <= value <= 1:
            raise MemwellError(f"{name} = {value} is no share", "Use a number between 0 and 1")
    for label in (telling.category, *telling.tags):
        if not label.strip() or len(label) > _LONGEST_LABEL or "\n" in label:
            raise MemwellError(f"{label!r} is no category or tag", "Use a word or two")
    if telling.secrets not in SECRETS:
        raise MemwellError(
            f"{telling.secrets!r} is no way to treat secrets", f"Use one of {', '.join(SECRETS)}"
        )
    found = secrets(text) if telling.secrets != ALLOW else []
    if found and telling.secrets == REFUSE:
        kinds = ", ".join(sorted({secret.kind for secret in found}))
        raise RefusedError(
            f"Not remembered: it holds a secret ({kinds})",
            "Leave it out, or have it redacted or allowed on purpose",
        )
    return redact(text) if found else text


def parse_time(name: str, value: str) -> str:
    """Read a day or a time that somebody names, as facts keep it: in UTC."""
    try:
        return str(_iso(dt.datetime.fromisoformat(value).astimezone()))
    except (ValueError, OverflowError):
        raise MemwellError(
            f"{name} = {value!r} is no time", "Write it like 2026-02-10 or 2026-02-10T14:15"
        ) from None


def _iso(at: dt.datetime | None) -> str | None:
    return at.astimezone(dt.UTC).isoformat(timespec="milliseconds") if at else None
