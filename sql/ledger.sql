-- What was spent on the private tables of this database, and the caps on them. Not for publication: it has clock times.
-- Run with the schema mwem of the private table's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT table_name, epsilon, status FROM mwem.ledger  ->  adult, 0.5, done

-- One line for each event, in order: lines are added and never changed. Two writers at once take the same number, and one of them tries
-- again: that is what keeps a cap.
CREATE TABLE IF NOT EXISTS journal (
    number BIGINT PRIMARY KEY,          -- from 1, without a gap
    event VARCHAR NOT NULL,             -- entry: a charge or a note begins; end: it ends; cap: a cap is set; key: a key belongs to an account from now on; policy: the policy is set
    moment TIMESTAMP NOT NULL,          -- when, in UTC
    who VARCHAR NOT NULL,               -- the name of the process's user id
    claimed VARCHAR,                    -- who the environment says that it was, if somebody else
    account VARCHAR,                    -- that is charged or capped, or that the key belongs to; of an entry, NULL where nothing is charged and no account is there
    database_name VARCHAR,              -- the table's, as it was called then; empty: the database that the journal is in, whatever it is attached as. Of a key: empty, or the path of a file
    schema_name VARCHAR,
    table_name VARCHAR,
    entry VARCHAR,                      -- of an entry and its end
    output VARCHAR,
    action VARCHAR,                     -- the function that was called
    status VARCHAR,                     -- of an end: done or failed
    private BOOLEAN,                    -- false: seeded noise, or a function that is not private
    epsilon DOUBLE,
    delta DOUBLE,                       -- of a cap, 0: epsilons are added up; above: rho is, and converted once at this delta
    epsilon_exact VARCHAR,              -- the fraction that caps without delta are checked with
    delta_exact VARCHAR,
    rho_exact VARCHAR,                  -- the fraction that caps with delta are checked with
    unit VARCHAR,                       -- whose rows are protected together; NULL: each row
    rows_per_unit INTEGER,
    unit_is_computed BOOLEAN,           -- by a view, so that no cap can count it
    unit_id VARCHAR,                    -- what the unit's column is known by however it is renamed
    request VARCHAR,                    -- hash of the request that was charged
    version VARCHAR,
    workload VARCHAR,                   -- in short: its first query, and how many there are
    reason VARCHAR,                     -- why a release was withdrawn
    require_caps BOOLEAN,               -- of a policy
    checksum VARCHAR NOT NULL           -- of this line and the checksum before it
);

-- The last line, so that a journal that was cut short is noticed. It has one row.
CREATE TABLE IF NOT EXISTS journal_head (
    number BIGINT NOT NULL,             -- 0 before the first line
    checksum VARCHAR NOT NULL
);
INSERT INTO journal_head SELECT 0, '' WHERE NOT EXISTS (FROM journal_head);

-- The entries of the journal, each with its end. A status is open, done or failed; all of them count.
CREATE VIEW IF NOT EXISTS ledger AS
SELECT
    opened.entry, opened.database_name, opened.schema_name, opened.table_name, opened.output, opened.epsilon, opened.delta,
    opened.epsilon_exact, opened.delta_exact, opened.private, opened.action,
    CASE WHEN ended.number IS NULL THEN 'open' ELSE ended.status END AS status, opened.moment AS started, ended.moment AS finished,
    opened.rho_exact, opened.unit, opened.rows_per_unit, opened.request, opened.who, opened.account, opened.unit_is_computed,
    opened.unit_id, opened.claimed, opened.version, opened.workload, opened.reason
FROM journal AS opened LEFT JOIN journal AS ended ON ended.entry = opened.entry AND ended.event = 'end'
WHERE opened.event = 'entry' ORDER BY opened.number;

-- The cap of each account: the last that was set.
CREATE VIEW IF NOT EXISTS budgets AS
SELECT
    cap.database_name, cap.schema_name, cap.table_name, cap.epsilon, cap.delta, cap.epsilon_exact, cap.delta_exact, cap.unit,
    cap.rows_per_unit, cap.account, cap.unit_id
FROM journal AS cap LEFT JOIN journal AS later ON later.account = cap.account AND later.event = 'cap' AND later.number > cap.number
WHERE cap.event = 'cap' AND later.number IS NULL ORDER BY cap.number;
