"""What every parameter and every column means, in words. `words.py` puts them together with what the functions are.

Owns these words. Must not say what a function does: that is the comment above its macro in `sql/macros.sql`.
"""

from __future__ import annotations

OPTIONS = {
    "delta": "Above 0, noise may be Gaussian and is counted by zCDP, where the error will be smaller. 1e-6 is usual; it must be far below 1 over the number of people.",
    "rounds": "How many queries are selected and measured. NULL: chosen by itself.",
    "output": "The name of the output; database.schema.table for another database. NULL: <table>_synthetic.",
    "rows": "The rows of the output. NULL: as many as the noisy count says.",
    "total": "The number of rows, if it is public. If you give the true count, you have published it. NULL: estimated from what is measured, or with 1/20 of the budget.",
    "domain": "The name of a domain table. NULL: <table>_domain, if there is one.",
    "unit": "The column that identifies a person: all rows of a person are protected together. NULL: each row by itself.",
    "rows_per_unit": "How many rows of one person count. Needs unit.",
    "start": "What the first round starts from. 'histogram': a noisy histogram of the whole domain, for a quarter of the budget.",
    "average": "true: release the average of all rounds, not the last one. This is the paper's figure and its theorem, without replays.",
    "fit": "How measurements are fitted after each round. 'mirror': all at once, until the misfit no longer falls. 'replay': 100 passes of the paper's fixed step.",
    "max_cells": "The largest model, in cells. NULL: 10,000,000. A query that would exceed it is not asked. If none is left, rounds measure again what was measured.",
    "certify": "The share of the budget that tells how far off the answers are in the end, 0 to 0.5. NULL: 0.02, or 0 if rounds or average is given.",
    "version": "A new version makes, and charges, a new release under the same output name.",
    "seed": "Repeatable noise, for experiments. The release is marked private = false.",
}
"""Of mwem_release and mwem_plan."""

PARAMETERS = {
    "private_table": "The private table by its name, as text: 'adult' or 'census.main.adult'. Or the path of a Parquet file, or a table of an attached source.",
    "workload": "The questions: a table or view, by its bare name. In Python also a frame or a Workload.",
    "epsilon": "The privacy budget of this release. Smaller is more private, and noisier.",
    "domain": OPTIONS["domain"],
    "output": "The output of a release by its name, as text: 'adult_synthetic'.",
    "confidence": "How often the true answer is to be between low and high: above 0 and below 1.",
    "predicate": "A condition in SQL, as text: 'age > 40'.",
    "given": "A condition in SQL, as text, that rows have to meet: 'sex = ''F'' AND age >= 65'. NULL: all rows.",
    "attributes": "Columns of the output: ['sex', 'race'] or 'sex, race'.",
    "alias": "A plain name that stands for the source: its tables are alias.schema.table.",
    "mwem_attach.source": "'postgresql://user@host/database', 'sc://host:15002' for Spark Connect, or the path of a DuckDB file. Without a password: that comes from PGPASSWORD or PGPASSFILE.",
    "mwem_attach.ledger": "The attached DuckDB database that keeps the accounts of its tables. NULL: the current one.",
    "mwem_attach.timeout": "Seconds that all scans of one call may take together. NULL: no limit.",
    "mwem_average.measure": "What is averaged: a column, or an SQL expression, as text: 'pay' or 'pay / 12'.",
    "mwem_budget.epsilon": "What all releases of the table may spend together.",
    "mwem_budget.delta": "0: epsilons are added up, and a release with a delta is refused. Above 0: everything is counted in rho (zCDP) and converted once at this delta.",
    "mwem_budget.unit": "Makes it a cap per person: every release of the table must give the same unit.",
    "mwem_budget.rows_per_unit": "As many as every release of the table must give.",
    "mwem_export.path": "The file to write: .parquet, .csv or .duckdb. The data card goes beside it, .md and .json.",
    "mwem_marginals.k": "How many columns are asked about together: 2 for all pairs.",
    "mwem_parities.columns": "The attributes to use. NULL: all that have two values.",
    "mwem_parities.k": "The most attributes in one parity.",
    "mwem_policy.require_caps": "true or false sets it. NULL only shows it.",
    "mwem_quantile.attribute": "The column, as text: a number, date, timestamp or ENUM.",
    "mwem_quantile.share": "Which quantile: 0.5 for the median. Or several: [0.25, 0.5, 0.75]. Above 0 and below 1.",
    "mwem_ranges.columns": "A column, or several: 'age, hours' or ['age', 'hours'].",
    "mwem_ranges.count": "How many ranges.",
    "mwem_ranges.seed": "The same number makes the same ranges again.",
    "mwem_report.compare": "The private table by its name: true answers beside the released ones. NOT PRIVATE.",
    "mwem_report.path": "The file to write: 'report.html'.",
    "mwem_sample.rows": "How many rows. NULL: as many as the release counts.",
    "mwem_sample.seed": "The same number draws the same rows again. It has no part in privacy: all of this is published.",
    "mwem_withdraw.reason": "Why, in words, up to 1,000 characters. Every refusal quotes it, wherever the release has gone: nothing private in it.",
}
"""By name, or by function and name where the same name means something else."""

