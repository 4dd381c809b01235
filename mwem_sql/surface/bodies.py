"""What each SQL function does: the arguments of a call in, rows out. A body has the name of its function.

Owns how arguments are read, from SQL as JSON and from Python as they are, in which order, and what is said of one that
cannot be. Must not do the work: a body calls the room that does. Must not know which columns a function has: that is in
`spec.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from mwem_sql.accounting.subjects import describe
from mwem_sql.boundary.levels import Level
from mwem_sql.boundary.public import PUBLIC_TABLES
from mwem_sql.domains.domain import Domain, read_domain
from mwem_sql.errors import MwemError, OptionError, WorkloadError, literal, refuse, spoken_by
from mwem_sql.explain import compare as comparison
from mwem_sql.explain.explain import plan_rows
from mwem_sql.explain.suggest import domain_rows, levels_rows, rule_rows, suggestion_rows, total_rows
from mwem_sql.language.ticks import cast
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.seats import Seat, seat_of
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer as answers
from mwem_sql.releases import builders, store, withdrawal
from mwem_sql.releases import quantile as quantiles
from mwem_sql.releases.columns import OF_ITS_TYPE, QUANTILE
from mwem_sql.releases.levels import TablesRequest, public_tables
from mwem_sql.releases.request import Request, read_whole
from mwem_sql.releases.sample import Sampler
from mwem_sql.releases.tables import joined_tables, summary_row
from mwem_sql.reporting import export as files
from mwem_sql.surface.declaration import Home
from mwem_sql.workload import Workload

Rows = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call, read one by one."""

    function: str
    session: Session
    values: Mapping[str, Any]
    queries: Workload | list[str] | None = None
    """The workload; from SQL its rows, each as JSON, and None if it has none."""
    _: KW_ONLY
    seat: Seat | None = None
    """Of a server's user."""

    @classmethod
    def of_sql(cls, function: str, home: Home, text: str, queries: list[str] | None = None) -> Arguments:
        """What a macro passes on: the arguments and the caller's context, as one JSON text."""
        values = json.loads(text)
        context = values.pop("context")
        session = Session(home.cursor, Place(context["database"], context["schema"]), context["settings"])
        seat = seat_of(home.key, context["ticket"], function)
        if seat is not None:
            session = replace(session, inside=seat.inside, user=seat.user)
        return cls(function, session, values, queries, seat=seat)

    def permitted(self) -> AbstractContextManager[None]:
        """The call while it runs; refused where a server's user may not make it."""
        if self.seat is None:
            return nullcontext()
        rows = len(self.queries) if self.queries is not None else 0
        return self.seat.permits.running(self.seat.user, self.function, self.values, rows)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def name(self, key: str, noun: str = "table", example: str = "adult") -> str:
        """The name of a table, or of something else."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            what = f"{key} ({value!r}) must be the name of a {noun}"
            raise refuse(OptionError, self.function, what, f"write it as a string, {literal(example)}")
        return value

    def number(self, key: str) -> int:
        """A whole number that is not negative."""
        return read_whole(self.function, key, self.values.get(key), 0, 10**9)

    def names(self, key: str) -> list[str] | None:
        """A list of names, from a list or from text with commas."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        return [str(part) for part in value] if isinstance(value, list) else None

    def confidence(self) -> float:
        return answers.read_confidence(self.values["confidence"], self.function)

    def given(self) -> str | None:
        return answers.read_given(self.values["given"], self.function)

    def answerer(self) -> answers.Answerer:
        """The release that the call is about."""
        return answers.answerer(self.session, self.name("output"), self.function)

    def workload(self) -> Workload:
        if self.queries is None:
            raise refuse(WorkloadError, "workload", "the workload has no rows", "add at least one query")
        return self.queries if isinstance(self.queries, Workload) else Workload.from_json(self.queries)


def sentence(function: str, error: Exception) -> str:
    """What the user reads. Of an error that nobody foresaw only the kind: its text could quote a private figure."""
    if isinstance(error, MwemError):
        return str(error)
    if isinstance(error, duckdb.Error):
        return f"{function}: {str(error).splitlines()[0]}"
    return f"{function}: unexpected {type(error).__name__}. Hint: please report it"


