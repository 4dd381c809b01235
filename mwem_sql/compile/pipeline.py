"""A workload to linear queries over classes: the steps of `_compiled`, in their order. Reads no private row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.compile.build import (
    MAX_CELLS,
    Builder,
    counts_of_averages,
    hulls,
    reaches,
    rows_out_of_order,
    too_many,
)  # fmt: skip
from mwem_sql.compile.compiled import Compiled, CompiledQuery, Rows
from mwem_sql.compile.cut import cut, find_changes, find_ticks, with_stand_ins
from mwem_sql.compile.doubts import with_doubts
from mwem_sql.compile.evaluate import Terms, compare, evaluate, load_rows, run
from mwem_sql.compile.merge import Coarsening, coarse_classes, fine_classes, on_classes
from mwem_sql.compile.read import Parts, Reading, Shapes, read_workload
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import PredicateError, refuse_query
from mwem_sql.language import conditions
from mwem_sql.language.measures import LEVELS
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload

_PROBES = 1024  # public rows on which every text is evaluated a second time, as it stands


@uncollected()
def compile_workload(
    domain: Domain,
    workload: Workload,
    sandbox: Sandbox,
    finer_than: Mapping[str, Classes] | None = None,
    cuts: Sequence[Query] = (),
    *,
    shapes: Shapes | None = None,
) -> Compiled:
    """Compile all queries. `finer_than` (a release's classes) makes every class part of one of those.

    `cuts` are conditions on columns of the workload that classes are to distinguish, too, though nobody asks for them.
    `shapes` are those that were read, and checked under the sandbox's settings, before: these are not parsed and
    checked again.
    """
    try:
        return _compiled(domain, workload, sandbox, finer_than or {}, cuts, shapes=shapes)
    except RecursionError:
        raise refuse_query(
            "an expression of the workload is nested too deeply to be taken apart where the call comes from",
            "use IN lists, or more rows",
            PredicateError,
        ) from None


def _compiled(
    domain: Domain,
    workload: Workload,
    sandbox: Sandbox,
    finer_than: Mapping[str, Classes],
    cuts: Sequence[Query],
    *,
    shapes: Shapes | None,
) -> Compiled:
    # Read every text once, and list the distinct leaves.
    reading = read_workload(domain, workload, shapes)
    cutting = list(zip(cuts, read_workload(domain, Workload(tuple(cuts))).parts, strict=True)) if cuts else []
    terms = _terms([*reading.parts, *(parts for _, parts in cutting)])
    mentioned = {name for leaf in terms.values() for name in leaf.columns}
    used = [name for name in domain.columns if name in mentioned]
    # Cut each column's domain into pieces where some leaf may change.
    ticks = find_ticks(domain, used, terms, sandbox)
    changes = find_changes(domain, terms, sandbox)
    pieces = with_stand_ins(terms, cut(domain, used, terms, ticks, changes=changes, finer_than=finer_than), sandbox)
    # Let DuckDB evaluate the leaves on the pieces.
    values = compare(terms, pieces, ticks, sandbox)
    others = {key: leaf for key, leaf in terms.items() if key not in values}
    values |= evaluate(domain, others, pieces, finer_than, sandbox)
    values = with_doubts(terms, values, pieces, ticks, sandbox)
    # Merge pieces, build each query's blocks, and merge again what no block distinguishes.
    fine = fine_classes(pieces, values, finer_than)
    builder = Builder({key: on_classes(item, fine) for key, item in values.items()}, fine)
    compiled = _built(domain, reading, builder, finer_than, cutting)
    _check_cells(compiled)
    _check_as_written(compiled, reading, sandbox)
    if shapes is not None:
        shapes.checked.update(reading.ways)
    return compiled


def _terms(parsed: Sequence[Parts]) -> Terms:
    """Every distinct leaf with its role: truth, group or factor."""
    distinct = dict.fromkeys(chain.from_iterable(parsed))
    return {(part.role, leaf.sql): leaf for part in distinct for leaf in conditions.leaves(part.what)}


def _built(
    domain: Domain,
    reading: Reading,
    builder: Builder,
    finer_than: Mapping[str, Classes],
    cutting: Sequence[tuple[Query, Parts]],
) -> Compiled:
    """The queries, on the classes that they and what cuts these distinguish."""
    queries, parsed = reading.workload.queries, reading.parts
    batch = builder.batch(queries, parsed)
    counts = counts_of_averages(reading, builder)
    far, pairs = reaches(reading, builder), hulls(reading, builder)
    cuts = [builder.query(query, parts) for query, parts in cutting]
    doubtful = hulls(_reading(cutting), builder) if cutting else {}
    more = chain(counts.values(), far.values(), *pairs.values(), cuts)
    blocks = dict.fromkeys(chain(batch.blocks, (block for query in more for block in query.blocks)))
    coarse = coarse_classes(blocks, builder.fine, finer_than)
    coarsening = Coarsening(builder, coarse)
    special: dict[int, CompiledQuery] = {}
    rows = Rows(reading.workload, coarsening.batch(batch), coarsening.cells, special)
    for row in sorted({*counts, *far, *pairs, *rows_out_of_order(parsed, builder)}):
        query, parts = queries[row], parsed[row]
        made = _row(row, query, parts, builder.query(query, parts), coarsening)
        if row in counts:
            count = query._replace(name=f"count of {query.label}")
            made = replace(made, over=_row(row, count, parts, counts[row], coarsening))
        if row in far:
            made = replace(made, reach=coarsening.query(far[row]))
        if row in pairs:
            low, high = pairs[row]
            made = replace(made, hull=(coarsening.query(low), coarsening.query(high)))
        special[row] = replace(made, linear=rows.linear[row])
    return Compiled(
        domain,
        {name: classes.joined() for name, classes in coarse.items()},
        rows,
        tuple(None if row in doubtful else coarsening.query(cut) for row, cut in enumerate(cuts)),
    )


def _reading(cutting: Sequence[tuple[Query, Parts]]) -> Reading:
    """Conditions that were read beside a workload, by themselves."""
    queries, parts = zip(*cutting, strict=True)
    return Reading(
        workload=Workload(queries), parts=list(parts), measures={}, counts={}, examples=set(), ways=set(), lists=set()
    )


def _row(row: int, query: Query, parts: Parts, draft: LinearQuery, coarsening: Coarsening) -> CompiledQuery:
    """A row of the workload from its query over fine classes."""
    linear = coarsening.query(draft)
    if query.group_by is None:
        return CompiledQuery(number=row, source=query, linear=linear)
    groups = tuple([coarsening.cells[block] for block in linear.blocks])
    positions = coarsening.builder.positions(parts, draft)
    return CompiledQuery(number=row, source=query, linear=linear, groups=groups, positions=positions)


def _check_cells(compiled: Compiled) -> None:
    for number in np.flatnonzero(compiled.linear.domain_cells > MAX_CELLS)[:1].tolist():
        query = compiled.queries[number]
        raise too_many(query.label, query.linear.attributes, query.linear.domain_cells)


def _check_as_written(compiled: Compiled, reading: Reading, sandbox: Sandbox) -> None:
    """Evaluate texts as they stand in the workload and compare what was made of them, on public rows.

    sqlglot may read a text otherwise than DuckDB does; a query that was taken apart wrongly must not run.
    """
    texts = _texts(reading)
    if not texts:
        return
    generator = np.random.default_rng(0)
    columns: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", pa.array([0] * _PROBES))}
    codes = {}
    for name, classes in compiled.classes.items():
        # Every piece, or as many as there are rows, in any order.
        pieces = generator.permutation(np.resize(generator.permutation(len(classes.pieces)), _PROBES))
        codes[name] = classes.codes[pieces]
        columns[name] = (classes.attribute.type, classes.pieces.probe(pieces, generator))
    load_rows(sandbox, compiled.domain, columns)
    arrays = run(sandbox, compiled.domain.table, [(text, expression) for (_, text), expression in texts.items()])
    values = {key: array.to_numpy() for key, array in zip(texts, arrays, strict=True)}
    for row, source in enumerate(compiled.queries.workload):
        if source.predicate is not None and ("truth", source.predicate) not in values:
            continue
        of_list = None if source.verbatim else values.get(("group", source.group_text or ""))
        if source.predicate is None and source.measure is None and of_list is None:
            continue  # column names only
        query = compiled.queries[row]
        truth = values["truth", source.predicate] if source.predicate is not None else True
        number = values["measure", source.measure] if source.measure is not None else 1.0
        adds = _added(query.linear, codes)
        slack = _slack(query.linear) + (0 if query.reach is None else _added(query.reach, codes) + _slack(query.reach))
        is_same = of_list is None or of_list.all()
        if not is_same or (np.abs(np.where(truth, number, 0.0) - adds) > slack).any():
            raise refuse_query(
                f"query ({query.label!r}) is read in two ways by the parser and by DuckDB",
                "write it with plain operators and functions",
                PredicateError,
            )


def _added(query: LinearQuery, codes: Mapping[str, npt.NDArray[np.int32]]) -> npt.NDArray[np.float64]:
    """What public rows of these classes add to a query's answer."""
    adds = np.full(_PROBES, query.unit)
    for block in query.blocks:
        at = tuple(codes[name] for name in block.attributes)
        adds = adds * np.where(block.labels[at] >= 0, 1 if block.values is None else block.values[at], 0)
    return adds


def _slack(query: LinearQuery) -> float:
    """How far a sum on the grid may be from the measure's value, for one record: nothing, unless it was rounded."""
    rounded = sum(1 / block.bound for block in query.blocks if block.bound > 1) if query.bound > LEVELS / 4 else 1e-8
    return rounded * query.bound * query.unit


def _texts(reading: Reading) -> dict[tuple[str, str], str]:
    """SQL of each text: a predicate's truth, a measure's value, whether a list is what sqlglot made of it.

    Of predicates, one for each way of reading them. A newline ends a comment that a text may close with.
    """
    texts: dict[tuple[str, str], str] = {}
    for query, parts in zip(reading.workload, reading.parts, strict=True):
        if query.predicate in reading.examples:
            texts["truth", query.predicate] = f"coalesce(CAST(({query.predicate}\n) AS BOOLEAN), false)"
        if query.measure is not None:
            text = reading.measures[query.measure].text
            texts["measure", query.measure] = f"coalesce(CAST(({text}\n) AS DOUBLE), 0)"
        if query.group_by is not None and query.group_by[0] in reading.lists and not query.verbatim:
            (listed,) = query.group_by
            leaves = [leaf for part in parts if part.role == "group" for leaf in conditions.leaves(part.what)]
            read = ", ".join(leaf.sql for leaf in leaves)
            texts["group", listed] = f"row({listed}\n) IS NOT DISTINCT FROM row({read})"
    return texts
