"""The settings of everything that runs on this machine; `providers` has those of models."""

from __future__ import annotations

from math import inf

from memwell.config.fields import Section, setting


class StoreSettings(Section):
    """Where the memory is stored."""

    url: str = setting(
        "",
        "The server that stores the memory, as postgresql://USER@HOST/DATABASE, for many agents"
        " and machines. Empty: files in the home folder.",
        secret=True,
    )
    tenant: str = setting(
        "default", "The tenant on that server. A tenant never sees the rows of another one."
    )
    prepare: str = setting(
        "auto",
        "Whether the server prepares statements that repeat: on, off, or auto, which is on unless"
        " a pooler stands before the server.",
        one_of=("auto", "on", "off"),
    )
    slow_ms: int = setting(
        0,
        "Statements that take longer are logged with the name of their step. 0: none.",
        limits=(0, 10**9),
    )


class TenantsSettings(Section):
    """Limits of each tenant of a server that has several."""

    requests_per_minute: int = setting(
        0, "Requests that a tenant may send in a minute. 0: any number.", limits=(0, 10**9)
    )
    requests_at_once: int = setting(
        0, "Requests of a tenant that run at the same time. 0: any number.", limits=(0, 10**6)
    )
    stored_mb: float = setting(
        0.0,
        "Megabytes of texts, vectors and uploaded files that a tenant may store. 0: any.",
        limits=(0, 10**9),
    )
    statement_seconds: float = setting(
        60.0,
        "Seconds that the server may take for one statement of a tenant. 0: any.",
        limits=(0, 10**6),
    )
    named_in_metrics: int = setting(
        0,
        "The busiest tenants whose figures /metrics shows by name to administrators of the server."
        " 0: none, because the names may be private.",
        limits=(0, 1000),
    )
    audit: bool = setting(
        False,
        "Whether a server logs who asked for what in audit.jsonl of the home, without contents.",
    )
    proxy_secret: str = setting(
        "",
        "The key by which a trusted proxy signs the tenant of a request. Empty: only tokens name"
        " tenants.",
        secret=True,
    )


class ScanSettings(Section):
    """Which files of a workspace are notes."""

    extra: tuple[str, ...] = setting(
        (),
        "Paths and globs in the workspace to index besides the conventional ones, if the command"
        " names no path. Empty, so that nothing is indexed unasked.",
    )
    formats: tuple[str, ...] = setting(
        ("markdown", "text", "rst", "org", "notebook", "mail", "pdf", "docx", "epub"),
        "Formats of the files that are notes. Besides these: html, code, and those of installed"
        " packages. Pages and source code are not among them, because a folder may have thousands.",
    )
    max_file_mb: float = setting(
        10.0,
        "Larger files are skipped: they are rarely notes and would crowd the results.",
        limits=(0.001, 1_000_000),
    )
    max_document_mb: float = setting(
        100.0,
        "The same for PDF, DOCX and EPUB files, notebooks and mail: their text is a small part of"
        " them.",
        limits=(0.001, 1_000_000),
    )
    date: str = setting(
        "note",
        "Where the date of a note comes from. note: its front matter or its path. file: if it has"
        " none there, the last commit of its file in git, otherwise the time the file was changed.",
        one_of=("note", "file"),
    )


class ChunkingSettings(Section):
    """How notes are cut into chunks."""

    size: int = setting(
        400, "Tokens of a chunk: about one idea, and cheap in a prompt.", limits=(16, 8192)
    )
    overlap: int = setting(
        80,
        "Tokens that a chunk repeats from the one before, so that a thought at the cut is"
        " complete in one of them.",
        limits=(0, 4096),
    )


class VectorsSettings(Section):
    """How the nearest vectors are found."""

    backend: str = setting(
        "scan",
        "scan reads a compact copy in memory; sqlite-vec needs no copy and is slower; lancedb"
        " stores the vectors in a folder or on S3.",
        one_of=("scan", "sqlite-vec", "lancedb"),
    )
    lance_uri: str = setting(
        "",
        "Where lancedb stores the vectors: a folder, or s3://BUCKET/FOLDER. Empty: `lance` next"
        " to the index.",
    )


