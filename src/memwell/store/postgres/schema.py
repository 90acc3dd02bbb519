"""The tables in PostgreSQL, as named steps from an empty schema to the present shape.

The tenant is the first column of every key; what belongs to an index has the agent as its second.
`owner` says whose a row of an index is: '' for notes, else the scope of the fact that it shows.
Texts are compared by their bytes, as SQLite does.

Who sees which row is the database's own rule, of `_rule`: the tenant's, as the setting
`memwell.tenant` has it, and of the facts those of the scopes in `memwell.scopes`. Where these are
not set nothing is seen. A partition has no rule, so nobody reads it but through its table.
"""

from __future__ import annotations

from collections.abc import Sequence

SCHEMA = "memwell"
PARTITIONS = 8
ALL_SCOPES: tuple[str, ...] = ("*",)
"""What stands for all scopes of a tenant: whoever keeps an index up to date must see them."""

_INDEX = """
    CREATE SEQUENCE ids;                -- never used again, as another process may still hold one

    CREATE TABLE indexes (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        words_version int NOT NULL,     -- by which version of words.py it was built
        chunks bigint NOT NULL DEFAULT 0,
        tokens bigint NOT NULL DEFAULT 0,   -- of all chunks together
        PRIMARY KEY (tenant, agent)
    ) PARTITION BY HASH (tenant);

    -- The folders that an agent remembers: what an index comes back from.
    CREATE TABLE registered (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        root text COLLATE "C",
        conventional boolean NOT NULL,
        include text[] NOT NULL,
        PRIMARY KEY (tenant, agent, root)
    ) PARTITION BY HASH (tenant);

    CREATE TABLE workspaces (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        id bigint DEFAULT nextval('ids'),
        root text COLLATE "C" NOT NULL,
        folder_id text,
        synced_at text,
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, id),
        UNIQUE (tenant, agent, root),
        FOREIGN KEY (tenant, agent) REFERENCES indexes ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);

    CREATE TABLE notes (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        id bigint DEFAULT nextval('ids'),
        workspace_id bigint NOT NULL,
        path text COLLATE "C" NOT NULL, -- relative to the workspace, with forward slashes
        size bigint NOT NULL,
        mtime_ns bigint NOT NULL,
        read_ns bigint NOT NULL,
        hash text NOT NULL,
        recipe text NOT NULL,
        title text NOT NULL,
        names text NOT NULL,            -- title, aliases and tags, one a line
        date text COLLATE "C",          -- ISO; NULL is evergreen
        meta text NOT NULL,             -- front matter, as JSON
        tags text[] COLLATE "C" NOT NULL,   -- case-folded
        links text[] NOT NULL,          -- as written between [[ and ]]
        held_from text COLLATE "C",     -- of a fact: since and until when it is held true
        held_until text COLLATE "C",
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, id),
        UNIQUE (tenant, agent, workspace_id, path),
        FOREIGN KEY (tenant, agent, workspace_id) REFERENCES workspaces (tenant, agent, id)
            ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);

    CREATE TABLE chunks (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        id bigint DEFAULT nextval('ids'),
        note_id bigint NOT NULL,
        seq int NOT NULL,               -- 0, 1, 2 ... within the note
        start_line int NOT NULL,
        end_line int NOT NULL,
        heading text NOT NULL,          -- the heading path, one heading a line
        overlap int NOT NULL,           -- leading characters that repeat the chunk before
        text text NOT NULL,
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, id),
        UNIQUE (tenant, agent, note_id, seq),
        FOREIGN KEY (tenant, agent, note_id) REFERENCES notes (tenant, agent, id)
            ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);

    -- How many chunks hold each token.
    CREATE TABLE words (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        token text COLLATE "C",
        rows bigint NOT NULL,
        PRIMARY KEY (tenant, agent, token)
    ) PARTITION BY HASH (tenant);

    -- Which chunks hold each token, how much that weighs, and where it stands in them.
    CREATE TABLE postings (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        token text COLLATE "C",
        chunk_id bigint,
        frequency real NOT NULL,        -- occurrences, those in a heading weighing more
        length int NOT NULL,            -- tokens of the chunk
        places int[] NOT NULL,          -- see words.py
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, token, chunk_id)
    ) PARTITION BY HASH (tenant);

    CREATE TABLE spaces (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        id bigint DEFAULT nextval('ids'),
        fingerprint text NOT NULL,      -- everything that changes a vector
        provider text NOT NULL,
        model text NOT NULL,
        dimensions int NOT NULL,
        settings text NOT NULL,         -- what the provider is made from, as JSON; never a key
        state text NOT NULL CHECK (state IN ('filling', 'live', 'retired')),
        opened_at text NOT NULL,
        retired_at text COLLATE "C",
        pinned text,                    -- the chain under which the user switched to it
        complete_to bigint NOT NULL DEFAULT 0,  -- all chunks up to this id have their vectors
        random_mean float8,             -- the cosine of two vectors picked at random
        random_deviation float8,
        unrelated_mean float8,          -- of a question and a passage that has nothing to do
        unrelated_deviation float8,     -- with it
        PRIMARY KEY (tenant, agent, id),
        UNIQUE (tenant, agent, fingerprint),
        FOREIGN KEY (tenant, agent) REFERENCES indexes ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);
    CREATE UNIQUE INDEX one_space_is_live ON spaces (tenant, agent) WHERE state = 'live';

    CREATE TABLE vectors (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        chunk_id bigint,
        space_id bigint,
        piece int,                      -- the window, 0, 1, 2 ...; below 0, a stand-in
        vector vector,                  -- NULL: the model read nothing
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, chunk_id, space_id, piece),
        FOREIGN KEY (tenant, agent, chunk_id) REFERENCES chunks (tenant, agent, id)
            ON DELETE CASCADE,
        FOREIGN KEY (tenant, agent, space_id) REFERENCES spaces (tenant, agent, id)
            ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);
    CREATE INDEX vectors_by_space ON vectors (tenant, agent, space_id);

    -- Providers that failed, and until when they are left alone.
    CREATE TABLE rests (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        provider text COLLATE "C",
        until float8 NOT NULL,          -- seconds since 1970
        failures int NOT NULL,          -- in a row
        unavailable boolean NOT NULL,   -- cannot be used at all: another takes its place
        reason text NOT NULL,
        PRIMARY KEY (tenant, agent, provider)
    ) PARTITION BY HASH (tenant);

    -- Vectors by text, so that none is embedded twice.
    CREATE TABLE cached (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        digest bytea,                   -- of the text
        fingerprint text COLLATE "C",   -- of the model
        vectors bytea NOT NULL,         -- little-endian float32, one window after another
        used bigint NOT NULL DEFAULT nextval('ids'),
        PRIMARY KEY (tenant, agent, digest, fingerprint)
    ) PARTITION BY HASH (tenant);
"""

