"""Which unit has all rows that are in one row of a relation."""

from __future__ import annotations

import pytest

from mwem_sql.boundary.relation import Joined, KeyUnit, Relation
from mwem_sql.errors import OptionError
from mwem_sql.platform.catalog import Column, Name

VISIT, PERSON, HOUSEHOLD, CODES = (Name("db", "main", table) for table in ("visit", "person", "household", "codes"))
COLUMNS = (Column("pid", "INTEGER", nullable=True), Column("x", "INTEGER", nullable=True))


def relation(*joined: Joined, unit: Name | None = None) -> Relation:
    """A view of visits, which name a person by `pid`."""
    return Relation(
        name=Name("db", "main", "v"),
        columns=COLUMNS,
        rows=VISIT.tree(),
        below=(VISIT,),
        declared={column.name: column for column in COLUMNS},
        keyed={"pid": (PERSON,)},
        joined=joined,
        unit=None if unit is None else KeyUnit(table=unit, columns=(), path=(VISIT, unit)),
        connected=(VISIT, PERSON, HOUSEHOLD),
    )


PEOPLE = Joined(name=PERSON, optional=False, units=(PERSON, HOUSEHOLD))
HOMES = Joined(name=HOUSEHOLD, optional=False, units=(HOUSEHOLD,))
PUBLIC = Joined(name=CODES, optional=True, mark="0a")


def test_units_that_have_all_rows() -> None:
    relation().check_unit(None, "f")
    relation(PUBLIC).check_unit(None, "f")
    relation(PUBLIC).check_unit("x", "f")
    relation(PEOPLE, PUBLIC).check_unit("pid", "f")
    relation(PEOPLE, unit=PERSON).check_unit("person", "f")
    relation(PEOPLE, HOMES, unit=HOUSEHOLD).check_unit("household", "f")


@pytest.mark.parametrize(
    ("joined", "unit", "table", "cure"),
    [
        ((PEOPLE,), None, None, "one row of visit. Hint: give unit := 'person'"),
        ((PEOPLE,), "x", None, "one x of visit. Hint: give unit := 'person'"),
        ((PEOPLE, HOMES), "pid", None, "one pid of visit. Hint: give unit := 'household'"),
        ((PEOPLE, HOMES), "person", PERSON, "one person of visit. Hint: give unit := 'household'"),
    ],
)
def test_units_that_have_not(joined: tuple[Joined, ...], unit: str | None, table: Name | None, cure: str) -> None:
    with pytest.raises(OptionError, match=rf"whose rows would not be protected with {cure}.*CALL mwem_public"):
        relation(*joined, unit=table).check_unit(unit, "f")


def test_names_of_private_rows() -> None:
    assert relation(PEOPLE, PUBLIC).private_names == (Name("db", "main", "v"), VISIT, PERSON, HOUSEHOLD)