class SearchSettings(Section):
    """How a search ranks and what it returns."""

    mode: str = setting(
        "hybrid",
        "Keyword search and vector search together: each finds what the other misses.",
        one_of=("hybrid", "words", "meaning"),
    )
    fusion: str = setting(
        "standard",
        "How both rankings become one: standard is the best of the three, as measured.",
        one_of=("standard", "rrf", "weighted"),
    )
    vector_weight: float = setting(
        0.7, "Weight of vector search, in rrf and weighted.", limits=(0, 1000)
    )
    text_weight: float = setting(
        0.3, "Weight of keyword search, in rrf and weighted.", limits=(0, 1000)
    )
    words_weight: float = setting(
        0.21,
        "Weight of keyword search, in standard, where its best passage stands out as chance alone"
        " would let it. Chosen on seven datasets (docs/ranking.md).",
        limits=(0, 1),
    )
    rrf_k: float = setting(
        60.0, "In rrf: the higher, the less the first ranks stand out.", limits=(0, 100_000)
    )
    normaliser: str = setting(
        "saturation",
        "In weighted: how a BM25 score becomes a number between 0 and 1.",
        one_of=("saturation", "sigmoid", "min_max", "over_maximum", "reciprocal_position"),
    )
    group: str = setting(
        "notes",
        "What a hit is: a note with its best passage, or each passage. By note, six hits are six"
        " notes.",
        one_of=("notes", "passages"),
    )
    diversity: str = setting(
        "off",
        "mmr ranks a hit lower if it repeats a better one; cluster shows one hit of each group of"
        " similar ones. Off, since a question may need several similar passages.",
        one_of=("off", "mmr", "cluster"),
    )
    mmr_lambda: float = setting(
        0.7, "With mmr: 1 is relevance alone, 0 is difference alone.", limits=(0, 1)
    )
    similarity: str = setting(
        "words",
        "With mmr and cluster: compare hits by their words or by their vectors.",
        one_of=("words", "vectors"),
    )
    cluster_similarity: float = setting(
        0.8, "With cluster: hits at least this similar form a group.", limits=(0, 1)
    )
    decay: str = setting(
        "relative",
        "How notes age: compared with the newest note that answers about as well (relative),"
        " from today (plain), or not at all (off).",
        one_of=("relative", "plain", "off"),
    )
    half_life: float = setting(
        30.0,
        "Days in which a dated note loses half of what it can lose: a month, as in daily work.",
        limits=(0.001, 1_000_000),
    )
    decay_floor: float = setting(
        0.7,
        "With relative: the share of its score that even the oldest note keeps. If two notes"
        " answer equally well, the newer one ranks first, and hardly any query gets worse.",
        limits=(0, 1),
    )
    evergreen: tuple[str, ...] = setting(
        (), "Globs of notes that do not age although they have a date."
    )
    candidate_multiplier: int = setting(
        4,
        "Candidates per hit that keyword search and vector search each contribute, if that is"
        " more than 100; and candidates per hit for mmr and cluster.",
        limits=(1, 1000),
    )
    k: int = setting(6, "Hits that a search returns: few enough to read.", limits=(1, 100_000))
    min_score: float = setting(
        0.15,
        "Hits with a lower relevance are marked as weak. At 0.15 six of ten unrelated questions"
        " find only weak hits or nothing, and hardly any good question does.",
        limits=(0, 1),
    )
    hyde_enabled: bool = setting(
        False,
        "Let recall also search by an answer that a language model makes up. Off, because the"
        " message is sent to that model.",
        safe=False,
    )
    hyde_model: str = setting(
        "", "The model, written as in llm.default. Empty: llm.default.", safe=False
    )
    hyde_mode: str = setting(
        "add",
        "add appends the hits of the made-up answer, so that no hit of the message is lost;"
        " replace uses the answer instead of the message in vector search.",
        one_of=("add", "replace"),
        safe=False,
    )


class FactsSettings(Section):
    """How facts are recognised and how long they live."""

    duplicate_similarity: float = setting(
        0.9,
        "A new fact with at least this cosine to a known one is compared with it word by word: if"
        " they differ only in inflection, it is a duplicate; else it is stored, and the answer"
        " names the known one. Above 1 no vectors are compared.",
        limits=(0, 2),
    )
    lifetimes: tuple[str, ...] = setting(
        (),
        "Lifetimes of decay classes that differ from the table in docs/facts.md, such as"
        " stable=180d or session=never.",
    )


class BackupSettings(Section):
    """Automatic backups of the facts in files; a server has its own."""

    every: float = setting(
        1.0,
        "Days between automatic backups of the facts. A change of a fact writes one if the newest"
        " is older: a day is the most that a mistake can cost. 0: no automatic backups.",
        limits=(0, inf),
    )
    daily: int = setting(
        7,
        "Days of which the newest backup is kept: a loss is usually noticed within a week.",
        limits=(1, 10_000),
    )
    weekly: int = setting(
        4,
        "Weeks before those days of which the newest backup is kept, for a loss that is noticed"
        " late.",
        limits=(0, 10_000),
    )
    max_mb: float = setting(
        500.0,
        "Space that all automatic backups may take; the oldest ones are deleted first. 500 MB are"
        " eleven backups of about 100,000 facts.",
        limits=(0.001, inf),
    )


class RecallSettings(Section):
    """How many memories a prompt receives, and how often."""

    again_after: float = setting(
        60.0,
        "Minutes for which a session does not receive the same passage again: it is still in the"
        " prompt. 0: always send it again.",
        limits=(0, inf),
    )
    budget: int = setting(
        800, "Tokens of the recalled block: the user pays for them.", limits=(1, 1_000_000)
    )
    k: int = setting(
        3,
        "The most passages that a prompt receives. More would bury the ones that fit.",
        limits=(1, 1000),
    )
    min_score: float = setting(
        0.5,
        "The lowest relevance of a recalled passage: a prompt is not a question to the memory, so"
        " only what clearly fits is recalled.",
        limits=(0, 1),
    )


class IngestSettings(Section):
    """Which files facts are extracted from, and how."""

    paths: tuple[str, ...] = setting(
        ("skills/**/*.md", "TOOLS.md", "AGENTS.md"),
        "The files that `ingest-files` reads: those that instruct agents.",
    )
    chunk_size: int = setting(
        800, "Characters sent to a language model at a time.", limits=(100, 100_000)
    )
    overlap: int = setting(
        100, "Characters repeated from the part before; at most half a part.", limits=(0, 50_000)
    )


class SyncSettings(Section):
    """When a search brings the index up to date."""

    on_search: bool = setting(True, "Sync the index before a search if that is cheap.")
    cheap_notes: int = setting(
        50,
        "Changed notes that a search indexes itself (about a quarter of a second). If there are"
        " more, it reports how stale the index is.",
        limits=(0, inf),
    )
    cheap_files: int = setting(
        20_000,
        "Notes in a workspace up to which a search looks for changes at all (up to a fifth of a"
        " second).",
        limits=(0, inf),
    )


class NoteSettings(Section):
    """Where `memwell note` writes."""

    folder: str = setting(
        "memory", "The folder of the daily logs that `memwell note` writes, as agents do."
    )
