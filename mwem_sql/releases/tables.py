"""A release of several tables: one request, one debit, one snapshot; a release for each table, whose rows join by keys.

The root is run first. Then each table below: its state begins with what the rows above it say, and ends in agreement
with them (model/parents.py), and its rows are drawn given the rows that they lead to. Keys are new numbers. All is
stored in one transaction, or nothing is.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.accounting.caps import Charge, protected
from mwem_sql.accounting.ledger import Receipt
from mwem_sql.algebra.arrays import Integers
from mwem_sql.domains.domain import Domain, Link
from mwem_sql.errors import RELEASE, OutputError, refuse
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.noise import Noise, OpenDPNoise, SeededNoise
from mwem_sql.model.parents import Parents
from mwem_sql.model.start import Codes
from mwem_sql.model.state import State
from mwem_sql.platform import calls, catalog
from mwem_sql.platform.calls import announce
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.session import Session, transaction
from mwem_sql.releases import reuse, store, summary
from mwem_sql.releases.levels import LevelPlan, TablesRequest, Tree, plan_tree, same_rows
from mwem_sql.releases.reuse import RequestHash
from mwem_sql.releases.rows import row_rules
from mwem_sql.releases.run import Made, charged, first_query, made_of, run_loop, store_all, uncapped
from mwem_sql.releases.start import codes_of
from mwem_sql.releases.store import Stored
from mwem_sql.scan import execution
from mwem_sql.scan.engines.protocol import Snapshot
from mwem_sql.synthesis.values import KeyColumn, SyntheticRows, draw_below, draw_rows

NUMBER = "BIGINT"
"""The type of synthetic keys."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """The synthetic rows of a table: values of its attributes, what its keys have, and the row that each leads to."""

    values: pa.Table
    keys: Mapping[str, Integers]
    parents: Integers

    def taken(self, rows: Integers) -> pa.Table:
        return self.values.take(pa.array(rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class Summaries:
    """What a call returns: a row for all tables, and one for each, with its output, in the order of the call."""

    row: dict[str, Any]
    each: list[tuple[Name, dict[str, Any]]]

    @classmethod
    def of(
        cls,
        outputs: Sequence[Name],
        stored: Mapping[Name, Mapping[str, Any]],
        protects: str,
        seconds: float,
        warnings: Sequence[str | None],
        *,
        reused: bool,
    ) -> Summaries:
        """`stored` are the facts of each output, the root's first; `outputs` are in the order of the call."""
        each = {
            output: summary.row(output, {**facts, "protects": protects}, seconds, [], reused=reused)
            for output, facts in stored.items()
        }
        facts = list(stored.values())
        whole = {**facts[0], **_added(facts), "protects": protects}
        row = summary.row(", ".join(map(str, stored)), whole, seconds, warnings, reused=reused)
        words = [one["quality"] for one in each.values()]
        row["quality"] = max(words, key=("good", "fair", "poor").index)
        return cls(row=row, each=[(output, each[output]) for output in outputs])


def run_tables(session: Session, request: TablesRequest) -> Summaries:
    """Make the releases, or find the stored ones."""
    started = time.monotonic()
    calls.stands("mwem_ledger() tells the same: nothing was charged. Call again, at no loss")
    con = session.cursor()
    named = [reuse.names(con, session, request.of(text)) for text in request.tables]
    outputs = [output for _, output in named]
    with ExitStack() as locks:
        for output in sorted(outputs, key=str):
            locks.enter_context(reuse.output_lock(con, output))
        fingerprint = _fingerprint(con, session, request, named)
        stored = _stored(con, request, outputs, fingerprint)
        if stored is not None:
            reuse.check_seed(con, session, request.first, named[0][0])
            _restore(session, request, stored)
            seconds, warnings = time.monotonic() - started, [*_kept_warnings(stored)]
            kept = {one.name: one.facts for one in stored}
            return Summaries.of(outputs, kept, _protects(stored), seconds, warnings, reused=True)
        announce(request.first.table, "planning")
        tree = plan_tree(session, request)
        by_table = {tuple(private.identity): output for private, output in named}
        ordered = [by_table[tuple(one.level.table.name.identity)] for one in tree.levels]
        _check_writable(con, session, tree, ordered)
        text = ", ".join(map(str, ordered))
        if request.first.seed is None:
            reuse.check_unfinished(tree.ledger, fingerprint.hash, ordered[-1])
        charge = _charge(tree)
        calls.stands(calls.UNKNOWN)  # between here and the next line that says so, it may be charged
        receipt = tree.ledger.debit(
            session.cursor(), charge, text, action=RELEASE, private=request.first.seed is None,
            request=fingerprint.hash, version=request.first.version, workload=first_query(tree.root.plan.compiled),
        )  # fmt: skip
        calls.stands(charged(request.first, text))
        status, rho = "failed", charge.rho
        try:
            marks = {"entry": receipt.entry, "request": fingerprint.hash, "asked": fingerprint.content}
            made = _run_and_store(session, request, tree, receipt, ordered, marks)
            status, rho = "done", sum((one.rho for one in made), Fraction(0))
            calls.stands(
                "mwem_ledger() tells the same: the release was charged and is stored."
                " The same call returns it at no further cost"
            )
        finally:
            with calls.shielded(), suppress(duckdb.Error):  # an entry that stays open counts all the same
                tree.ledger.close(session.cursor(), receipt.entry, status, rho)
        announce(request.first.table, "done")
        warnings = [*_warnings(tree, made), uncapped(request.first, tree.ledger, receipt)]
        facts = {output: one.facts for output, one in zip(ordered, made, strict=True)}
        return Summaries.of(outputs, facts, tree.protects, time.monotonic() - started, warnings, reused=False)


