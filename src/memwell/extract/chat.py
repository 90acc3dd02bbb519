"""Extract facts from a person's message to an agent, by rules: facts for later conversations.

    preference   "I prefer ...", "I don't like ...", "My favourite editor is ..."
    rule         "Always ...", "Never ...", "From now on ...", "You should never ..."
    decision     "We decided ...", "We settled on ..."
    fact         "Remember that ...", "My name is ...", "Call me ...", "I work at ...", "We use ..."

A sentence has to begin with such a phrase. These give no facts: questions, assumptions, statements
that hold only for a short time, references to something outside the sentence ("I prefer the second
one"), code, logs, quotations and pasted text. To miss a fact costs less than to store a sentence
that is not one. The phrases are English; rules.toml has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memwell.extract.patterns import RULES, split_sentences, strip_markup
from memwell.ingest.markdown import FENCED_BLOCK

SPEAKER = "The user says: "
"""Goes before a sentence in the first person, because someone else will read it."""
MIN_WORDS = 3
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
        for sentence in split_sentences(strip_markup(part.text.replace("’", "'"))):
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
    r"\b(?:remember|keep in mind|from now on|rules?|preferences|conventions|decisions)\b", re.I
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
        continues = len(joined) >= _WRAPPED and joined[-1] not in ".!?:;" and line[:1].islower()
        if continues:
            joined += f" {line}"
        else:
            yield joined
            joined = line.rstrip()
    yield joined


# -- sentences -------------------------------------------------------------------------------------


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


_LEAD_IN, _REMIND, _CLAUSE, _NOT_A_FACT = (
    _compile(_RULES["patterns"][name]) for name in ("lead_in", "remind", "clause", "not_a_fact")
)
_SHAPES = [
    (category, _compile(shape)) for category, shapes in _RULES["shapes"].items() for shape in shapes
]
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]e|[Mm]y|[Mm]ine)\b")


def _fact_in_sentence(sentence: str, *, in_list: bool) -> SpokenFact | None:
    """Return the fact that a sentence states, if any."""
    start = lead_in.end() if (lead_in := _LEAD_IN.match(sentence)) else 0
    reminder = _REMIND.match(sentence, start)
    statement = sentence[reminder.end() if reminder else start :]
    categories = (category for category, shape in _SHAPES if shape.match(statement))
    category = next(categories, "rule" if in_list else "")
    if not category and reminder and _CLAUSE.match(statement):
        category = "fact"
    if not category or not _is_statement(sentence):
        return None
    text = statement[:1].upper() + statement[1:]
    return SpokenFact(f"{SPEAKER}{text}" if _FIRST_PERSON.search(text) else text, category)


def _is_statement(sentence: str) -> bool:
    """Whether it is not a question, an assumption, temporary, cut off or part of a quotation."""
    return (
        len(sentence) <= MAX_CHARACTERS
        and len(sentence.split()) >= MIN_WORDS
        and not sentence.endswith(("?", "？", "..."))
        and sentence.count('"') % 2 == 0
        and not _NOT_A_FACT.search(sentence)
    )
