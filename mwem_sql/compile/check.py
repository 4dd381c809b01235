"""Questions that would cost budget and say nothing are refused on the public domain.

The answer to a predicate that is the same for every value of the domain is public: `city = 'Zurich'` where the list has
no Zurich. Reads no private row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.evaluate import load_rows, run
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.attribute import Attribute
from mwem_sql.errors import MwemError, PredicateError, did_you_mean, literal, refuse
from mwem_sql.language import conditions, predicate
from mwem_sql.language.conditions import Condition, Leaf
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Workload


def check_constants(compiled: Compiled, sandbox: Sandbox) -> list[str]:
    """Refuse predicates that say the same of every value of the public domain and can only be a mistake.

    A mistake: a column is to be equal to values that its domain does not have (`city = 'Zurich'`), or the text is no
    condition (`age + 1`). Not refused: `true` and `1 = 1`, comparisons that all values pass or none (`age >= 0`, `age >
    200`), as ranges beyond the end of a domain are. Returns other predicates that are never true.
    """
    out = []
    constants = list(_constants(compiled, sandbox))
    types = _types(compiled, [text for text, _ in constants], sandbox)
    for (text, truth), type_ in zip(constants, types, strict=True):
        tree = predicate.parse(text, compiled.domain.spelling, "predicate", compiled.domain.table)
        conjuncts = [conditions.condition(part) for part in conditions.conjuncts(tree)]
        if not any(part.columns for part in conjuncts):
            continue
        is_condition = type_ in {"BOOLEAN", '"NULL"'}
        unknown = next(_unknown(compiled, conjuncts, sandbox), None) if not truth else None
        if unknown is not None:
            raise _refused(text, truth, _nearest(*unknown))
        if not is_condition:
            raise _refused(text, truth, f"write a condition, such as {flat(text)} > 0; 'true' counts all rows")
        if not truth:
            out.append(text)
    return out


def _refused(text: str, truth: bool, cure: str) -> MwemError:
    always = "true" if truth else "false or NULL"
    what = (
        f"predicate ({flat(text)!r}) is {always} for every value of the public domain, so its answer is known already"
    )
    return refuse(PredicateError, "workload", what, cure)


def flat(text: str) -> str:
    """A text of the workload on one line, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:117]}..."


def _types(compiled: Compiled, texts: Sequence[str], sandbox: Sandbox) -> list[object]:
    if not texts:
        return []
    one = {
        name: (classes.attribute.type, classes.pieces.values().slice(0, 1))
        for name, classes in compiled.classes.items()
    }
    load_rows(sandbox, compiled.domain, one or {"__one": ("INTEGER", pa.array([0]))})
    arrays = run(sandbox, compiled.domain.table, [(text, f"typeof(({text}\n))") for text in texts])
    return [array[0].as_py() for array in arrays]


def _constants(compiled: Compiled, sandbox: Sandbox) -> Iterator[tuple[str, bool]]:
    """Predicates that are the same everywhere, and what they are."""
    others: dict[str, None] = {}
    constant = _constant(compiled)
    for row, query in enumerate(compiled.queries.workload):
        if query.predicate is not None and query.group_by is None and query.measure is None:
            if row in constant:
                yield query.predicate, constant[row]
        elif query.predicate is not None:
            others[query.predicate] = None
    if others:  # by themselves: beside groups and measures they cannot be seen
        constant = _constant(compile_workload(compiled.domain, Workload.from_predicates(others), sandbox))
        yield from ((text, constant[row]) for row, text in enumerate(others) if row in constant)


def _constant(compiled: Compiled) -> dict[int, bool]:
    """Rows whose condition is the same everywhere, and what it is."""
    queries = compiled.linear
    counts_nothing = [not block.attributes and bool((block.labels < 0).all()) for block in queries.blocks]
    never = ~queries.are_all(~np.array(counts_nothing, dtype=np.bool_))
    rows = np.flatnonzero(never | (queries.counts == 0))
    return dict(zip(rows.tolist(), (~never[rows]).tolist(), strict=True))


def _unknown(compiled: Compiled, conjuncts: Iterable[Condition], sandbox: Sandbox) -> Iterator[tuple[Attribute, str]]:
    """Values that a column must be equal to, none of which is in its domain; the first of them."""
    for part in conjuncts:
        operator, constants = (part.test if isinstance(part, Leaf) else None) or ("", ())
        if operator not in {"=", "in"} or not constants or not isinstance(part, Leaf):
            continue
        alone = compile_workload(compiled.domain, Workload.from_predicates([part.sql]), sandbox)
        if not _constant(alone).get(0, True):
            yield compiled.domain[part.columns[0]], conditions.unquoted(constants[0])


def _nearest(attribute: Attribute, text: str) -> str:
    if attribute.values is None:
        assert attribute.low is not None and attribute.high is not None
        ends = f"{attribute.text(attribute.low)} to {attribute.text(attribute.high)}"
        whole = "whole numbers " if attribute.ordered.family == "integer" else ""
        return f"{attribute.name} has no value {flat(text)}, but {whole}from {ends}"
    listed = ", ".join(map(literal, attribute.values[:10])) + (", ..." if len(attribute.values) > 10 else "")
    text = flat(text)
    add = "; add it to the domain table if it is possible" if attribute.open else ""
    return f"{did_you_mean(text, attribute.values)}{attribute.name} has no value {literal(text)}, but {listed}{add}"
