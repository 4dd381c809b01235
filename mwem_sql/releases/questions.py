"""Questions: the rows of a workload by the table whose rows they count, and what a table makes its parent be asked.

What a level asks of columns above it is asked of its parent, too, and how many rows lead there: rows are drawn from the
parent's answer. Public all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from sqlglot import exp

from mwem_sql.boundary import levels as tables
from mwem_sql.boundary.levels import Level, column_above
from mwem_sql.compile.read import columns_read, read_workload
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import RELEASE, PredicateError, WorkloadError, did_you_mean, literal, refuse
from mwem_sql.language import conditions, dialect
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.workload import Query, Workload

MOST_CUTS: Final = 200
"""Expressions over columns above that a parent is asked about one by one. Of more, it is asked for the columns."""

NUMBER_WEIGHT: Final = 0.5
"""How important it is how many rows lead to a row, where nobody asks. More: numbers are known better, all else worse:
`python benchmarks/linked.py --works households`."""


def columns_above(levels: Sequence[Level], place: int) -> dict[str, tuple[int, str]]:
    """The columns of the tables above, as a level calls them: the place of their table, and what it calls them."""
    return {
        column_above(levels[other], column.name): (other, column.name)
        for other in tables.above(levels, place)
        for column in levels[other].table.columns
    }


def by_level(levels: Sequence[Level], domains: Sequence[Domain], workload: Workload) -> list[list[Query]]:
    """The rows of a workload by the table whose rows they count."""
    out: list[list[Query]] = [[] for _ in levels]
    names = {fold(level.name): place for place, level in enumerate(levels)}
    for number, query in enumerate(workload, start=1):
        if query.of is None:
            place = _table_of(levels, domains, query, number)
        elif fold(query.of) in names:
            place = names[fold(query.of)]
        else:
            what = f"row {number} of the workload is of {query.of!r}, which is not a table of this call"
            listed = [level.name for level in levels]
            raise refuse(
                WorkloadError, RELEASE, what, f"{did_you_mean(query.of, listed)}of is one of {', '.join(listed)}"
            )
        out[place].append(query)
    for place, level in enumerate(levels):
        _check_keys(levels, place, domains[place], out[place])
        if place and not out[place]:
            what = f"no row of the workload is about rows of {level.name}"
            hint = f"add one, with of := {literal(level.name)}; or leave the table out"
            raise refuse(WorkloadError, RELEASE, what, hint)
    return out


def _table_of(levels: Sequence[Level], domains: Sequence[Domain], query: Query, number: int) -> int:
    """The table that has all columns of a row without `of`, or sees them above it, the nearest to the root."""
    fitting, refused = [], None
    for place, domain in enumerate(domains):
        try:
            read_workload(domain, Workload((query._replace(of=None),)))
        except PredicateError as error:
            refused = refused or error
        else:
            fitting.append(place)
    first = next(
        (place for place in fitting if all(place == k or place in tables.above(levels, k) for k in fitting)), None
    )
    if first is not None:
        return first
    if not fitting and refused is not None:
        raise refused
    among = " or of ".join(levels[place].name for place in fitting)
    what = f"row {number} of the workload ({query.label!r}) may count rows of {among}"
    raise refuse(WorkloadError, RELEASE, what, f"say which: of := {literal(levels[fitting[0]].name)}")


def _check_keys(levels: Sequence[Level], place: int, domain: Domain, queries: Sequence[Query]) -> None:
    """Keys are numbers that mean nothing: nobody can ask about them."""
    if not queries:
        return
    keys = dict.fromkeys(levels[place].joining, levels[place].name)
    for other in map(levels.__getitem__, tables.above(levels, place)):
        keys |= {column_above(other, key): other.name for key in other.joining}
    read = columns_read(domain, plain(queries))
    key = next((name for name in keys if name in read), None)
    if key is not None:
        what = f"the workload asks about {key} of {keys[key]}, which is a key: synthetic rows have new numbers there"
        raise refuse(WorkloadError, RELEASE, what, "ask about other columns, or about how many rows lead to a row")


def read_of(levels: Sequence[Level], domains: Sequence[Domain], questions: Sequence[Sequence[Query]]) -> list[set[str]]:
    """The columns of each table that are asked about, by rows of its own or below it."""
    out: list[set[str]] = [set() for _ in levels]
    for place, (domain, queries) in enumerate(zip(domains, questions, strict=True)):
        above = columns_above(levels, place)
        for name in columns_read(domain, plain(queries)) if queries else ():
            other, column = above.get(name, (place, name))
            out[other].add(column)
    return out


def plain(queries: Sequence[Query]) -> Workload:
    return Workload(tuple(query._replace(of=None) for query in queries))


def of_parent(
    levels: Sequence[Level],
    place: int,
    domains: Sequence[Domain],
    queries: Sequence[Query],
    there: Sequence[Query],
) -> Iterator[Query]:
    """What the rows of a level make its parent be asked: how many rows lead to a row, and each column above, alone.

    Of a column, all that some row of the workload tells apart. How numbers depend on columns is not asked for: what the
    level measures says it (model/children.py), with less noise.
    """
    parent = levels[place].parent
    assert parent is not None
    domain, above, number = domains[parent], columns_above(levels, place), levels[place].name
    cuts: dict[str, dict[str, None]] = {name: {} for name in above}
    for parts in read_workload(domains[place], plain(queries)).parts:
        for leaf in chain.from_iterable(conditions.leaves(part.what) for part in parts):
            for name in above.keys() & set(leaf.columns):
                alone = leaf.sql if set(leaf.columns) == {name} else quoted(name)
                cuts[name][_renamed(alone, above, parent)] = None
    taken = {query.label for query in there}

    def asked(items: Sequence[str], name: str, weight: float = 1.0) -> Query:
        label = name if name not in taken else f"{name} (for {number})"
        return Query(group_by=(", ".join(items),), verbatim=False, name=label, weight=weight)

    yield asked([quoted(number)], number, NUMBER_WEIGHT)
    for name, cut in cuts.items():
        shown = _shown(above[name], name, parent)
        items = [item for item in (cut if len(cut) <= MOST_CUTS else [quoted(shown)]) if not _lacks(domain, item)]
        if items:
            yield asked(items, shown)


def _shown(where: tuple[int, str], name: str, parent: int) -> str:
    """What a column above a level is called in its parent."""
    place, column = where
    return column if place == parent else name


def _renamed(text: str, above: Mapping[str, tuple[int, str]], parent: int) -> str:
    """An expression over columns above a level as its parent has it."""

    def rename(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in above:
            return exp.column(_shown(above[node.name], node.name, parent), quoted=True)
        return node

    return dialect.sql(dialect.expression(f"SELECT {text}").expressions[0].transform(rename))


def _lacks(domain: Domain, item: str) -> bool:
    """Whether an item is a column whose values cannot be listed."""
    tree = dialect.expression(f"SELECT {item}").expressions[0]
    return isinstance(tree, exp.Column) and domain.lacks(tree.name) is not None
