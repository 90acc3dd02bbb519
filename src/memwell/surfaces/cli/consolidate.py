"""`memwell consolidate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, count_of, open_memory, prints_answer
from memwell.surfaces.cli.search import NO_HITS
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.consolidate.plan import Plan
    from memwell.llm.base import Chat
    from memwell.memory import Memory

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("consolidate")
@click.option(
    "--plan",
    "file",
    type=_FILE,
    default=Path("memwell-plan.json"),
    show_default=True,
    help="The file to write the plan to.",
)
@click.option("--apply", "to_apply", type=_FILE, metavar="PLAN", help="Apply this plan.")
@click.option("--undo", "to_undo", type=_FILE, metavar="PLAN", help="Undo this plan.")
@click.option("--rules", is_flag=True, help="Use the rules even if a language model is configured.")
@click.option("--no-digest", is_flag=True, help="Propose no notes about weeks.")
@options.viewer
@options.workspace
@prints_answer
def consolidate_command(
    file: Path,
    to_apply: Path | None,
    to_undo: Path | None,
    rules: bool,
    no_digest: bool,
    workspace: str | None,
    **viewer: Any,
) -> Answer:
    """Propose how to tidy the memory, as a plan: nothing changes until you apply it.

    The plan merges facts that say nearly the same, supersedes facts that a newer one contradicts,
    and writes a digest of each past week out of its daily logs. Rules propose it, and the language
    model that `llm.default` names. Read the file, delete the steps that you do not want, and apply
    it; --undo takes it back.

    Exit status: 0 there are steps, 1 there are none.
    """
    from memwell.consolidate.apply import apply_plan, undo_plan
    from memwell.consolidate.plan import read_plan, write_plan

    if to_apply and to_undo:
        raise click.UsageError("Use --apply or --undo, not both")
    with open_memory(workspace, **viewer) as memory:
        if chosen := to_apply or to_undo:
            plan = read_plan(chosen)
            count = (apply_plan if to_apply else undo_plan)(plan, memory)
            write_plan(plan, chosen)
            done = f"{count_of(count, 'step')} {'applied' if to_apply else 'undone'}"
            return Answer(plan, lambda: _print_problems(plan, done), 0 if count else NO_HITS)
        plan = _propose(memory, rules=rules, digests=not no_digest)
        if not plan.steps:
            return Answer(plan, "There is nothing to consolidate", NO_HITS)
        write_plan(plan, file)
    return Answer(plan, lambda: _print_plan(plan, file))


def _propose(memory: Memory, *, rules: bool, digests: bool) -> Plan:
    from memwell.consolidate.propose import propose

    chat = None if rules else _chat(memory)
    return propose(memory, chat, memory.notices.append, digests=digests)


def _chat(memory: Memory) -> Chat | None:
    from memwell.llm.budget import Budget
    from memwell.llm.registry import model_for

    llm = memory.settings.llm
    chat = model_for(llm)
    return Budget(llm.max_calls, llm.max_tokens).wrap(chat) if chat else None


def _print_plan(plan: Plan, file: Path) -> None:
    from memwell.consolidate.plan import DIGEST

    for step in visible(plan).steps:
        if step.kind == DIGEST:
            click.echo(f"digest     {step.path} ({step.why})")
            continue
        click.echo(f"{step.kind:<9}  {step.new.text if step.new else ''}")
        for old in step.old:
            click.echo(f"           instead of: {old.text} ({step.why})")
    steps = count_of(len(plan.steps), "step")
    click.echo(f"{steps} by {plan.by} written to {file}: `memwell consolidate --apply {file}`")


def _print_problems(plan: Plan, done: str) -> None:
    click.echo(done)
    for step in visible(plan).steps:
        if step.problem:
            click.echo(f"left alone: {step.problem}", err=True)
