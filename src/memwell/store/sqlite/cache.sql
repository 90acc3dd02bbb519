-- The table of embeddings.db.

-- step: keep vectors by model and text

CREATE TABLE cached (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- the order of use: a used row moves to the end
    digest BLOB NOT NULL,               -- of the text
    fingerprint TEXT NOT NULL,          -- of the model
    vectors BLOB NOT NULL,              -- little-endian float32, one window after another
    UNIQUE (digest, fingerprint)
);
