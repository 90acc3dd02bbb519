"""Makes a plan out of the facts that a viewer sees and the logs of the workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memwell.consolidate import ask_model
from memwell.consolidate.digest import digest, find_weeks
from memwell.consolidate.plan import DIGEST, MERGE, Plan, PlannedFact, Step
from memwell.consolidate.rules import Pair, candidate_pairs, find_pairs
from memwell.errors import LlmError
from memwell.llm.base import Chat
from memwell.memory import Memory
from memwell.model import Fact
from memwell.store.contract.values import FactFilter

RULES = "rules"


def propose(
    memory: Memory, chat: Chat | None, tell: Callable[[str], None], *, digests: bool = True
) -> Plan:
    """Return a plan; it changes nothing. `tell` receives a sentence if the model fails."""
    facts = memory.facts.find(FactFilter())
    pairs, by = find_pairs(facts), RULES
    if chat is not None:
        decided = {(pair.older.id, pair.newer.id) for pair in pairs}
        open_pairs = [
            pair for pair in candidate_pairs(facts) if (pair[0].id, pair[1].id) not in decided
        ]
        try:
            pairs += ask_model.judge_pairs(open_pairs, chat)
            by = chat.model
        except LlmError as error:
            tell(f"The rules alone compared the facts: {error}")
    steps = [*_fact_steps(pairs)]
    if digests:
        steps += _digest_steps(memory, chat, tell)
    return Plan(steps, by)


def _fact_steps(pairs: Iterable[Pair]) -> Iterable[Step]:
    """Yield a step for each fact that goes; a fact that went already is in no further step."""
    gone: set[str] = set()
    for pair in pairs:
        new, old = _choose(pair)
        if not {new.id, old.id} & gone:
            gone.add(old.id)
            yield Step(pair.kind, pair.why, [PlannedFact.of(old)], PlannedFact.of(new))


def _choose(pair: Pair) -> tuple[Fact, Fact]:
    """Return the fact that stays, the newer one or the one that says more, and the other."""
    if pair.kind == MERGE and len(pair.older.text) > len(pair.newer.text):
        return pair.older, pair.newer
    return pair.newer, pair.older


def _digest_steps(memory: Memory, chat: Chat | None, tell: Callable[[str], None]) -> Iterable[Step]:
    root = memory.workspace
    if root is None:
        return
    for week in find_weeks(root, memory.settings.note.folder, memory.facts.now.date()):
        summary = ""
        if chat is not None:
            try:
                summary = ask_model.summarise(week, chat)
            except LlmError as error:
                tell(f"{week.name} has no summary: {error}")
        text = digest(week, summary)
        sources = [log.path for log in week.logs]
        yield Step(DIGEST, f"{len(sources)} logs", path=week.path, text=text, sources=sources)
