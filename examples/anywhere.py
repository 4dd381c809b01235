"""One script for a table in DuckDB, PostgreSQL or Spark: only the line with the source differs.

python anywhere.py /data/census.duckdb main.people
python anywhere.py postgresql://curator@db/census public.people
python anywhere.py sc://host:15002 'parquet."/data/people"'
"""

import sys

import mwem_sql

source, table = sys.argv[1:]

con = mwem_sql.connect("curator.duckdb")  # ledger, caps and outputs are here
mwem_sql.attach(con, "census", source)

con.execute(
    'CREATE TABLE IF NOT EXISTS people_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR,'
    " nullable BOOLEAN)"
)
con.execute("INSERT INTO people_domain VALUES ('age', NULL, '0', '99', false), ('sex', ['F', 'M'], NULL, NULL, false)")
con.execute(
    "CREATE OR REPLACE TABLE workload AS FROM mwem_marginals(?, 2, domain := 'people_domain')", [f"census.{table}"]
)
con.execute(
    "CALL mwem_release(?, workload, 0.5, domain := 'people_domain', output := 'people_synthetic')", [f"census.{table}"]
)
print(
    con.execute(
        "SELECT sex, count(*) > 0 AS some FROM people_synthetic WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex"
    ).fetchall()
)
print(con.execute("SELECT epsilon, status FROM mwem_ledger()").fetchall())
con.close()
