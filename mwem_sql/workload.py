"""Query and Workload: what an analyst asks, as text, and the builders of common workloads. Reads no private row."""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.domains.attribute import CURE, Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import DomainError, OptionError, WorkloadError, did_you_mean, literal, refuse, refuse_query
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.language.measures import is_aggregate
from mwem_sql.language.predicate import bare
from mwem_sql.platform.calls import uncollected

MAX_QUERIES = 2_000_000  # rows of a workload: more take gigabytes before anything is compiled
_log = logging.getLogger("mwem_sql")
_UNREADABLE = "a NUL or half of a surrogate pair in it"


class _Row(NamedTuple):
    predicate: str | None
    measure: str | None
    group_by: tuple[str, ...] | None
    verbatim: bool
    name: str | None
    weight: float
    always: bool
    of: str | None = None


class Query(_Row):
    """One row of a workload: `SELECT group_by, SUM(measure) FROM t WHERE predicate GROUP BY group_by`.

    `group_by` holds column names where `verbatim`, otherwise one text with SQL expressions. With `always`, it is
    measured in any case. `of` is the table whose rows are counted, in a release of several tables. Its parts are
    checked, unless `_make` makes it of parts that were.
    """

    __slots__ = ()

    def __new__(  # noqa: PLR0917, PYI034  as users write it: Query("age > 40")
        cls,
        predicate: str | None = None,
        measure: str | None = None,
        group_by: tuple[str, ...] | None = None,
        verbatim: bool = True,
        name: str | None = None,
        weight: float = 1.0,
        always: bool = False,
        of: str | None = None,
    ) -> Query:
        for part, text in (("predicate", predicate), ("measure", measure), ("name", name), ("of", of)):
            _text(part, text)
        if group_by is not None:
            _check_names(group_by)
        _check_asks((predicate, measure, group_by))
        return super().__new__(
            cls, predicate, measure, group_by, verbatim, name, _weight(weight), _always(always), of
        )  # fmt: skip

    @property
    def group_text(self) -> str | None:
        """What would follow GROUP BY."""
        if self.group_by is None:
            return None
        return ", ".join(map(quoted, self.group_by)) if self.verbatim else self.group_by[0]

    @property
    def label(self) -> str:
        """The name shown in answers: the given one, or the query's text."""
        if self.name is not None:
            return self.name
        text = ", ".join(self.group_by or ())
        if self.measure is not None:
            summed = self.measure.strip() if is_aggregate(self.measure) else f"sum({self.measure})"
            text = f"{text}: {summed}" if text else summed
        if self.predicate is None:
            return text
        return f"{text} WHERE {self.predicate}" if text else self.predicate


