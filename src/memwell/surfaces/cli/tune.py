"""`memwell tune`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.config.edit import find_overrides, settings_file, write_settings
from memwell.config.fields import to_toml
from memwell.errors import MemwellError
from memwell.evaluate.cases import read_cases, to_dataset
from memwell.evaluate.tune import Overrides, Tuning, candidates, halves, tune
from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import open_memory, print_json
from memwell.surfaces.cli.eval import check_cases, print_caveats
from memwell.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from memwell.config.settings import Settings

NOTHING_BETTER = 1


@click.command("tune")
@click.argument("cases", metavar="CASES", type=click.Path(dir_okay=False, path_type=Path))
@options.cutoff
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@options.workspace
@options.as_json
@click.pass_context
def tune_command(
    ctx: click.Context, /, cases: Path, k: int, dry_run: bool, as_json: bool, **target: Any
) -> None:
    """Tune the fusion of keyword search and vector search to your own cases.

    CASES is a .jsonl or .yaml file as `memwell eval` reads it. One half of the cases chooses the
    settings; memwell writes them to memwell.toml only if the other half gets better, too.
    Exit status: 0 written, 1 nothing better found, 2 usage, 3 failure.
    """
    tuned = _run_tune(cases, k, target)
    if not as_json:
        _print_figures(tuned)
    write = bool(tuned.changes) and not dry_run
    if write:
        write_settings(tuned.workspace, tuned.changes)
    if as_json:
        print_json(_to_json(tuned, written=write))
    else:
        _print_verdict(tuned, written=write)
    ctx.exit(0 if tuned.changes else NOTHING_BETTER)


@dataclass(frozen=True, slots=True)
class _TuneRun:
    """The result of tuning, and its subject."""

    name: str
    notes: int
    tuning: Tuning
    settings: Settings
    workspace: Path | None

    @property
    def changes(self) -> Overrides:
        """The settings to write: those that differ from the present ones, if they are better."""
        if not self.tuning.better:
            return {}
        chosen = self.tuning.chosen.items()
        return {name: value for name, value in chosen if value != self.settings.get(name)}

    @property
    def file(self) -> Path:
        """The file to write them to."""
        return settings_file(self.workspace)

    @property
    def overriding(self) -> list[str]:
        """The environment variables that override the written settings."""
        return find_overrides(self.changes, os.environ)


def _run_tune(file: Path, k: int, target: Mapping[str, Any]) -> _TuneRun:
    from memwell.evaluate.runner import NoteSearch

    cases = read_cases(file)
    fitting, held_back = (to_dataset(file.name, part) for part in halves(file.name, cases))
    with open_memory(**target) as memory:
        settings = memory.settings
        _check_fused(settings)
        check_cases(file, cases, memory)
        search = NoteSearch(lambda query, k, tries: memory.search_with(query, tries, k=k))
        with progress_bar("tuning") as progress:
            tuning = tune(
                fitting, held_back, candidates(settings.search), search.search_each, progress, k
            )
        notes = len({note for case in cases for note in case.notes})
        tuned = _TuneRun(file.name, notes, tuning, settings, memory.workspace)
    print_caveats(search.caveats, len(cases))
    return tuned


def _check_fused(settings: Settings) -> None:
    """Raise an error if keyword search and vector search are not fused: no weight has an effect."""
    mode, chain = settings.search.mode, settings.embedding.chain
    for name, value, missing, remedy in (
        ("search.mode", mode, mode != "hybrid", 'Set it to "hybrid"'),
        ("embedding.chain", chain, not chain, 'Name a provider, such as "memwell"'),
    ):
        if missing:
            raise MemwellError(
                f"{name} = {to_toml(value)} ({settings.origin(name)}): keyword search and vector"
                " search are not fused, so there is nothing to tune",
                remedy,
            )


# -- output ----------------------------------------------------------------------------------------


def _print_figures(tuned: _TuneRun) -> None:
    tuning, metric = tuned.tuning, tuned.tuning.metric
    fitting, held_back = tuning.tried[0][1].questions, tuning.before.questions
    click.echo(
        f"{tuned.name}: {fitting + held_back} queries, {tuned.notes} notes;"
        f" {fitting} queries to fit, {held_back} held back"
    )
    click.echo(f"\n{metric}  on the queries to fit")
    for number, (settings, figures) in enumerate(tuning.tried):
        marks = [mark for mark, at in (("present", 0), ("best", tuning.best)) if at == number]
        note = f"  ({', '.join(marks)})" if marks else ""
        click.echo(f"{figures.overall[metric]:>{len(metric)}.3f}  {_line(settings)}{note}")
    click.echo(f"\n{metric}  on the queries held back")
    click.echo(f"{tuning.before.overall[metric]:>{len(metric)}.3f}  present")
    if tuning.best:
        change = tuning.difference
        click.echo(
            f"{tuning.after.overall[metric]:>{len(metric)}.3f}  best"
            f"  {change.difference:+.3f}  ({change.low:+.3f} to {change.high:+.3f})"
        )


def _print_verdict(tuned: _TuneRun, *, written: bool) -> None:
    tuning = tuned.tuning
    if not tuning.best:
        click.echo("\nThe present settings are the best: nothing is written.")
        return
    if not tuning.better:
        click.echo(
            "\nThe best settings are not better on the queries held back: nothing is written."
        )
        return
    chance = "" if tuning.difference.clear else ", but maybe by chance: the interval includes 0"
    click.echo(f"\nThe best settings are better on the queries held back{chance}.")
    click.echo(f"{'Written' if written else 'Would be written'} to {tuned.file}:")
    for name, value in tuned.changes.items():
        click.echo(f"  {name} = {to_toml(value)}  (was {to_toml(tuned.settings.get(name))})")
    for variable in tuned.overriding:
        click.echo(f"${variable} overrides the file: unset it", err=True)


def _line(settings: Overrides) -> str:
    """Return settings as a line, without their common prefix."""
    return " ".join(f"{name.removeprefix('search.')}={value}" for name, value in settings.items())


def _to_json(tuned: _TuneRun, *, written: bool) -> dict[str, Any]:
    tuning, metric = tuned.tuning, tuned.tuning.metric
    change = tuning.difference
    return {
        "name": tuned.name,
        "queries": tuning.tried[0][1].questions + tuning.before.questions,
        "notes": tuned.notes,
        "metric": metric,
        "fitting": {
            "queries": tuning.tried[0][1].questions,
            "tried": [
                {
                    "settings": settings,
                    "metrics": figures.overall,
                    "present": number == 0,
                    "best": number == tuning.best,
                }
                for number, (settings, figures) in enumerate(tuning.tried)
            ],
        },
        "held_back": {
            "queries": tuning.before.questions,
            "present": change.first,
            "best": change.second,
            "difference": change.difference,
            "low": change.low,
            "high": change.high,
        },
        "better": tuning.better,
        "changes": tuned.changes,
        "file": str(tuned.file),
        "written": written,
        "overridden_by": tuned.overriding,
    }
