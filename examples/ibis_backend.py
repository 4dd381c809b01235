"""Ibis: the backend is the connection, and the synthetic table is a table of Ibis like any other."""

import ibis
from people import PEOPLE, ROWS, WORKLOAD

import mwem_sql

backend = mwem_sql.register(ibis.duckdb.connect("census.duckdb"))
backend.raw_sql(PEOPLE)
backend.raw_sql(ROWS)

# A workload may be an expression of Ibis, too: its rows are read once, as Arrow.
workload = ibis.memtable(WORKLOAD)
made = mwem_sql.release(backend, "people", workload, epsilon=0.5)
print(made.output, made.private)

people = backend.table("people_synthetic")
old = people.filter(people.age >= 65).group_by("sex").agg(people=ibis._.count()).order_by("sex")
print(old.to_pyarrow().column("sex").to_pylist())
