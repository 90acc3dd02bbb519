"""English sentences, as Apertium analyses them, in Korean; and the endings of Korean verbs."""

from __future__ import annotations

import random

import pytest
from training.english_clauses import read_units
from training.handwritten import read_words
from training.korean import Translator, with_particle
from training.korean_verbs import adnominal, final, finite, infinitive, past, with_eu

I = "^prpers<prn><subj><p1><mf><sg>$"  # noqa: E741
SHE = "^prpers<prn><subj><p3><f><sg>$"
FULL_STOP = "^.<sent>$"


def translations(line: str) -> set[str]:
    """Return what a sentence becomes, with every choice of endings and words."""
    return {Translator(random.Random(seed)).translate(read_units(line)) for seed in range(200)}


@pytest.mark.parametrize(
    ("stem", "forms"),
    [
        ("먹", "먹어 먹었 먹으면 먹는 먹은"),
        ("가", "가 갔 가면 가는 간"),
        ("보", "봐 봤 보면 보는 본"),
        ("듣", "들어 들었 들으면 듣는 들은"),
        ("닫", "닫아 닫았 닫으면 닫는 닫은"),
        ("돕", "도와 도왔 도우면 돕는 도운"),
        ("입", "입어 입었 입으면 입는 입은"),
        ("모르", "몰라 몰랐 모르면 모르는 모른"),
        ("쓰", "써 썼 쓰면 쓰는 쓴"),
        ("살", "살아 살았 살면 사는 산"),
        ("짓", "지어 지었 지으면 짓는 지은"),
        ("되", "돼 됐 되면 되는 된"),
        ("일하", "일해 일했 일하면 일하는 일한"),
    ],
)
def test_endings_of_verbs(stem: str, forms: str) -> None:
    found = (
        infinitive(stem),
        past(stem),
        with_eu(stem, "면"),
        adnominal(stem, "present", verb=True),
        adnominal(stem, "past", verb=True),
    )
    assert " ".join(found) == forms


@pytest.mark.parametrize(
    ("stem", "tense", "style", "form"),
    [
        ("가", "present", "formal", "갑니다"),
        ("가", "present", "plain", "간다"),
        ("먹", "present", "plain", "먹는다"),
        ("춥", "past", "polite", "추웠어요"),
        ("하얗", "present", "polite", "하얘요"),
        ("살", "future", "polite", "살 거예요"),
        ("먹", "future", "formal", "먹을 것입니다"),
    ],
)
def test_ends_of_sentences(stem: str, tense: str, style: str, form: str) -> None:
    is_verb = stem not in ("춥", "하얗")
    assert finite(stem, tense, style, verb=is_verb, question=False) == form


def test_a_particle_fits_its_noun() -> None:
    pairs = [
        ("책", "을"),
        ("사과", "을"),
        ("길", "로"),
        ("집", "로"),
        ("나", "이"),
        ("친구", "와 함께"),
    ]
    found = " ".join(with_particle(noun, particle) for noun, particle in pairs)
    assert found == "책을 사과를 길로 집으로 내가 친구와 함께"


@pytest.mark.parametrize(
    ("line", "korean"),
    [
        (
            f"{I} ^eat<vblex><past>$ ^a<det><ind><sg>$ ^apple<n><sg>$ ^yesterday<adv>$",
            "나는 사과를 어제 먹었어요.",
        ),
        (f"{I} ^want<vbmod><pres># to$ ^swim<vblex><inf>$", "수영하고 싶어요."),
        (f"{SHE} ^can<vaux><pres>+not<adv>$ ^come<vblex><inf>$", "그녀는 올 수 있지 않아요."),
        (
            "^there<adv>$ ^be<vbser><pri><p3><sg>$ ^a<det><ind><sg>$ ^cat<n><sg>$ ^under<pr>$ "
            "^the<det><def><sp>$ ^table<n><sg>$",
            "고양이가 탁자 아래에 있어요.",
        ),
        (
            f"^if<cnjadv>$ ^prpers<prn><subj><p3><nt><sg>$ ^rain<vblex><pri><p3><sg>$^,<cm>$ {I} "
            "^will<vaux><inf>$ ^stay<vblex><inf>$",
            "비가 오면 나는 머무를 거예요.",
        ),
        (f"{SHE} ^be<vbser><pri><p3><sg>$ ^a<det><ind><sg>$ ^doctor<n><sg>$", "그녀는 의사예요."),
        (
            "^the<det><def><sp>$ ^book<n><sg>$ ^that<rel><an><mf><sp>$ "
            f"{SHE} ^buy<vblex><past>$ ^be<vbser><past><p3><sg>$ ^old<adj><sint>$",
            "그녀가 산 책은 늙었어요.",
        ),
    ],
)
def test_a_sentence_has_its_verb_last(line: str, korean: str) -> None:
    assert korean in translations(f"{line}{FULL_STOP}")


def test_a_question_and_a_command() -> None:
    question = (
        "^do<vbdo><pres>$ ^prpers<prn><subj><p2><mf><sp>$ ^like<vblex><pres>$ ^coffee<n><sg>$"
    )
    assert "커피를 좋아합니까?" in translations(f"{question}^?<sent>$")
    command = "^do<vbdo><pres>+not<adv>$ ^open<vblex><inf>$ ^the<det><def><sp>$ ^window<n><sg>$"
    assert translations(command + FULL_STOP) == {"창문을 열지 마세요."}


def test_a_sentence_of_unknown_words_is_left_out() -> None:
    assert translations("^the<det>$ ^axolotl<n><pl>$ ^regenerate<vblex><pres>$") == {""}


def test_the_words_are_stems_and_nouns_of_hangul() -> None:
    lexicon = read_words("korean")
    for section in ("verbs", "adjectives", "nouns", "adverbs"):
        assert len(lexicon[section]) > 150
        for english, words in lexicon[section].items():
            assert all(final(word) or "가" <= word[-1] <= "힣" for word in words), english
