-- What was spent on the private tables of this database, and the caps on them. Not for publication: it has clock times.
-- Run with the schema mwem of the private table's database as the current one. Costs nothing when the tables exist.
-- Example: SELECT table_name, epsilon, status FROM mwem.ledger  ->  adult, 0.5, done

-- One line for each event, in order: lines are added and never changed. Two writers at once take the same number, and
-- one of them tries again: that is what keeps a cap. Events: entry (a charge or a note begins), end (it ends), resume (it
-- goes on after all), cap (one is set), key (a key belongs to an account from now on), policy (one is set), partition (a column is declared, by whose
-- values charges add up from now on, or taken back), request (a user asks for more than their caps allow, and nothing is
-- charged), decision (what the curator, or who asked, says of a request or of a release that was withheld).
CREATE TABLE IF NOT EXISTS journal (
    number BIGINT PRIMARY KEY,          -- from 1, without a gap
    event VARCHAR NOT NULL,             -- entry, end, resume, cap, key, policy, public, partition, request or decision
    moment TIMESTAMP NOT NULL,          -- when, in UTC
    who VARCHAR NOT NULL,               -- the name of the process's user id
    claimed VARCHAR,                    -- who the environment says that it was, if somebody else
    account VARCHAR,                    -- that is charged or capped, or that the key belongs to; NULL: none
    database_name VARCHAR,              -- as it was called then; empty: that of the journal. Of a key, a path or empty
    schema_name VARCHAR,
    table_name VARCHAR,
    entry VARCHAR,                      -- of an entry, its end, and where it goes on; of a request and a decision about either, its id
    output VARCHAR,
    action VARCHAR,                     -- the function that was called
    status VARCHAR,                     -- of an end: done, failed or withheld; of a decision: approved, refused or withdrawn
    private BOOLEAN,                    -- false: seeded noise, or a function that is not private
    epsilon DOUBLE,
    delta DOUBLE,                       -- of a cap, 0: epsilons are added up; above: rho is, and converted once
    epsilon_exact VARCHAR,              -- the fraction that caps without delta are checked with
    delta_exact VARCHAR,
    rho_exact VARCHAR,                  -- the fraction that caps with delta are checked with; an end has what it took
    failure_exact VARCHAR,              -- the part of delta beside rho: with that chance a value of one unit is shown
    unit VARCHAR,                       -- whose rows are protected together; NULL: each row
    rows_per_unit INTEGER,
    unit_is_computed BOOLEAN,           -- by a view, so that no cap can count it
    unit_id VARCHAR,                    -- what the unit's column is known by however it is renamed
    request VARCHAR,                    -- hash of the request that was charged, or is asked for
    version VARCHAR,
    workload VARCHAR,                   -- in short: its first query, and how many there are
    reason VARCHAR,                     -- why a release was withdrawn, or a request refused
    require_caps BOOLEAN,               -- of a policy
    partition_by VARCHAR,               -- of a partition, the column; NULL: none from now on. Of an entry, the column then
    partition_id VARCHAR,               -- what that column is known by however it is renamed
    partition_type VARCHAR,             -- and its type
    partition VARCHAR,                  -- of an entry: for which values of it the charge counts; NULL: for all
    partition_exact VARCHAR,            -- the same as JSON: stretches of values, [from, until), and null for NULL
    user_name VARCHAR,                  -- of an entry, the user of a server that asked; of a cap, whose it is; NULL: no such
    every VARCHAR,                      -- of a cap that renews, after how many days or hours
    opened TIMESTAMP,                   -- of such a cap, when its window began
    since BIGINT,                       -- of a cap: what was charged in lines up to this number is not counted
    approval VARCHAR,                   -- of an entry: the approved request that it uses up
    checksum VARCHAR NOT NULL           -- of this line and the checksum before it
);

-- The last line, so that a journal that was cut short is noticed. It has one row.
CREATE TABLE IF NOT EXISTS journal_head (
    number BIGINT NOT NULL,             -- 0 before the first line
    checksum VARCHAR NOT NULL
);
INSERT INTO journal_head SELECT 0, '' WHERE NOT EXISTS (FROM journal_head);

-- What an entry has drawn that did not come to its end: a line for each draw, with its noise, so that it is private by
-- what the entry was charged. The release goes on from these when it is called again; they go when it is stored.
CREATE TABLE IF NOT EXISTS draws (
    entry VARCHAR NOT NULL,
    number INTEGER NOT NULL,            -- from 1, without a gap
    step VARCHAR NOT NULL,              -- hash of all that was asked up to this draw
    "values" BLOB NOT NULL,             -- whole numbers of 8 bytes; of values that were discovered, JSON
    made_by VARCHAR NOT NULL,           -- versions of packages, for people
    PRIMARY KEY (entry, number)
);

-- What a request asks, beside its line in the journal: its plan, as mwem_plan shows it, and its workload, as JSON. All of
-- it is public. It goes when the request is refused or withdrawn.
CREATE TABLE IF NOT EXISTS requests (
    entry VARCHAR PRIMARY KEY,          -- its id
    plan VARCHAR[] NOT NULL,            -- item: value
    workload VARCHAR[] NOT NULL         -- a row of the workload each
);

-- The entries of the journal, each with its end. A status is open, done, failed or withheld; all of them count.
CREATE VIEW IF NOT EXISTS ledger AS
SELECT
    line.entry, line.database_name, line.schema_name, line.table_name, line.output, line.epsilon, line.delta,
    line.epsilon_exact, line.delta_exact, line.private, line.action,
    CASE WHEN last.event = 'end' THEN last.status ELSE 'open' END AS status,
    line.moment AS started, CASE WHEN last.event = 'end' THEN last.moment END AS finished,
    coalesce(last.rho_exact, line.rho_exact) AS rho_exact, line.unit, line.rows_per_unit, line.request, line.who,
    line.account, line.unit_is_computed, line.unit_id, line.claimed, line.version, line.workload, line.reason,
    line.failure_exact, line.partition_by, line.partition, line.partition_exact, line.user_name
FROM journal AS line
LEFT JOIN (
    SELECT entry, max(number) AS number FROM journal WHERE event IN ('end', 'resume') GROUP BY entry
) AS newest ON newest.entry = line.entry
LEFT JOIN journal AS last ON last.number = newest.number
WHERE line.event = 'entry' ORDER BY line.number;

-- The cap of each account, and of each user of it: the last that was set; and the column by whose values its charges add up, if there is one.
CREATE VIEW IF NOT EXISTS budgets AS
SELECT
    cap.database_name, cap.schema_name, cap.table_name, cap.epsilon, cap.delta, cap.epsilon_exact, cap.delta_exact,
    cap.unit, cap.rows_per_unit, cap.account, cap.unit_id, declared.partition_by, cap.user_name, cap.every, cap.opened
FROM journal AS cap
LEFT JOIN journal AS later ON later.account IS NOT DISTINCT FROM cap.account AND later.event = 'cap'
    AND later.user_name IS NOT DISTINCT FROM cap.user_name AND later.number > cap.number
LEFT JOIN (
    SELECT account, arg_max_null(partition_by, number) AS partition_by FROM journal WHERE event = 'partition'
    GROUP BY account
) AS declared ON declared.account = cap.account
WHERE cap.event = 'cap' AND later.number IS NULL ORDER BY cap.number;
