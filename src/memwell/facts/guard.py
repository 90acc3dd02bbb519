"""What must not be remembered: what says nothing, what the memory said itself, and secrets.

A text is looked at as it stands; nothing is asked of anyone else. Secrets are found in four ways:

1. by the shape that a vendor gives to its keys (`_VENDORS`);
2. as the block of a private key, even one that was cut off;
3. as the number of a card: length, first digits, groups and check digit all have to fit;
4. by what is said of them: a password or token with a value that is one (`_assigned`).

Entropy alone is no reason: commit ids, digests and UUIDs have as much of it as a key
(docs/decisions/0009-secrets.md has figures).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

RECALL_BEGIN = "<memwell-recall>"
"""The line that a block of recalled facts begins with."""
RECALL_END = "</memwell-recall>"


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret stands in a text: from `start` up to `end` (exclusive)."""

    kind: str
    start: int
    end: int


# -- what is no fact -------------------------------------------------------------------------------

_NAME = RECALL_BEGIN.strip("<>")
_CUT = len("<memw")
"""With fewer characters of the marker at an end of the text, it may be anything."""
_MARKER = re.compile(
    rf"(?:[<＜‹]|&lt;|&#60;|\\u003c|\\x3c|%3c)\s*\\?/?\s*{_NAME[: _NAME.index('-') + 2]}", re.I
)
_GREETINGS = frozenset(
    """
    hi; hello; hey; hiya; howdy; yo; good morning; good afternoon; good evening; good night;
    good day; morning; greetings; welcome; welcome back; nice to meet you; how are you;
    how are you doing; how is it going; whats up; sup; bye; goodbye; bye bye; see you; see ya;
    see you later; see you soon; see you tomorrow; talk to you later; take care; cheers;
    have a nice day; ping; test; thanks; thank you; thx; ty; many thanks; much appreciated;
    appreciated; no problem; no worries; np; youre welcome; you are welcome; my pleasure; please;
    sorry; my bad; ok; okay; okey; k; kk; yes; yep; yeah; yup; no; nope; sure; sure thing;
    of course; certainly; absolutely; exactly; right; alright; all right; fine; good; great; cool;
    nice; awesome; perfect; excellent; wonderful; amazing; brilliant; lovely; well done; good job;
    great job; great work; good work; nice work; got it; i see; understood; makes sense;
    sounds good; sounds great; looks good; looks good to me; lgtm; will do; done; noted; roger;
    go ahead; go on; continue; proceed; agreed; i agree; lol; haha; hahaha; hm; hmm; oh; ah; wow;
    thats great; that is great; thats it; hallo; guten morgen; guten tag; guten abend; gute nacht;
    moin; servus; grüß gott; grüezi; tschüss; tschüs; auf wiedersehen; bis bald; bis später;
    bis morgen; danke; danke schön; dankeschön; danke sehr; vielen dank; herzlichen dank; bitte;
    bitte schön; gern geschehen; gerne; ja; nein; genau; klar; alles klar; verstanden; in ordnung;
    passt; super; prima; gut; sehr gut; klingt gut; bonjour; bonsoir; bonne nuit; salut; coucou;
    au revoir; à bientôt; à demain; merci; merci beaucoup; de rien; oui; non; daccord; entendu;
    parfait; très bien; ça marche; sil vous plaît; sil te plaît; hola; buenos días; buenas tardes;
    buenas noches; buenas; adiós; hasta luego; hasta mañana; gracias; qué tal; muchas gracias;
    de nada; sí; vale; claro; perfecto; entendido; muy bien; de acuerdo; por favor; ciao;
    buongiorno; buonasera; buonanotte; salve; arrivederci; grazie; grazie mille; prego; sì;
    va bene; perfetto; certo; capito; daccordo; olá; oi; bom dia; boa tarde; boa noite; tchau;
    até logo; obrigado; obrigada; muito obrigado; sim; não; tudo bem; beleza; hoi; goedemorgen;
    goedemiddag; goedenavond; dag; doei; dank je; dank je wel; dank u; bedankt; graag gedaan; nee;
    prima zo; hej; hejsan; god morgon; tack; tack så mycket; tak; mange tak; takk; tusen takk;
    moi; kiitos; hyvää huomenta; cześć; dzień dobry; dobry wieczór; do widzenia; dziękuję;
    tak jest; ahoj; dobrý den; děkuji; merhaba; selam; günaydın; teşekkürler; teşekkür ederim;
    tamam; evet; hayır; привет; здравствуйте; здравствуй; доброе утро; добрый день; добрый вечер;
    пока; до свидания; спасибо; спасибо большое; большое спасибо; пожалуйста; да; нет; хорошо;
    понятно; ладно; ок; привіт; дякую; добре; 你好; 您好; 早上好; 早安; 晚上好; 晚安; 再见; 谢谢;
    謝謝; 多谢; 不客气; 好的; 好; 是的; 明白了; 没问题; 嗨; こんにちは; こんばんは; おはよう;
    おはようございます; おやすみ; おやすみなさい; さようなら; またね; ありがとう;
    ありがとうございます; どうもありがとう; どうも; どういたしまして; はい; いいえ; わかりました;
    了解; 了解です; 分かりました; よろしくお願いします; 안녕; 안녕하세요; 감사합니다; 고마워;
    고맙습니다; 네; 아니요; 알겠습니다; 좋아요; مرحبا; السلام عليكم; صباح الخير; مساء الخير; شكرا;
    شكرا جزيلا; نعم; لا; حسنا; שלום; תודה; בוקר טוב; כן; לא; नमस्ते; धन्यवाद; शुक्रिया; हाँ; नहीं;
    ठीक है; xin chào; cảm ơn; สวัสดี; ขอบคุณ; halo; selamat pagi; terima kasih
    """.replace("\n    ", " ")
    .strip()
    .split("; ")
)
_FILLERS = frozenset(
    """
    there; all; everyone; everybody; team; folks; guys; friend; my friend; again; so much;
    very much; a lot; a bunch; to you; to you too; you too; for that; for now; then; and; just;
    really; very; too; today; all good; und; zusammen; nochmal; sehr; dir; ihnen; tous; à tous; et;
    a todos; y; tutti; a tutti; e; well; that; thats; this; is; it; for your help; for the help;
    for everything
    """.replace("\n    ", " ")
    .strip()
    .split("; ")
)
_LONGEST_GREETING = 12
_LONGEST_PHRASE = 5
_MARKS = re.compile(r"[^\w\s]|_")


