-- What was spent on the private tables of this database, and the caps on them. Not for publication: it has clock times.
-- Run with the schema mwem of the private table's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT table_name, epsilon, status FROM mwem.ledger  ->  adult, 0.5, done

CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO schema_version VALUES (1);

CREATE TABLE IF NOT EXISTS ledger (
    entry VARCHAR PRIMARY KEY,
    database_name VARCHAR NOT NULL,     -- empty: the database that the ledger is in, whatever it is attached as
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    output VARCHAR,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    epsilon_exact VARCHAR NOT NULL,     -- the fraction that caps without delta are checked with
    delta_exact VARCHAR NOT NULL,
    private BOOLEAN NOT NULL,           -- false: seeded noise, or a function that is not private
    action VARCHAR NOT NULL,
    status VARCHAR NOT NULL,            -- open, done or failed; all of them count
    started TIMESTAMP NOT NULL,
    finished TIMESTAMP
);
-- Files that were written before caps fixed an accountant and a unit.
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS rho_exact VARCHAR;         -- the fraction that caps with delta are checked with
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS unit VARCHAR;              -- whose rows are protected together; NULL: each row
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS rows_per_unit INTEGER;
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS request VARCHAR;           -- hash of the request that was charged
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS who VARCHAR;               -- the name of the process's user id
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS account VARCHAR;           -- that was charged; NULL: older than accounts, or only noted
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS unit_is_computed BOOLEAN;  -- by a view, so that no cap can count it
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS unit_id VARCHAR;           -- what the unit's column is known by however it is renamed
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS claimed VARCHAR;           -- who the environment says that it was, if somebody else
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS version VARCHAR;
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS workload VARCHAR;          -- in short: its first query, and how many there are
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS reason VARCHAR;            -- why a release was withdrawn

CREATE TABLE IF NOT EXISTS budgets (
    database_name VARCHAR NOT NULL,
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,              -- 0: epsilons are added up; above: rho is, and converted once at this delta
    epsilon_exact VARCHAR NOT NULL,
    delta_exact VARCHAR NOT NULL,
    PRIMARY KEY (schema_name, table_name, database_name)
);
ALTER TABLE budgets DROP COLUMN IF EXISTS debits;
ALTER TABLE budgets ADD COLUMN IF NOT EXISTS unit VARCHAR;
ALTER TABLE budgets ADD COLUMN IF NOT EXISTS rows_per_unit INTEGER;
ALTER TABLE budgets ADD COLUMN IF NOT EXISTS account VARCHAR;          -- whose cap it is
ALTER TABLE budgets ADD COLUMN IF NOT EXISTS unit_id VARCHAR;

-- Everything that was ever written to the other tables, in order. Two writers at once take the same number, and one of
-- them tries again: that is what keeps a cap.
CREATE TABLE IF NOT EXISTS journal (
    number BIGINT PRIMARY KEY,
    event VARCHAR NOT NULL,             -- JSON: a debit, a note, the end of an entry or a cap, with all its values
    checksum VARCHAR NOT NULL           -- of this event and the checksum before it
);

-- Which account a name belongs to: that of a table, or the inode and the path of a file (with schema_name and table_name empty). Tables also
-- carry their account in their comment, "[mwem account ...]", which comes before the name: so it follows their rows through every rename.
CREATE TABLE IF NOT EXISTS names (
    database_name VARCHAR NOT NULL,     -- empty: the database that the ledger is in; else the path of a file
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    account VARCHAR NOT NULL,
    PRIMARY KEY (schema_name, table_name, database_name)
);
