"""English of science for the training: definitions, prose and terms."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

english = pytest.importorskip("training.english", reason="zstandard is not installed")

ENTRIES = """
Coagulate \\Co*ag"u*late\\, v. t. [imp. & p. p. {Coagulated}.]
   To cause (a liquid) to change into a curdlike state; as,
   rennet coagulates milk. --Boyle.
   [1913 Webster]

   2. To thicken, as {blood} does.
      [1913 Webster]

Coagulum \\Co*ag"u*lum\\, n.
   [Obs.]
"""
PROSE = "The boundary layer is the part of the flow that is slowed by the wall."


def test_a_definition_follows_its_headword(tmp_path: Path) -> None:
    (tmp_path / "gcide.dict.dz").write_bytes(gzip.compress(ENTRIES.encode()))
    assert list(english.read_definitions(tmp_path)) == [
        "Coagulate: To cause (a liquid) to change into a curdlike state; as, rennet coagulates"
        " milk. To thicken, as blood does."
    ]


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        (PROSE, True),
        ("The boundary layer is thin.", False),
        ("for (i = 0; i < n; i++) { a[i] = b[i] * c[i]; }", False),
        ("Die Grenzschicht ist der Teil der Strömung, den die Wand verlangsamt.", False),
    ],
)
def test_prose_is_english_sentences(text: str, prose: bool) -> None:
    assert english.is_prose(text) is prose


def test_paragraphs_of_a_page_are_without_code_and_come_once(tmp_path: Path) -> None:
    page = tmp_path / "flow-doc" / "index.html"
    page.parent.mkdir()
    page.write_text(f"<h1>Flow</h1><p>{PROSE}</p><pre>{PROSE} in code</pre><p>{PROSE}<br></p>")
    (tmp_path / "flow-doc" / "manual.html").mkdir()
    assert list(english.read_science(tmp_path)) == [PROSE]


def test_every_term_is_on_one_line() -> None:
    terms = [f"term {number}" for number in range(150)]
    lines = list(english.join_terms([*terms], random.Random(1)))
    assert [line.count(";") for line in lines] == [59, 59, 29]
    assert sorted("; ".join(lines).split("; ")) == sorted(terms)
