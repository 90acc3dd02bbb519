"""Applies a plan, and undoes it. A step whose facts or file changed meanwhile is left alone."""

from __future__ import annotations

from pathlib import Path

from memwell.consolidate.plan import DIGEST, Plan, PlannedFact, Step
from memwell.errors import MemwellError, NotFoundError
from memwell.files import atomic_write
from memwell.memory import Memory

SOURCE = "consolidate"


def apply_plan(plan: Plan, memory: Memory) -> int:
    """Apply the steps that are not applied yet; return how many were."""
    return _run(plan, memory, applied=False)


def undo_plan(plan: Plan, memory: Memory) -> int:
    """Undo the steps that were applied, the last first; return how many were."""
    return _run(plan, memory, applied=True)


def _run(plan: Plan, memory: Memory, *, applied: bool) -> int:
    done = 0
    for step in reversed(plan.steps) if applied else plan.steps:
        if step.applied is not applied:
            continue
        change = _undo_step if applied else _apply_step
        try:
            change(step, memory)
            step.applied, step.problem, done = not applied, "", done + 1
        except (MemwellError, OSError) as error:
            step.problem = error.what if isinstance(error, MemwellError) else str(error)
    if done and any(step.kind == DIGEST for step in plan.steps) and memory.workspace:
        memory.index()
    return done


def _apply_step(step: Step, memory: Memory) -> None:
    if step.kind == DIGEST:
        file = _digest_file(step, memory)
        if file.exists():
            raise MemwellError(f"{step.path} exists already", "Rename it")
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.write_text(step.text, encoding="utf-8")
        return
    if step.new is None:
        raise MemwellError("The step names no fact that stays", "Add it to the plan as `new`")
    for planned in (*step.old, step.new):
        _require_unchanged(planned, memory)
    for old in step.old:
        memory.facts.supersede_by(old.id, step.new.id)


def _undo_step(step: Step, memory: Memory) -> None:
    if step.kind == DIGEST:
        file = _digest_file(step, memory)
        if not file.is_file() or file.read_text(encoding="utf-8") != step.text:
            raise MemwellError(f"{step.path} was changed by hand", "Delete it yourself")
        file.unlink()
        return
    for old in step.old:
        fact = memory.facts.get(old.id)
        if step.new is None or fact.superseded_by != step.new.id:
            raise MemwellError(f"The fact {old.id} was changed since", "Leave it as it is")
    for old in step.old:
        memory.facts.restore(old.id)


def _require_unchanged(planned: PlannedFact, memory: Memory) -> None:
    fact = memory.facts.get(planned.id)
    if fact.superseded_by or fact.text != planned.text:
        raise MemwellError(f"The fact {planned.id} was changed since", "Make a new plan")


def _digest_file(step: Step, memory: Memory) -> Path:
    root = memory.workspace
    if root is None:
        raise NotFoundError("There is no workspace here", "Name one with --workspace")
    file = root / step.path
    if not file.resolve().is_relative_to(root.resolve()):
        raise MemwellError(f"{step.path} is outside of the workspace {root}", "Correct the plan")
    return file
