"""Korean verbs and adjectives with their endings, from stems such as 먹, 듣 and 아름답."""

from __future__ import annotations

_FIRST = 0xAC00
_VOWELS, _FINALS = 21, 28
_N, _D, _L, _B, _S, _SS, _H = 4, 7, 8, 17, 19, 20, 27
"""Numbers of final consonants; 0 is none."""
_A, _AE, _YA, _YAE, _EO, _E, _YEO, _O, _WA, _WAE, _OE, _U, _WO, _EU, _I = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    9,
    10,
    11,
    13,
    14,
    18,
    20,
)
_REGULAR_B = ("입", "잡", "씹", "뽑", "접", "좁", "집", "업")
_IRREGULAR_D = ("듣", "걷", "묻", "싣", "깨닫")
_IRREGULAR_S = ("짓", "낫", "붓", "잇")
_REGULAR_REU = ("따르", "들르", "치르")


def _split(syllable: str) -> tuple[int, int, int]:
    number = ord(syllable) - _FIRST
    return number // (_VOWELS * _FINALS), number // _FINALS % _VOWELS, number % _FINALS


def _join(initial: int, vowel: int, final: int = 0) -> str:
    return chr(_FIRST + (initial * _VOWELS + vowel) * _FINALS + final)


def final(word: str) -> int:
    """Return the number of a word's final consonant, 0 if it ends with a vowel."""
    if not word or not "가" <= word[-1] <= "힣":
        return 0
    return _split(word[-1])[2]


def _with_final(word: str, consonant: int) -> str:
    initial, vowel, _ = _split(word[-1])
    return word[:-1] + _join(initial, vowel, consonant)


def _softened(stem: str) -> str:
    """Return what a stem is before an ending that begins with a vowel."""
    last = final(stem)
    if last == _B and not stem.endswith(_REGULAR_B):
        return _with_final(stem, 0) + "우"
    if last == _D and stem.endswith(_IRREGULAR_D):
        return _with_final(stem, _L)
    if last == _S and stem.endswith(_IRREGULAR_S):
        return _with_final(stem, 0)
    return stem


def _loses_h(stem: str) -> bool:
    return stem[-1] in "맣랗갛얗렇"


def infinitive(stem: str) -> str:
    """Return the stem with 아 or 어: 먹어, 가, 봐, 들어, 해."""
    if stem.endswith("하"):
        return stem[:-1] + "해"
    if _loses_h(stem):
        initial, vowel, _ = _split(stem[-1])
        return stem[:-1] + _join(initial, _YAE if vowel == _YA else _AE)
    if stem.endswith("르") and len(stem) > 1 and not stem.endswith(_REGULAR_REU):
        before = _split(stem[-2])
        return _with_final(stem[:-1], _L) + ("라" if before[1] in (_A, _O) else "러")
    if stem.endswith("돕"):
        return stem[:-1] + "도와"
    soft = _softened(stem)
    initial, vowel, last = _split(soft[-1])
    if last or (soft[-1] != stem[-1] and final(stem) == _S):
        return soft + ("아" if vowel in (_A, _O) else "어")
    if vowel == _EU:
        bright = len(soft) > 1 and _split(soft[-2])[1] in (_A, _O)
        return soft[:-1] + _join(initial, _A if bright else _EO)
    merged = {_O: _WA, _U: _WO, _I: _YEO, _OE: _WAE}.get(vowel)
    if merged is not None:
        return soft[:-1] + _join(initial, merged)
    return soft if vowel in (_A, _EO, _AE, _E, _YEO) else soft + "어"


def past(stem: str, *, copula: bool = False) -> str:
    """Return the stem of the past: 먹었, 갔, 학생이었."""
    if copula and final(stem[:-1]):
        return stem + "었"
    return _with_final(infinitive(stem), _SS)


def with_eu(stem: str, ending: str) -> str:
    """Add an ending that follows a consonant with 으: 면, 세요, 니까."""
    soft = _softened(stem)
    if _loses_h(stem):
        return _with_final(stem, 0) + ending
    last = final(stem)
    if last == _L:
        return (stem if ending[0] in "면려러" else _with_final(stem, 0)) + ending
    if not last or (soft != stem and last == _B):
        return soft + ending
    return f"{soft}으{ending}"


def with_consonant(stem: str, consonant: str) -> str:
    """Add ㄴ, ㄹ or ㅂ to the last syllable, or 은, 을 or 습 behind a consonant."""
    number, behind = {"ㄴ": (_N, "은"), "ㄹ": (_L, "을"), "ㅂ": (_B, "습")}[consonant]
    last = final(stem)
    if last == _L or _loses_h(stem):
        return _with_final(stem, number)
    if consonant == "ㅂ":
        return stem + behind if last else _with_final(stem, number)
    soft = _softened(stem)
    if not last or (soft != stem and last == _B):
        return _with_final(soft, number)
    return soft + behind


def adnominal(stem: str, tense: str, *, verb: bool) -> str:
    """Return the form before a noun: 먹는, 먹은, 먹을, 예쁜."""
    if tense == "future":
        return with_consonant(stem, "ㄹ")
    if not verb or tense == "past":
        if stem.endswith(("있", "없")):
            return stem + "는" if tense != "past" else stem + "던"
        return with_consonant(stem, "ㄴ")
    return (_with_final(stem, 0) if final(stem) == _L else stem) + "는"


def finite(
    stem: str, tense: str, style: str, *, verb: bool, question: bool, copula: bool = False
) -> str:
    """Return the form that ends a sentence, in the style `polite`, `formal` or `plain`.

    The stem of the `copula` is a noun and 이.
    """
    if tense == "future":
        stem, tense, verb, copula = with_consonant(stem, "ㄹ") + " 것이", "present", False, True
    elif tense == "past":
        stem, verb, copula = past(stem, copula=copula), False, False
    if style == "polite" and copula:
        polite = stem[:-1] + ("이에요" if final(stem[:-1]) else "예요")
        return polite.replace("것이에요", "거예요")
    if style == "polite":
        return (stem + "어" if tense == "past" else infinitive(stem)) + "요"
    if style == "formal":
        return with_consonant(stem, "ㅂ") + ("니까" if question else "니다")
    if question:
        return (_with_final(stem, 0) if final(stem) == _L else stem) + "니"
    if verb and not stem.endswith(("있", "없", "않")):
        return with_consonant(stem, "ㄴ") + "다" if final(stem) in (0, _L) else stem + "는다"
    return stem + "다"
