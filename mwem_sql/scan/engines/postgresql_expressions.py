"""Expressions of a private view or generated column: which ones are made of one row, and cannot fail on any value.

    row-wise  columns and constants under the nodes of `_BELOW`; every function, operator and cast is one that initdb made, in C, immutable, and
              returns one value; every type is PostgreSQL's own, an enum, or a domain over one of them; every collation is PostgreSQL's own
    total     also, every C function is one of `_TOTAL`, or its arguments are such that it cannot fail (`_ARGUMENTS`); whole numbers are
              computed with only where the ends of their types and constants show that no result overflows

Functions go by the C function that runs (`pg_proc.prosrc`), not by a name. What is not listed is refused. Asks nothing itself: see `Numbers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mwem_sql.boundary.views import NotRowWiseError
from mwem_sql.scan.engines.postgresql_nodes import Node

FIRST_OF_USERS = 16384
"""Objects with smaller numbers were made by initdb; everybody else's begin here."""
_TYPE_OF = {
    "VAR": "vartype", "CONST": "consttype", "RELABELTYPE": "resulttype", "COERCEVIAIO": "resulttype", "ARRAYCOERCEEXPR": "resulttype",
    "FUNCEXPR": "funcresulttype", "OPEXPR": "opresulttype", "DISTINCTEXPR": "opresulttype", "NULLIFEXPR": "opresulttype", "CASEEXPR": "casetype",
    "CASETESTEXPR": "typeId", "COALESCEEXPR": "coalescetype", "MINMAXEXPR": "minmaxtype", "ARRAYEXPR": "array_typeid",
}  # fmt: skip
"""The field that has a node's type; nodes without one are boolean, or made of one below."""
_BELOW = {
    "VAR": (), "CONST": (), "CASETESTEXPR": (), "RELABELTYPE": ("arg",), "COERCEVIAIO": ("arg",), "ARRAYCOERCEEXPR": ("arg", "elemexpr"),
    "COLLATEEXPR": ("arg",), "FUNCEXPR": ("args",), "OPEXPR": ("args",), "DISTINCTEXPR": ("args",), "NULLIFEXPR": ("args",),
    "SCALARARRAYOPEXPR": ("args",), "BOOLEXPR": ("args",), "NULLTEST": ("arg",), "BOOLEANTEST": ("arg",), "CASEEXPR": ("arg", "args", "defresult"),
    "CASEWHEN": ("expr", "result"), "COALESCEEXPR": ("args",), "MINMAXEXPR": ("args",), "ARRAYEXPR": ("elements",),
}  # fmt: skip
"""The nodes that an expression may have, and the fields that hold what they are made of."""
_OTHERS = {
    "AGGREF": "aggregates", "GROUPINGFUNC": "aggregates", "WINDOWFUNC": "uses windows", "SUBLINK": "has a subquery",
    "SQLVALUEFUNCTION": "reads the clock or the session", "COERCETODOMAIN": "casts to a domain, whose checks may fail",
    "PARAM": "has a parameter", "NEXTVALUEEXPR": "draws from a sequence",
}  # fmt: skip
_BY_NUMBER = ("OPEXPR", "DISTINCTEXPR", "NULLIFEXPR", "SCALARARRAYOPEXPR")
_TEXTS = {25, 1043}  # text, varchar
_PRINTED = {
    20,
    21,
    23,
    25,
    19,
    700,
    701,
    1042,
    1043,
    1082,
    1114,
    1700,
    2950,
}  # types of which every value has a text, under our settings
_COMPARED = {16, 20, 21, 23, 25, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1700, 2950}
_BITS = {21: 16, 23: 32, 20: 64}
_WORDS = ("eq", "ne", "lt", "le", "gt", "ge")
_TOTAL = frozenset(
    [f"{kind}{word}" for kind in ("int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84", "float4", "float8", "float48",
                                  "float84", "numeric_", "bool", "bpchar", "name", "date_", "timestamp_", "time_", "uuid_", "enum_") for word in _WORDS]
    + [f"{one}_{word}_{other}" for one, other in (("date", "timestamp"), ("timestamp", "date")) for word in _WORDS]
    + [f"name{word}text" for word in _WORDS] + [f"text{word}name" for word in _WORDS]
) | {
    "texteq", "textne", "text_lt", "text_le", "text_gt", "text_ge", "lower", "upper", "initcap", "textlen", "bpcharlen", "textoctetlen",
    "bpcharoctetlen", "text_left", "text_right", "text_reverse", "textpos", "text_starts_with", "md5_text", "textcat", "btrim", "btrim1", "ltrim",
    "ltrim1", "rtrim", "rtrim1", "ascii", "text_substr_no_len", "i2toi4", "int28", "int48", "i2tof", "i4tof", "i8tof", "i2tod", "i4tod", "i8tod",
    "ftod", "int2_numeric", "int4_numeric", "int8_numeric", "booltext", "bool_int4", "int4_bool", "name_text", "text_name", "name_bpchar",
    "bpchar_name", "timestamp_date", "float4abs", "float8abs", "float4um", "float8um", "dround", "dfloor", "dceil", "dtrunc", "dsign",
    "numeric_abs", "numeric_uminus", "date_finite", "timestamp_finite",
}  # fmt: skip
"""C functions that give a value, or NULL, for any arguments of their types."""
_MADE_BY_INTEGERS = re.compile(r"int(?:2|4|8|24|42|28|82|48|84)(pl|mi|mul|div|mod|um|abs)")
_FIELDS = {b"year", b"quarter", b"month", b"week", b"day", b"dow", b"isodow", b"doy", b"isoyear"}
_HOURS = {b"hour", b"minute", b"second"}

