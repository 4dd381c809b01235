"""What the rules of a release ask of its rows, and the columns that are computed of others: evaluated in SQL.

Public rules on drawn values. Where a class of the model has values that break a rule beside others that meet it, this
tells the rows to be drawn again (synthesis/values.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from mwem_sql.algebra.arrays import Flags
from mwem_sql.compile.evaluate import truth_of
from mwem_sql.domains.domain import Domain
from mwem_sql.language import dialect
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.synthesis.values import Arrays, RowRules


def row_rules(domain: Domain, settings: Mapping[str, object]) -> RowRules | None:
    """What the domain of a release asks of its rows; None for nothing."""
    if not domain.rules and not domain.computed:
        return None
    columns = dict.fromkeys(name for rule in domain.rules for name in domain.columns_of(rule))
    conditions = [f"TRY(CAST(({dialect.sql(domain.tree_of(rule))}) AS BOOLEAN))" for rule in domain.rules]
    read = dict.fromkeys(name for each in domain.computed for name in each.columns)
    computed = {each.name: each.type for each in domain.computed}

    def meets(arrays: Arrays) -> Flags:
        with Sandbox(settings) as sandbox:
            sandbox.load(domain.table, {name: (domain[name].type, plain(arrays[name])) for name in columns})
            truths = _evaluated(sandbox, domain.table, conditions)
        # NULL will do, as in a CHECK.
        return np.asarray(np.logical_and.reduce([truth_of(truth) > 0 for truth in truths]))

    def compute(arrays: Arrays) -> Arrays:
        if not computed:
            return {}
        with Sandbox(settings) as sandbox:
            sandbox.load(domain.table, {name: (domain[name].type, plain(arrays[name])) for name in read})
            texts = [f"CAST(TRY({each.text}) AS VARCHAR)" for each in domain.computed]
            made = _evaluated(sandbox, domain.table, texts)
        return {name: array.combine_chunks() for name, array in zip(computed, made, strict=True)}

    return RowRules(columns=tuple(columns), meets=meets, computed=computed, compute=compute, order=domain.columns)


def _evaluated(sandbox: Sandbox, table: str, texts: Sequence[str]) -> list[pa.ChunkedArray]:
    """Expressions over rows; NULL of one that cannot be evaluated: the budget is spent by now, and nothing may fail."""
    try:
        return sandbox.evaluate(table, texts)
    except duckdb.Error:
        if len(texts) == 1:
            return sandbox.evaluate(table, ["NULL"])
        return [array for text in texts for array in _evaluated(sandbox, table, [text])]


def plain(values: pa.Array) -> pa.Array:
    """Texts written out."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
