"""Query and Workload: what an analyst asks, as text, and the builders of common workloads. Reads no private row."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.domain import Attribute, Domain
from mwem_sql.errors import OptionError, WorkloadError, refuse

COLUMNS = ("predicate", "measure", "group_by", "name", "weight")
MAX_QUERIES = 2_000_000

SCHEMA = pa.schema(
    [
        ("predicate", pa.string()),
        ("measure", pa.string()),
        ("group_by", pa.list_(pa.string())),
        ("name", pa.string()),
        ("weight", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Query:
    """One row of a workload: `SELECT group_by, SUM(measure) FROM t WHERE predicate GROUP BY group_by`.

    `group_by` holds column names where `verbatim`, otherwise one text with SQL expressions.
    """

    predicate: str | None = None
    measure: str | None = None
    group_by: tuple[str, ...] | None = None
    verbatim: bool = True
    name: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.predicate is None and self.measure is None and self.group_by is None:
            raise refuse(
                WorkloadError, "workload", "a row has a NULL predicate and no group_by, so it asks nothing",
                "write a predicate ('true' counts all rows) or a group_by",
            )
        if not (isinstance(self.weight, (int, float)) and 0 < self.weight < math.inf):
            raise refuse(
                WorkloadError, "workload", f"weight ({self.weight}) of {self.label!r} must be a positive finite number",
                "leave it NULL for 1",
            )
        if self.group_by is not None and not self.group_by:
            raise refuse(WorkloadError, "workload", "a row has an empty group_by list", "name columns, or leave it NULL")

    @property
    def label(self) -> str:
        """The name shown in answers: the given one, or the query's text."""
        if self.name is not None:
            return self.name
        asked = ", ".join(self.group_by or ())
        if self.measure is not None:
            asked = f"{asked}: sum({self.measure})" if asked else f"sum({self.measure})"
        if self.predicate is None:
            return asked
        return f"{asked} WHERE {self.predicate}" if asked else self.predicate


