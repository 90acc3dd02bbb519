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
        help="How long it is held true unless confirmed.",
    ),
    click.option("--valid-from", help="Since when it holds; default now."),
    click.option(
        "--secrets",
        type=click.Choice(["refuse", "redact", "allow"]),
        default="refuse",
        help="What to do with keys, tokens and card numbers.",
    ),
)


def _place_options(command: Any) -> Any:
    """Whose facts, of which home; what `opened` takes, and ``--json``."""
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
    help="Who sees it; default the narrowest there is.",
)
@_details
@_place_options
def remember_command(
    text: str,
    user: str,
    session: str,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
    **details: Any,
) -> None:
    """Keep TEXT as a fact, or reinforce the one that says the same."""
    with open_memory(workspace, agent, user=user, session=session) as memory:
        _tell(memory.remember(text, **details), as_json)


@click.command("supersede")
@click.argument("old")
@click.argument("text")
@_details
@_place_options
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
    """Keep TEXT in place of the fact with the id OLD, which is no longer held true."""
    with open_memory(workspace, agent, user=user, session=session) as memory:
        _tell(memory.supersede(old, text, **details), as_json)


@click.command("recall")
@click.argument("message")
@click.option("--budget", type=int, help="Tokens at most; default `recall.budget`.")
@history_options
@_place_options
@click.pass_context
def recall_command(
    ctx: click.Context,
    /,
    message: str,
    budget: int | None,
    include_superseded: bool,
    as_of: str | None,
    as_json: bool,
    **place: Any,
) -> None:
    """Print what is remembered of MESSAGE, as a block for an agent's prompt.

    A --session is not told again what it was told within the last hour. Exit status: 0 something,
    1 nothing.
    """
    with open_memory(**place) as memory:
        found = memory.recall(
            message, budget=budget, include_superseded=include_superseded, as_of=as_of
        )
    if as_json:
        print_json(found)
    elif found.block:
        click.echo(found.block)
    ctx.exit(0 if found.hits else NO_HITS)


@click.command("forget")
@click.argument("ids", nargs=-1)
@click.option("--query", help="The facts that this finds; they are shown first.")
@click.option("--scope", help="All facts of this scope; they are shown first.")
@click.option("--yes", is_flag=True, help="Don't ask whether the facts shown are meant.")
@_place_options
@click.pass_context
def forget_command(
    ctx: click.Context,
    /,
    ids: tuple[str, ...],
    query: str | None,
    scope: str | None,
    yes: bool,
    as_json: bool,
    **place: Any,
) -> None:
    """Remove the facts with these IDS, or those of a query or scope; nothing of them stays.

    Exit status: 0 forgotten, 1 nothing to forget.
    """
    if sum(map(bool, (ids, query, scope))) != 1:
        raise click.UsageError("Name facts by their ids, or by --query, or by --scope")
    with open_memory(**place) as memory:
        if not ids:
            meant = _find_meant(memory, query, scope)
            if not meant:
                click.echo("There is nothing to forget", err=True)
                ctx.exit(NO_HITS)
            _confirm(meant, yes)
            ids = tuple(fact.id for fact in meant)
        done = memory.forget(*ids)
    if as_json:
        print_json(done)
        return
    click.echo(f"{done.count} forgotten")
    if done.pending:
        click.echo("Pending: another process still reads, the last of it goes after that", err=True)
    for copy in done.backups:
        click.echo(f"{copy} may still hold it: delete it if it should not", err=True)


def _find_meant(memory: Memory, query: str | None, scope: str | None) -> list[Fact]:
    if scope:
        return memory.facts.list_scope(scope)
    hits = memory.search(query or "", kind="fact", include_superseded=True).hits
    return [memory.facts.get(hit.path) for hit in hits]


def _confirm(facts: list[Fact], yes: bool) -> None:
    """Show what would be forgotten, and have it confirmed."""
    for fact in facts:
        _print(fact, err=True)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{len(facts)} would be forgotten: add --yes if they are meant")
        click.confirm(f"Forget {len(facts)}?", abort=True, err=True)


@click.group("facts")
def facts_command() -> None:
    """Look at what was remembered, and put it in order."""


