"""A release of several tables: one request, one debit, one snapshot; a release for each table, whose rows join by keys.

Tables are measured from the root down, and fitted in passes over all of them (releases/passes.py). Rows are drawn given
the rows that they lead to. Keys are new numbers. All is stored in one transaction, or nothing is.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb

from mwem_sql.accounting.caps import Charge, protected_below
from mwem_sql.accounting.ledger import Receipt
from mwem_sql.accounting.subjects import check_writable
from mwem_sql.boundary.levels import read_levels
from mwem_sql.errors import RELEASE, OutputError, refuse
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.language.dialect import fold
from mwem_sql.model.state import State
from mwem_sql.platform import calls, catalog
from mwem_sql.platform.calls import announce
from mwem_sql.platform.catalog import Name
from mwem_sql.platform.metadata import read_rows
from mwem_sql.platform.session import Session, transaction
from mwem_sql.releases import ddl, entries, passes, reuse, store, summary
from mwem_sql.releases.drawing import Drawing, link_of
from mwem_sql.releases.entries import Entry
from mwem_sql.releases.levels import TablesRequest, TreePlan, plan_tree, same_rows
from mwem_sql.releases.request import Request
from mwem_sql.releases.reuse import RequestHash
from mwem_sql.releases.run import (
    Made,
    Run,
    first_query,
    noise_of,
    run_release,
    store_all,
    uncapped,
)
from mwem_sql.releases.store import Stored
from mwem_sql.scan import execution
from mwem_sql.scan.engines.protocol import Snapshot

NOISY: Final = 0.5
"""Of all rows: from how many on that are noise the summary says so. Larger: fewer are warned."""


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
        row["quality"] = max((str(one["quality"]) for one in each.values()), key=("good", "fair", "poor").index)
        return cls(row=row, each=[(output, each[output]) for output in outputs])


def summary_row(session: Session, request: Request | TablesRequest) -> dict[str, Any]:
    """The row that a call returns, of one table or of several."""
    if isinstance(request, TablesRequest):
        return run_tables(session, request).row
    return run_release(session, request)[1]


def run_tables(session: Session, request: TablesRequest) -> Summaries:
    """Make the releases, or find the stored ones."""
    started = time.monotonic()
    calls.stands("mwem_ledger() tells the same: nothing was charged. Call again, at no loss")
    con = session.cursor()
    named = [reuse.names(con, session, request.of(text)) for text in request.tables]
    outputs = [output for _, output in named]
    with ExitStack() as locks:
        for output in sorted(set(outputs), key=str):  # one that is named twice is refused below
            locks.enter_context(reuse.output_lock(con, output))
        fingerprint = fingerprint_of_tables(con, session, request, named)
        stored = stored_tables(con, request, outputs, fingerprint)
        if stored is not None:
            reuse.check_seed(con, session, request.first, named[0][0])
            _restore(session, request, stored)
            seconds = time.monotonic() - started
            kept = {one.name: one.facts for one in stored}
            return Summaries.of(outputs, kept, _protects(stored), seconds, [*_kept_warnings(stored)], reused=True)
        tree, ordered = planned_tables(con, session, request, named)
        text = ", ".join(map(str, ordered))
        with entries.opened(
            session, request.first, tree.ledger, charge_of_tables(tree), fingerprint, output=ordered[-1], outputs=text,
            workload=first_query(tree.root.plan.compiled), noise=noise_of(request.first),
        ) as entry:  # fmt: skip
            marks = {"entry": entry.receipt.entry, "request": fingerprint.hash, "asked": fingerprint.content}
            made = _run_and_store(session, request, tree, entry, outputs=ordered, marks=marks)
        announce(request.first.table, "done")
        warnings: list[str | None] = [entry.warning, *_warnings(tree, made)]
        warnings.append(uncapped(request.first, tree.ledger, entry.receipt))
        facts = {output: one.facts for output, one in zip(ordered, made, strict=True)}
        return Summaries.of(outputs, facts, tree.protects, time.monotonic() - started, warnings, reused=False)


def planned_tables(
    con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest, named: Sequence[tuple[Name, Name]]
) -> tuple[TreePlan, list[Name]]:
    """The plan of a release that is not stored yet, and its outputs, the root's first; all is refused but by caps."""
    announce(request.first.table, "planning")
    tree = plan_tree(session, request)
    by_table = {tuple(private.identity): output for private, output in named}
    ordered = [by_table[tuple(one.level.table.name.identity)] for one in tree.levels]
    _check_writable(con, session, tree, ordered)
    reuse.check_replaceable(con, ordered, request.first.version)
    reuse.check_theirs(session, tree.ledger, ordered)
    return tree, ordered


