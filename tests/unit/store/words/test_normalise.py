from __future__ import annotations

import pytest

from memwell import Memory
from memwell.store.words.normalise import camel_parts, indexed_parts, indexed_text
from tests.conftest import Write, paths


@pytest.fixture
def notes(memory: Memory, workspace: object, write: Write) -> Memory:
    """A note a language and a note of code."""
    write("pets.md", "# Pets\n\nThe cat is named Miso.\n")
    write("zh.md", "下午的会议改到三点，在小会议室。\n")
    write("ja.md", "打ち合わせは来週の火曜日です。コーヒーを飲む。\n")
    write("ko.md", "회의를 금요일로 옮겼다.\n")
    write("hi.md", "मुझे हिन्दी आती है।\n")
    write("th.md", "เรียนภาษาไทยทุกวัน\n")
    write("lo.md", "ຂ້ອຍຮຽນພາສາລາວ\n")
    write("km.md", "ខ្ញុំរៀនភាសាខ្មែរ\n")
    write("ar.md", "كَتَبَ الطَّالِبُ الدَّرْسَ\n")
    write("de.md", "Die Äpfel liegen über der Straße.\n")
    write("wide.md", "Ｆｕｌｌｗｉｄｔｈ letters\n")
    write("code.md", "Call `bm25RankToScore` from src/memory/hybrid.ts.\n")
    write("error.md", "nginx logs ERR_NGX_502 when the upstream is gone.\n")
    write("config.md", "Set hybrid.vector_weight to 0.7 since v2.13.0, HTTPServer too.\n")
    write("plain.md", "Meetings were running late again.\n")
    memory.index(str(workspace))
    return memory


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("what is the name of the cat", "pets.md"),
        ("会议", "zh.md"),
        ("会议室", "zh.md"),
        ("三点", "zh.md"),
        ("下午的会议改到三点", "zh.md"),
        ("火曜日", "ja.md"),
        ("コーヒー", "ja.md"),
        ("ｺｰﾋｰ", "ja.md"),  # half-width
        ("회의", "ko.md"),
        ("금요일", "ko.md"),
        ("हिन्दी", "hi.md"),
        ("ภาษาไทย", "th.md"),
        ("ไทย", "th.md"),
        ("ພາສາ", "lo.md"),
        ("ភាសា", "km.md"),
        ("الطَّالِبُ", "ar.md"),
        ("apfel", "de.md"),
        ("Äpfel", "de.md"),
        ("uber", "de.md"),
        ("fullwidth", "wide.md"),
        ("bm25RankToScore", "code.md"),
        ("bm25ranktoscore", "code.md"),
        ("rank", "code.md"),
        ("bm25rank", "code.md"),
        ("bm25", "code.md"),
        ("src/memory/hybrid.ts", "code.md"),
        ("hybrid.ts", "code.md"),
        ("ERR_NGX_502", "error.md"),
        ('"ERR_NGX_502"', "error.md"),
        ("err_ngx", "error.md"),
        ("NGX", "error.md"),
        ("hybrid.vector_weight", "config.md"),
        ("hybrid.vector", "config.md"),
        ("hybrid.vec", "config.md"),
        ("vector_weight", "config.md"),
        ("vectorWeight", "config.md"),
        ("2.13.0", "config.md"),
        ("v2.13.0", "config.md"),
        ("v2.13", "config.md"),
        ("server", "config.md"),
        ("meeting", "plain.md"),
        ("run", "plain.md"),
    ],
)
def test_words_that_people_search_for_are_found_first(notes: Memory, query: str, note: str) -> None:
    assert paths(notes, query)[:1] == [note]


def test_a_single_character_is_found_wherever_it_stands(
    memory: Memory, workspace: object, write: Write
) -> None:
    write("a.md", "猫が好き\n")
    write("b.md", "白い猫\n")
    write("c.md", "犬だけ\n")
    memory.index(str(workspace))
    assert sorted(paths(memory, "猫")) == ["a.md", "b.md"]


def test_an_identifier_asked_for_alone_does_not_bring_every_note_with_a_part_of_it(
    notes: Memory,
) -> None:
    assert paths(notes, "ERR_NGX_502") == ["error.md"]
    assert paths(notes, "hybrid.vector_weight") == ["config.md"]


def test_heading_path_title_tags_and_file_name_are_searched(
    memory: Memory, workspace: object, write: Write
) -> None:
    write("zebra-stripes.md", "# Animals\n\n## Giraffe\n\nTall.\n")
    write("b.md", "---\ntitle: Okapi\ntags: [quagga]\naliases: [forest giraffe]\n---\nShy.\n")
    memory.index(str(workspace))
    assert paths(memory, "zebra") == ["zebra-stripes.md"]
    assert paths(memory, "animals") == ["zebra-stripes.md"]
    assert paths(memory, "okapi") == ["b.md"]
    assert paths(memory, "quagga") == ["b.md"]
    assert {*paths(memory, "giraffe")} == {"zebra-stripes.md", "b.md"}


def test_unspaced_scripts_become_pairs_and_the_rest_stays() -> None:
    assert indexed_text("GPT模型好 ok").split() == ["GPT", "模型", "型好", "ok"]
    assert indexed_text("猫").strip() == "猫"
    assert indexed_parts("会议室").split() == ["室"]


def test_identifiers_are_split_at_their_humps() -> None:
    assert camel_parts("bm25RankToScore") == ["bm25", "Rank", "To", "Score"]
    assert camel_parts("HTTPServer") == ["HTTP", "Server"]
    assert camel_parts("plain") == ["plain"]
    assert camel_parts("parseURLs") == ["parse", "URLs"]
    assert indexed_parts("see parseHTTPHeader and v1.2.3").split("\n") == [
        "parse HTTP Header",
        "1.2.3",
    ]