WORKLOAD = {
    "predicate": "VARCHAR: a condition in SQL, as it would follow WHERE. NULL: all rows.",
    "measure": "VARCHAR: what is summed up, pay or sum(pay) or avg(pay). NULL: rows are counted.",
    "group_by": "VARCHAR[]: column names and SQL expressions, ['sex', 'age // 10']; or VARCHAR: the same as text, 'sex, age // 10'. NULL: one number.",
    "name": "VARCHAR: what answers call the query. NULL: its text.",
    "weight": "DOUBLE above 0: how important it is when queries are selected. NULL: 1.",
    "always": "BOOLEAN: measured in any case, ahead of all that is selected. NULL: false.",
}
"""The columns of a workload. Any of them may be left out."""

DOMAIN = {
    "attribute": "VARCHAR: the column of the private table.",
    "values": "VARCHAR[]: all values that are possible. Or:",
    "low": "VARCHAR: the smallest possible value, of a number, date or timestamp. Smaller ones count as it.",
    "high": "VARCHAR: the largest. Larger ones count as it.",
    "step": "VARCHAR: for a column with very many values that is grouped or summed. A value counts as the step below it.",
    "bins": "INTEGER: so many equal bins instead of a step. In groups and sums a value counts as the middle of its bin.",
    "nullable": "BOOLEAN: whether NULL is a value of its own. NULL or left out: as in the schema.",
    "open": "BOOLEAN: values off the list are one class more, which reads as NULL. NULL or left out: false.",
}
"""The columns of a domain table. Any but attribute may be left out."""

_DECLARED = {
    "attribute": "The column.",
    "values": "Its possible values; NULL where it has bounds.",
    "low": "The smallest possible value, as text.",
    "high": "The largest possible value, as text.",
    "bins": "Bins that its values are counted in.",
    "nullable": "Whether NULL is a value of its own.",
    "open": "Whether values off the list are one class more.",
}
_INTERVAL = {
    "answer": "What the release says. A count need not be whole.",
    "low": "The true answer is above this and below high, as often as confidence says.",
    "high": "See low.",
    "measured": "directly: it was measured, and only noise is in the way. in part: some of it was. never: a guess of the model. unknown: the release is from an older version.",
}
_ANSWER = {
    "query": "The row of the workload, from 1.",
    "name": "The query's name, or its text.",
    "cell": "The group_by values, in their order; NULL for a query without.",
    **_INTERVAL,
}
_WORKLOAD = {
    "predicate": "The condition; NULL: all rows.",
    "measure": "What is summed up; NULL: rows are counted.",
    "group_by": "The columns.",
    "name": "The query's text.",
    "weight": "1.",
}
_SOURCE = {
    "alias": "What stands for the source.",
    "kind": "postgresql, spark or duckdb.",
    "source": "Where it is, without secrets.",
    "ledger": "The database that keeps its accounts.",
    "timeout": "Seconds for all scans of a call; NULL: no limit.",
}
_FILE = {"file": "What was written.", "bytes": "Its size."}

