"""Texts that must not be remembered: too short ones, recalled blocks, and secrets.

The checks look only at the text itself. There are four ways to find a secret:

1. the shape that a vendor gives to its keys (vendor_keys.txt);
2. the block of a private key, even one that was cut off;
3. the number of a card: length, first digits, groups and check digit all have to fit;
4. the words before it: a value that follows "password" or "token" (`_assigned_secrets`).

High entropy alone does not make a secret: commit ids, digests and UUIDs have as much of it as a key
(docs/decisions/0009-secrets.md has figures).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memwell.scripts import UNSPACED

RECALL_BEGIN = "<memwell-recall>"
"""The first line of a block of recalled facts."""
RECALL_END = "</memwell-recall>"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a text: from `start` up to `end` (exclusive)."""

    kind: str
    start: int
    end: int


# -- texts that are not facts ----------------------------------------------------------------------

_NAME = RECALL_BEGIN.strip("<>")
_CUT = len("<memw")
"""With fewer characters of the marker at the end of a text, it may be any text."""
_MARKER = re.compile(
    rf"(?:[<＜‹]|&lt;|&#60;|\\u003c|\\x3c|%3c)\s*\\?/?\s*{_NAME[: _NAME.index('-') + 2]}", re.I
)
_MAX_WORDS = 2
_MAX_LETTERS = 16
"""A text up to both is too short to be a fact: "Guten Morgen", "merci beaucoup"."""
_CHARACTERS_PER_WORD = 2
"""In scripts without spaces."""
_UNSPACED = re.compile(f"[{UNSPACED}]")


def rejection_reason(text: str) -> str:
    """Return the reason why a text is not a fact; "" if it may be one."""
    if not any(map(str.isalnum, text)):
        return "it is empty" if not text.strip() else "it has neither letters nor digits"
    if _is_recalled(text):
        return "it is a block that this memory recalled"
    if _is_too_short(text):
        return "it is too short to be a fact"
    return ""


def _is_recalled(text: str) -> bool:
    """Whether a text contains a recalled block, or the cut end of one.

    The marker may be quoted or escaped, and a shortened message may contain only half of it.
    """
    if _MARKER.search(text):
        return True
    text = text.strip().lower()
    return any(
        text.endswith(marker[:length]) or text.startswith(marker[-length:])
        for marker in (RECALL_BEGIN, RECALL_END)
        for length in range(_CUT, len(marker))
    )


def _is_too_short(text: str) -> bool:
    """Whether a text is as short as a greeting, and has no digit: a number may be a fact.

    Greetings and thanks are mostly one or two short words, in any language. A list of them would
    never be complete.
    """
    if any(map(str.isdigit, text)):
        return False
    words = [word for word in _UNSPACED.sub(" ", text).split() if any(map(str.isalpha, word))]
    count = len(words) + len(_UNSPACED.findall(text)) / _CHARACTERS_PER_WORD
    return count <= _MAX_WORDS and sum(map(str.isalpha, text)) <= _MAX_LETTERS


# -- secrets ---------------------------------------------------------------------------------------

_VENDORS = Path(__file__).with_name("vendor_keys.txt").read_text(encoding="utf-8").splitlines()
_SHAPES = [
    (kind, sign, re.compile(rf"(?<![A-Za-z0-9]){shape}(?![A-Za-z0-9])"))
    for kind, sign, shape in (re.split("  +", row) for row in _VENDORS if row[0] != "#")
]
"""Kind, a string that every such key contains (a quick first check), and the shape."""
_RUN = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_RUN = 12
"""Letters and digits in a row; names that consist of words have dashes more often."""
_FEWEST_CHARACTERS = 8
"""Different characters: a row of x is a placeholder."""

