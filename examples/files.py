"""Files as private tables: a Parquet file by its path, a CSV file with its types declared."""

from people import PEOPLE, ROWS

import mwem_sql

con = mwem_sql.connect()
con.execute(PEOPLE)
con.execute(ROWS)
con.execute("COPY (SELECT age, sex FROM people) TO 'visitors.parquet'")
con.execute("COPY (SELECT age, sex FROM people) TO 'visitors.csv' (HEADER)")

# A file declares types, not domains: those are in <file>_domain, or in the table that `domain` names.
con.execute(
    'CREATE TABLE visitors_domain (attribute VARCHAR, "values" VARCHAR[], low VARCHAR, high VARCHAR, nullable BOOLEAN)'
)
con.execute(
    "INSERT INTO visitors_domain VALUES ('age', NULL, '0', '99', false), ('sex', ['F', 'M'], NULL, NULL, false)"
)

asked = mwem_sql.marginals(con, "visitors.parquet", 2)
print(mwem_sql.release(con, "visitors.parquet", asked, epsilon=0.5).output)

# DuckDB would guess a CSV file's types from private rows, so they are written down.
csv = "read_csv('visitors.csv', header := true, auto_detect := false, columns := {age: 'INTEGER', sex: 'VARCHAR'})"
print(mwem_sql.release(con, csv, asked, epsilon=0.5, output="from_csv").output)

# Each file has an account of its own, by its path.
print(len(set(mwem_sql.ledger(con).column("table_name").to_pylist())))
con.close()
