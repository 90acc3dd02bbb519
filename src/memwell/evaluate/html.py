"""An evaluation as one HTML page without scripts or external resources; every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from memwell.evaluate.compare import Difference
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.report import Evaluation, misses

Describe = Callable[[str, str], str]
"""Returns the text of a document, given the ids of a question and of the document."""

_SHOWN_CHARACTERS = 240


@dataclass(frozen=True, slots=True)
class Comparison:
    """A second run to compare with the first: its settings, and how the figures differ."""

    settings: str
    differences: Sequence[Difference]

    @property
    def reach(self) -> float:
        """The largest bound of all intervals: the edge of the plots."""
        return max(max(abs(one.low), abs(one.high)) for one in self.differences) or 1.0


def page(
    dataset: Dataset,
    evaluation: Evaluation,
    about: Sequence[str] = (),
    describe: Describe = lambda question, document: "",
    comparison: Comparison | None = None,
) -> str:
    """Return the whole page; `about` are sentences on what was measured."""
    missed = misses(dataset, evaluation)
    failed = [miss for miss in missed if miss.failed]
    partly = [miss for miss in missed if not miss.failed]
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=f"Evaluation of {evaluation.name}",
            about=about,
            rows=evaluation.rows,
            comparison=comparison,
            missed=[
                (f"{len(failed)} of {evaluation.questions} queries failed", failed),
                (f"{len(partly)} found only some of their documents", partly),
            ],
            describe=describe,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"text": _isolate, "shorten": _shorten}
    return environment


def _isolate(text: str) -> Markup:
    """Escape a text, and isolate its direction: right-to-left text must not affect others."""
    return Markup(f"<bdi>{escape(text)}</bdi>")


def _shorten(text: str) -> str:
    short = " ".join(text.split())
    return f"{short[:_SHOWN_CHARACTERS]}…" if len(short) > _SHOWN_CHARACTERS else short
