"""An evaluation as one HTML page without scripts or external resources; every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from memwell.evaluate.compare import Difference
from memwell.evaluate.dataset import Dataset
from memwell.evaluate.report import Evaluation, Miss, misses

Describe = Callable[[str, str], str]
"""Returns the text of a document, given the ids of a question and of the document."""

_SHOWN_CHARACTERS = 240
_BAR = 100
_PLOT = 200


@dataclass(frozen=True, slots=True)
class Comparison:
    """A second run to compare with the first: its settings, and how the figures differ."""

    settings: str
    differences: Sequence[Difference]


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
    title = f"Evaluation of {evaluation.name}"
    body = [
        f"<h1>{_text(title)}</h1>",
        *(f"<p>{_text(sentence)}</p>" for sentence in about),
        "<h2>Figures</h2>",
        _table(evaluation.rows),
        *(_comparison(comparison) if comparison else ()),
        *_misses(f"{len(failed)} of {evaluation.questions} queries failed", failed, describe),
        *_misses(f"{len(partly)} found only some of their documents", partly, describe),
    ]
    return _HEAD.format(title=escape(title)) + "\n".join(body) + "\n</main>\n</html>\n"


def _text(text: str) -> str:
    """Escape a text, and isolate its direction: right-to-left text must not affect others."""
    return f"<bdi>{escape(text)}</bdi>"


# -- figures ---------------------------------------------------------------------------------------


def _table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0][1])
    lines = [
        f'<tr><th scope="row">{_text(name)}</th>'
        + "".join(f"<td>{value:.3f}{_bar(value)}</td>" for value in figures.values())
        + "</tr>"
        for name, figures in rows
    ]
    return f"<table><thead><tr><td></td>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _bar(value: float) -> str:
    """Draw a figure between 0 and 1 as a bar."""
    width = _BAR * min(max(value, 0.0), 1.0)
    return (
        f'<svg class="bar" viewBox="0 0 {_BAR} 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="{_BAR}" height="6"/>'
        f'<rect class="fill" width="{width:.1f}" height="6"/></svg>'
    )


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"<h2>Compared with: {_text(comparison.settings)}</h2>"
    yield (
        "<p>The second minus the first, with a 95 % interval (paired bootstrap). If an interval"
        " excludes 0, the choice of queries alone hardly explains the difference.</p>"
    )
    reach = max(max(abs(one.low), abs(one.high)) for one in comparison.differences) or 1.0
    lines = "".join(
        f'<tr><th scope="row">{escape(one.metric)}</th><td>{one.first:.3f}</td>'
        f"<td>{one.second:.3f}</td><td>{one.difference:+.3f}</td>"
        f"<td>{one.low:+.3f} to {one.high:+.3f}</td><td>{_plot(one, reach)}</td></tr>"
        for one in comparison.differences
    )
    names = "".join(
        f'<th scope="col">{name}</th>' for name in ("first", "second", "difference", "interval", "")
    )
    yield f"<table><thead><tr><td></td>{names}</tr></thead><tbody>{lines}</tbody></table>"


def _plot(one: Difference, reach: float) -> str:
    """Draw an interval as a line around a dot; 0 is in the middle, `reach` at the edge."""

    def x(value: float) -> str:
        return f"{_PLOT / 2 * (1 + 0.95 * value / reach):.1f}"

    kind = ("better" if one.difference > 0 else "worse") if one.clear else "unclear"
    return (
        f'<svg class="plot {kind}" viewBox="0 0 {_PLOT} 14" aria-hidden="true">'
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="14"/>'
        f'<line x1="{x(one.low)}" x2="{x(one.high)}" y1="7" y2="7"/>'
        f'<circle cx="{x(one.difference)}" cy="7" r="4"/></svg>'
    )


# -- misses ---------------------------------------------------------------------------------------


def _misses(heading: str, missed: Sequence[Miss], describe: Describe) -> Iterator[str]:
    if not missed:
        return
    yield f"<h2>{escape(heading)}</h2>"
    for miss in missed:
        question = miss.question
        category = f" <small>{_text(question.category)}</small>" if question.category else ""
        missing = ", ".join(f"<code>{_text(document)}</code>" for document in miss.missing)
        yield (
            f"<section><h3>{_text(question.text)}{category}</h3><p>Missing: {missing}</p>"
            f"<details open><summary>Found instead</summary>{_found(miss, describe)}</details>"
            "</section>"
        )


def _found(miss: Miss, describe: Describe) -> str:
    items = [
        f"<li><code>{_text(document)}</code> <small>{score:.2f}"
        f"{' (expected)' if document in miss.expected else ''}</small>"
        f"{_quoted(describe(miss.question.id, document))}</li>"
        for document, score in miss.found
    ]
    return f"<ol>{''.join(items)}</ol>" if items else "<p>Nothing was found.</p>"


def _quoted(text: str) -> str:
    short = " ".join(text.split())
    if len(short) > _SHOWN_CHARACTERS:
        short = short[:_SHOWN_CHARACTERS] + "…"
    return f"<blockquote>{_text(short)}</blockquote>" if short else ""


_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{
  color-scheme: light dark;
  --paper: #fff; --ink: #1c1e21; --quiet: #5f6670; --line: #d9dde2; --rail: #eceff2;
  --fill: #2f6fb3; --good: #1f7a3f; --bad: #b3372f;
}}
@media (prefers-color-scheme: dark) {{
  :root {{
    --paper: #16181b; --ink: #e6e8ea; --quiet: #9aa2ab; --line: #33383e; --rail: #262a2f;
    --fill: #6ea8e0; --good: #6cc78c; --bad: #ee8a80;
  }}
}}
body {{ background: var(--paper); color: var(--ink); margin: 0;
  font: 16px/1.5 system-ui, sans-serif; }}
main {{ max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }}
tbody th {{ text-align: left; font-weight: 500; }}
small, summary, thead th {{ color: var(--quiet); font-weight: 500; }}
section {{ border-top: 1px solid var(--line); }}
h3 {{ font-size: 1rem; margin: .8rem 0 0; overflow-wrap: anywhere; }}
p, ol {{ margin: .3rem 0; }}
code {{ overflow-wrap: anywhere; }}
blockquote {{ margin: 0 0 .4rem; color: var(--quiet); overflow-wrap: anywhere; }}
.bar {{ display: block; width: 100%; min-width: 4rem; height: 6px; }}
.rail {{ fill: var(--rail); }}
.fill {{ fill: var(--fill); }}
.plot {{ width: 200px; height: 14px; stroke: var(--quiet); fill: var(--quiet); stroke-width: 2; }}
.plot.better {{ stroke: var(--good); fill: var(--good); }}
.plot.worse {{ stroke: var(--bad); fill: var(--bad); }}
.plot .zero {{ stroke: var(--line); stroke-width: 1; }}
</style>
<main>
"""
