"""SQLAlchemy with duckdb-engine: register the engine once; every connection of its pool finds the functions."""

from people import PEOPLE, ROWS, WORKLOAD
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import mwem_sql

engine = mwem_sql.register(create_engine("duckdb:///census.duckdb"))

# A call sees what is committed: begin() commits at its end.
with engine.begin() as con:
    con.execute(text(PEOPLE))
    con.execute(text(ROWS))
mwem_sql.load(engine, WORKLOAD, "workload")

with engine.connect() as con:
    made = con.execute(text("SELECT output, epsilon, private FROM mwem_release('people', workload, 0.5)")).one()
    print(*made)
    con.rollback()  # ends this connection's transaction: the output is in the next one
    print(con.execute(text("SELECT count(*) > 9000 FROM people_synthetic")).scalar_one())

# The functions of Python take the engine, one of its connections, or a session of the ORM.
with engine.connect() as con, Session(engine) as session:
    for handle in (engine, con, session):
        print(mwem_sql.release(handle, "people", "workload", epsilon=0.5).reused)
engine.dispose()
