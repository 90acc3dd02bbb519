"""Translate analysed English sentences into Korean by rules: little free text is everyday Korean.

Each clause is cut into its subject, its verb and what follows (`training.english_clauses`);
`korean_words.txt` has the words. In Korean the verb comes last, its endings say what English says
with auxiliaries and conjunctions, and particles say what a noun is for. The sentences are clumsy,
but each word stands in them with the endings that it has in real ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from training.english_clauses import (
    Word,
    cut_clauses,
    cut_sentences,
    find_noun_end,
    find_subject,
    find_verb,
    is_infinitive,
    is_relative,
)
from training.handwritten import read_words
from training.korean_verbs import (
    adnominal,
    final,
    finite,
    infinitive,
    past,
    with_consonant,
    with_eu,
)

_KNOWN = 0.75
"""The share of its words that a sentence must have Korean words for."""
_FIRST_MEANING = 0.6
"""How often a word has its first meaning, and not any of them."""
_STYLES = ("polite", "polite", "formal", "plain")
_QUESTIONS = frozenset(["where", "when", "why", "how", "whether"])
_DEGREES = frozenset(["very", "so", "too", "quite", "really", "pretty", "more", "most", "always"])
_DURATIONS = frozenset(["minute", "hour", "day", "week", "month", "year", "time", "moment"])
_TIMES = re.compile(r"(day|noon|morning|evening|night|clock|week|month|year|[a-z]+ber|summer)$")
_SUBJECTS = {"나": "내가", "저": "제가", "너": "네가"}
_BY_FINAL = {"은": "는", "이": "가", "을": "를", "과": "와"}
"""Particles behind a consonant, and what they are behind a vowel."""
_AS_THEY_ARE = ("자기", "지난", "다음")
"""What stands before a noun without an ending."""
_WITH_PAST = ("고", "지만", "기 때문에", "거나", "다고")
"""Endings of a clause that stand behind the past."""


def rule(section: str, english: str) -> str:
    """Return the only word of a section that an English one has, or nothing."""
    return read_words("korean")[section].get(english, [""])[0]


def with_particle(noun: str, particle: str) -> str:
    """Add a particle in the form that the noun asks for."""
    if particle == "이" and noun in _SUBJECTS:
        return _SUBJECTS[noun]
    closed = final(noun)
    for consonant, vowel in _BY_FINAL.items():
        if particle[:1] in (consonant, vowel):
            return noun + (consonant if closed else vowel) + particle[1:]
    return noun + ("으로" if particle == "로" and closed not in (0, 8) else particle)


def add_ending(stem: str, ending: str, *, verb: bool) -> str:
    """Add an ending as `korean_words.txt` writes it: it may ask for a form of the stem."""
    form, found, behind = ending.partition("}")
    if found:
        return {
            "{infinitive": lambda: infinitive(stem) + behind,
            "{future": lambda: with_consonant(stem, "ㄹ") + behind,
            "{past": lambda: adnominal(stem, "past", verb=verb) + behind,
            "{eu": lambda: with_eu(stem, behind),
        }[form]()
    if ending.startswith("는"):
        return adnominal(stem, "present", verb=verb) + ending[1:]
    if ending == "다고":
        return finite(stem, "present", "plain", verb=verb, question=False) + "고"
    return stem + ending


@dataclass
class Verb:
    """The verb or adjective of a clause."""

    stem: str
    tense: str = "present"
    verb: bool = True
    copula: bool = False

    @property
    def object_particle(self) -> str:
        """The particle of what the verb is about."""
        return "이" if self.stem.endswith(("되", "있")) else "을"

    def extend(self, ending: str) -> None:
        """Add an ending and an auxiliary."""
        self.stem = add_ending(self.stem, ending, verb=self.verb)
        self.copula = False
        self.verb = not ending.endswith(("싶", "있", "없")) or self.verb

    def join(self, ending: str) -> str:
        """Return the form that another clause follows."""
        if self.tense == "past" and ending in _WITH_PAST:
            return add_ending(past(self.stem, copula=self.copula), ending, verb=False)
        return add_ending(self.stem, ending, verb=self.verb)

    def end(self, style: str, *, question: bool) -> str:
        """Return the form that ends a sentence."""
        return finite(
            self.stem, self.tense, style, verb=self.verb, question=question, copula=self.copula
        )


@dataclass
class _Found:
    """A verb, its object's particle, what stands right before it, and the rest of its clause."""

    verb: Verb
    particle: str
    before: list[str]
    rest: list[Word]