_PEM = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:(?:\\[nr]|[\s>\"'+])*+[A-Za-z0-9+/=]{16,}+)++")
_LONGEST_PEM = 20_000

_DIGITS = re.compile(r"(?<![\w.,/:#+-])\d(?:[ -]?\d){12,18}(?![\w/:]|[.,-]\d)")
_GROUPS = re.compile(
    r"\d+|\d{4}(?:([ -])\d{4})(?:\1\d{4})*(?:\1\d{1,4})?|\d{4}([ -])\d{6}\2\d{4,5}"
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2} ?$")
_ISSUERS = re.compile(
    r"""4(?:\d{12}|\d{15}|\d{18})           # Visa
      | (?:5[1-5]|2[2-7])\d{14}             # Mastercard
      | 3[47]\d{13}                         # American Express
      | 3(?:0[0-5]|[689]\d)\d{11}           # Diners
      | 35\d{14}                            # JCB
      | 6(?:011|4[4-9]\d|5\d\d|2\d\d)\d{12,15}   # Discover, UnionPay
      | (?:50|5[6-9]|6[37])\d{14}           # Maestro
    """,
    re.X,
)


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in a text, in order and without overlaps."""
    found = [
        *_private_keys(text),
        *_vendor_keys(text),
        *_card_numbers(text),
        *_assigned_secrets(text),
    ]
    found.sort(key=lambda secret: secret.start)
    merged: list[Secret] = []
    for secret in found:
        if merged and secret.start < merged[-1].end:
            last = merged.pop()
            secret = Secret(last.kind, last.start, max(last.end, secret.end))
        merged.append(secret)
    return merged


def redact(text: str) -> str:
    """Return the text with each secret replaced by its kind.

    The result is searched again: without one secret, the text beside it may look like another.
    """
    while found := find_secrets(text):
        for secret in reversed(found):
            text = f"{text[: secret.start]}[redacted {secret.kind}]{text[secret.end :]}"
    return text


def _vendor_keys(text: str) -> Iterator[Secret]:
    for kind, sign, shape in _SHAPES:
        if sign in text:
            for match in shape.finditer(text):
                if _is_random(match[0]):
                    yield Secret(kind, match.start(), match.end())


def _is_random(value: str) -> bool:
    """Whether a value looks random: it has a long run of letters with digits or both cases."""
    if len(set(value)) < _FEWEST_CHARACTERS or "EXAMPLE" in value:
        return False
    return any(
        len(run) >= _SHORTEST_RUN
        and not run.isdigit()
        and (not run.isalpha() or _has_random_capitals(run))
        for run in _RUN.findall(value)
    )


def _has_random_capitals(letters: str) -> bool:
    """Whether about half of the letters are capitals, not only the first of each word."""
    return 0.3 < sum(map(str.isupper, letters)) / len(letters) < 0.7


def _private_keys(text: str) -> Iterator[Secret]:
    """Yield private keys; the first line of a key alone is not one."""
    done = 0
    for match in _PEM.finditer(text):
        if match.start() < done:
            continue
        body = _PEM_BODY.match(text, match.end())
        ended = _PEM_END.search(text, match.end(), match.end() + _LONGEST_PEM)
        if ended and ended.start() - match.end() > 40:
            done = ended.end()
        elif body:
            done = body.end()
        else:
            continue
        yield Secret("private key", match.start(), done)


def _card_numbers(text: str) -> Iterator[Secret]:
    for match in _DIGITS.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        fits = _GROUPS.fullmatch(match[0]) and _ISSUERS.fullmatch(digits) and _passes_luhn(digits)
        iban = _IBAN.search(text, max(0, match.start() - 5), match.start())
        if fits and not iban and len(set(digits)) > 2:  # 4242 4242 4242 4242 is for tests
            yield Secret("card number", match.start(), match.end())


def _passes_luhn(digits: str) -> bool:
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0


# -- secrets by the words before them --------------------------------------------------------------

_PASSWORD = (
    r"pass[_-]?(?:word|phrase|wd|code)|pwd|passwort|kennwort|wachtwoord|mot\ de\ passe|contraseña"
    r"|senha|hasło|пароль|密码|密碼|パスワード|비밀번호"
)
_TOKEN = (
    r"api[_ -]?key|(?:secret|access|private|account|encryption|signing|auth|master)[_ -]?key"
    r"|secret|(?:auth|access|refresh|bearer|api|bot)?[_ -]?token|credentials?"
)
_ASSIGNED = re.compile(
    rf"""
    (?P<key>(?P<password>{_PASSWORD})|{_TOKEN})
    (?P<of>(?:\s(?:for|of|to|on|at|für|vom|von|zum|pour|de|para|per)\s[^.:=\n]{{1,40}}?)?)
    ["'`*_\])]{{0,4}}
    (?: \s*(?P<sign>:=|=>?|:|：)[*_]{{0,2}}\s*
      | \s(?P<spoken>is|was|ist|war|lautet:?|est|es|é|è|remains|set\ to|changed\ to)\s+(?:now\s+)? )
    (?: (?P<quote>["'`])(?P<quoted>[^"'`\n]{{4,200}}?)(?P=quote)
      | (?P<bare>[^\s"'`,;|<>(){{}}]{{4,400}}) )
    """,
    re.X | re.I,
)
_HEADER = re.compile(r"\b(?:bearer|basic|authorization:\s*\w+)\s+([A-Za-z0-9._~+/=-]{16,})", re.I)
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://([^\s:/@]{0,80}):([^\s/@]{3,200})@(?=[\w\[])", re.I
)
_FLAG = re.compile(
    r"\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,80}:([^\s\"']{4,200})"
    r"|\s--(?:password|token|api-key|secret)\s+[\"']?([^\s\"'-][^\s\"']{3,200})",
    re.I,
)
_PLACEHOLDER = re.compile(
    rf"""[*•·xX.#_?-]+ | [$%{{<\[&@(].* | .*(?:\$\{{|\{{\{{|<[^>]*>|\*{{3}}|x{{4}}|[.]{{3}}|…).*
      | .*(?:example|your|change[_-]?me|placeholder|dummy|redacted|insert|replace|sample|foobar).*
      | (?:(?:my|the|some|a|test|db|user|default|new|old|no|pg)[_-]?)?
        (?:{_PASSWORD}|{_TOKEN}|key|pw|pass|admin|root|user)s?\d{{0,3}}
      | (?:none|null|nil|true|false|undefined|required|optional|string|text|hidden|empty|unset
          |unknown|missing|invalid|stored|todo|tbd|n/a|value|test|guest|hunter2)
      | sha\d+[:-].* | (?:https?|file|vault|op|env|ssm|arn):.* | (?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)
      | (?:~|\.{{1,2}})?(?:/[\w.-]{{1,19}}){{2,}}/? | \d{{4}}-\d\d-\d\d.* | \d{{1,3}}[+-]?[a-z]*
      | [\w.+-]+@[\w-]+\.[\w.]+
    """,
    re.X | re.I,
)
_CODE = re.compile(
    r"(?:str|string|bytes|SecretStr|Optional|Any)\b.*|[A-Za-z_]\w*[.\[][A-Za-z_\d].*"
)
_SYMBOLS = frozenset("!@#$%^&*+=?~§")
_SHORTEST_WORD = 6
"""Characters of a password without quotes."""
_ENTROPY = 3.8
"""Bits per character; English words joined by dashes have fewer."""


def _assigned_secrets(text: str) -> Iterator[Secret]:
    position = 0
    while match := _ASSIGNED.search(text, position):
        position = match.end("key")  # the apparent value may be the next key
        start, end = match.span("bare" if match["quoted"] is None else "quoted")
        if match["quoted"] is None:
            end = start + len(text[start:end].rstrip(".,:;"))
        if _is_value(match, text[start:end]):
            yield Secret("password" if match["password"] else "token", start, end)
    for match in _HEADER.finditer(text):
        if _is_random(match[1]):
            yield Secret("token", *match.span(1))
    for match in _ADDRESS.finditer(text):
        if not _PLACEHOLDER.fullmatch(match[2]) and match[2] != match[1]:
            yield Secret("password", *match.span(2))
    for match in _FLAG.finditer(text):
        group = 1 if match[1] else 2
        if not _PLACEHOLDER.fullmatch(match[group]) and _is_mixed(match[group]):
            yield Secret("password", *match.span(group))


def _is_value(match: re.Match[str], value: str) -> bool:
    """Whether the text after a key is its value, and not a word about it, a name or a type."""
    quoted = match["quoted"] is not None
    if _PLACEHOLDER.fullmatch(value) or (not quoted and _CODE.fullmatch(value)):
        return False
    if any(map(str.isspace, value)):
        return match["key"].lower().endswith("phrase")
    if not match["password"]:
        return _is_random(value) or _is_high_entropy(value)
    if quoted or _is_mixed(value):
        return True
    in_environment = match["sign"] == "=" and match["key"].isupper()
    return in_environment and len(value) >= _SHORTEST_WORD


def _is_mixed(value: str) -> bool:
    """Whether a value has digits or symbols between letters, or is a number: not a word."""
    if len(value) < _SHORTEST_WORD:
        return False
    letters = any(map(str.isalpha, value))
    digits = any(map(str.isdigit, value))
    return value.isdigit() or (letters and (digits or not _SYMBOLS.isdisjoint(value)))


def _is_high_entropy(value: str) -> bool:
    """Whether a value that contains dashes is random."""
    shares = [value.count(character) / len(value) for character in set(value)]
    kinds = (str.isdigit, str.islower, str.isupper)
    return (
        len(value) >= 20
        and all(any(map(kind, value)) for kind in kinds)
        and -sum(share * math.log2(share) for share in shares) >= _ENTROPY
    )
