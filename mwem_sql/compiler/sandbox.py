"""DuckDB's own semantics without the user's database: an empty in-memory instance with external access off.

Everything evaluated here is public: constants of the schema, and workload expressions over the declared domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.ticks import cast

# The connection's settings that change what an expression means.
MEANINGFUL_SETTINGS = ("TimeZone", "default_collation", "integer_division", "ieee_floating_point_ops")
_POSITION, _ARRIVED = "__mwem_position", "__mwem_arrived"  # names that no column or table of the user has
_BATCH = 250  # an unbatched SELECT of thousands of expressions plans slowly


class Sandbox:
    """A private in-memory DuckDB. Errors it raises are DuckDB's and quote public text only."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._con = duckdb.connect(":memory:", config={"threads": 1})
        # Whether equal texts are more than identical ones.
        self.collates = bool((settings or {}).get("default_collation"))
        for name, value in (settings or {}).items():
            if name in MEANINGFUL_SETTINGS:
                self._con.execute(
                    exp.Set(
                        expressions=[
                            exp.SetItem(this=exp.EQ(this=exp.to_identifier(name), expression=exp.convert(value)))
                        ]
                    ).sql("duckdb")
                )
        self._con.execute("SET enable_external_access = false")
        self._con.execute("SET lock_configuration = true")

    def __enter__(self) -> Sandbox:  # noqa: PYI034  Self is not in Python 3.10
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._con.close()

    def row(self, expressions: Sequence[exp.Expr]) -> list[object]:
        """Constant expressions, evaluated."""
        out: list[object] = []
        for start in range(0, len(expressions), _BATCH):
            # fetchall, not fetchone: a result that is not read to its end blocks the connection.
            out += self._con.execute(exp.select(*expressions[start : start + _BATCH]).sql("duckdb")).fetchall()[0]
        return out

    def tried(self, expressions: Sequence[exp.Expr]) -> list[object]:
        """Constant expressions, evaluated; None for one that cannot be."""
        try:
            return self.row(expressions)
        except duckdb.Error:
            return [self.tried([one])[0] for one in expressions] if len(expressions) > 1 else [None]

    def load(self, table: str, columns: Mapping[str, tuple[str, pa.Array]]) -> None:
        """A table of public values; each column is cast to its real type."""
        arrow = pa.table({f"c{k}": array for k, (_, array) in enumerate(columns.values())})
        casts = [
            exp.alias_(cast(exp.column(f"c{k}"), type_text), name, quoted=True)
            for k, (name, (type_text, _)) in enumerate(columns.items())
        ]
        view = self._con.from_arrow(arrow)
        numbered = exp.select(exp.alias_(exp.Window(this=exp.RowNumber()), _POSITION), *casts).from_(_ARRIVED)
        create = exp.Create(
            this=exp.to_table(exp.to_identifier(table, quoted=True).sql("duckdb"), dialect="duckdb"),
            kind="TABLE", expression=numbered, replace=True,
        )
        view.query(_ARRIVED, create.sql("duckdb"))

    def evaluate(self, table: str, expressions: Sequence[str]) -> list[pa.ChunkedArray]:
        """SQL expressions over every row of a loaded table, in its order."""
        out: list[pa.ChunkedArray] = []
        source = exp.to_identifier(table, quoted=True).sql("duckdb")
        for start in range(0, len(expressions), _BATCH):
            # A newline ends a comment that an expression may close with.
            listed = ", ".join(f"({text}\n) AS e{k}" for k, text in enumerate(expressions[start : start + _BATCH]))
            # The expressions are text as the analyst wrote it, so this SELECT cannot be a tree.
            computed = self._con.sql(f"SELECT {listed} FROM {source} ORDER BY {_POSITION}").to_arrow_table()  # noqa: S608
            out.extend(computed.columns)
        return out
