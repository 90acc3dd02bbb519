"""Extract facts from a person's message to an agent, by rules: facts for later conversations.

    preference   "I prefer ...", "I don't like ...", "My favourite editor is ..."
    rule         "Always ...", "Never ...", "From now on ...", "You should never ..."
    decision     "We decided ...", "We settled on ..."
    fact         "Remember that ...", "My name is ...", "Call me ...", "I work at ...", "We use ..."

A sentence has to begin with such a phrase. These give no facts: questions, assumptions, statements
that hold only for a short time, references to something outside the sentence ("I prefer the second
one"), code, logs, quotations and pasted text. To miss a fact costs less than to store a sentence
that is not one. The phrases are English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memwell.extract.patterns import split_sentences, strip_markup
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


def _alternatives(words: str) -> str:
    """Return a pattern that matches one of the words, which are separated by semicolons."""
    return f"(?:{'|'.join(' '.join(word.split()) for word in words.split(';'))})"


_LEAD_IN = re.compile(
    "(?:"
    + _alternatives("""
    ok; okay; so; also; and; but; btw; by the way; oh; hey; hi; hello; well; yes; yeah; no;
    right; thanks; thank you; great; good; perfect; nice; please; one more thing; heads up; in
    general; generally; for the record; for future reference; just so you know; important
""")
    + r"\b[ ,.:!;–—-]+)+",
    re.I,
)
_REMIND = re.compile(
    _alternatives("remember; keep in mind; bear in mind; don't forget; note; make a note")
    + "(?:[,:]| that)? ",
    re.I,
)
_DO = _alternatives("""
    add; answer; ask; assume; avoid; break; bump; call; change; check; choose; commit; copy;
    create; delete; deploy; document; do; edit; end; escape; explain; fix; follow; force;
    format; give; ignore; import; include; install; keep; leave; link; log; make; mention;
    merge; modify; move; name; open; pin; prefer; prefix; print; push; put; quote; read; rebase;
    remove; rename; reply; respond; restart; return; review; run; save; say; send; set; ship;
    show; sign; skip; sort; speak; squash; start; stop; store; suggest; tag; talk; test; tell;
    touch; translate; trust; update; upgrade; use; validate; verify; wait; work; wrap; write
""")
_POINTER = _alternatives("""
    this; that; these; those; it; them; his; her; their; option; version; approach; you; your;
    yours; how; what; when; one; both; neither; either; (?-i:[A-D]); \\d+; to
    (?:see|know|have|go|try|get|start|wait|hear|think|fix|do|continue|add|leave); the
    (?:first|second|third|last|former|latter|other|previous|original|new|old|one|idea|way|same)
""")
_NAMED = rf"(?!{_POINTER}\b)"
"""The thing that is liked, used or decided must be named: "this" and "the second one" are not."""
_MINE = _alternatives("""
    names?; e-?mail; mail; address; phone; number; handle; username; login; account; pronouns;
    birthday; time ?zone; city; hometown; country; job; role; title; profession; team; manager;
    boss; wife; husband; partner; daughter; son; dog; cat; company; employer; editor; ide;
    shell; terminal; browser; distro; os; operating system; keyboard; language; mother tongue;
    stack; domain; website; blog; diet; allergy; hobby
""")
_STATE = _alternatives("""
    not; in; on; at; still; gone; missing; broken; failing; fails?; crash\\w*; flaky; stuck;
    hang(?:s|ing)?; red; down; slow; wrong; \\w+ing
