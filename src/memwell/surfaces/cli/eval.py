"""`memwell eval`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memwell import config
from memwell.config import setting_named
from memwell.errors import MemwellError
from memwell.evaluate.cases import Case, check_notes, read_cases, to_dataset
from memwell.evaluate.compare import Difference, compare
from memwell.evaluate.dataset import Dataset, load
from memwell.evaluate.report import NOTES_PASSING, Evaluation, Miss, evaluate, metrics_at, misses
from memwell.evaluate.thresholds import Threshold, find_missed, parse_threshold
from memwell.files import remedy_for
from memwell.surfaces.cli import options
from memwell.surfaces.cli.common import open_memory, print_json
from memwell.surfaces.cli.progress import progress_bar

if TYPE_CHECKING:
    from memwell.config.fields import Value
    from memwell.evaluate.runner import RecallRun, SearchEach
    from memwell.memory import Memory
    from memwell.model import SearchResult

BELOW = 1
_LISTED_FAILURES = 10
_EVALUATING, _COMPARING = "evaluating", "comparing"
_COMPARE = "--compare"

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("eval")
@click.argument("dataset", metavar="DATASET", type=click.Path(path_type=Path))
@options.cutoff
@click.option(
    "--compare",
    metavar="NAME=VALUE[,...]",
    help="Evaluate again with these settings, and print the difference.",
)
@click.option(
    "--hyde", is_flag=True, help="Compare `recall` with and without hypothetical answers (HyDE)."
)
@click.option(
    "--fail-under",
    metavar="METRIC=VALUE",
    multiple=True,
    help="Exit with status 1 if a metric is lower; may be repeated.",
)
@click.option("--html", "html_file", type=_file, help="Also write a report to this HTML file.")
@click.option("--run", "run_file", type=_file, help="Also write the rankings to this file.")
@options.mode
@options.workspace
@options.as_json
@click.pass_context
def eval_command(
    ctx: click.Context,
    /,
    dataset: Path,
    k: int,
    compare: str | None,
    hyde: bool,
    fail_under: tuple[str, ...],
    html_file: Path | None,
    run_file: Path | None,
    mode: str | None,
    as_json: bool,
    **target: Any,
) -> None:
    """Measure how well searches answer queries.

    DATASET is a .jsonl or .yaml file of your own cases, which search your memory as it is; or a
    folder with corpus.jsonl, queries.jsonl and qrels.tsv, which is indexed temporarily.
    Exit status: 0 measured, 1 a metric is below --fail-under, 2 usage, 3 failure.
    """
    is_cases = dataset.is_file()
    settings = _settings(compare, is_cases)
    if hyde and settings:
        raise click.UsageError("--hyde cannot be combined with --compare")
    recall = _recall_run(mode) if hyde else None
    thresholds = _thresholds(fail_under, k, is_cases)
    for file in filter(None, (html_file, run_file)):
        _check_folder(file)
    plan = _EvalPlan(dataset, is_cases, k, mode, settings, recall, target)
    measured = _measure_cases(plan) if is_cases else _measure_dataset(plan)
    for notice in recall.notices if recall else ():
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
class _EvalPlan:
    """The cases or the dataset to evaluate, and the way to search it."""

    path: Path
    is_cases: bool
    k: int
    mode: str | None
    settings: Mapping[str, str]
    """The settings of a second run, as they were written."""
    recall: RecallRun | None
    """The model and the budget, if the runs are ways to recall."""
    target: Mapping[str, str | None]
    """The workspace and the agent that cases search."""

    def overrides(self) -> dict[str, Mapping[str, Value]]:
        """Return the overrides of each run, by its name."""
        from memwell.evaluate.runner import WAYS, to_overrides

        first: dict[str, Value] = {"search.mode": self.mode} if self.mode else {}
        if self.recall:
            return {way: {**first, **overrides} for way, overrides in WAYS.items()}
        if not self.settings:
            return {_EVALUATING: first}
        second = {**first, **to_overrides(self.settings, _COMPARE)}
        return {_EVALUATING: first, _COMPARING: second}

    @property
    def visible_settings(self) -> str:
        """The settings of the second run, without secrets."""
        return ", ".join(
            f"{name}={'***' if setting_named(name).secret else value}"
            for name, value in self.settings.items()
        )


@dataclass(frozen=True, slots=True)
class _EvalRun:
    """The results of a plan: one run or several."""

    plan: _EvalPlan
    dataset: Dataset
    mode: str
    runs: Mapping[str, Evaluation]
    describe: Callable[[str, str], str]
    """Returns the text of a document that a question found."""

    @property
    def first(self) -> Evaluation:
        return next(iter(self.runs.values()))

    @property
    def second(self) -> Evaluation | None:
        return self.runs.get(_COMPARING)

    @property
    def answered(self) -> int:
        """How many queries had a hypothetical answer."""
        known = self.plan.recall.answered if self.plan.recall else set()
        return sum(question.text in known for question in self.dataset.questions)

    @property
    def differences(self) -> Sequence[Difference]:
        return compare(self.first, self.second) if self.second else ()

    @property
    def failed(self) -> list[Miss]:
        return [miss for miss in misses(self.dataset, self.first) if miss.failed]

    @property
    def about(self) -> str:
        first = self.first
        what = "notes" if self.plan.is_cases else "documents"
        return f"{first.name}: {first.questions} queries, {first.documents} {what}"


# -- options ---------------------------------------------------------------------------------------


def _settings(compare: str | None, is_cases: bool) -> dict[str, str]:
    from memwell.evaluate.runner import check_comparable, parse_settings, to_overrides

    if compare is None:
        return {}
    try:
        settings = parse_settings(compare)
        check_comparable(settings, of_a_memory=is_cases)
        values = to_overrides(settings, _COMPARE)
        config.load(None).with_overrides(values, _COMPARE).check_combinations()
    except MemwellError as error:
        raise click.BadParameter(str(error), param_hint=_COMPARE) from error
    return settings


def _thresholds(texts: Sequence[str], k: int, is_cases: bool) -> list[Threshold]:
    names = [*metrics_at(k), *([NOTES_PASSING] if is_cases else [])]
    try:
        return [parse_threshold(text, names) for text in texts]
    except MemwellError as error:
        raise click.BadParameter(str(error), param_hint="--fail-under") from error


def _recall_run(mode: str | None) -> RecallRun:
    from memwell.evaluate.runner import RecallRun

    return RecallRun(config.load(None).with_overrides({"search.mode": mode} if mode else {}))


# -- measuring -------------------------------------------------------------------------------------


def _measure_dataset(plan: _EvalPlan) -> _EvalRun:
    from memwell.evaluate.runner import evaluate_memory

    dataset = load(plan.path)
    cache = config.home_folder() / "evaluation.db"
    texts = {document.id: f"{document.title} {document.text}" for document in dataset.documents}
    modes, runs = [], {}
    for label, overrides in plan.overrides().items():
        used = config.load(None).with_overrides(overrides)
        modes.append(used.search.mode)
        with progress_bar("embedding") as embedding, progress_bar(label) as progress:
            runs[label] = evaluate_memory(
                dataset, used, modes[-1], cache, progress, embedding, k=plan.k, recall=plan.recall
            )
    return _EvalRun(plan, dataset, modes[0], runs, lambda _, document: texts.get(document, ""))


def _measure_cases(plan: _EvalPlan) -> _EvalRun:
    from memwell.evaluate.runner import NoteSearch

    cases = read_cases(plan.path)
    dataset = to_dataset(plan.path.name, cases)
    runs: dict[str, Evaluation] = {}
    modes, searches = [], []
    for label, overrides in plan.overrides().items():
        with open_memory(**plan.target, settings=overrides) as memory:
            if not runs:
                check_cases(plan.path, cases, memory)
            modes.append(memory.settings.search.mode)
            searches.append(NoteSearch(_search_function(memory, plan.recall)))
            with progress_bar(label) as progress:
                runs[label] = evaluate(
                    dataset, searches[-1], progress, k=plan.k, depth=plan.k, by_note=True
                )
        print_caveats(searches[-1].caveats, len(cases))
    passages = searches[0].passages
    return _EvalRun(plan, dataset, modes[0], runs, lambda *found: passages.get(found, ""))


def _search_function(memory: Memory, recall: RecallRun | None) -> SearchEach:
    if recall is None:
        return lambda query, k, ways: [memory.search(query, k=k)]
    return lambda query, k, ways: [recall.search(query, memory)]


def check_cases(file: Path, cases: Sequence[Case], memory: Memory) -> None:
    """Raise an error if a note of the cases is not in the index."""
    from memwell.evaluate.runner import find_known_notes

    def search(query: str, k: int) -> SearchResult:  # no setting may hide a note
        return memory.search(query, k=k, min_score=0, mode="words")

    check_notes(file, cases, lambda paths: find_known_notes(paths, search))


def print_caveats(caveats: Mapping[str, int], queries: int) -> None:
    """Print the reasons why results may be incomplete."""
    for caveat, count in caveats.items():
        click.echo(f"{count} of {queries} queries: {caveat}", err=True)


# -- output ----------------------------------------------------------------------------------------


def _print(measured: _EvalRun) -> None:
    click.echo(measured.about)
    _print_table(measured.first.rows)
    if measured.second:
        click.echo(f"\nwith {measured.plan.visible_settings}, and the difference (95 % interval)")
        width = max(map(len, measured.first.overall))
        for metric in measured.differences:
            click.echo(
                f"{metric.metric:<{width}}  {metric.second:.3f}  {metric.difference:+.3f}"
                f"  ({metric.low:+.3f} to {metric.high:+.3f})"
            )
    if measured.plan.recall:
        click.echo(
            f"\nwith hypothetical answers of {measured.plan.recall.model}"
            f" ({measured.answered} of {measured.first.questions} queries have one)"
        )
        _print_table([(way, run.overall) for way, run in measured.runs.items()])
    if measured.plan.is_cases and measured.failed:
        click.echo(f"\nQueries that found none of their notes: {len(measured.failed)}")
        for miss in measured.failed[:_LISTED_FAILURES]:
            instead = miss.found[0][0] if miss.found else "nothing"
            click.echo(f"  {miss.question.text}: {', '.join(miss.missing)}; first: {instead}")
        if len(measured.failed) > _LISTED_FAILURES:
            click.echo("  ... --html FILE lists all of them")


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
    result: dict[str, Any] = {
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
        result["comparison"] = {
            "settings": measured.plan.visible_settings,
            "metrics": second.overall,
            "categories": second.by_category,
            "differences": [asdict(difference) for difference in measured.differences],
        }
    if measured.plan.recall:
        budget = measured.plan.recall.budget
        result["hyde"] = {
            "model": measured.plan.recall.model,
            "answered": measured.answered,
            "calls": budget.calls,
            "tokens": budget.tokens,
            "metrics": {way: run.overall for way, run in measured.runs.items()},
        }
    return result


def _page(measured: _EvalRun) -> str:
    from memwell.evaluate.html import Comparison, page

    differences = measured.differences
    comparison = Comparison(measured.plan.visible_settings, differences) if differences else None
    about = [measured.about, f"Mode {measured.mode}; the first {measured.first.k} results count."]
    return page(measured.dataset, measured.first, about, measured.describe, comparison)


def _check_folder(file: Path) -> None:
    """Raise an error before the long work, not after it."""
    if not file.absolute().parent.is_dir():
        raise MemwellError(
            f"{file} cannot be written: its folder does not exist", "Create the folder first"
        )


def _write(file: Path, text: str) -> None:
    try:
        file.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise MemwellError(
            f"{file} cannot be written ({error.strerror})", remedy_for(error).capitalize()
        ) from error
