"""Recall: the memories that fit a message, found by a search and cut to a budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memwell.config.settings import Settings
from memwell.facts.recall import Recall, recall_block, stop_at_gap
from memwell.facts.recall_history import RecallHistory
from memwell.facts.recall_subject import has_subject, least_relevance
from memwell.memory.searcher import FACT
from memwell.model import SearchResult
from memwell.search import hyde
from memwell.store.contract.index import Index

if TYPE_CHECKING:
    from memwell.llm.budget import Budget
    from memwell.memory import Memory


def recall(
    memory: Memory,
    message: str,
    history: RecallHistory,
    budget: int | None,
    include_superseded: bool,
    as_of: str | None,
) -> Recall:
    """Return the block for a message; see `Memory.recall`."""
    if not has_subject(message):
        return recall_block((), 1)
    limit = memory.settings.recall.budget if budget is None else budget
    result = memory.search_for_recall(message, include_superseded=include_superseded, as_of=as_of)
    recalled = recall_block(history.unseen(stop_at_gap(result.hits)), limit)
    history.record(recalled.hits)
    memory.facts.renew_on_read([hit.path for hit in recalled.hits if hit.kind == FACT])
    return recalled


def find_passage(
    message: str,
    settings: Settings,
    agent_folder: Path,
    index: Index,
    notify: Callable[[str], None],
    budget: Budget | None,
) -> str:
    """Return a hypothetical answer to a message, if the settings ask for one; else ""."""
    if not hyde.is_enabled(settings):
        return ""
    from memwell.facts.guard import redact

    return hyde.find_hypothetical_answer(
        redact(message), settings, agent_folder, index, notify, budget
    )


def search(
    memory: Memory, message: str, passage: str, include_superseded: bool, as_of: str | None
) -> SearchResult:
    """Search for a message, and by a hypothetical answer to it; transcripts are left out.

    They have the session itself, which would be recalled to the agent that is in it.
    """
    settings = memory.settings
    return hyde.merge_results(
        [
            memory.search(
                message,
                k=settings.recall.k,
                min_score=least_relevance(message, settings.recall.min_score),
                mode=search.mode,
                group="passages",
                passage=search.passage,
                transcripts=False,
                include_superseded=include_superseded,
                as_of=as_of,
            )
            for search in hyde.plan_searches(passage, settings.search.hyde_mode)
        ]
    )
