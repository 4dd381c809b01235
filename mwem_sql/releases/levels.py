"""The levels of a release of several tables: what each is asked, its domain, its share of the budget, and its plan.

A level is a release that could be made alone: a row for each row of a table, with the columns of the tables above it,
and for each table below how many rows lead to it. What a level asks of columns above it is asked of its parent, too,
together with how many rows lead there: rows are drawn from the parent's answer. Public all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, Final

import duckdb
from sqlglot import exp

from mwem_sql.accounting.accounts import TableCarrier
from mwem_sql.accounting.caps import protected
from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.boundary import levels as tables
from mwem_sql.boundary import relations
from mwem_sql.boundary.levels import NUMBER_TYPE, Level, column_above, level_rows, read_levels, unit_column
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.compile.read import read_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.domain import Domain, Link, read_domain
from mwem_sql.errors import (
    RELEASE,
    BudgetError,
    CellsError,
    DomainError,
    OptionError,
    PredicateError,
    WorkloadError,
    did_you_mean,
    literal,
    refuse,
)  # fmt: skip
from mwem_sql.language import conditions, dialect
from mwem_sql.language.dialect import fold, quoted
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.metadata import key
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.draft import check_possible, draft_of
from mwem_sql.releases.plan import Plan, Subject, check_room, plan_level
from mwem_sql.releases.request import OPTIONS, Request, read_number
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.workload import Query, Workload

MOST_CUTS: Final = 200
"""Expressions over columns above that a parent is asked about one by one. Of more, it is asked for the columns."""
COMMON: Final = frozenset(
    {"delta", "unit", "rows_per_unit", "max_cells", "certify", "version", "seed"}
)  # of OPTIONS, those that a release of several tables has
MOST_TABLES: Final = 100


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """A checked request for several tables. `first` has what is common to all; its table is the first that was named.

    `rows_per_unit` is the most rows of one unit that are used of each table, or by the folded name of a table.
    """

    tables: tuple[str, ...]
    first: Request
    unit: str | None
    rows_per_unit: int | Mapping[str, int]

    @classmethod
    def parse(
        cls, named: Sequence[object], workload: Workload, epsilon: object, options: Mapping[str, Any]
    ) -> TablesRequest:
        """Read the options of a call; a NULL is the default."""
        if not 2 <= len(named) <= MOST_TABLES or not all(isinstance(each, str) and each.strip() for each in named):
            what = f"tables ({named!r}) must be a list of 2 to {MOST_TABLES} names of tables"
            raise refuse(OptionError, RELEASE, what, "write ['person', 'visit']; or 'person' for one table")
        given = {name: value for name, value in options.items() if value is not None}
        for name, value in given.items():
            if name in OPTIONS and name not in COMMON and value != OPTIONS[name]:
                what = f"option {name} ({value!r}) is for a release of one table"
                raise refuse(OptionError, RELEASE, what, f"leave {name} out, or release each table alone")
        unit, most = given.pop("unit", None), given.pop("rows_per_unit", None)
        if most is None:
            raise refuse(
                OptionError,
                RELEASE,
                "rows_per_unit must say how many rows of one unit are used of each table below the first",
                "give rows_per_unit := 20, or by table, rows_per_unit := {visit: 20}: as many as most units have; rows"
                " beyond are left out, and noise grows with it",
            )
        common = {name: value for name, value in given.items() if name in COMMON or name not in OPTIONS}
        first = Request.parse(named[0], workload, epsilon, common)
        return cls(tables=tuple(map(str, named)), first=first, unit=unit, rows_per_unit=_rows_per_unit(most))

    def of(self, text: str) -> Request:
        """The same of one table."""
        return replace(self.first, table=text)


def _rows_per_unit(given: object) -> int | dict[str, int]:
    if isinstance(given, Mapping):
        return {fold(str(name)): _count(f"rows_per_unit of {name}", most) for name, most in given.items()}
    return _count("rows_per_unit", given)


def _count(name: str, value: object) -> int:
    number = read_number(value)
    if number is None or not 1 <= number <= 10**6 or number % 1:
        what = f"{name} ({value!r}) must be a whole number from 1 to 1,000,000"
        raise refuse(OptionError, RELEASE, what, "give a number, or one for each table: {visit: 20}")
    return int(number)


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelPlan:
    """What would run for one table: its place among the others, the request that it is, and the plan."""

    level: Level
    request: Request
    plan: Plan


@dataclass(frozen=True, eq=False, kw_only=True)
class TreePlan:
    """What would run for several tables, the root first and each after its parent. Public all of it."""

    levels: tuple[LevelPlan, ...]
    ledger: Ledger
    """Of the root: its rows are the units, and their account is charged."""

    @property
    def root(self) -> LevelPlan:
        return self.levels[0]

    @property
    def limit(self) -> Fraction:
        """What all tables take together, in epsilon or rho."""
        return sum((one.plan.schedule.limit for one in self.levels), Fraction(0))

    @property
    def protects(self) -> str:
        """Whose rows neighbouring databases differ by, in words."""
        below = [f"{one.request.rows_per_unit:,} rows of {one.level.name}" for one in self.levels[1:]]
        return f"{protected(self.root.level.name, None)}, at most {' and '.join(below)}"


@uncollected()
def plan_tree(session: Session, request: TablesRequest) -> TreePlan:
    """What would run for a request; every refusal of the workload happens here."""
    con = session.cursor()
    levels = read_levels(con, request.tables, session.place)
    most = _most(request, levels)
    ledger = ledger_of(con, session, levels)
    places = range(len(levels))
    with Sandbox(session.settings) as sandbox:
        alone = [read_domain(con, level.table, session.place, sandbox) for level in levels]
        for level, domain in zip(levels, alone, strict=True):
            _check_alone(level, domain)
        numbers = {level.name: _most_below(level, most[level.name]) for level in levels[1:]}
        rows = [level_rows(levels, place, numbers) for place in places]
        domains = [_domain(levels, place, alone, numbers) for place in places]
        questions = _by_level(levels, domains, request.first.workload)
        # From below: what a table asks of those above it is asked of its parent, which may be its parent's turn then.
        for place in reversed(places[1:]):
            parent = levels[place].parent
            assert parent is not None
            more = list(_of_parent(levels, place, domains, questions[place], questions[parent]))
            questions[parent] += _fitting(domains[parent], questions[parent], more, request.first, sandbox)
        requests = [
            replace(
                request.of(levels[place].table.name.quoted()),
                workload=_plain(questions[place]),
                unit=levels[0].name if place else None,
                rows_per_unit=most[levels[place].name] if place else 1,
            )
            for place in places
        ]
        drafts = [draft_of(one, domain, sandbox) for one, domain in zip(requests, domains, strict=True)]
    for one, draft in zip(requests, drafts, strict=True):
        check_possible(one, draft.idle)
    # Each table has as much: rows below inherit the errors of the rows that they lead to.
    part = Fraction(1, len(levels))
    plans = []
    for place in places:
        subject = Subject(
            relation=rows[place],
            unit=_unit(levels, place, most) if place else None,
            part=part,
            above=frozenset(_above(levels, place)).intersection(drafts[place].compiled.classes),
        )
        plan = plan_level(session, requests[place], subject, drafts[place], ledger)
        plans.append(LevelPlan(level=levels[place], request=requests[place], plan=plan))
    return TreePlan(levels=tuple(plans), ledger=ledger)


def _most(request: TablesRequest, levels: Sequence[Level]) -> dict[str, int]:
    """How many rows of a unit are used of each table; 1 of the root."""
    root, names = levels[0].name, {fold(level.name): level.name for level in levels[1:]}
    if request.unit is not None and (not isinstance(request.unit, str) or fold(request.unit) != fold(root)):
        what = f"unit ({request.unit!r}) must be {root!r}, the table that the others lead to"
        raise refuse(OptionError, RELEASE, what, "leave unit out")
    given = request.rows_per_unit
    if isinstance(given, int):
        return {root: 1} | dict.fromkeys(names.values(), given)
    for name in given:
        if name not in names:
            what = f"rows_per_unit names {name!r}, which is not a table below {root}"
            hint = f"{did_you_mean(name, list(names.values()))}name each of {', '.join(names.values())}"
            raise refuse(OptionError, RELEASE, what, hint)
    missing = [name for folded, name in names.items() if folded not in given]
    if missing:
        what = f"rows_per_unit has no number for {', '.join(missing)}"
        raise refuse(OptionError, RELEASE, what, f"give one for each of {', '.join(names.values())}")
    return {root: 1} | {name: given[folded] for folded, name in names.items()}


def _most_below(level: Level, most: int) -> int:
    """How many rows of a table may lead to one row: one where the column that leads there is a key itself."""
    return 1 if level.foreign in level.keys else most


def ledger_of(con: duckdb.DuckDBPyConnection, session: Session, levels: Sequence[Level]) -> Ledger:
    """The ledger of all tables, whose units are rows of the root. Each carries the account from the debit on."""
    root = levels[0]
    unit = relations.describe(con, root.table.name.quoted(), session.place, RELEASE, unit=root.name)
    ledger = read_ledger(con, unit, session.place, RELEASE)
    others = [level.table.name for level in levels[1:]]
    identity = ledger.identity
    if identity.carrier is not None:
        keys = (*identity.first_keys, *(key("", name.schema, name.table) for name in others))
        identity = replace(identity, joined=tuple(map(TableCarrier, others)), first_keys=keys)
    cap = ledger.cap
    if cap is not None and (cap.rows_per_unit is not None or fold(cap.unit or "") != fold(root.name)):
        what = f"the cap on {root.name} is for {cap.protects}, and a release of several tables protects one {root.name}"
        hint = f"have the curator decide: CALL mwem_budget('{root.name}', epsilon, unit := '{root.name}')"
        raise refuse(BudgetError, RELEASE, f"{what} and all rows that lead to it", hint)
    return replace(ledger, identity=identity).at(con)


def _check_alone(level: Level, domain: Domain) -> None:
    """Refuse what a release of one table has, and several do not."""
    if domain.totals:
        what = f"table {level.name} has public totals, which are for a release of one table"
        raise refuse(DomainError, RELEASE, what, "give their table another name while several tables are released")
    column = next((each.name for each in domain if each.discover), None)
    if column is not None:
        what = f"column {column} of {level.name} has values to discover, which is for a release of one table"
        raise refuse(DomainError, RELEASE, what, "list its values in the domain table")


def _above(levels: Sequence[Level], place: int) -> dict[str, tuple[int, str]]:
    """The columns of the tables above, as a level calls them: the place of their table, and what it calls them."""
    return {
        column_above(levels[other], column.name): (other, column.name)
        for other in tables.above(levels, place)
        for column in levels[other].table.columns
    }


def _domain(levels: Sequence[Level], place: int, alone: Sequence[Domain], numbers: Mapping[str, int]) -> Domain:
    """The domain of a level: its table's, those above under their names there, and the numbers of rows below."""
    level, domain = levels[place], alone[place]
    others = list(reversed(tables.above(levels, place)))
    below = [levels[other].name for other in tables.below(levels, place)]
    joining = {level.name: set(level.joining) for level in levels}
    attributes = [each for each in domain if each.name not in joining[level.name]]
    attributes += [
        replace(each, name=column_above(levels[other], each.name))
        for other in others
        for each in alone[other]
        if each.name not in joining[levels[other].name]
    ]
    attributes += [
        Attribute(name, NUMBER_TYPE, nullable=False, low=0, high=numbers[name], source=f"rows of {name}")
        for name in below
    ]
    names = [
        *domain.columns,
        *(column_above(levels[other], column) for other in others for column in alone[other].columns),
        *below,
    ]
    parent = None if level.parent is None else levels[level.parent]
    link = Link(
        keys=tuple(each.name for each in level.keys),
        parent=None if parent is None else parent.name,
        foreign=None if level.foreign is None else level.foreign.name,
        refers_to=None if level.refers_to is None else level.refers_to.name,
        below=tuple(below),
    )
    return replace(
        domain,
        table=level.name,
        columns=tuple(names),
        attributes=tuple(attributes),
        above=tuple(levels[other].name for other in others),
        link=link,
    )


