"""Run the tests of this folder with the Python of another checkout, and print what each shows.

`python -m tests.reliability.defects OLD/.venv/bin/python` prints one line for each test.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree


def main(python: str) -> None:
    """Run all tests with an interpreter, and print their names with the first line of a failure."""
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "results.xml"
        options = ["-q", "--no-summary", "-p", "no:cacheprovider", "-o", "timeout=600"]
        command = [python, "-m", "pytest", *options, f"--junitxml={file}", str(folder)]
        subprocess.run(command, cwd=folder.parents[2], check=False, stdout=sys.stderr)
        for case in ElementTree.parse(file).iter("testcase"):
            problem = case.find("failure")
            if problem is None:
                problem = case.find("error")
            text = "passes" if problem is None else f"{problem.tag}: {problem.get('message')}"
            print(f"{case.get('name', '').removeprefix('test_reliability_')}  {_shorten(text)}")  # noqa: T201


def _shorten(text: str) -> str:
    return " ".join(text.split())[:160]


if __name__ == "__main__":
    main(sys.argv[1])
