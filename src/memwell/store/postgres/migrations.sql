-- The steps from an empty schema to the present one. A step is never changed. The last one renames
-- tables and columns, so the steps before it have the old names; schema.py has the present ones.
-- migrations.py adds partitions and policies to the steps.

-- step: create the tables of notes, postings and vectors

CREATE SEQUENCE ids;                -- no id is used twice: another process may still hold it

CREATE TABLE indexes (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    words_version int NOT NULL,     -- the WORDS_VERSION that it was built with
    chunks bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,   -- of all chunks together
    PRIMARY KEY (tenant, agent)
) PARTITION BY HASH (tenant);

-- The folders of an agent: its index can be rebuilt from them.
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
    held_from text COLLATE "C",     -- of a fact: from when until when it is valid
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

-- Which chunks hold each token, with what weight, and at which places.
CREATE TABLE postings (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    token text COLLATE "C",
    chunk_id bigint,
    frequency real NOT NULL,        -- occurrences, those in a heading weighing more
    length int NOT NULL,            -- tokens of the chunk
    places int[] NOT NULL,          -- see tokenizer.py
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
    settings text NOT NULL,         -- of the provider, as JSON; never an API key
    state text NOT NULL CHECK (state IN ('filling', 'live', 'retired')),
    opened_at text NOT NULL,
    retired_at text COLLATE "C",
    pinned text,                    -- the provider chain under which the user switched to it
    complete_to bigint NOT NULL DEFAULT 0,  -- all chunks up to this id have their vectors
    random_mean float8,             -- the cosine of two vectors picked at random
    random_deviation float8,
    unrelated_mean float8,          -- the cosine of a query and an unrelated passage
    unrelated_deviation float8,
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
    piece int,                      -- the window, 0, 1, 2 ...; below 0, of an older chunk
    vector vector,                  -- NULL: the model found no token in the text
    owner text NOT NULL,
    PRIMARY KEY (tenant, agent, chunk_id, space_id, piece),
    FOREIGN KEY (tenant, agent, chunk_id) REFERENCES chunks (tenant, agent, id)
        ON DELETE CASCADE,
    FOREIGN KEY (tenant, agent, space_id) REFERENCES spaces (tenant, agent, id)
        ON DELETE CASCADE
) PARTITION BY HASH (tenant);
CREATE INDEX vectors_by_space ON vectors (tenant, agent, space_id);

-- Providers that failed, and until when they are not called.
CREATE TABLE rests (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    provider text COLLATE "C",
    until float8 NOT NULL,          -- seconds since 1970
    failures int NOT NULL,          -- in a row
    unavailable boolean NOT NULL,   -- cannot be used at all: another provider replaces it
    reason text NOT NULL,
    PRIMARY KEY (tenant, agent, provider)
) PARTITION BY HASH (tenant);

-- Vectors by text, so that no text is embedded twice.
CREATE TABLE cached (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    digest bytea,                   -- of the text
    fingerprint text COLLATE "C",   -- of the model
    vectors bytea NOT NULL,         -- little-endian float32, one window after another
    used bigint NOT NULL DEFAULT nextval('ids'),
    PRIMARY KEY (tenant, agent, digest, fingerprint)
) PARTITION BY HASH (tenant);

-- step: create the tables of facts, each fact with its scope

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
    target text NOT NULL,           -- the user, agent or session; '' for global
    tags text[] COLLATE "C" NOT NULL,
    revision bigint NOT NULL,       -- of the tenant's memory, when this row last changed
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, scope, target, id),
    CHECK ((scope = 'global') = (target = ''))
) PARTITION BY HASH (tenant);
-- A digest, since a text may be too long for a key.
CREATE UNIQUE INDEX one_of_a_kind ON facts (tenant, scope, target, md5(folded))
    WHERE superseded_by IS NULL;
CREATE INDEX facts_by_revision ON facts (tenant, revision);
CREATE INDEX facts_by_folded ON facts (tenant, md5(folded));
CREATE INDEX facts_by_end ON facts (tenant, expires_at) WHERE expires_at IS NOT NULL;

-- The history of each fact. When a fact is forgotten its events go, too.
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