Range = tuple[int, int]


@dataclass(frozen=True)
class Function:
    """What runs: a C function, by `source`, if it is `shipped`: made by initdb, in C, immutable, one value per call, in pg_catalog."""

    name: str
    source: str
    shipped: bool


@dataclass(frozen=True)
class Type:
    """What a type's number stands for: `kind` as in pg_type.typtype, after domains; `base` is the number of that type."""

    kind: str
    base: int
    binary_text: bool = False

    @property
    def is_own(self) -> bool:
        """Whether nothing of a user's runs for its values."""
        return self.base < FIRST_OF_USERS or self.kind == "e" or self.binary_text


@dataclass(frozen=True)
class Numbers:
    """What the numbers in a tree stand for. An operator is the function that it calls, with that function's number."""

    functions: Mapping[int, Function] = field(default_factory=dict)
    operators: Mapping[int, tuple[int, Function]] = field(default_factory=dict)
    types: Mapping[int, Type] = field(default_factory=dict)


def numbers_in(trees: Sequence[Node]) -> tuple[set[int], set[int], set[int]]:
    """The functions, operators and types that trees speak of: what `Numbers` must know."""
    functions: set[int] = set()
    operators: set[int] = set()
    types: set[int] = set()
    for node in (node for tree in trees for node in tree.walk()):
        if node.tag == "FUNCEXPR":
            functions.add(node.number("funcid"))
        elif node.tag in _BY_NUMBER:
            operators.add(node.number("opno"))
        elif node.tag == "SORTGROUPCLAUSE":
            operators |= {node.number("eqop"), node.number("sortop")}
        if node.tag in _TYPE_OF:
            types.add(node.number(_TYPE_OF[node.tag]))
    return functions, operators, types


