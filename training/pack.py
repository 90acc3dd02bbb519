"""Pack the training text and the labelled sets into few files that travel to a GPU.

``python -m training.pack --text FOLDER --sets FOLDER --out FOLDER``. The text is in `mono`,
`parallel` and `pairs`: files of JSON lines, compressed by Zstandard.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

import zstandard
from training.lines import MANUALS, write_lines
from training.sets import ENGLISH

KINDS = {"mono": ("t",), "parallel": ("en", "x"), "pairs": ("q", "p")}
LEFT_OUT = {"acl_abstracts"}
"""Its older part has a non-commercial licence, and a line does not say how old it is."""
LONGEST = 2000
"""Characters of a text."""
SETS = (*ENGLISH, "rgb-zh", "jsquad-ja", "xquad-zh")
SENTENCES = 450
"""Pairs of sentences of each language, for finding a translation."""


def read_zstandard(file: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a compressed file."""
    with file.open("rb") as source:
        text = zstandard.ZstdDecompressor().stream_reader(source).read().decode()
    return [json.loads(line) for line in text.splitlines()]


def pack_text(folder: Path, out: Path, manuals: float) -> None:
    """Write one file for each kind, with control characters between its lines and fields.

    Of the shards about software, only a share of `manuals` is kept.
    """
    for kind, fields in KINDS.items():
        lines = []
        for file in sorted((folder / kind).glob("*.jsonl.zst")):
            shard = file.name.split(".")[0]
            if shard in LEFT_OUT:
                continue
            step = round(1 / manuals) if shard in MANUALS else 1
            for line in read_zstandard(file)[::step]:
                texts = [line[field].translate({0: None, 1: None})[:LONGEST] for field in fields]
                lines.append((shard, line["l"], *texts))
        write_lines(out / f"{kind}.txt.xz", lines)
        print(f"{kind}: {len(lines)} lines")


def pack_sets(folder: Path, out: Path) -> None:
    """Write the labelled sets: texts, queries, and which text answers which query."""
    packed: dict[str, Any] = {name: _read_set(folder / name) for name in SETS}
    english, chinese = packed["xquad-en"], packed["xquad-zh"]
    for name, asked, answering in (
        ("zh-question-en", chinese, "xquad-en"),
        ("en-question-zh", english, "xquad-zh"),
    ):
        numbers = {key: number for number, key in enumerate(asked["keys"])}
        of = packed[answering]
        rel = [
            [numbers[of["keys"][query]], document, grade] for query, document, grade in of["rel"]
        ]
        packed[name] = {"docs_of": answering, "queries": asked["queries"], "rel": rel}
    sentences: dict[str, list[list[str]]] = {}
    for file in (folder / "tatoeba-test").glob("*.zst"):
        for line in read_zstandard(file):
            pairs = sentences.setdefault(line["l"], [])
            if len(pairs) < SENTENCES:
                pairs.append([line["en"], line["x"]])
    packed["tatoeba"] = sentences
    with lzma.open(out / "sets.json.xz", "wb") as target:
        target.write(json.dumps(packed, ensure_ascii=False).encode())


def _read_set(folder: Path) -> dict[str, Any]:
    def read(name: str) -> list[dict[str, Any]]:
        with (folder / name).open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    documents, queries = read("corpus.jsonl"), read("queries.jsonl")
    places = {document["id"]: place for place, document in enumerate(documents)}
    numbers = {query["id"]: number for number, query in enumerate(queries)}
    rows = [line.split("\t") for line in (folder / "qrels.tsv").read_text().splitlines() if line]
    alone = folder.name.startswith("locomo")
    titles = ["" if alone else f"{d['title']}\n" if d.get("title") else "" for d in documents]
    result = {
        "docs": [(title + d["text"])[:4000] for title, d in zip(titles, documents, strict=True)],
        "queries": [query["text"] for query in queries],
        "keys": [query["id"] for query in queries],
        "rel": [
            [numbers[query], places[document], float(grade)]
            for query, document, grade in rows
            if query in numbers and document in places and float(grade) > 0
        ],
    }
    if "group" in documents[0]:
        result["dg"] = [document["group"] for document in documents]
        result["qg"] = [query["group"] for query in queries]
    return result


def main() -> None:
    """Pack all text and sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--manuals", type=float, default=1.0, help="share of the manuals to keep")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    pack_sets(arguments.sets, arguments.out)
    pack_text(arguments.text, arguments.out, arguments.manuals)


if __name__ == "__main__":
    main()
