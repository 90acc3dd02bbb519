-- The tables of memory.db: all facts, and what became of them. Durable, never rebuilt.
-- A step is never changed.

-- step: keep facts, each with its scope

CREATE TABLE fact_rows (
    id TEXT PRIMARY KEY,            -- sorts by the time it was made
    text TEXT NOT NULL,
    folded TEXT NOT NULL,           -- without case, punctuation and spacing
    category TEXT NOT NULL,
    source TEXT NOT NULL,           -- conversation, cli, ingest, import ...
    origin TEXT NOT NULL,           -- where exactly: a path with lines, a session
    importance REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
    confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    decay_class TEXT NOT NULL,
    created_at TEXT NOT NULL,       -- all times are UTC, ISO 8601
    confirmed_at TEXT NOT NULL,
    expires_at TEXT,
    valid_from TEXT,
    valid_until TEXT,
    superseded_by TEXT,             -- stays, also when that one is forgotten
    scope TEXT NOT NULL CHECK (scope IN ('global', 'user', 'agent', 'session')),
    target TEXT NOT NULL,           -- whose; '' for global
    revision INTEGER NOT NULL,      -- of the memory, when this row last changed
    CHECK ((scope = 'global') = (target = ''))
);
CREATE UNIQUE INDEX one_of_a_kind ON fact_rows (scope, target, folded)
    WHERE superseded_by IS NULL;
CREATE INDEX facts_by_revision ON fact_rows (revision);
CREATE INDEX facts_by_folded ON fact_rows (folded);
CREATE INDEX facts_by_end ON fact_rows (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE fact_tags (
    fact_id TEXT NOT NULL REFERENCES fact_rows ON DELETE CASCADE,
    tag TEXT NOT NULL,
    PRIMARY KEY (fact_id, tag)
) WITHOUT ROWID;

-- What happened to a fact. Of one that was forgotten nothing stays, nor its events.
CREATE TABLE fact_events (
    fact_id TEXT NOT NULL REFERENCES fact_rows ON DELETE CASCADE,
    at TEXT NOT NULL,
    what TEXT NOT NULL,             -- added, reinforced, superseded, edited, promoted
    detail TEXT NOT NULL
);
CREATE INDEX events_by_fact ON fact_events (fact_id, at);

-- Ids that are gone, so that an index which shows them can follow.
CREATE TABLE forgotten (id TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE revisions (last INTEGER NOT NULL);
INSERT INTO revisions VALUES (0);

-- step: finish what was begun to be forgotten, and know the copies

-- What was forgotten but may still be in an index, a cache or a log.
CREATE TABLE unfinished (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL            -- of the text, as the cache of vectors knows it
) WITHOUT ROWID;
-- Where copies were written.
CREATE TABLE copies (file TEXT PRIMARY KEY) WITHOUT ROWID;

-- step: compare texts by digests, and give the file an identity

-- An index of texts leaves parts of deleted texts in its pages. From here on `folded` is the digest
-- of the text without case, punctuation and spacing.
DROP INDEX one_of_a_kind;
DROP INDEX facts_by_folded;
UPDATE fact_rows SET folded = digest_of(folded);
CREATE UNIQUE INDEX one_of_a_kind ON fact_rows (scope, target, folded)
    WHERE superseded_by IS NULL;
CREATE INDEX facts_by_folded ON fact_rows (folded);
-- Random. An index remembers it, and so notices when another file has the place of this one.
CREATE TABLE identity (id TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(16))));
