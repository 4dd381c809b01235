"""Files as private tables: a Parquet file by its path, a CSV file as the table that is made of it."""

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

# What a record of a CSV file is depends on the others, so it is read once, into a table.
con.execute("CREATE TABLE from_csv AS FROM read_csv('visitors.csv')")
print(mwem_sql.release(con, "from_csv", asked, epsilon=0.5, domain="visitors_domain").output)

# Each has an account of its own; that of a file goes by its path.
print(len(set(mwem_sql.ledger(con).column("table_name").to_pylist())))
con.close()
