"""The script that `mwem_suggest_domain` gives: from a table without a domain to its release, for a person to review.

Owns the words and the order of its lines. Must not read a row: what it writes down was read by `private/suggest.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from mwem_sql.database.catalog import Name, Place
from mwem_sql.private.suggest import Suggestion

EPSILON = "1.0"
ORDER = 2
"""Of the marginals that are asked: all pairs of columns."""
_COLUMNS = {
    "attribute": "VARCHAR", "values": "VARCHAR[]", "low": "VARCHAR", "high": "VARCHAR", "bins": "INTEGER", "nullable": "BOOLEAN",
    "open": "BOOLEAN",
}  # fmt: skip
_TITLE = (
    "NOT PRIVATE. This was made by reading the private rows, and no budget covers it: show it to nobody who may not see them.",
    "Whatever stays in here becomes public. Read every line that says CHECK, change it where you know better, then run all of it.",
)


def insert(table: Name, place: Place, suggested: Suggestion) -> str:
    """The INSERT that declares an attribute in a domain table, whichever columns that has beside those that are needed."""
    needed = [name for name in _COLUMNS if name not in {"bins", "open"} or getattr(suggested, name)]
    return _inserted(_beside(table, place, "_domain"), {name: getattr(suggested, name) for name in needed})


def _inserted(table: exp.Table, row: Mapping[str, object], *, all_columns: bool = False) -> str:
    columns = [exp.to_identifier(name, quoted=name == "values") for name in row]
    target = table if all_columns else exp.Schema(this=table, expressions=columns)
    values = exp.Values(expressions=[exp.Tuple(expressions=[exp.convert(value) for value in row.values()])])
    return exp.Insert(this=target, expression=values).sql("duckdb")


def script(
    table: Name, home: Name, place: Place, suggestions: Sequence[Suggestion], declared: Mapping[str, str]
) -> str:
    """All of it: the domain, the questions, the release. `declared` has the columns that the schema declares, and by what.

    The domain table and the workload are made beside `home`: the table itself, or for another engine's a name where the caller is.
    """
    spoken = exp.Literal.string(_beside(table, place).sql("duckdb"))
    parts = (_domain(home, place, suggestions, declared), _workload(spoken, _asked(home, place), suggestions, declared))
    release = _release(spoken.sql("duckdb"), _asked(home, place).sql("duckdb"))
    return "\n\n".join("\n".join(part) for part in (map(_comment, _TITLE), *parts, release)) + "\n"


def _domain(table: Name, place: Place, suggestions: Sequence[Suggestion], declared: Mapping[str, str]) -> Iterator[str]:
    yield _comment("1. Which values are possible. This takes the place of a domain table that is there already.")
    columns = [
        exp.ColumnDef(this=exp.to_identifier(name, quoted=name == "values"), kind=exp.var(kind))
        for name, kind in _COLUMNS.items()
    ]
    yield _created(exp.Schema(this=_beside(table, place, "_domain"), expressions=columns), None) + ";"
    for each in suggestions:
        if not each.missing:
            row = {name: getattr(each, name) for name in _COLUMNS}
            declared_as = _inserted(_beside(table, place, "_domain"), row, all_columns=True)
            yield f"{declared_as};  {_comment(f'CHECK {each.attribute}: {each.note}.')}"
    for name, by in declared.items():
        yield _comment(f"{name} is declared in the schema: {by}.")
    for each in suggestions:
        if each.missing:
            yield _comment(f"CHECK {each.attribute} is left out: {each.missing}. To have it, INSERT a row for it.")


def _workload(
    spoken: exp.Expr, workload: exp.Table, suggestions: Sequence[Suggestion], declared: Mapping[str, str]
) -> Iterator[str]:
    found = [each for each in suggestions if not each.missing]
    order = exp.Literal.number(min(ORDER, len(found) + len(declared)))
    marginals = exp.Anonymous(this="mwem_marginals", expressions=[spoken, order])
    yield _comment("2. The questions that the release has to answer well.")
    yield f"{_created(workload, exp.select('*').from_(exp.Table(this=marginals)))};  {_comment('CHECK: all pairs of columns. What else will be asked?')}"
    for example in _examples(found):
        yield _comment(f"For example: {_inserted(workload.copy(), example)};")


def _release(spoken: str, workload: str) -> Iterator[str]:
    yield _comment("3. The release. A larger epsilon means less noise and less privacy.")
    yield _comment(
        f"CALL mwem_budget({spoken}, 3.0);  -- CHECK: a cap on all releases together; then every table needs one."
    )
    unit = "CHECK epsilon. If a person may have several rows, add: unit := 'person', rows_per_unit := 3, with the column's name."
    yield f"CALL mwem_release({spoken}, {workload}, {EPSILON});  {_comment(unit)}"


def _examples(found: Sequence[Suggestion]) -> Iterator[dict[str, object]]:
    """Rows that a person could add to the workload."""
    halves = ((each, _middle(each)) for each in sorted(found, key=lambda each: not each.bins))
    ordered, middle = next(((each, half) for each, half in halves if half is not None), (None, None))
    if ordered is not None:
        yield {"predicate": exp.GTE(this=_column(ordered), expression=exp.convert(middle)).sql("duckdb")}
    listed = next((each for each in found if each.values and not each.open), None)
    others = [each.attribute for each in found if each is not listed][:1]
    if listed is not None and others:
        asked = exp.EQ(this=_column(listed), expression=exp.Literal.string((listed.values or [""])[0]))
        yield {"predicate": asked.sql("duckdb"), "group_by": others}


def _middle(suggested: Suggestion) -> Decimal | None:
    try:
        return (Decimal(suggested.low or "") + Decimal(suggested.high or "")) / 2
    except InvalidOperation:
        return None


def _column(suggested: Suggestion) -> exp.Expr:
    return exp.column(suggested.attribute, quoted=True)


def _created(what: exp.Expr, rows: exp.Expr | None) -> str:
    return exp.Create(this=what, kind="TABLE", replace=True, expression=rows).sql("duckdb", normalize_functions=False)


def _asked(table: Name, place: Place) -> exp.Table:
    """The workload. A call takes its name bare, and so without quotes or dots in it."""
    return _beside(Name(table.database, table.schema, re.sub(r"\W+", "_", table.table)), place, "_workload")


def _beside(table: Name, place: Place, ending: str = "") -> exp.Table:
    """The table, or one with its name and another ending, as it is written at the caller's place."""
    name = exp.to_identifier(table.stem + ending if ending else table.table)
    if (table.database, table.schema) == (place.database, place.schema):
        return exp.Table(this=name)
    return exp.Table(this=name, db=exp.to_identifier(table.schema), catalog=exp.to_identifier(table.database))


def _comment(text: str) -> str:
    """A comment, whatever a column is called: nothing in it ends the line."""
    return "-- " + " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
