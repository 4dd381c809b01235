"""The rule behind a view, and the expression of a generated column: which ones are made of one row, and cannot fail.

    rule      (`pg_rewrite.ev_action`) one SELECT of one relation, with or without WHERE and ORDER BY; everything else
              that a query can have must be empty
    row-wise  columns and constants under the nodes of `_NODES`; every function, operator and cast is one that initdb
              made, in C, immutable, and returns one value; every type is PostgreSQL's, an enum, or a domain over one of
              them; every collation is PostgreSQL's
    total     also, every C function is one of `_TOTAL`, or its arguments are such that it cannot fail (`_ARGUMENTS`);
              whole numbers are computed with only where the ends of their types and constants show that no result
              overflows

An allow-list over the tree that PostgreSQL runs (`pg_node_tree`): what is not listed is refused. In a tree every
function, operator, type and column stands by its number, so that no name, search path or way of printing comes into it;
functions go by the C function that runs (`pg_proc.prosrc`). Asks nothing itself: a `Lookup` says what numbers mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mwem_sql.boundary.sides import NotRowWiseError

FIRST_OF_USERS = 16384
"""Objects with smaller numbers were made by initdb; everybody else's begin here."""

_BYTES = r"\d+\s\[[-\d\s]*\]"
# As pg_strtok() cuts, but for the bytes of a constant: a backslash makes the next character an ordinary one.
_TOKEN = re.compile(_BYTES + r"|[(){}]|(?:\\.|[^\s(){}\\])+", re.DOTALL)


class NotATreeError(ValueError):
    """A text that PostgreSQL does not write."""


@dataclass(frozen=True)
class Node:
    """A node. `fields` are as PostgreSQL names them, without the colon."""

    tag: str
    fields: dict[str, Value]

    def number(self, field: str) -> int:
        """A number, or a NotATreeError: a field that is not there must not pass for 0."""
        value = self.fields.get(field)
        if not isinstance(value, str):
            raise NotATreeError(f"{self.tag} has no number {field}")
        return int(value)

    def nodes(self, field: str) -> list[Node]:
        """The nodes of a list, or one node as a list of one; nothing is an empty list."""
        value = self.fields[field]
        listed = value if isinstance(value, list) else [] if value is None else [value]
        nodes = [item for item in listed if isinstance(item, Node)]
        if len(nodes) < len(listed):
            raise NotATreeError(f"{self.tag} has something other than nodes in {field}")
        return nodes


Value: TypeAlias = "Node | list[Value] | str | bytes | None"


def parsed(text: str) -> Value:
    """The value that a text stands for.

    A node is {TAG :field value :field value ...}, a list (value value ...), a constant 4 [ 1 0 0 0 ], nothing <>.
    """
    tokens = _TOKEN.findall(text)[::-1]
    try:
        value = _next_value(tokens)
    except (IndexError, ValueError, RecursionError) as reason:
        raise NotATreeError("not a tree of nodes, or too deep a one") from reason
    if tokens:
        raise NotATreeError("something follows the tree")
    return value


def _next_value(tokens: list[str]) -> Value:
    """Take a value off the end of the tokens, which are in reverse order."""
    word = tokens.pop()
    if word == "{":
        tag = tokens.pop()
        fields: dict[str, Value] = {}
        while (label := tokens.pop()) != "}":
            if not label.startswith(":") or label[1:] in fields:
                raise NotATreeError("a field without a name, or twice")
            # The value is what follows, even if it looks like a label: a column may be called ":x".
            fields[label[1:]] = _next_value(tokens)
        return Node(tag, fields)
    if word == "(":
        items: list[Value] = []
        while tokens[-1] != ")":
            items.append(_next_value(tokens))
        tokens.pop()
        return items
    if word in {")", "}"}:
        raise NotATreeError("a bracket without its other half")
    if re.fullmatch(_BYTES, word):
        return bytes(int(number) % 256 for number in word.partition("[")[2].rstrip("]").split())
    return None if word == "<>" else re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)


@dataclass(frozen=True)
class Routine:
    """A C function, by `source`; `shipped`: made by initdb, in C, immutable, one value per call, in pg_catalog."""

    name: str
    source: str
    shipped: bool


@dataclass(frozen=True)
class Type:
    """A type: `kind` as in pg_type.typtype, after domains; `base` is the number of that type."""

    kind: str
    base: int
    binary_text: bool = False


