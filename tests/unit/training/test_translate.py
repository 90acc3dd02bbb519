"""Sentences of the training text that are translated by rules and by dictionaries."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from training.lines import read_lines

zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
pack, translate = (pytest.importorskip(f"training.{name}") for name in ("pack", "translate"))


def write_shard(file: Path, lines: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, lines)).encode()
    file.write_bytes(zstandard.ZstdCompressor().compress(text))


def write_sources(text: Path, english: list[str]) -> None:
    """Write all shards that sentences are chosen from; the others have one short line each."""
    for source in translate.SOURCES:
        lines = [{"en": "Too_strange", "t": "Too_strange", "x": "-", "l": "en"}]
        if source.shard == "tatoeba":
            lines = [{"en": one, "x": "-", "l": "fr"} for one in english]
        write_shard(text / source.kind / f"{source.shard}.jsonl.zst", lines)


def test_sentences_of_the_labelled_sets_are_left_out(tmp_path: Path) -> None:
    known = "Where is the cat?"
    write_shard(tmp_path / "sets" / "tatoeba-test" / "fr.jsonl.zst", [{"en": known, "x": "-"}])
    write_sources(tmp_path / "text", ["where is the Cat", "The cat sleeps.", "The café is closed."])
    chosen = translate.choose_sentences(tmp_path / "text", tmp_path / "sets", random.Random(1))
    assert chosen == ["The cat sleeps."]


def test_a_text_has_a_translation_for_each_way_to_say_it() -> None:
    ways = iter(["하나", "둘", "셋", "셋", "", ""])
    found = translate.translate_by_rules(
        ["one", "two", "three"], ["^one<num>$"] * 3, lambda units: next(ways)
    )
    assert [*found] == [("one", "하나"), ("one", "둘"), ("two", "셋")]


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("apertium"), reason="apertium is not installed")
def test_apertium_translates_line_by_line() -> None:
    translated = translate.translate(["I am tired", "The house is big"], "eng-spa")
    assert translated == ["Estoy cansado", "La casa es grande"]


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("apertium"), reason="apertium is not installed")
def test_apertium_analyses_line_by_line() -> None:
    lines = translate.analyse(["The house is big.", "It costs $5 [or so].", "I sing."])
    assert ["house" in line for line in lines] == [True, False, False]
    assert lines[1] == "^.<sent>$"
    assert "^sing<vblex>" in lines[2]


def test_a_share_of_the_manuals_is_kept(tmp_path: Path) -> None:
    for kind, fields in pack.KINDS.items():
        for shard in ("tatoeba", "mdn"):
            lines = [{"l": "en"} | dict.fromkeys(fields, f"text {n}") for n in range(9)]
            write_shard(tmp_path / kind / f"{shard}.jsonl.zst", lines)
    pack.pack_text(tmp_path, tmp_path, 0.33)
    for kind in pack.KINDS:
        shards = [shard for shard, *_ in read_lines(tmp_path / f"{kind}.txt.xz")]
        assert (shards.count("tatoeba"), shards.count("mdn")) == (9, 3)
