"""Extract facts from a person's message to an agent, by rules: facts for later conversations.

    preference   "I prefer ...", "I don't like ...", "My favourite editor is ..."
    rule         "Always ...", "Never ...", "From now on ...", "You should never ..."
    decision     "We decided ...", "We settled on ..."
    fact         "Remember that ...", "My name is ...", "Call me ...", "I work at ...", "We use ..."

A sentence has to begin with such a phrase. These give no facts: questions, assumptions, statements
that hold only for a short time, references to something outside the sentence ("I prefer the second
one"), code, logs, quotations and pasted text. To miss a fact costs less than to store a sentence
that is not one. rules.toml has the English phrases, chat_languages.toml those of seven other
languages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memwell.extract.patterns import RULES, strip_markup
from memwell.ingest.markdown import FENCED_BLOCK
from memwell.scripts import HIRAGANA
from memwell.store.words.function_words import guess_language
from memwell.store.words.normalise import runs_without_spaces

SPEAKER = "The user says: "
"""Goes before a sentence in the first person, because someone else will read it."""
ENGLISH, _LATIN = "en", ("de", "fr", "es", "pt")
MIN_WORDS = 3
_CHARACTERS_PER_WORD = 2
"""In scripts without spaces."""
MAX_CHARACTERS = 300
_MAX_MESSAGE_CHARACTERS = 20_000
"""The rest of a longer message is ignored: it was pasted."""


@dataclass(frozen=True, slots=True)
class SpokenFact:
    """A fact from a message, and its category."""

    text: str
    category: str


def facts_in_message(message: str) -> list[SpokenFact]:
    """Return the facts of a message in order, without duplicates."""
    facts: dict[str, SpokenFact] = {}
    for part in _typed_parts(message):
        for sentence in _split_sentences(strip_markup(part.text.replace("’", "'"))):
            if fact := _fact_in_sentence(sentence, in_list=part.in_list):
                facts.setdefault(fact.text.casefold(), fact)
    return [*facts.values()]


def typed_text(message: str) -> str:
    """Return the text that the person typed, without pasted text and text from machines."""
    return "\n".join(part.text for part in _typed_parts(message))


# -- the text that the person typed ----------------------------------------------------------------

_TAGGED = re.compile(
    r"<([A-Za-z][\w-]*)\b[^<>]*>.*?</\1\s*>"  # text from machines, such as recalled blocks
    r"|<[A-Za-z]+[-_][\w-]*>.*",  # the same, cut off
    re.S,
)
_QUOTED = re.compile(r"[\"“„«][^\"”“»\n]{0,2000}[.!?]\s[^\"”“»\n]{0,2000}[\"”“»]")
"""A quotation of several sentences: those in the middle would look typed by the person."""
_MACHINE = re.compile(
    r"""\s*(?:
        >|\||\$\s|//|/\*|--|@@|\+{3}\s
      | (?:\[?\d{4}-\d\d-\d\d[T\s]|\[?\d\d:\d\d:\d\d)                  # the time of a log
      | \[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL)\b
      | Traceback\b|File\s"|at\s\S+\(|npm\s(?:ERR|WARN)|\w*(?:Error|Exception):
      | (?:error|warning|fatal)(?:\[\w+\])?:
      | (?:def|class|import|return|const|let|var|func|fn|export|\#include)\s.*[:;({)]\s*$
      )
      | \ {4}|\t | .*[;{}]\s*$
    """,
    re.X,
)
_DOCUMENT = re.compile(r"#{1,6}\s")
_POINT = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_TELLS = re.compile(
    r"\b(?:remember|keep in mind|from now on|rules?|preferences|conventions|decisions"
    r"|merke? dir|Regeln|retiens|règles|recuerda|reglas|lembre|regras)\b"
    r"|记住|記住|规则|規則|ルール|規則|覚えて|규칙|기억",
    re.I,
)
_WRAPPED = 50
"""Characters that a line must have to be continued in the next line."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A paragraph, or a point of a list; `in_list` if it is a list of things to remember."""

    text: str
    in_list: bool = False


def _typed_parts(message: str) -> Iterator[_Part]:
    """Yield the parts of a message without code, logs and quotations.

    After a line such as "Translate this:", and after a heading, the rest was pasted.
    """
    text = FENCED_BLOCK.sub("\n", _TAGGED.sub("\n", message[:_MAX_MESSAGE_CHARACTERS]))
    in_list = False
    for line in _unwrap_lines(_QUOTED.sub('"..."', text)):
        if not line.strip() or _MACHINE.match(line):
            continue
        if _DOCUMENT.match(line):
            return
        point = _POINT.match(line)
        if line.rstrip().endswith((":", "：")):
            in_list = bool(_TELLS.search(line))
            if not in_list:
                return
            continue
        in_list = in_list and point is not None
        yield _Part(line[point.end() :] if point else line, in_list)


def _unwrap_lines(text: str) -> Iterator[str]:
    """Yield lines; join a line that was broken only because it was long."""
    joined = ""
    for line in text.split("\n"):
        continues = (
            len(joined) >= _WRAPPED and joined[-1] not in ".!?:;。！？：" and line[:1].islower()
        )
        if continues:
            joined += f" {line}"
        else:
            yield joined
            joined = line.rstrip()
    yield joined


# -- sentences -------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+")
_HANGUL, _KANA = re.compile("[\uac00-\ud7a3]"), re.compile(f"[{HIRAGANA}\u30a1-\u30fa]")

_RULES = RULES["chat"]


def _alternatives(words: str) -> str:
    """Return a pattern that matches one of the words, which are separated by semicolons."""
    return f"(?:{'|'.join(' '.join(word.split()) for word in words.split(';'))})"


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of the rules; <NAME> in it stands for other words or another pattern."""
    while name := re.search("<([A-Z_]+)>", pattern):
        words = _RULES["words"].get(name[1])
        inserted = _alternatives(words) if words else _RULES["patterns"][name[1]]
        pattern = pattern.replace(name[0], inserted)
    return re.compile(pattern, re.I)


@dataclass(frozen=True, slots=True)
class _Language:
    """The phrases of a language."""

    lead_in: re.Pattern[str]
    remind: re.Pattern[str]
    clause: re.Pattern[str]
    """It follows a request to remember."""
    not_a_fact: re.Pattern[str]
    first_person: re.Pattern[str]
    shapes: Sequence[tuple[str, re.Pattern[str]]]


@cache
def _language(code: str) -> _Language:
    """Return the phrases of a language; they are compiled when it is first needed."""
    if code == ENGLISH:
        lead_in, remind, clause, not_a_fact = (
            _compile(_RULES["patterns"][name])
            for name in ("lead_in", "remind", "clause", "not_a_fact")
        )
        first_person, shapes = _FIRST_PERSON, _RULES["shapes"]
    else:
        rules = _other_languages()[code]
        lead_in, remind, not_a_fact, first_person = (
            re.compile(rules[name], re.I)
            for name in ("lead_in", "remind", "not_a_fact", "first_person")
        )
        clause, shapes = _ANY_CLAUSE, rules["shapes"]
    compiled = [
        (category, _compile(shape)) for category, named in shapes.items() for shape in named
    ]
    return _Language(lead_in, remind, clause, not_a_fact, first_person, compiled)


@cache
def _other_languages() -> Mapping[str, Any]:
    file = Path(__file__).with_name("chat_languages.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine)\b")
_ANY_CLAUSE = re.compile(r"\S{4,}|\S+ \S+ \S")


def _fact_in_sentence(sentence: str, *, in_list: bool) -> SpokenFact | None:
    """Return the fact that a sentence states, if any."""
    if not _is_statement(sentence):
        return None
    for code in _candidate_languages(sentence):
        if fact := _fact_in_language(sentence, _language(code), in_list=in_list):
            return fact
    return None


def _candidate_languages(sentence: str) -> Iterable[str]:
    """Return the languages that a sentence may be in, the likeliest first."""
    if _HANGUL.search(sentence):
        return ("ko",)
    if _KANA.search(sentence):
        return ("ja",)
    if runs_without_spaces(sentence):
        return ("zh",)
    guessed = guess_language(_WORD.findall(sentence.casefold()))
    return dict.fromkeys((guessed, *_LATIN)) if guessed in _LATIN else (ENGLISH, *_LATIN)


def _fact_in_language(sentence: str, spoken: _Language, *, in_list: bool) -> SpokenFact | None:
    start = lead_in.end() if (lead_in := spoken.lead_in.match(sentence)) else 0
    reminder = spoken.remind.match(sentence, start)
    statement = sentence[reminder.end() if reminder else start :]
    categories = (category for category, shape in spoken.shapes if shape.match(statement))
    category = next(categories, "rule" if in_list else "")
    if not category and reminder and spoken.clause.match(statement):
        category = "fact"
    if not category or spoken.not_a_fact.search(sentence):
        return None
    text = statement[:1].upper() + statement[1:]
    return SpokenFact(f"{SPEAKER}{text}" if spoken.first_person.search(text) else text, category)


def _is_statement(sentence: str) -> bool:
    """Whether it is not a question, too short, cut off or part of a quotation."""
    unspaced = sum(map(len, runs_without_spaces(sentence)))
    return (
        len(sentence) <= MAX_CHARACTERS
        and len(sentence.split()) + unspaced // _CHARACTERS_PER_WORD >= MIN_WORDS
        and not sentence.endswith(("?", "？", "..."))
        and sentence.count('"') % 2 == 0
    )


# -- the ends of sentences -------------------------------------------------------------------------

_END = re.compile(r"(?<=[.!?])(?<!\.\.)[\"”»)]?\s+|(?<=[。！？])[”」』）]?\s*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:(?P<always>e\.g|i\.e|cf|Dr|Mr|Mrs|Ms|Prof|St|Sr|Sra|M|Mme"
    r"|z\. ?B|d\. ?h|u\. ?a|p\. ?ej|p\. ?ex)"
    r"|etc|vs|approx|no|nr|bzw|usw|ca|ggf|evtl|inkl|[ap]\.m|\d{1,2})\.$",
    re.I,
)
_MONTH = re.compile(r"(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)\w*", re.I)


def _split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a person, who may begin them in lower case.

    A point after an abbreviation, or after the day of a German date, does not end a sentence.
    """
    joined = ""
    for part in _split_at_ends(text):
        ended = _ABBREVIATION.search(joined)
        continues = ended and (
            ended["always"]
            or (_MONTH.match(part) if joined[-2].isdigit() else not part[:1].isupper())
        )
        if joined and not continues:
            yield joined
            joined = part
        else:
            joined = f"{joined} {part}" if joined else part
    if joined:
        yield joined


def _split_at_ends(text: str) -> list[str]:
    return [part for part in _END.split(text) if part]
