"""Parameters and columns that several SQL functions share, each with its words."""

from __future__ import annotations

from mwem_sql.surface.function import TEXT, VALUE, Column, Parameter

# fmt: off
TABLE = Parameter("private_table", None, TEXT, "The private table by its name, as text: 'adult' or "
                   "'census.main.adult'. Or the path of a Parquet file, or a table of an attached source.")
WORKLOAD = Parameter("workload", None, VALUE, "The questions: a table or view, by its bare name. In Python also a "
                      "frame or a Workload.")
DOMAIN_TABLE = Parameter("domain", "NULL", VALUE, "The name of a domain table. NULL: <table>_domain, if there is one.")
OUTPUT = Parameter("output", None, TEXT, "The output of a release by its name, as text: 'adult_synthetic'.")
CONFIDENCE = Parameter("confidence", "0.95", TEXT, "How often the true answer is to be between low and high: above 0 "
                        "and below 1.")
PREDICATE = Parameter("predicate", None, TEXT, "A condition in SQL, as text: 'age > 40'.")
GIVEN = Parameter("given", "NULL", TEXT, "A condition in SQL, as text, that rows have to meet: 'sex = ''F'' AND age "
                   ">= 65'. NULL: all rows.")
ALIAS = Parameter("alias", None, TEXT, "A plain name that stands for the source: its tables are alias.schema.table.")
EPSILON = Parameter("epsilon", None, TEXT, "The privacy budget of this release. Smaller is more private, and noisier.")
OPTIONS = (
    Parameter("delta", "0.0", TEXT, "Above 0, noise may be Gaussian and is counted by zCDP, where the error will be "
              "smaller. 1e-6 is usual; it must be far below 1 over the number of people."),
    Parameter("rounds", "NULL", VALUE, "How many queries are selected and measured. NULL: chosen by itself."),
    Parameter("output", "NULL", VALUE, "The name of the output; database.schema.table for another database. NULL: "
              "<table>_synthetic."),
    Parameter("rows", "NULL", VALUE, "The rows of the output. NULL: as many as the noisy count says."),
    Parameter("total", "NULL", VALUE, "The number of rows, if it is public. If you give the true count, you have "
              "published it. NULL: estimated from what is measured, or with 1/20 of the budget."),
    DOMAIN_TABLE,
    Parameter("unit", "NULL", VALUE, "The column that identifies a person: all rows of a person are protected "
              "together. NULL: each row by itself."),
    Parameter("rows_per_unit", "NULL", VALUE, "How many rows of one person count. Needs unit."),
    Parameter("start", "'uniform'", VALUE, "What the first round starts from. 'histogram': a noisy histogram of the "
              "whole domain, for a quarter of the budget."),
    Parameter("average", "false", VALUE, "true: release the average of all rounds, not the last one. This is the "
              "paper's figure and its theorem, without replays."),
    Parameter("fit", "'mirror'", VALUE, "How measurements are fitted after each round. 'mirror': all at once, until "
              "the misfit no longer falls. 'replay': 100 passes of the paper's fixed step."),
    Parameter("max_cells", "NULL", VALUE, "The largest model, in cells. NULL: 10,000,000. A query that would exceed it "
              "is not asked. If none is left, rounds measure again what was measured."),
    Parameter("certify", "NULL", VALUE, "The share of the budget that tells how far off the answers are in the end, 0 "
              "to 0.5. NULL: 0.02, or 0 if rounds or average is given."),
    Parameter("version", "NULL", TEXT, "A new version makes, and charges, a new release under the same output name."),
    Parameter("seed", "NULL", VALUE, "Repeatable noise, for experiments. The release is marked private = false."),
)
QUERY = Column("query", "INTEGER", "The row of the workload, from 1.")
NAME = Column("name", "VARCHAR", "The query's name, or its text.")
CELL = Column("cell", "VARCHAR[]", "The group_by values, in their order; NULL for a query without.")
ANSWER_VALUE = Column("answer", "DOUBLE", "What the release says. A count need not be whole.")
MEASURED = Column("measured", "VARCHAR", "directly: it was measured, and only noise is in the way. in part: some of it "
                  "was. never: a guess of the model.")
INTERVAL = (
    Column("low", "DOUBLE", "The true answer is above this and below high, as often as confidence says."),
    Column("high", "DOUBLE", "See low."),
    MEASURED,
)
QUESTION = (
    Column("predicate", "VARCHAR", "The condition; NULL: all rows."),
    Column("measure", "VARCHAR", "What is summed up; NULL: rows are counted."),
    Column("group_by", "VARCHAR[]", "The columns."),
    Column("name", "VARCHAR", "The query's text."),
    Column("weight", "DOUBLE", "1."),
)
SOURCE = (
    Column("alias", "VARCHAR", "What stands for the source."),
    Column("kind", "VARCHAR", "postgresql, spark or duckdb."),
    Column("source", "VARCHAR", "Where it is, without secrets."),
    Column("ledger", "VARCHAR", "The database that keeps its accounts."),
    Column("timeout", "DOUBLE", "Seconds for all scans of a call; NULL: no limit."),
)
FILE = (
    Column("file", "VARCHAR", "What was written."),
    Column("bytes", "BIGINT", "Its size."),
)
ATTRIBUTE = Column("attribute", "VARCHAR", "The column.")
VALUES = Column("values", "VARCHAR[]", "Its possible values; NULL where it has bounds.")
LOW = Column("low", "VARCHAR", "The smallest possible value, as text.")
HIGH = Column("high", "VARCHAR", "The largest possible value, as text.")
STEP = Column("step", "VARCHAR", "What synthetic values are multiples of, from low on: days for dates, seconds for "
               "timestamps. Without bins and edges, bins begin there, too.")
BINS = Column("bins", "INTEGER", "Equal bins that its values are counted in.")
EDGES = Column("edges", "VARCHAR[]", "Where bins begin, after the first at low, if they are not equal.")
NULLABLE = Column("nullable", "BOOLEAN", "Whether NULL is a value of its own.")
OPEN = Column("open", "BOOLEAN", "Whether values off the list are one class more.")