def fingerprint_of_tables(
    con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest, named: Sequence[tuple[Name, Name]]
) -> RequestHash:
    """Of the request alone: of each table what a release of it alone would have, whatever order they are named in."""
    each = sorted(
        (private.identity, reuse.fingerprint(con, session, request.of(text), private, output))
        for text, (private, output) in zip(request.tables, named, strict=True)
    )
    numbers = _numbers(con, session, request, [output for _, output in named])
    whole = json.dumps([[one.hash for _, one in each], numbers])
    content = json.loads(each[0][1].content)
    content |= {
        "rows_per_unit": json.dumps(numbers).replace('"', ""),
        "table": [json.loads(one.content)["table"] for _, one in each],
    }
    return RequestHash(hashlib.sha256(whole.encode()).hexdigest(), json.dumps(content, sort_keys=True))


def _numbers(
    con: duckdb.DuckDBPyConnection, session: Session, request: TablesRequest, outputs: Sequence[Name]
) -> dict[str, int]:
    """How many rows of a unit are used of each table below the root, whether a call says it for all or one by one.

    Which one is the root, a stored release says; the catalog where there is none.
    """
    most = request.rows_per_unit
    if not isinstance(most, int):
        return dict(sorted(most.items()))
    newest = [store.stored(con, output, facts) for output in outputs for facts in store.releases_of(con, output)[:1]]
    roots = [one.domain.table for one in newest if one.domain.link is not None and one.domain.link.parent is None]
    root = fold(
        roots[0] if roots else read_levels(session.private.cursor(), request.tables, session.private.place)[0].name
    )
    names = [fold(catalog.split_name(text)[-1]) for text in request.tables]
    return dict.fromkeys(sorted(name for name in names if name != root), most)


def stored_tables(
    con: duckdb.DuckDBPyConnection, request: TablesRequest, outputs: Sequence[Name], fingerprint: RequestHash
) -> list[Stored] | None:
    """The stored releases of this very request, each after its parent; None if there are none."""
    facts_of = [reuse.stored_release(con, output, fingerprint, request.first, named=False) for output in outputs]
    if all(facts is None for facts in facts_of):
        return None
    for output, facts in zip(outputs, facts_of, strict=True):
        if facts is None:
            what = f"output ({output}) is no longer beside the others of its release"
            raise refuse(OutputError, RELEASE, what, "give a new version := '...' to make and charge them anew")
    stored = [store.stored(con, output, facts) for output, facts in zip(outputs, facts_of, strict=True) if facts]
    return sorted(stored, key=lambda one: int(one.facts["release"]))


def joined_tables(con: duckdb.DuckDBPyConnection, stored: Stored, function: str) -> list[Stored]:
    """All tables of a stored release, each after its parent; of a release of one table, that one."""
    if stored.domain.link is None:
        return [stored]
    home = stored.name.database
    same = [row for row in read_rows(con, home, "releases") if row["entry"] == stored.facts["entry"]]
    out = []
    for row in sorted(same, key=lambda row: int(row["release"])):
        name = Name(home, row["schema_name"], row["table_name"])
        newest = store.releases_of(con, name)[0]
        if newest["release"] != row["release"]:
            what = f"output ({name}) is another release than that of {stored.name.table}"
            raise refuse(OutputError, function, what, "give a new version := '...' to make them together")
        store.check_standing(con, name, newest, function)
        out.append(store.stored(con, name, newest))
    return out


def _check_writable(con: duckdb.DuckDBPyConnection, session: Session, tree: TreePlan, outputs: Sequence[Name]) -> None:
    databases = catalog.databases(con)
    if databases[outputs[0].database].read_only:
        what = f"output ({outputs[0]}) is in a database that cannot be written"
        raise refuse(OutputError, RELEASE, what, "USE a writable one")
    check_writable(session, tree.ledger, databases, RELEASE)


