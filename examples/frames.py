"""pandas and Polars: frames as workload as they are, as private table when you say so, and results as frames again."""

import pandas as pd
import polars as pl
from people import PEOPLE, ROWS, WORKLOAD

import mwem_sql

# Made in a database of its own, so that what follows starts from a frame.
with mwem_sql.connect() as other:
    other.execute(PEOPLE)
    other.execute(ROWS)
    frame = other.sql("FROM people").df()

con = mwem_sql.connect()

# A frame becomes a private table only by load(), under the name that you choose. It is a copy. Here it goes into a
# table that declares the public domain; without `append`, a new table is made, whose domain you declare in
# people_domain.
con.execute(PEOPLE)
print(mwem_sql.load(con, frame, "people", append=True))

# The same workload as a frame of pandas and of Polars: the second call is the same request, and free.
made = mwem_sql.release(con, "people", pd.DataFrame(WORKLOAD), epsilon=0.5)
again = mwem_sql.release(con, "people", pl.DataFrame(WORKLOAD), epsilon=0.5)
print(made.reused, again.reused)

# Results are Arrow tables, which pandas and Polars take without a copy of the texts.
answers = made.answer(pl.DataFrame({"predicate": ["age >= 80 AND city = 'Bern'"]})).to_pandas()
print(answers.columns.tolist())
rows = pl.from_arrow(made.to_arrow())
print(rows.columns, rows.height == made.rows)
print(pl.from_arrow(mwem_sql.domain(con, "people")).select("attribute", "cells").rows())
con.close()