@facts_command.command("list")
@click.option("--category", help="Only those of a category.")
@click.option("--tag", help="Only those with a tag.")
@click.option("--scope", help="Only those of a scope.")
@click.option("--source", help="Only those from a source: cli, conversation, ingest ...")
@history_options
@_place_options
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
    **place: Any,
) -> None:
    """List facts, the newest first."""
    from memwell.store.contract.values import FactFilter

    which = FactFilter(
        category=category,
        tag=tag,
        scope=scope,
        source=source,
        superseded=include_superseded,
        as_of=as_of,
    )
    with open_memory(**place) as memory:
        found = memory.facts.find(which)
    if as_json:
        print_json({"facts": found})
    else:
        for fact in found:
            _print(fact)
    ctx.exit(0 if found else NO_HITS)


@facts_command.command("show")
@click.argument("fact_id")
@_place_options
def show_command(fact_id: str, as_json: bool, **place: Any) -> None:
    """Show all that is known of a fact."""
    from dataclasses import asdict

    with open_memory(**place) as memory:
        fact = memory.facts.get(fact_id)
    if as_json:
        print_json(fact)
        return
    for name, value in asdict(fact).items():
        if value not in (None, "", ()):
            click.echo(f"{name + ':':<14} {', '.join(value) if name == 'tags' else value}")


@facts_command.command("history")
@click.argument("fact_id")
@_place_options
def history_command(fact_id: str, as_json: bool, **place: Any) -> None:
    """Show what happened to a fact, and to those it took the place of."""
    with open_memory(**place) as memory:
        events = memory.facts.history(fact_id)
    if as_json:
        print_json({"events": events})
        return
    for event in events:
        click.echo(f"{event.at}  {event.fact_id}  {event.what} {event.detail}".rstrip())


@facts_command.command("edit")
@click.argument("fact_id")
@click.option("--text", help="What it says.")
@click.option("--category", help="Of which kind it is.")
@click.option("--tag", "tags", multiple=True, help="Its tags, all of them.")
@click.option("--importance", type=float, help="0 to 1.")
@click.option("--confidence", type=float, help="0 to 1.")
@_place_options
def edit_command(
    fact_id: str,
    text: str | None,
    category: str | None,
    tags: tuple[str, ...],
    importance: float | None,
    confidence: float | None,
    as_json: bool,
    **place: Any,
) -> None:
    """Correct what is known of a fact. What is no longer true is superseded instead."""
    named = {
        "text": text,
        "category": category,
        "tags": tags,
        "importance": importance,
        "confidence": confidence,
    }
    changes = {name: value for name, value in named.items() if value not in (None, ())}
    if not changes:
        raise click.UsageError("Say what to change: --text, --category, --tag ...")
    with open_memory(**place) as memory:
        fact = memory.facts.edit(fact_id, **changes)
    if as_json:
        print_json(fact)
    else:
        _print(fact)


@facts_command.command("promote")
@click.argument("fact_id")
@click.argument("scope", type=click.Choice(["global", "user", "agent"]))
@_place_options
def promote_command(fact_id: str, scope: str, as_json: bool, **place: Any) -> None:
    """Let more see a fact: give it a wider SCOPE."""
    with open_memory(**place) as memory:
        fact = memory.facts.promote(fact_id, scope)
    if as_json:
        print_json(fact)
    else:
        _print(fact)


@facts_command.command("prune")
@_place_options
def prune_command(as_json: bool, **place: Any) -> None:
    """Remove what has expired."""
    with open_memory(**place) as memory:
        count = memory.facts.prune()
    if as_json:
        print_json({"pruned": count})
    else:
        click.echo(f"{count} pruned")


def _tell(done: RememberResult, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    click.echo(f"{done.outcome}: {done.fact.id}")
    if done.instead_of:
        click.echo(f"instead of {done.instead_of.id}: {done.instead_of.text}")


def _print(fact: Fact, *, err: bool = False) -> None:
    whose = f"{fact.scope} {fact.target}".strip()
    tags = "".join(f" #{tag}" for tag in fact.tags)
    ended = f"  superseded by {fact.superseded_by}" if fact.superseded_by else ""
    click.echo(f"{click.style(fact.id, bold=True)}  {fact.category}, {whose}{tags}{ended}", err=err)
    click.echo(f"  {fact.text}", err=err)
