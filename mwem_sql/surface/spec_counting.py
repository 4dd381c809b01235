"""The SQL functions that keep count, and those by which users ask for more than caps allow: a part of `spec.py`."""

from __future__ import annotations

from mwem_sql.surface import declaration as shared
from mwem_sql.surface.declaration import TEXT, VALUE, Parameter, ResultColumn, SqlFunction

# fmt: off
COUNTING = (
    SqlFunction(
        name="mwem_budget", module="counting", is_curators=True, section="Keep count", cost="nothing",
        purpose="Sets the cap on what all releases of a table may spend together, how they are counted, and for whom.",
        example="CALL mwem_budget('adult', 3.0)  ->  main, adult, 3.0, 0.0, 0.5, 0.0, 2.5, NULL, 1",
        parameters=(
            shared.TABLE,
            *shared.CAP,
        ),
        columns=shared.BUDGET,
    ),
    SqlFunction(
        name="mwem_partition", module="counting", is_curators=True, section="Keep count", cost="nothing",
        purpose="Declares a column whose value never changes in a row, as a month: from then on releases of views that "
                "say WHERE month = '2025-01' and WHERE month = '2025-02' cost the larger of the two, not both "
                "together. Called again, it shows what is left for each month.",
        example="CALL mwem_partition('visit', 'month')  ->  main, visit, month, 2025-01, 1.0, 2.0; main, visit, "
                "month, NULL, 0.0, 3.0",
        parameters=(
            shared.TABLE,
            Parameter("by", None, VALUE, "A column of the table itself. Your word that no row's value in it ever "
                                         "changes, which nobody can check; it goes into the journal. What was charged "
                                         "before counts for all values. NULL takes it back: all charges add up."),
        ),
        columns=(
            ResultColumn("schema_name", "VARCHAR", "The table's schema."),
            ResultColumn("table_name", "VARCHAR", "The table."),
            ResultColumn("partition_by", "VARCHAR", "The column; NULL: none."),
            ResultColumn("partition", "VARCHAR", "A value that has charges of its own, or values that have the same; "
                                                 "NULL: all other values, as next month's."),
            ResultColumn("epsilon_spent", "DOUBLE", "What is spent on rows with it, as the cap counts."),
            ResultColumn("epsilon_left", "DOUBLE", "What the cap leaves for releases of such rows alone; NULL without "
                                                   "a cap."),
        ),
    ),
    SqlFunction(
        name="mwem_ledger", module="counting", section="Keep count", cost="nothing",
        purpose="What was spent, by whom, when, on what, and what is left, over all attached databases.",
        example="FROM mwem_ledger()  ->  census, main, adult, census.main.adult_synthetic, 0.5, ...",
        columns=shared.LEDGER,
    ),
    SqlFunction(
        name="mwem_request", module="requesting", section="Ask for more", cost="nothing",
        purpose="For users of a server: asks the curator for a release that their own caps do not allow. It takes "
                "what mwem_release takes and is checked in full; once it is approved, the same call of mwem_release "
                "makes it. The table's cap holds all the same. Called again, it returns the same request.",
        example="CALL mwem_request('adult', workload, 2.0)  ->  3f9a61c0..., release, open, ...",
        parameters=(shared.TABLES, shared.WORKLOAD, shared.RELEASE_EPSILON), options=shared.RELEASE_OPTIONS,
        columns=shared.REQUEST,
    ),
    SqlFunction(
        name="mwem_requests", module="requesting", section="Ask for more", cost="nothing",
        purpose="What waits for the curator's word and what became of it, oldest first: to the curator all of it, to "
                "a user of a server what is theirs. Releases that did not meet their publish_if are listed, too.",
        example="FROM mwem_requests()  ->  3f9a61c0..., release, open, 2026-06-01 09:30:00, anna, census, main, "
                "adult, ...",
        columns=shared.REQUEST,
    ),
    SqlFunction(
        name="mwem_approve", module="requesting", is_curators=True, section="Ask for more", cost="nothing",
        purpose="The curator's word that a request may be released once, beside the caps of its user; or that a "
                "release which does not meet its publish_if is published by its next call. Refused while the table's "
                "cap has no room for it: mwem_budget raises that.",
        example="CALL mwem_approve('3f9a61c0...')  ->  3f9a61c0..., release, approved, ...",
        parameters=(shared.REQUEST_ID,),
        columns=shared.REQUEST,
    ),
    SqlFunction(
        name="mwem_refuse", module="requesting", is_curators=True, section="Ask for more", cost="nothing",
        purpose="Refuses a request, and says why; or takes an approval back that was not used yet.",
        example="CALL mwem_refuse('3f9a61c0...', 'ask for age in bins')  ->  3f9a61c0..., release, refused, ...",
        parameters=(
            shared.REQUEST_ID,
            Parameter("reason", None, VALUE, "Why, in words: its user reads it in mwem_requests()."),
        ),
        columns=shared.REQUEST,
    ),
    SqlFunction(
        name="mwem_withdraw_request", module="requesting", section="Ask for more", cost="nothing",
        purpose="Takes a request back that was not used yet. Users take back their own.",
        example="CALL mwem_withdraw_request('3f9a61c0...')  ->  3f9a61c0..., release, withdrawn, ...",
        parameters=(shared.REQUEST_ID,),
        columns=shared.REQUEST,
    ),
    SqlFunction(
        name="mwem_policy", module="counting", is_curators=True, section="Keep count", cost="nothing",
        purpose="Whether every private table of the current database needs a cap before it is released; shows it, or "
                "sets it.",
        example="CALL mwem_policy(require_caps := true)  ->  census, true",
        parameters=(Parameter("require_caps", "NULL", VALUE, "true or false sets it. NULL only shows it."),),
        columns=(
            ResultColumn("database_name", "VARCHAR", "The current database."),
            ResultColumn("require_caps", "BOOLEAN", "Whether every private table in it needs a cap before it is "
                                                    "released."),
        ),
    ),
    SqlFunction(
        name="mwem_public", module="counting", is_curators=True, section="Keep count",
        cost="nothing; the ledger notes it",
        purpose="The curator's word that all rows of a table are public, so that private views may join it along its "
                "key. Never for a table that was charged or capped.",
        example="CALL mwem_public('icd_codes')  ->  census, main, icd_codes, true",
        parameters=(Parameter("public_table", None, TEXT, "The table. It must have a PRIMARY KEY or UNIQUE constraint "
                                                          "to be joined."),),
        columns=(
            ResultColumn("database_name", "VARCHAR", "The table's database."),
            ResultColumn("schema_name", "VARCHAR", "Its schema."),
            ResultColumn("table_name", "VARCHAR", "Its name."),
            ResultColumn("public", "BOOLEAN", "true: it is public from now on."),
        ),
    ),
)