_FACTS = """
    CREATE TABLE revisions (
        tenant text COLLATE "C" PRIMARY KEY,
        last bigint NOT NULL
    ) PARTITION BY HASH (tenant);

    CREATE TABLE facts (
        tenant text COLLATE "C",
        id text COLLATE "C",            -- sorts by the time it was made
        text text NOT NULL,
        folded text NOT NULL,           -- without case, punctuation and spacing
        category text NOT NULL,
        source text NOT NULL,
        origin text NOT NULL,
        importance float8 NOT NULL CHECK (importance BETWEEN 0 AND 1),
        confidence float8 NOT NULL CHECK (confidence BETWEEN 0 AND 1),
        decay_class text NOT NULL,
        created_at text COLLATE "C" NOT NULL,   -- all times are UTC, ISO 8601
        confirmed_at text COLLATE "C" NOT NULL,
        expires_at text COLLATE "C",
        valid_from text COLLATE "C",
        valid_until text COLLATE "C",
        superseded_by text,
        scope text NOT NULL CHECK (scope IN ('global', 'user', 'agent', 'session')),
        target text NOT NULL,           -- whose; '' for global
        tags text[] COLLATE "C" NOT NULL,
        revision bigint NOT NULL,       -- of the tenant's memory, when this row last changed
        PRIMARY KEY (tenant, id),
        UNIQUE (tenant, scope, target, id),
        CHECK ((scope = 'global') = (target = ''))
    ) PARTITION BY HASH (tenant);
    -- A digest, since a text may be longer than a key.
    CREATE UNIQUE INDEX one_of_a_kind ON facts (tenant, scope, target, md5(folded))
        WHERE superseded_by IS NULL;
    CREATE INDEX facts_by_revision ON facts (tenant, revision);
    CREATE INDEX facts_by_folded ON facts (tenant, md5(folded));
    CREATE INDEX facts_by_end ON facts (tenant, expires_at) WHERE expires_at IS NOT NULL;

    -- What happened to a fact. Of one that was forgotten nothing stays, nor its events.
    CREATE TABLE fact_events (
        tenant text COLLATE "C",
        scope text,
        target text,
        fact_id text COLLATE "C",
        number bigint DEFAULT nextval('ids'),
        at text COLLATE "C" NOT NULL,
        what text NOT NULL,
        detail text NOT NULL,
        PRIMARY KEY (tenant, fact_id, number),
        FOREIGN KEY (tenant, scope, target, fact_id) REFERENCES facts (tenant, scope, target, id)
            ON UPDATE CASCADE ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);

    -- Ids that are gone, so that an index which shows them can follow.
    CREATE TABLE forgotten (
        tenant text COLLATE "C",
        id text COLLATE "C",
        revision bigint NOT NULL,
        PRIMARY KEY (tenant, id)
    ) PARTITION BY HASH (tenant);

    -- What was forgotten but may still be in an index or a cache.
    CREATE TABLE unfinished (
        tenant text COLLATE "C",
        id text COLLATE "C",
        digest bytea NOT NULL,          -- of the text, as the cache of vectors knows it
        PRIMARY KEY (tenant, id)
    ) PARTITION BY HASH (tenant);
"""

