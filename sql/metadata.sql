-- What a release leaves beside its output. Everything here is differentially private output or public by assumption,
-- so the tables may be published with it: no true figure, no timing, no clock time.
-- Run with the schema mwem of the output's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT output, epsilon, rounds FROM mwem.releases  ->  census.main.adult_synthetic, 0.5, 10

CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO schema_version VALUES (1);

CREATE TABLE IF NOT EXISTS releases (
    release INTEGER PRIMARY KEY,
    entry VARCHAR NOT NULL,             -- in the ledger beside the private table
    output VARCHAR NOT NULL,            -- database.schema.table, unquoted, as it was called then
    schema_name VARCHAR NOT NULL,       -- these two identify it, whatever the database is attached as
    table_name VARCHAR NOT NULL,
    version VARCHAR,
    request VARCHAR NOT NULL,           -- hash of the request: the same request is answered from here
    rows BIGINT NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    rounds INTEGER NOT NULL,
    again INTEGER DEFAULT 0,            -- of those, how many measured again what was known: nothing else had room in the model
    queries INTEGER NOT NULL,
    attributes INTEGER NOT NULL,
    cells BIGINT NOT NULL,
    total DOUBLE NOT NULL,              -- the released estimate of n, or the public constant that was given
    total_is_public BOOLEAN NOT NULL,
    unit VARCHAR,
    rows_per_unit INTEGER NOT NULL,
    private BOOLEAN NOT NULL,
    domain JSON NOT NULL,
    grid JSON NOT NULL                  -- per attribute its pieces, and in which class each is: those that no measurement told apart are in one; weights, where pieces of a class were measured, as (how many pieces, weight of each)
);

-- Files that were written before rounds were told apart.
ALTER TABLE releases ADD COLUMN IF NOT EXISTS again INTEGER DEFAULT 0;
-- Files that were written before a changed request was told what it changed.
ALTER TABLE releases ADD COLUMN IF NOT EXISTS asked JSON;              -- the request in short: options, a hash of each query and of the domain table

-- One row per measurement, in the order of the rounds.
CREATE TABLE IF NOT EXISTS measurements (
    release INTEGER NOT NULL,
    step INTEGER NOT NULL,
    purpose VARCHAR NOT NULL,           -- total, histogram, first, round, again or detail
    query INTEGER,                      -- row of the workload, from 1; NULL for a marginal that its cuboids add up to
    name VARCHAR,
    noise VARCHAR NOT NULL,             -- laplace or gaussian, on integers
    scale DOUBLE NOT NULL,              -- of the noise on "values"
    resolution DOUBLE DEFAULT 1.0,      -- what a value of 1 stands for: 1, or the grid of the query's measure
    "values" BIGINT[] NOT NULL,         -- one per cell of the query, or of the partition of its attributes that was measured
    -- What each value counts. A value has one cell of every block, in row-major order: with sizes 2 and 3, "values"[1 + 3 * i + j] has cells i and j.
    -- A block is a list of stretches of the class combinations of its attributes, in row-major order and numbered from 0, classes as in the grid of the release:
    -- those from begins[k] up to begins[k + 1], or to the end, are in cells[k], or not counted where that is -1. shape has how many classes each attribute has.
    -- Of a detail, the pieces of the attribute in that grid take the place of classes.
    -- A record adds 1, or if there are adds, adds[k] times resolution (of several blocks, their product). Without blocks a value counts all records.
    blocks STRUCT(attributes VARCHAR[], shape INTEGER[], size INTEGER, begins INTEGER[], cells INTEGER[], adds BIGINT[])[]
);
-- Files that were written before measures had a grid.
ALTER TABLE measurements ADD COLUMN IF NOT EXISTS resolution DOUBLE DEFAULT 1.0;
-- Files that were written before measurements said what they count.
ALTER TABLE measurements ADD COLUMN IF NOT EXISTS blocks STRUCT(attributes VARCHAR[], shape INTEGER[], size INTEGER, begins INTEGER[], cells INTEGER[], adds BIGINT[])[];

-- The factored state: state is 0 but for an average, which keeps one state per round.
CREATE TABLE IF NOT EXISTS factors (
    release INTEGER NOT NULL,
    state INTEGER NOT NULL,
    factor INTEGER NOT NULL,
    attributes VARCHAR[] NOT NULL,
    shape INTEGER[] NOT NULL,
    weights DOUBLE[] NOT NULL
);
