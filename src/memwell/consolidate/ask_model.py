"""Asks a language model about pairs of facts and for the summary of a week.

Secrets are redacted before a text is sent. If the model fails, the rules' proposal stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memwell.consolidate.digest import Week
from memwell.consolidate.plan import MERGE, SUPERSEDE
from memwell.consolidate.rules import Pair
from memwell.facts.guard import redact
from memwell.llm.base import Chat
from memwell.llm.prompts import compare_prompt, digest_prompt
from memwell.model import Fact

_PAIRS = 20
"""Pairs in one request."""
_MOST_PAIRS = 200
_MAX_TOKENS = 2_000
_LONGEST_WEEK = 20_000
"""Characters of the logs of a week that the model reads."""
_VERDICT = re.compile(r"^\W*(\d+)\W+(same|contradiction|different)\b", re.I | re.M)
_KINDS = {"same": MERGE, "contradiction": SUPERSEDE}
_REASONS = {MERGE: "they say the same", SUPERSEDE: "both cannot be true; the newer one stays"}


def judge_pairs(pairs: Sequence[tuple[Fact, Fact]], chat: Chat) -> Iterator[Pair]:
    """Yield the pairs that say the same or contradict each other, as the model judges."""
    pairs = pairs[:_MOST_PAIRS]
    for start in range(0, len(pairs), _PAIRS):
        batch = pairs[start : start + _PAIRS]
        texts = [(redact(older.text), redact(newer.text)) for older, newer in batch]
        answer = chat.complete(*compare_prompt(texts), max_tokens=_MAX_TOKENS).text
        for number, verdict in dict(_VERDICT.findall(answer)).items():
            at, kind = int(number) - 1, _KINDS.get(verdict.casefold())
            if kind and 0 <= at < len(batch):
                yield Pair(*batch[at], kind, f"{_REASONS[kind]} ({chat.model})")


def summarise(week: Week, chat: Chat) -> str:
    """Return a summary of the logs of a week."""
    text = "\n\n".join(f"# {log.day}\n\n{log.text}" for log in week.logs)[:_LONGEST_WEEK]
    return chat.complete(*digest_prompt(redact(text)), max_tokens=_MAX_TOKENS).text.strip()
