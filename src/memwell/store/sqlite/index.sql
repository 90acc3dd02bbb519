-- The tables of index.db, as steps from an empty file to the present shape. A step is never changed.

-- step: keep workspaces, their notes and the chunks of each note

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;

CREATE TABLE workspaces (
    id INTEGER PRIMARY KEY,
    root TEXT NOT NULL UNIQUE,
    folder_id TEXT,                 -- device and inode, to know a folder that was renamed
    synced_at TEXT
);

-- Ids are never used again: another process may still hold one of a note that is gone.
CREATE TABLE notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspaces ON DELETE CASCADE,
    path TEXT NOT NULL,             -- relative to the workspace, with forward slashes
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    read_ns INTEGER NOT NULL,       -- when it was read, to distrust a younger mtime
    hash TEXT NOT NULL,             -- of the file's bytes
    recipe TEXT NOT NULL,           -- how it was cut; another recipe reads it again
    title TEXT NOT NULL,
    names TEXT NOT NULL,            -- title, aliases and tags, one a line
    date TEXT,                      -- ISO; NULL is evergreen
    meta TEXT NOT NULL,             -- front matter, as JSON
    UNIQUE (workspace_id, path)
);
CREATE INDEX notes_by_hash ON notes (hash);

CREATE TABLE tags (
    tag TEXT NOT NULL,              -- case-folded
    note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
    PRIMARY KEY (tag, note_id)
) WITHOUT ROWID;
CREATE INDEX tags_by_note ON tags (note_id);

CREATE TABLE links (
    target TEXT NOT NULL,           -- as written between [[ and ]]
    note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
    PRIMARY KEY (target, note_id)
) WITHOUT ROWID;
CREATE INDEX links_by_note ON links (note_id);

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
    seq INTEGER NOT NULL,           -- 0, 1, 2 ... within the note
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading TEXT NOT NULL,          -- the heading path, one heading a line
    overlap INTEGER NOT NULL,       -- leading characters that repeat the chunk before
    text TEXT NOT NULL,
    UNIQUE (note_id, seq)
);

CREATE VIEW memory_embeddings AS
    SELECT c.id AS id, c.text AS content, NULL AS embedding, n.path AS source_file,
           c.seq AS chunk_index, n.read_ns / 1000000000 AS created_at, NULL AS model_name
    FROM chunks c JOIN notes n ON n.id = c.note_id
    WHERE 0;                        -- no chunk has a vector yet

-- step: keep vectors in spaces, one for each model

CREATE TABLE spaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL UNIQUE,   -- everything that changes a vector
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    settings TEXT NOT NULL,         -- what the provider is made from, as JSON; never a key
    state TEXT NOT NULL CHECK (state IN ('filling', 'live', 'retired')),
    opened_at TEXT NOT NULL,
    retired_at TEXT,
    pinned TEXT,                    -- the chain under which the user switched to it
    complete_to INTEGER NOT NULL DEFAULT 0, -- all chunks up to this id have their vectors
    random_mean REAL,               -- the cosine of two vectors picked at random
    random_deviation REAL,
    snapshot TEXT                   -- the file beside the index that is scanned
);
CREATE UNIQUE INDEX one_space_is_live ON spaces (state) WHERE state = 'live';

-- Rows are never changed, and ids never used again: a snapshot is all rows up to an id.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    space_id INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
    chunk_id INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE,
    window INTEGER NOT NULL,        -- 0, 1, 2 ... within the chunk; below 0, a stand-in
    vector BLOB NOT NULL,           -- little-endian float32; empty: the model read nothing
    UNIQUE (chunk_id, space_id, window)
);
CREATE INDEX vectors_by_space ON vectors (space_id);

-- What a snapshot still holds though its row is gone.
CREATE TABLE dead_vectors (id INTEGER PRIMARY KEY, space_id INTEGER NOT NULL);
CREATE TRIGGER vector_died AFTER DELETE ON vectors BEGIN
    INSERT INTO dead_vectors VALUES (OLD.id, OLD.space_id);
END;

-- Providers that failed, and until when they are left alone.
CREATE TABLE rests (
    provider TEXT PRIMARY KEY,
    until REAL NOT NULL,            -- seconds since 1970
    failures INTEGER NOT NULL,      -- in a row
    unavailable INTEGER NOT NULL,   -- cannot be used at all: another takes its place
    reason TEXT NOT NULL
) WITHOUT ROWID;

DROP VIEW memory_embeddings;
CREATE VIEW memory_embeddings AS
    SELECT c.id AS id, c.text AS content, v.vector AS embedding, n.path AS source_file,
           c.seq AS chunk_index, n.read_ns / 1000000000 AS created_at,
           s.model AS model_name
    FROM spaces s JOIN vectors v ON v.space_id = s.id
    JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
    WHERE s.state = 'live' AND v.window = 0 AND v.vector != x'';

-- step: keep what a model's cosines mean

ALTER TABLE spaces ADD COLUMN unrelated_mean REAL;  -- of a question and a passage that
ALTER TABLE spaces ADD COLUMN unrelated_deviation REAL; -- has nothing to do with it

-- step: let LanceDB keep the numbers of vectors

-- The table of LanceDB that has them; empty: they are in `vectors`. A row of `vectors`
-- whose numbers are elsewhere has an integer for them, the key by which they are found.
ALTER TABLE spaces ADD COLUMN place TEXT NOT NULL DEFAULT '';
CREATE INDEX vectors_by_key ON vectors (vector) WHERE typeof(vector) = 'integer';

DROP VIEW memory_embeddings;
CREATE VIEW memory_embeddings AS
    SELECT c.id AS id, c.text AS content,
           CASE typeof(v.vector) WHEN 'blob' THEN v.vector END AS embedding,
           n.path AS source_file, c.seq AS chunk_index,
           n.read_ns / 1000000000 AS created_at, s.model AS model_name
    FROM spaces s JOIN vectors v ON v.space_id = s.id
    JOIN chunks c ON c.id = v.chunk_id JOIN notes n ON n.id = c.note_id
    WHERE s.state = 'live' AND v.window = 0 AND v.vector != x'';

-- step: find the lengths of neighbours without reading their texts

CREATE INDEX chunks_by_length ON chunks (note_id, seq, length(text));

-- step: keep a vector as a byte for each dimension

-- See store/contract/quantisation.py. It was little-endian float32.
UPDATE vectors SET vector = quantise(vector) WHERE typeof(vector) = 'blob' AND vector != x'';
