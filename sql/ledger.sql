-- What was spent on the private tables of this database, and the caps on them. Not for publication: it has clock times.
-- Run with the private table's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT table_name, epsilon, status FROM mwem.ledger  ->  adult, 0.5, done

CREATE SCHEMA IF NOT EXISTS mwem;

CREATE TABLE IF NOT EXISTS mwem.schema_version (version INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO mwem.schema_version VALUES (1);

CREATE TABLE IF NOT EXISTS mwem.ledger (
    entry VARCHAR PRIMARY KEY,
    database_name VARCHAR NOT NULL,     -- empty: the database that the ledger is in, whatever it is attached as
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    output VARCHAR,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    epsilon_exact VARCHAR NOT NULL,     -- the fraction that caps are checked with
    delta_exact VARCHAR NOT NULL,
    private BOOLEAN NOT NULL,           -- false: seeded noise, or a function that is not private
    action VARCHAR NOT NULL,
    status VARCHAR NOT NULL,            -- open, done or failed; all of them count
    started TIMESTAMP NOT NULL,
    finished TIMESTAMP
);

CREATE TABLE IF NOT EXISTS mwem.budgets (
    database_name VARCHAR NOT NULL,
    schema_name VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    epsilon_exact VARCHAR NOT NULL,
    delta_exact VARCHAR NOT NULL,
    debits BIGINT NOT NULL,             -- written by every debit, so that two at once conflict
    PRIMARY KEY (schema_name, table_name, database_name)
);