@dataclass(frozen=True)
class Workload:
    """Queries in the order of their rows; `query` numbers in answers count from 1."""

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        if not self.queries:
            raise refuse(WorkloadError, "workload", "the workload has no rows", "add at least one query")
        if len(self.queries) > MAX_QUERIES:
            raise refuse(
                WorkloadError, "workload", f"the workload has {len(self.queries):,} rows, more than {MAX_QUERIES:,}",
                "use group_by rows, each of which asks many cells at once",
            )

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.queries + other.queries)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Workload:
        """From mappings of column names to values, as a workload table has them."""
        return cls(tuple(_query(number, row) for number, row in enumerate(rows, start=1)))

    @classmethod
    def from_json(cls, rows: Iterable[str]) -> Workload:
        """From rows as DuckDB's to_json writes them (NaN and Infinity bare)."""
        return cls.from_rows(json.loads(row) for row in rows)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Workload:
        return cls.from_rows(table.to_pylist())

    @classmethod
    def from_predicates(cls, predicates: Iterable[str]) -> Workload:
        return cls(tuple(Query(predicate=text) for text in predicates))

    @classmethod
    def marginals(cls, domain: Domain, k: int) -> Workload:
        """Exactly k-way marginals of all attributes whose values can be listed."""
        listed = [attribute.name for attribute in domain if attribute.cells is not None]
        _check_order("mwem_marginals", k, len(listed), "attributes with a list of values")
        return cls(tuple(Query(group_by=names) for names in itertools.combinations(listed, k)))

    @classmethod
    def ranges(cls, domain: Domain, columns: Sequence[str], count: int, seed: int | None = None) -> Workload:
        """`count` random ranges: per column two values of its domain, in order, both ends included."""
        if count < 1 or count > MAX_QUERIES:
            raise refuse(OptionError, "mwem_ranges", f"count ({count}) must be from 1 to {MAX_QUERIES:,}", "give a whole number")
        if not columns:
            raise refuse(OptionError, "mwem_ranges", "no column is named", "name one column, or several in a list")
        spelling = domain.spelling
        attributes = [domain[spelling.get(name.casefold(), name)] for name in columns]
        generator = np.random.default_rng(seed)
        drawn = [_random_ranges(attribute, count, generator) for attribute in attributes]
        return cls(tuple(Query(predicate=" AND ".join(parts)) for parts in zip(*drawn, strict=True)))

    @classmethod
    def parities(cls, domain: Domain, k: int, columns: Sequence[str] | None = None) -> Workload:
        """Parities of one to k attributes with two values each: the sum over rows of a product of +1 and -1."""
        if columns is None:
            chosen = [attribute for attribute in domain if attribute.cells == 2]
        else:
            chosen = [domain[domain.spelling.get(name.casefold(), name)] for name in columns]
        for attribute in chosen:
            if attribute.cells != 2:
                raise refuse(
                    OptionError, "mwem_parities", f"attribute {attribute.name} has {attribute.cells or 'endless'} values",
                    "a parity takes attributes of two values, NOT NULL",
                )
        _check_order("mwem_parities", k, len(chosen), "attributes with two values, NOT NULL")
        signs = {attribute.name: _sign(attribute) for attribute in chosen}
        return cls(
            tuple(
                Query(measure=" * ".join(signs[name] for name in names), name="parity of " + ", ".join(names))
                for order in range(1, k + 1)
                for names in itertools.combinations(signs, order)
            )
        )

    def to_arrow(self) -> pa.Table:
        rows = [
            {
                "predicate": query.predicate,
                "measure": query.measure,
                "group_by": None if query.group_by is None else list(query.group_by),
                "name": query.label,
                "weight": float(query.weight),
            }
            for query in self.queries
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _query(number: int, row: Mapping[str, Any]) -> Query:
    given = {name.casefold(): value for name, value in row.items()}
    unknown = [name for name in row if name.casefold() not in COLUMNS]
    if unknown:
        raise refuse(
            WorkloadError, "workload", f"column {unknown[0]} is not a column of a workload",
            f"a workload has any of {', '.join(COLUMNS)}; select just those",
        )
    for name in ("predicate", "measure", "name"):
        if given.get(name) is not None and not isinstance(given[name], str):
            raise refuse(
                WorkloadError, "workload", f"{name} ({given[name]!r}) of row {number} is not text",
                f"{name} is a VARCHAR with SQL in it",
            )
    group_by = given.get("group_by")
    if group_by is not None and not isinstance(group_by, (str, list, tuple)):
        raise refuse(
            WorkloadError, "workload", f"group_by ({group_by!r}) of row {number} is neither text nor a list of names",
            "write ['sex', 'race'] or 'sex, race'",
        )
    verbatim = not isinstance(group_by, str)
    if verbatim and group_by is not None and not all(isinstance(name, str) for name in group_by):
        raise refuse(WorkloadError, "workload", f"group_by of row {number} holds a NULL", "list column names only")
    groups = None if group_by is None else ((group_by,) if isinstance(group_by, str) else tuple(group_by))
    weight = given.get("weight")
    try:
        return Query(
            given.get("predicate"), given.get("measure"), groups, verbatim, given.get("name"),
            1.0 if weight is None else weight,
        )  # fmt: skip
    except WorkloadError as error:
        raise WorkloadError(str(error).replace("workload: a row", f"workload: row {number}", 1)) from None


def _check_order(function: str, k: int, available: int, what: str) -> None:
    if not 1 <= k <= available:
        raise refuse(
            OptionError, function, f"order ({k}) must be from 1 to {available}, the number of {what}",
            "declare more attributes or ask for a lower order",
        )


def _column(name: str) -> str:
    return exp.column(name, quoted=True).sql("duckdb")


def _random_ranges(attribute: Attribute, count: int, generator: np.random.Generator) -> list[str]:
    if attribute.values is not None:
        raise refuse(
            OptionError, "mwem_ranges", f"attribute {attribute.name} has a list of values, not bounds",
            "ranges need numbers, dates or timestamps",
        )
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    if scale.discrete:
        ends: npt.NDArray[Any] = generator.integers(int(attribute.low), int(attribute.high), (count, 2), endpoint=True)
    else:
        ends = generator.uniform(attribute.low, attribute.high, (count, 2))
    ends.sort(axis=1)
    column = _column(attribute.name)
    quote = "" if scale.family in {"integer", "decimal", "real"} else "'"
    return [
        f"{column} BETWEEN {quote}{scale.text(low)}{quote} AND {quote}{scale.text(high)}{quote}"
        for low, high in ends.tolist()
    ]


def _sign(attribute: Attribute) -> str:
    """SQL that is 1 on the first of two values and -1 on the second."""
    first = attribute.values[0] if attribute.values is not None else attribute.text(attribute.low or 0)
    literal = exp.Literal.string(first).sql("duckdb")
    return f"CASE WHEN {_column(attribute.name)} = {literal} THEN 1 ELSE -1 END"
