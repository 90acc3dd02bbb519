"""Translate analysed English sentences into Russian by rules.

The order of words is that of the English. Nouns get the case that their place or preposition asks
for, adjectives agree with them, and verbs with their subject. pymorphy3 (PyPI) knows the forms of
all words; `russian_words.txt` has the most frequent English words, and dictionaries the others.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from training.english_clauses import (
    Word,
    find_noun_end,
    find_verb,
    is_infinitive,
    is_relative,
)
from training.handwritten import read_words

_KNOWN = 0.75
"""The share of its words that a sentence must have Russian words for."""
_SENSES = 3
_PARTS = {"verbs": "INFN", "nouns": "NOUN", "adjectives": "ADJF", "adverbs": "ADVB"}
_ORDER = ("freedict", "pivot", "mueller")
"""The dictionaries whose first senses are the most frequent come first."""
_PERSONS = {"p1": "1per", "p2": "2per", "p3": "3per"}
_AUXILIARIES = ("vbdo", "vaux", "vbhaver", "vbser")
_MODALS = {"can": "мочь", "could": "мочь", "may": "мочь", "might": "мочь"}
_OBLIGATIONS = ("must", "should", "ought to", "have to")
_NEGATIVE = ("not", "never")
_ALSO_CONJUNCTIONS = ("since", "when", "before", "after")
_MARKS = re.compile(r" (?=[.,?!])")


@dataclass(frozen=True)
class Agreement:
    """What adjectives and verbs agree with."""

    gender: str = "masc"
    number: str = "sing"
    person: str = "3per"

    @property
    def form(self) -> str:
        """The gender, or that there are several."""
        return "plur" if self.number == "plur" else self.gender


@dataclass
class _Pending:
    """What auxiliaries said about the verb that follows."""

    tense: str = "pres"
    modal: str = ""
    negative: bool = False
    wish: bool = False


@dataclass
class Lexicon:
    """English words by part of speech, with Russian ones."""

    analyser: Any
    senses: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, analyser: Any, dictionaries: Iterable[list[str]]) -> Lexicon:
        """Read the lines of dictionaries: of each word the first senses with its part of speech."""
        lexicon = cls(analyser)
        found: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in _ORDER}
        for name, language, english, russian in dictionaries:
            if language == "ru" and name in found and " " not in russian:
                word = english.split(", ")[0].removeprefix("to ").lower()
                found[name][word].append(russian.lower())
        for name in _ORDER:
            for english, words in found[name].items():
                for word in words:
                    for section in lexicon._sections(word):
                        lexicon.senses[section, english].append(word)
        return lexicon

    def _sections(self, word: str) -> list[str]:
        parsed = [one for one in self.analyser.parse(word) if one.normal_form == word]
        return [name for name, part in _PARTS.items() if any(part in one.tag for one in parsed)]

    def find(self, section: str, lemma: str) -> list[str]:
        """Return some Russian words, the most frequent first."""
        own = read_words("russian").get(section, {})
        by_hand = own.get(lemma) or own.get(lemma.lower())
        return by_hand or [*dict.fromkeys(self.senses[section, lemma.lower()])][:_SENSES]


class Translator:
    """Translates one sentence after the other."""

    def __init__(self, lexicon: Lexicon, chance: random.Random) -> None:
        self.lexicon = lexicon
        self.chance = chance
        self.parse = cache(lexicon.analyser.parse)
        self.known = self.asked = 0

    def translate(self, words: Sequence[Word]) -> str:
        """Return the Russian of a text, or nothing if too few of its words are known."""
        self.known = self.asked = 0
        sentence = _Sentence(self)
        words = [word for word in words if word.lemma != "please"]
        while words:
            words = sentence.add(words)
        enough = self.asked and self.known >= _KNOWN * self.asked
        return _MARKS.sub("", " ".join(part for part in sentence.parts if part)) if enough else ""

    def look_up(self, section: str, lemma: str) -> str:
        """Return one of the Russian words, or nothing."""
        found = self.lexicon.find(section, lemma)
        self.asked += 1
        self.known += bool(found)
        if not found:
            return ""
        if section == "verbs":
            return self.chance.choice(found[:2])
        return found[0] if self.chance.random() < 0.7 else self.chance.choice(found)

    def inflect(self, word: str, part: str, *grammemes: str) -> str:
        """Return a form of a word, or the word itself if it has no such form."""
        parsed = self.parse(word)
        chosen = next((one for one in parsed if part in one.tag), parsed[0])
        form = chosen.inflect(set(grammemes))
        return form.word if form else word

    def has(self, word: str, part: str, grammeme: str) -> bool:
        """Return whether a word of some part of speech has a property."""
        return any(part in one.tag and grammeme in one.tag for one in self.parse(word))

    # -- nouns --------------------------------------------------------------------------------

    def noun(self, words: Sequence[Word], case: str) -> tuple[str, Agreement]:
        """Return a noun phrase in a case, and what agrees with it."""
        if not words:
            return "", Agreement()
        owner = next((n for n, word in enumerate(words) if word.kind == "gen"), None)
        if owner is not None:
            thing, agreement = self.noun(words[owner + 1 :], case)
            of, _ = self.noun(words[:owner], "gent")
            return f"{thing} {of}".strip(), agreement
        last = words[-1]
        if last.kind == "prn":
            return self._pronoun(last, case)
        number = "plur" if last.has("pl") else "sing"
        noun = self.look_up("nouns", last.lemma) if last.has("n", "np") else ""
        noun = noun or (last.lemma if last.kind == "np" else "")
        gender = next((g for g in ("femn", "neut") if self.has(noun, "NOUN", g)), "masc")
        if last.has("ant"):
            gender = "femn" if last.has("f") else "masc"
        agreement = Agreement(gender, number)
        living = case == "accs" and self.has(noun, "NOUN", "anim")
        parts = []
        for word in words[:-1] if noun else words:
            part, noun_case = self._attribute(word, case, agreement, living=living)
            parts.append(part)
            if noun_case:
                case, number = noun_case
        form = (
            self.inflect(noun, "NOUN", case, number)
            if noun[:1].islower()
            else self._name(noun, case)
        )
        return " ".join(part for part in [*parts, form] if part), agreement

    def _name(self, name: str, case: str) -> str:
        """Return a name in a case; one of other letters stays as it is."""
        if not name or name.isascii():
            return name
        return self.inflect(name.lower(), "NOUN", case).capitalize()

    def _attribute(
        self, word: Word, case: str, agreement: Agreement, *, living: bool
    ) -> tuple[str, tuple[str, str] | None]:
        """Return what stands before a noun, and the case and number that the noun gets from it."""
        words = read_words("russian")
        if word.kind == "num":
            found = words["numbers"].get(word.lemma, [word.lemma])[0]
            few = found in ("два", "три", "четыре")
            return found, None if found == "один" else ("gent", "sing" if few else "plur")
        if word.kind == "det" and word.lemma in ("a", "the"):
            return "", None
        section = "determiners" if word.kind == "det" else "adjectives"
        found = self.look_up(section, word.lemma)
        if found.endswith("="):
            of = found[:-1] in ("много", "сколько", "несколько", "достаточно")
            return found[:-1], ("gent", agreement.number) if of else None
        if not found:
            return "", None
        if case == "accs" and agreement.form in ("masc", "plur"):
            case = "gent" if living else "nomn"
        return self.inflect(found, "ADJF", case, agreement.form), None

    def _pronoun(self, word: Word, case: str) -> tuple[str, Agreement]:
        words = read_words("russian")
        if word.lemma != "prpers":
            found = words["pronouns"].get(word.lemma, [""])[0]
            plural = "plur" if found in ("все", "некоторые", "многие", "другие") else "sing"
            gender = "neut" if found in ("это", "что", "всё", "что-то", "ничего") else "masc"
            return self.inflect(found, "NPRO", case) if found else "", Agreement(gender, plural)
        for tags, forms in words["persons"].items():
            if set(tags.split()) <= set(word.tags):
                form = self.chance.choice(forms)
                several = "plur" if form in ("мы", "вы", "они") else "sing"
                gender = {"она": "femn", "оно": "neut", "это": "neut"}.get(form, "masc")
                person = _PERSONS[tags.split()[0]]
                return self.inflect(form, "NPRO", case), Agreement(gender, several, person)
        return self.inflect("они", "NPRO", case), Agreement(number="plur")

    # -- verbs --------------------------------------------------------------------------------

    def conjugate(self, verb: str, tense: str, subject: Agreement | None) -> str:
        """Return a verb in a tense; without a subject it is a command."""
        if tense == "infn":
            return verb
        if subject is None:
            return self.inflect(verb, "INFN", "impr", "plur", "excl")
        if tense == "past":
            return self.inflect(verb, "INFN", "past", subject.form)
        perfect = self.has(verb, "INFN", "perf")
        if tense == "futr" and not perfect:
            will = self.inflect("быть", "INFN", "futr", subject.person, subject.number)
            return f"{will} {verb}"
        time = "futr" if perfect else "pres"
        return self.inflect(verb, "INFN", time, subject.person, subject.number)

    def verb(self, lemma: str, tense: str) -> str:
        """Return the imperfective verb for the present, else either."""
        found = self.lexicon.find("verbs", lemma)
        self.asked += 1
        self.known += bool(found)
        if not found:
            return ""
        lasting = [one for one in found if self.has(one, "INFN", "impf")]
        return lasting[0] if tense == "pres" and lasting else self.chance.choice(found[:2])


class _Sentence:
    """One sentence on its way into Russian, from its first word to its last."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.parts: list[str] = []
        self.begin()

    def begin(self) -> None:
        """Begin a sentence."""
        self.subject: Agreement | None = None
        self.noun = Agreement()
        self.pending = _Pending()
        self.behind_verb = False
        self.fresh = True

    def add(self, words: Sequence[Word]) -> Sequence[Word]:
        """Translate the next few words; return the others."""
        word, rest = words[0], words[1:]
        prepositions = read_words("russian")["prepositions"]
        if word.kind in ("sent", "cm"):
            self.parts.append(word.lemma)
            if word.kind == "sent":
                self.begin()
            self.behind_verb = False
            return rest
        if word.lemma == "there" and ((rest and rest[0].kind == "vbser") or self.pending.modal):
            self.subject = self.subject or Agreement("neut")
            return rest
        if word.kind == "rel" and word.lemma in ("that", "who", "which", "whom") and self.parts:
            case = "nomn" if rest and not rest[0].has("subj", "n", "det") else "accs"
            inflect = self.translator.inflect
            self.parts.append(", " + inflect("который", "ADJF", case, self.noun.form))
            self.subject, self.behind_verb = self.noun, False
            return rest
        if word.kind == "pr" and word.lemma in prepositions:
            end = find_noun_end(rest)
            if end:
                preposition, _, case = prepositions[word.lemma][0].rpartition(" ")
                return self._prepositional(preposition.strip(), case, rest[:end], rest[end:])
        joins = word.lemma in _ALSO_CONJUNCTIONS and find_verb(rest)
        if joins or word.kind in ("cnjcoo", "cnjadv", "cnjsub", "rel"):
            return self._conjunction(word, rest)
        if end := find_noun_end(words):
            return self._noun(words[:end], words[end:])
        if word.kind in _AUXILIARIES or word.kind in ("vblex", "vbmod"):
            return self._verb(words)
        return self._other(word, rest)

    def _conjunction(self, word: Word, rest: Sequence[Word]) -> Sequence[Word]:
        found = read_words("russian")["conjunctions"].get(word.lemma, [""])[0]
        if find_verb(rest):
            if self.parts and word.lemma not in ("and", "or"):
                self.parts.append(",")
            self.behind_verb = False
        self.parts.append(found)
        return rest

    def _prepositional(
        self, preposition: str, case: str, words: Sequence[Word], rest: Sequence[Word]
    ) -> Sequence[Word]:
        noun, _ = self.translator.noun(words, case)
        third = words[-1].lemma == "prpers" and words[-1].has("p3")
        if preposition == "в" and case == "accs" and (third or words[-1].kind == "prn"):
            preposition, (noun, _) = "к", self.translator.noun(words, "datv")
        if third and preposition and noun[:1] in ("е", "и"):
            noun = "н" + noun
        self.parts += [preposition, noun]
        return rest

    def _noun(self, words: Sequence[Word], rest: Sequence[Word]) -> Sequence[Word]:
        if not self.behind_verb:
            noun, self.noun = self.translator.noun(words, "nomn")
            self.subject = self.noun
        else:
            case = "gent" if self.pending.negative else "accs"
            noun, self.noun = self.translator.noun(words, case)
        self.parts.append(noun)
        self.fresh = False
        if is_relative(rest) and rest[0].kind != "rel" and self.behind_verb:
            inflect = self.translator.inflect
            self.parts.append(", " + inflect("который", "ADJF", "accs", self.noun.form))
            self.behind_verb = False
        return rest

    def _verb(self, words: Sequence[Word]) -> Sequence[Word]:
        """Translate a verb, or remember what an auxiliary says about the next one."""
        word, rest = words[0], words[1:]
        helps = word.kind in ("vbdo", "vaux") or (
            word.kind in _AUXILIARIES
            and any(w.kind.startswith("vb") and w.has("pp", "ger") for w in rest[:4])
        )
        if word.has("past"):
            self.pending.tense = "past"
        if rest and rest[0].lemma in _NEGATIVE:
            self.pending.negative, rest = True, rest[1:]
        if word.lemma == "go" and word.has("ger") and is_infinitive(rest):
            self.pending.tense = "futr"
            return rest[1:]
        if helps and rest:
            self._auxiliary(word)
            return rest
        self._main_verb(word)
        return rest

    def _auxiliary(self, word: Word) -> None:
        if word.lemma in ("will", "shall"):
            self.pending.tense = "futr"
        elif word.lemma == "would":
            self.pending.tense, self.pending.wish = "past", True
        elif word.lemma in _MODALS or word.lemma in _OBLIGATIONS:
            self.pending.modal = word.lemma
        elif word.kind == "vbhaver":
            self.pending.tense = "past"
        self.fresh = self.fresh and word.kind == "vbdo"

    def _main_verb(self, word: Word) -> None:
        translator, pending, parts = self.translator, self.pending, self.parts
        subject = self.subject or (None if self.fresh and word.has("pres", "inf") else Agreement())
        infinite = (self.behind_verb and word.has("inf", "ger")) or (
            word.has("inf") and not self.fresh
        )
        tense = "infn" if infinite and not self._is_finite(word) else pending.tense
        if pending.negative:
            parts.append("не")
        if pending.modal or word.kind == "vbmod":
            parts.append(self._modal(word, subject or Agreement()))
            tense = "infn"
        if word.kind == "vbmod":
            pass
        elif word.kind == "vbser":
            parts.append(self._be(tense, subject or Agreement()))
        elif word.kind == "vbhaver":
            parts.append(translator.conjugate("иметь", tense, subject or Agreement()))
        else:
            verb = translator.verb(word.lemma, tense)
            parts.append(translator.conjugate(verb, tense, subject) if verb else "")
        if pending.wish:
            parts.append("бы")
        self.pending = _Pending(negative=pending.negative and word.kind != "vbser")
        self.behind_verb = word.kind != "vbser"
        self.fresh = False

    def _is_finite(self, word: Word) -> bool:
        """Return whether an infinite form stands for a finite one, as behind `do` and `will`."""
        waiting = self.pending != _Pending(negative=self.pending.negative)
        return waiting or not self.behind_verb

    def _modal(self, word: Word, subject: Agreement) -> str:
        tense = "past" if self.pending.tense == "past" or self.pending.modal == "could" else "pres"
        if self.pending.modal in _MODALS:
            return self.translator.conjugate("мочь", tense, subject)
        if self.pending.modal in _OBLIGATIONS or word.lemma == "have to":
            return self.translator.inflect("должный", "ADJS", subject.form)
        return self.translator.conjugate("хотеть", tense, subject)

    def _be(self, tense: str, subject: Agreement) -> str:
        """Return what `be` becomes: nothing in the present."""
        if tense == "pres":
            return ""
        if tense == "past":
            return self.translator.inflect("быть", "INFN", "past", subject.form)
        if tense == "futr":
            inflect = self.translator.inflect
            return inflect("быть", "INFN", "futr", subject.person, subject.number)
        return "быть"

    def _other(self, word: Word, rest: Sequence[Word]) -> Sequence[Word]:
        translator = self.translator
        if word.kind in ("adv", "preadv", "ij") and word.lemma not in ("not", "there"):
            self.parts.append(translator.look_up("adverbs", word.lemma))
        elif word.lemma == "able" and is_infinitive(rest):
            self.parts.append(translator.conjugate("мочь", "pres", self.subject or Agreement()))
            self.behind_verb = True
        elif word.kind == "adj":
            found = translator.look_up("adjectives", word.lemma)
            subject = self.subject or Agreement()
            self.parts.append(
                translator.inflect(found, "ADJF", "nomn", subject.form) if found else ""
            )
        elif word.lemma in _NEGATIVE:
            self.parts.append("не")
        if word.lemma != "to" and word.kind != "ij":
            self.fresh = False
        return rest