def _fingerprint(
    con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest, named: Sequence[tuple[Name, Name]]
) -> RequestHash:
    """Of the request alone: of each table what a release of it alone would have, whatever order they are named in."""
    each = sorted(
        (private.identity, reuse.fingerprint(con, session, request.of(text), private, output))
        for text, (private, output) in zip(request.tables, named, strict=True)
    )
    most = request.rows_per_unit
    numbers = most if isinstance(most, int) else sorted(most.items())
    whole = json.dumps([[one.hash for _, one in each], numbers])
    content = json.loads(each[0][1].content)
    content |= {"rows_per_unit": str(numbers), "table": [json.loads(one.content)["table"] for _, one in each]}
    return RequestHash(hashlib.sha256(whole.encode()).hexdigest(), json.dumps(content, sort_keys=True))


def _stored(
    con: duckdb.DuckDBPyConnection, request: TablesRequest, outputs: Sequence[Name], fingerprint: RequestHash
) -> list[Stored] | None:
    """The stored releases of this very request, each after its parent; None if there are none."""
    found = [reuse.stored_release(con, output, fingerprint, request.first) for output in outputs]
    if all(facts is None for facts in found):
        return None
    for output, facts in zip(outputs, found, strict=True):
        if facts is None:
            what = f"output ({output}) is no longer beside the others of its release"
            raise refuse(OutputError, RELEASE, what, "give a new version := '...' to make and charge them anew")
    stored = [store.stored(con, output, facts) for output, facts in zip(outputs, found, strict=True) if facts]
    return sorted(stored, key=lambda one: int(one.facts["release"]))


def _check_writable(con: duckdb.DuckDBPyConnection, session: Session, tree: Tree, outputs: Sequence[Name]) -> None:
    databases = catalog.databases(con)
    if databases[outputs[0].database].read_only:
        what = f"output ({outputs[0]}) is in a database that cannot be written"
        raise refuse(OutputError, RELEASE, what, "USE a writable one")
    tree.ledger.check_writable(databases, session.place, RELEASE)


def _charge(tree: Tree) -> Charge:
    """All of the budget: a unit is a row of the root, and what leads to it."""
    composition = tree.root.plan.schedule.composition
    limit = sum((one.plan.schedule.limit for one in tree.levels), Fraction(0))
    return Charge.of(replace(composition, limit=limit), tree.root.level.name, None)


def _check_of(session: Session, request: TablesRequest, tree: Tree, receipt: Receipt) -> execution.Check:
    """Whether a snapshot has what was planned and charged: the same tables, keys and account."""

    def check(snapshot: Snapshot) -> execution.Fingerprint:
        con = snapshot.home or session.cursor()
        account = tree.ledger.at(con).account
        if not same_rows(con, session, request, tree) or account != receipt.account:
            raise execution.ChangedError
        return lambda: None

    return check