@dataclass(frozen=True)
class Workload:
    """Queries in the order of their rows; `query` numbers in answers count from 1."""

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        if not self.queries:
            raise refuse_query("the workload has no rows", "add at least one query")
        if len(self.queries) > MAX_QUERIES:
            raise refuse_query(
                f"the workload has {len(self.queries):,} rows, more than {MAX_QUERIES:,}",
                "use group_by rows, each of which asks many cells at once",
            )

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def __add__(self, other: Workload) -> Workload:
        return Workload(self.queries + other.queries)

    @classmethod
    @uncollected()
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Workload:
        """From mappings of column names to values, as a workload table has them."""
        listed = list(rows)
        names = tuple(listed[0]) if listed else ()
        if any(tuple(row) != names for row in listed):
            listed, names = list(map(_with_all_columns, listed)), COLUMNS
        return cls._from_columns({name: [row[name] for row in listed] for name in names}, len(listed))

    @classmethod
    def _from_columns(cls, columns: Mapping[str, Sequence[Any]], count: int) -> Workload:
        spelled = _spelled(tuple(columns))
        parts = {
            name: _each(columns[spelled[name]], read) if name in spelled else [read(None)] * count
            for name, read in _READERS.items()
        }
        lists, verbatim = [names for names, _ in parts["group_by"]], [is_list for _, is_list in parts["group_by"]]
        _each(zip(parts["predicate"], parts["measure"], lists, strict=True), _check_asks)
        rest = (parts[name] for name in ("name", "weight", "always", "of"))
        made = (parts["predicate"], parts["measure"], lists, verbatim, *rest)
        return cls(tuple(map(Query._make, zip(*made, strict=True))))

    @classmethod
    @uncollected()
    def from_json(cls, rows: Iterable[str]) -> Workload:
        """From rows as DuckDB's to_json writes them (NaN and Infinity bare)."""
        return cls.from_rows(json.loads(f"[{','.join(rows)}]"))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Workload:
        columns = {
            name: _tuples(column) if pa.types.is_list(column.type) else column.to_pylist()
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        return cls._from_columns(columns, table.num_rows)

    @classmethod
    def from_predicates(cls, predicates: Iterable[str], *, always: bool = False) -> Workload:
        """Counts; with `always`, each of them is measured in any case."""
        listed = [predicates] if isinstance(predicates, str) else predicates
        return cls.from_rows({"predicate": text, "always": always} for text in listed)

    @classmethod
    def marginals(cls, domain: Domain, k: int) -> Workload:
        """Exactly k-way marginals of all attributes whose values can be listed; a warning names the others."""
        listed = [name for name in domain.columns if domain.lacks(name) is None]
        lacking = domain.lacking()
        if not listed:
            what = f"table ({domain.table!r}) has no column that can be grouped by: {lacking}"
            raise refuse(DomainError, "mwem_marginals", what, CURE)
        what = f"attributes with a list of values{f' ({lacking})' if lacking else ''}"
        check_order("mwem_marginals", k, len(listed), what)
        if lacking:
            _log.warning("mwem_marginals: left out of the marginals of %s: %s", domain.table, lacking)
        return cls(tuple(Query(group_by=names) for names in itertools.combinations(listed, k)))

    @classmethod
    def ranges(cls, domain: Domain, columns: Sequence[str], count: int, seed: int | None = None) -> Workload:
        """`count` random ranges: per column two values of its domain, in order, both ends included."""
        if not isinstance(count, int) or not 1 <= count <= MAX_QUERIES:
            raise refuse(
                OptionError, "mwem_ranges", f"count ({count}) must be from 1 to {MAX_QUERIES:,}", "give a whole number"
            )
        if not columns:
            raise refuse(OptionError, "mwem_ranges", "no column is named", "name one column, or several in a list")
        attributes = _named(domain, columns, "mwem_ranges")
        if seed is not None and (not isinstance(seed, int) or seed < 0):
            raise refuse(
                OptionError,
                "mwem_ranges",
                f"seed ({seed!r}) must be a whole number, not negative",
                "leave it out for other ranges every time",
            )
        generator = np.random.default_rng(seed)
        drawn = [_random_ranges(attribute, count, generator) for attribute in attributes]
        return cls(tuple(Query(predicate=" AND ".join(parts)) for parts in zip(*drawn, strict=True)))

    @classmethod
    def parities(
        cls, domain: Domain, k: int, columns: Sequence[str] | None = None, needed: Container[str] | None = None
    ) -> Workload:
        """Parities of one to k attributes with two values each: the sum over rows of a product of +1 and -1.

        With at least one of those that are `needed`, if some are.
        """
        chosen = list(filter(is_binary, domain)) if columns is None else _named(domain, columns, "mwem_parities")
        for attribute in chosen:
            if not is_binary(attribute):
                raise refuse(
                    OptionError,
                    "mwem_parities",
                    f"attribute {attribute.name} has {attribute.cells or 'endless'} values or bins",
                    "a parity takes attributes of two values, NOT NULL",
                )
        check_order("mwem_parities", k, len(chosen), "attributes with two values, NOT NULL")
        signs = {attribute.name: _sign(attribute) for attribute in chosen}
        return cls(
            tuple(
                Query(measure=" * ".join(signs[name] for name in names), name="parity of " + ", ".join(names))
                for order in range(1, k + 1)
                for names in itertools.combinations(signs, order)
                if needed is None or any(name in needed for name in names)
            )
        )

    def to_json(self) -> list[str]:
        """The rows as `from_json` reads them."""
        return [
            json.dumps(
                {column: getattr(query, column) for column in COLUMNS}
                | ({} if query.verbatim else {"group_by": query.group_text})
            )
            for query in self.queries
        ]

    def to_arrow(self) -> pa.Table:
        """The rows of a workload table; every query has a name.

        `group_by` is text in all rows if it is in one; `always` and `of` are columns if some row has them.
        """
        verbatim = all(query.verbatim for query in self.queries)
        groups = [query.group_by if verbatim else query.group_text for query in self.queries]
        columns = {
            "predicate": pa.array([query.predicate for query in self.queries], pa.string()),
            "measure": pa.array([query.measure for query in self.queries], pa.string()),
            "group_by": pa.array(groups, pa.list_(pa.string()) if verbatim else pa.string()),
            "name": pa.array([query.label for query in self.queries], pa.string()),
            "weight": pa.array([float(query.weight) for query in self.queries], pa.float64()),
        }
        if any(query.always for query in self.queries):
            columns["always"] = pa.array([bool(query.always) for query in self.queries])
        if any(query.of is not None for query in self.queries):
            columns["of"] = pa.array([query.of for query in self.queries], pa.string())
        return pa.table(columns)


def _text(part: str, text: Any) -> str | None:
    if text is not None and not isinstance(text, str):
        raise refuse_query(f"{part} ({text!r}) of a row is not text", f"{part} is a VARCHAR")
    if text is not None and not _is_readable(text):
        raise refuse_query(f"{part} ({text[:80]!r}) of a row has {_UNREADABLE}", "write characters only")
    return text


def _predicate(text: Any) -> str | None:
    checked = _text("predicate", text)
    return None if checked is None else bare(checked)


def _group(given: Any) -> tuple[tuple[str, ...] | None, bool]:
    """The names of a group_by, or its one text; and whether it is a list of names."""
    if given is not None and not isinstance(given, (str, list, tuple)):
        raise refuse_query(
            f"a row has a group_by ({given!r}) that is neither text nor a list of names",
            "write ['sex', 'race'] or 'sex, race'",
        )
    listed = read_list(given) if isinstance(given, str) else given
    names = (given,) if isinstance(given, str) and not listed else None if listed is None else tuple(listed)
    if names is not None:
        _check_names(names)
    return names, listed is not None or given is None


def _check_names(names: tuple[Any, ...]) -> None:
    if not names:
        raise refuse_query("a row has an empty group_by list", "name columns, or leave it NULL")
    for name in names:
        if not isinstance(name, str):
            raise refuse_query(
                f"a row has a group_by list ({list(names)!r}) with something other than names in it",
                "list column names only",
            )
        if not _is_readable(name):
            raise refuse_query(f"a row has a group_by ({list(names)!r}) with {_UNREADABLE}", "write characters only")


def _check_asks(parts: tuple[str | None, str | None, tuple[str, ...] | None]) -> None:
    """A row asks something by its predicate, its measure or its group_by."""
    if parts == (None, None, None):
        raise refuse_query(
            "a row has a NULL predicate and no group_by, so it asks nothing",
            "write a predicate ('true' counts all rows) or a group_by",
        )


def _weight(weight: Any) -> float:
    if not isinstance(weight, (float, Real, Decimal)) or not 0 < float(weight) < math.inf:
        raise refuse_query(
            f"a row has the weight {weight!r}, which must be a positive finite number", "leave it NULL for 1"
        )
    return float(weight)


def _always(flag: Any) -> bool:
    if not isinstance(flag, (bool, np.bool_)):
        raise refuse_query(
            f"a row has always ({flag!r}), which must be true or false", "always is a BOOLEAN; NULL is false"
        )
    return bool(flag)


def _is_readable(text: str) -> bool:
    """Whether DuckDB can be handed the text."""
    return "\0" not in text and (text.isascii() or not re.search("[\ud800-\udfff]", text))


_READERS: dict[str, Callable[[Any], Any]] = {
    "predicate": _predicate,
    "measure": partial(_text, "measure"),
    "group_by": _group,
    "name": partial(_text, "name"),
    "weight": lambda weight: 1.0 if weight is None else _weight(weight),
    "always": lambda flag: False if flag is None else _always(flag),
    "of": partial(_text, "of"),
}
COLUMNS = tuple(_READERS)


def _each(column: Iterable[Any], read: Callable[[Any], Any]) -> list[Any]:
    """What is read of each value of a column; a refusal names the row."""
    out: list[Any] = []
    try:
        for value in column:
            out.append(read(value))  # noqa: PERF401  the row of a refusal is how many there are
    except WorkloadError as error:
        raise WorkloadError(str(error).replace("a row", f"row {len(out) + 1}", 1)) from None
    return out


def check_of(workload: Workload, table: str, output: str) -> None:
    """Refuse a row that counts rows of another table than those that are asked about."""
    for number, query in enumerate(workload, start=1):
        if query.of is not None and fold(query.of) != fold(table):
            what = f"row {number} of the workload counts rows of {query.of!r}, and {output} has those of {table}"
            hint = f"CREATE TABLE questions AS FROM workload WHERE of = {literal(table)}, and ask these"
            raise refuse_query(what, hint)


def read_list(text: str) -> list[str] | None:
    """The items of a list as DuckDB prints it into a VARCHAR: [sex, 'my age']; None of other texts."""
    item = r"'(?:[^'\\]|\\.)*'|[^\s'\[\],][^'\[\],]*"
    text = text.strip()
    if not re.fullmatch(rf"\[(?:{item})(?:, (?:{item}))*\]", text, re.DOTALL):
        return None
    return [
        re.sub(r"\\(.)", r"\1", printed[1:-1], flags=re.DOTALL) if printed[0] == "'" else printed.rstrip()
        for printed in re.findall(item, text[1:-1], re.DOTALL)
    ]


def _tuples(column: pa.ChunkedArray) -> list[tuple[Any, ...] | None]:
    """The lists of a column."""
    out: list[tuple[Any, ...] | None] = []
    for chunk in column.chunks:
        values, ends = chunk.values.to_pylist(), chunk.offsets.to_pylist()
        lists = [tuple(values[begin:end]) for begin, end in itertools.pairwise(ends)]
        is_valid = chunk.is_valid().to_pylist()
        out += [names if is_list else None for names, is_list in zip(lists, is_valid, strict=True)]
    return out


def _with_all_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    spelled = _spelled(tuple(row))
    return {name: row.get(spelled.get(name, name)) for name in COLUMNS}


@lru_cache(maxsize=100)
def _spelled(names: tuple[str, ...]) -> dict[str, str]:
    """How a row's columns, which have the same names in all rows, are spelled in it."""
    for name in names:
        if fold(name) not in COLUMNS:
            near = did_you_mean(name, COLUMNS, shown=str)
            raise refuse_query(
                f"column {name} is not a column of a workload",
                f"{near}a workload has any of {', '.join(COLUMNS)}; select just those",
            )
    return {fold(name): name for name in names}


def check_order(function: str, k: int, available: int, what: str) -> None:
    """Refuse an order of marginals or parities that no set of columns has."""
    if not isinstance(k, int) or not 1 <= k <= available:
        raise refuse(
            OptionError,
            function,
            f"order ({k!r}) must be from 1 to {available}, the number of {what}",
            "declare more attributes (mwem_suggest_domain prints how), or ask for a lower order",
        )


def _named(domain: Domain, columns: Sequence[str], function: str) -> list[Attribute]:
    """The attributes of some columns, each of them once."""
    names = [domain.spelling.get(fold(name), name) for name in columns]
    for name in names:
        if name not in domain.columns or names.count(name) > 1:
            what = "named twice" if name in domain.columns else f"not a column of {domain.table}"
            near = "" if name in domain.columns else did_you_mean(name, domain.columns)
            listed = f"{near}the columns are {', '.join(map(literal, domain.columns))}"
            raise refuse(OptionError, function, f"column ({name!r}) is {what}", listed)
    return [domain[name] for name in names]


def is_binary(attribute: Attribute) -> bool:
    """Whether a parity may have an attribute: it has two values and nothing else."""
    return attribute.cells == 2 and not attribute.has_bins


def _random_ranges(attribute: Attribute, count: int, generator: np.random.Generator) -> list[str]:
    """So many predicates: two values of the domain each, in order, both ends included."""
    if attribute.values is not None:
        raise refuse(
            OptionError,
            "mwem_ranges",
            f"attribute {attribute.name} has a list of values, not bounds",
            "ranges need numbers, dates or timestamps",
        )
    assert attribute.low is not None and attribute.high is not None
    scale = attribute.ordered
    if scale.discrete:
        ends: npt.NDArray[Any] = generator.integers(int(attribute.low), int(attribute.high), (count, 2), endpoint=True)
    else:
        ends = generator.uniform(attribute.low, attribute.high, (count, 2))
    ends.sort(axis=1)
    column = quoted(attribute.name)
    quote = "" if scale.family in {"integer", "decimal", "real"} else "'"
    return [
        f"{column} BETWEEN {quote}{scale.text(low)}{quote} AND {quote}{scale.text(high)}{quote}"
        for low, high in ends.tolist()
    ]


def _sign(attribute: Attribute) -> str:
    """SQL that is 1 on the first of two values and -1 on the second."""
    first = attribute.values[0] if attribute.values is not None else attribute.text(attribute.low or 0)
    literal = exp.Literal.string(first).sql("duckdb")
    return f"CASE WHEN {quoted(attribute.name)} = {literal} THEN 1 ELSE -1 END"
