"""Lists of group_by with SQL expressions in them, so that `['sex', 'floor(age / 10)']` goes into the column that has the marginals' names.

An item that is a column's name is that column, whatever it looks like; any other is an expression. Owns which is which.
"""

from __future__ import annotations

import re

from mwem_sql.domains.domain import Domain
from mwem_sql.errors import PredicateError, WorkloadError, did_you_mean, literal, refuse
from mwem_sql.language import predicate
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.workload import Query, Workload

_OPERATOR = re.compile(r"[^\w\s]")  # what has none was meant as a name


def spelled_out(domain: Domain, workload: Workload) -> Workload:
    """The same workload; lists that have more than names in them are SQL text."""
    names = {name for query in workload if query.group_by is not None and query.verbatim for name in query.group_by}
    if all(fold(name) in domain.spelling for name in names):
        return workload
    return Workload(tuple(query if _is_names(domain, query) else _as_text(domain, query) for query in workload.queries))


def _is_names(domain: Domain, query: Query) -> bool:
    return query.group_by is None or not query.verbatim or all(fold(name) in domain.spelling for name in query.group_by)


def _as_text(domain: Domain, query: Query) -> Query:
    texts = [_item(domain, item) for item in query.group_by or ()]
    return query._replace(group_by=(", ".join(texts),), verbatim=False, name=query.label)


def _item(domain: Domain, item: str) -> str:
    if fold(item) in domain.spelling:
        return quoted(domain.spelling[fold(item)])
    try:
        predicate.parse(item, domain.spelling, "group_by", domain.table)
    except WorkloadError:
        if _OPERATOR.search(item):
            raise
        raise _unknown(domain, item) from None
    return f"({item}\n)"  # a newline ends a comment that it may close with


def _unknown(domain: Domain, item: str) -> WorkloadError:
    listed = ", ".join(map(literal, domain.columns))
    error = refuse(
        PredicateError,
        "workload",
        f"group_by names the unknown column {item!r}",
        f"{did_you_mean(item, domain.columns)}{domain.table} has the columns {listed}; an SQL expression over them may be an item, too",
    )
    assert isinstance(error, PredicateError)
    error.reader, error.column = "group_by", item
    return error