_LEASES = """
    -- Which chunks a process is embedding, and until when they are its own (see leases.py).
    CREATE TABLE leases (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        space_id bigint,
        chunk_id bigint,
        holder text NOT NULL,
        until timestamptz NOT NULL,
        PRIMARY KEY (tenant, agent, space_id, chunk_id),
        FOREIGN KEY (tenant, agent, chunk_id) REFERENCES chunks (tenant, agent, id)
            ON DELETE CASCADE,
        FOREIGN KEY (tenant, agent, space_id) REFERENCES spaces (tenant, agent, id)
            ON DELETE CASCADE
    ) PARTITION BY HASH (tenant);
    CREATE INDEX leases_by_chunk ON leases (tenant, agent, chunk_id);
"""

_COMMITS = """
    -- What was committed lately: whoever lost the answer looks for the mark that it left.
    CREATE TABLE commits (
        tenant text COLLATE "C",
        mark uuid DEFAULT gen_random_uuid(),
        at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (tenant, mark)
    ) PARTITION BY HASH (tenant);
"""

_SPOKEN = """
    ALTER TABLE indexes ADD COLUMN said boolean NOT NULL DEFAULT false;  -- whether in `spoken`, too

    -- The tokens of each chunk as one text, for agents so large that an index of texts pays.
    CREATE TABLE spoken (
        tenant text COLLATE "C",
        agent text COLLATE "C",
        chunk_id bigint,
        tokens text NOT NULL,           -- as said.py spells them
        owner text NOT NULL,
        PRIMARY KEY (tenant, agent, chunk_id)
    ) PARTITION BY HASH (tenant);
"""

_AT_FIRST = (
    "indexes",
    "registered",
    "workspaces",
    "notes",
    "chunks",
    "words",
    "postings",
    "spaces",
    "vectors",
    "rests",
    "cached",
)
OF_AN_INDEX = (*_AT_FIRST, "leases", "spoken")
OF_FACTS = ("revisions", "facts", "fact_events", "forgotten", "unfinished")
TABLES = (*OF_AN_INDEX, *OF_FACTS, "commits")


def _partitions(tables: Sequence[str]) -> str:
    """Return what divides tables by tenant."""
    return "".join(
        f"CREATE TABLE {table}_{number} PARTITION OF {table}"
        f" FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number});\n"
        for table in tables
        for number in range(PARTITIONS)
    )


_SCOPES = "current_setting('memwell.scopes', true)"
_FACT = "scope || ':' || target"
OWNERS = {
    **dict.fromkeys(("workspaces", "notes", "chunks", "postings", "vectors", "spoken"), "owner"),
    **dict.fromkeys(("facts", "fact_events"), _FACT),
}
"""Tables that show facts, and whose a row is."""

# Citus knows no reference with the tenant in it that changes with its key.
_PLAIN_REFERENCE = """
    ALTER TABLE fact_events DROP CONSTRAINT fact_events_tenant_scope_target_fact_id_fkey;
    ALTER TABLE fact_events ADD FOREIGN KEY (tenant, fact_id) REFERENCES facts (tenant, id)
        ON DELETE CASCADE;
"""


def row_policy(table: str) -> str:
    """Return who sees which rows of a table. Citus allows no query in it."""
    seen = "tenant = current_setting('memwell.tenant', true)"
    if owner := OWNERS.get(table):
        seen += f" AND ({owner} = '' OR {_SCOPES} = '{{*}}'"
        seen += f" OR {owner} = ANY (nullif({_SCOPES}, '')::text[]))"
    return f"CREATE POLICY seen ON {table} USING ({seen});\n" + "".join(
        f"ALTER TABLE {one} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;\n"
        for one in (table, *(f"{table}_{number}" for number in range(PARTITIONS)))
    )


MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("keep notes, what they are found by, and vectors", _INDEX + _partitions(_AT_FIRST)),
    ("keep facts, each with its scope", _FACTS + _partitions(OF_FACTS)),
    (
        "let the database itself keep tenants and scopes apart",
        _PLAIN_REFERENCE + "".join(map(row_policy, (*_AT_FIRST, *OF_FACTS))),
    ),
    (
        "let several processes embed at once",
        _LEASES + _partitions(("leases",)) + row_policy("leases"),
    ),
    (
        "know what was committed though a crash came between",
        _COMMITS + _partitions(("commits",)) + row_policy("commits"),
    ),
    (
        "let large agents have an index of texts",
        _SPOKEN + _partitions(["spoken"]) + row_policy("spoken"),
    ),
)