@dataclass(frozen=True)
class Typed:
    """Rows whose columns depend on the arguments: their names and types, and values as Arrow has them, to be cast.

    Two columns may have one name: an attribute may be called weight.
    """

    types: Sequence[tuple[str, str]]
    rows: Callable[[], pa.Table]

    def cast(self, values: Iterable[exp.Expr]) -> list[exp.Expr]:
        """Expressions for the values of the columns, in their types and under their names."""
        columns = zip(values, self.types, strict=True)
        return [exp.alias_(cast(value, kind), name, quoted=True) for value, (name, kind) in columns]

    def table(self, session: Session) -> pa.Table:
        """The rows in the types that SQL gives them; nothing need be registered."""
        names = [f"c{k}" for k in range(len(self.types))]
        arrived = "__mwem_arrived"  # a name that no table of the user has
        cursor = session.cursor()
        cursor.register(arrived, self.rows().rename_columns(names))
        columns = self.cast(exp.column(name) for name in names)
        return cursor.sql(exp.select(*columns).from_(exp.table_(arrived)).sql("duckdb")).to_arrow_table()


def request(call: Arguments) -> Request | TablesRequest:
    """What is asked for; of a list of tables, for all of them."""
    kind = TablesRequest if isinstance(call["private_table"], list) else Request
    return kind.parse(call["private_table"], call.workload(), call["epsilon"], call["options"])


def release(call: Arguments) -> Rows:
    return [summary_row(call.session, request(call))]


def plan(call: Arguments) -> Rows:
    with spoken_by(call.function):
        return list(plan_rows(call.session, request(call)))


def _domain(call: Arguments) -> tuple[Domain, dict[str, str]]:
    """The domain of a table, and its columns' types. A table that is elsewhere has the domain of its release."""
    session, function, table = call.session, call.function, call.name("private_table")
    con = session.cursor()
    name = None if call["domain"] is None else call.name("domain")
    rules, totals = (None if call.values.get(kind) is None else call.name(kind) for kind in ("rules", "known"))
    is_named = any(each is not None for each in (name, rules, totals))
    stored = None if is_named else store.in_place_of_table(con, table, session.place, function)
    if stored is not None:
        return stored.domain, {}
    relation = describe(session, table, function)
    with Sandbox(session.settings) as sandbox:
        declared = read_domain(session, relation, sandbox, domain=name, rules=rules, totals=totals)
    return declared, {column.name: column.type for column in relation.columns}


def _levels(call: Arguments) -> tuple[Sequence[Level], list[Domain]] | None:
    """A list of tables that keys join, and what can be asked of each; None where one table is named."""
    if not isinstance(call["private_table"], list):
        return None
    given = {kind: call.values.get(kind) for kind in PUBLIC_TABLES}
    public = {kind: public_tables(call.function, kind, value) for kind, value in given.items() if value is not None}
    return builders.levels_of(call.session, call["private_table"], call.function, public)


def domain(call: Arguments) -> Rows:
    several = _levels(call)
    return domain_rows(*_domain(call)) if several is None else levels_rows(*several)


def rules(call: Arguments) -> Rows:
    return list(_of_domains(call, rule_rows))


def known(call: Arguments) -> Rows:
    return list(_of_domains(call, total_rows))


def _of_domains(call: Arguments, rows: Callable[[Domain, Sandbox], Rows]) -> Iterator[dict[str, Any]]:
    """Rows about the domain of a table; or of each of several, with its name."""
    several = _levels(call)
    with Sandbox(call.session.settings) as sandbox:
        if several is None:
            yield from rows(_domain(call)[0], sandbox)
            return
        for domain in several[1]:
            yield from ({**row, "of": domain.table} for row in rows(domain, sandbox))


def suggest_domain(call: Arguments) -> Rows:
    return suggestion_rows(call.session, call.name("private_table"))


def _rows_of(workload: Workload) -> Rows:
    return list(workload.to_arrow().to_pylist())


