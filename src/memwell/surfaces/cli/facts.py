"""`memwell remember`, `recall`, `supersede`, `forget` and `facts`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli.common import (
    history_options,
    json_option,
    open_memory,
    print_json,
    viewer_options,
    workspace_options,
)
from memwell.surfaces.cli.search import NO_HITS

if TYPE_CHECKING:
    from memwell.facts.service import RememberResult
    from memwell.memory import Memory
    from memwell.model import Fact

_DETAILS = (
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


def _memory_options(command: Any) -> Any:
    """Add the options that `open_memory` takes, and ``--json``."""
    return viewer_options(workspace_options(json_option(command)))


def _details(command: Any) -> Any:
    for option in reversed(_DETAILS):
        command = option(command)
    return command


@click.command("remember")
@click.argument("text")
@click.option(
    "--scope",
    type=click.Choice(["global", "user", "agent", "session"]),
    help="Who can see it; default the narrowest scope that is named.",
)
@_details
@_memory_options
def remember_command(
    text: str,
    user: str,
    session: str,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
    **details: Any,
) -> None:
    """Remember TEXT as a fact, or confirm the fact that says the same."""
    with open_memory(workspace, agent, user=user, session=session) as memory:
        _print_result(memory.remember(text, **details), as_json)


@click.command("supersede")
@click.argument("old")
@click.argument("text")
@_details
@_memory_options
def supersede_command(
    old: str,
    text: str,
    user: str,
    session: str,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
    **details: Any,
) -> None:
    """Remember TEXT and mark the fact with the id OLD as superseded by it."""
    with open_memory(workspace, agent, user=user, session=session) as memory:
        _print_result(memory.supersede(old, text, **details), as_json)


@click.command("recall")
@click.argument("message")
@click.option("--budget", type=int, help="Maximum number of tokens; default `recall.budget`.")
@history_options
@_memory_options
@click.pass_context
def recall_command(
    ctx: click.Context,
    /,
    message: str,
    budget: int | None,
    include_superseded: bool,
    as_of: str | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Print the memories that fit MESSAGE, as a block for an agent's prompt.

    A --session does not receive the same passage again within `recall.again_after` minutes.
    Exit status: 0 there are some, 1 there are none.
    """
    with open_memory(**target) as memory:
        recall = memory.recall(
            message, budget=budget, include_superseded=include_superseded, as_of=as_of
        )
    if as_json:
        print_json(recall)
    elif recall.block:
        click.echo(recall.block)
    ctx.exit(0 if recall.hits else NO_HITS)