def rejection_reason(text: str) -> str:
    """Return why a text is no fact; nothing if it may be one."""
    if not any(map(str.isalnum, text)):
        return "it is empty" if not text.strip() else "it has neither letters nor digits"
    if _is_recalled(text):
        return "it is a block that this memory recalled"
    if _only_greets(text):
        return "it is a bare greeting or acknowledgement"
    return ""


def _is_recalled(text: str) -> bool:
    """Whether a recalled block, or a cut end of one, is in it.

    The marker is found wherever it stands: in quotes, escaped, or with only the half that a
    shortened message kept of it.
    """
    if _MARKER.search(text):
        return True
    text = text.strip().lower()
    return any(
        text.endswith(marker[:length]) or text.startswith(marker[-length:])
        for marker in (RECALL_BEGIN, RECALL_END)
        for length in range(_CUT, len(marker))
    )


def _only_greets(text: str) -> bool:
    folded = _MARKS.sub(" ", re.sub(r"['’`´]", "", unicodedata.normalize("NFKC", text).casefold()))
    words = folded.split()
    if not 0 < len(words) <= _LONGEST_GREETING:
        return False
    # Up to each word: None where the words are no such phrases, else whether one of them greets.
    greets: list[bool | None] = [False, *(None for _ in words)]
    for end in range(1, len(words) + 1):
        for start in range(max(0, end - _LONGEST_PHRASE), end):
            phrase = " ".join(words[start:end])
            if greets[start] is not None and (phrase in _GREETINGS or phrase in _FILLERS):
                greets[end] = greets[end] or greets[start] or phrase in _GREETINGS
    return bool(greets[-1])


# -- secrets ---------------------------------------------------------------------------------------

