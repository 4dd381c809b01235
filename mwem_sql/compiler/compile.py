"""A workload to linear queries over classes: parse, evaluate on the public domain, take apart, recognise equals.

Reads no private row. The steps, in order: parse every text; cut each attribute's domain into pieces; let DuckDB evaluate the
leaves on them; group pieces into classes; build each query's blocks; merge classes that no block tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.compiler import predicate
from mwem_sql.compiler.blocks import MAX_CELLS, Builder, CompiledQuery, Parsed, fine_classes, on_classes, too_many
from mwem_sql.compiler.classes import Classes
from mwem_sql.compiler.dialect import fold
from mwem_sql.compiler.evaluate import Terms, cut, evaluate, evaluation_error, wrap
from mwem_sql.compiler.predicate import Leaf
from mwem_sql.compiler.sandbox import Sandbox
from mwem_sql.compiler.shapes import Reader
from mwem_sql.domain import Domain
from mwem_sql.errors import PredicateError, WorkloadError, refuse
from mwem_sql.workload import Query, Workload

_PROBES = 64  # public rows on which every predicate is evaluated a second time, as written


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
    coarse = builder.coarse_classes(finer_than)
    asked = enumerate(zip(workload, drafts, strict=True), start=1)
    queries = tuple(builder.settle(number, query, drafted, coarse) for number, (query, drafted) in asked)
    compiled = Compiled(domain, {name: own.joined() for name, own in coarse.items()}, queries)
    _check_cells(compiled)
    _check_as_written(compiled, sandbox, set(reader.examples))
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


def _check_as_written(compiled: Compiled, sandbox: Sandbox, examples: set[str]) -> None:
    """Evaluate one predicate of every shape as it was written, on some public rows, and compare.

    sqlglot reads a few operators otherwise than DuckDB does; a query that it took apart wrongly must not run.
    """
    asked = {query.source.predicate: query for query in compiled.queries if query.source.predicate in examples}
    if not asked:
        return
    generator = np.random.default_rng(0)
    codes = {name: generator.integers(0, own.count, _PROBES) for name, own in compiled.classes.items()}
    columns: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", pa.array([0] * _PROBES))}
    for name, own in compiled.classes.items():
        columns[name] = (own.attribute.type, own.pieces.values().take(pa.array(own.representatives[codes[name]])))
    sandbox.load(compiled.domain.table, columns)
    texts = list(asked)
    for start in range(0, len(texts), 250):
        batch = texts[start : start + 250]
        try:
            arrays = sandbox.evaluate(compiled.domain.table, [wrap("truth", f"{text}\n") for text in batch])
        except duckdb.Error as error:
            raise evaluation_error(batch[0] if len(batch) == 1 else "the workload", error) from None
        for text, array in zip(batch, arrays, strict=True):
            query = asked[text]
            if query.source.group_by is not None or query.source.measure is not None:
                continue
            counted = np.ones(_PROBES, dtype=bool)
            for block in query.linear.blocks:
                counted &= block.labels[tuple(codes[name] for name in block.attributes)] >= 0
            if (array.fill_null(False).to_numpy() != counted).any():
                raise refuse(
                    PredicateError, "workload", f"predicate ({text!r}) is read in two ways by the parser and by DuckDB",
                    "write it with plain operators and functions (regexp_full_match instead of ~)",
                )
