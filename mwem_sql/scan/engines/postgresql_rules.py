"""The rule behind a view (`pg_rewrite.ev_action`): which relation it reads, and what each column is made of.

    rule    one SELECT of one relation, with or without WHERE and ORDER BY; everything else that a query can have must be empty
    column  a column of that relation, or an expression in the list of `postgresql_expressions`

An allow-list over the tree that PostgreSQL runs, so that nothing depends on how a definition is printed. Asks nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from mwem_sql.boundary.views import NotRowWiseError
from mwem_sql.scan.engines.postgresql_expressions import Expressions, Numbers
from mwem_sql.scan.engines.postgresql_nodes import Node, NotATreeError, Value, parsed

_EMPTY: tuple[Value, ...] = (None, "false", "0", [])
_FILLED = {
    "commandType",
    "canSetTag",
    "rtable",
    "jointree",
    "targetList",
    "sortClause",
    "rteperminfos",
    "stmt_location",
    "stmt_len",
}
_REASONS = {
    "hasAggs": "aggregates", "groupClause": "aggregates", "groupingSets": "aggregates", "havingQual": "aggregates",
    "hasWindowFuncs": "uses windows", "windowClause": "uses windows", "hasTargetSRFs": "calls a function that returns sets",
    "hasSubLinks": "has a subquery", "cteList": "has a WITH clause", "hasRecursive": "has a WITH clause", "distinctClause": "drops duplicates",
    "hasDistinctOn": "drops duplicates", "limitCount": "limits its rows", "limitOffset": "limits its rows", "setOperations": "is not a plain SELECT",
    "rowMarks": "locks rows", "hasForUpdate": "locks rows", "hasRowSecurity": "has row-level security",
}  # fmt: skip
# Of the relation that is read: its place among others, rights, and names. Samples, LATERAL and ONLY are not among them.
_FILLED_OF_RELATION = {
    "alias", "eref", "rtekind", "relid", "relkind", "rellockmode", "inh", "inFromCl", "requiredPerms", "checkAsUser", "selectedCols", "insertedCols",
    "updatedCols", "extraUpdatedCols", "perminfoindex",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule whose clauses are in the grammar. `relation` is the number of what it reads, `varno` that relation's place in the query."""

    query: Node
    relation: int
    varno: int

    @classmethod
    def of(cls, text: str, view: int) -> Rule:
        """The rule that a view's text says; `view` is the view's own number."""
        try:
            return cls._of(parsed(text), view)
        except (NotATreeError, KeyError):
            raise NotRowWiseError("has a definition that cannot be read") from None

    @classmethod
    def _of(cls, tree: Value, view: int) -> Rule:
        if (
            not isinstance(tree, list)
            or len(tree) != 1
            or not isinstance(query := tree[0], Node)
            or query.tag != "QUERY"
        ):
            raise NotRowWiseError("is not one query")
        for name, value in query.fields.items():
            if name not in _FILLED and value not in _EMPTY:
                raise NotRowWiseError(_REASONS.get(name, f"has a clause ({name}) that a row-wise view has not"))
        if query.fields["commandType"] != "1":
            raise NotRowWiseError("is not a SELECT")
        (joined,) = query.nodes("jointree")
        read = joined.nodes("fromlist")
        if not read:
            raise NotRowWiseError("reads no table")
        if len(read) != 1 or read[0].tag != "RANGETBLREF":
            raise NotRowWiseError("joins")
        varno = read[0].number("rtindex")
        relations = query.nodes("rtable")
        for place, relation in enumerate(relations, start=1):
            # A view's rule also lists the view itself, under the names old and new, without reading it.
            is_read = place == varno
            if relation.fields["rtekind"] != "0" or (not is_read and relation.number("relid") != view):
                raise NotRowWiseError("reads something other than a table")
        source = relations[varno - 1]
        for name, value in source.fields.items():
            if name not in _FILLED_OF_RELATION and value not in _EMPTY:
                raise NotRowWiseError("samples" if name == "tablesample" else f"reads its table with {name}")
        if source.fields["inh"] != "true":
            raise NotRowWiseError("reads ONLY a part of its table")
        return cls(query, source.number("relid"), varno)

    def columns(self, numbers: Numbers) -> list[int | None]:
        """For each column the one of the source that it shows unchanged, by number. All expressions are checked: they are computed when read."""
        expressions = Expressions(numbers, self.varno, total=True)
        origins: list[int | None] = []
        try:
            for entry in self.query.nodes("targetList"):
                (value,) = entry.nodes("expr")
                expressions.check(value)
                if entry.fields["resjunk"] == "false":
                    origins.append(value.number("varattno") if value.tag == "VAR" else None)
            (joined,) = self.query.nodes("jointree")
            for condition in joined.nodes("quals"):
                expressions.check(condition)
            for clause in self.query.nodes("sortClause"):
                expressions.check_order(clause)
        except (NotATreeError, KeyError, ValueError, RecursionError):
            raise NotRowWiseError("has an expression that cannot be read") from None
        return origins


def check_expression(tree: Node, numbers: Numbers, *, total: bool) -> None:
    """Refuse the expression of a generated column that is not row-wise; `total` where it is computed when rows are read."""
    try:
        Expressions(numbers, 1, total=total).check(tree)
    except (NotATreeError, KeyError, ValueError, RecursionError):
        raise NotRowWiseError("has an expression that cannot be read") from None


def expression(text: str) -> Node:
    """The tree of a generated column's expression."""
    try:
        tree = parsed(text)
    except NotATreeError:
        tree = None
    if not isinstance(tree, Node):
        raise NotRowWiseError("has an expression that cannot be read")
    return tree
