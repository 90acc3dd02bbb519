"""`memwell remember`, `recall`, `supersede`, `forget` and `facts`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, count_of, with_memory
from memwell.surfaces.cli.search import NO_HITS
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.facts.erase import EraseReport
    from memwell.facts.service import RememberResult
    from memwell.memory import Memory
    from memwell.model import Fact

_SOURCE = "cli"

_details = options.combine(
    click.option("--category", default="fact", help="preference, fact, decision, entity, rule ..."),
    click.option("--tag", "tags", multiple=True, help="A tag; may be given more than once."),
    click.option("--importance", type=float, default=0.5, help="0 to 1."),
    click.option("--confidence", type=float, default=1.0, help="0 to 1."),
    click.option(
        "--decay",
        "decay_class",
        type=click.Choice(["permanent", "stable", "active", "session", "checkpoint"]),
        default="permanent",
        help="How long it is valid unless confirmed.",
    ),
    click.option("--valid-from", help="Since when it is valid; default now."),
    click.option(
        "--secrets",
        type=click.Choice(["refuse", "redact", "allow"]),
        default="refuse",
        help="How to treat keys, tokens and card numbers in the text.",
    ),
)


def _with_memory(command: Callable[..., Answer]) -> Callable[..., None]:
    """Open the memory of a viewer for a command."""
    return options.viewer(with_memory(command))


@click.command("remember")
@click.argument("text")
@options.scope(help="Who can see it; default the narrowest scope that is named.")
@_details
@_with_memory
def remember_command(memory: Memory, text: str, **details: Any) -> Answer:
    """Remember TEXT as a fact, or confirm the fact that says the same."""
    return _remember_answer(memory.remember(text, source=_SOURCE, **details))


@click.command("supersede")
@click.argument("old")
@click.argument("text")
@_details
@_with_memory
def supersede_command(memory: Memory, old: str, text: str, **details: Any) -> Answer:
    """Remember TEXT and mark the fact with the id OLD as superseded by it."""
    return _remember_answer(memory.supersede(old, text, source=_SOURCE, **details))


@click.command("recall")
@click.argument("message")
@click.option("--budget", type=int, help="Maximum number of tokens; default `recall.budget`.")
@options.history
@_with_memory
def recall_command(memory: Memory, message: str, **values: Any) -> Answer:
    """Print the memories that fit MESSAGE, as a block for an agent's prompt.

    A --session does not receive the same passage again within `recall.again_after` minutes.
    Exit status: 0 there are some, 1 there are none.
    """
    recall = memory.recall(message, **values)
    return Answer(recall, recall.block, 0 if recall.hits else NO_HITS)


@click.command("forget")
@click.argument("ids", nargs=-1)
@click.option("--query", help="Forget the facts that this query finds, after showing them.")
@click.option("--scope", help="Forget all facts of this scope, after showing them.")
@click.option("--predecessors", is_flag=True, help="Also forget the facts that they superseded.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_with_memory
def forget_command(
    memory: Memory,
    ids: tuple[str, ...],
    query: str | None,
    scope: str | None,
    predecessors: bool,
    yes: bool,
) -> Answer:
    """Erase the facts with these IDS, or those of a query or scope, without a trace.

    Exit status: 0 forgotten, 1 nothing to forget.
    """
    if sum(map(bool, (ids, query, scope))) != 1:
        raise click.UsageError("Name facts by their ids, or by --query, or by --scope")
    if not ids:
        facts = _find_facts(memory, query, scope)
        if not facts:
            click.echo("There is nothing to forget", err=True)
            click.get_current_context().exit(NO_HITS)
        _confirm(facts, yes)
        ids = tuple(fact.id for fact in facts)
    report = memory.forget(*ids, predecessors=predecessors)
    return Answer(report, lambda: _print_forgotten(report))


def _print_forgotten(report: EraseReport) -> None:
    click.echo(f"{report.count} forgotten")
    if report.predecessors:
        older = " ".join(report.predecessors)
        click.echo(
            f"Older versions are still stored: `memwell forget {older}` erases them", err=True
        )
    if report.pending:
        click.echo(
            "Pending: another process still reads the file; the rest is erased after that", err=True
        )
    if report.remains:
        click.echo(report.remains, err=True)
    for backup in report.backups:
        click.echo(f"{backup} may still contain it: delete that backup if it should not", err=True)


def _find_facts(memory: Memory, query: str | None, scope: str | None) -> list[Fact]:
    if scope:
        return memory.facts.list_scope(scope)
    hits = memory.search(query or "", kind="fact", include_superseded=True).hits
    return [memory.facts.get(hit.path) for hit in hits]


def _confirm(facts: list[Fact], yes: bool) -> None:
    """Show the facts that would be forgotten, and ask for confirmation."""
    _print(*facts, err=True)
    if not yes:
        number = count_of(len(facts), "fact")
        if not sys.stdin.isatty():
            raise click.UsageError(f"{number} would be forgotten: add --yes to confirm")
        click.confirm(f"Forget {number}?", abort=True, err=True)


@click.group("facts")
def facts_command() -> None:
    """List, show and correct facts."""


@facts_command.command("list")
@click.option("--category", help="Only facts of this category.")
@click.option("--tag", help="Only facts with this tag.")
@click.option("--scope", help="Only facts of this scope.")
@click.option("--source", help="Only facts from this source: cli, conversation, ingest ...")
@options.history
@_with_memory
def list_command(memory: Memory, include_superseded: bool, **wanted: Any) -> Answer:
    """List facts, the newest first."""
    from memwell.store.contract.values import FactFilter

    facts = memory.facts.find(FactFilter(superseded=include_superseded, **wanted))
    return Answer({"facts": facts}, lambda: _print(*facts), 0 if facts else NO_HITS)


@facts_command.command("show")
@click.argument("fact_id")
@_with_memory
def show_command(memory: Memory, fact_id: str) -> Answer:
    """Show everything about a fact."""
    fact = memory.facts.get(fact_id)
    return Answer(fact, lambda: _print_fields(fact))


def _print_fields(fact: Fact) -> None:
    from dataclasses import asdict

    for name, value in asdict(visible(fact)).items():
        if value not in (None, "", ()):
            click.echo(f"{name + ':':<14} {', '.join(value) if name == 'tags' else value}")


@facts_command.command("history")
@click.argument("fact_id")
@_with_memory
def history_command(memory: Memory, fact_id: str) -> Answer:
    """Show the history of a fact and of the facts that it superseded."""
    events = memory.facts.history(fact_id)
    lines = [f"{event.at}  {event.fact_id}  {event.what} {event.detail}" for event in events]
    return Answer({"events": events}, "\n".join(line.rstrip() for line in lines))


@facts_command.command("edit")
@click.argument("fact_id")
@click.option("--text", help="The new text.")
@click.option("--category", help="The new category.")
@click.option("--tag", "tags", multiple=True, help="The new tags; they replace all old ones.")
@click.option("--importance", type=float, help="0 to 1.")
@click.option("--confidence", type=float, help="0 to 1.")
@_with_memory
def edit_command(memory: Memory, fact_id: str, **values: Any) -> Answer:
    """Correct a fact. If it is no longer true, use `memwell supersede` instead."""
    changes = {name: value for name, value in values.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("Name what to change: --text, --category, --tag ...")
    fact = memory.facts.edit(fact_id, **changes)
    return Answer(fact, lambda: _print(fact))


@facts_command.command("promote")
@click.argument("fact_id")
@click.argument("scope", type=click.Choice(["global", "user", "agent"]))
@_with_memory
def promote_command(memory: Memory, fact_id: str, scope: str) -> Answer:
    """Give a fact a wider SCOPE, so that more can see it."""
    fact = memory.facts.promote(fact_id, scope)
    return Answer(fact, lambda: _print(fact))


@facts_command.command("prune")
@_with_memory
def prune_command(memory: Memory) -> Answer:
    """Delete expired facts."""
    from memwell.facts.erase import prune

    count = prune(memory.facts)
    return Answer({"pruned": count}, f"{count} pruned")


@facts_command.command("rescue")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_with_memory
def rescue_command(memory: Memory, yes: bool) -> Answer:
    """Write the facts that the indexes still have back into a lost or older memory.db.

    For the owner of the home: it rescues the facts of every user, agent and session. Facts that
    memory.db has stay as they are.

    Exit status: 0 there is something to rescue from, 1 the indexes have no facts.
    """
    from memwell.facts.rescue import find_rescuable, rescue

    service = memory.facts
    found = len(find_rescuable(service.store))
    if found and not yes:
        number = count_of(found, "fact")
        if not sys.stdin.isatty():
            raise click.UsageError(f"The indexes have {number}: add --yes to write them back")
        click.confirm(f"Write {number} of the indexes to memory.db?", abort=True, err=True)
    report = rescue(service.store, service.now)
    kept = f"\nThe damaged file is kept as {report.kept}" if report.kept else ""
    text = (
        f"{report.rescued} of {count_of(report.found, 'fact')} rescued; the others were there{kept}"
    )
    return Answer(report, text, 0 if report.found else NO_HITS)


def _remember_answer(result: RememberResult) -> Answer:
    text = f"{result.outcome}: {result.fact.id}"
    if result.instead_of:
        text += f"\ninstead of {result.instead_of.id}: {result.instead_of.text}"
    if result.similar_to:
        text += f"\nsimilar to {result.similar_to.id}: {result.similar_to.text}"
    return Answer(result, text)


def _print(*facts: Fact, err: bool = False) -> None:
    for fact in visible(facts):
        scope = f"{fact.scope} {fact.target}".strip()
        tags = "".join(f" #{tag}" for tag in fact.tags)
        ended = f"  superseded by {fact.superseded_by}" if fact.superseded_by else ""
        about = f"{fact.category}, {scope}{tags}{ended}"
        click.echo(f"{click.style(fact.id, bold=True)}  {about}\n  {fact.text}", err=err)
