"""Fill in the Homebrew formula: python deploy/formula.py HOMEPAGE URL ARCHIVE > memwell.rb."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def fill_formula(homepage: str, url: str, archive: Path) -> str:
    """Return the formula for the source archive of a release."""
    text = Path(__file__).with_name("homebrew").joinpath("memwell.rb.in").read_text("utf-8")
    _, begin, formula = text.partition("class Memwell")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    values = {"@HOMEPAGE@": homepage, "@URL@": url, "@SHA256@": digest}
    for mark, value in values.items():
        formula = formula.replace(mark, value)
    return begin + formula


if __name__ == "__main__":
    sys.stdout.write(fill_formula(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
