"""The domains of several tables, and common workloads about them: rows that say in `of` whose rows they count.

What can be asked of a table is what its level has: its own columns, those of tables above it, and how many rows of the
tables below lead to a row. Public all of it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence

from mwem_sql.accounting.subjects import check_all_served
from mwem_sql.boundary.levels import Level, read_levels
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.levels import NamedTables, domains_alone, level_domains
from mwem_sql.errors import OptionError, did_you_mean, literal, refuse, spoken_by
from mwem_sql.language.dialect import fold
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.drawing import link_of
from mwem_sql.releases.levels import check_tables
from mwem_sql.workload import Query, Workload, check_order, is_binary

_log = logging.getLogger("mwem_sql")


def levels_of(
    session: Session, tables: Sequence[str], function: str, public: NamedTables
) -> tuple[tuple[Level, ...], list[Domain]]:
    """The levels of some tables, the root first, and the domain of each, by the `public` tables that are named.

    How many rows lead to a row has no bound there: a release gives it.
    """
    inside = session.private
    with spoken_by(function), Sandbox(session.settings) as sandbox:
        check_tables(tables)
        check_all_served(session, tables, function)
        levels = read_levels(inside.cursor(), tables, inside.place)
        return levels, level_domains(levels, domains_alone(session, levels, sandbox, public), {})


def marginals(domains: Sequence[Domain], k: int) -> Workload:
    """Of each table all k-way marginals of what can be asked of it, but those of columns above alone.

    Of a table of which fewer than k can be asked, all of these together.
    """
    function = "mwem_marginals"
    check_order(
        function, k, max(len(_listed(domain)) for domain in domains), "columns that one table can be asked about"
    )
    queries = list[Query]()
    for domain in domains:
        listed = _listed(domain)
        needed = {*domain.own, *link_of(domain).below}.intersection(listed) or set(listed)
        left_out = [name for name in domain.own if name not in listed and name not in link_of(domain).columns]
        if left_out:
            _log.warning("%s: left out of the marginals of %s: %s", function, domain.table, ", ".join(left_out))
        queries += [
            Query(group_by=names, of=domain.table)
            for names in itertools.combinations(listed, min(k, len(listed)))
            if needed.intersection(names)
        ]
    return Workload(tuple(queries))


def _listed(domain: Domain) -> list[str]:
    """What can be grouped by."""
    return [name for name in domain.columns if name in link_of(domain).below or domain.lacks(name) is None]


def ranges(domains: Sequence[Domain], columns: Sequence[str], count: int, seed: int | None) -> Workload:
    """Random ranges over columns of the table nearest to the root that has them all, or sees them above it."""
    for domain in domains:
        names = [_column(domain, column) for column in columns]
        if None not in names:
            drawn = Workload.ranges(domain, [name for name in names if name is not None], count, seed)
            return Workload(tuple(_of(domain, drawn)))
    what = f"columns ({', '.join(columns)}) are not all of one of the tables, with those above it"
    raise refuse(OptionError, "mwem_ranges", what, _columns_with_a_domain(domains, columns[:1]))


def parities(domains: Sequence[Domain], k: int, columns: Sequence[str] | None) -> Workload:
    """Of each table parities of one to k attributes of two values that it has or sees above it, but those above alone.

    Of a table that has none itself, those above it. Of the `columns` that are named, each table has those that it sees.
    """
    function = "mwem_parities"
    for column in columns or ():
        if all(_column(domain, column) is None for domain in domains):
            what = f"column ({column!r}) is not a column with a domain of one of the tables"
            raise refuse(OptionError, function, what, _columns_with_a_domain(domains, [column]))
    of_tables = {
        domain.table: [each.name for each in domain if is_binary(each)]
        if columns is None
        else [name for name in (_column(domain, column) for column in columns) if name is not None]
        for domain in domains
    }
    most = max(map(len, of_tables.values()))
    check_order(function, k, most, "attributes with two values, NOT NULL, that one table can be asked about")
    queries = list[Query]()
    for domain in domains:
        names = of_tables[domain.table]
        if names:
            needed = set(domain.own).intersection(names) or set(names)
            queries += _of(domain, Workload.parities(domain, min(k, len(names)), names, needed))
    return Workload(tuple(queries))


def _of(domain: Domain, workload: Workload) -> Iterator[Query]:
    """The same rows, of a table."""
    return (query._replace(of=domain.table) for query in workload)


def _columns_with_a_domain(domains: Sequence[Domain], columns: Sequence[str]) -> str:
    """A hint: what may have been meant."""
    listed = [f"{domain.table}.{each.name}" for domain in domains for each in domain if each.name in domain.own]
    near = "".join(did_you_mean(column, listed) for column in columns)
    return f"{near}the columns with a domain are {', '.join(map(literal, listed))}"


def _column(domain: Domain, text: str) -> str | None:
    """What a table calls a column of its own or above it; None if it has none, or nothing is known of its values."""
    name = domain.spelling.get(fold(text).removeprefix(f"{fold(domain.table)}."))
    return None if name is None or domain.attribute(name) is None else name
