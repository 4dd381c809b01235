"""Every SQL function, declared once: parameters with defaults, columns with types, words for all, example, cost, body.

From here follow sql/macros.sql with the comments in the database, docs/reference.md, what the shell completes and hints
at, and the documentation of the Python functions.
"""

from __future__ import annotations

from mwem_sql.judge import grade
from mwem_sql.releases.columns import OF_ITS_TYPE, QUANTILE, SUMMARY_TYPES
from mwem_sql.surface import declaration as shared
from mwem_sql.surface.declaration import JSON, TEXT, VALUE, Parameter, ResultColumn, SqlFunction, columns_of
from mwem_sql.surface.spec_counting import COUNTING

# fmt: off
_DECLARATIONS = (
    SqlFunction(
        name="mwem_release", section="Release",
        cost="epsilon and delta, once per request and output",
        purpose="A private synthetic table that answers the workload: one summary row.",
        example="CALL mwem_release('adult', workload, 0.5)  ->  1, census.main.adult_synthetic, 32590, 0.5, ...",
        parameters=(shared.TABLES, shared.WORKLOAD, shared.RELEASE_EPSILON), options=shared.RELEASE_OPTIONS,
        columns=columns_of(SUMMARY_TYPES, {
            "release": "Its number in mwem.releases; of several tables, the root's.",
            "output": "The table that was written: database.schema.table. Of several tables, all of them.",
            "rows": "Rows of that table: the noisy count, or the option rows. Numbers of several tables are added up.",
            "epsilon": "What was charged, and is promised.",
            "delta": "What was charged, and is promised.",
            "rounds": "Number of measurement steps.",
            "queries": "Rows of the workload.",
            "attributes": "Columns of the output: those that the workload asks about.",
            "cells": "Size of the model.",
            "seconds": "How long the call took.",
            "private": "false: made with a seed, for experiments. It protects nobody.",
            "reused": "true: the stored release of the same request, which cost nothing.",
            "protects": "Whose change is hidden: one row, or all rows of one unit.",
            "warning": "What to know before it is used; NULL: nothing.",
            "measured": "Rows of the workload all of whose cells were measured.",
            "mean_error": "Share of the rows that are in a wrong cell of a query of the workload, on average over its "
                          "queries; from 0 to 1. From the certificate, with noise. NULL without one.",
            "mean_error_within": "How far off `mean_error` itself may be: 95 times in 100 it is within this of the "
                                 "truth. Larger than `mean_error`: that is not known better than both together. NULL "
                                 "without a certificate.",
            "quality": f"How good the release is for its workload, in one word. {grade.limits()}",
        }),
    ),
    SqlFunction(
        name="mwem_plan", section="Release", cost="nothing",
        purpose="What a release would run and cost, as rows (item, value). Reads no private row.",
        example="FROM mwem_plan('adult', workload, 0.5)  ->  rounds 10, noise scale 42.1, ...",
        parameters=(shared.TABLES, shared.WORKLOAD, shared.RELEASE_EPSILON), options=shared.RELEASE_OPTIONS,
        columns=(
            ResultColumn("item", "VARCHAR", "What a line is about: expect, advice, epsilon, noise scale ..."),
            ResultColumn("value", "VARCHAR", "What there is to say about it."),
        ),
    ),
    SqlFunction(
        name="mwem_domain", section="Say what is possible and what is asked", cost="nothing",
        purpose="The public domain of a table: every column, where it is declared and what it lacks. Reads no private "
                "row.",
        example="FROM mwem_domain('adult')  ->  age, INTEGER, NULL, 17, 90, ..., CHECK, NULL",
        parameters=(shared.JOINED_TABLES, shared.DOMAIN_TABLE),
        columns=(
            shared.ATTRIBUTE,
            ResultColumn("type", "VARCHAR", "The column's type."),
            shared.VALUES, shared.LOW, shared.HIGH, shared.STEP, shared.BIN_COUNT, shared.NULLABLE, shared.OPEN,
            ResultColumn("cells", "BIGINT", "How many cells its values fall into."),
            ResultColumn("declared", "VARCHAR", "Where that is declared: ENUM, BOOLEAN, CHECK or the domain table."),
            ResultColumn("lacks", "VARCHAR", "What is missing before the column can be asked about or grouped by; "
                                             "NULL: nothing."),
            shared.EDGES, shared.DISCOVER,
        ),
    ),
    SqlFunction(
        name="mwem_rules", section="Say what is possible and what is asked", cost="nothing",
        purpose="What is possible of several columns together: CHECKs, generated columns and the rows of a rules "
                "table. No synthetic row breaks one, and none takes any budget. Reads no private row.",
        example="FROM mwem_rules('adult')  ->  age >= 15 OR marital = 'never', [age, marital], CHECK, cells of the "
                "model are 0, NULL",
        parameters=(shared.JOINED_TABLES, shared.DOMAIN_TABLE, shared.RULES_TABLE),
        columns=shared.RULE,
    ),
    SqlFunction(
        name="mwem_known", section="Say what is possible and what is asked", cost="nothing",
        purpose="Public totals: counts that somebody else has published, and the number of rows if it follows from "
                "them. A release agrees with them exactly, and none takes any budget. Reads no private row.",
        example="FROM mwem_known('votes')  ->  \"region\" = 'North', 1203, [region], table of public totals, NULL",
        parameters=(shared.JOINED_TABLES, shared.DOMAIN_TABLE, shared.KNOWN_TABLE),
        columns=shared.PUBLIC_TOTAL,
    ),
    SqlFunction(
        name="mwem_suggest_domain", is_curators=True, section="Say what is possible and what is asked",
        cost="no epsilon; reads private rows; the ledger notes it",
        purpose="NOT PRIVATE: a domain read off the data, for a person to review. The column script has all of it, in "
                "the first row: the domain table, marginals, the release.",
        example="SELECT any_value(script) FROM mwem_suggest_domain('adult')  ->  -- NOT PRIVATE. ... CREATE OR "
                "REPLACE TABLE adult_domain ...",
        parameters=(shared.TABLE,),
        columns=(
            shared.ATTRIBUTE, shared.VALUES, shared.LOW, shared.HIGH, shared.NULLABLE, shared.OPEN,
            ResultColumn("ddl", "VARCHAR", "The INSERT that would declare it."),
            shared.BIN_COUNT,
            ResultColumn("note", "VARCHAR", "What a person has to check."),
            shared.STEP, shared.EDGES,
            ResultColumn("reason", "VARCHAR", "What was seen in the column, and what follows from it."),
            ResultColumn("read_as", "VARCHAR", "The column in the view of the script, where it must be read in "
                                               "another type or with NULL for a code; NULL: as it is."),
            ResultColumn("rows_per_unit", "INTEGER", "The largest number of rows with the same value, where the "
                                                     "column is proposed as the unit."),
            ResultColumn("script", "VARCHAR", "In the first row, a whole script: a view if there must be one, domain "
                                              "table, workload, release."),
        ),
    ),
    SqlFunction(
        name="mwem_marginals", section="Say what is possible and what is asked", cost="nothing",
        purpose="Workload rows: all k-way marginals of the columns that can be grouped by; a warning in the log names "
                "the others. Of a list of tables, each with the columns above it and the numbers of rows below.",
        example="CREATE TABLE workload AS FROM mwem_marginals('adult', 3)",
        parameters=(
            shared.JOINED_TABLES,
            Parameter("k", None, VALUE, "How many columns are asked about together: 2 for all pairs."),
            shared.DOMAIN_TABLE,
        ),
        columns=shared.QUESTION,
    ),
    SqlFunction(
        name="mwem_ranges", section="Say what is possible and what is asked", cost="nothing",
        purpose="Workload rows: random ranges over a column, or over several ('age, hours' or ['age', 'hours']).",
        example="CREATE TABLE workload AS FROM mwem_ranges('adult', 'age', 2000)",
        parameters=(
            shared.JOINED_TABLES,
            Parameter("columns", None, JSON, "A column, or several: 'age, hours' or ['age', 'hours']."),
            Parameter("count", None, VALUE, "How many ranges."),
            Parameter("seed", "NULL", VALUE, "The same number makes the same ranges again."),
            shared.DOMAIN_TABLE,
        ),
        columns=shared.QUESTION,
    ),
    SqlFunction(
        name="mwem_parities", section="Say what is possible and what is asked", cost="nothing",
        purpose="Workload rows: parities of one to k attributes that have two values each.",
        example="CREATE TABLE workload AS FROM mwem_parities('votes', 3)",
        parameters=(
            shared.JOINED_TABLES,
            Parameter("k", None, VALUE, "The most attributes in one parity."),
            Parameter("columns", "NULL", JSON, "The attributes to use. NULL: all that have two values."),
            shared.DOMAIN_TABLE,
        ),
        columns=shared.QUESTION,
    ),
    SqlFunction(
        name="mwem_answer", section="Use a release", cost="nothing",
        purpose="Answers of a stored release to any workload, in its order. low and high: where the true answer is, "
                "95 times in 100; measured: directly, in part or never.",
        example="FROM mwem_answer('adult_synthetic', workload)  ->  1, age > 40, NULL, 14211.7, 14180.2, 14251.9, "
                "directly",
        parameters=(shared.OUTPUT, shared.WORKLOAD, shared.CONFIDENCE_LEVEL),
        columns=(
            shared.QUERY, shared.QUERY_NAME, shared.CELL, shared.ANSWER_VALUE, *shared.INTERVAL,
            ResultColumn("note", "VARCHAR", "What is to be known of an answer, if anything: which rows are counted, "
                                            "where not all rows of a unit are; which values of a sum count as the "
                                            "bound."),
        ),
    ),
    SqlFunction(
        name="mwem_count", kind="scalar", section="Use a release", cost="nothing",
        purpose="One answer of a stored release.",
        example="SELECT mwem_count('adult_synthetic', 'age > 40')  ->  14211.7",
        parameters=(shared.OUTPUT, shared.PREDICATE),
        columns=(shared.ANSWER_VALUE,),
    ),
    SqlFunction(
        name="mwem_count_interval", kind="scalar", section="Use a release", cost="nothing",
        purpose="The same with its interval, as a struct: answer, low, high, measured.",
        example="SELECT mwem_count_interval('adult_synthetic', 'age > 40')  ->  {'answer': 14211.7, 'low': 14180.2, "
                "'high': 14251.9, 'measured': directly}",
        parameters=(shared.OUTPUT, shared.PREDICATE, shared.CONFIDENCE_LEVEL),
        columns=(shared.ANSWER_VALUE, *shared.INTERVAL),
    ),
    SqlFunction(
        name="mwem_average", section="Use a release", cost="nothing",
        purpose="The average of a column, or of an expression, with its interval; of all rows, or of those for which "
                "a condition is true.",
        example="FROM mwem_average('adult_synthetic', 'hours', given := 'sex = ''Female''')  ->  36.4, 36.1, 36.8, in "
                "part",
        parameters=(
            shared.OUTPUT,
            Parameter("measure", None, TEXT, "What is averaged: a column, or an SQL expression, as text: 'pay' or "
                                             "'pay / 12'."),
            shared.GIVEN, shared.CONFIDENCE_LEVEL,
        ),
        columns=(shared.ANSWER_VALUE, *shared.INTERVAL),
    ),
    SqlFunction(
        name="mwem_quantile", kind="typed", section="Use a release", cost="nothing",
        purpose="The median, or other quantiles, of a column with their intervals: the least value that so much of "
                "the rows lies at most at. Values have the column's own type; rows without one do not count.",
        example="FROM mwem_quantile('adult_synthetic', 'age', [0.25, 0.5, 0.75])  ->  0.25, 28, 28, 29, directly; "
                "0.5, 37, ...",
        parameters=(
            shared.OUTPUT,
            Parameter("attribute", None, TEXT, "The column, as text: a number, date, timestamp or ENUM."),
            Parameter("share", None, JSON, "Which quantile: 0.5 for the median. Or several: [0.25, 0.5, 0.75]. Above "
                                           "0 and below 1."),
            shared.GIVEN, shared.CONFIDENCE_LEVEL,
        ),
        columns=columns_of(QUANTILE | dict.fromkeys(OF_ITS_TYPE, "the column's type"), {
            "share": "The share that was asked for.",
            "answer": "The value that so much of the rows lies at most at, by the model; values off a list are left "
                      "out. NULL: there are no such rows.",
            "low": "The true quantile is at least this and at most high, as often as confidence says. NULL: it may be "
                   "below all values of the domain.",
            "high": "See low. NULL: it may be above all values of the domain.",
            "measured": shared.MEASURED.words,
        }),
    ),
    SqlFunction(
        name="mwem_quality", section="Use a release",
        cost="nothing; with compare it reads private rows, and the ledger notes it",
        purpose="Every query of a release's workload: whether it was measured, how wide its intervals are, with how "
                "much noise and in which step. With summary := true scores of the whole release instead; with compare "
                ":= 'adult' also those that others print (mean L1 of pairs, pMSE, correlations), NOT PRIVATE, and "
                "with target := 'income' how well a classifier does that was trained on synthetic rows.",
        example="FROM mwem_quality('adult_synthetic')  ->  1, age > 40, 1, directly, 12, 17.4, 71.7",
        parameters=(
            shared.OUTPUT, shared.CONFIDENCE_LEVEL,
            Parameter("summary", "false", VALUE, "true: scores of the whole release, a row each, instead of its "
                                                 "queries."),
            Parameter("compare", "NULL", VALUE, "The private table by its name, with summary: scores that others "
                                                "print. NOT PRIVATE. Needs pip install 'mwem-sql[quality]'.",
                      is_curators=True),
            Parameter("target", "NULL", VALUE, "A column with a list of values, with compare: how well a classifier "
                                               "that was trained on synthetic rows predicts it in true ones.",
                      is_curators=True),
        ),
        columns=(
            shared.QUERY, shared.QUERY_NAME,
            ResultColumn("cells", "BIGINT", "How many numbers it asks for."),
            ResultColumn("measured", "VARCHAR", "As in mwem_answer, of its worst cell."),
            ResultColumn("round", "INTEGER", "The step of mwem.measurements that first measured it directly."),
            ResultColumn("noise", "DOUBLE", "The standard deviation of what is known of a cell, the median over "
                                            "cells; NULL: not measured directly."),
            ResultColumn("width", "DOUBLE", "How wide an interval is, the median over cells."),
            ResultColumn("mean_error", "DOUBLE", "Share of the rows in a wrong cell: the certified mean over the "
                                                 "workload's queries of this kind, those all of whose cells were "
                                                 "measured, or the others. NULL without a certificate."),
            ResultColumn("mean_error_within", "DOUBLE", "95 times in 100, `mean_error` is within this of the truth."),
            ResultColumn("score", "DOUBLE", "Of a summary: the figure that `name` says. NULL otherwise, as the next "
                                            "three."),
            ResultColumn("low", "DOUBLE", "The true figure is above this and below high, 95 times in 100; NULL where "
                                          "that is not known."),
            ResultColumn("high", "DOUBLE", "See low."),
            ResultColumn("note", "VARCHAR", "What the score means, with which settings, and whether it is private."),
        ),
    ),
    SqlFunction(
        name="mwem_weights", kind="typed", section="Use a release", cost="nothing",
        purpose="The fractional weighting of a stored release over some attributes: a column each, and weight.",
        example="FROM mwem_weights('adult_synthetic', ['sex', 'race'])  ->  Female, White, 8640.2",
        parameters=(
            shared.OUTPUT,
            Parameter("attributes", None, JSON, "Columns of the output: ['sex', 'race'] or 'sex, race'."),
        ),
        columns=(
            ResultColumn("<attribute>", "its type", "A column for each attribute that was named."),
            ResultColumn("weight", "DOUBLE", "Rows with these values. Need not be whole."),
        ),
    ),
    SqlFunction(
        name="mwem_sample", kind="typed", section="Use a release", cost="nothing",
        purpose="Rows from a stored release: as many as you like, or of one kind. Drawn anew, as the synthetic table "
                "was; columns and types are those of the release.",
        example="FROM mwem_sample('adult_synthetic', rows := 10000, given := 'sex = ''Female'' AND age >= 65', seed "
                ":= 1)  ->  71, Female, ...",
        parameters=(
            shared.OUTPUT,
            Parameter("rows", "NULL", VALUE, "How many rows. NULL: as many as the release counts."),
            shared.GIVEN,
            Parameter("seed", "NULL", VALUE, "The same number draws the same rows again. It has no part in privacy: "
                                             "all of this is published."),
        ),
        columns=(ResultColumn("<column>", "its type", "A column for each of the release."),),
    ),
    SqlFunction(
        name="mwem_report", section="Use a release",
        cost="nothing; with compare it reads private rows, and the ledger notes it",
        purpose="One page about a stored release, for people: what is promised, what was measured, the workload's "
                "answers and how sure they are. With compare := 'adult' the page shows true answers beside them and "
                "is NOT PRIVATE. A file that is there is replaced only if it is such a page.",
        example="CALL mwem_report('adult_synthetic', 'report.html')  ->  report.html, 91284, true",
        parameters=(
            shared.OUTPUT,
            Parameter("path", None, TEXT, "The file to write: 'report.html'. NULL: none, and the page is in the "
                                            "result.", is_curators=True),
            Parameter("compare", "NULL", VALUE, "The private table by its name: true answers beside the released "
                                                "ones. NOT PRIVATE.", is_curators=True),
        ),
        columns=(
            *shared.FILE, ResultColumn("private", "BOOLEAN", "Whether the page may be published."),
            ResultColumn("page", "VARCHAR", "The page, in HTML, where no file was named; else NULL."),
        ),
    ),
    SqlFunction(
        name="mwem_export", is_curators=True, section="Use a release", cost="nothing",
        purpose="A stored release as files to publish: the rows as .parquet, .csv or .duckdb, and a data card beside "
                "them, for people (.md) and as data (.json). Of a release of several tables, all of them.",
        example="CALL mwem_export('adult_synthetic', 'release.parquet')  ->  release.parquet, 48211; release.md, "
                "2310; release.json, 20944",
        parameters=(
            shared.OUTPUT,
            Parameter("path", None, TEXT, "The file to write: .parquet, .csv or .duckdb. The data card goes beside "
                                          "it, .md and .json. Of several tables: a file for each, or one .duckdb."),
        ),
        columns=shared.FILE,
    ),
    SqlFunction(
        name="mwem_withdraw", is_curators=True, section="Use a release",
        cost="nothing, and nothing is given back; the ledger notes it",
        purpose="Takes a release back: nothing is answered from it any more, and whoever asks reads when, by whom and "
                "why. Its rows stay until you drop them; dropping them alone (DROP TABLE) keeps the release, which "
                "goes on answering.",
        example="CALL mwem_withdraw('adult_synthetic', 'pay was in thousands before 2020')  ->  "
                "census.main.adult_synthetic, 1, 2026-06-01 12:00:00, ann, pay was ..., true",
        parameters=(
            shared.OUTPUT,
            Parameter("reason", None, TEXT, "Why, in words, up to 1,000 characters. Every refusal quotes it, wherever "
                                            "the release has gone: nothing private in it."),
        ),
        columns=(
            ResultColumn("output", "VARCHAR", "The output of the release: database.schema.table."),
            ResultColumn("release", "INTEGER", "Its number in mwem.releases."),
            ResultColumn("withdrawn", "TIMESTAMP", "When, in UTC."),
            ResultColumn("who", "VARCHAR", "The user, as the system says by the process's user id."),
            ResultColumn("reason", "VARCHAR", "Why."),
            ResultColumn("noted", "BOOLEAN", "Whether the ledger of the private table has it, too; false: that ledger "
                                             "is not attached, or cannot be written."),
        ),
    ),
    SqlFunction(
        name="mwem_compare", is_curators=True, section="Use a release",
        cost="no epsilon; reads private rows, and the ledger notes it",
        purpose="NOT PRIVATE: true and released answers side by side, for the curator. binning_error is what bins and "
                "bounds alone put an answer off by. A table of several is compared by its joined rows.",
        example="FROM mwem_compare('adult', 'adult_synthetic', workload)  ->  1, age > 40, NULL, 14237, 14211.7, "
                "25.3, 14180.2, 14251.9, directly, 0, NULL",
        parameters=(shared.TABLE, shared.OUTPUT, shared.WORKLOAD, shared.CONFIDENCE_LEVEL),
        columns=(
            shared.QUERY, shared.QUERY_NAME, shared.CELL,
            ResultColumn("true_answer", "DOUBLE", "What SQL says on the private rows. NULL where that fails."),
            shared.ANSWER_VALUE,
            ResultColumn("error", "DOUBLE", "How far answer is from true_answer. Never below 0."),
            *shared.INTERVAL,
            ResultColumn("binning_error", "DOUBLE", "The part of the error that bins and bounds alone cause, without "
                                                    "any noise."),
            ResultColumn("note", "VARCHAR", "Why there is no true answer, or what it is about."),
        ),
    ),
    *COUNTING,
    SqlFunction(
        name="mwem_attach", is_curators=True, module="attachments", section="Other engines",
        cost="nothing; the ledger of its tables is in the database that `ledger` names",
        purpose="Lets an alias stand for another engine's database, whose tables are then private tables: a "
                "PostgreSQL server, Spark Connect, or a DuckDB file apart.",
        example="CALL mwem_attach('warehouse', 'postgresql://curator@db/census')  ->  warehouse, postgresql, "
                "postgresql://db:5432/census, memory, NULL",
        parameters=(
            shared.ALIAS,
            Parameter("source", None, TEXT, "'postgresql://user@host/database', 'sc://host:15002' for Spark Connect, "
                                            "or the path of a DuckDB file. Without a password: that comes from "
                                            "PGPASSWORD or PGPASSFILE."),
            Parameter("ledger", "NULL", VALUE, "The attached DuckDB database that keeps the accounts of its tables. "
                                               "NULL: the current one."),
            Parameter("timeout", "NULL", VALUE,
            "Seconds that all scans of one call may take together. NULL: no limit."),
        ),
        columns=shared.SOURCE,
    ),
    SqlFunction(
        name="mwem_detach", is_curators=True, module="attachments", section="Other engines", cost="nothing",
        purpose="Takes an alias back. Accounts, caps and releases stay.",
        example="CALL mwem_detach('warehouse')  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL",
        parameters=(shared.ALIAS,),
        columns=shared.SOURCE,
    ),
    SqlFunction(
        name="mwem_sources", is_curators=True, module="attachments", section="Other engines", cost="nothing",
        purpose="The sources that are attached: alias, kind, where they are (without secrets), and the database that "
                "has their ledger.",
        example="FROM mwem_sources()  ->  warehouse, postgresql, postgresql://db:5432/census, memory, NULL",
        columns=shared.SOURCE,
    ),
)
FUNCTIONS = {function.name: function for function in _DECLARATIONS}
"""In the order of the reference."""
