"""The levels of a release of several tables: what each is asked, its domain, its share of the budget, and its plan.

A level is a release that could be made alone: a row for each row of a table, with the columns of the tables above it,
and for each table below how many rows lead to it. What a level asks of columns above it is asked of its parent, too,
and how many rows lead there: rows are drawn from the parent's answer. Public all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import duckdb

from mwem_sql.accounting.accounts import SourceCarrier, TableCarrier
from mwem_sql.accounting.caps import protected_below
from mwem_sql.accounting.ledger import Ledger, read_ledger
from mwem_sql.accounting.subjects import check_served
from mwem_sql.boundary import relations
from mwem_sql.boundary.levels import Level, level_rows, read_levels, unit_columns
from mwem_sql.boundary.public import PUBLIC_TABLES
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.classes import MAX_VALUES
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.levels import NamedTables, domains_alone, level_domains
from mwem_sql.errors import (
    RELEASE,
    BudgetError,
    CellsError,
    OptionError,
    did_you_mean,
    literal,
    refuse,
)  # fmt: skip
from mwem_sql.language.dialect import fold
from mwem_sql.loop.plan import divided
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.catalog import split_name
from mwem_sql.platform.metadata import key
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.draft import check_possible, draft_of
from mwem_sql.releases.plan import MAX_UNCERTAINTY, Plan, Subject, check_room, plan_level, uncertainty
from mwem_sql.releases.questions import by_level, columns_above, of_parent, plain, read_of
from mwem_sql.releases.request import OPTIONS, Request, read_number
from mwem_sql.scan.dialects import DIALECTS
from mwem_sql.scan.dialects.dialect import Unit
from mwem_sql.scan.engines.protocol import Snapshot
from mwem_sql.workload import Query, Workload

COMMON: Final = frozenset(
    {"delta", "unit", "rows_per_unit", "max_cells", "certify", "version", "seed"}
)  # of OPTIONS, those that a release of several tables has
MOST_TABLES: Final = 100
PART_BELOW: Final = 2
"""What a table below has of the budget, in parts of what the root has: a unit has more rows there, so that there is
more noise. Larger: the root is known less well, the others better. `python benchmarks/linked.py --works households
--questions 300`"""


@dataclass(frozen=True, kw_only=True)
class TablesRequest:
    """A checked request for several tables. `first` has what is common to all; its table is the first that was named.

    `rows_per_unit` is the most rows of one unit that are used of each table, or by the folded name of a table. `public`
    are the public tables that the call names.
    """

    tables: tuple[str, ...]
    first: Request
    unit: str | None
    rows_per_unit: int | Mapping[str, int]
    public: NamedTables

    @classmethod
    def parse(
        cls, named: Sequence[object], workload: Workload, epsilon: object, options: Mapping[str, Any]
    ) -> TablesRequest:
        """Read the options of a call; a NULL is the default."""
        check_tables(named)
        given = {name: value for name, value in options.items() if value is not None}
        public = {kind: public_tables(RELEASE, kind, given.pop(kind)) for kind in PUBLIC_TABLES if kind in given}
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
        return cls(
            tables=tuple(map(str, named)),
            first=first,
            unit=unit,
            rows_per_unit=_rows_per_unit(most),
            public=public,
        )

    def of(self, text: str) -> Request:
        """The same of one table, with its own public tables."""
        name = fold(split_name(text)[-1])
        tables = {kind: self.public.get(kind, {}).get(name) for kind in PUBLIC_TABLES}
        return replace(self.first, table=text, domain=tables["domain"], rules=tables["rules"], known=tables["known"])


def check_tables(named: Sequence[object]) -> None:
    """Refuse what is no list of several names."""
    if not 2 <= len(named) <= MOST_TABLES or not all(isinstance(each, str) and each.strip() for each in named):
        what = f"tables ({named!r}) must be a list of 2 to {MOST_TABLES} names of tables"
        raise refuse(OptionError, RELEASE, what, "write ['person', 'visit']; or 'person' for one table")


def public_tables(function: str, kind: str, given: object) -> dict[str, str]:
    """The public tables of a kind that a call names, by the folded name of the private one."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given.values()):
        what = f"{kind} ({given!r}) is for one table"
        hint = f"leave it out: each table has its own, <table>_{kind}; or name one by table, {{person: 'some_table'}}"
        raise refuse(OptionError, function, what, hint)
    return {fold(str(table)): str(name) for table, name in given.items()}