""")
_SOMEBODY = _alternatives("""
    [\\w'-]*(?:er|or|ist|ian|yst); nurse; student; architect; chef; vegan; intern; consultant;
    parent
""")
_OFTEN = _alternatives("always; never; usually; mostly; only")
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (category, re.compile(shape, re.I))
    for category, shape in (
        ("preference", rf"I (?:(?:really|much|generally|usually|strongly) )?prefer {_NAMED}"),
        ("preference", rf"I (?:really )?(?:like|love|hate|dislike|can't stand) {_NAMED}(?!the\b)"),
        ("preference", rf"I (?:really )?(?:do not|don't) (?:like|drink|eat|use) {_NAMED}(?!the\b)"),
        ("preference", rf"I {_OFTEN} (?!run into){_DO} {_NAMED}"),
        (
            "preference",
            r"My (?:favou?rite|preferred|usual|default) [\w -]{2,40}? (?:is|are) "
            rf"{_NAMED}(?!{_STATE}\b)",
        ),
        (
            "rule",
            rf"(?:You (?:should|must) |We (?:should |must )?|I want you to )?"
            rf"(?:always|never) (?:ever )?(?!say never|give up){_DO}\b",
        ),
        ("rule", rf"(?:Do not|Don't) ever {_DO}\b"),
        (
            "rule",
            r"(?:If|When|Whenever|Before|After) [^,]{3,100}, (?:please )?"
            rf"(?:always|never) {_DO}\b",
        ),
        (
            "rule",
            r"(?:From now on|Going forward|In (?:the )?future|As of now)\b,? "
            r"(?!I (?:get|see)|it\b|this\b|that\b)",
        ),
        (
            "decision",
            r"(?:We|I|The team)(?: have|'ve)? (?:just |finally |now )?"
            r"(?:decided|agreed|settled|opted) (?:to|on|that|against|for|not) "
            r"(?!(?:this|that|it|nothing)\b)",
        ),
        ("decision", rf"(?:We(?:'re| are)|I(?:'m| am)) going with {_NAMED}"),
        ("decision", r"(?:The decision is|Decision:) "),
        ("fact", rf"My (?:[\w'-]+ ){{0,2}}?{_MINE} (?:is|are) {_NAMED}(?!{_STATE}\b)"),
        ("fact", r"(?:You can |Just )?call me \"?(?-i:[A-Z])"),
        ("fact", rf"I(?:'m| am) an? (?!(?:bit|little|lot|few)\b)(?:[\w'-]+ ){{0,4}}?{_SOMEBODY}\b"),
        (
            "fact",
            r"I(?:'m| am) (?:vegan|vegetarian|allergic to|based in|from|colou?r.?blind"
            r"|left-handed|dyslexic|new to)\b",
        ),
        ("fact", rf"I (?:live in|work (?:at|for|as|from)|speak|come from) {_NAMED}"),
        (
            "fact",
            rf"We (?:only |always )?use {_NAMED}(?!an? |the )[^,]{{2,60}}?"
            r"(?:, not| for| as| instead of) ",
        ),
        ("fact", r"Our [\w '-]{2,60}? (?:is|are) (?:called|named|hosted|deployed|stored) "),
        ("fact", r"Our [\w '-]{2,60}? (?:lives?|runs?) (?:in|on|at) "),
    )
)
_CLAUSE = re.compile(
    r"(?!(?:this|that|it|they|he|she|these|those|there|how|when|what|to|the (?:time|day))\b)"
    r"(?:[\w./'-]+ ){1,8}?"
    + _alternatives("""
    is; are; has; have; needs?; uses?; must; should; cannot; can't; won't; goes?; runs?; lives?;
    listens?; belongs?; prefers?; wants?; expects?; takes?; comes?; means; works?; starts?;
    ends?; likes?
""")
    + " ",
    re.I,
)
"""A clause that may follow "remember that": a subject and a verb."""
_NOT_A_FACT = re.compile(
    r"\b"
    + _alternatives("""
    would; could; might; maybe; perhaps; possibly; probably; suppose; imagine; pretend;
    assuming; let'?s say; what if; hypothetically; for example; for instance; e\\.g; as if; not
    sure; whether; wish; I (?:think|guess|wonder|believe)
""")
    + r"\b|\b"
    + _alternatives("""
    today; tonight; tomorrow; yesterday; (?<!from )(?<!of )now; at the moment; currently; so
    far; yet; lol; temporarily; once; until \\w+; (?:this|next)
    (?:time|week|month|morning|afternoon); in this
    (?:case|pr|branch|file|function|commit|task|session|example|test)
""")
    + r"\b|\b(?:this|that|these|those|it|here|above|below|then|to)\W*$",
    re.I,
)
"""Assumptions, statements for a short time, and references to something outside the sentence."""
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