class Translator:
    """Translates one sentence after the other."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.known = self.asked = 0
        self.style = ""

    def translate(self, words: Sequence[Word]) -> str:
        """Return the Korean of a text, or nothing if too few of its words are known."""
        self.known = self.asked = 0
        self.style = self.chance.choice(_STYLES)
        sentences = [
            " ".join(" ".join(self._clauses(sentence, mark)).split()) + mark
            for sentence, mark in cut_sentences(words)
        ]
        enough = self.asked and self.known >= _KNOWN * self.asked
        return " ".join(sentences) if enough else ""

    def _look_up(self, section: str, lemma: str) -> str:
        """Return one of the Korean words, or nothing."""
        words = read_words("korean")[section]
        found = words.get(lemma) or words.get(lemma.lower())
        self.asked += 1
        self.known += bool(found)
        if not found:
            return ""
        return found[0] if self.chance.random() < _FIRST_MEANING else self.chance.choice(found)

    # -- clauses ------------------------------------------------------------------------------

    def _clauses(self, words: Sequence[Word], mark: str) -> Iterator[str]:
        """Yield subordinate clauses, and then the others."""
        words = [word for word in words if word.lemma != "please"]
        if mark == "?" and words and words[0].lemma in _QUESTIONS:
            words = [Word(words[0].lemma, ("adv",)), *words[1:]]
        lexicon = read_words("korean")
        subordinate = lexicon["subordinate"]
        clauses = list(cut_clauses(words, {**lexicon["joined"], **subordinate}))
        for conjunction, clause in clauses:
            if conjunction in subordinate:
                yield self._clause(clause, subordinate[conjunction][0], mark)
        main = [clause for clause in clauses if clause[0] not in subordinate]
        following = [*(conjunction for conjunction, _ in main[1:]), ""]
        for (_, clause), conjunction in zip(main, following, strict=False):
            yield self._clause(clause, rule("joined", conjunction), mark)

    def _clause(self, words: Sequence[Word], ending: str, mark: str) -> str:
        """Return a clause whose verb has an ending, or ends the sentence."""
        at = find_verb(words)
        if at is None:
            return " ".join(self._phrases(words, "이" if ending else ""))
        first, last = at
        relative = next((n for n in range(1, first) if is_relative(words[n:])), None)
        second = find_verb(words[last:]) if relative else None
        if relative and second:
            said = self._relative(words[relative + 1 : last + second[0]])
            first, last = last + second[0], last + second[1]
            group, rest = words[first:last], words[last:]
            return f"{said} {self._put([], words[:relative], group, rest, ending, mark)}"
        head, group, rest = words[:first], words[first:last], words[last:]
        if (
            mark == "?"
            and len(group) == 1
            and group[0].kind in ("vbdo", "vaux", "vbhaver", "vbser")
        ):
            end = find_noun_end(rest)
            again = find_verb(rest[end:], begin=True) if end else None
            said_of_it = rest[end : end + 1] and rest[end].kind in ("adj", "preadv", "pr")
            if again or (end and group[0].kind == "vbser" and (not head or said_of_it)):
                subject, rest = rest[:end], rest[end:]
                end = again[1] if again else 0
                return self._put(head, subject, [*group, *rest[:end]], rest[end:], ending, mark)
        begin = find_subject(head)
        return self._put(head[:begin], head[begin:], group, rest, ending, mark)

    def _put(
        self,
        lead: Sequence[Word],
        subject: Sequence[Word],
        group: Sequence[Word],
        rest: Sequence[Word],
        ending: str,
        mark: str,
    ) -> str:
        """Put what was found into Korean order."""
        parts = self._phrases(lead, "을")
        around = [*lead, *subject, *rest[:1]]
        there = group[-1].kind == "vbser" and any(word.lemma == "there" for word in around)
        subject = [word for word in subject if word.lemma != "there"]
        if subject and not self._is_left_out(subject):
            particle = "이" if there or ending else self.chance.choice(("은", "이"))
            parts += self._phrases(subject, particle)
        found = self._verb(group, rest, there=there)
        rest = [word for word in found.rest if not there or word.lemma != "there"]
        parts += self._phrases(rest, "이" if there else found.particle)
        parts += found.before
        command = not subject and not lead and group[0].has("pres", "inf") and mark != "?"
        negative = any(word.lemma in ("not", "never") for word in group)
        last = self._last(found.verb, ending, mark, command=command, negative=negative)
        return " ".join([*parts, last])

    def _last(self, verb: Verb, ending: str, mark: str, *, command: bool, negative: bool) -> str:
        """Return the verb as it stands at the end of a clause."""
        if negative and command:
            return verb.stem + ("지 말고" if ending else "지 마세요")
        if negative:
            verb.extend("지 않")
        if ending:
            return verb.join(ending)
        if not command or not verb.verb:
            return verb.end(self.style, question=mark == "?")
        if self.chance.random() < 0.3:
            return infinitive(verb.stem) + self.chance.choice((" 주세요", "라"))
        return with_eu(verb.stem, "세요")

    def _is_left_out(self, subject: Sequence[Word]) -> bool:
        """Korean often leaves out who is meant, if that is clear."""
        if len(subject) != 1 or subject[0].lemma != "prpers":
            return False
        often = 0.9 if subject[0].has("nt") else 0.4 if subject[0].has("p1", "p2") else 0.1
        return self.chance.random() < often

    def _relative(self, words: Sequence[Word]) -> str:
        """Return a clause as it stands before its noun."""
        at = find_verb(words)
        if at is None:
            return " ".join(self._phrases(words, ""))
        found = self._verb(words[slice(*at)], words[at[1] :])
        subject = self._phrases(words[: at[0]], "이")
        others = self._phrases(found.rest, found.particle)
        last = adnominal(found.verb.stem, found.verb.tense, verb=found.verb.verb)
        return " ".join([*subject, *others, *found.before, last])

    # -- verbs --------------------------------------------------------------------------------

    def _verb(self, group: Sequence[Word], rest: Sequence[Word], *, there: bool = False) -> _Found:
        """Return what a verb with its auxiliaries becomes."""
        content = [word for word in group if word.kind != "vaux" and word.kind.startswith("vb")]
        main = content[-1] if content else group[-1]
        modals = [word.lemma for word in group if word.kind == "vaux"]
        tense = _find_tense(group, main, modals)
        if main.has("ger") and main.lemma == "go" and is_infinitive(rest):  # going to
            tense, main, rest = "future", rest[1], rest[2:]
        wish, main, rest = _find_wish(group, main, rest)
        before: list[str] = []
        if not wish and main.kind == "vblex" and is_infinitive(rest):
            ending = self.chance.choice(("는 것을", "려고"))
            before, rest = [self._inner(rest[1:], ending)], []
        been = main.kind != "vbser" and any(word.kind == "vbser" for word in group)
        passive = been and main.has("pp")
        if main.kind == "vbser":
            found = self._be(rest, there=there)
        else:
            verb = self._plain_verb(main, passive=passive)
            found = _Found(verb, verb.object_particle, before, list(rest))
        if been and main.has("ger"):
            found.verb.extend("고 있")
        if wish:
            found.verb.extend(wish)
        self._add_modal(found, modals, main)
        in_past = passive and tense == "present" and self.chance.random() < 0.5
        found.verb.tense = "past" if in_past else tense
        return found

    def _plain_verb(self, main: Word, *, passive: bool) -> Verb:
        """Return a verb other than `be`."""
        if main.kind == "vbhaver":
            self.asked, self.known = self.asked + 1, self.known + 1
            return Verb("있")
        if main.kind == "vbdo":
            return Verb("하")
        stem = self._look_up("verbs", main.lemma) or "하"
        return Verb(stem[:-1] + "되" if passive and stem.endswith("하") else stem)

    def _add_modal(self, found: _Found, modals: Sequence[str], main: Word) -> None:
        """Add what the first auxiliary becomes that has an ending."""
        for modal in modals:
            ending = rule("modals", modal)
            if ending and not (modal == "could" and found.verb.stem.endswith("싶")):
                found.verb.extend(ending)
                break
        if "would" in modals and main.lemma == "like":
            found.verb, found.particle = Verb("원하"), "을"

    def _inner(self, words: Sequence[Word], ending: str) -> str:
        """Return what stands behind `to`: a verb with all that belongs to it."""
        if not words:
            return ""
        found = self._verb(words[:1], words[1:])
        stem = found.verb.stem
        eu = ending == "려고"
        last = with_eu(stem, ending) if eu else add_ending(stem, ending, verb=found.verb.verb)
        return " ".join([*self._phrases(found.rest, found.particle), *found.before, last])

    def _be(self, rest: Sequence[Word], *, there: bool) -> _Found:
        """Return what `be` becomes: an adjective, a noun with 이다, or 있다 with a place."""
        rest = [word for word in rest if word.lemma not in ("not", "never")]
        degree = [w for w in rest[:2] if w.kind in ("preadv", "adv") and w.lemma in _DEGREES]
        behind = rest[len(degree) :] if rest[: len(degree)] == degree else rest
        words = [self._look_up("adverbs", word.lemma) for word in degree]
        if there or not behind or behind[0].kind in ("pr", "adv"):
            self.asked, self.known = self.asked + 1, self.known + 1
            return _Found(Verb("있"), "을", [], rest)
        if behind[0].lemma in ("able", "unable") and is_infinitive(behind[1:]):
            found = self._verb(behind[2:3], behind[3:])
            found.verb.extend("{future} 수 있" if behind[0].lemma == "able" else "{future} 수 없")
            return found
        if behind[0].kind == "adj" and (len(behind) == 1 or not behind[1].has("n", "adj")):
            stem = self._look_up("adjectives", behind[0].lemma) or "그렇"
            behind = behind[1:]
            if is_infinitive(behind):
                words, behind = [self._inner(behind[1:], "는 것이"), *words], []
            copula = stem.endswith(("이", "의"))
            stem = stem.removesuffix("의") + "이" if stem.endswith("의") else stem
            return _Found(Verb(stem, verb=False, copula=copula), "을", words, behind)
        end = find_noun_end(behind)
        noun = " ".join(self._phrases(behind[:end], "")) or "것"
        return _Found(Verb(noun + "이", verb=False, copula=True), "을", words, behind[end:])

    # -- phrases ------------------------------------------------------------------------------

    def _phrases(self, words: Sequence[Word], particle: str) -> list[str]:
        """Return nouns with a particle, adverbs and all else, in order."""
        parts: list[str] = []
        while words:
            if words[0].kind == "pr" and rule("particles", words[0].lemma):
                parts, words = self._prepositional(parts, words)
            elif end := find_noun_end(words):
                noun, words = self._noun(words[:end]), words[end:]
                if is_relative(words):
                    begin = 1 if words[0].kind in ("rel", "prn") else 0
                    noun, words = f"{self._relative(words[begin:])} {noun}".strip(), []
                parts.append(with_particle(noun, particle) if noun and particle else noun)
            else:
                part, words = self._other(words, particle)
                parts.append(part)
        return [part for part in parts if part]

    def _other(self, words: Sequence[Word], particle: str) -> tuple[str, Sequence[Word]]:
        """Return what an adverb, an adjective or a verb becomes, and the words behind it."""
        word = words[0]
        if word.lemma in _QUESTIONS and find_verb(words[1:]):
            return self._clause(words, "는지", "."), []
        if word.kind in ("adv", "preadv", "cnjadv", "rel", "ij"):
            silent = word.lemma in ("not", "there", "as", "that")
            return ("" if silent else self._look_up("adverbs", word.lemma)), words[1:]
        if word.kind == "adj":
            language = rule("nouns", word.lemma.capitalize())
            if language:
                return (with_particle(language, particle) if particle else language), words[1:]
            stem = self._look_up("adjectives", word.lemma)
            return (stem if not stem or stem.endswith("의") else stem + "게"), words[1:]
        if word.kind in ("vblex", "vbser") and word.has("ger", "inf", "pp"):
            return self._inner(words, "는 것을" if word.has("inf") else "고"), []
        return "", words[1:]

    def _prepositional(
        self, parts: list[str], words: Sequence[Word]
    ) -> tuple[list[str], Sequence[Word]]:
        """Add a noun with what the preposition before it becomes."""
        preposition, words = words[0].lemma, words[1:]
        end = find_noun_end(words)
        if not end and words and words[0].has("inf", "ger"):
            return [*parts, self._inner(words, self.chance.choice(("기 위해", "는 것을")))], []
        if not end:
            return parts, words
        noun = self._noun(words[:end])
        if preposition == "of" and parts:
            return [*parts[:-1], f"{noun}의 {parts[-1]}"], words[end:]
        particle = self._particle(preposition, words[end - 1])
        return [*parts, with_particle(noun, particle)], words[end:]

    def _particle(self, preposition: str, noun: Word) -> str:
        """Return the particle that a preposition becomes with a noun."""
        person = (
            noun.kind == "prn" or noun.has("ant") or noun.lemma in read_words("korean")["people"]
        )
        if preposition in ("to", "for") and person:
            return "에게"
        if preposition == "for" and noun.lemma in _DURATIONS:
            return " 동안"
        if preposition in ("in", "at") and not _TIMES.search(noun.lemma):
            return self.chance.choice(("에", "에서"))
        if preposition == "at":
            return "에"
        if preposition == "to":
            return self.chance.choice(("에", "로"))
        if preposition == "with" and not person:
            return self.chance.choice(("로", "와"))
        return rule("particles", preposition)

    def _noun(self, words: Sequence[Word]) -> str:
        """Return a noun with its determiners, adjectives and numbers before it."""
        parts: list[str] = []
        for word in words:
            if word.kind == "gen":
                parts[-1:] = [part + "의" for part in parts[-1:]]
            else:
                parts.append(self._noun_part(word, last=word is words[-1]))
        return " ".join(part for part in parts if part)

    def _noun_part(self, word: Word, *, last: bool) -> str:
        if word.kind == "prn":
            return self._pronoun(word)
        if word.kind == "det":
            return "" if word.lemma in ("a", "the") else self._look_up("determiners", word.lemma)
        if word.kind == "num":
            found = read_words("korean")["numbers"].get(word.lemma, [word.lemma])
            return found[-1 if last else 0]
        if word.kind == "adj":
            stem = self._look_up("adjectives", word.lemma)
            ready = not stem or stem.endswith("의") or stem in _AS_THEY_ARE
            return stem if ready else adnominal(stem, "present", verb=False)
        noun = self._look_up("nouns", word.lemma) or (word.lemma if word.kind == "np" else "")
        several = word.has("pl") and last and noun and self.chance.random() < 0.3
        return noun + "들" if several and not noun.endswith("들") else noun

    def _pronoun(self, word: Word) -> str:
        if word.lemma != "prpers":
            return rule("pronouns", word.lemma) or self._look_up("nouns", word.lemma)
        for tags, forms in read_words("korean")["persons"].items():
            if set(tags.split()) <= set(word.tags):
                return forms[-1] if self.style == "formal" and "p1" in tags else forms[0]
        return "그들" if word.has("p3") else "우리"


def _find_tense(group: Sequence[Word], main: Word, modals: Sequence[str]) -> str:
    first = next((word for word in group if word.has("past", "pri", "pres", "pp")), main)
    if first.has("past") or any(word.kind == "vbhaver" for word in group[:-1]):
        return "past"
    return "future" if {"will", "shall"} & set(modals) else "present"


def _find_wish(
    group: Sequence[Word], main: Word, rest: Sequence[Word]
) -> tuple[str, Word, Sequence[Word]]:
    """Return the ending of what is wanted or has to be done, and the verb for that."""
    wanted = next((word.lemma for word in group[:-1] if word.kind == "vbmod"), "")
    if wanted and main.kind != "vbmod":
        return rule("wishes", wanted) or "고 싶", main, rest
    ending = rule("wishes", f"{main.lemma} to")
    if main.kind != "vbmod" and not (ending and is_infinitive(rest)):
        return "", main, rest
    ending = rule("wishes", main.lemma) or ending or "고 싶"
    rest = rest[1:] if rest and rest[0].lemma == "to" else rest
    if rest and rest[0].has("inf", "pres"):
        main, rest = rest[0], rest[1:]
    return ending, main, rest