COLUMNS: dict[str, dict[str, str]] = {
    "mwem_release": {
        "release": "Its number in mwem.releases.",
        "output": "The table that was written: database.schema.table.",
        "rows": "Rows of that table: the noisy count, or the option rows.",
        "epsilon": "What was charged, and is promised.",
        "delta": "What was charged, and is promised.",
        "rounds": "How often was selected and measured, or refined.",
        "queries": "Rows of the workload.",
        "attributes": "Columns of the output: those that the workload asks about.",
        "cells": "Size of the model.",
        "seconds": "How long the call took.",
        "private": "false: made with a seed, for experiments. It protects nobody.",
        "reused": "true: the stored release of the same request, which cost nothing.",
        "protects": "Whose change is hidden: one row, or all rows of one unit.",
        "warning": "What to know before it is used; NULL: nothing.",
        "measured": "Rows of the workload all of whose cells were measured.",
        "mean_error": "How far off a query of the workload is, on average: the sum over its cells, in rows (of a sum, in parts of the most that a row adds). Told by the certificate, with noise. NULL without one.",
        "mean_error_within": "How far off `mean_error` itself may be: 95 times in 100 it is within this of the truth. NULL without a certificate.",
    },
    "mwem_plan": {
        "item": "What a line is about: expect, advice, epsilon, noise scale ...",
        "value": "What there is to say about it.",
    },
    "mwem_domain": {
        **_DECLARED,
        "type": "The column's type.",
        "step": "The step that its values are counted in.",
        "cells": "How many values can be told apart.",
        "declared": "Where that is declared: ENUM, BOOLEAN, CHECK or the domain table.",
        "lacks": "What is missing before the column can be asked about or grouped by; NULL: nothing.",
    },
    "mwem_suggest_domain": {
        **_DECLARED,
        "ddl": "The INSERT that would declare it.",
        "note": "What a person has to check.",
        "script": "A whole script, the same in every row: domain table, workload, release.",
    },
    "mwem_attach": _SOURCE,
    "mwem_detach": _SOURCE,
    "mwem_sources": _SOURCE,
    "mwem_marginals": _WORKLOAD,
    "mwem_ranges": _WORKLOAD,
    "mwem_parities": _WORKLOAD,
    "mwem_answer": _ANSWER,
    "mwem_compare": {
        **_ANSWER,
        "true_answer": "What SQL says on the private rows. NULL where that fails.",
        "error": "How far answer is from true_answer. Never below 0.",
        "binning_error": "The part of the error that bins and bounds alone cause, without any noise.",
        "note": "Why there is no true answer, or what it is about.",
    },
    "mwem_average": _INTERVAL,
    "mwem_quantile": {
        "share": "The share that was asked for.",
        "answer": "The value that so much of the rows lies at most at, by the model; values off a list are left out. NULL: there are no such rows.",
        "low": "The true quantile is at least this and at most high, as often as confidence says. NULL: it may be below all values of the domain.",
        "high": "See low. NULL: it may be above all values of the domain.",
        "measured": _INTERVAL["measured"],
    },
    "mwem_sample": {"<column>": "A column for each of the release."},
    "mwem_quality": {
        "query": "The row of the workload, from 1.",
        "name": "The query's name, or its text.",
        "cells": "How many numbers it asks for.",
        "measured": "As in mwem_answer, of its worst cell.",
        "round": "The step of mwem.measurements that first measured it directly.",
        "noise": "The standard deviation of what is known of a cell, the median over cells; NULL: not measured directly.",
        "width": "How wide an interval is, the median over cells.",
        "mean_error": "The certified mean error of the workload's queries of this kind: those all of whose cells were measured, or the others. NULL without a certificate.",
        "mean_error_within": "95 times in 100, `mean_error` is within this of the truth.",
    },
    "mwem_report": {**_FILE, "private": "Whether the page may be published."},
    "mwem_export": _FILE,
    "mwem_withdraw": {
        "output": "The output of the release: database.schema.table.",
        "release": "Its number in mwem.releases.",
        "withdrawn": "When, in UTC.",
        "who": "The user, as the system says by the process's user id.",
        "reason": "Why.",
        "noted": "Whether the ledger of the private table has it, too; false: that ledger is not attached, or cannot be written.",
    },
    "mwem_budget": {
        "schema_name": "The table's schema.",
        "table_name": "The table.",
        "epsilon": "The cap.",
        "delta": "The delta of the cap.",
        "epsilon_spent": "What its releases have spent, as the cap counts.",
        "delta_spent": "The delta at which that was worked out.",
        "epsilon_left": "What is left.",
        "unit": "Whose rows are protected together; NULL: each row by itself.",
        "rows_per_unit": "How many rows of one unit count.",
        "seeded": "Releases with a seed from before the cap, which no budget covers.",
        "also_charged_as": "Other names under which the same rows were charged, and what was spent there.",
    },
    "mwem_policy": {
        "database_name": "The current database.",
        "require_caps": "Whether every private table in it needs a cap before it is released.",
    },
    "mwem_ledger": {
        "database_name": "Where the private table is.",
        "schema_name": "Its schema.",
        "table_name": "Its name, when it was charged.",
        "output": "What was written; NULL where nothing was.",
        "epsilon": "What was charged.",
        "delta": "What was charged.",
        "action": "The function: mwem_release, or one that is only noted: not private, or mwem_withdraw.",
        "private": "false: a seed, or a function that is not private.",
        "status": "done; open: running, or killed; failed. All of them count.",
        "started": "When.",
        "finished": "When; NULL while it is open.",
        "who": "The user, as the system says by the process's user id.",
        "unit": "Whose rows were protected together; NULL: each row by itself.",
        "rows_per_unit": "How many rows of one unit counted.",
        "epsilon_spent": "What all releases of the table have spent, to this day.",
        "epsilon_left": "What the cap leaves; NULL without one.",
        "intact": "false: somebody changed the row by hand. NULL: older than the journal.",
        "version": "The version that was asked for; NULL without one.",
        "workload": "What was asked: its first query, and how many more there are.",
        "claimed": "The user that the environment names (USER, LOGNAME), where that is another one.",
        "reason": "Why a release was withdrawn; NULL for all else.",
    },
    "mwem_weights": {
        "<attribute>": "A column for each attribute that was named.",
        "weight": "Rows with these values. Need not be whole.",
    },
    "mwem_count": {"answer": _INTERVAL["answer"]},
    "mwem_count_interval": _INTERVAL,
}
"""Of each function."""