def _run_and_store(
    session: Session,
    request: TablesRequest,
    tree: Tree,
    receipt: Receipt,
    outputs: Sequence[Name],
    marks: Mapping[str, str],
) -> list[Made]:
    """The private part, table by table, and the rows that follow from it.

    Privacy:
        The debit has been committed. One accountant is debited by the kernels of all tables; a table's kernel counts
        all rows that a unit may have in it. What leaves one kernel decides what the next is asked: they compose.
    """
    seed = request.first.seed
    noise: Noise = OpenDPNoise() if seed is None else SeededNoise(seed)
    generator = np.random.default_rng(seed)
    limit = sum((one.plan.schedule.limit for one in tree.levels), Fraction(0))
    composition = tree.root.plan.schedule.composition
    accountant = Accountant(composition.kind, limit, composition.budget)
    announce(request.first.table, "reading")
    answers = execution.all_answers(
        execution.engine_of(session.cursor(), tree.root.level.table),
        [one.plan.pushdown for one in tree.levels],
        _check_of(session, request, tree, receipt),
    )
    made: list[Made] = []
    drawn: list[Drawn] = []
    for one in tree.levels:
        table = one.level.name
        counts = answers.pop(0)
        if one.level.parent is None:
            outcome = run_loop(one.request, one.plan, counts, accountant, noise)
            made.append(_of_root(table, made_of(one.request, one.plan, outcome, marks)))
            announce(table, "rows")
            drawn.append(_root_rows(session, made[-1], one.plan.compiled.published, generator))
            continue
        parents = _parents(drawn[one.level.parent], table)
        codes = _codes_above(session, tree, one, drawn, parents)
        problem = replace(one.plan.problem, parents=Parents(len(parents), codes))
        outcome = run_loop(one.request, replace(one.plan, problem=problem), counts, accountant, noise)
        outcome = replace(outcome, total=float(max(1, len(parents))))
        made.append(made_of(one.request, one.plan, outcome, marks, rows=len(parents)))
        announce(table, "rows")
        groups = {name: outcome.state.partitions[name].codes[codes_] for name, codes_ in codes.items()}
        domain = one.plan.compiled.published
        drawn.append(_rows_below(session, made[-1], domain, groups, parents, drawn[one.level.parent], generator))
    accountant.settle()
    contents = [
        store.Content(one.facts, _as_rows(one.state, rows, level.plan.compiled.published), one.tables, one.off, output)
        for one, rows, level, output in zip(made, drawn, tree.levels, outputs, strict=True)
    ]
    releases = store_all(session, contents)
    return [
        replace(one, facts=one.facts | {"release": release}) for one, release in zip(made, releases, strict=True)
    ]


def _of_root(table: str, made: Made) -> Made:
    """A unit has one row of the root, by its key."""
    return replace(made, facts=made.facts | {"unit": table, "units_cut": 0.0, "units_cut_within": 0.0})


def _parents(above: Drawn, table: str) -> Integers:
    """For each row of a table, the row that it leads to: each as often as it says that rows lead there."""
    numbers = above.values.column(table).to_numpy()
    return np.repeat(np.arange(len(numbers)), numbers.astype(np.int64))


def _codes_above(
    session: Session, tree: Tree, one: LevelPlan, drawn: Sequence[Drawn], parents: Integers
) -> dict[str, Codes]:
    """For each row, the class of the row above it in each attribute that it is asked about."""
    con, place, rows = session.cursor(), one.level.parent, parents
    row_above: dict[int, Integers] = {}
    while place is not None:
        row_above[place] = rows
        rows, place = drawn[place].parents[rows], tree.levels[place].level.parent
    out = {}
    for name, (other, column) in one.above.items():
        con.register("__mwem_above", drawn[other].values)
        classes = one.plan.compiled.classes[name]
        codes = codes_of(con, exp.table_("__mwem_above"), exp.column(column, quoted=True), classes, 1)
        # A value off a list is NULL in the rows.
        off = len(classes.attribute.values or ()) if classes.attribute.open else 0
        out[name] = np.where(codes >= 0, codes, classes.codes[off])[row_above[other]].astype(np.int32)
    return out


def _root_rows(session: Session, made: Made, domain: Domain, generator: np.random.Generator) -> Drawn:
    """Rows of the root, drawn from its state."""
    rules = row_rules(domain, session.settings)
    rows = draw_rows(made.state, made.classes, made.rows, generator, rules)
    values = rows.reader.read_all().rename_columns(list(rows.types))
    link = _link(domain)
    return Drawn(values=values, keys=_numbers(link, made.rows, {}), parents=np.zeros(made.rows, dtype=np.int64))


def _rows_below(
    session: Session,
    made: Made,
    domain: Domain,
    given: Mapping[str, Codes],
    parents: Integers,
    above: Drawn,
    generator: np.random.Generator,
) -> Drawn:
    """Rows of a table, drawn from its state given the rows above them."""
    assert isinstance(made.state, State)
    rules = row_rules(domain, session.settings)
    values = draw_below(made.state, made.classes, given, len(parents), generator, rules)
    link = _link(domain)
    assert link.foreign is not None and link.refers_to is not None
    foreign = {link.foreign: above.keys[link.refers_to][parents]}
    return Drawn(values=values, keys=_numbers(link, len(parents), foreign), parents=parents)


def _link(domain: Domain) -> Link:
    assert domain.link is not None
    return domain.link


def _numbers(link: Link, rows: int, foreign: Mapping[str, Integers]) -> dict[str, Integers]:
    """What columns of keys have: the row's number, or what leads to the row above."""
    return {column: foreign.get(column, np.arange(1, rows + 1)) for column in link.columns}