-- Ids of forgotten facts, so that indexes which show them can remove them.
CREATE TABLE forgotten (
    tenant text COLLATE "C",
    id text COLLATE "C",
    revision bigint NOT NULL,
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);

-- Forgotten facts that may still be in an index or a cache.
CREATE TABLE unfinished (
    tenant text COLLATE "C",
    id text COLLATE "C",
    digest bytea NOT NULL,          -- of the text: the key in the vector cache
    PRIMARY KEY (tenant, id)
) PARTITION BY HASH (tenant);

-- step: separate tenants and scopes by row-level security

-- Citus does not support ON UPDATE CASCADE on a key with the tenant in it.
ALTER TABLE fact_events DROP CONSTRAINT fact_events_tenant_scope_target_fact_id_fkey;
ALTER TABLE fact_events ADD FOREIGN KEY (tenant, fact_id) REFERENCES facts (tenant, id)
    ON DELETE CASCADE;

-- step: lease chunks to the processes that embed them

-- Which chunks a process is embedding, and until when no other takes them (see leases.py).
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

-- step: mark transactions, to know after a crash which were committed

-- Marks of recent transactions: a client that lost the answer to COMMIT looks for its mark.
CREATE TABLE commits (
    tenant text COLLATE "C",
    mark uuid DEFAULT gen_random_uuid(),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, mark)
) PARTITION BY HASH (tenant);

-- step: store the tokens of chunks as texts, for the text indexes of large agents

ALTER TABLE indexes ADD COLUMN said boolean NOT NULL DEFAULT false;  -- has rows in `spoken`

-- The tokens of each chunk as one text, for agents so large that a text index pays.
CREATE TABLE spoken (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    chunk_id bigint,
    tokens text NOT NULL,           -- as texts.py encodes them
    owner text NOT NULL,
    PRIMARY KEY (tenant, agent, chunk_id)
) PARTITION BY HASH (tenant);

-- step: name tables, columns, indexes and policies by the terms of the field

ALTER TABLE indexes RENAME COLUMN said TO has_texts;
ALTER TABLE vectors RENAME COLUMN piece TO window_number;  -- `window` is reserved in SQL
ALTER TABLE words RENAME COLUMN rows TO document_frequency;

-- The indexes of large agents (see agent_indexes.py).
DO $$
DECLARE old_name text;
BEGIN
    FOR old_name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'memwell'::regnamespace AND relkind IN ('i', 'I')
            AND relname ~ '^(near|said)_[0-9a-f]{12}_'
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', old_name, regexp_replace(
            regexp_replace(old_name, '^near_', 'vector_index_'), '^said_', 'text_index_'
        ));
    END LOOP;
END $$;

-- step: count words by owner, so that scores tell nothing about the facts of others

-- Rows from before are of all owners together; POSTINGS_VERSION of postings.py has them counted anew.
ALTER TABLE vocabulary ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE vocabulary DROP CONSTRAINT vocabulary_pkey;
ALTER TABLE vocabulary ADD PRIMARY KEY (tenant, agent, token, owner);

-- step: bind roles to tenants by a table, and record which versions work with the schema

-- How many steps a memwell must know to work with the schema after a step; NULL is all of them.
ALTER TABLE migrations ADD COLUMN needs int;

-- The roles that see one tenant only; the owner of the tables alone can read them.
CREATE TABLE role_bindings (
    role name PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    scopes text[]                   -- owners of rows, as in `memwell.scopes`; NULL is all
);