class Lookup(Protocol):
    """What the numbers in a tree stand for. An operator is the function that it calls, with that function's number."""

    def routine(self, number: int, /) -> Routine: ...
    def operator(self, number: int, /) -> tuple[int, Routine]: ...
    def type(self, number: int, /) -> Type | None: ...


@contextmanager
def _readable() -> Iterator[None]:
    """Refuse a tree that is not as PostgreSQL writes it, or too deep."""
    try:
        yield
    except (KeyError, ValueError, RecursionError):
        raise NotRowWiseError("has a definition or an expression that cannot be read") from None


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule in the grammar: `relation` is the number of what it reads, `varno` the rank of that in the query."""

    query: Node
    relation: int
    varno: int

    @classmethod
    def of(cls, text: str, view: int) -> Rule:
        """The rule that a view's text says; `view` is the view's number."""
        with _readable():
            tree = parsed(text)
            query = tree[0] if isinstance(tree, list) and len(tree) == 1 else None
            if not isinstance(query, Node) or query.tag != "QUERY":
                raise NotRowWiseError("is not one query")
            for name, value in query.fields.items():
                if name not in _CLAUSES and value not in _EMPTY:
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
            for rank, relation in enumerate(relations, start=1):
                # A view's rule also lists the view itself, under the names old and new, without reading it.
                if relation.fields["rtekind"] != "0" or (rank != varno and relation.number("relid") != view):
                    raise NotRowWiseError("reads something other than a table")
            source = relations[varno - 1]
            for name, value in source.fields.items():
                if name not in _RELATION_FIELDS and value not in _EMPTY:
                    raise NotRowWiseError("samples" if name == "tablesample" else f"reads its table with {name}")
            if source.fields["inh"] != "true":
                raise NotRowWiseError("reads ONLY a part of its table")
            return cls(query, source.number("relid"), varno)

    def columns(self, lookup: Lookup) -> list[int | None]:
        """For each column the number of the source's column that it shows unchanged.

        All expressions are checked: they are computed when rows are read.
        """
        expressions = Expressions(lookup, self.varno, total=True)
        origins: list[int | None] = []
        with _readable():
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
        return origins


def check_expression(text: str, lookup: Lookup, *, total: bool) -> None:
    """Refuse the expression of a generated column that is not row-wise; `total`: it is computed when rows are read."""
    with _readable():
        tree = parsed(text)
        if not isinstance(tree, Node):
            raise NotATreeError("not a node")
        Expressions(lookup, 1, total=total).check(tree)


class Expressions:
    """Checks expressions over one table, number `varno` of its query. `total`: they are computed when rows are read."""

    def __init__(self, lookup: Lookup, varno: int, *, total: bool) -> None:
        self._lookup, self._varno, self._total = lookup, varno, total

    def check(self, node: Node) -> None:
        """Refuse an expression with anything in it that is not listed."""
        if node.tag == "VAR":
            self._check_column(node)
            return  # a column as it is may be of any type
        self._check(node)

    def check_order(self, clause: Node) -> None:
        """An order changes no row, but its operators run."""
        for number in (clause.number("eqop"), clause.number("sortop")):
            self._check_routine(self._lookup.operator(number)[1], clause)

    def _check(self, node: Node) -> None:
        if node.tag not in _NODES:
            raise NotRowWiseError(_OTHER_NODES.get(node.tag, f"has a part ({node.tag}) that is not on the list"))
        if node.tag == "VAR":
            self._check_column(node)
        type_field, below = _NODES[node.tag]
        if type_field is not None and node.tag != "ARRAYEXPR":
            self._check_type(node.number(type_field))
        if node.fields.get("inputcollid") is not None and node.number("inputcollid") >= FIRST_OF_USERS:
            raise NotRowWiseError('compares texts under a collation of a user\'s (COLLATE "C" takes it off)')
        if node.tag == "FUNCEXPR":
            self._check_routine(self._lookup.routine(node.number("funcid")), node)
        elif node.tag in {"OPEXPR", "DISTINCTEXPR", "NULLIFEXPR", "SCALARARRAYOPEXPR"}:
            code, routine = self._lookup.operator(node.number("opno"))
            if node.number("opfuncid") not in {0, code}:
                raise NotRowWiseError("has an operator that calls another function than its own")
            self._check_routine(routine, node)
        elif node.tag == "COERCEVIAIO":
            self._check_printed(node)
        elif node.tag == "MINMAXEXPR" and node.number("minmaxtype") not in _COMPARED:
            raise NotRowWiseError("takes the least or greatest of values that are not numbers, texts or times")
        elif node.tag == "NULLTEST" and node.fields["argisrow"] != "false":
            raise NotRowWiseError("looks into a row type")
        for name in below:
            for inner in node.nodes(name):
                self._check(inner)

    def _check_column(self, node: Node) -> None:
        if node.number("varno") != self._varno or node.number("varlevelsup") != 0:
            raise NotRowWiseError("reads a column of something else")
        if node.number("varattno") <= 0:
            raise NotRowWiseError("reads a system column, or the row as a whole")

    def _check_type(self, number: int) -> None:
        """Nothing of a user's runs for values of a base type of PostgreSQL's, an enum, or a text of citext's."""
        kind = self._lookup.type(number)
        is_base = kind is not None and kind.kind == "b" and (kind.base < FIRST_OF_USERS or kind.binary_text)
        if kind is None or not (is_base or kind.kind == "e"):
            raise NotRowWiseError("computes with a type of a user's, or with a row type")

    def _check_printed(self, node: Node) -> None:
        (value,) = node.nodes("arg")
        kind = self._lookup.type(self._type(value))
        is_printed = kind is not None and (kind.kind == "e" or kind.base in _PRINTED)
        if node.number("resulttype") not in {25, 1043} or not is_printed:  # text, varchar
            raise NotRowWiseError("casts by text, which fails on some values")

    def _check_routine(self, routine: Routine, node: Node) -> None:
        if not routine.shipped:
            rule = "which is not one of PostgreSQL's own functions of one row (immutable, in C, not replaced)"
            raise NotRowWiseError(f"calls {routine.name}, {rule}")
        if node.fields.get("funcretset", "false") != "false" or node.fields.get("opretset", "false") != "false":
            raise NotRowWiseError(f"calls {routine.name}, which returns sets")
        if self._total and routine.source not in _TOTAL and not self._cannot_fail(routine.source, node):
            raise NotRowWiseError(f"calls {routine.name}, which can fail on some values")

    def _cannot_fail(self, source: str, node: Node) -> bool:
        if node.tag not in {"FUNCEXPR", "OPEXPR"}:
            is_like = node.tag == "SCALARARRAYOPEXPR" and _ARGUMENTS.get(source) is _no_escape
            listed = node.nodes("args")[1] if is_like else node
            return listed.tag == "ARRAYEXPR" and all(_no_escape([node, item]) for item in listed.nodes("elements"))
        if _COMPUTED.fullmatch(source):
            return self._computed(source, node) is not None
        if source == "text_substr":
            return self._range(node.nodes("args")[2])[0] >= 0
        return source in _ARGUMENTS and _ARGUMENTS[source](node.nodes("args"))

    def _computed(self, source: str, node: Node) -> Range | None:
        """Between which whole numbers a result is; None where it may overflow, or divide by 0."""
        low, high = _ends(_BITS[self._type(node)])
        ranges = [self._range(argument) for argument in node.nodes("args")]
        match = _COMPUTED.fullmatch(source)
        result = _RANGES[match[1]](*ranges) if match and match[1] else ranges[0]
        return result if result is not None and low <= result[0] and result[1] <= high else None

    def _range(self, node: Node) -> Range:
        """Between which whole numbers a value is, from types and constants alone."""
        number = self._type(node)
        kind = self._lookup.type(number)
        bits = _BITS.get(number if kind is None else kind.base, 64)
        if node.tag == "CONST" and isinstance(value := node.fields["constvalue"], bytes):
            constant = int.from_bytes(value[: bits // 8], "little", signed=True)
            return constant, constant
        if node.tag == "RELABELTYPE":
            return self._range(node.nodes("arg")[0])
        source = ""
        if node.tag == "FUNCEXPR":
            source = self._lookup.routine(node.number("funcid")).source
        elif node.tag == "OPEXPR":
            source = self._lookup.operator(node.number("opno"))[1].source
        if source in {"i2toi4", "int28", "int48"}:
            return self._range(node.nodes("args")[0])
        if _COMPUTED.fullmatch(source):
            return self._computed(source, node) or _ends(bits)
        return (0, 2**30) if source in {"textlen", "textoctetlen", "bpcharlen"} else _ends(bits)

    def _type(self, node: Node) -> int:
        while node.tag == "COLLATEEXPR":
            (node,) = node.nodes("arg")
        field = _NODES[node.tag][0] if node.tag in _NODES else None
        return node.number(field) if field is not None else 16  # boolean


Range = tuple[int, int]


def _ends(bits: int) -> Range:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _corners(combine: Callable[[int, int], int], one: Range, other: Range) -> Range:
    results = [combine(x, y) for x in one for y in other]
    return min(results), max(results)


def _quotient(one: Range, other: Range) -> Range | None:
    if other[0] <= 0 <= other[1]:
        return None
    return _corners(lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), one, other)


def _remainder(one: Range, other: Range) -> Range | None:
    if other[0] <= 0 <= other[1]:
        return None
    most = max(map(abs, other)) - 1
    return (-most if one[0] < 0 else 0), (most if one[1] > 0 else 0)


def _distance(one: Range) -> Range:
    ends = sorted(map(abs, one))
    return (0 if one[0] <= 0 <= one[1] else ends[0]), ends[1]


def _text_of(node: Node) -> bytes | None:
    """The bytes of a constant text, without the length in front of them."""
    while node.tag in {"RELABELTYPE", "COLLATEEXPR"}:
        (node,) = node.nodes("arg")
    value = node.fields.get("constvalue") if node.tag == "CONST" else None
    return value[4:] if isinstance(value, bytes) else None


def _no_escape(arguments: Sequence[Node]) -> bool:
    """A pattern that ends with its escape is an error, but only for texts that match up to there."""
    pattern = _text_of(arguments[1])
    return pattern is not None and b"\\" not in pattern


def _is_true(arguments: Sequence[Node]) -> bool:
    """An explicit cast to varchar(n) or char(n), which cuts off; an implicit one fails."""
    return isinstance(value := arguments[2].fields.get("constvalue"), bytes) and value[:1] == b"\1"


def _one_of(*words: str) -> Callable[[Sequence[Node]], bool]:
    return lambda arguments: _text_of(arguments[0]) in {word.encode() for word in words}


_EMPTY: tuple[Value, ...] = (None, "false", "0", [])
_CLAUSES = {
    "commandType", "canSetTag", "rtable", "jointree", "targetList", "sortClause", "rteperminfos", "stmt_location",
    "stmt_len",
}  # fmt: skip
"""What a query may have."""
_REASONS = {
    **dict.fromkeys(("hasAggs", "groupClause", "groupingSets", "havingQual"), "aggregates"),
    **dict.fromkeys(("hasWindowFuncs", "windowClause"), "uses windows"), "hasSubLinks": "has a subquery",
    **dict.fromkeys(("cteList", "hasRecursive"), "has a WITH clause"), "setOperations": "is not a plain SELECT",
    **dict.fromkeys(("distinctClause", "hasDistinctOn"), "drops duplicates"),
    **dict.fromkeys(("limitCount", "limitOffset"), "limits its rows"), "hasRowSecurity": "has row-level security",
    **dict.fromkeys(("rowMarks", "hasForUpdate"), "locks rows"), "hasTargetSRFs": "calls a function that returns sets",
}  # fmt: skip
_RELATION_FIELDS = {
    "alias", "eref", "rtekind", "relid", "relkind", "rellockmode", "inh", "inFromCl", "requiredPerms", "checkAsUser",
    "selectedCols", "insertedCols", "updatedCols", "extraUpdatedCols", "perminfoindex",
}  # fmt: skip
"""What the relation that is read may have: its rank, rights and names. No sample, LATERAL or ONLY."""
_NODES: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "VAR": ("vartype", ()), "CONST": ("consttype", ()), "CASETESTEXPR": ("typeId", ()),
    "RELABELTYPE": ("resulttype", ("arg",)), "COERCEVIAIO": ("resulttype", ("arg",)), "COLLATEEXPR": (None, ("arg",)),
    "ARRAYCOERCEEXPR": ("resulttype", ("arg", "elemexpr")), "ARRAYEXPR": ("array_typeid", ("elements",)),
    "FUNCEXPR": ("funcresulttype", ("args",)), "OPEXPR": ("opresulttype", ("args",)),
    "DISTINCTEXPR": ("opresulttype", ("args",)), "NULLIFEXPR": ("opresulttype", ("args",)),
    "SCALARARRAYOPEXPR": (None, ("args",)), "BOOLEXPR": (None, ("args",)), "NULLTEST": (None, ("arg",)),
    "BOOLEANTEST": (None, ("arg",)), "CASEEXPR": ("casetype", ("arg", "args", "defresult")),
    "CASEWHEN": (None, ("expr", "result")), "COALESCEEXPR": ("coalescetype", ("args",)),
    "MINMAXEXPR": ("minmaxtype", ("args",)),
}  # fmt: skip
"""The nodes of an expression: the field with its type (none: boolean, or that of its parts), those with its parts."""
_OTHER_NODES = {
    "AGGREF": "aggregates", "GROUPINGFUNC": "aggregates", "WINDOWFUNC": "uses windows", "SUBLINK": "has a subquery",
    "SQLVALUEFUNCTION": "reads the clock or the session", "NEXTVALUEEXPR": "draws from a sequence",
    "COERCETODOMAIN": "casts to a domain, whose checks may fail", "PARAM": "has a parameter",
}  # fmt: skip
_BITS = {21: 16, 23: 32, 20: 64}
_PRINTED = {20, 21, 23, 25, 19, 700, 701, 1042, 1043, 1082, 1114, 1700, 2950}
"""Types of which every value has a text, under our settings."""
_COMPARED = {16, 20, 21, 23, 25, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1700, 2950}
_TOTAL = frozenset(
    f"{start}{word}{end}" for word in ("eq", "ne", "lt", "le", "gt", "ge") for start, end in [
        *((kind, "") for kind in (
            "int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84", "float4", "float8", "float48",
            "float84", "numeric_", "bool", "bpchar", "name", "date_", "timestamp_", "time_", "uuid_", "enum_",
        )),
        ("date_", "_timestamp"), ("timestamp_", "_date"), ("name", "text"), ("text", "name"),
    ]
) | {
    "texteq", "textne", "text_lt", "text_le", "text_gt", "text_ge", "lower", "upper", "initcap", "textlen", "bpcharlen",
    "textoctetlen", "bpcharoctetlen", "text_left", "text_right", "text_reverse", "textpos", "text_starts_with",
    "md5_text", "textcat", "btrim", "btrim1", "ltrim", "ltrim1", "rtrim", "rtrim1", "ascii", "text_substr_no_len",
    "i2toi4", "int28", "int48", "i2tof", "i4tof", "i8tof", "i2tod", "i4tod", "i8tod", "ftod", "int2_numeric",
    "int4_numeric", "int8_numeric", "booltext", "bool_int4", "int4_bool", "name_text", "text_name", "name_bpchar",
    "bpchar_name", "timestamp_date", "float4abs", "float8abs", "float4um", "float8um", "dround", "dfloor", "dceil",
    "dtrunc", "dsign", "numeric_abs", "numeric_uminus", "date_finite", "timestamp_finite",
}  # fmt: skip
"""C functions that give a value, or NULL, for any arguments of their types."""
_COMPUTED = re.compile(r"int(?:2|4|8|24|42|28|82|48|84)(pl|mi|mul|div|mod|um|abs)|i4toi2|int82|int84")
"""C functions of whole numbers, whose results may not fit: the operation, or none for a cast."""
_RANGES: dict[str, Callable[..., Range | None]] = {
    "pl": lambda x, y: (x[0] + y[0], x[1] + y[1]), "mi": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _corners(lambda a, b: a * b, x, y), "div": _quotient, "mod": _remainder,
    "um": lambda x: (-x[1], -x[0]), "abs": _distance,
}  # fmt: skip
_DAYS = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear")
_HOURS = ("hour", "minute", "second")
_ARGUMENTS: dict[str, Callable[[Sequence[Node]], bool]] = {
    **{f"{kind}{word}": _no_escape for kind in ("text", "name") for word in ("like", "nlike", "iclike", "icnlike")},
    "varchar": _is_true, "bpchar": _is_true, "extract_date": _one_of(*_DAYS),
    "extract_timestamp": _one_of(*_DAYS, *_HOURS), "timestamp_part": _one_of(*_DAYS, *_HOURS),
    "timestamp_trunc": _one_of("day", *_HOURS),
}  # fmt: skip
"""C functions that cannot fail if the given arguments are such."""
