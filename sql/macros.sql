-- The SQL surface of mwem_sql: table macros over Python functions. Run verbatim by register().
-- Why each body looks as it does: the function returns a LIST of STRUCT that is unnested, because unnesting a plain STRUCT runs
-- it once per field, and every run of a release is charged; the workload is read in FROM, ordered, because a subquery as an
-- argument cannot be copied; an error comes back as the field err, so that the user reads our sentence and no Python stack. It is raised
-- inside the list, before there are rows: whatever the outer query filters, projects or limits comes after that.
-- The context is written out each time: after USE of another database, a macro is still found by its full name, but not one
-- that it calls.

-- A private synthetic table that answers the workload: one summary row.
-- Example: CALL mwem_release('adult', workload, 0.5)  ->  1, census.main.adult_synthetic, 32590, 0.5, ...
-- Cost: epsilon and delta, once per request and output
CREATE OR REPLACE MACRO mwem_release(private_table, workload, epsilon, delta := 0.0, rounds := NULL, output := NULL, rows := NULL,
    total := NULL, domain := NULL, unit := NULL, rows_per_unit := NULL, start := 'uniform', average := false, fit := 'mirror', max_cells := NULL,
    certify := NULL, version := NULL, seed := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_release(to_json({
            private_table: private_table::VARCHAR,
            epsilon: epsilon::VARCHAR,
            options: {delta: delta::VARCHAR, rounds: rounds, output: output, "rows": "rows", total: total, domain: domain, unit: unit, rows_per_unit: rows_per_unit, "start": "start", average: average, fit: fit, max_cells: max_cells, certify: certify, version: version::VARCHAR, seed: seed},
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, queries), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list({n: n, j: j} ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

-- What a release would run and cost, as rows (item, value). Reads no private row.
-- Example: FROM mwem_plan('adult', workload, 0.5)  ->  rounds 10, noise scale 42.1, ...
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_plan(private_table, workload, epsilon, delta := 0.0, rounds := NULL, output := NULL, rows := NULL,
    total := NULL, domain := NULL, unit := NULL, rows_per_unit := NULL, start := 'uniform', average := false, fit := 'mirror', max_cells := NULL,
    certify := NULL, version := NULL, seed := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_plan(to_json({
            private_table: private_table::VARCHAR,
            epsilon: epsilon::VARCHAR,
            options: {delta: delta::VARCHAR, rounds: rounds, output: output, "rows": "rows", total: total, domain: domain, unit: unit, rows_per_unit: rows_per_unit, "start": "start", average: average, fit: fit, max_cells: max_cells, certify: certify, version: version::VARCHAR, seed: seed},
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, queries), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list({n: n, j: j} ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

-- The public domain of a table: every column, where it is declared and what it lacks. Reads no private row.
-- Example: FROM mwem_domain('adult')  ->  age, INTEGER, NULL, 17, 90, ..., CHECK, NULL
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_domain(private_table, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_domain(to_json({
            private_table: private_table::VARCHAR,
            domain: domain,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- NOT PRIVATE: a domain read off the data, for a person to review. The column script has all of it in every row: the domain table, marginals, the release.
-- Example: SELECT any_value(script) FROM mwem_suggest_domain('adult')  ->  -- NOT PRIVATE. ... CREATE OR REPLACE TABLE adult_domain ...
-- Cost: no epsilon; reads private rows, and the ledger notes it
CREATE OR REPLACE MACRO mwem_suggest_domain(private_table) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_suggest_domain(to_json({
            private_table: private_table::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Workload rows: all k-way marginals of the columns that can be grouped by; a warning in the log names the others. Reads no private row.
-- Example: CREATE TABLE workload AS FROM mwem_marginals('adult', 3)
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_marginals(private_table, k, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_marginals(to_json({
            private_table: private_table::VARCHAR,
            k: k,
            domain: domain,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Workload rows: random ranges over a column, or over several ('age, hours' or ['age', 'hours']).
-- Example: CREATE TABLE workload AS FROM mwem_ranges('adult', 'age', 2000)
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_ranges(private_table, columns, count, seed := NULL, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_ranges(to_json({
            private_table: private_table::VARCHAR,
            "columns": to_json("columns"),
            count: count,
            seed: seed,
            domain: domain,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Workload rows: parities of one to k attributes that have two values each.
-- Example: CREATE TABLE workload AS FROM mwem_parities('votes', 3)
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_parities(private_table, k, columns := NULL, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_parities(to_json({
            private_table: private_table::VARCHAR,
            k: k,
            "columns": to_json("columns"),
            domain: domain,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Answers of a stored release to any workload, in its order.
-- low and high: where the true answer is, 95 times in 100; measured: directly, in part or never.
-- Example: FROM mwem_answer('adult_synthetic', workload)  ->  1, age > 40, NULL, 14211.7, 14180.2, 14251.9, directly
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_answer(output, workload, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_answer(to_json({
            output: output::VARCHAR,
            confidence: confidence::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, queries), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list({n: n, j: j} ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

-- The average of a column, or of an expression, with its interval; of all rows, or of those for which a condition is true.
-- Example: FROM mwem_average('adult_synthetic', 'hours', given := 'sex = ''Female''')  ->  36.4, 36.1, 36.8, in part
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_average(output, measure, given := NULL, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_average(to_json({
            output: output::VARCHAR,
            measure: measure::VARCHAR,
            given: given::VARCHAR,
            confidence: confidence::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- The median, or other quantiles, of a column with their intervals: the least value that so much of the rows lies at most at. Values have the column's own type; rows without one do not count.
-- Example: FROM mwem_quantile('adult_synthetic', 'age', [0.25, 0.5, 0.75])  ->  0.25, 28, 28, 29, directly; 0.5, 37, ...
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_quantile(output, attribute, share, given := NULL, confidence := 0.95) AS TABLE
    FROM query(_mwem_quantile_sql(to_json({
            output: output::VARCHAR,
            attribute: attribute::VARCHAR,
            share: to_json(share),
            given: given::VARCHAR,
            confidence: confidence::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR));

-- Rows from a stored release: as many as you like, or of one kind. Drawn anew, as the synthetic table was; columns and types are those of the release.
-- Example: FROM mwem_sample('adult_synthetic', rows := 10000, given := 'sex = ''Female'' AND age >= 65', seed := 1)  ->  71, Female, ...
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_sample(output, rows := NULL, given := NULL, seed := NULL) AS TABLE
    FROM query(_mwem_sample_sql(to_json({
            output: output::VARCHAR,
            "rows": "rows",
            given: given::VARCHAR,
            seed: seed,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR));

-- NOT PRIVATE: true and released answers side by side, for the curator. binning_error is what bins and bounds alone put an answer off by.
-- Example: FROM mwem_compare('adult', 'adult_synthetic', workload)  ->  1, age > 40, NULL, 14237, 14211.7, 25.3, 14180.2, 14251.9, directly, 0, NULL
-- Cost: no epsilon; reads private rows, and the ledger notes it
CREATE OR REPLACE MACRO mwem_compare(private_table, output, workload, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_compare(to_json({
            private_table: private_table::VARCHAR,
            output: output::VARCHAR,
            confidence: confidence::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, queries), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list({n: n, j: j} ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

-- Every query of a release's workload: whether it was measured, how wide its intervals are, with how much noise and in which step.
-- Example: FROM mwem_quality('adult_synthetic')  ->  1, age > 40, 1, directly, 12, 17.4, 71.7
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_quality(output, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_quality(to_json({
            output: output::VARCHAR,
            confidence: confidence::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- One page about a stored release, for people: what is promised, what was measured, the workload's answers and how sure they are.
-- With compare := 'adult' the page shows true answers beside them and is NOT PRIVATE. A file that is there is replaced only if it is such a page.
-- Example: CALL mwem_report('adult_synthetic', 'report.html')  ->  report.html, 91284, true
-- Cost: nothing; with compare it reads private rows, and the ledger notes it
CREATE OR REPLACE MACRO mwem_report(output, path, compare := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_report(to_json({
            output: output::VARCHAR,
            path: path::VARCHAR,
            compare: compare,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- A stored release as files to publish: the rows as .parquet, .csv or .duckdb, and a data card beside them, for people (.md) and as data (.json).
-- Example: CALL mwem_export('adult_synthetic', 'release.parquet')  ->  release.parquet, 48211; release.md, 2310; release.json, 20944
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_export(output, path) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_export(to_json({
            output: output::VARCHAR,
            path: path::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Takes a release back: nothing is answered from it any more, and whoever asks reads when, by whom and why. Its rows stay until you drop them; dropping them alone
-- (DROP TABLE) keeps the release, which goes on answering.
-- Example: CALL mwem_withdraw('adult_synthetic', 'pay was in thousands before 2020')  ->  census.main.adult_synthetic, 1, 2026-06-01 12:00:00, ann, pay was ..., true
-- Cost: nothing, and nothing is given back; the ledger notes it
CREATE OR REPLACE MACRO mwem_withdraw(output, reason) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_withdraw(to_json({
            output: output::VARCHAR,
            reason: reason::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Sets the cap on what all releases of a table may spend together, how they are counted, and for whom.
-- Example: CALL mwem_budget('adult', 3.0)  ->  main, adult, 3.0, 0.0, 0.5, 0.0, 2.5, NULL, 1
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_budget(private_table, epsilon, delta := 0.0, unit := NULL, rows_per_unit := 1) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_budget(to_json({
            private_table: private_table::VARCHAR,
            epsilon: epsilon::VARCHAR,
            delta: delta::VARCHAR,
            unit: unit,
            rows_per_unit: rows_per_unit,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Whether every private table of the current database needs a cap before it is released; shows it, or sets it.
-- Example: CALL mwem_policy(require_caps := true)  ->  census, true
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_policy(require_caps := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_policy(to_json({
            require_caps: require_caps,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- What was spent, by whom, when, on what, and what is left, over all attached databases.
-- Example: FROM mwem_ledger()  ->  census, main, adult, census.main.adult_synthetic, 0.5, ...
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_ledger() AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_ledger(to_json({
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Lets an alias stand for another engine's database, whose tables are then private tables: a PostgreSQL server, Spark Connect, or a DuckDB file apart.
-- Example: CALL mwem_attach('warehouse', 'postgresql://curator@db/census')  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
-- Cost: nothing; the ledger of its tables is in the database that `ledger` names
CREATE OR REPLACE MACRO mwem_attach(alias, source, ledger := NULL, timeout := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_attach(to_json({
            "alias": "alias"::VARCHAR,
            source: source::VARCHAR,
            ledger: ledger,
            timeout: timeout,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- Takes an alias back. Accounts, caps and releases stay.
-- Example: CALL mwem_detach('warehouse')  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_detach(alias) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_detach(to_json({
            "alias": "alias"::VARCHAR,
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- The sources that are attached: alias, kind, where they are (without secrets), and the database that has their ledger.
-- Example: FROM mwem_sources()  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_sources() AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_sources(to_json({
            context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR, NULL), lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

-- The fractional weighting of a stored release over some attributes: a column each, and weight.
-- Example: FROM mwem_weights('adult_synthetic', ['sex', 'race'])  ->  Female, White, 8640.2
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_weights(output, attributes) AS TABLE
    FROM query(_mwem_weights_sql(to_json({output: output::VARCHAR, attributes: to_json(attributes), context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR));

-- One answer of a stored release.
-- Example: SELECT mwem_count('adult_synthetic', 'age > 40')  ->  14211.7
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_count(output, predicate) AS
    list_transform([_mwem_count(to_json({output: output::VARCHAR, predicate: predicate::VARCHAR, context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR)],
        lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r.answer END)[1];

-- The same with its interval, as a struct: answer, low, high, measured.
-- Example: SELECT mwem_count_interval('adult_synthetic', 'age > 40')  ->  {'answer': 14211.7, 'low': 14180.2, 'high': 14251.9, 'measured': directly}
-- Cost: nothing
CREATE OR REPLACE MACRO mwem_count_interval(output, predicate, confidence := 0.95) AS
    list_transform([_mwem_count(to_json({output: output::VARCHAR, predicate: predicate::VARCHAR, confidence: confidence::VARCHAR, context: {database: current_database(), schema: current_schema(), settings: {
            TimeZone: current_setting('TimeZone'), default_collation: current_setting('default_collation'),
            integer_division: current_setting('integer_division'),
            ieee_floating_point_ops: current_setting('ieee_floating_point_ops')}}})::VARCHAR)],
        lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE {answer: r.answer, low: r.low, high: r.high, measured: r.measured} END)[1];
