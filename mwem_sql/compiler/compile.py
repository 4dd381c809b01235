"""A workload to linear queries over classes: parse, evaluate on the public domain, take apart, recognise equals.

Reads no private row. The steps, in order: parse every text; cut each attribute's domain into pieces; let DuckDB evaluate the
leaves on them; group pieces into classes; build each query's blocks; merge classes that no block tells apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.compiler import predicate
from mwem_sql.compiler.blocks import (
    MAX_CELLS,
    CompiledQuery,
    Parsed,
    coarse_classes,
    draft,
    fine_classes,
    on_classes,
    settle,
    too_many,
)
from mwem_sql.compiler.classes import Classes
from mwem_sql.compiler.dialect import fold
from mwem_sql.compiler.evaluate import Terms, cut, evaluate, run
from mwem_sql.compiler.predicate import Leaf
from mwem_sql.compiler.sandbox import Sandbox
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
    parsed = _parse(domain, workload)
    used = [name for name in domain.columns if name in _used_columns(parsed)]
    terms = _terms(parsed)
    pieces = cut(domain, used, terms, sandbox, finer_than)
    values = evaluate(terms, pieces, sandbox)
    fine = fine_classes(pieces, values, finer_than)
    values = {key: on_classes(item, fine) for key, item in values.items()}
    asked = enumerate(zip(workload, parsed, strict=True), start=1)
    drafts = [draft(number, query, item, values, fine) for number, (query, item) in asked]
    coarse = coarse_classes(fine, drafts, finer_than)
    queries = tuple(settle(drafted, fine, coarse) for drafted in drafts)
    compiled = Compiled(domain, {name: own.joined() for name, own in coarse.items()}, queries)
    _check_cells(compiled)
    _check_as_written(compiled, workload, parsed, sandbox)
    return compiled


def _parse(domain: Domain, workload: Workload) -> list[Parsed]:
    seen: dict[tuple[str, str], exp.Expr] = {}

    def tree(text: str, role: str) -> exp.Expr:
        if (text, role) not in seen:
            seen[text, role] = predicate.parse(text, domain.spelling, role, domain.table)
        return seen[text, role]

    out = []
    for query in workload:
        conjuncts = predicate.conjuncts(tree(query.predicate, "predicate")) if query.predicate is not None else ()
        factors = _factors(tree(query.measure, "measure")) if query.measure is not None else ()
        groups = tuple(_group_leaves(domain, query))
        out.append(Parsed(tuple(map(predicate.condition, conjuncts)), groups, tuple(map(predicate.leaf, factors))))
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
        yield predicate.leaf(exp.column(domain.spelling[fold(name)], quoted=True))


def _used_columns(parsed: Sequence[Parsed]) -> set[str]:
    used: set[str] = set()
    for item in parsed:
        for conjunct in item.conjuncts:
            used.update(conjunct.columns)
        for leaf in item.groups + item.factors:
            used.update(leaf.columns)
    return used


def _terms(parsed: Sequence[Parsed]) -> Terms:
    """Every distinct leaf with its role: truth, group or sign."""
    out: dict[tuple[str, str], Leaf] = {}
    for item in parsed:
        for conjunct in item.conjuncts:
            for leaf in predicate.leaves(conjunct):
                out.setdefault(("truth", leaf.sql), leaf)
        for leaf in item.groups:
            out.setdefault(("group", leaf.sql), leaf)
        for leaf in item.factors:
            out.setdefault(("sign", leaf.sql), leaf)
    return out


def _check_cells(compiled: Compiled) -> None:
    for query in compiled.queries:
        if query.linear.domain_cells > MAX_CELLS:
            raise too_many(query.label, query.linear.attributes, query.linear.domain_cells)


def _check_as_written(compiled: Compiled, workload: Workload, parsed: Sequence[Parsed], sandbox: Sandbox) -> None:
    """Evaluate every text as it was written, on some public rows, and compare.

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
    written = _as_written(compiled.domain.table, workload, parsed, sandbox)
    for query in compiled.queries:
        source = query.source
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
    table: str, workload: Workload, parsed: Sequence[Parsed], sandbox: Sandbox
) -> dict[tuple[str, str], npt.NDArray[Any]]:
    """Each text on the rows of `table`: a predicate's truth, a measure's value, whether a list is what sqlglot made of it."""
    # The texts as the analyst wrote them, so these cannot be trees. A newline ends a comment that a text may close with.
    texts: dict[tuple[str, str], str] = {}
    for query, item in zip(workload, parsed, strict=True):
        if query.predicate is not None:
            texts["truth", query.predicate] = f"coalesce(CAST(({query.predicate}\n) AS BOOLEAN), false)"
        if query.measure is not None:
            texts["sign", query.measure] = f"coalesce(CAST(({query.measure}\n) AS DOUBLE), 0)"
        if query.group_by is not None and not query.verbatim:
            (listed,) = query.group_by
            texts["group", listed] = f"row({listed}\n) IS NOT DISTINCT FROM row({', '.join(leaf.sql for leaf in item.groups)})"
    arrays = run(sandbox, table, [(text, expression) for (_, text), expression in texts.items()])
    return {key: array.to_numpy() for key, array in zip(texts, arrays, strict=True)}
