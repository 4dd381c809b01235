"""Query and Workload: what an analyst asks, as text, and the builders of common workloads. Reads no private row."""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mwem_sql.domains.attribute import CURE, Attribute
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.texts import is_binary, random_ranges, sign
from mwem_sql.errors import DomainError, OptionError, WorkloadError, did_you_mean, literal, refuse, refuse_query
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.language.lists import read_list
from mwem_sql.language.measures import is_aggregate
from mwem_sql.language.predicate import bare
from mwem_sql.platform.calls import uncollected

COLUMNS = ("predicate", "measure", "group_by", "name", "weight", "always")
MAX_QUERIES = 2_000_000  # rows of a workload: more take gigabytes before anything is compiled
_log = logging.getLogger("mwem_sql")
_HALF = re.compile("[\ud800-\udfff]")
_UNREADABLE = "a NUL or half of a surrogate pair in it"


class _Row(NamedTuple):
    predicate: str | None
    measure: str | None
    group_by: tuple[str, ...] | None
    verbatim: bool
    name: str | None
    weight: float
    always: bool


class Query(_Row):
    """One row of a workload: `SELECT group_by, SUM(measure) FROM t WHERE predicate GROUP BY group_by`.

    `group_by` holds column names where `verbatim`, otherwise one text with SQL expressions. What is asked for `always` is measured in any case.
    Its parts are checked, unless `_make` makes it of parts that were.
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
    ) -> Query:
        query = super().__new__(cls, predicate, measure, group_by, verbatim, name, weight, always)
        query._check()
        return query

    def _check(self) -> None:
        for part in ("predicate", "measure", "name"):
            value = getattr(self, part)
            if value is not None and not isinstance(value, str):
                raise refuse_query(f"{part} ({value!r}) of a row is not text", f"{part} is a VARCHAR")
            if value is not None and not _is_readable(value):
                raise refuse_query(f"{part} ({value[:80]!r}) of a row has {_UNREADABLE}", "write characters only")
        if self.group_by is not None:
            self._check_group_by(self.group_by)
        elif self.predicate is None and self.measure is None:
            raise refuse_query(
                "a row has a NULL predicate and no group_by, so it asks nothing",
                "write a predicate ('true' counts all rows) or a group_by",
            )
        if not (isinstance(self.weight, (float, Real)) and 0 < self.weight < math.inf):
            raise refuse_query(
                f"a row has the weight {self.weight!r}, which must be a positive finite number", "leave it NULL for 1"
            )
        if not isinstance(self.always, (bool, np.bool_)):
            raise refuse_query(
                f"a row has always ({self.always!r}), which must be true or false", "always is a BOOLEAN; NULL is false"
            )

    def _check_group_by(self, names: tuple[str, ...]) -> None:
        if not names:
            raise refuse_query("a row has an empty group_by list", "name columns, or leave it NULL")
        for name in names:
            if not isinstance(name, str):
                raise refuse_query(
                    f"a row has a group_by list ({list(names)!r}) with something other than names in it",
                    "list column names only",
                )
            if not _is_readable(name):
                raise refuse_query(
                    f"a row has a group_by ({list(names)!r}) with {_UNREADABLE}",
                    "write characters only",
                )

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
        asked = ", ".join(self.group_by or ())
        if self.measure is not None:
            summed = self.measure.strip() if is_aggregate(self.measure) else f"sum({self.measure})"
            asked = f"{asked}: {summed}" if asked else summed
        if self.predicate is None:
            return asked
        return f"{asked} WHERE {self.predicate}" if asked else self.predicate


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
        if all(tuple(row) == names for row in listed):
            return cls._from_columns({name: [row[name] for row in listed] for name in names}, len(listed))
        return cls(tuple(_query(number, row) for number, row in enumerate(listed, start=1)))

    @classmethod
    def _from_columns(cls, columns: Mapping[str, Sequence[Any]], count: int) -> Workload:
        """Rows are checked by their distinct values; one by one only if something is wrong, to say in which row."""
        checked = _checked(columns, count)
        if checked is None:
            rows = ({name: values[row] for name, values in columns.items()} for row in range(count))
            return cls(tuple(_query(number, row) for number, row in enumerate(rows, start=1)))
        return cls(tuple(map(Query._make, zip(*checked, strict=True))))

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
        if len(columns) < table.num_columns:  # two columns of one name
            return cls.from_rows(table.to_pylist())
        return cls._from_columns(columns, table.num_rows)

    @classmethod
    def from_predicates(cls, predicates: Iterable[str], *, always: bool = False) -> Workload:
        """Counts; with `always`, each of them is measured in any case."""
        listed = [predicates] if isinstance(predicates, str) else predicates
        return cls.from_rows({"predicate": text, "always": always} for text in listed)

    @classmethod
    def marginals(cls, domain: Domain, k: int) -> Workload:
        """Exactly k-way marginals of all attributes whose values can be listed; a warning in the log names the others."""
        listed = [name for name in domain.columns if domain.lacks(name) is None]
        lacking = domain.lacking()
        if not listed:
            what = f"table ({domain.table!r}) has no column that can be grouped by: {lacking}"
            raise refuse(DomainError, "mwem_marginals", what, CURE)
        what = f"attributes with a list of values{f' ({lacking})' if lacking else ''}"
        _check_order("mwem_marginals", k, len(listed), what)
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
        drawn = [random_ranges(attribute, count, generator) for attribute in attributes]
        return cls(tuple(Query(predicate=" AND ".join(parts)) for parts in zip(*drawn, strict=True)))

    @classmethod
    def parities(cls, domain: Domain, k: int, columns: Sequence[str] | None = None) -> Workload:
        """Parities of one to k attributes with two values each: the sum over rows of a product of +1 and -1."""
        chosen = list(filter(is_binary, domain)) if columns is None else _named(domain, columns, "mwem_parities")
        for attribute in chosen:
            if not is_binary(attribute):
                raise refuse(
                    OptionError,
                    "mwem_parities",
                    f"attribute {attribute.name} has {attribute.cells or 'endless'} values or bins",
                    "a parity takes attributes of two values, NOT NULL",
                )
        _check_order("mwem_parities", k, len(chosen), "attributes with two values, NOT NULL")
        signs = {attribute.name: sign(attribute) for attribute in chosen}
        return cls(
            tuple(
                Query(measure=" * ".join(signs[name] for name in names), name="parity of " + ", ".join(names))
                for order in range(1, k + 1)
                for names in itertools.combinations(signs, order)
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
        """The rows of a workload table; every query has a name. `group_by` is text in all rows if it is in one; `always` is a column if it is asked for."""
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
        return pa.table(columns)


def _is_readable(text: str) -> bool:
    """Whether DuckDB can be handed the text."""
    return "\0" not in text and (text.isascii() or not _HALF.search(text))


def _tuples(column: pa.ChunkedArray) -> list[tuple[Any, ...] | None]:
    """The lists of a column."""
    out: list[tuple[Any, ...] | None] = []
    for chunk in column.chunks:
        values, ends = chunk.values.to_pylist(), chunk.offsets.to_pylist()
        lists = [tuple(values[begin:end]) for begin, end in itertools.pairwise(ends)]
        out += [own if is_list else None for own, is_list in zip(lists, chunk.is_valid().to_pylist(), strict=True)]
    return out


def _checked(columns: Mapping[str, Sequence[Any]], count: int) -> tuple[Sequence[Any], ...] | None:
    """The columns of queries from those of a workload table; None if a row has to be refused."""
    spelled = _spelled(tuple(columns))
    given = {name: columns[spelled[name]] if name in spelled else [None] * count for name in COLUMNS}
    try:
        groups = _groups(given["group_by"])
        weights = _distinct(given["weight"], lambda weight: Query("true", weight=_weight(weight)).weight)
        always = _distinct(given["always"], lambda flag: Query("true", always=False if flag is None else flag).always)
    except (TypeError, WorkloadError):
        return None
    texts = [given[name] for name in ("predicate", "measure", "name")]
    names = [name for listed, _ in groups for name in listed or ()]
    if not all(map(_are_texts, texts)) or not _are_texts(names) or None in names or ((), True) in groups:
        return None
    predicates = _distinct(texts[0], lambda text: None if text is None else bare(text))
    if (None, None, (None, True)) in zip(predicates, texts[1], groups, strict=True):
        return None
    lists, verbatim = [listed for listed, _ in groups], [is_list for _, is_list in groups]
    return predicates, texts[1], lists, verbatim, texts[2], weights, always


def _are_texts(column: Sequence[Any]) -> bool:
    """Whether all of it is readable text, or None."""
    return set(map(type, column)) <= {str, type(None)} and _is_readable("".join(filter(None, column)))


def _groups(column: Sequence[Any]) -> list[tuple[tuple[Any, ...] | None, bool]]:
    """Of each group_by its names, or its one text; and whether it is a list of names."""
    kinds = set(map(type, column))
    if not kinds <= {str, list, tuple, type(None)}:
        raise TypeError("a group_by is text, or a list of names")
    return [_group(value) for value in column]


def _group(given: str | Sequence[Any] | None) -> tuple[tuple[Any, ...] | None, bool]:
    listed = read_list(given) if isinstance(given, str) else given
    if isinstance(given, str) and not listed:
        return (given,), False
    return None if listed is None else tuple(listed), True


def _distinct(values: Sequence[Any], made: Callable[[Any], Any]) -> list[Any]:
    """What is made of each value, once for equal ones."""
    results = {key: made(key[1]) for key in {(type(value), value): None for value in values}}
    return [results[type(value), value] for value in values]


def _weight(weight: Any) -> Any:
    return 1.0 if weight is None else float(weight) if isinstance(weight, Decimal) else weight


def _query(number: int, row: Mapping[str, Any]) -> Query:
    spelled = _spelled(tuple(row))
    written, measure, group_by, name, weight, always = (row.get(spelled.get(column, column)) for column in COLUMNS)
    text = bare(written) if isinstance(written, str) else written
    if group_by is not None and not isinstance(group_by, (str, list, tuple)):
        raise refuse_query(
            f"row {number} has a group_by ({group_by!r}) that is neither text nor a list of names",
            "write ['sex', 'race'] or 'sex, race'",
        )
    listed, is_list = _group(group_by)
    try:
        return Query(
            text, measure, listed, is_list, name, _weight(weight), False if always is None else always
        )  # fmt: skip
    except WorkloadError as error:
        raise WorkloadError(str(error).replace("a row", f"row {number}", 1)) from None


@lru_cache(maxsize=100)
def _spelled(names: tuple[str, ...]) -> dict[str, str]:
    """How a row's columns, which have the same names in all rows, are spelled in it."""
    for name in names:
        if fold(name) not in COLUMNS:
            raise refuse_query(
                f"column {name} is not a column of a workload",
                f"{did_you_mean(name, COLUMNS, shown=str)}a workload has any of {', '.join(COLUMNS)}; select just those",
            )
    return {fold(name): name for name in names}


def _check_order(function: str, k: int, available: int, what: str) -> None:
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
