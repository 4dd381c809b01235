"""Bodies of the functions that keep count: mwem_budget, mwem_partition, mwem_public, mwem_ledger, mwem_policy.

Owns the checks of what a curator says. Must not count: that is in `accounting`.
"""

from __future__ import annotations

from typing import Any

from mwem_sql.accounting import journal
from mwem_sql.accounting.caps import Balance, Cap, read_every
from mwem_sql.accounting.ledger import ledger_of
from mwem_sql.accounting.partitions import balance_rows, partition_column
from mwem_sql.accounting.policy import requires_caps, set_cap_of_user, set_policy, set_public
from mwem_sql.boundary import relations
from mwem_sql.boundary.keys import Keys
from mwem_sql.boundary.public import check_public
from mwem_sql.errors import OptionError, OutputError, TableError, literal, refuse
from mwem_sql.kernel.budget import Budget
from mwem_sql.platform import catalog
from mwem_sql.releases.request import read_whole
from mwem_sql.surface.bodies import Arguments, Rows


def budget(call: Arguments) -> Rows:
    session, function, user = call.session, call.function, call["user"]
    cap = Budget.parse(call["epsilon"], call["delta"] or 0, function)
    every = None if call["every"] is None else call.name("every", "time", "30 days")
    if every is not None:
        read_every(every)
    con = session.cursor()
    if user is not None:
        return [_cap_of_user(call, Cap(cap, user=call.name("user", "user", "anna"), every=every))]
    given = None if call["unit"] is None else call.name("unit")
    relation = relations.describe(con, call.name("private_table"), session.place, function, unit=given)
    if given is not None:
        relation = relation.of_rows(given)
    rows_per_unit: int | None = read_whole(function, "rows_per_unit", call["rows_per_unit"], 1, 10**6)
    unit = None
    if relation.unit is not None:
        unit = relation.unit.table.table
        if rows_per_unit != 1:
            what = f"rows_per_unit ({rows_per_unit}) is not for a cap per row of {unit} and all rows that lead to it"
            raise refuse(OptionError, function, what, "leave it out: each release says how many rows it uses")
        rows_per_unit = None
    elif given is not None:
        column = relation.origin(given, function)
        if column is None:
            what = f"unit ({given!r}) is computed by a view, so that a cap could not count by it"
            hint = f"name a column of {relation.charged.table} itself, or one that the view shows unchanged"
            raise refuse(OptionError, function, what, hint)
        unit = column.name
    if unit is None and rows_per_unit != 1:
        what = f"rows_per_unit ({rows_per_unit}) needs a unit"
        raise refuse(OptionError, function, what, "name the column that identifies a unit")
    ledger = ledger_of(con, relation, session.place, function)
    made = Cap(cap, unit, rows_per_unit, every=every)
    ledger = ledger.set_cap(session.cursor(), made)
    row = _cap_row(made, ledger.balance, relation.charged.schema, relation.charged.table)
    by = ledger.partition.name if ledger.partition is not None else None
    return [{**row, "also_charged_as": ledger.other_names, "partition_by": by}]


def _cap_of_user(call: Arguments, cap: Cap) -> dict[str, Any]:
    """Set the cap of a user: on a table, or on all tables of the current database's ledger together."""
    session, function = call.session, call.function
    if call["unit"] is not None or call["rows_per_unit"] != 1:
        what = f"unit ({call['unit']!r}) is for the cap on a table, and this one is for what {cap.user} asks"
        raise refuse(OptionError, function, what, "leave unit and rows_per_unit out: it counts whatever the units are")
    con = session.cursor()
    if call["private_table"] is None:
        home = session.place.database
        if catalog.is_read_only(con, home):
            what = f"database ({home!r}) cannot be written"
            raise refuse(OptionError, function, what, "USE the database that has the ledger")
        return _cap_row(cap, set_cap_of_user(session.cursor(), home, cap), "", "")
    relation = relations.describe(con, call.name("private_table"), session.place, function)
    ledger = ledger_of(con, relation, session.place, function).set_cap(session.cursor(), cap)
    return _cap_row(cap, ledger.balance_under(cap), relation.charged.schema, relation.charged.table)


def _cap_row(cap: Cap, balance: Balance, schema: str, table: str) -> dict[str, Any]:
    return {
        "schema_name": schema,
        "table_name": table,
        "epsilon": float(cap.budget.epsilon),
        "delta": float(cap.budget.delta),
        "epsilon_spent": balance.epsilon_spent,
        "delta_spent": float(balance.delta),
        "epsilon_left": balance.epsilon_left,
        "unit": cap.unit,
        "rows_per_unit": cap.rows_per_unit,
        "seeded": balance.seeded,
        "also_charged_as": None,
        "partition_by": None,
        "user_name": cap.user,
        "every": cap.every,
    }


def partition(call: Arguments) -> Rows:
    session, function, by = call.session, call.function, call["by"]
    con = session.cursor()
    relation = relations.describe(con, call.name("private_table"), session.place, function)
    ledger = ledger_of(con, relation, session.place, function)
    column = None
    if by is not None:
        name = call.name("by", "column", "month")
        column = partition_column(con, ledger, relation, name, settings=session.settings, function=function)
    return [
        {"schema_name": relation.charged.schema, "table_name": relation.charged.table, **row}
        for row in balance_rows(ledger.set_partition(session.cursor(), column))
    ]


def public(call: Arguments) -> Rows:
    session, function, text = call.session, call.function, call.name("public_table")
    con = session.cursor()
    relation = catalog.find(con, text, session.place)
    if relation is None:
        what = f"table ({text!r}) does not exist for this call"
        near = catalog.nearest(con, text, session.place)
        raise refuse(TableError, function, what, f"{near}name a table of an attached database, and COMMIT it first")
    name = relation[0]
    check_public(con, relation, (), "public table", function)
    if catalog.is_read_only(con, name.database):
        what = f"table ({name}) is in a database that cannot be written, so that nothing could be noted"
        raise refuse(
            OutputError, function, what, "ATTACH its file writable, or copy the table: CREATE TABLE ... AS FROM"
        )
    private = Keys.of(con, name, function).foreign(name)
    if private:
        parent = private[0].refers_to.table
        what = f"table ({text!r}) has rows that belong to rows of {parent}, which is private"
        raise refuse(
            TableError, function, what, f"if {parent} is public, say so first: CALL mwem_public({literal(parent)})"
        )
    set_public(session.cursor(), name)
    return [{"database_name": name.database, "schema_name": name.schema, "table_name": name.table, "public": True}]


def ledger(call: Arguments) -> Rows:
    session = call.session
    return journal.statement(session.private.cursor(), session.cursor(), session.user)


def policy(call: Arguments) -> Rows:
    session, function, home = call.session, call.function, call.session.place.database
    flag = call["require_caps"]
    if flag is not None:
        if not isinstance(flag, bool):
            what = f"require_caps ({flag!r}) must be true or false"
            raise refuse(OptionError, function, what, "leave it out to see what holds")
        if catalog.is_read_only(session.cursor(), home):
            what = f"database ({home!r}) cannot be written"
            raise refuse(OptionError, function, what, "USE the database whose tables are private")
        set_policy(session.cursor(), home, require_caps=flag)
    return [{"database_name": home, "require_caps": requires_caps(session.cursor(), home)}]
