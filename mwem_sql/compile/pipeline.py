"""A workload to linear queries over classes: parse, evaluate on the public domain, take apart, recognise equals.

Reads no private row. The steps, in order: parse every text; cut each attribute's domain into pieces; let DuckDB evaluate the
leaves on them; group pieces into classes; build each query's blocks; merge classes that no block tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.algebra.partition import encode
from mwem_sql.compile.blocks import MAX_CELLS, Builder, Draft, too_many
from mwem_sql.compile.changes import find_changes
from mwem_sql.compile.compiled import Compiled, CompiledQuery, Rows
from mwem_sql.compile.cuts import compare, find_ticks
from mwem_sql.compile.doubts import with_doubts
from mwem_sql.compile.evaluate import TRUE, Evaluated, Terms, Values, cut, evaluate, run, with_stand_ins
from mwem_sql.compile.lists import spelled_out
from mwem_sql.compile.merging import coarse_classes, fine_classes, on_classes
from mwem_sql.compile.settled import Settler
from mwem_sql.compile.templates import Reader
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import PredicateError, refuse_query
from mwem_sql.language import conditions, predicate
from mwem_sql.language.conditions import Leaf, Part
from mwem_sql.language.dialect import fold
from mwem_sql.language.measures import LEVELS, Measure, read_measure
from mwem_sql.platform.calls import uncollected
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload

Parts = tuple[Part, ...]

_PROBES = 1024  # public rows on which every text is evaluated a second time, as written


@uncollected()
def compile_workload(
    domain: Domain, workload: Workload, sandbox: Sandbox, finer_than: Mapping[str, Classes] | None = None
) -> Compiled:
    """Compile all queries. `finer_than` (a release's classes) makes every class part of one of those."""
    try:
        return _compiled(domain, workload, sandbox, finer_than or {})
    except RecursionError:
        raise refuse_query(
            "an expression of the workload is nested too deeply to be taken apart where the call comes from",
            "use IN lists, or more rows",
            PredicateError,
        ) from None


def _compiled(domain: Domain, workload: Workload, sandbox: Sandbox, finer_than: Mapping[str, Classes]) -> Compiled:
    workload = spelled_out(domain, workload)
    reader = Reader(domain.spelling, domain.table)
    measures = _measures(domain, workload)
    parsed = _parse(domain, workload, reader, measures)
    terms = _terms(parsed)
    mentioned = {name for leaf in terms.values() for name in leaf.columns}
    used = [name for name in domain.columns if name in mentioned]
    ticks = find_ticks(domain, used, terms, sandbox)
    changes = find_changes(domain, terms, sandbox)
    pieces = with_stand_ins(terms, cut(domain, used, terms, ticks, changes=changes, finer_than=finer_than), sandbox)
    values = compare(terms, pieces, ticks, sandbox)
    values |= evaluate(
        domain, {key: leaf for key, leaf in terms.items() if key not in values}, pieces, finer_than, sandbox
    )
    values = with_doubts(terms, values, pieces, ticks, sandbox)
    fine = fine_classes(pieces, values, finer_than)
    values = {key: on_classes(item, fine) for key, item in values.items()}
    averages = {
        row: tuple(reader.part("known", part.what) if part.role == "factor" else part for part in parts)
        for row, (query, parts) in enumerate(zip(workload, parsed, strict=True))
        if query.measure is not None and measures[query.measure].is_average
    }
    coarse, queries = _build(workload, parsed, averages, Builder(values, fine), finer_than)
    compiled = Compiled(domain, {name: own.joined() for name, own in coarse.items()}, queries)
    _check_cells(compiled)
    _check_as_written(compiled, _texts(workload, parsed, measures, set(reader.examples)), sandbox)
    return compiled


def read_workload(domain: Domain, workload: Workload) -> tuple[list[Parts], dict[str, Measure]]:
    """What each query asks, part by part, and the measures by their text. Refuses what a workload may not say, and evaluates nothing."""
    workload, measures = spelled_out(domain, workload), _measures(domain, workload)
    return _parse(domain, workload, Reader(domain.spelling, domain.table), measures), measures


def _build(
    workload: Workload, parsed: Sequence[Parts], averages: Mapping[int, Parts], builder: Builder, finer_than: Mapping[str, Classes]
) -> tuple[dict[str, Classes], Rows]:  # fmt: skip
    """The classes that the queries tell apart, and the queries on them. `averages` are the counts that some divide by."""
    queries = workload.queries
    drafts = builder.batch(queries, parsed)
    counts = {row: builder.draft(queries[row], parts) for row, parts in averages.items()}
    reaches, hulls = _reaches(workload, parsed, builder), _hulls(workload, parsed, builder)
    more = chain(counts.values(), reaches.values(), *hulls.values())
    blocks = dict.fromkeys(chain(drafts.queries.blocks, (each.block for draft in more for each in draft)))
    coarse = coarse_classes(blocks, builder.fine, finer_than)
    settler = Settler(builder.fine, coarse)
    special: dict[int, CompiledQuery] = {}
    rows = Rows(workload, settler.settle_all(drafts), settler.groups, special)
    for row in sorted({*counts, *reaches, *hulls, *_rows_out_of_order(parsed, builder)}):
        query, parts = queries[row], parsed[row]
        found = settler.settle(row, query, parts, builder.draft(query, parts))
        if row in counts:
            counted = query._replace(name=f"count of {query.label}")
            found = found._replace(over=settler.settle(row, counted, parts, counts[row]))
        if row in reaches:
            found = found._replace(reach=settler.settle(row, query, parts, reaches[row]).linear)
        if row in hulls:
            no, yes = (settler.settle(row, query, parts, draft).linear for draft in hulls[row])
            found = found._replace(hull=(no, yes))
        special[row] = found._replace(linear=rows.linear[row])
    return coarse, rows


def _rows_out_of_order(parsed: Sequence[Parts], builder: Builder) -> Iterator[int]:
    """Rows whose group_by values are not in the order of the table's columns, one each."""
    place = {name: place for place, name in enumerate(builder.fine)}
    distinct = dict.fromkeys(chain.from_iterable(parsed))
    groups = {part for part in distinct if part.role == "group"}
    # Parts of several columns, or of none, join or move blocks.
    odd = {part for part in distinct if len(part.columns) != 1}
    places = {part: place[part.columns[0]] for part in groups - odd}
    for row, parts in enumerate(parsed if groups else ()):
        listed = [places.get(part, -1) for part in parts if part in groups]
        if listed and (listed != sorted(set(listed)) or not odd.isdisjoint(parts)):
            yield row


def _reaches(workload: Workload, parsed: Sequence[Parts], builder: Builder) -> dict[int, Draft]:
    """Of sums over bins, by row, how far the records of each class may be from what they are counted with."""
    one, several = (
        Builder(_far(builder.values, add=False), builder.fine),
        Builder(_far(builder.values, add=True), builder.fine),
    )
    out = {}
    for row, (query, parts) in enumerate(zip(workload, parsed, strict=True)):
        far = [part for part in parts if part.role == "factor" and _has_reach(builder.values, part)]
        if far:
            # Of a product of several such factors, all that it may be.
            out[row] = (one if len(far) == 1 else several).draft(query, parts)
    return out


def _hulls(workload: Workload, parsed: Sequence[Parts], builder: Builder) -> dict[int, tuple[Draft, Draft]]:
    """Of queries with conditions in doubt, by row: as if these were false wherever they are in doubt, and as if they were true."""
    if all(item.doubt is None for item in builder.values.values()):
        return {}
    no, yes = (Builder(_decided(builder.values, truth), builder.fine) for truth in (0, TRUE))
    out = {}
    for row, (query, parts) in enumerate(zip(workload, parsed, strict=True)):
        leaves = [leaf for part in parts if part.role == "truth" for leaf in conditions.leaves(part.what)]
        if any(builder.values["truth", leaf.sql].doubt is not None for leaf in leaves):
            draft, *pair = (each.draft(query, parts) for each in (builder, no, yes))
            # A group of the same column as a condition has other cells if other rows are counted.
            if all([own.cells for own in each] == [own.cells for own in draft] for each in pair):
                out[row] = pair[0], pair[1]
    return out


def _decided(values: Evaluated, truth: int) -> Evaluated:
    """The same where nothing is in doubt."""
    return {
        key: item
        if item.doubt is None
        else Values(item.columns, encode(np.where(item.doubt, truth, item.array).astype(np.int8)))
        for key, item in values.items()
    }


def _has_reach(values: Evaluated, part: Part) -> bool:
    assert isinstance(part.what, Leaf)
    reach = values["factor", part.what.sql].reach
    return reach is not None and bool(reach.any())


def _far(values: Evaluated, *, add: bool) -> Evaluated:
    """Measures by how far they may be from their means; those that are not, and with `add` all, by their size."""
    out = dict(values)
    for (role, sql), item in values.items():
        if role == "factor":
            size = np.abs(item.array)
            far = size if item.reach is None or not item.reach.any() else item.reach + (size if add else 0 * size)
            out[role, sql] = Values(item.columns, far)
    return out


def _measures(domain: Domain, workload: Workload) -> dict[str, Measure]:
    texts = dict.fromkeys(query.measure for query in workload if query.measure is not None)
    return {text: read_measure(text, domain.spelling, domain.table) for text in texts}


def _parse(domain: Domain, workload: Workload, reader: Reader, measures: Mapping[str, Measure]) -> list[Parts]:
    """What each query asks, part by part."""
    factors = {
        text: tuple(reader.part("factor", leaf) for leaf in measure.factors) for text, measure in measures.items()
    }
    columns: dict[str, Part] = {}
    lists: dict[str, Parts] = {}
    out = []
    for query in workload:
        parts = reader.read(query.predicate) if query.predicate is not None else ()
        if query.group_by is not None and query.verbatim:
            for name in query.group_by:
                if name not in columns:
                    columns[name] = reader.part("group", _column(domain, name))
            parts += tuple([columns[name] for name in query.group_by])
        elif query.group_by is not None:
            (text,) = query.group_by
            if text not in lists:
                trees = predicate.parse_list(text, domain.spelling, "group_by", domain.table)
                lists[text] = tuple(reader.part("group", conditions.leaf(tree.unnest())) for tree in trees)
            parts += lists[text]
        if query.measure is not None:
            parts += factors[query.measure]
        out.append(parts)
    return out


def _column(domain: Domain, name: str) -> Leaf:
    return conditions.leaf(exp.column(domain.spelling[fold(name)], quoted=True))


def _terms(parsed: Sequence[Parts]) -> Terms:
    """Every distinct leaf with its role: truth, group or factor."""
    distinct = dict.fromkeys(part for parts in parsed for part in parts)
    return {(part.role, leaf.sql): leaf for part in distinct for leaf in conditions.leaves(part.what)}


def _check_cells(compiled: Compiled) -> None:
    for number in np.flatnonzero(compiled.linear.domain_cells > MAX_CELLS)[:1].tolist():
        query = compiled.queries[number]
        raise too_many(query.label, query.linear.attributes, query.linear.domain_cells)


def _check_as_written(compiled: Compiled, texts: Mapping[tuple[str, str], str], sandbox: Sandbox) -> None:
    """Evaluate texts as they were written and compare what was made of them, on public rows.

    sqlglot may read a text otherwise than DuckDB does; a query that was taken apart wrongly must not run.
    """
    generator = np.random.default_rng(0)
    columns: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", pa.array([0] * _PROBES))}
    codes = {}
    for name, own in compiled.classes.items():
        # Every piece, or as many as there are rows, in any order.
        pieces = generator.permutation(np.resize(generator.permutation(len(own.pieces)), _PROBES))
        codes[name] = own.codes[pieces]
        columns[name] = (own.attribute.type, own.pieces.probe(pieces, generator))
    sandbox.load(compiled.domain.table, columns)
    arrays = run(sandbox, compiled.domain.table, [(text, expression) for (_, text), expression in texts.items()])
    written = {key: array.to_numpy() for key, array in zip(texts, arrays, strict=True)}
    for row, source in enumerate(compiled.queries.workload):
        if source.predicate is not None and ("truth", source.predicate) not in written:
            continue
        if source.predicate is None and source.measure is None and source.verbatim:
            continue  # column names only
        query = compiled.queries[row]
        truth = written["truth", source.predicate] if source.predicate is not None else True
        number = written["measure", source.measure] if source.measure is not None else 1.0
        adds = _added(query.linear, codes)
        slack = _slack(query.linear) + (0 if query.reach is None else _added(query.reach, codes) + _slack(query.reach))
        listed = source.group_by is None or source.verbatim or written["group", source.group_by[0]].all()
        if not listed or (np.abs(np.where(truth, number, 0.0) - adds) > slack).any():
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
    """How far a sum on the grid may be from what was written, for one record: nothing, unless it was rounded to fit."""
    rounded = sum(1 / block.bound for block in query.blocks if block.bound > 1) if query.bound > LEVELS / 4 else 1e-8
    return rounded * query.bound * query.unit


def _texts(
    workload: Workload, parsed: Sequence[Parts], measures: Mapping[str, Measure], examples: set[str]
) -> dict[tuple[str, str], str]:
    """SQL of each text as it was written: a predicate's truth, a measure's value, whether a list is what sqlglot made of it.

    Of predicates, one for each way of reading them. A newline ends a comment that a text may close with.
    """
    texts: dict[tuple[str, str], str] = {}
    for query, parts in zip(workload, parsed, strict=True):
        if query.predicate in examples:
            texts["truth", query.predicate] = f"coalesce(CAST(({query.predicate}\n) AS BOOLEAN), false)"
        if query.measure is not None:
            texts["measure", query.measure] = f"coalesce(CAST(({measures[query.measure].text}\n) AS DOUBLE), 0)"
        if query.group_by is not None and not query.verbatim:
            (listed,) = query.group_by
            read = ", ".join(
                leaf.sql for part in parts if part.role == "group" for leaf in conditions.leaves(part.what)
            )
            texts["group", listed] = f"row({listed}\n) IS NOT DISTINCT FROM row({read})"
    return texts
