import mwem_sql


def model(dbt, session):
    """A release made from Python; `session` is dbt's own connection, and the synthetic rows are the model."""
    dbt.config(materialized="table")
    dbt.ref("people_domain"), dbt.ref("people")
    made = mwem_sql.release(session, "people", mwem_sql.marginals(session, "people", 2), 0.5, output="people_by_pairs")
    return made.to_arrow()