@click.command("forget")
@click.argument("ids", nargs=-1)
@click.option("--query", help="Forget the facts that this query finds, after showing them.")
@click.option("--scope", help="Forget all facts of this scope, after showing them.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_memory_options
@click.pass_context
def forget_command(
    ctx: click.Context,
    /,
    ids: tuple[str, ...],
    query: str | None,
    scope: str | None,
    yes: bool,
    as_json: bool,
    **target: Any,
) -> None:
    """Erase the facts with these IDS, or those of a query or scope, without a trace.

    Exit status: 0 forgotten, 1 nothing to forget.
    """
    if sum(map(bool, (ids, query, scope))) != 1:
        raise click.UsageError("Name facts by their ids, or by --query, or by --scope")
    with open_memory(**target) as memory:
        if not ids:
            facts = _find_facts(memory, query, scope)
            if not facts:
                click.echo("There is nothing to forget", err=True)
                ctx.exit(NO_HITS)
            _confirm(facts, yes)
            ids = tuple(fact.id for fact in facts)
        report = memory.forget(*ids)
    if as_json:
        print_json(report)
        return
    click.echo(f"{report.count} forgotten")
    if report.pending:
        click.echo(
            "Pending: another process still reads the file; the rest is erased after that", err=True
        )
    for backup in report.backups:
        click.echo(f"{backup} may still contain it: delete that backup if it should not", err=True)


def _find_facts(memory: Memory, query: str | None, scope: str | None) -> list[Fact]:
    if scope:
        return memory.facts.list_scope(scope)
    hits = memory.search(query or "", kind="fact", include_superseded=True).hits
    return [memory.facts.get(hit.path) for hit in hits]


def _confirm(facts: list[Fact], yes: bool) -> None:
    """Show the facts that would be forgotten, and ask for confirmation."""
    for fact in facts:
        _print(fact, err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{len(facts)} facts would be forgotten: add --yes to confirm")
        click.confirm(f"Forget {len(facts)} facts?", abort=True, err=True)


@click.group("facts")
def facts_command() -> None:
    """List, show and correct facts."""


@facts_command.command("list")
@click.option("--category", help="Only facts of this category.")
@click.option("--tag", help="Only facts with this tag.")
@click.option("--scope", help="Only facts of this scope.")
@click.option("--source", help="Only facts from this source: cli, conversation, ingest ...")
@history_options
@_memory_options
@click.pass_context
def list_command(
    ctx: click.Context,
    /,
    category: str | None,
    tag: str | None,
    scope: str | None,
    source: str | None,
    include_superseded: bool,
    as_of: str | None,
    as_json: bool,
    **target: Any,
) -> None:
    """List facts, the newest first."""
    from memwell.store.contract.values import FactFilter

    wanted = FactFilter(
        category=category,
        tag=tag,
        scope=scope,
        source=source,
        superseded=include_superseded,
        as_of=as_of,
    )
    with open_memory(**target) as memory:
        facts = memory.facts.find(wanted)
    if as_json:
        print_json({"facts": facts})
    else:
        for fact in facts:
            _print(fact)
    ctx.exit(0 if facts else NO_HITS)


@facts_command.command("show")
@click.argument("fact_id")
@_memory_options
def show_command(fact_id: str, as_json: bool, **target: Any) -> None:
    """Show everything about a fact."""
    from dataclasses import asdict

    with open_memory(**target) as memory:
        fact = memory.facts.get(fact_id)
    if as_json:
        print_json(fact)
        return
    for name, value in asdict(fact).items():
        if value not in (None, "", ()):
            click.echo(f"{name + ':':<14} {', '.join(value) if name == 'tags' else value}")


@facts_command.command("history")
@click.argument("fact_id")
@_memory_options
def history_command(fact_id: str, as_json: bool, **target: Any) -> None:
    """Show the history of a fact and of the facts that it superseded."""
    with open_memory(**target) as memory:
        events = memory.facts.history(fact_id)
    if as_json:
        print_json({"events": events})
        return
    for event in events:
        click.echo(f"{event.at}  {event.fact_id}  {event.what} {event.detail}".rstrip())


@facts_command.command("edit")
@click.argument("fact_id")
@click.option("--text", help="The new text.")
@click.option("--category", help="The new category.")
@click.option("--tag", "tags", multiple=True, help="The new tags; they replace all old ones.")
@click.option("--importance", type=float, help="0 to 1.")
@click.option("--confidence", type=float, help="0 to 1.")
@_memory_options
def edit_command(
    fact_id: str,
    text: str | None,
    category: str | None,
    tags: tuple[str, ...],
    importance: float | None,
    confidence: float | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Correct a fact. If it is no longer true, use `memwell supersede` instead."""
    values = {
        "text": text,
        "category": category,
        "tags": tags,
        "importance": importance,
        "confidence": confidence,
    }
    changes = {name: value for name, value in values.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("Name what to change: --text, --category, --tag ...")
    with open_memory(**target) as memory:
        fact = memory.facts.edit(fact_id, **changes)
    if as_json:
        print_json(fact)
    else:
        _print(fact)


@facts_command.command("promote")
@click.argument("fact_id")
@click.argument("scope", type=click.Choice(["global", "user", "agent"]))
@_memory_options
def promote_command(fact_id: str, scope: str, as_json: bool, **target: Any) -> None:
    """Give a fact a wider SCOPE, so that more can see it."""
    with open_memory(**target) as memory:
        fact = memory.facts.promote(fact_id, scope)
    if as_json:
        print_json(fact)
    else:
        _print(fact)


@facts_command.command("prune")
@_memory_options
def prune_command(as_json: bool, **target: Any) -> None:
    """Delete expired facts."""
    with open_memory(**target) as memory:
        count = memory.facts.prune()
    if as_json:
        print_json({"pruned": count})
    else:
        click.echo(f"{count} pruned")


def _print_result(result: RememberResult, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    click.echo(f"{result.outcome}: {result.fact.id}")
    if result.instead_of:
        click.echo(f"instead of {result.instead_of.id}: {result.instead_of.text}")


def _print(fact: Fact, *, err: bool = False) -> None:
    scope = f"{fact.scope} {fact.target}".strip()
    tags = "".join(f" #{tag}" for tag in fact.tags)
    ended = f"  superseded by {fact.superseded_by}" if fact.superseded_by else ""
    click.echo(f"{click.style(fact.id, bold=True)}  {fact.category}, {scope}{tags}{ended}", err=err)
    click.echo(f"  {fact.text}", err=err)