-- Whether the role that logged in may use these settings; false for a role without a binding.
CREATE FUNCTION is_bound_to(tenant text, scopes text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((
        SELECT b.tenant = $1
            AND (b.scopes IS NULL OR coalesce(nullif($2, '')::text[] <@ b.scopes, true))
        FROM memwell.role_bindings b WHERE b.role = session_user
    ), false)
$$;

CREATE FUNCTION own_binding() RETURNS TABLE (tenant text, scopes text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT b.tenant, b.scopes FROM memwell.role_bindings b WHERE b.role = session_user
$$;

-- The writes of roles that are bound to scopes, which may not update or delete rows of tables that
-- others share. Each function takes the tenant and the scopes from the binding.
CREATE FUNCTION user_binding() RETURNS role_bindings
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE found memwell.role_bindings;
BEGIN
    SELECT * INTO found FROM memwell.role_bindings b
    WHERE b.role = session_user AND b.scopes IS NOT NULL;
    IF found.role IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE = 'the role is not bound to scopes';
    END IF;
    RETURN found;
END $$;

CREATE FUNCTION lock_facts() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE own memwell.role_bindings := memwell.user_binding();
BEGIN
    INSERT INTO memwell.revisions (tenant, last) VALUES (own.tenant, 0)
    ON CONFLICT (tenant) DO NOTHING;
    PERFORM 1 FROM memwell.revisions r WHERE r.tenant = own.tenant FOR UPDATE;
END $$;

CREATE FUNCTION next_revision() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own memwell.role_bindings := memwell.user_binding();
    new_revision bigint;
BEGIN
    UPDATE memwell.revisions r SET last = r.last + 1 WHERE r.tenant = own.tenant
    RETURNING r.last INTO new_revision;
    RETURN new_revision;
END $$;

CREATE FUNCTION delete_fact(fact text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE own memwell.role_bindings := memwell.user_binding();
BEGIN
    DELETE FROM memwell.facts f WHERE f.tenant = own.tenant AND f.id = fact
        AND f.scope <> 'global' AND f.scope || ':' || f.target = ANY (own.scopes);
END $$;

-- Nobody can mark a fact of another as forgotten: a fact that exists is not forgotten.
CREATE FUNCTION mark_forgotten(fact text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own memwell.role_bindings := memwell.user_binding();
    before text := current_setting('memwell.scopes', true);
BEGIN
    -- The owner of the tables is restricted, too: the check must see the facts of all.
    PERFORM set_config('memwell.scopes', '{*}', true);
    IF EXISTS (SELECT 1 FROM memwell.facts f WHERE f.tenant = own.tenant AND f.id = fact) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the fact exists';
    END IF;
    INSERT INTO memwell.forgotten (tenant, id, revision)
    VALUES (own.tenant, fact, memwell.next_revision()) ON CONFLICT (tenant, id) DO NOTHING;
    PERFORM set_config('memwell.scopes', before, true);
END $$;

CREATE FUNCTION record_erasure(fact text, text_digest bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own memwell.role_bindings := memwell.user_binding();
    before text := current_setting('memwell.scopes', true);
BEGIN
    -- The owner of the tables is restricted, too: the check must see the facts of all.
    PERFORM set_config('memwell.scopes', '{*}', true);
    IF EXISTS (
        SELECT 1 FROM memwell.facts f WHERE f.tenant = own.tenant AND f.id = fact
            AND (f.scope = 'global' OR f.scope || ':' || f.target <> ALL (own.scopes))
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the fact belongs to others';
    END IF;
    INSERT INTO memwell.pending_erasures (tenant, id, digest)
    VALUES (own.tenant, fact, text_digest)
    ON CONFLICT (tenant, id) DO UPDATE SET digest = excluded.digest;
    PERFORM set_config('memwell.scopes', before, true);
END $$;

-- The deletions of roles that are bound to a tenant: who may delete from a table may also lock it.
-- The caller has locked the rows, so their places do not change.
CREATE FUNCTION delete_rows(target text, places tid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE own memwell.role_bindings;
BEGIN
    SELECT * INTO own FROM memwell.role_bindings b
    WHERE b.role = session_user AND b.scopes IS NULL;
    IF own.role IS NULL OR NOT EXISTS (
        SELECT 1 FROM pg_class c WHERE c.relnamespace = 'memwell'::regnamespace
            AND c.relname = target AND c.relkind = 'p'
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = 'the role is not bound to a tenant';
    END IF;
    EXECUTE format('DELETE FROM memwell.%I WHERE tenant = $1 AND ctid = ANY ($2)', target)
    USING own.tenant, places;
END $$;

REVOKE ALL ON FUNCTION delete_rows(text, tid[]), user_binding(), lock_facts(), next_revision(), delete_fact(text),
    mark_forgotten(text), record_erasure(text, bytea) FROM PUBLIC;

-- Marks of a tenant that fell silent: a session without a tenant may delete old ones of all.
CREATE INDEX commits_by_time ON commits (at);
CREATE POLICY old_marks ON commits FOR DELETE USING (at < now() - interval '1 hour');

-- step: store postings as arrays, and let the service collect statistics after a load

-- The chunks of an agent are divided into blocks by their ids (see posting_lists.py).
ALTER TABLE indexes ADD COLUMN blocks bigint[] NOT NULL DEFAULT '{}';  -- the first chunk of each
ALTER TABLE indexes ADD COLUMN last_block_chunks int NOT NULL DEFAULT 0;

-- Which chunks hold each token, a row for each block; `postings` has those of agents whose index was
-- not written since this step. The arrays are of unsigned numbers of four bytes in network order.
CREATE TABLE posting_lists (
    tenant text COLLATE "C",
    agent text COLLATE "C",
    token text COLLATE "C",
    owner text COLLATE "C",
    block bigint,
    chunks bytea NOT NULL,          -- differences to the block
    lengths bytea NOT NULL,         -- tokens of each chunk
    places bytea NOT NULL,          -- see tokenizer.py; the last one of a chunk has the highest bit
    PRIMARY KEY (tenant, agent, token, owner, block)
) PARTITION BY HASH (tenant);

-- Who could use the postings can use the lists, under the same restrictions.
DO $$
DECLARE
    known record;
BEGIN
    FOR known IN SELECT a.privilege_type, a.grantee::regrole AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'postings'::regclass AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT %s ON posting_lists TO %s', known.privilege_type, known.role);
    END LOOP;
    FOR known IN SELECT DISTINCT a.grantee::regrole AS role
        FROM pg_attribute t, aclexplode(t.attacl) a
        WHERE t.attrelid = 'indexes'::regclass AND a.privilege_type = 'UPDATE' AND a.grantee <> 0
    LOOP
        EXECUTE format('GRANT UPDATE (blocks, last_block_chunks) ON indexes TO %s', known.role);
        EXECUTE format('GRANT UPDATE (tenant, agent, token, owner, block, chunks, lengths, places)'
            ' ON posting_lists TO %s', known.role);
    END LOOP;
    FOR known IN SELECT p.policyname, p.qual,
            (SELECT string_agg(quote_ident(r), ', ') FROM unnest(p.roles) r) AS roles
        FROM pg_policies p
        WHERE p.schemaname = 'memwell' AND p.tablename = 'postings' AND p.permissive = 'RESTRICTIVE'
    LOOP
        EXECUTE format('CREATE POLICY %I ON posting_lists AS RESTRICTIVE TO %s USING (%s)',
            known.policyname, known.roles, known.qual);
    END LOOP;
END $$;

-- Collects statistics of a tenant's partitions that have none, or have doubled since: autovacuum
-- does so only some minutes after a load, and only the owner may.
CREATE FUNCTION analyse_grown(of_tenant text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE part regclass;
BEGIN
    FOR part IN SELECT c.oid
        FROM pg_class p JOIN pg_inherits i ON i.inhparent = p.oid
        JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'r'
        CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound) b
        WHERE p.relnamespace = 'memwell'::regnamespace AND p.relkind = 'p'
            AND satisfies_hash_partition(p.oid, substring(b.bound FROM 'modulus (\d+)')::int,
                substring(b.bound FROM 'remainder (\d+)')::int, of_tenant)
            AND pg_relation_size(c.oid) > CASE WHEN c.reltuples < 0 THEN 0
                ELSE 2 * greatest(c.relpages, 16) * current_setting('block_size')::bigint END
    LOOP
        BEGIN
            EXECUTE format('ANALYZE %s', part);
        EXCEPTION WHEN lock_not_available THEN NULL;  -- another process does it
        END;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION analyse_grown(text) FROM PUBLIC;
DO $$
DECLARE
    service record;
BEGIN
    FOR service IN SELECT a.grantee::regrole AS role
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'indexes'::regclass AND a.privilege_type = 'DELETE'
            AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION analyse_grown(text) TO %s', service.role);
    END LOOP;
END $$;

-- step: keep two bytes for each dimension of a vector

-- Vectors are rounded to whole numbers from -127 to 127, which half precision can tell apart. A
-- search reads half of the bytes. The indexes of large agents are built anew.
ALTER TABLE vectors ALTER COLUMN vector TYPE halfvec USING vector::halfvec;
