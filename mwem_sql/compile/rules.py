"""Rules as counts that are 0: what a rule forbids, on the classes of a workload. Reads no private row.

A class combination is forbidden only if every value combination in it breaks the rule. Of a rule that joins columns
value by value, or cuts a class, some are left: such rows are drawn again (releases/rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from mwem_sql.algebra.arrays import Flags
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.sets import distinct
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.merge import simplified
from mwem_sql.compile.pipeline import compile_workload
from mwem_sql.domains.classes import Classes
from mwem_sql.domains.domain import Domain
from mwem_sql.domains.rules import PublicRule
from mwem_sql.errors import CellsError, DomainError, MwemError, refuse
from mwem_sql.language import conditions
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.workload import Query, Workload


@dataclass(frozen=True, eq=False, kw_only=True)
class Breach:
    """What breaks a rule, as a query by itself, on its own classes; None where that is too much to work out."""

    rule: PublicRule
    query: Query
    compiled: Compiled | None
    by_column: bool
    """Whether each part of the rule is about one column: classes can be cut there at no great cost."""

    def on(self, classes: Mapping[str, Classes]) -> LinearQuery | None:
        """The count, of one cell, of records that surely break the rule, on other classes; None if none surely do."""
        if self.compiled is None:
            return None
        breach = self.compiled.queries[0]
        names = breach.linear.attributes
        possible = np.asarray(breach.linear.spread(np.ones(1)) == 0)
        for axis, name in enumerate(names):
            in_doubt = breach.hull is not None
            possible = _on(possible, axis, self.compiled.classes[name], classes[name], in_doubt=in_doubt)
        if possible.all():
            return None
        return LinearQuery(tuple(simplified(Block(names, np.where(possible, -1, 0).astype(np.int32), 1))))


def _on(possible: Flags, axis: int, before: Classes, now: Classes, *, in_doubt: bool) -> Flags:
    """What is possible on other classes along an axis: whatever is with some value of a class.

    What a condition says of values off the domain may be `in_doubt`: anything is possible with these then.
    """
    pieces = now.pieces
    if pieces.attribute.values is None:
        lows = distinct(before.pieces.lows, pieces.lows)
        old, new = before.codes[before.pieces.holding(lows)], now.codes[pieces.holding(lows)]
        is_outer = pieces.is_outer[np.clip(np.searchsorted(pieces.lows, lows, side="right") - 1, 0, None)]
    else:
        old, new, is_outer = before.codes, now.codes, pieces.is_outer
    meets = np.zeros((now.count, before.count))
    meets[new, old] = 1
    some = np.moveaxis(np.tensordot(meets, possible.astype(np.float64), axes=(1, axis)), 0, axis) > 0
    if in_doubt:
        outer = np.zeros(now.count, dtype=np.bool_)
        outer[new[: len(is_outer)][is_outer]] = True
        some |= outer.reshape([-1 if k == axis else 1 for k in range(some.ndim)])
    return np.asarray(some)


def breaches(domain: Domain, used: AbstractSet[str], sandbox: Sandbox) -> list[Breach]:
    """What would break the rules about `used` columns. A rule that is false everywhere, or fails, is refused.

    A CHECK that fails on some value of the domain says nothing: no table has such a row.
    """
    out = []
    for rule in domain.rules:
        tree = domain.tree_of(rule)
        columns = conditions.columns_of(tree)
        if not used >= set(columns):
            continue
        query = Query(predicate=f"NOT ({rule.text}\n)")
        by_column = all(len(leaf.columns) < 2 for leaf in conditions.leaves(conditions.condition(tree)))
        compiled = _compiled(domain, rule, query, sandbox)
        if compiled is not None and not compiled.queries[0].linear.attributes:
            if not compiled.queries[0].linear.answer(np.ones(1)).any():
                continue  # it is true everywhere
            what = f"rule ({rule.text!r}) is false for every value of the public domain"
            raise refuse(DomainError, "rules", what, "correct the rule, or the domain of its columns")
        out.append(Breach(rule=rule, query=query, compiled=compiled, by_column=by_column))
    return out


def _compiled(domain: Domain, rule: PublicRule, query: Query, sandbox: Sandbox) -> Compiled | None:
    try:
        return compile_workload(domain, Workload((query,)), sandbox)
    except CellsError:
        return None
    except MwemError:
        if rule.source == "CHECK":
            return None
        raise


def cuts(several: Sequence[Breach]) -> tuple[Query, ...]:
    """The conditions that classes are cut by: those of rules about one column at a time."""
    return tuple(each.query for each in several if each.by_column and each.compiled is not None)