def marginals(call: Arguments) -> Rows:
    order, several = call.number("k"), _levels(call)
    if several is not None:
        return _rows_of(builders.marginals(several[1], order))
    return _rows_of(Workload.marginals(_domain(call)[0], order))


def ranges(call: Arguments) -> Rows:
    seed = None if call["seed"] is None else call.number("seed")
    columns, count, several = call.names("columns") or [], call.number("count"), _levels(call)
    if several is not None:
        return _rows_of(builders.ranges(several[1], columns, count, seed))
    return _rows_of(Workload.ranges(_domain(call)[0], columns, count, seed))


def parities(call: Arguments) -> Rows:
    order, columns, several = call.number("k"), call.names("columns"), _levels(call)
    if several is not None:
        return _rows_of(builders.parities(several[1], order, columns))
    return _rows_of(Workload.parities(_domain(call)[0], order, columns))


def answer(call: Arguments) -> pa.Table:
    confidence = call.confidence()
    return call.answerer().table(call.workload(), confidence)


def count(calls: Sequence[Arguments]) -> list[dict[str, Any]]:
    """All predicates that are asked of one release, compiled together."""
    ready = calls[0].answerer()
    return [{"answer": value} for value in ready.counts([_predicate(call) for call in calls])]


def count_interval(calls: Sequence[Arguments]) -> list[dict[str, Any]]:
    """All predicates that are asked of one release with one confidence, compiled together."""
    ready = calls[0].answerer()
    predicates = [_predicate(call) for call in calls]
    return ready.rows(Workload.from_predicates(predicates), calls[0].confidence())


def _predicate(call: Arguments) -> str:
    if call["predicate"] is None:
        what = "predicate (NULL) must be an SQL expression"
        raise refuse(WorkloadError, call.function, what, "write 'true' to count all rows")
    return str(call["predicate"])


def average(call: Arguments) -> Rows:
    confidence, given = call.confidence(), call.given()
    return answers.average(call.answerer(), call["measure"], given, confidence, call.function)


def quantile(call: Arguments) -> Typed:
    confidence, shares, given = call.confidence(), quantiles.read_shares(call["share"], call.function), call.given()
    ready = call.answerer()
    attribute = quantiles.ordered_attribute(ready, call["attribute"], call.function)
    types = QUANTILE | dict.fromkeys(OF_ITS_TYPE, attribute.type)

    def table() -> pa.Table:
        rows = quantiles.quantiles(ready, attribute, shares, given, confidence)
        return pa.table({name: [row[name] for row in rows] for name in types})

    return Typed(list(types.items()), table)


def quality(call: Arguments) -> Rows:
    return comparison.quality(call.session, call.name("output"), call.values, call.function)


def weights(call: Arguments) -> Typed:
    types, columns = answers.weights(call.answerer(), call.names("attributes") or [], call.function)
    return Typed(types, lambda: pa.Table.from_arrays(columns, [name for name, _ in types]))


def sample(call: Arguments) -> Typed:
    given = call.given()
    sampler = Sampler(call.answerer(), call["rows"], given, call["seed"], call.function)
    return Typed(list(sampler.types.items()), sampler.draw)


def report(call: Arguments) -> Rows:
    compared = None if call["compare"] is None else call.name("compare")
    output, ready = call.name("output"), call.answerer()
    workload = ready.workload()
    with spoken_by(call.function, instead_of="mwem_compare"):
        if compared is None:
            table = ready.table(workload)
        else:
            table = pa.Table.from_pylist(list(comparison.compare(call.session, compared, output, workload)))
        return list(
            files.report(call.session, ready, table, compared=compared, path=call["path"], function=call.function)
        )


def export(call: Arguments) -> Rows:
    tables = joined_tables(call.session.cursor(), call.answerer().stored, call.function)
    return files.export(call.session, tables, call["path"], call.function)


def withdraw(call: Arguments) -> Rows:
    return [withdrawal.withdraw(call.session, call.name("output"), call["reason"], call.function)]


def compare(call: Arguments) -> Rows:
    table, confidence = call.name("private_table"), call.confidence()
    return comparison.compare(call.session, table, call.name("output"), call.workload(), confidence)
