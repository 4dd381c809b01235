-- What a release leaves beside its output. Everything here is differentially private output or public by assumption,
-- so the tables may be published with it: no true figure, no timing, and no clock time but that of a withdrawal.
-- Run with the schema mwem of the output's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT output, epsilon, rounds FROM mwem.releases  ->  census.main.adult_synthetic, 0.5, 10

CREATE TABLE IF NOT EXISTS releases (
    release INTEGER PRIMARY KEY,
    entry VARCHAR NOT NULL,             -- in the ledger beside the private table
    output VARCHAR NOT NULL,            -- database.schema.table, unquoted, as it was called then
    schema_name VARCHAR NOT NULL,       -- these two identify it, whatever the database is attached as
    table_name VARCHAR NOT NULL,
    version VARCHAR,
    request VARCHAR NOT NULL,           -- hash of the request: the same request is answered from here
    asked JSON NOT NULL,                -- the request in short: options, a hash of each query and of the domain table
    rows BIGINT NOT NULL,
    epsilon DOUBLE NOT NULL,
    delta DOUBLE NOT NULL,
    rounds INTEGER NOT NULL,
    again INTEGER NOT NULL,             -- of those, how many measured again what was known: nothing else had room in the model
    queries INTEGER NOT NULL,
    attributes INTEGER NOT NULL,
    cells BIGINT NOT NULL,
    total DOUBLE NOT NULL,              -- the released estimate of n, or the public constant that was given
    total_is_public BOOLEAN NOT NULL,
    unit VARCHAR,
    rows_per_unit INTEGER NOT NULL,
    private BOOLEAN NOT NULL,
    measured INTEGER NOT NULL,          -- rows of the workload that are sums of what was measured
    mean_error DOUBLE,                  -- share of the rows in a wrong cell of a query, the mean over the certified ones, with noise; NULL without a certificate
    mean_error_within DOUBLE,           -- how far the true mean is from mean_error at most, 95 times in 100
    wrong DOUBLE,                       -- share of the rows that are to be expected in a wrong cell of a query, by noise and certificate, at most 1
    units_cut DOUBLE,                   -- share of the units of which rows were left out, with noise
    units_cut_within DOUBLE,            -- how far the true share is from units_cut at most, 95 times in 100
    domain JSON NOT NULL,
    grid JSON NOT NULL                  -- per attribute its pieces, and in which class each is: those that no measurement told apart are in one; weights, where pieces of a class were measured, as (how many pieces, weight of each)
);

-- One row per measurement, in the order of the rounds.
CREATE TABLE IF NOT EXISTS measurements (
    release INTEGER NOT NULL,
    step INTEGER NOT NULL,
    purpose VARCHAR NOT NULL,           -- total, histogram, always, first, round, again or detail; rule and known are public, without noise
    query INTEGER,                      -- row of the workload, from 1; NULL for a marginal that its cuboids add up to
    name VARCHAR,
    noise VARCHAR NOT NULL,             -- laplace or gaussian, on integers
    scale DOUBLE NOT NULL,              -- of the noise on "values"
    resolution DOUBLE NOT NULL,         -- what a value of 1 stands for: 1, or the grid of the query's measure
    "values" BIGINT[] NOT NULL,         -- one per cell of the query, or of the partition of its attributes that was measured
    -- What each value counts. A value has one cell of every block, in row-major order: with sizes 2 and 3, "values"[1 + 3 * i + j] has cells i and j.
    -- A block is a list of stretches of the class combinations of its attributes, in row-major order and numbered from 0, classes as in the grid of the release:
    -- those from begins[k] up to begins[k + 1], or to the end, are in cells[k], or not counted where that is -1. shape has how many classes each attribute has.
    -- Of a detail, and of columns that are compared, the pieces of an attribute in that grid take the place of classes: shape has how many.
    -- A record adds 1, or if there are adds, adds[k] times resolution (of several blocks, their product). Without blocks a value counts all records.
    blocks STRUCT(attributes VARCHAR[], shape INTEGER[], size INTEGER, begins INTEGER[], cells INTEGER[], adds BIGINT[])[]
);

-- What was asked, as the call had it: its text is public, and whoever has the release can ask it again. These columns are those of a workload:
-- SELECT predicate, measure, group_by, name, weight, always FROM mwem.workloads WHERE release = 1 ORDER BY query
CREATE TABLE IF NOT EXISTS workloads (
    release INTEGER NOT NULL,
    query INTEGER NOT NULL,             -- row of the workload, from 1
    predicate VARCHAR,
    measure VARCHAR,
    group_by VARCHAR,                   -- SQL expressions; columns that were listed are quoted
    name VARCHAR,                       -- NULL where it is the predicate's or measure's own text
    weight DOUBLE NOT NULL,
    always BOOLEAN NOT NULL
);

-- The factored state: state is 0 but for an average, which keeps one state per round.
CREATE TABLE IF NOT EXISTS factors (
    release INTEGER NOT NULL,
    state INTEGER NOT NULL,
    factor INTEGER NOT NULL,
    attributes VARCHAR[] NOT NULL,
    shape INTEGER[] NOT NULL,
    weights DOUBLE[] NOT NULL
);

-- The certificate: how far the state is off, with noise. Errors are in rows; of a sum, in parts of the most that a row adds.
CREATE TABLE IF NOT EXISTS certificates (
    release INTEGER NOT NULL,
    part VARCHAR NOT NULL,              -- directly: the mean error of the queries that were measured; others: of those that were not; most: the error of a cell that most of these do not exceed
    queries INTEGER NOT NULL,           -- over so many of them
    beyond INTEGER NOT NULL,            -- of most: the cells of so many of them may be off by more
    value DOUBLE NOT NULL,
    noise VARCHAR NOT NULL,             -- laplace or gaussian
    scale DOUBLE NOT NULL,              -- of the noise on value
    possible DOUBLE NOT NULL            -- the most that value can be without noise, in parts of all rows: 1 of a query with one cell, 2 of others, the mean over them
);

-- What is known of each query of the workload, whose text is in workloads.
CREATE TABLE IF NOT EXISTS bounds (
    release INTEGER NOT NULL,
    query INTEGER NOT NULL,             -- row of the workload, from 1
    measured BOOLEAN NOT NULL,          -- whether all its cells are sums of what was measured
    bound DOUBLE                        -- how far off all its cells are together, by what selections tell; fails for some query of a release in 4 of 1,000. NULL if they tell nothing
);

-- Releases that were withdrawn (mwem_withdraw): nothing is answered from them any more. The rows stay where they are.
CREATE TABLE IF NOT EXISTS withdrawals (
    release INTEGER PRIMARY KEY,
    withdrawn TIMESTAMP NOT NULL,       -- when, in UTC
    who VARCHAR NOT NULL,               -- the name of the process's user id
    reason VARCHAR NOT NULL
);