def _rows_per_unit(given: object) -> int | dict[str, int]:
    if isinstance(given, Mapping):
        return {fold(str(name)): _count(f"rows_per_unit of {name}", most) for name, most in given.items()}
    return _count("rows_per_unit", given)


def _count(name: str, value: object) -> int:
    number = read_number(value)
    if number is None or not 1 <= number < MAX_VALUES or number % 1:
        what = f"{name} ({value!r}) must be a whole number from 1 to {MAX_VALUES - 1:,}"
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

    tables: tuple[Level, ...]
    """As the catalog has them."""
    levels: tuple[LevelPlan, ...]
    ledger: Ledger
    """Of the root: its rows are the units, and their account is charged."""

    @property
    def root(self) -> LevelPlan:
        return self.levels[0]

    @property
    def noise(self) -> float:
        """How many rows of all tables are noise, by public numbers.

        On how many units there are, and on how many of them have 0, 1, 2, ... rows below.
        """
        plan = self.root.plan
        rows = [float(one.request.rows_per_unit) for one in self.levels[1:]]
        of_rows = sum(math.sqrt(most * (most + 1) * (2 * most + 1) / 6) for most in rows)
        return uncertainty(None, plan.schedule) * ((plan.problem.total is None) + of_rows)

    @property
    def limit(self) -> Fraction:
        """What all tables take together, in epsilon or rho."""
        return sum((one.plan.schedule.limit for one in self.levels), Fraction(0))

    @property
    def protects(self) -> str:
        """Whose rows neighbouring databases differ by, in words."""
        below = {one.level.name: one.request.rows_per_unit for one in self.levels[1:]}
        return protected_below(self.root.level.name, below)


@uncollected()
def plan_tree(session: Session, request: TablesRequest) -> TreePlan:
    """What would run for a request; every refusal of the workload happens here."""
    inside = session.private
    con = inside.cursor()
    levels = read_levels(con, request.tables, inside.place)
    most = _most(request, levels)
    ledger = ledger_of(con, inside, levels)
    check_served(session, ledger, levels[0].name, RELEASE)
    places = range(len(levels))
    with Sandbox(session.settings) as sandbox:
        numbers = {level.name: _most_below(level, most[level.name]) for level in levels[1:]}
        alone = domains_alone(session, levels, sandbox, request.public)
        text = DIALECTS[levels[0].table.dialect].text
        rows = [level_rows(levels, place, numbers, text) for place in places]
        domains = level_domains(levels, alone, numbers)
        questions = by_level(levels, domains, request.first.workload)
        # Columns that nobody asks about may be numbers of keys.
        read = read_of(levels, domains, questions)
        kept = tuple(level.keeping(columns) for level, columns in zip(levels, read, strict=True))
        domains = level_domains(kept, alone, numbers)
        # From below: what a table asks of those above it is asked of its parent, which may be its parent's turn then.
        for place in reversed(places[1:]):
            parent = levels[place].parent
            assert parent is not None
            more = of_parent(levels, place, domains, questions[place], questions[parent])
            questions[parent] += _fitting(domains[parent], questions[parent], list(more), request.first, sandbox)
        requests = [
            replace(
                request.of(levels[place].table.name.quoted()),
                workload=plain(questions[place]),
                unit=levels[0].name if place else None,
                rows_per_unit=most[levels[place].name] if place else 1,
            )
            for place in places
        ]
        drafts = [draft_of(one, domain, sandbox) for one, domain in zip(requests, domains, strict=True)]
    for one, draft in zip(requests, drafts, strict=True):
        check_possible(one, draft.idle)
    shares = divided(Fraction(1), [PART_BELOW if place else 1 for place in places])
    plans = []
    for place in places:
        subject = Subject(
            relation=rows[place],
            unit=_unit(levels, place, most) if place else None,
            part=shares[place],
            is_below=place > 0,
            above=frozenset(columns_above(levels, place)).intersection(drafts[place].compiled.classes),
        )
        plan = plan_level(session, requests[place], subject, drafts[place], ledger)
        plans.append(LevelPlan(level=kept[place], request=requests[place], plan=plan))
    tree = TreePlan(tables=levels, levels=tuple(plans), ledger=ledger)
    if tree.noise > MAX_UNCERTAINTY:
        what = f"epsilon ({float(request.first.budget.epsilon):g}) is so small, and rows_per_unit so large, that some"
        hint = "raise epsilon, or lower rows_per_unit"
        raise refuse(OptionError, RELEASE, f"{what} {tree.noise:,.0f} rows would be noise", hint)
    return tree


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
    """How many rows of a table may lead to one row: one where what leads there is a key itself."""
    return 1 if level.is_single else most