def _as_rows(state: object, drawn: Drawn, domain: Domain) -> SyntheticRows:
    """Rows as they are written: columns of keys first, then the table's own attributes."""
    del state
    link = _link(domain)
    own = [name for name in domain.own if name in drawn.values.column_names]
    columns = {name: pa.array(numbers) for name, numbers in drawn.keys.items()}
    table = pa.table(columns | {name: drawn.values.column(name) for name in own})
    types = dict.fromkeys(columns, NUMBER) | {name: _type(domain, name) for name in own}
    keys = {}
    for name in columns:
        refers_to = None
        if name == link.foreign and link.parent is not None and link.refers_to is not None:
            refers_to = (f"{link.parent}_synthetic", link.refers_to)
        kind = "PRIMARY KEY" if link.keys[:1] == (name,) else "UNIQUE" if name in link.keys else "FOREIGN KEY"
        keys[name] = KeyColumn(kind, refers_to)
    return SyntheticRows(types, table.rename_columns([f"c{k}" for k in range(len(types))]).to_reader(), keys)


def _type(domain: Domain, name: str) -> str:
    computed = {each.name: each.type for each in domain.computed}
    return computed.get(name) or domain[name].type


def _restore(session: Session, request: TablesRequest, stored: Sequence[Stored]) -> None:
    """Stored releases one of whose tables was dropped are drawn again, all of them: their keys join."""
    con = session.cursor()
    if all(catalog.find(con, one.name.quoted(), session.place) is not None for one in stored):
        return
    generator = np.random.default_rng(request.first.seed)
    drawn: dict[str, Drawn] = {}
    written = []
    for one in stored:
        link, state = _link(one.domain), one.state()
        made = Made(
            facts=dict(one.facts), state=state, classes=one.classes, tables={}, off=summary.off_domain(state, one.classes),
            rho=Fraction(0),
        )  # fmt: skip
        if link.parent is None:
            drawn[one.domain.table] = _root_rows(session, made, one.domain, generator)
        else:
            above = drawn[link.parent]
            parents = _parents(above, one.domain.table)
            given = dict(_given(con, one, stored, drawn, parents))
            drawn[one.domain.table] = _rows_below(session, made, one.domain, given, parents, above, generator)
        written.append((one, _as_rows(state, drawn[one.domain.table], one.domain), made.off))
    writing = session.cursor()
    with transaction(writing):
        for one, _, _ in reversed(written):
            store.drop_table(writing, one.name)
        for one, rows, off in written:
            store.write_table(writing, one.name, one.facts, rows, off)


def _given(
    con: duckdb.DuckDBPyConnection,
    one: Stored,
    stored: Sequence[Stored],
    drawn: Mapping[str, Drawn],
    parents: Integers,
) -> Iterator[tuple[str, Codes]]:
    """For each row, the stored class of the row above it in each attribute of tables above."""
    links = {each.domain.table: _link(each.domain) for each in stored}
    table, rows = links[one.domain.table].parent, parents
    row_above: dict[str, Integers] = {}
    while table is not None:
        row_above[table] = rows
        rows, table = drawn[table].parents[rows], links[table].parent
    own = set(one.domain.own) | set(_link(one.domain).below)
    for name, classes in one.classes.items():
        if name not in own:
            other, _, column = name.partition(".")
            con.register("__mwem_above", drawn[other].values)
            codes = codes_of(con, exp.table_("__mwem_above"), exp.column(column, quoted=True), classes, 1)
            off = len(classes.attribute.values or ()) if classes.attribute.open else 0
            yield name, np.where(codes >= 0, codes, classes.codes[off])[row_above[other]].astype(np.int32)


def _protects(stored: Sequence[Stored]) -> str:
    """Whose rows neighbouring databases differ by, in words."""
    below = [f"{one.facts['rows_per_unit']:,} rows of {one.domain.table}" for one in stored[1:]]
    return f"{protected(stored[0].domain.table, None)}, at most {' and '.join(below)}"


def _warnings(tree: Tree, made: Sequence[Made]) -> Iterator[str]:
    """What to know of each table, after its name."""
    for one, result in zip(tree.levels, made, strict=True):
        for text in (one.plan.warning, *result.off, summary.rows_used_warning(result.facts)):
            if text:
                yield f"{one.level.name}: {text}"


def _kept_warnings(stored: Sequence[Stored]) -> Iterator[str]:
    for one in stored:
        text = summary.rows_used_warning(one.facts)
        if text:
            yield f"{one.domain.table}: {text}"


def _added(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers of all tables together; the error is that of the worst."""
    names = ("rows", "rounds", "queries", "attributes", "cells", "measured")
    worst = max(facts, key=lambda one: one["mean_error"] or 0.0)
    return {
        **{name: sum(one[name] for one in facts) for name in names},
        "mean_error": worst["mean_error"],
        "mean_error_within": worst["mean_error_within"],
        "wrong": max(one["wrong"] for one in facts),
    }
