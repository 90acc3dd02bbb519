"""`memwell eval`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell.errors import MemwellError
from memwell.surfaces.cli.common import (
    json_option,
    mode_option,
    open_memory,
    print_json,
    workspace_options,
)
from memwell.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from memwell.evaluate.compare import Difference
    from memwell.evaluate.dataset import Dataset
    from memwell.evaluate.report import Evaluation, Miss
    from memwell.evaluate.runner import RecallSettings
    from memwell.evaluate.thresholds import Threshold
    from memwell.memory import Memory
    from memwell.model import SearchResult

BELOW = 1
_LISTED_FAILURES = 10
_EVALUATING, _COMPARING = "evaluating", "comparing"

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("eval")
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@click.option(
    "-k",
    "k",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="How many of those found count.",
)
@click.option(
    "--compare",
    metavar="NAME=VALUE[,...]",
    help="Measure again with these settings, and print the difference.",
)
@click.option(
    "--hyde", is_flag=True, help="Compare what `recall` finds plainly and by hypothetical answers."
)
@click.option(
    "--fail-under",
    metavar="METRIC=VALUE",
    multiple=True,
    help="Exit with status 1 if a figure is below; may be repeated.",
)
@click.option("--html", "html_file", type=_file, help="Also write a report as one page here.")
@click.option("--run", "run_file", type=_file, help="Also write the rankings here.")
@mode_option
@workspace_options
@json_option
@click.pass_context
def eval_command(
    ctx: click.Context,
    dataset: Path,
    k: int,
    compare: str | None,
    hyde: bool,
    fail_under: tuple[str, ...],
    html_file: Path | None,
    run_file: Path | None,
    mode: str | None,
    workspace: str | None,
    agent: str | None,
    as_json: bool,
) -> None:
    """Measure how well queries are answered.

    DATASET is a .jsonl or .yaml file of your own cases, asked of your memory as it is; or a
    folder with corpus.jsonl, queries.jsonl and qrels.tsv, indexed in a temporary place.
    Exit status: 0 measured, 1 a figure is below --fail-under, 2 usage, 3 failure.
    """
    from memwell.evaluate.thresholds import find_missed

    own = dataset.is_file()
    settings = _settings(compare, own)
    if hyde and settings:
        raise click.UsageError("--hyde is a comparison of its own: leave out --compare")
    recalling = _recalling(mode) if hyde else None
    thresholds = _thresholds(fail_under, k, own)
    for file in filter(None, (html_file, run_file)):
        _check_folder(file)
    measured = (
        _measure_cases(dataset, workspace, agent, mode, k, settings, recalling)
        if own
        else _measure_set(dataset, mode, k, settings, recalling)
    )
    for notice in recalling.notices if recalling else ():
        click.echo(notice, err=True)
    if run_file:
        _write(run_file, "".join(f"{line}\n" for line in measured.first.run_lines()))
    if html_file:
        _write(html_file, _page(measured))
    if as_json:
        print_json(_to_json(measured))
    else:
        _print(measured)
    failed = find_missed(measured.first.overall, thresholds)
    for threshold, figure in failed:
        click.echo(f"{threshold.metric} = {figure:.3f} is below {threshold.least:g}", err=True)
    ctx.exit(BELOW if failed else 0)


@dataclass(frozen=True, slots=True)
class _EvalRun:
    """One run, or several beside each other, and what was measured."""

    dataset: Dataset
    own: bool
    mode: str
    runs: Mapping[str, Evaluation]
    describe: Callable[[str, str], str]
    """What stands in a document that a question found."""
    settings: str = ""
    """What the second run was with, as people may see it."""
    recalling: RecallSettings | None = None
    """What the runs were asked by, where they are ways to recall."""

    @property
    def first(self) -> Evaluation:
        return next(iter(self.runs.values()))

    @property
    def second(self) -> Evaluation | None:
        return self.runs.get(_COMPARING)

    @property
    def answered(self) -> int:
        """How many queries a hypothetical answer was had for."""
        known = self.recalling.answered if self.recalling else set()
        return sum(question.text in known for question in self.dataset.questions)

    @property
    def differences(self) -> Sequence[Difference]:
        from memwell.evaluate.compare import compare

        return compare(self.first, self.second) if self.second else ()

    @property
    def failed(self) -> list[Miss]:
        from memwell.evaluate.report import misses

        return [miss for miss in misses(self.dataset, self.first) if miss.failed]

    @property
    def about(self) -> str:
        first = self.first
        what = "notes" if self.own else "documents"
        return f"{first.name}: {first.questions} queries, {first.documents} {what}"


# -- what was asked for ----------------------------------------------------------------------------


def _settings(compare: str | None, own: bool) -> dict[str, str]:
    from memwell import config
    from memwell.evaluate.runner import check_comparable, environment_settings, parse_settings

    if compare is None:
        return {}
    try:
        settings = parse_settings(compare)
        check_comparable(settings, of_a_memory=own)
        config.load(None, {**os.environ, **environment_settings(settings)})
    except MemwellError as error:
        raise click.BadParameter(str(error), param_hint="--compare") from error
    return settings


def _thresholds(texts: Sequence[str], k: int, own: bool) -> list[Threshold]:
    from memwell.evaluate.report import NOTES_PASSING, metrics_at
    from memwell.evaluate.thresholds import parse_threshold

    names = [*metrics_at(k), *([NOTES_PASSING] if own else [])]
    try:
        return [parse_threshold(text, names) for text in texts]
    except MemwellError as error:
        raise click.BadParameter(str(error), param_hint="--fail-under") from error


def _visible(settings: Mapping[str, str]) -> str:
    from memwell.config.settings import setting_named

    return ", ".join(
        f"{name}={'***' if setting_named(name).secret else value}"
        for name, value in settings.items()
    )


def _recalling(mode: str | None) -> RecallSettings:
    from memwell import config
    from memwell.evaluate.runner import RecallSettings

    held = config.load(None)
    return RecallSettings(held.with_overrides({"search.mode": mode}) if mode else held)


# -- measuring -------------------------------------------------------------------------------------


def _runs(
    settings: Mapping[str, str], mode: str | None, recalling: RecallSettings | None
) -> dict[str, Mapping[str, str]]:
    """Return what is to be measured: the settings of each run, by its name."""
    from memwell.evaluate.runner import WAYS

    chosen = {"search.mode": mode} if mode else {}
    if recalling:
        return {way: {**chosen, **changed} for way, changed in WAYS.items()}
    second = {_COMPARING: {**chosen, **settings}} if settings else {}
    return {_EVALUATING: chosen, **second}


def _measure_set(
    folder: Path,
    mode: str | None,
    k: int,
    settings: Mapping[str, str],
    recalling: RecallSettings | None,
) -> _EvalRun:
    from memwell import config
    from memwell.evaluate.dataset import load
    from memwell.evaluate.runner import environment_settings, evaluate_memory

    dataset = load(folder)
    cache = config.home_folder() / "evaluation.db"
    texts = {document.id: f"{document.title} {document.text}" for document in dataset.documents}
    used, runs = "", {}
    for label, changed in _runs(settings, mode, recalling).items():
        held = config.load(None, {**os.environ, **environment_settings(changed)})
        chosen = held.search.mode
        used = used or chosen
        with progress_bar("embedding") as embedding, progress_bar(label) as progress:
            runs[label] = evaluate_memory(
                dataset, held, chosen, cache, progress, embedding, k=k, recalling=recalling
            )
    return _EvalRun(
        dataset,
        False,
        used,
        runs,
        lambda question, document: texts.get(document, ""),
        _visible(settings),
        recalling,
    )


def _measure_cases(
    file: Path,
    workspace: str | None,
    agent: str | None,
    mode: str | None,
    k: int,
    settings: Mapping[str, str],
    recalling: RecallSettings | None,
) -> _EvalRun:
    from memwell.evaluate.cases import check_notes, read_cases, to_dataset
    from memwell.evaluate.runner import (
        NoteSearch,
        environment_settings,
        evaluate_cases,
        find_known_notes,
    )

    cases = read_cases(file)
    dataset = to_dataset(file.name, cases)
    runs: dict[str, Evaluation] = {}
    used, asked = "", []
    for label, changed in _runs(settings, mode, recalling).items():
        with _environment(environment_settings(changed)), open_memory(workspace, agent) as memory:
            if not runs:
                check_notes(file, cases, lambda paths: find_known_notes(paths, listing(memory)))
            used = used or memory.settings.search.mode
            asked.append(NoteSearch(_searching(memory, recalling)))
            with progress_bar(label) as progress:
                runs[label] = evaluate_cases(dataset, asked[-1], progress, k)
        for caveat, count in asked[-1].caveats.items():
            click.echo(f"{count} of {len(cases)} queries: {caveat}", err=True)
    return _EvalRun(
        dataset,
        True,
        used,
        runs,
        lambda question, note: asked[0].passages.get((question, note), ""),
        _visible(settings),
        recalling,
    )


def _searching(
    memory: Memory, recalling: RecallSettings | None
) -> Callable[[str, int], SearchResult]:
    if recalling is None:
        return lambda query, most: memory.search(query, k=most)
    return lambda query, most: recalling.search(query, memory)


def listing(memory: Memory) -> Callable[[str, int], SearchResult]:
    """Search by filters alone, so that no setting hides a note."""
    return lambda query, most: memory.search(query, k=most, min_score=0, mode="words")


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while: a memory reads its settings from the environment."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# -- telling ---------------------------------------------------------------------------------------


def _print(measured: _EvalRun) -> None:
    click.echo(measured.about)
    _print_table(measured.first.rows)
    if measured.second:
        click.echo(f"\nwith {measured.settings}, and the difference (95 % interval)")
        width = max(map(len, measured.first.overall))
        for one in measured.differences:
            click.echo(
                f"{one.metric:<{width}}  {one.second:.3f}  {one.difference:+.3f}"
                f"  ({one.low:+.3f} to {one.high:+.3f})"
            )
    if measured.recalling:
        click.echo(
            f"\nby hypothetical answers of {measured.recalling.model}"
            f" ({measured.answered} of {measured.first.questions} queries have one)"
        )
        _print_table([(way, run.overall) for way, run in measured.runs.items()])
    if measured.own and measured.failed:
        click.echo(f"\nFound none of their notes: {len(measured.failed)}")
        for miss in measured.failed[:_LISTED_FAILURES]:
            instead = miss.found[0][0] if miss.found else "nothing"
            click.echo(f"  {miss.question.text}: {', '.join(miss.missing)}; first was {instead}")
        if len(measured.failed) > _LISTED_FAILURES:
            click.echo("  ... --html FILE shows all of them")


def _print_table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    names = [*rows[0][1]]
    width = max(len(name) for name, _ in rows)
    columns = [max(len(name) + 2, 11) for name in names]
    heads = zip(names, columns, strict=True)
    click.echo(" " * width + "".join(f"{name:>{column}}" for name, column in heads))
    for name, figures in rows:
        cells = zip(figures.values(), columns, strict=True)
        click.echo(f"{name:<{width}}" + "".join(f"{value:>{column}.3f}" for value, column in cells))


def _to_json(measured: _EvalRun) -> dict[str, Any]:
    first, second = measured.first, measured.second
    told: dict[str, Any] = {
        "name": first.name,
        "queries": first.questions,
        "documents": first.documents,
        "mode": measured.mode,
        "metrics": first.overall,
        "categories": first.by_category,
        "failing": [
            {
                "query": miss.question.text,
                "missing": miss.missing,
                "found": [document for document, _ in miss.found],
            }
            for miss in measured.failed
        ],
    }
    if second:
        told["comparison"] = {
            "settings": measured.settings,
            "metrics": second.overall,
            "categories": second.by_category,
            "differences": [asdict(one) for one in measured.differences],
        }
    if measured.recalling:
        budget = measured.recalling.budget
        told["hyde"] = {
            "model": measured.recalling.model,
            "answered": measured.answered,
            "calls": budget.calls,
            "tokens": budget.tokens,
            "metrics": {way: run.overall for way, run in measured.runs.items()},
        }
    return told


def _page(measured: _EvalRun) -> str:
    from memwell.evaluate.html import Comparison, page

    comparison = (
        Comparison(measured.settings, measured.differences) if measured.differences else None
    )
    about = [measured.about, f"Mode {measured.mode}; the first {measured.first.k} count."]
    return page(measured.dataset, measured.first, about, measured.describe, comparison)


def _check_folder(file: Path) -> None:
    """Say so before the long work, not after it."""
    if not file.absolute().parent.is_dir():
        raise MemwellError(
            f"{file} cannot be written: its folder does not exist", "Make the folder first"
        )


def _write(file: Path, text: str) -> None:
    try:
        file.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise MemwellError(
            f"{file} cannot be written ({error.strerror})", "Check its permissions"
        ) from error