def _by_level(levels: Sequence[Level], domains: Sequence[Domain], workload: Workload) -> list[list[Query]]:
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
        _check_keys(level, domains[place], out[place])
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


def _check_keys(level: Level, domain: Domain, queries: Sequence[Query]) -> None:
    """Keys are numbers that mean nothing: nobody can ask about them."""
    if not queries:
        return
    read = {name for parts in read_workload(domain, _plain(queries)).parts for part in parts for name in part.columns}
    key_read = next((name for name in level.joining if name in read), None)
    if key_read is not None:
        what = (
            f"the workload asks about {key_read} of {level.name}, which is a key: synthetic rows have new numbers there"
        )
        raise refuse(WorkloadError, RELEASE, what, "ask about other columns, or about how many rows lead to a row")


def _plain(queries: Sequence[Query]) -> Workload:
    return Workload(tuple(query._replace(of=None) for query in queries))


def _of_parent(
    levels: Sequence[Level],
    place: int,
    domains: Sequence[Domain],
    queries: Sequence[Query],
    there: Sequence[Query],
) -> Iterator[Query]:
    """What the rows of a level make its parent be asked: how many rows lead to a row, alone and by each column above.

    Of a column, all that some row of the workload tells apart. Columns together are not asked for: that would be many
    cells of few rows, whose noise the parent's own answers would have, too.
    """
    parent = levels[place].parent
    assert parent is not None
    domain, above, number = domains[parent], _above(levels, place), levels[place].name
    cuts: dict[str, dict[str, None]] = {name: {} for name in above}
    for parts in read_workload(domains[place], _plain(queries)).parts:
        for leaf in chain.from_iterable(conditions.leaves(part.what) for part in parts):
            for name in above.keys() & set(leaf.columns):
                alone = leaf.sql if set(leaf.columns) == {name} else quoted(name)
                cuts[name][_renamed(alone, above, parent)] = None
    taken = {query.label for query in there}
    items_of = {name: list(cut) for name, cut in cuts.items() if cut}
    for names in ((), *((name,) for name in items_of)):
        items = [item for name in names for item in items_of[name]]
        shown = [_shown(above[name], name, parent) for name in names]
        if len(items) > MOST_CUTS:
            items = [quoted(name) for name in shown]
        items = [item for item in items if not _lacks(domain, item)]
        if names and not items:
            continue
        name = ", ".join([*shown, number])
        yield Query(
            group_by=(", ".join([*items, quoted(number)]),),
            verbatim=False,
            name=name if name not in taken else f"{name} (for {number})",
        )


def _fitting(
    domain: Domain, queries: Sequence[Query], more: Sequence[Query], request: Request, sandbox: Sandbox
) -> Sequence[Query]:
    """What is asked of a parent for a level below it; of too many cells, how many rows lead to a row and nothing else.

    Nobody is refused what they did not ask for.
    """
    try:
        check_room(request, compile_workload(domain, _plain([*queries, *more]), sandbox))
    except CellsError:
        return more[:1]
    return more


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


def _unit(levels: Sequence[Level], place: int, most: Mapping[str, int]) -> Unit:
    column = unit_column(levels)
    return Unit(column.name, most[levels[place].name], column.type)


def same_rows(con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest, tree: TreePlan) -> bool:
    """Whether tables, keys and account still are what was planned; the debit has opened the account."""
    levels = read_levels(con, request.tables, session.place)
    return levels == tuple(one.level for one in tree.levels)
