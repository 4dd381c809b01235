"""A workload to linear queries over classes: parse, evaluate on the public domain, take apart, recognise equals.

Reads no private row. The steps, in order: parse every text; cut each attribute's domain into pieces; let DuckDB evaluate the
leaves on them; group pieces into classes; build each query's blocks; merge classes that no block tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.compiler import predicate
from mwem_sql.compiler.blocks import MAX_CELLS, Builder, CompiledQuery, Parsed, fine_classes, on_classes, too_many
from mwem_sql.compiler.classes import Classes
from mwem_sql.compiler.dialect import fold
from mwem_sql.compiler.evaluate import Terms, cut, evaluate, run
from mwem_sql.compiler.predicate import Leaf
from mwem_sql.compiler.sandbox import Sandbox
from mwem_sql.compiler.shapes import Reader
from mwem_sql.domain import Domain
from mwem_sql.errors import PredicateError, WorkloadError, refuse
from mwem_sql.workload import Query, Workload

_PROBES = 1024  # public rows on which every text is evaluated a second time, as written


@dataclass(frozen=True, eq=False)
class Compiled:
    """What the private side and the loop need of a workload."""

    domain: Domain
    classes: dict[str, Classes]
    queries: tuple[CompiledQuery, ...]

    @cached_property
    def distinct(self) -> tuple[tuple[CompiledQuery, ...], npt.NDArray[np.float64]]:
        """One query for each thing asked, and its weight: the largest among the rows that ask it."""
        first: dict[bytes, CompiledQuery] = {}
        weights: dict[bytes, float] = {}
        for query in self.queries:
            key = query.linear.key
            first.setdefault(key, query)
            weights[key] = max(weights.get(key, 0.0), float(query.source.weight))
        return tuple(first.values()), np.array([weights[key] for key in first])

    @property
    def sizes(self) -> dict[str, npt.NDArray[np.float64]]:
        return {name: classes.sizes for name, classes in self.classes.items()}


def compile_workload(
    domain: Domain, workload: Workload, sandbox: Sandbox, finer_than: Mapping[str, Classes] | None = None
) -> Compiled:
    """Compile all queries. `finer_than` (a release's classes) makes every class part of one of those."""
    try:
        return _compiled(domain, workload, sandbox, finer_than)
    except RecursionError:
        raise refuse(
            PredicateError, "workload", "an expression of the workload is nested too deeply to be taken apart where the call comes from",
            "use IN lists, or more rows",
        ) from None


def _compiled(
    domain: Domain, workload: Workload, sandbox: Sandbox, finer_than: Mapping[str, Classes] | None
) -> Compiled:
    reader = Reader(domain.spelling, domain.table)
    parsed = _parse(domain, workload, reader)
    terms = _terms(parsed)
    mentioned = {name for leaf in terms.values() for name in leaf.columns}
    used = [name for name in domain.columns if name in mentioned]
    pieces = cut(domain, used, terms, sandbox, finer_than)
    values = evaluate(terms, pieces, sandbox)
    fine = fine_classes(pieces, values, finer_than)
    values = {key: on_classes(item, fine) for key, item in values.items()}
    builder = Builder(values, fine)
    drafts = [builder.draft(query, item) for query, item in zip(workload, parsed, strict=True)]
    coarse = builder.coarse_classes(drafts, finer_than)
    asked = enumerate(zip(workload, drafts, strict=True), start=1)
    queries = tuple(builder.settle(number, query, drafted, coarse) for number, (query, drafted) in asked)
    compiled = Compiled(domain, {name: own.joined() for name, own in coarse.items()}, queries)
    _check_cells(compiled)
    _check_as_written(compiled, workload, parsed, sandbox, set(reader.examples))
    return compiled


def _parse(domain: Domain, workload: Workload, reader: Reader) -> list[Parsed]:
    measures: dict[str, tuple[Leaf, ...]] = {}
    groups: dict[tuple[str, ...], tuple[Leaf, ...]] = {}
    out = []
    for query in workload:
        conjuncts = reader.read(query.predicate) if query.predicate is not None else ()
        if query.measure is not None and query.measure not in measures:
            tree = predicate.parse(query.measure, domain.spelling, "measure", domain.table)
            measures[query.measure] = tuple(map(predicate.leaf, _factors(tree)))
        key = (*(query.group_by or ()), str(query.verbatim))
        if key not in groups:
            groups[key] = tuple(_group_leaves(domain, query))
        out.append(Parsed(conjuncts, groups[key], measures[query.measure] if query.measure is not None else ()))
    return out


def _factors(tree: exp.Expr) -> Iterator[exp.Expr]:
    inner = tree.unnest()
    if isinstance(inner, exp.Mul):
        yield from _factors(inner.this)
        yield from _factors(inner.expression)
    else:
        yield inner


def _group_leaves(domain: Domain, query: Query) -> Iterator[Leaf]:
    if query.group_by is None:
        return
    if not query.verbatim:
        listed = predicate.parse_list(query.group_by[0], domain.spelling, "group_by", domain.table)
        yield from (predicate.leaf(part.unnest()) for part in listed)
        return
    for name in query.group_by:
        if fold(name) not in domain.spelling:
            raise refuse(
                WorkloadError, "workload", f"group_by names the unknown column {name!r}",
                f"{domain.table} has the columns {', '.join(domain.columns)}; an SQL expression goes into a plain VARCHAR",
            )
        yield _column_leaf(domain.spelling[fold(name)])


@lru_cache(maxsize=10_000)
def _column_leaf(name: str) -> Leaf:
    return predicate.leaf(exp.column(name, quoted=True))


def _terms(parsed: Sequence[Parsed]) -> Terms:
    """Every distinct leaf with its role: truth, group or sign."""
    conditions = dict.fromkeys(condition for item in parsed for condition in item.conjuncts)
    groups = dict.fromkeys(leaf for item in parsed for leaf in item.groups)
    factors = dict.fromkeys(leaf for item in parsed for leaf in item.factors)
    out = {("truth", leaf.sql): leaf for condition in conditions for leaf in predicate.leaves(condition)}
    out |= {("group", leaf.sql): leaf for leaf in groups}
    return out | {("sign", leaf.sql): leaf for leaf in factors}


def _check_cells(compiled: Compiled) -> None:
    for query in compiled.queries:
        if query.linear.domain_cells > MAX_CELLS:
            raise too_many(query.label, query.linear.attributes, query.linear.domain_cells)


def _check_as_written(
    compiled: Compiled, workload: Workload, parsed: Sequence[Parsed], sandbox: Sandbox, examples: set[str]
) -> None:
    """Evaluate every text as it was written (of predicates that differ in constants only, one) and compare on public rows.

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
    written = _as_written(compiled.domain.table, workload, parsed, sandbox, examples)
    for query in compiled.queries:
        source = query.source
        if source.predicate is not None and source.predicate not in examples:
            continue
        truth = written["truth", source.predicate] if source.predicate is not None else True
        sign = written["sign", source.measure] if source.measure is not None else 1
        adds = np.ones(_PROBES, dtype=np.int8)
        for block in query.linear.blocks:
            at = tuple(codes[name] for name in block.attributes)
            adds = adds * np.where(block.labels[at] >= 0, 1 if block.values is None else block.values[at], 0)
        listed = source.group_by is None or source.verbatim or written["group", source.group_by[0]].all()
        if not listed or (np.where(truth, sign, 0) != adds).any():
            raise refuse(
                PredicateError, "workload", f"query ({query.label!r}) is read in two ways by the parser and by DuckDB",
                "write it with plain operators and functions",
            )


def _as_written(
    table: str, workload: Workload, parsed: Sequence[Parsed], sandbox: Sandbox, examples: set[str]
) -> dict[tuple[str, str], npt.NDArray[Any]]:
    """Each text on the rows of `table`: a predicate's truth, a measure's value, whether a list is what sqlglot made of it."""
    # The texts as the analyst wrote them, so these cannot be trees. A newline ends a comment that a text may close with.
    texts: dict[tuple[str, str], str] = {}
    for query, item in zip(workload, parsed, strict=True):
        if query.predicate in examples:
            texts["truth", query.predicate] = f"coalesce(CAST(({query.predicate}\n) AS BOOLEAN), false)"
        if query.measure is not None:
            texts["sign", query.measure] = f"coalesce(CAST(({query.measure}\n) AS DOUBLE), 0)"
        if query.group_by is not None and not query.verbatim:
            (listed,) = query.group_by
            texts["group", listed] = f"row({listed}\n) IS NOT DISTINCT FROM row({', '.join(leaf.sql for leaf in item.groups)})"
    arrays = run(sandbox, table, [(text, expression) for (_, text), expression in texts.items()])
    return {key: array.to_numpy() for key, array in zip(texts, arrays, strict=True)}