def ledger_of(con: duckdb.DuckDBPyConnection, session: Session, levels: Sequence[Level]) -> Ledger:
    """The ledger of all tables, whose units are rows of the root. Each carries the account from the debit on."""
    root = levels[0]
    unit = root.table.of_rows(root.base.quoted())
    if root.table.source is None and root.table.files is None:
        unit = relations.describe(con, root.table.name.quoted(), session.place, RELEASE, unit=root.base.quoted())
    ledger = read_ledger(con, unit, session.place, RELEASE)
    others = [level.base for level in levels[1:]]
    identity = ledger.identity
    if isinstance(identity.carrier, SourceCarrier):
        source = identity.carrier.source
        identity = replace(identity, joined=tuple(SourceCarrier(source, level.table) for level in levels[1:]))
    if isinstance(identity.carrier, TableCarrier):
        keys = (*identity.first_keys, *(key("", name.schema, name.table) for name in others))
        identity = replace(identity, joined=tuple(map(TableCarrier, others)), first_keys=keys)
    cap = ledger.cap
    name, known_by = root.base.table, ledger.unit_of_table(con)
    is_renamed = cap is not None and known_by and cap.unit_id == known_by
    if cap is not None and (cap.rows_per_unit is not None or (fold(cap.unit or "") != fold(name) and not is_renamed)):
        what = f"the cap on {name} is for {cap.protects}, and a release of several tables protects one {name}"
        text = literal(root.base.text(session.place))
        hint = f"have the curator decide: CALL mwem_budget({text}, epsilon, unit := {literal(name)})"
        raise refuse(BudgetError, RELEASE, f"{what} and all rows that lead to it", hint)
    return replace(ledger, identity=identity).at(con)


def _fitting(
    domain: Domain, queries: Sequence[Query], more: Sequence[Query], request: Request, sandbox: Sandbox
) -> Sequence[Query]:
    """What is asked of a parent for a level below it; of too many cells, how many rows lead to a row and nothing else.

    Nobody is refused what they did not ask for.
    """
    try:
        check_room(request, compile_workload(domain, plain([*queries, *more]), sandbox))
    except CellsError:
        return more[:1]
    return more


def _unit(levels: Sequence[Level], place: int, most: Mapping[str, int]) -> Unit:
    first, *others = unit_columns(levels, place)
    further = tuple((column.name, column.type) for column in others)
    return Unit(first.name, most[levels[place].name], first.type, further)


def same_rows(session: Session, request: TablesRequest, tree: TreePlan, snapshot: Snapshot) -> bool:
    """Whether a snapshot has the tables and keys that were planned."""
    inside = session.private
    con = snapshot.home or inside.cursor()
    return read_levels(con, request.tables, inside.place, snapshot) == tree.tables
