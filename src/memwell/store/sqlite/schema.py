"""The tables of index.db and memory.db, as named steps from an empty file to the present shape.

A file written by an older memwell takes the steps it lacks; a newer one is refused. The
keyword index stands apart: when SQLite lacks FTS5 all other tables work without it.
"""

from __future__ import annotations

from pathlib import Path

from memwell.files import read_migrations
from memwell.store.words.normalise import TOKENIZER

MIGRATIONS = read_migrations(Path(__file__).with_name("index.sql"))
FACT_MIGRATIONS = read_migrations(Path(__file__).with_name("memory.sql"))
NOT_OF_A_COPY = ("unfinished", "copies", "identity")
"""Tables of memory.db that describe this file, not the facts."""

KEYWORD_TABLES = f"""
    -- What FTS5 shows for a row. What it has indexed is richer: see words/normalise.py.
    CREATE VIEW word_source AS
        SELECT c.id AS id, c.text AS content, c.heading AS heading, n.path AS name, '' AS parts
        FROM chunks c JOIN notes n ON n.id = c.note_id;

    CREATE VIRTUAL TABLE words USING fts5 (
        content, heading, name, parts,
        content = 'word_source', content_rowid = 'id',
        tokenize = "{TOKENIZER}"
    );
    CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, 'row');

    -- About how many chunks hold each very common word, in large indexes: see keywords.py.
    CREATE TABLE common_words (term TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID;

    CREATE VIEW memory_fts AS
        SELECT w.content AS content, n.path AS source_file, c.id AS chunk_id, w.rank AS rank
        FROM words w JOIN chunks c ON c.id = w.rowid JOIN notes n ON n.id = c.note_id;
"""

DROP_KEYWORD_TABLES = """
    DROP VIEW IF EXISTS memory_fts;
    DROP TABLE IF EXISTS vocabulary;
    DROP TABLE IF EXISTS common_words;
    DROP TABLE IF EXISTS words;
    DROP VIEW IF EXISTS word_source;
"""

SCHEMA_VERSION = len(MIGRATIONS)
APPLICATION_ID = 0x6D656D77
"""The letters "memw": what `file` and SQLite tools can know an index by."""