_ID = r"[A-Za-z0-9_-]"
_VENDORS: tuple[tuple[str, str, str], ...] = (
    ("Anthropic key", "sk-ant-", rf"sk-ant-{_ID}{{24,}}"),
    ("OpenAI key", "sk-", rf"sk-{_ID}{{20,}}"),
    ("GitHub token", "gh", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    ("GitHub token", "github_pat_", r"github_pat_\w{40,}"),
    ("GitLab token", "gl", rf"gl(?:pat|ptt|rt|dt|cbt|oas|ft|soat)-(?:t\d_)?{_ID}{{20,}}"),
    ("AWS key id", "A", r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    ("Google key", "AIza", rf"AIza{_ID}{{35}}"),
    ("Google secret", "GOCSPX-", rf"GOCSPX-{_ID}{{24,}}"),
    ("Google token", "ya29.", rf"ya29\.{_ID}{{30,}}"),
    ("Slack token", "xox", r"xox[abeoprs]-(?:\d+-)*[A-Za-z0-9-]{10,}"),
    ("Slack token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{20,}"),
    ("Slack webhook", "hooks.slack.com/", r"hooks\.slack\.com/services/T\w+/B\w+/\w{20,}"),
    ("Stripe key", "_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("Stripe secret", "whsec_", r"whsec_[A-Za-z0-9]{24,}"),
    ("SendGrid key", "SG.", rf"SG\.{_ID}{{16,32}}\.{_ID}{{32,64}}"),
    ("Twilio key", "SK", r"SK[0-9a-f]{32}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", rf"pypi-{_ID}{{50,}}"),
    ("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    ("xAI key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("Replicate token", "r8_", r"r8_[A-Za-z0-9]{30,}"),
    ("NVIDIA key", "nvapi-", rf"nvapi-{_ID}{{40,}}"),
    ("DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,}"),
    ("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    ("Telegram token", ":AA", rf"(?:bot)?\d{{8,10}}:AA{_ID}{{33}}"),
    ("Discord token", ".", rf"[MNO]{_ID}{{23,27}}\.{_ID}{{6}}\.{_ID}{{27,45}}"),
    ("JSON web token", "eyJ", rf"eyJ{_ID}{{10,}}\.eyJ{_ID}{{10,}}\.{_ID}{{10,}}"),
)
"""Kind, what has to be in a text for it to be worth looking, and the shape."""
_SHAPES = [
    (kind, sign, re.compile(rf"(?<![A-Za-z0-9]){shape}(?![A-Za-z0-9])"))
    for kind, sign, shape in _VENDORS
]
_RUN = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_RUN = 12
"""Of letters and digits in a random text; names made of words have dashes more often."""
_FEWEST_CHARACTERS = 8
"""Different ones: a row of x is a placeholder."""

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
    """Return the secrets in a text, in their order; none overlaps another."""
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
    """Return the text with its secrets replaced by what kind they are of.

    What is left is looked at again: without the secret, its neighbour may stand out.
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
    """Whether a value looks drawn by lot: a long run of letters with digits or both cases."""
    if len(set(value)) < _FEWEST_CHARACTERS or "EXAMPLE" in value:
        return False
    return any(
        len(run) >= _SHORTEST_RUN
        and not run.isdigit()
        and (not run.isalpha() or _has_random_capitals(run))
        for run in _RUN.findall(value)
    )


def _has_random_capitals(letters: str) -> bool:
    """Whether capitals are among letters as chance puts them, not one for each word."""
    return 0.3 < sum(map(str.isupper, letters)) / len(letters) < 0.7


def _private_keys(text: str) -> Iterator[Secret]:
    """Yield private keys; a mention of the first line alone is none."""
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


# -- secrets by what is said of them ---------------------------------------------------------------

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
"""Of a password without quotes around it."""
_ENTROPY = 3.8
"""Bits a character; English words joined by dashes have fewer."""


def _assigned_secrets(text: str) -> Iterator[Secret]:
    position = 0
    while match := _ASSIGNED.search(text, position):
        position = match.end("key")  # what seems to be its value may be the next key
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
    """Whether what follows a key is its value, and not a word about it, a name or a type."""
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
    """Whether it is no word of a language: digits or symbols between letters, or a number."""
    if len(value) < _SHORTEST_WORD:
        return False
    letters = any(map(str.isalpha, value))
    digits = any(map(str.isdigit, value))
    return value.isdigit() or (letters and (digits or not _SYMBOLS.isdisjoint(value)))


def _is_high_entropy(value: str) -> bool:
    """Whether a value with dashes in it is random all the same."""
    shares = [value.count(character) / len(value) for character in set(value)]
    kinds = (str.isdigit, str.islower, str.isupper)
    return (
        len(value) >= 20
        and all(any(map(kind, value)) for kind in kinds)
        and -sum(share * math.log2(share) for share in shares) >= _ENTROPY
    )
