-- The SQL surface of mwem_sql, run by register(). Written by `python docs/reference.py` from mwem_sql/surface/spec.py.
-- Why each body looks as it does: the function returns a LIST of STRUCT that is unnested, because unnesting a plain
-- STRUCT runs it once per field, and every run of a release is charged; the workload is read in FROM, ordered, because
-- a subquery as an argument cannot be copied; an error comes back as the field err, so that the user reads our sentence
-- and no Python stack. It is raised inside the list, before there are rows: whatever the outer query filters, projects
-- or limits comes after that. The context is in every body: after USE of another database, a macro is still found by
-- its full name, but not one that it calls.

CREATE OR REPLACE MACRO mwem_release(private_table, workload, epsilon, delta := 0.0, rounds := NULL,
        output := NULL, rows := NULL, total := NULL, domain := NULL, rules := NULL, known := NULL, unit := NULL,
        rows_per_unit := NULL, start := 'uniform', average := false, fit := 'mirror', max_cells := NULL,
        certify := NULL, publish_if := NULL, version := NULL, seed := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_release(
        to_json({"private_table": "private_table", "epsilon": "epsilon"::VARCHAR, "options": {"delta": "delta"::VARCHAR,
        "rounds": "rounds", "output": "output", "rows": "rows", "total": "total", "domain": "domain",
        "rules": "rules", "known": "known", "unit": "unit", "rows_per_unit": "rows_per_unit", "start": "start",
        "average": "average", "fit": "fit", "max_cells": "max_cells", "certify": "certify",
        "publish_if": "publish_if", "version": "version"::VARCHAR, "seed": "seed"},
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, queries),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

COMMENT ON MACRO TABLE mwem_release IS 'A private synthetic table that answers the workload: one summary row.

Example: CALL mwem_release(''adult'', workload, 0.5)  ->  1, census.main.adult_synthetic, 32590, 0.5, ...
Cost: epsilon and delta, once per request and output

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit'']: a table for each, whose keys join.
workload  The questions: a table or view, by its bare name. In Python also a frame or a Workload.
epsilon  The privacy budget of this release. Smaller is more private, and noisier.
delta := 0.0  Above 0, noise may be Gaussian and is counted by zCDP, where the error will be smaller. 1e-6 is usual; it must be far below 1 over the number of people.
rounds := NULL  How many queries are selected and measured. NULL: chosen by itself.
output := NULL  The name of the output; database.schema.table for another database. NULL: <table>_synthetic.
rows := NULL  The rows of the output. NULL: as many as the noisy count says.
total := NULL  The number of rows, if it is public. If you give the true count, you have published it. NULL: estimated from what is measured, or with 1/50 of the budget.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.
rules := NULL  The name of a rules table. NULL: <table>_rules, if there is one. Of several tables: {person: ''r''}.
known := NULL  The name of a table of public totals. NULL: <table>_known, if there is one. Of several tables: {person: ''k''}.
unit := NULL  The column that identifies a person: all rows of a person are protected together. NULL: each row by itself.
rows_per_unit := NULL  How many rows of one person count. Needs unit. Of several tables: a number for all below the root, or one for each, {visit: 20}.
start := ''uniform''  What the first round starts from. ''histogram'': a noisy histogram of the whole domain, for a quarter of the budget. The output of an earlier release, or a table of public rows: what these say of columns of the same names. It is dropped where it turns out to be wrong.
average := false  true: release the average of all rounds, not the last one. This is the paper''s figure and its theorem, without replays.
fit := ''mirror''  How measurements are fitted after each round. ''mirror'': all at once, until the misfit no longer falls. ''replay'': 100 passes of the paper''s fixed step.
max_cells := NULL  The largest model, in cells. NULL: 10,000,000. A query that would exceed it is not asked. If none is left, rounds measure again what was measured.
certify := NULL  The share of the budget that tells how far off the answers are in the end, 0 to 0.5. NULL: 0.02, or 0 if rounds or average is given.
publish_if := NULL  A condition on the certificate, ''mean_share < 0.1'': mean_share is the most that the true mean error may be, 95 times in 100. Where it is not met, the budget is spent and nothing is published. NULL: always published.
version := NULL  A new version makes, and charges, a new release under the same output name.
seed := NULL  Repeatable noise, for experiments. The release is marked private = false.

-> release INTEGER  Its number in mwem.releases; of several tables, the root''s.
-> output VARCHAR  The table that was written: database.schema.table. Of several tables, all of them.
-> rows BIGINT  Rows of that table: the noisy count, or the option rows. Numbers of several tables are added up.
-> epsilon DOUBLE  What was charged, and is promised.
-> delta DOUBLE  What was charged, and is promised.
-> rounds INTEGER  Number of measurement steps.
-> queries INTEGER  Rows of the workload.
-> attributes INTEGER  Columns of the output: those that the workload asks about.
-> cells BIGINT  Size of the model.
-> seconds DOUBLE  How long the call took.
-> private BOOLEAN  false: made with a seed, for experiments. It protects nobody.
-> reused BOOLEAN  true: the stored release of the same request, which cost nothing.
-> protects VARCHAR  Whose change is hidden: one row, or all rows of one unit.
-> warning VARCHAR  What to know before it is used; NULL: nothing.
-> measured INTEGER  Rows of the workload all of whose cells were measured.
-> mean_error DOUBLE  Share of the rows that are in a wrong cell of a query of the workload, on average over its queries; from 0 to 1. From the certificate, with noise. NULL without one.
-> mean_error_within DOUBLE  How far off `mean_error` itself may be: 95 times in 100 it is within this of the truth. Larger than `mean_error`: that is not known better than both together. NULL without a certificate.
-> quality VARCHAR  How good the release is for its workload, in one word. good: at most 5% of the rows in wrong cells, and at least 50% of the questions were measured; fair: at most 20%; poor: more, or not known.';

CREATE OR REPLACE MACRO mwem_plan(private_table, workload, epsilon, delta := 0.0, rounds := NULL,
        output := NULL, rows := NULL, total := NULL, domain := NULL, rules := NULL, known := NULL, unit := NULL,
        rows_per_unit := NULL, start := 'uniform', average := false, fit := 'mirror', max_cells := NULL,
        certify := NULL, publish_if := NULL, version := NULL, seed := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_plan(
        to_json({"private_table": "private_table", "epsilon": "epsilon"::VARCHAR, "options": {"delta": "delta"::VARCHAR,
        "rounds": "rounds", "output": "output", "rows": "rows", "total": "total", "domain": "domain",
        "rules": "rules", "known": "known", "unit": "unit", "rows_per_unit": "rows_per_unit", "start": "start",
        "average": "average", "fit": "fit", "max_cells": "max_cells", "certify": "certify",
        "publish_if": "publish_if", "version": "version"::VARCHAR, "seed": "seed"},
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, queries),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

COMMENT ON MACRO TABLE mwem_plan IS 'What a release would run and cost, as rows (item, value). Reads no private row.

Example: FROM mwem_plan(''adult'', workload, 0.5)  ->  rounds 10, noise scale 42.1, ...
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit'']: a table for each, whose keys join.
workload  The questions: a table or view, by its bare name. In Python also a frame or a Workload.
epsilon  The privacy budget of this release. Smaller is more private, and noisier.
delta := 0.0  Above 0, noise may be Gaussian and is counted by zCDP, where the error will be smaller. 1e-6 is usual; it must be far below 1 over the number of people.
rounds := NULL  How many queries are selected and measured. NULL: chosen by itself.
output := NULL  The name of the output; database.schema.table for another database. NULL: <table>_synthetic.
rows := NULL  The rows of the output. NULL: as many as the noisy count says.
total := NULL  The number of rows, if it is public. If you give the true count, you have published it. NULL: estimated from what is measured, or with 1/50 of the budget.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.
rules := NULL  The name of a rules table. NULL: <table>_rules, if there is one. Of several tables: {person: ''r''}.
known := NULL  The name of a table of public totals. NULL: <table>_known, if there is one. Of several tables: {person: ''k''}.
unit := NULL  The column that identifies a person: all rows of a person are protected together. NULL: each row by itself.
rows_per_unit := NULL  How many rows of one person count. Needs unit. Of several tables: a number for all below the root, or one for each, {visit: 20}.
start := ''uniform''  What the first round starts from. ''histogram'': a noisy histogram of the whole domain, for a quarter of the budget. The output of an earlier release, or a table of public rows: what these say of columns of the same names. It is dropped where it turns out to be wrong.
average := false  true: release the average of all rounds, not the last one. This is the paper''s figure and its theorem, without replays.
fit := ''mirror''  How measurements are fitted after each round. ''mirror'': all at once, until the misfit no longer falls. ''replay'': 100 passes of the paper''s fixed step.
max_cells := NULL  The largest model, in cells. NULL: 10,000,000. A query that would exceed it is not asked. If none is left, rounds measure again what was measured.
certify := NULL  The share of the budget that tells how far off the answers are in the end, 0 to 0.5. NULL: 0.02, or 0 if rounds or average is given.
publish_if := NULL  A condition on the certificate, ''mean_share < 0.1'': mean_share is the most that the true mean error may be, 95 times in 100. Where it is not met, the budget is spent and nothing is published. NULL: always published.
version := NULL  A new version makes, and charges, a new release under the same output name.
seed := NULL  Repeatable noise, for experiments. The release is marked private = false.

-> item VARCHAR  What a line is about: expect, advice, epsilon, noise scale ...
-> value VARCHAR  What there is to say about it.';

CREATE OR REPLACE MACRO mwem_domain(private_table, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_domain(
        to_json({"private_table": "private_table", "domain": "domain", context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_domain IS 'The public domain of a table: every column, where it is declared and what it lacks. Reads no private row.

Example: FROM mwem_domain(''adult'')  ->  age, INTEGER, NULL, 17, 90, ..., CHECK, NULL
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.

-> attribute VARCHAR  The column.
-> type VARCHAR  The column''s type.
-> values VARCHAR[]  Its possible values; NULL where it has bounds.
-> low VARCHAR  The smallest possible value, as text.
-> high VARCHAR  The largest possible value, as text.
-> step VARCHAR  What synthetic values are multiples of, from low on: days for dates, seconds for timestamps. Without bins and edges, bins begin there, too.
-> bins INTEGER  Equal bins that its values are counted in.
-> nullable BOOLEAN  Whether NULL is a value of its own.
-> open BOOLEAN  Whether values off the list are one class more.
-> cells BIGINT  How many cells its values fall into.
-> declared VARCHAR  Where that is declared: ENUM, BOOLEAN, CHECK or the domain table.
-> lacks VARCHAR  What is missing before the column can be asked about or grouped by; NULL: nothing.
-> edges VARCHAR[]  Where bins begin, after the first at low, if they are not equal.
-> discover BOOLEAN  Whether a release finds its values, those of enough units.';

CREATE OR REPLACE MACRO mwem_rules(private_table, domain := NULL, rules := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_rules(
        to_json({"private_table": "private_table", "domain": "domain", "rules": "rules",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_rules IS 'What is possible of several columns together: CHECKs, generated columns and the rows of a rules table. No synthetic row breaks one, and none takes any budget. Reads no private row.

Example: FROM mwem_rules(''adult'')  ->  age >= 15 OR marital = ''never'', [age, marital], CHECK, cells of the model are 0, NULL
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.
rules := NULL  The name of a rules table. NULL: <table>_rules, if there is one. Of several tables: {person: ''r''}.

-> rule VARCHAR  A condition that no row makes false, or what a column is computed by.
-> attributes VARCHAR[]  The columns that it is about.
-> declared VARCHAR  Where it is declared: CHECK, GENERATED or the rules table.
-> holds VARCHAR  cells of the model are 0: as far as classes of a workload tell rows apart that break it. rows are drawn again: it joins too many values. computed: the column is not modelled.
-> lacks VARCHAR  What is missing before it can hold; NULL: nothing.
-> of VARCHAR  Which of several tables it is about; NULL for one.';

CREATE OR REPLACE MACRO mwem_known(private_table, domain := NULL, known := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_known(
        to_json({"private_table": "private_table", "domain": "domain", "known": "known",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_known IS 'Public totals: counts that somebody else has published, and the number of rows if it follows from them. A release agrees with them exactly, and none takes any budget. Reads no private row.

Example: FROM mwem_known(''votes'')  ->  "region" = ''North'', 1203, [region], table of public totals, NULL
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.
known := NULL  The name of a table of public totals. NULL: <table>_known, if there is one. Of several tables: {person: ''k''}.

-> predicate VARCHAR  Which rows are counted; NULL: all.
-> rows BIGINT  How many there are; NULL: the totals do not say it.
-> attributes VARCHAR[]  The columns that it is about.
-> declared VARCHAR  table of public totals, or: follows from others.
-> lacks VARCHAR  What is missing before it can hold; NULL: nothing.
-> of VARCHAR  Which of several tables it is about; NULL for one.';

CREATE OR REPLACE MACRO mwem_suggest_domain(private_table) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_suggest_domain(
        to_json({"private_table": "private_table", context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_suggest_domain IS 'NOT PRIVATE: a domain read off the data, for a person to review. The column script has all of it, in the first row: the domain table, marginals, the release.

Example: SELECT any_value(script) FROM mwem_suggest_domain(''adult'')  ->  -- NOT PRIVATE. ... CREATE OR REPLACE TABLE adult_domain ...
Cost: no epsilon; reads private rows; the ledger notes it

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source.

-> attribute VARCHAR  The column.
-> values VARCHAR[]  Its possible values; NULL where it has bounds.
-> low VARCHAR  The smallest possible value, as text.
-> high VARCHAR  The largest possible value, as text.
-> nullable BOOLEAN  Whether NULL is a value of its own.
-> open BOOLEAN  Whether values off the list are one class more.
-> ddl VARCHAR  The INSERT that would declare it.
-> bins INTEGER  Equal bins that its values are counted in.
-> note VARCHAR  What a person has to check.
-> step VARCHAR  What synthetic values are multiples of, from low on: days for dates, seconds for timestamps. Without bins and edges, bins begin there, too.
-> edges VARCHAR[]  Where bins begin, after the first at low, if they are not equal.
-> reason VARCHAR  What was seen in the column, and what follows from it.
-> read_as VARCHAR  The column in the view of the script, where it must be read in another type or with NULL for a code; NULL: as it is.
-> rows_per_unit INTEGER  The largest number of rows with the same value, where the column is proposed as the unit.
-> script VARCHAR  In the first row, a whole script: a view if there must be one, domain table, workload, release.';

CREATE OR REPLACE MACRO mwem_marginals(private_table, k, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_marginals(
        to_json({"private_table": "private_table", "k": "k", "domain": "domain", context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_marginals IS 'Workload rows: all k-way marginals of the columns that can be grouped by; a warning in the log names the others. Of a list of tables, each with the columns above it and the numbers of rows below.

Example: CREATE TABLE workload AS FROM mwem_marginals(''adult'', 3)
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
k  How many columns are asked about together: 2 for all pairs.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.

-> predicate VARCHAR  The condition; NULL: all rows.
-> measure VARCHAR  What is summed up; NULL: rows are counted.
-> group_by VARCHAR[]  The columns.
-> name VARCHAR  The query''s text.
-> weight DOUBLE  1.
-> of VARCHAR  The table whose rows are counted, of a list of tables; NULL: there is one.';

CREATE OR REPLACE MACRO mwem_ranges(private_table, columns, count, seed := NULL, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_ranges(
        to_json({"private_table": "private_table", "columns": to_json("columns"), "count": "count", "seed": "seed",
        "domain": "domain", context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_ranges IS 'Workload rows: random ranges over a column, or over several (''age, hours'' or [''age'', ''hours'']).

Example: CREATE TABLE workload AS FROM mwem_ranges(''adult'', ''age'', 2000)
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
columns  A column, or several: ''age, hours'' or [''age'', ''hours''].
count  How many ranges.
seed := NULL  The same number makes the same ranges again.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.

-> predicate VARCHAR  The condition; NULL: all rows.
-> measure VARCHAR  What is summed up; NULL: rows are counted.
-> group_by VARCHAR[]  The columns.
-> name VARCHAR  The query''s text.
-> weight DOUBLE  1.
-> of VARCHAR  The table whose rows are counted, of a list of tables; NULL: there is one.';

CREATE OR REPLACE MACRO mwem_parities(private_table, k, columns := NULL, domain := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_parities(
        to_json({"private_table": "private_table", "k": "k", "columns": to_json("columns"), "domain": "domain",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_parities IS 'Workload rows: parities of one to k attributes that have two values each.

Example: CREATE TABLE workload AS FROM mwem_parities(''votes'', 3)
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit''].
k  The most attributes in one parity.
columns := NULL  The attributes to use. NULL: all that have two values.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.

-> predicate VARCHAR  The condition; NULL: all rows.
-> measure VARCHAR  What is summed up; NULL: rows are counted.
-> group_by VARCHAR[]  The columns.
-> name VARCHAR  The query''s text.
-> weight DOUBLE  1.
-> of VARCHAR  The table whose rows are counted, of a list of tables; NULL: there is one.';

CREATE OR REPLACE MACRO mwem_answer(output, workload, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_answer(
        to_json({"output": "output"::VARCHAR, "confidence": "confidence"::VARCHAR,
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, queries),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

COMMENT ON MACRO TABLE mwem_answer IS 'Answers of a stored release to any workload, in its order. low and high: where the true answer is, 95 times in 100; measured: directly, in part or never.

Example: FROM mwem_answer(''adult_synthetic'', workload)  ->  1, age > 40, NULL, 14211.7, 14180.2, 14251.9, directly
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
workload  The questions: a table or view, by its bare name. In Python also a frame or a Workload.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.

-> query INTEGER  The row of the workload, from 1.
-> name VARCHAR  The query''s name, or its text.
-> cell VARCHAR[]  The group_by values, in their order; NULL for a query without.
-> answer DOUBLE  What the release says. A count need not be whole.
-> low DOUBLE  The true answer is above this and below high, as often as confidence says.
-> high DOUBLE  See low.
-> measured VARCHAR  directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model.
-> note VARCHAR  What is to be known of an answer, if anything: which rows are counted, where not all rows of a unit are; which values of a sum count as the bound.';

CREATE OR REPLACE MACRO mwem_count(output, predicate) AS
    list_transform([_mwem_count(
        to_json({"output": "output"::VARCHAR, "predicate": "predicate"::VARCHAR, context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR)],
        lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r.answer END)[1];

COMMENT ON MACRO mwem_count IS 'One answer of a stored release.

Example: SELECT mwem_count(''adult_synthetic'', ''age > 40'')  ->  14211.7
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
predicate  A condition in SQL, as text: ''age > 40''.

-> answer DOUBLE  What the release says. A count need not be whole.';

CREATE OR REPLACE MACRO mwem_count_interval(output, predicate, confidence := 0.95) AS
    list_transform([_mwem_count_interval(
        to_json({"output": "output"::VARCHAR, "predicate": "predicate"::VARCHAR, "confidence": "confidence"::VARCHAR,
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR)],
        lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE {answer: r.answer, low: r.low, high: r.high, measured: r.measured} END)[1];

COMMENT ON MACRO mwem_count_interval IS 'The same with its interval, as a struct: answer, low, high, measured.

Example: SELECT mwem_count_interval(''adult_synthetic'', ''age > 40'')  ->  {''answer'': 14211.7, ''low'': 14180.2, ''high'': 14251.9, ''measured'': directly}
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
predicate  A condition in SQL, as text: ''age > 40''.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.

-> answer DOUBLE  What the release says. A count need not be whole.
-> low DOUBLE  The true answer is above this and below high, as often as confidence says.
-> high DOUBLE  See low.
-> measured VARCHAR  directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model.';

CREATE OR REPLACE MACRO mwem_average(output, measure, given := NULL, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_average(
        to_json({"output": "output"::VARCHAR, "measure": "measure"::VARCHAR, "given": "given"::VARCHAR,
        "confidence": "confidence"::VARCHAR, context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_average IS 'The average of a column, or of an expression, with its interval; of all rows, or of those for which a condition is true.

Example: FROM mwem_average(''adult_synthetic'', ''hours'', given := ''sex = ''''Female'''''')  ->  36.4, 36.1, 36.8, in part
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
measure  What is averaged: a column, or an SQL expression, as text: ''pay'' or ''pay / 12''.
given := NULL  A condition in SQL, as text, that rows have to meet: ''sex = ''''F'''' AND age >= 65''. NULL: all rows.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.

-> answer DOUBLE  What the release says. A count need not be whole.
-> low DOUBLE  The true answer is above this and below high, as often as confidence says.
-> high DOUBLE  See low.
-> measured VARCHAR  directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model.';

CREATE OR REPLACE MACRO mwem_quantile(output, attribute, share, given := NULL, confidence := 0.95) AS TABLE
    FROM query(_mwem_quantile_sql(
        to_json({"output": "output"::VARCHAR, "attribute": "attribute"::VARCHAR, "share": to_json("share"),
        "given": "given"::VARCHAR, "confidence": "confidence"::VARCHAR, context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR));

COMMENT ON MACRO TABLE mwem_quantile IS 'The median, or other quantiles, of a column with their intervals: the least value that so much of the rows lies at most at. Values have the column''s own type; rows without one do not count.

Example: FROM mwem_quantile(''adult_synthetic'', ''age'', [0.25, 0.5, 0.75])  ->  0.25, 28, 28, 29, directly; 0.5, 37, ...
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
attribute  The column, as text: a number, date, timestamp or ENUM.
share  Which quantile: 0.5 for the median. Or several: [0.25, 0.5, 0.75]. Above 0 and below 1.
given := NULL  A condition in SQL, as text, that rows have to meet: ''sex = ''''F'''' AND age >= 65''. NULL: all rows.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.

-> share DOUBLE  The share that was asked for.
-> answer the column''s type  The value that so much of the rows lies at most at, by the model; values off a list are left out. NULL: there are no such rows.
-> low the column''s type  The true quantile is at least this and at most high, as often as confidence says. NULL: it may be below all values of the domain.
-> high the column''s type  See low. NULL: it may be above all values of the domain.
-> measured VARCHAR  directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model.';

CREATE OR REPLACE MACRO mwem_quality(output, confidence := 0.95, summary := false, compare := NULL,
        target := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_quality(
        to_json({"output": "output"::VARCHAR, "confidence": "confidence"::VARCHAR, "summary": "summary",
        "compare": "compare", "target": "target", context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_quality IS 'Every query of a release''s workload: whether it was measured, how wide its intervals are, with how much noise and in which step. With summary := true scores of the whole release instead; with compare := ''adult'' also those that others print (mean L1 of pairs, pMSE, correlations), NOT PRIVATE, and with target := ''income'' how well a classifier does that was trained on synthetic rows.

Example: FROM mwem_quality(''adult_synthetic'')  ->  1, age > 40, 1, directly, 12, 17.4, 71.7
Cost: nothing; with compare it reads private rows, and the ledger notes it

output  The output of a release by its name, as text: ''adult_synthetic''.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.
summary := false  true: scores of the whole release, a row each, instead of its queries.
compare := NULL  The private table by its name, with summary: scores that others print. NOT PRIVATE. Needs pip install ''mwem-sql[quality]''.
target := NULL  A column with a list of values, with compare: how well a classifier that was trained on synthetic rows predicts it in true ones.

-> query INTEGER  The row of the workload, from 1.
-> name VARCHAR  The query''s name, or its text.
-> cells BIGINT  How many numbers it asks for.
-> measured VARCHAR  As in mwem_answer, of its worst cell.
-> round INTEGER  The step of mwem.measurements that first measured it directly.
-> noise DOUBLE  The standard deviation of what is known of a cell, the median over cells; NULL: not measured directly.
-> width DOUBLE  How wide an interval is, the median over cells.
-> mean_error DOUBLE  Share of the rows in a wrong cell: the certified mean over the workload''s queries of this kind, those all of whose cells were measured, or the others. NULL without a certificate.
-> mean_error_within DOUBLE  95 times in 100, `mean_error` is within this of the truth.
-> score DOUBLE  Of a summary: the figure that `name` says. NULL otherwise, as the next three.
-> low DOUBLE  The true figure is above this and below high, 95 times in 100; NULL where that is not known.
-> high DOUBLE  See low.
-> note VARCHAR  What the score means, with which settings, and whether it is private.';

CREATE OR REPLACE MACRO mwem_weights(output, attributes) AS TABLE
    FROM query(_mwem_weights_sql(
        to_json({"output": "output"::VARCHAR, "attributes": to_json("attributes"),
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR));

COMMENT ON MACRO TABLE mwem_weights IS 'The fractional weighting of a stored release over some attributes: a column each, and weight.

Example: FROM mwem_weights(''adult_synthetic'', [''sex'', ''race''])  ->  Female, White, 8640.2
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
attributes  Columns of the output: [''sex'', ''race''] or ''sex, race''.

-> <attribute> its type  A column for each attribute that was named.
-> weight DOUBLE  Rows with these values. Need not be whole.';

CREATE OR REPLACE MACRO mwem_sample(output, rows := NULL, given := NULL, seed := NULL) AS TABLE
    FROM query(_mwem_sample_sql(
        to_json({"output": "output"::VARCHAR, "rows": "rows", "given": "given"::VARCHAR, "seed": "seed",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR));

COMMENT ON MACRO TABLE mwem_sample IS 'Rows from a stored release: as many as you like, or of one kind. Drawn anew, as the synthetic table was; columns and types are those of the release.

Example: FROM mwem_sample(''adult_synthetic'', rows := 10000, given := ''sex = ''''Female'''' AND age >= 65'', seed := 1)  ->  71, Female, ...
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
rows := NULL  How many rows. NULL: as many as the release counts.
given := NULL  A condition in SQL, as text, that rows have to meet: ''sex = ''''F'''' AND age >= 65''. NULL: all rows.
seed := NULL  The same number draws the same rows again. It has no part in privacy: all of this is published.

-> <column> its type  A column for each of the release.';

CREATE OR REPLACE MACRO mwem_report(output, path, compare := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_report(
        to_json({"output": "output"::VARCHAR, "path": "path"::VARCHAR, "compare": "compare",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_report IS 'One page about a stored release, for people: what is promised, what was measured, the workload''s answers and how sure they are. With compare := ''adult'' the page shows true answers beside them and is NOT PRIVATE. A file that is there is replaced only if it is such a page.

Example: CALL mwem_report(''adult_synthetic'', ''report.html'')  ->  report.html, 91284, true
Cost: nothing; with compare it reads private rows, and the ledger notes it

output  The output of a release by its name, as text: ''adult_synthetic''.
path  The file to write: ''report.html''. NULL: none, and the page is in the result.
compare := NULL  The private table by its name: true answers beside the released ones. NOT PRIVATE.

-> file VARCHAR  What was written.
-> bytes BIGINT  Its size.
-> private BOOLEAN  Whether the page may be published.
-> page VARCHAR  The page, in HTML, where no file was named; else NULL.';

CREATE OR REPLACE MACRO mwem_export(output, path) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_export(
        to_json({"output": "output"::VARCHAR, "path": "path"::VARCHAR, context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_export IS 'A stored release as files to publish: the rows as .parquet, .csv or .duckdb, and a data card beside them, for people (.md) and as data (.json). Of a release of several tables, all of them.

Example: CALL mwem_export(''adult_synthetic'', ''release.parquet'')  ->  release.parquet, 48211; release.md, 2310; release.json, 20944
Cost: nothing

output  The output of a release by its name, as text: ''adult_synthetic''.
path  The file to write: .parquet, .csv or .duckdb. The data card goes beside it, .md and .json. Of several tables: a file for each, or one .duckdb.

-> file VARCHAR  What was written.
-> bytes BIGINT  Its size.';

CREATE OR REPLACE MACRO mwem_withdraw(output, reason) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_withdraw(
        to_json({"output": "output"::VARCHAR, "reason": "reason"::VARCHAR, context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_withdraw IS 'Takes a release back: nothing is answered from it any more, and whoever asks reads when, by whom and why. Its rows stay until you drop them; dropping them alone (DROP TABLE) keeps the release, which goes on answering.

Example: CALL mwem_withdraw(''adult_synthetic'', ''pay was in thousands before 2020'')  ->  census.main.adult_synthetic, 1, 2026-06-01 12:00:00, ann, pay was ..., true
Cost: nothing, and nothing is given back; the ledger notes it

output  The output of a release by its name, as text: ''adult_synthetic''.
reason  Why, in words, up to 1,000 characters. Every refusal quotes it, wherever the release has gone: nothing private in it.

-> output VARCHAR  The output of the release: database.schema.table.
-> release INTEGER  Its number in mwem.releases.
-> withdrawn TIMESTAMP  When, in UTC.
-> who VARCHAR  The user, as the system says by the process''s user id.
-> reason VARCHAR  Why.
-> noted BOOLEAN  Whether the ledger of the private table has it, too; false: that ledger is not attached, or cannot be written.';

CREATE OR REPLACE MACRO mwem_compare(private_table, output, workload, confidence := 0.95) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_compare(
        to_json({"private_table": "private_table", "output": "output"::VARCHAR, "confidence": "confidence"::VARCHAR,
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, queries),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

COMMENT ON MACRO TABLE mwem_compare IS 'NOT PRIVATE: true and released answers side by side, for the curator. binning_error is what bins and bounds alone put an answer off by. A table of several is compared by its joined rows.

Example: FROM mwem_compare(''adult'', ''adult_synthetic'', workload)  ->  1, age > 40, NULL, 14237, 14211.7, 25.3, 14180.2, 14251.9, directly, 0, NULL
Cost: no epsilon; reads private rows, and the ledger notes it

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source.
output  The output of a release by its name, as text: ''adult_synthetic''.
workload  The questions: a table or view, by its bare name. In Python also a frame or a Workload.
confidence := 0.95  How often the true answer is to be between low and high: above 0 and below 1.

-> query INTEGER  The row of the workload, from 1.
-> name VARCHAR  The query''s name, or its text.
-> cell VARCHAR[]  The group_by values, in their order; NULL for a query without.
-> true_answer DOUBLE  What SQL says on the private rows. NULL where that fails.
-> answer DOUBLE  What the release says. A count need not be whole.
-> error DOUBLE  How far answer is from true_answer. Never below 0.
-> low DOUBLE  The true answer is above this and below high, as often as confidence says.
-> high DOUBLE  See low.
-> measured VARCHAR  directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model.
-> binning_error DOUBLE  The part of the error that bins and bounds alone cause, without any noise.
-> note VARCHAR  Why there is no true answer, or what it is about.';

CREATE OR REPLACE MACRO mwem_budget(private_table, epsilon, delta := 0.0, unit := NULL, rows_per_unit := 1,
        user := NULL, every := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_budget(
        to_json({"private_table": "private_table", "epsilon": "epsilon"::VARCHAR, "delta": "delta"::VARCHAR,
        "unit": "unit", "rows_per_unit": "rows_per_unit", "user": "user", "every": "every",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_budget IS 'Sets the cap on what all releases of a table may spend together, how they are counted, and for whom.

Example: CALL mwem_budget(''adult'', 3.0)  ->  main, adult, 3.0, 0.0, 0.5, 0.0, 2.5, NULL, 1
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source.
epsilon  What all releases of the table may spend together.
delta := 0.0  0: epsilons are added up, and a release with a delta is refused. Above 0: everything is counted in rho (zCDP) and converted once at this delta.
unit := NULL  Makes it a cap per person: every release of the table must give the same unit. A table: a row of it and all rows that lead to it by keys.
rows_per_unit := 1  As many as every release of the table must give. Not for a table as unit: there each release says for itself.
user := NULL  Makes it a cap on what this user of a server asks, beside the table''s: of the table, or of all tables where the table is NULL.
every := NULL  ''30 days'', ''12 hours'': a cap that renews. Each window is a new cap by your word: over k windows a table''s rows are in for k times epsilon.

-> schema_name VARCHAR  The table''s schema.
-> table_name VARCHAR  The table.
-> epsilon DOUBLE  The cap.
-> delta DOUBLE  The delta of the cap.
-> epsilon_spent DOUBLE  What its releases have spent, as the cap counts.
-> delta_spent DOUBLE  The delta at which that was worked out.
-> epsilon_left DOUBLE  What is left.
-> unit VARCHAR  Whose rows are protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit count; NULL: all, of a table as unit.
-> seeded INTEGER  Releases with a seed from before the cap, which no budget covers.
-> also_charged_as VARCHAR  Other names under which the same rows were charged, and what was spent there.
-> partition_by VARCHAR  The column by whose values charges add up (mwem_partition): spent and left are those of the value with least left, and what is left is for a release of all rows. NULL: none.
-> user_name VARCHAR  The user of a server whose cap it is; NULL: it is for all.
-> every VARCHAR  After how long it renews; NULL: never.';

CREATE OR REPLACE MACRO mwem_partition(private_table, by) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_partition(
        to_json({"private_table": "private_table", "by": "by", context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_partition IS 'Declares a column whose value never changes in a row, as a month: from then on releases of views that say WHERE month = ''2025-01'' and WHERE month = ''2025-02'' cost the larger of the two, not both together. Called again, it shows what is left for each month.

Example: CALL mwem_partition(''visit'', ''month'')  ->  main, visit, month, 2025-01, 1.0, 2.0; main, visit, month, NULL, 0.0, 3.0
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source.
by  A column of the table itself. Your word that no row''s value in it ever changes, which nobody can check; it goes into the journal. What was charged before counts for all values. NULL takes it back: all charges add up.

-> schema_name VARCHAR  The table''s schema.
-> table_name VARCHAR  The table.
-> partition_by VARCHAR  The column; NULL: none.
-> partition VARCHAR  A value that has charges of its own, or values that have the same; NULL: all other values, as next month''s.
-> epsilon_spent DOUBLE  What is spent on rows with it, as the cap counts.
-> epsilon_left DOUBLE  What the cap leaves for releases of such rows alone; NULL without a cap.';

CREATE OR REPLACE MACRO mwem_ledger() AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_ledger(
        to_json({context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_ledger IS 'What was spent, by whom, when, on what, and what is left, over all attached databases.

Example: FROM mwem_ledger()  ->  census, main, adult, census.main.adult_synthetic, 0.5, ...
Cost: nothing


-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name, when it was charged.
-> output VARCHAR  What was written; NULL where nothing was.
-> epsilon DOUBLE  What was charged.
-> delta DOUBLE  What was charged.
-> action VARCHAR  The function: mwem_release, or one that is only noted: not private, or mwem_withdraw.
-> private BOOLEAN  false: a seed, or a function that is not private.
-> status VARCHAR  done; open: running, or killed; failed; withheld: made, and not published (publish_if). All of them count.
-> started TIMESTAMP  When.
-> finished TIMESTAMP  When; NULL while it is open.
-> who VARCHAR  The user, as the system says by the process''s user id.
-> unit VARCHAR  Whose rows were protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit counted.
-> epsilon_spent DOUBLE  What all releases of the table have spent, to this day; with a partition, at the value with most.
-> epsilon_left DOUBLE  What the cap leaves for a release of all rows; NULL without one.
-> intact BOOLEAN  false: somebody changed the journal by hand.
-> version VARCHAR  The version that was asked for; NULL without one.
-> workload VARCHAR  What was asked: its first query, and how many more there are.
-> claimed VARCHAR  The user that the environment names (USER, LOGNAME), where that is another one.
-> reason VARCHAR  Why a release was withdrawn; NULL for all else.
-> partition VARCHAR  For which values of the column that mwem_partition declares it counts; NULL: for all.
-> user_name VARCHAR  The user of a server that asked; NULL: it did not come by a server.';

CREATE OR REPLACE MACRO mwem_request(private_table, workload, epsilon, delta := 0.0, rounds := NULL,
        output := NULL, rows := NULL, total := NULL, domain := NULL, rules := NULL, known := NULL, unit := NULL,
        rows_per_unit := NULL, start := 'uniform', average := false, fit := 'mirror', max_cells := NULL,
        certify := NULL, publish_if := NULL, version := NULL, seed := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_request(
        to_json({"private_table": "private_table", "epsilon": "epsilon"::VARCHAR, "options": {"delta": "delta"::VARCHAR,
        "rounds": "rounds", "output": "output", "rows": "rows", "total": "total", "domain": "domain",
        "rules": "rules", "known": "known", "unit": "unit", "rows_per_unit": "rows_per_unit", "start": "start",
        "average": "average", "fit": "fit", "max_cells": "max_cells", "certify": "certify",
        "publish_if": "publish_if", "version": "version"::VARCHAR, "seed": "seed"},
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, queries),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r
        FROM (SELECT list(j ORDER BY n) AS queries
              FROM (SELECT row_number() OVER () AS n, to_json(__mwem_row)::VARCHAR AS j
                    FROM query_table(workload) AS __mwem_row)));

COMMENT ON MACRO TABLE mwem_request IS 'For users of a server: asks the curator for a release that their own caps do not allow. It takes what mwem_release takes and is checked in full; once it is approved, the same call of mwem_release makes it. The table''s cap holds all the same. Called again, it returns the same request.

Example: CALL mwem_request(''adult'', workload, 2.0)  ->  3f9a61c0..., release, open, ...
Cost: nothing

private_table  The private table by its name, as text: ''adult'' or ''census.main.adult''. Or the path of a Parquet file, or a table of an attached source. Or a list of tables that keys join, [''person'', ''visit'']: a table for each, whose keys join.
workload  The questions: a table or view, by its bare name. In Python also a frame or a Workload.
epsilon  The privacy budget of this release. Smaller is more private, and noisier.
delta := 0.0  Above 0, noise may be Gaussian and is counted by zCDP, where the error will be smaller. 1e-6 is usual; it must be far below 1 over the number of people.
rounds := NULL  How many queries are selected and measured. NULL: chosen by itself.
output := NULL  The name of the output; database.schema.table for another database. NULL: <table>_synthetic.
rows := NULL  The rows of the output. NULL: as many as the noisy count says.
total := NULL  The number of rows, if it is public. If you give the true count, you have published it. NULL: estimated from what is measured, or with 1/50 of the budget.
domain := NULL  The name of a domain table. NULL: <table>_domain, if there is one. Of several tables: a name for each that has another, {person: ''d''}.
rules := NULL  The name of a rules table. NULL: <table>_rules, if there is one. Of several tables: {person: ''r''}.
known := NULL  The name of a table of public totals. NULL: <table>_known, if there is one. Of several tables: {person: ''k''}.
unit := NULL  The column that identifies a person: all rows of a person are protected together. NULL: each row by itself.
rows_per_unit := NULL  How many rows of one person count. Needs unit. Of several tables: a number for all below the root, or one for each, {visit: 20}.
start := ''uniform''  What the first round starts from. ''histogram'': a noisy histogram of the whole domain, for a quarter of the budget. The output of an earlier release, or a table of public rows: what these say of columns of the same names. It is dropped where it turns out to be wrong.
average := false  true: release the average of all rounds, not the last one. This is the paper''s figure and its theorem, without replays.
fit := ''mirror''  How measurements are fitted after each round. ''mirror'': all at once, until the misfit no longer falls. ''replay'': 100 passes of the paper''s fixed step.
max_cells := NULL  The largest model, in cells. NULL: 10,000,000. A query that would exceed it is not asked. If none is left, rounds measure again what was measured.
certify := NULL  The share of the budget that tells how far off the answers are in the end, 0 to 0.5. NULL: 0.02, or 0 if rounds or average is given.
publish_if := NULL  A condition on the certificate, ''mean_share < 0.1'': mean_share is the most that the true mean error may be, 95 times in 100. Where it is not met, the budget is spent and nothing is published. NULL: always published.
version := NULL  A new version makes, and charges, a new release under the same output name.
seed := NULL  Repeatable noise, for experiments. The release is marked private = false.

-> request VARCHAR  What it is named by, for mwem_approve and the others.
-> kind VARCHAR  release: it is beyond the user''s caps. publish: it was made and charged, and does not meet its publish_if.
-> state VARCHAR  open; approved: the same call of mwem_release does it, once; used: it was done; refused; withdrawn.
-> asked TIMESTAMP  Since when.
-> user_name VARCHAR  The user of a server who asks; NULL: it did not come by a server.
-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> output VARCHAR  What would be written.
-> epsilon DOUBLE  The price.
-> delta DOUBLE  The price.
-> unit VARCHAR  Whose rows would be protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit would count.
-> version VARCHAR  The version that is asked for; NULL without one.
-> workload VARCHAR  What is asked: its first query, and how many more there are. mwem.requests has all of it.
-> decided TIMESTAMP  When it was approved, refused or withdrawn; NULL: it was not.
-> reason VARCHAR  Why it was refused; NULL for all else.
-> used_by VARCHAR  The entry of the ledger that it was used by; NULL: it was not.
-> plan VARCHAR[]  What would run, as mwem_plan said when it was asked; NULL: it is gone.
-> intact BOOLEAN  false: somebody changed the journal by hand.';

CREATE OR REPLACE MACRO mwem_requests() AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_requests(
        to_json({context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_requests IS 'What waits for the curator''s word and what became of it, oldest first: to the curator all of it, to a user of a server what is theirs. Releases that did not meet their publish_if are listed, too.

Example: FROM mwem_requests()  ->  3f9a61c0..., release, open, 2026-06-01 09:30:00, anna, census, main, adult, ...
Cost: nothing


-> request VARCHAR  What it is named by, for mwem_approve and the others.
-> kind VARCHAR  release: it is beyond the user''s caps. publish: it was made and charged, and does not meet its publish_if.
-> state VARCHAR  open; approved: the same call of mwem_release does it, once; used: it was done; refused; withdrawn.
-> asked TIMESTAMP  Since when.
-> user_name VARCHAR  The user of a server who asks; NULL: it did not come by a server.
-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> output VARCHAR  What would be written.
-> epsilon DOUBLE  The price.
-> delta DOUBLE  The price.
-> unit VARCHAR  Whose rows would be protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit would count.
-> version VARCHAR  The version that is asked for; NULL without one.
-> workload VARCHAR  What is asked: its first query, and how many more there are. mwem.requests has all of it.
-> decided TIMESTAMP  When it was approved, refused or withdrawn; NULL: it was not.
-> reason VARCHAR  Why it was refused; NULL for all else.
-> used_by VARCHAR  The entry of the ledger that it was used by; NULL: it was not.
-> plan VARCHAR[]  What would run, as mwem_plan said when it was asked; NULL: it is gone.
-> intact BOOLEAN  false: somebody changed the journal by hand.';

CREATE OR REPLACE MACRO mwem_approve(request) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_approve(
        to_json({"request": "request", context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_approve IS 'The curator''s word that a request may be released once, beside the caps of its user; or that a release which does not meet its publish_if is published by its next call. Refused while the table''s cap has no room for it: mwem_budget raises that.

Example: CALL mwem_approve(''3f9a61c0...'')  ->  3f9a61c0..., release, approved, ...
Cost: nothing

request  The request, as mwem_requests() names it, as text.

-> request VARCHAR  What it is named by, for mwem_approve and the others.
-> kind VARCHAR  release: it is beyond the user''s caps. publish: it was made and charged, and does not meet its publish_if.
-> state VARCHAR  open; approved: the same call of mwem_release does it, once; used: it was done; refused; withdrawn.
-> asked TIMESTAMP  Since when.
-> user_name VARCHAR  The user of a server who asks; NULL: it did not come by a server.
-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> output VARCHAR  What would be written.
-> epsilon DOUBLE  The price.
-> delta DOUBLE  The price.
-> unit VARCHAR  Whose rows would be protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit would count.
-> version VARCHAR  The version that is asked for; NULL without one.
-> workload VARCHAR  What is asked: its first query, and how many more there are. mwem.requests has all of it.
-> decided TIMESTAMP  When it was approved, refused or withdrawn; NULL: it was not.
-> reason VARCHAR  Why it was refused; NULL for all else.
-> used_by VARCHAR  The entry of the ledger that it was used by; NULL: it was not.
-> plan VARCHAR[]  What would run, as mwem_plan said when it was asked; NULL: it is gone.
-> intact BOOLEAN  false: somebody changed the journal by hand.';

CREATE OR REPLACE MACRO mwem_refuse(request, reason) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_refuse(
        to_json({"request": "request", "reason": "reason", context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_refuse IS 'Refuses a request, and says why; or takes an approval back that was not used yet.

Example: CALL mwem_refuse(''3f9a61c0...'', ''ask for age in bins'')  ->  3f9a61c0..., release, refused, ...
Cost: nothing

request  The request, as mwem_requests() names it, as text.
reason  Why, in words: its user reads it in mwem_requests().

-> request VARCHAR  What it is named by, for mwem_approve and the others.
-> kind VARCHAR  release: it is beyond the user''s caps. publish: it was made and charged, and does not meet its publish_if.
-> state VARCHAR  open; approved: the same call of mwem_release does it, once; used: it was done; refused; withdrawn.
-> asked TIMESTAMP  Since when.
-> user_name VARCHAR  The user of a server who asks; NULL: it did not come by a server.
-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> output VARCHAR  What would be written.
-> epsilon DOUBLE  The price.
-> delta DOUBLE  The price.
-> unit VARCHAR  Whose rows would be protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit would count.
-> version VARCHAR  The version that is asked for; NULL without one.
-> workload VARCHAR  What is asked: its first query, and how many more there are. mwem.requests has all of it.
-> decided TIMESTAMP  When it was approved, refused or withdrawn; NULL: it was not.
-> reason VARCHAR  Why it was refused; NULL for all else.
-> used_by VARCHAR  The entry of the ledger that it was used by; NULL: it was not.
-> plan VARCHAR[]  What would run, as mwem_plan said when it was asked; NULL: it is gone.
-> intact BOOLEAN  false: somebody changed the journal by hand.';

CREATE OR REPLACE MACRO mwem_withdraw_request(request) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_withdraw_request(
        to_json({"request": "request", context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_withdraw_request IS 'Takes a request back that was not used yet. Users take back their own.

Example: CALL mwem_withdraw_request(''3f9a61c0...'')  ->  3f9a61c0..., release, withdrawn, ...
Cost: nothing

request  The request, as mwem_requests() names it, as text.

-> request VARCHAR  What it is named by, for mwem_approve and the others.
-> kind VARCHAR  release: it is beyond the user''s caps. publish: it was made and charged, and does not meet its publish_if.
-> state VARCHAR  open; approved: the same call of mwem_release does it, once; used: it was done; refused; withdrawn.
-> asked TIMESTAMP  Since when.
-> user_name VARCHAR  The user of a server who asks; NULL: it did not come by a server.
-> database_name VARCHAR  Where the private table is.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> output VARCHAR  What would be written.
-> epsilon DOUBLE  The price.
-> delta DOUBLE  The price.
-> unit VARCHAR  Whose rows would be protected together; NULL: each row by itself.
-> rows_per_unit INTEGER  How many rows of one unit would count.
-> version VARCHAR  The version that is asked for; NULL without one.
-> workload VARCHAR  What is asked: its first query, and how many more there are. mwem.requests has all of it.
-> decided TIMESTAMP  When it was approved, refused or withdrawn; NULL: it was not.
-> reason VARCHAR  Why it was refused; NULL for all else.
-> used_by VARCHAR  The entry of the ledger that it was used by; NULL: it was not.
-> plan VARCHAR[]  What would run, as mwem_plan said when it was asked; NULL: it is gone.
-> intact BOOLEAN  false: somebody changed the journal by hand.';

CREATE OR REPLACE MACRO mwem_policy(require_caps := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_policy(
        to_json({"require_caps": "require_caps", context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_policy IS 'Whether every private table of the current database needs a cap before it is released; shows it, or sets it.

Example: CALL mwem_policy(require_caps := true)  ->  census, true
Cost: nothing

require_caps := NULL  true or false sets it. NULL only shows it.

-> database_name VARCHAR  The current database.
-> require_caps BOOLEAN  Whether every private table in it needs a cap before it is released.';

CREATE OR REPLACE MACRO mwem_public(public_table) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_public(
        to_json({"public_table": "public_table"::VARCHAR, context: {database: current_database(),
        schema: current_schema(), settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_public IS 'The curator''s word that all rows of a table are public, so that private views may join it along its key. Never for a table that was charged or capped.

Example: CALL mwem_public(''icd_codes'')  ->  census, main, icd_codes, true
Cost: nothing; the ledger notes it

public_table  The table. It must have a PRIMARY KEY or UNIQUE constraint to be joined.

-> database_name VARCHAR  The table''s database.
-> schema_name VARCHAR  Its schema.
-> table_name VARCHAR  Its name.
-> public BOOLEAN  true: it is public from now on.';

CREATE OR REPLACE MACRO mwem_attach(alias, source, ledger := NULL, timeout := NULL) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_attach(
        to_json({"alias": "alias"::VARCHAR, "source": "source"::VARCHAR, "ledger": "ledger", "timeout": "timeout",
        context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_attach IS 'Lets an alias stand for another engine''s database, whose tables are then private tables: a PostgreSQL server, Spark Connect, or a DuckDB file apart.

Example: CALL mwem_attach(''warehouse'', ''postgresql://curator@db/census'')  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
Cost: nothing; the ledger of its tables is in the database that `ledger` names

alias  A plain name that stands for the source: its tables are alias.schema.table.
source  ''postgresql://user@host/database'', ''sc://host:15002'' for Spark Connect, or the path of a DuckDB file. Without a password: that comes from PGPASSWORD or PGPASSFILE.
ledger := NULL  The attached DuckDB database that keeps the accounts of its tables. NULL: the current one.
timeout := NULL  Seconds that all scans of one call may take together. NULL: no limit.

-> alias VARCHAR  What stands for the source.
-> kind VARCHAR  postgresql, spark or duckdb.
-> source VARCHAR  Where it is, without secrets.
-> ledger VARCHAR  The database that keeps its accounts.
-> timeout DOUBLE  Seconds for all scans of a call; NULL: no limit.';

CREATE OR REPLACE MACRO mwem_detach(alias) AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_detach(
        to_json({"alias": "alias"::VARCHAR, context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_detach IS 'Takes an alias back. Accounts, caps and releases stay.

Example: CALL mwem_detach(''warehouse'')  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
Cost: nothing

alias  A plain name that stands for the source: its tables are alias.schema.table.

-> alias VARCHAR  What stands for the source.
-> kind VARCHAR  postgresql, spark or duckdb.
-> source VARCHAR  Where it is, without secrets.
-> ledger VARCHAR  The database that keeps its accounts.
-> timeout DOUBLE  Seconds for all scans of a call; NULL: no limit.';

CREATE OR REPLACE MACRO mwem_sources() AS TABLE
    SELECT r.* EXCLUDE (err) FROM (
        SELECT unnest(list_transform(_mwem_sources(
        to_json({context: {database: current_database(), schema: current_schema(),
        settings: {TimeZone: current_setting('TimeZone'),
        default_collation: current_setting('default_collation'),
        integer_division: current_setting('integer_division'),
        ieee_floating_point_ops: current_setting('ieee_floating_point_ops')},
        ticket: getvariable('mwem_ticket')}})::VARCHAR, NULL),
            lambda r: CASE WHEN r.err IS NOT NULL THEN error(r.err) ELSE r END)) AS r);

COMMENT ON MACRO TABLE mwem_sources IS 'The sources that are attached: alias, kind, where they are (without secrets), and the database that has their ledger.

Example: FROM mwem_sources()  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL
Cost: nothing


-> alias VARCHAR  What stands for the source.
-> kind VARCHAR  postgresql, spark or duckdb.
-> source VARCHAR  Where it is, without secrets.
-> ledger VARCHAR  The database that keeps its accounts.
-> timeout DOUBLE  Seconds for all scans of a call; NULL: no limit.';