def charge_of_tables(tree: TreePlan) -> Charge:
    """All of the budget: a unit is a row of the root, and what leads to it."""
    composition = replace(tree.root.plan.schedule.composition, limit=tree.limit)
    return Charge.of(composition, tree.root.level.base.table, None)


def _check_of(session: Session, request: TablesRequest, tree: TreePlan, receipt: Receipt) -> execution.Check:
    """Whether a snapshot has what was planned and charged: the same tables, keys and account."""

    def check(snapshot: Snapshot) -> execution.Fingerprint:
        con = snapshot.home or session.private.cursor()
        account = tree.ledger.at(con).account
        if not same_rows(session, request, tree, snapshot) or account != receipt.account:
            raise execution.ChangedError
        files = [level.table.files for level in tree.tables]
        return lambda: [each.state() for each in files if each is not None]

    return check


def _run_and_store(
    session: Session, request: TablesRequest, tree: TreePlan, entry: Entry, *, outputs: Sequence[Name],
    marks: Mapping[str, str],
) -> list[Made]:  # fmt: skip
    """The private part, table by table, and the rows that follow from it.

    Privacy:
        The debit has been committed. One accountant is debited by the kernels of all tables; a table's kernel counts
        all rows that a unit may have in it. What leaves one kernel decides what the next is asked: they compose.
    """
    draws = entry.draws
    composition = tree.root.plan.schedule.composition
    accountant = Accountant(composition.kind, tree.limit, composition.budget)
    announce(request.first.table, "reading")
    answers = execution.all_answers(
        execution.engine_of(session.private.cursor(), tree.root.level.table),
        [one.plan.pushdown for one in tree.levels],
        _check_of(session, request, tree, entry.receipt),
    )
    runs = [
        Run(one.request, one.plan, counts, accountant, draws) for one, counts in zip(tree.levels, answers, strict=True)
    ]
    del answers
    # What is asked below follows from the rows above, which are drawn the same if the release goes on later.
    seed = draws.seed(request.first.seed)
    made, drawing = passes.made(tree, runs, lambda: Drawing(session, seed), marks)
    accountant.settle()
    contents = [
        store.Content(facts=one.facts, rows=drawing.rows(level.plan.compiled.published), tables=one.tables,
                      off=one.off, name=output)
        for one, level, output in zip(made, tree.levels, outputs, strict=True)
    ]  # fmt: skip
    releases = store_all(session, contents)
    return [replace(one, facts=one.facts | {"release": number}) for one, number in zip(made, releases, strict=True)]


def _restore(session: Session, request: TablesRequest, stored: Sequence[Stored]) -> None:
    """Stored releases one of whose tables was dropped are drawn again, all of them: their keys join."""
    con = session.cursor()
    if all(catalog.find(con, one.name.quoted(), session.place) is not None for one in stored):
        return
    drawing = Drawing(session, request.first.seed)
    for one in stored:
        state, domain = one.state(), one.domain
        if link_of(domain).parent is None:
            drawing.draw_root(domain, state, one.classes, one.facts["rows"])
        else:
            assert isinstance(state, State)  # no average is made of several tables
            parents = drawing.parents(domain)
            drawing.draw(domain, state, one.classes, drawing.codes(domain, one.classes, parents), parents)
    writing = session.cursor()
    with transaction(writing):
        for one in reversed(stored):
            writing.execute(ddl.drop(one.name))
        for one in stored:
            off = summary.off_domain(one.state(), one.classes)
            store.write_table(writing, one.name, one.facts, drawing.rows(one.domain), off)


def _protects(stored: Sequence[Stored]) -> str:
    """Whose rows neighbouring databases differ by, in words."""
    return protected_below(stored[0].domain.table, {one.domain.table: one.facts["rows_per_unit"] for one in stored[1:]})


def _warnings(tree: TreePlan, made: Sequence[Made]) -> Iterator[str]:
    """What to know of each table, after its name."""
    rows = sum(one.rows for one in made)
    if tree.noise > NOISY * max(1, rows):
        yield (
            f"numbers of rows are mostly noise: {rows:,} rows were made, and it may add or take some {tree.noise:,.0f};"
            " a larger epsilon or smaller rows_per_unit helps"
        )
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
