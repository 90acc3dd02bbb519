"""`memwell search`."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import Answer, with_memory
from memwell.surfaces.cli.progress import progress_bar
from memwell.surfaces.cli.terminal import visible

if TYPE_CHECKING:
    from memwell.memory import Memory
    from memwell.model import Hit, SearchResult, Trace

NO_HITS = 1
_MORE = 3
"""Further passages of a note that are named."""


@click.command("search", context_settings={"ignore_unknown_options": True})
@click.argument("query", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-k", "k", type=int, help="Maximum number of hits.")
@click.option("--min-score", type=float, help="Drop hits of lower relevance (0 to 1).")
@click.option("--files-only", is_flag=True, help="Print only the paths, each once.")
@options.everywhere
@options.mode
@options.with_choices("--fusion", "search.fusion", "How both rankings become one")
@options.with_choices("--diversity", "search.diversity", "How to treat hits that say the same")
@options.with_choices("--group", "search.group", "What a hit is: a note, or each passage")
@click.option(
    "--context",
    type=click.Choice(["neighbours", "section"]),
    help="Show each passage with its neighbours, or with its whole section.",
)
@click.option(
    "--kind",
    type=click.Choice(["note", "fact", "transcript"]),
    help="Only notes, only facts, or only transcripts of agents.",
)
@options.history
@options.viewer
@click.option("--explain", is_flag=True, help="Show how the score of each hit was computed.")
@options.now
@with_memory
def search_command(
    memory: Memory,
    query: tuple[str, ...],
    files_only: bool,
    now: dt.datetime | None,
    **values: Any,
) -> Answer:
    """Find the passages that answer QUERY, best first.

    Plain words rank, but none of them is required. A "quoted phrase" must occur; AND, OR, NOT,
    parentheses, -word and word* work; path:GLOB, tag:X, after:2026-01-31 and before:2026-02 filter.
    Exit status: 0 hits, 1 none, 2 usage, 3 failure.
    """
    for word in query:
        if _looks_like_an_option(word):
            raise click.NoSuchOption(word, ctx=click.get_current_context())
    today = now.date() if now else None
    with progress_bar("indexing") as progress:
        result = memory.search(" ".join(query), today=today, progress=progress, **values)
    show = partial(_print_paths if files_only else _print, visible(result), memory.notices)
    return Answer(result, show, 0 if result.hits else NO_HITS)


def _looks_like_an_option(word: str) -> bool:
    """Whether --word or -x was meant as an option; -word excludes a word."""
    is_letter = len(word) == 2 and word[0] == "-" and word[1].isascii() and word[1].isalpha()
    return is_letter or (word.startswith("--") and " " not in word)


def _print_paths(result: SearchResult, _: Sequence[str]) -> None:
    for path in dict.fromkeys(_display_path(hit, result) for hit in result.hits):
        click.echo(path)


def _print(result: SearchResult, printed: Sequence[str]) -> None:
    """Print hits and caveats, except sentences that were printed already."""
    from memwell.search.snippet import group_adjacent

    for number, hits in enumerate(group_adjacent(result.hits)):
        if number:
            click.echo()
        _print_hits(hits, result)
    if not result.hits:
        click.echo("Nothing found.", err=True)
    if result.suggestions:
        click.echo(f"Did you mean: {', '.join(result.suggestions)}?", err=True)
    for line in (*result.notices, *_caveats(result)):
        if line not in printed:
            click.secho(line, err=True, dim=True)


def _print_hits(hits: list[Hit], result: SearchResult) -> None:
    """Print a hit, or several consecutive ones of a section, under one line."""
    from memwell.search.snippet import snippet

    best = max(hits, key=lambda hit: hit.score)
    at = _place_in_note(hits[0]) if best.kind != "fact" else ""
    place = click.style(f"{_display_path(best, result)}{at}", bold=True)
    heading = click.style("  " + " > ".join(best.heading), fg="cyan") if best.heading else ""
    score = click.style(_score(best, result), dim=True)
    click.echo(f"{place}{heading}{score}")
    for hit in hits:
        if hit.context:
            click.echo(indent(hit.context.text.strip("\n"), "  "))
            break  # the context contains the other hits
        for line in snippet(hit):
            if line.text.lstrip("# ") not in hit.heading:
                click.echo(f"  {_highlight(line.text, line.marks)}")
    for hit in hits:
        if hit.valid_until:
            click.secho(f"  valid until {hit.valid_until[:10]}", dim=True)
        if hit.also:
            click.secho(f"  also in {', '.join(hit.also)}", dim=True)
        if hit.more_lines:
            lines = ", ".join(str(start) for start, _ in hit.more_lines[:_MORE])
            click.secho(f"  more from line {lines}", dim=True)
        if hit.trace:
            print_trace(hit.trace)


def _place_in_note(hit: Hit) -> str:
    """Return the page or cell of a document, else the line."""
    return f"#{hit.position}" if hit.position else f":{hit.start_line}"


def _score(hit: Hit, result: SearchResult) -> str:
    """Return the number that a hit shows; none if the hits are not ordered by it."""
    if result.order != "score":
        return ""
    return f"  {hit.score:.2f}{' weak' if hit.weak else ''}"


def print_trace(trace: Trace) -> None:
    """Print one row for each leg; they add up to the fused score, which decides the order."""
    click.echo(f"  {'leg':<8} {'rank':>5} {'raw':>9} {'evidence':>9} {'weight':>7} {'adds':>8}")
    for part in trace.parts:
        rank = "-" if part.rank is None else str(part.rank)
        raw = "-" if part.raw is None else f"{part.raw:.4f}"
        numbers = f"{part.evidence:>9.4f} {part.weight:>7.4f} {part.contribution:>8.4f}"
        click.echo(f"  {part.leg:<8} {rank:>5} {raw:>9} {numbers}")
    click.echo(f"  {'fused':<42} {trace.fused:>8.4f}")
    if trace.above_chance is not None:
        click.echo(f"  {'standard deviations above chance':<42} {trace.above_chance:>8.4f}")
    if trace.covered is not None:
        click.echo(f"  {'share of the words covered':<42} {trace.covered:>8.4f}")
    if trace.best_logit is not None:
        click.echo(f"  {'logit of the best':<42} {trace.best_logit:>8.4f}")
        label = f"fused score below the best, times {trace.slope:g}"
        click.echo(f"  {label:<42} {trace.slope * trace.below_best:>8.4f}")
    click.echo(f"  {'relevance':<42} {trace.relevance:>8.4f}  (min_score {trace.min_score:g})")
    if trace.kept < 1:
        click.echo(f"  {'left of the fused score':<42} {trace.kept:>8.4f}  ({trace.kept_why})")
    if trace.gain:
        click.echo(f"  {'added to the logit':<42} {trace.gain:>8.4f}  ({trace.kept_why})")
    click.echo(f"  {'score':<42} {trace.score:>8.4f}")
    if trace.copies:
        click.echo(f"  {'duplicates hidden':<42} {trace.copies:>8}")
    if trace.worth is not None:
        click.echo(f"  {'value next to the hits before (mmr)':<42} {trace.worth:>8.4f}")


def _highlight(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    """Highlight the matching words: in colour on a terminal, between « » elsewhere."""
    colour = sys.stdout.isatty()
    for start, end in reversed(marks):
        word = text[start:end]
        shown = click.style(word, fg="yellow", bold=True) if colour else f"«{word}»"
        text = text[:start] + shown + text[end:]
    return text


def _display_path(hit: Hit, result: SearchResult) -> str:
    return f"fact {hit.path}" if hit.kind == "fact" else result.display_path(hit)


def _caveats(result: SearchResult) -> list[str]:
    """Return why the answer may be incomplete."""
    lines = [f"{leg.name} did not answer: {leg.reason}" for leg in result.legs if not leg.answered]
    fresh = result.freshness
    if fresh.pending:
        lines.append(f"{fresh.pending} changed notes are not indexed yet: run `memwell index`.")
    if fresh.unembedded and any(leg.name == "meaning" and leg.answered for leg in result.legs):
        lines.append(f"{fresh.unembedded} passages have no vector yet: run `memwell index`.")
    if not fresh.pending and not fresh.checked and fresh.synced_at:
        lines.append(f"Index as of {fresh.synced_at}; memwell did not look for later changes.")
    return [*lines, *([fresh.note] if fresh.note else [])]
