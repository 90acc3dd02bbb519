"""Every setting in one table, with its default and why that is the default."""

from __future__ import annotations

from dataclasses import dataclass

Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name, default, why that is the default, and what it may be."""

    name: str
    default: Value
    reason: str
    minimum: float | None = None
    maximum: float | None = None
    one_of: tuple[str, ...] = ()
    secret: bool = False
    """Its value is never shown."""
    fallback_env: str = ""
    """A variable of the environment that is taken where nothing else is said."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "MEMWELL_" + self.name.replace(".", "_").replace("-", "_").upper()

    @property
    def user_level_only(self) -> bool:
        """Whether a workspace may not set it: a folder that was cloned must not send notes away."""
        return self.name.startswith(
            ("embedding.", "vectors.", "llm.", "search.hyde_", "remote.", "store.")
        )


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "store.url",
        "",
        "Where the memory is kept: postgresql://USER@HOST/DATABASE, for many"
        " agents and machines; empty: in files of the home.",
        secret=True,
    ),
    Setting("store.tenant", "default", "Whose rows on that server: no tenant sees another's."),
    Setting("agent", "main", "Whose index: each agent has one of its own under the home folder."),
    Setting(
        "scan.extra",
        (),
        "Paths and globs of the workspace to take besides the"
        " conventional ones when no path is named; none, so that nothing is indexed unasked.",
    ),
    Setting(
        "scan.max_file_mb",
        10.0,
        "A larger file is hardly a note and would crowd the results.",
        minimum=0.001,
    ),
    Setting(
        "chunk.size",
        400,
        "Tokens of a chunk: about one idea, and cheap to put into a prompt.",
        minimum=16,
        maximum=8192,
    ),
    Setting(
        "chunk.overlap",
        80,
        "Tokens a chunk repeats of the one before, so that a thought that"
        " straddles the cut is whole in one of them.",
        minimum=0,
        maximum=4096,
    ),
    Setting(
        "embedding.chain",
        ("minilm",),
        "Providers of vectors, the first that can be used is;"
        " minilm is on this machine. A remote one is used only if named. Empty: words alone.",
    ),
    Setting(
        "embedding.on_search",
        16,
        "Passages that a search embeds by itself when they came"
        " since (about a second); more wait for `memwell index`.",
        minimum=0,
    ),
    Setting(
        "embedding.cache_mb",
        256.0,
        "Vectors kept by text, so that none is embedded twice:"
        " about 150,000 passages of the default model.",
        minimum=0,
    ),
    Setting(
        "embedding.keep_days",
        30.0,
        "Vectors of a former model are kept this long, to go back to.",
        minimum=0,
    ),
    Setting(
        "embedding.gguf.model",
        "embeddinggemma-300M-Q8_0.gguf",
        "A GGUF file, by path or by its name in the folder.",
    ),
    Setting("embedding.gguf.folder", "", "Where GGUF files are; empty is `models` in the home."),
    Setting("embedding.openai.model", "text-embedding-3-small", "Cheap, and good enough."),
    Setting(
        "embedding.openai.dimensions", 1536, "What that model gives.", minimum=1, maximum=65_536
    ),
    Setting(
        "embedding.openai.base_url",
        "https://api.openai.com/v1",
        "Any address that speaks the same protocol: Ollama, LM Studio, vLLM, llama-server.",
    ),
    Setting(
        "embedding.openai.key",
        "",
        "Empty is the environment's OPENAI_API_KEY.",
        secret=True,
        fallback_env="OPENAI_API_KEY",
    ),
    Setting("embedding.gemini.model", "gemini-embedding-001", "Google's present one."),
    Setting(
        "embedding.gemini.dimensions",
        768,
        "A quarter of the full length, hardly worse.",
        minimum=1,
        maximum=65_536,
    ),
    Setting(
        "embedding.gemini.base_url",
        "https://generativelanguage.googleapis.com/v1beta",
        "Google's own address.",
    ),
    Setting(
        "embedding.gemini.key",
        "",
        "Empty is the environment's GEMINI_API_KEY.",
        secret=True,
        fallback_env="GEMINI_API_KEY",
    ),
    Setting("embedding.sentence-transformers.model", "", "A folder with such a model."),
    Setting("embedding.static.model", "", "A folder with a model in the model2vec format."),
    Setting(
        "vectors.backend",
        "scan",
        "How the nearest vectors are found: by a scan of a compact"
        " copy in memory; slower, without the copy, in SQL by sqlite-vec; or by lancedb, in a"
        " folder or on S3.",
        one_of=("scan", "sqlite-vec", "lancedb"),
    ),
    Setting(
        "vectors.lance_uri",
        "",
        "Where lancedb keeps them: a folder, or s3://BUCKET/FOLDER;"
        " empty is `lance` beside the index.",
    ),
    Setting(
        "search.mode",
        "hybrid",
        "By words and meaning together: each finds what the other misses.",
        one_of=("hybrid", "words", "meaning"),
    ),
    Setting(
        "search.fusion",
        "standard",
        "How words and meaning become one order: the best of the three, measured.",
        one_of=("standard", "rrf", "weighted"),
    ),
    Setting(
        "search.vector_weight", 0.7, "Of meaning, in rrf and weighted.", minimum=0, maximum=1000
    ),
    Setting("search.text_weight", 0.3, "Of words, in rrf and weighted.", minimum=0, maximum=1000),
    Setting(
        "search.words_weight",
        0.4,
        "Of words, in standard, where nothing speaks for more or"
        " less: the best of many sets, each left out in turn.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "search.rrf_k",
        60.0,
        "The higher, the less the first ranks stand out, in rrf.",
        minimum=0,
        maximum=100_000,
    ),
    Setting(
        "search.normaliser",
        "saturation",
        "How BM25 is brought between 0 and 1, in weighted.",
        one_of=("saturation", "sigmoid", "min_max", "over_maximum", "reciprocal_position"),
    ),
    Setting(
        "search.diversity",
        "off",
        "Whether hits that say the same as a better one give way"
        " (mmr), or one is shown for each group that is alike (cluster): a question may need"
        " several that are alike.",
        one_of=("off", "mmr", "cluster"),
    ),
    Setting(
        "search.mmr_lambda",
        0.7,
        "With mmr: 1 is relevance alone, 0 is difference alone.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "search.similarity",
        "words",
        "With mmr and cluster: by what two hits are alike.",
        one_of=("words", "vectors"),
    ),
    Setting(
        "search.cluster_similarity",
        0.8,
        "With cluster: from which similarity on hits are one group.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "search.decay",
        "relative",
        "How notes age: against the newest that answers about as"
        " well (relative), from today without mercy (plain), or not at all (off).",
        one_of=("relative", "plain", "off"),
    ),
    Setting(
        "search.half_life",
        30.0,
        "Days in which a dated note loses half of what it can lose: a month, as in daily work.",
        minimum=0.001,
        maximum=1_000_000,
    ),
    Setting(
        "search.decay_floor",
        0.75,
        "With relative: what even the oldest note keeps of its"
        " score. Of two answers the newer comes first, and hardly a question is harmed.",
        minimum=0,
        maximum=1,
    ),
    Setting("search.evergreen", (), "Notes that do not age though they have a date, as globs."),
    Setting(
        "search.candidate_multiplier",
        4,
        "Candidates of each leg for each hit, where that is"
        " more than 100; and hits to choose from, where they are to differ.",
        minimum=1,
        maximum=1000,
    ),
    Setting(
        "search.k", 6, "Hits a search returns: few enough to read.", minimum=1, maximum=100_000
    ),
    Setting(
        "search.min_score",
        0.11,
        "Hits below this relevance are dropped: the worst strangers"
        " go, and hardly a good hit does. From 0.2 on four of five foreign questions find"
        " nothing.",
        minimum=0,
        maximum=1,
    ),
    Setting(
        "facts.duplicate_similarity",
        0.95,
        "Cosine from which on a fact that is told is one"
        " that is known, if numbers and negations agree; above 1 only the words decide.",
        minimum=0,
        maximum=2,
    ),
    Setting(
        "facts.lifetimes",
        (),
        "Other lives of decay classes than those of the table in"
        " docs/facts.md, such as stable=180d or session=never.",
    ),
    Setting(
        "recall.again_after",
        60.0,
        "Minutes for which what a session was told is not told"
        " again: it is still in its prompt. 0: always.",
        minimum=0,
    ),
    Setting(
        "recall.budget",
        800,
        "Tokens of what is recalled for a prompt: they are the user's money.",
        minimum=1,
        maximum=1_000_000,
    ),
    Setting("recall.k", 12, "Hits that it is made from.", minimum=1, maximum=1000),
    Setting(
        "search.hyde_enabled",
        False,
        "Let recall search by an answer that a language model"
        " makes up, too: off, as the message is sent to it.",
    ),
    Setting("search.hyde_model", "", "As in llm.default, which is taken if this is empty."),
    Setting(
        "search.hyde_mode",
        "add",
        "What it finds is added: no hit of the plain query is lost;"
        " replace searches by its meaning alone.",
        one_of=("add", "replace"),
    ),
    Setting(
        "ingest.paths",
        ("skills/**/*.md", "TOOLS.md", "AGENTS.md"),
        "What `ingest-files` reads: what agents are told to know.",
    ),
    Setting(
        "ingest.chunk_size",
        800,
        "Characters a language model is given at a time.",
        minimum=100,
        maximum=100_000,
    ),
    Setting(
        "ingest.overlap",
        100,
        "Characters of them that it saw before; half a piece at most.",
        minimum=0,
        maximum=50_000,
    ),
    Setting(
        "llm.default",
        "",
        "A language model, as openai:MODEL or gemini:MODEL; empty: none is"
        " asked, and nothing leaves the machine.",
    ),
    Setting("llm.ingest", "", "The one for `ingest-files`; empty is llm.default."),
    Setting("llm.timeout", 30.0, "Seconds until an answer is given up.", minimum=0.1, maximum=3600),
    Setting("llm.max_calls", 200, "Of a command, so that none costs a fortune.", minimum=0),
    Setting("llm.max_tokens", 400_000, "Of a command: sent and answered together.", minimum=0),
    Setting(
        "llm.log",
        "",
        "A file to which what is sent and answered is added, a JSON object a line; empty: none.",
    ),
    Setting("llm.openai.base_url", "https://api.openai.com/v1", "Any that speaks the protocol."),
    Setting(
        "llm.openai.key", "", "Else OPENAI_API_KEY.", secret=True, fallback_env="OPENAI_API_KEY"
    ),
    Setting("llm.gemini.base_url", "https://generativelanguage.googleapis.com/v1beta", "Google's."),
    Setting(
        "llm.gemini.key", "", "Else GEMINI_API_KEY.", secret=True, fallback_env="GEMINI_API_KEY"
    ),
    Setting(
        "remote.base_url",
        "",
        "An address that speaks OpenAI's vector stores, asked along with"
        " the index; empty: none, and no query leaves the machine.",
    ),
    Setting("remote.vector_store", "", "The id of the store there."),
    Setting("remote.key", "", "What it is opened with; none is taken from elsewhere.", secret=True),
    Setting("remote.timeout", 3.0, "Seconds that a search waits for it.", minimum=0.1, maximum=60),
    Setting("sync.on_search", True, "Bring the index up to date before a search if that is cheap."),
    Setting(
        "sync.cheap_notes",
        50,
        "Changed notes that a search takes in by itself (about a"
        " quarter of a second); more, and it says how stale it is.",
        minimum=0,
    ),
    Setting(
        "sync.cheap_files",
        5000,
        "Notes in a workspace up to which a search looks for changes"
        " at all (about a tenth of a second).",
        minimum=0,
    ),
    Setting("note.folder", "memory", "Where `memwell note` keeps its daily logs, as agents do."),
)
