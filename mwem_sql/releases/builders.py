"""The domains of several tables, and common workloads about them: rows that say in `of` whose rows they count.

What can be asked of a table is what its level has: its own columns, those of tables above it, and how many rows of the
tables below lead to a row. Public all of it.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

from mwem_sql.accounting.subjects import check_all_served
from mwem_sql.boundary.levels import Level, read_levels
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.levels import domains_alone, level_domains
from mwem_sql.errors import OptionError, did_you_mean, literal, refuse, spoken_by
from mwem_sql.language.dialect import fold
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.drawing import link_of
from mwem_sql.releases.levels import check_tables
from mwem_sql.workload import Query, Workload, check_order

_log = logging.getLogger("mwem_sql")


def levels_of(session: Session, tables: Sequence[str], function: str) -> tuple[tuple[Level, ...], list[Domain]]:
    """The levels of some tables, the root first, and the domain of each.

    How many rows lead to a row has no bound there: a release gives it.
    """
    inside = session.private
    with spoken_by(function), Sandbox(session.settings) as sandbox:
        check_tables(tables)
        check_all_served(session, tables, function)
        levels = read_levels(inside.cursor(), tables, inside.place)
        return levels, level_domains(levels, domains_alone(session, levels, sandbox), {})


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
            return Workload(tuple(query._replace(of=domain.table) for query in drawn))
    listed = [f"{domain.table}.{each.name}" for domain in domains for each in domain if each.name in domain.own]
    near = "".join(did_you_mean(column, listed) for column in columns[:1])
    what = f"columns ({', '.join(columns)}) are not all of one of the tables, with those above it"
    hint = f"{near}the columns with a domain are {', '.join(map(literal, listed))}"
    raise refuse(OptionError, "mwem_ranges", what, hint)


def _column(domain: Domain, text: str) -> str | None:
    """What a table calls a column of its own or above it; None if it has none, or nothing is known of its values."""
    name = domain.spelling.get(fold(text).removeprefix(f"{fold(domain.table)}."))
    return None if name is None or domain.attribute(name) is None else name