class Expressions:
    """Checks expressions over one table, which has the number `varno` in its query. `total`: they are computed when rows are read."""

    def __init__(self, numbers: Numbers, varno: int, *, total: bool) -> None:
        self._numbers = numbers
        self._varno = varno
        self._total = total

    def check(self, node: Node) -> None:
        """Refuse an expression with anything in it that is not listed."""
        if node.tag == "VAR":
            self._check_column(node)
            return  # a column as it is may be of any type
        self._check(node)

    def check_order(self, clause: Node) -> None:
        """An order changes no row, but its operators run."""
        for number in (clause.number("eqop"), clause.number("sortop")):
            self._check_function(self._operator(number)[1], clause)

    def _check(self, node: Node) -> None:
        if node.tag not in _BELOW:
            raise NotRowWiseError(_OTHERS.get(node.tag, f"has a part ({node.tag}) that is not on the list"))
        if node.tag == "VAR":
            self._check_column(node)
        if node.tag in _TYPE_OF and node.tag != "ARRAYEXPR":
            self._check_type(node)
        if node.fields.get("inputcollid") is not None and node.number("inputcollid") >= FIRST_OF_USERS:
            raise NotRowWiseError('compares texts under a collation of a user\'s (COLLATE "C" takes it off)')
        if node.tag == "FUNCEXPR":
            self._check_function(self._function(node.number("funcid")), node)
        elif node.tag in _BY_NUMBER:
            code, function = self._operator(node.number("opno"))
            if node.number("opfuncid") not in {0, code}:
                raise NotRowWiseError("has an operator that calls another function than its own")
            self._check_function(function, node)
        elif node.tag == "COERCEVIAIO":
            self._check_printed(node)
        elif node.tag == "MINMAXEXPR" and node.number("minmaxtype") not in _COMPARED:
            raise NotRowWiseError("takes the least or greatest of values that are not numbers, texts or times")
        elif node.tag == "NULLTEST" and node.fields["argisrow"] != "false":
            raise NotRowWiseError("looks into a row type")
        for name in _BELOW[node.tag]:
            for below in node.nodes(name):
                self._check(below)

    def _check_column(self, node: Node) -> None:
        if node.number("varno") != self._varno or node.number("varlevelsup") != 0:
            raise NotRowWiseError("reads a column of something else")
        if node.number("varattno") <= 0:
            raise NotRowWiseError("reads a system column, or the row as a whole")

    def _check_type(self, node: Node) -> None:
        number = node.number(_TYPE_OF[node.tag])
        known = self._numbers.types.get(number)
        if known is None or known.kind not in "be" or not known.is_own:
            raise NotRowWiseError("computes with a type of a user's, or with a row type")

    def _check_printed(self, node: Node) -> None:
        (value,) = node.nodes("arg")
        known = self._numbers.types[self._type(value)]
        fine = known.kind == "e" or known.base in _PRINTED
        if node.number("resulttype") not in _TEXTS or not fine:
            raise NotRowWiseError("casts by text, which fails on some values")

    def _check_function(self, function: Function, node: Node) -> None:
        if not function.shipped:
            raise NotRowWiseError(
                f"calls {function.name}, which is not one of PostgreSQL's own functions of one row (immutable, in C, not replaced)"
            )
        if node.fields.get("funcretset", "false") != "false" or node.fields.get("opretset", "false") != "false":
            raise NotRowWiseError(f"calls {function.name}, which returns sets")
        if not self._total or function.source in _TOTAL or self._cannot_fail(function.source, node):
            return
        raise NotRowWiseError(f"calls {function.name}, which can fail on some values")

    def _cannot_fail(self, source: str, node: Node) -> bool:
        if node.tag not in {"FUNCEXPR", "OPEXPR"}:
            rule = _ARGUMENTS.get(source) if node.tag == "SCALARARRAYOPEXPR" else None
            return rule is _no_escape and _each_is_plain(node)
        if _MADE_BY_INTEGERS.fullmatch(source) or source in {"i4toi2", "int82", "int84"}:
            return self._computed(source, node) is not None
        if source == "text_substr":
            return self._range(node.nodes("args")[2])[0] >= 0
        rule = _ARGUMENTS.get(source)
        return rule is not None and rule(node.nodes("args"))

    def _computed(self, source: str, node: Node) -> Range | None:
        """Between which whole numbers a result is; None where it may overflow, or divide by 0."""
        low, high = _ends(_BITS[self._type(node)])
        ranges = [self._range(argument) for argument in node.nodes("args")]
        match = _MADE_BY_INTEGERS.fullmatch(source)
        made = _RANGES[match[1]](*ranges) if match else ranges[0]
        return made if made is not None and low <= made[0] and made[1] <= high else None

    def _range(self, node: Node) -> Range:
        """Between which whole numbers a value is, from types and constants alone."""
        bits = _BITS.get(self._base(self._type(node)), 64)
        if node.tag == "CONST" and isinstance(value := node.fields["constvalue"], bytes):
            number = int.from_bytes(value[: bits // 8], "little", signed=True)
            return number, number
        if node.tag == "RELABELTYPE":
            return self._range(node.nodes("arg")[0])
        source = None
        if node.tag == "FUNCEXPR":
            source = self._function(node.number("funcid")).source
        elif node.tag == "OPEXPR":
            source = self._operator(node.number("opno"))[1].source
        if source in {"i2toi4", "int28", "int48"}:
            return self._range(node.nodes("args")[0])
        if source is not None and (_MADE_BY_INTEGERS.fullmatch(source) or source in {"i4toi2", "int82", "int84"}):
            return self._computed(source, node) or _ends(bits)
        return (0, 2**30) if source in {"textlen", "textoctetlen", "bpcharlen"} else _ends(bits)

    def _type(self, node: Node) -> int:
        while node.tag == "COLLATEEXPR":
            (node,) = node.nodes("arg")
        return node.number(_TYPE_OF[node.tag]) if node.tag in _TYPE_OF else 16

    def _base(self, number: int) -> int:
        return self._numbers.types[number].base if number in self._numbers.types else number

    def _function(self, number: int) -> Function:
        return self._numbers.functions.get(number, Function(f"a function ({number})", "", shipped=False))

    def _operator(self, number: int) -> tuple[int, Function]:
        missing = Function(f"an operator ({number})", "", shipped=False)
        return self._numbers.operators.get(number, (0, missing))


def _ends(bits: int) -> Range:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _corners(combine: Callable[[int, int], int], one: Range, other: Range) -> Range:
    made = [combine(x, y) for x in one for y in other]
    return min(made), max(made)


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


_RANGES: dict[str, Callable[..., Range | None]] = {
    "pl": lambda x, y: (x[0] + y[0], x[1] + y[1]), "mi": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": lambda x, y: _corners(lambda a, b: a * b, x, y), "div": _quotient, "mod": _remainder,
    "um": lambda x: (-x[1], -x[0]), "abs": _distance,
}  # fmt: skip


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


def _each_is_plain(node: Node) -> bool:
    listed = node.nodes("args")[1]
    return listed.tag == "ARRAYEXPR" and all(_no_escape([item, item]) for item in listed.nodes("elements"))


def _is_true(arguments: Sequence[Node]) -> bool:
    """An explicit cast to varchar(n) or char(n), which cuts off; an implicit one fails."""
    return isinstance(value := arguments[2].fields.get("constvalue"), bytes) and value[:1] == b"\1"


def _one_of(words: set[bytes]) -> Callable[[Sequence[Node]], bool]:
    return lambda arguments: _text_of(arguments[0]) in words


_ARGUMENTS: dict[str, Callable[[Sequence[Node]], bool]] = {
    **dict.fromkeys(("textlike", "textnlike", "texticlike", "texticnlike", "namelike", "namenlike", "nameiclike", "nameicnlike"), _no_escape),
    "varchar": _is_true, "bpchar": _is_true, "extract_date": _one_of(_FIELDS), "extract_timestamp": _one_of(_FIELDS | _HOURS),
    "timestamp_part": _one_of(_FIELDS | _HOURS), "timestamp_trunc": _one_of({b"day", *_HOURS}),
}  # fmt: skip
"""C functions that cannot fail if the given arguments are such."""
