"""Values of the workload's expressions on the public grid: what DuckDB makes of each leaf on the pieces of its columns.

Reads no private row. What a comparison with constants says changes at the constants only: of ten thousand conditions on
as many pieces, each is evaluated on the few pieces around its constants, on the first one, and on NULL. Anything else
is evaluated piece by piece, within stated bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from math import prod
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.arrays import Places
from mwem_sql.algebra.partition import Encoding, Runs, decode, encode
from mwem_sql.algebra.sets import distinct
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, Pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError, MwemError, PredicateError, refuse_query
from mwem_sql.language import dialect
from mwem_sql.language.conditions import Leaf, unquoted
from mwem_sql.language.measures import LARGEST_VALUE
from mwem_sql.language.ticks import Tick
from mwem_sql.platform.sandbox import MOST_EXPRESSIONS, Sandbox, batches

MAX_JOINT = 1_000_000
"""Value combinations on which one expression over several columns is evaluated. More: it takes seconds."""
MAX_EVALUATED = 2**28
"""Values on which expressions are evaluated, all of them together. More: they take minutes."""
MAX_INSIDE = 2**20
"""Values of a column's pieces that a measure is averaged over. More: nearer means, and each measure takes longer."""
EVALUATED_AT_ONCE = 1024
"""Pieces of a column on which conditions are simply evaluated; and those of a batch of conditions, at most."""
EXACT = 2**24
"""Numbers up to which all types have their neighbours: beyond, a comparison may change some way off the constant."""
TRUE = 2  # three-valued logic in one byte: false 0, NULL 1, true 2, so that AND is min, OR is max, NOT is 2 - x
_OPERATORS = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip

Key = tuple[str, str]  # role and SQL of a leaf; a role is truth, group or factor
Terms = Mapping[Key, Leaf]
Ticks = Mapping[str, Mapping[str, Tick]]  # by column, of each constant that it is compared with and that has a tick


@dataclass(eq=False)
class LeafValues:
    """A leaf's values on the grid of its columns: truth bytes, group numbers, or numbers with NaN for NULL.

    A number is the mean of those that the values inside a piece have; `reach` is how far any of them is from it, None
    for nothing. `doubt` is where truth may be another for some values of a piece; None for nowhere.
    """

    columns: tuple[str, ...]
    encoding: Encoding
    _: KW_ONLY
    labels: list[str | None] = field(default_factory=list)
    reach: npt.NDArray[np.float64] | None = None
    doubt: npt.NDArray[np.bool_] | None = None

    @property
    def array(self) -> npt.NDArray[Any]:
        return decode(self.encoding)


Evaluated = Mapping[Key, LeafValues]


def unanswerable(domain: Domain, key: Key, why: str) -> MwemError:
    """A refusal of an expression that needs more values than can be listed, with a view that has it as a column."""
    role, sql = key
    table = dialect.sql(exp.to_identifier(domain.table, quoted=True))
    name = dialect.name(f"{domain.table}_asked")
    view = f"CREATE VIEW {name} AS SELECT *, {sql} AS question FROM {table}"  # noqa: S608  to be read
    values = "" if role == "truth" else ", and the values of question in a domain table"
    cure = (
        f"{_floored(sql)}make it a column: {view}; then release {name} and ask for question,"
        f" with the domain table of {table}, if any, as domain{values}"
    )
    return refuse_query(f"{sql!r} {why}", cure, CellsError)


def _floored(sql: str) -> str:
    """The same with floor in the place of //, which does not round numbers that are no integers."""
    tree = dialect.expression(sql)
    if tree.find(exp.IntDiv) is None:
        return ""
    return f"write {dialect.sql(tree.transform(_floor))} if // is meant to round, which it does not with a DOUBLE; or "


def _floor(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.IntDiv):
        return node
    divided = exp.Div(this=node.this, expression=node.expression, typed=False, safe=False)
    return exp.Anonymous(this="floor", expressions=[divided])


def evaluate(
    domain: Domain,
    terms: Terms,
    pieces: Mapping[str, Pieces],
    finer_than: Mapping[str, Classes],
    sandbox: Sandbox,
) -> dict[Key, LeafValues]:
    """The values of leaves one by one on all combinations of their columns' pieces."""
    by_columns: dict[tuple[str, ...], list[Key]] = {}
    summed: dict[str, list[Key]] = {}
    for key, leaf in terms.items():
        if key[0] == "factor" and len(leaf.columns) == 1 and not pieces[leaf.columns[0]].listed:
            summed.setdefault(leaf.columns[0], []).append(key)
        else:
            by_columns.setdefault(leaf.columns, []).append(key)
    _check_evaluations(domain, by_columns, pieces)
    out: dict[Key, LeafValues] = {}
    for name, keys in summed.items():
        # The pieces of a release: another question, which cuts them further, changes no sum.
        coarse = finer_than[name].pieces if name in finer_than else pieces[name]
        out |= _means(coarse, pieces[name], keys, sandbox)
    for columns, keys in by_columns.items():
        shape = tuple(len(pieces[name]) for name in columns)
        load_grid(sandbox, columns, np.indices(shape).reshape(len(shape), prod(shape)), pieces)
        for key, array in zip(keys, run_typed(sandbox, keys), strict=True):
            out[key] = _read(key[0], columns, shape, array, key[1])
    return out


def _means(coarse: Pieces, fine: Pieces, keys: Sequence[Key], sandbox: Sandbox) -> dict[Key, LeafValues]:
    """Measures over a column whose pieces have several values: the mean of a coarse piece, and how far they reach."""
    attribute = coarse.attribute
    values, firsts = coarse.inside(MAX_INSIDE)
    parents = coarse.holding(fine.points)
    arrow = attribute.ordered.arrow(values)
    if attribute.nullable:
        arrow, firsts = pa.concat_arrays([arrow, pa.nulls(1, arrow.type)]), np.append(firsts, len(values))
    load_values(sandbox, attribute, arrow)
    out = {}
    for key, array in zip(keys, run_typed(sandbox, keys), strict=True):
        numbers = _read(key[0], (attribute.name,), (len(arrow),), array, key[1]).array
        counts = np.diff(np.append(firsts, len(arrow)))
        means = np.add.reduceat(numbers, firsts) / counts
        reach = np.maximum.reduceat(np.abs(numbers - np.repeat(means, counts)), firsts)
        out[key] = LeafValues((attribute.name,), means[parents], reach=np.nan_to_num(reach)[parents])
    return out


def _check_evaluations(
    domain: Domain, by_columns: Mapping[tuple[str, ...], Sequence[Key]], pieces: Mapping[str, Pieces]
) -> None:
    left = MAX_EVALUATED
    for columns, keys in by_columns.items():
        cells = prod(len(pieces[name]) for name in columns)
        if len(columns) > 1 and cells > MAX_JOINT:
            why = f"joins {', '.join(columns)} value by value, {cells:,} combinations, more than {MAX_JOINT:,}"
            raise unanswerable(domain, keys[0], why)
        left = check_evaluations(", ".join(columns), keys, cells, left)


def check_evaluations(columns: str, keys: Sequence[Key], cells: int, left: int = MAX_EVALUATED) -> int:
    """Refuse expressions that would be evaluated too often; how often others still may be."""
    if cells * len(keys) > left:
        raise refuse_query(
            f"{len(keys):,} expressions such as {keys[0][1]!r} are evaluated value by value on {cells:,} values of"
            f" {columns}, more than {MAX_EVALUATED:,} times in all",
            "ask fewer, declare fewer values, or compare the column with constants (=, IN, <, BETWEEN)",
            CellsError,
        )
    return left - cells * len(keys)


def load_grid(
    sandbox: Sandbox, columns: Sequence[str], members: npt.NDArray[np.intp], pieces: Mapping[str, Pieces]
) -> None:
    """Combinations of the columns' pieces as the table `grid`; `members` has a row for each column."""
    one = pa.array(np.zeros(members.shape[1], dtype=np.int32))
    loaded: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", one)}
    for name, index in zip(columns, members, strict=True):
        loaded[name] = (pieces[name].attribute.type, pieces[name].values().take(pa.array(index)))
    sandbox.load("grid", loaded)


def load_values(sandbox: Sandbox, attribute: Attribute, values: pa.Array) -> None:
    """Values of one column as the table `grid`."""
    one = pa.array(np.zeros(len(values), dtype=np.int32))
    sandbox.load("grid", {"__one": ("INTEGER", one), attribute.name: (attribute.type, values)})


def load_rows(sandbox: Sandbox, domain: Domain, columns: Mapping[str, tuple[str, pa.Array]]) -> None:
    """Rows as the private table would have them, under its name: also with the columns that are computed of these.

    A column of a table above is a field of a value that is called as that table, and stands alone where that is clear.
    """
    columns = {**columns, **dict(_columns_above(domain, columns))}
    sandbox.load(domain.table, columns)
    computed = [each for each in domain.computed if columns.keys() >= set(each.columns)]
    if computed:
        arrays = sandbox.evaluate(domain.table, [each.text for each in computed])
        values = {each.name: (each.type, array.combine_chunks()) for each, array in zip(computed, arrays, strict=True)}
        sandbox.load(domain.table, {**columns, **values})


def _columns_above(
    domain: Domain, columns: Mapping[str, tuple[str, pa.Array]]
) -> Iterator[tuple[str, tuple[str, pa.Array]]]:
    """Columns of tables above, as expressions may name them: person.age, and age."""
    for table in domain.above:
        fields = {name.partition(".")[2]: typed for name, typed in columns.items() if name.startswith(f"{table}.")}
        if fields:
            kinds = ", ".join(f"{dialect.quoted(name)} {kind}" for name, (kind, _) in fields.items())
            arrays = [array for _, array in fields.values()]
            yield table, (f"STRUCT({kinds})", pa.StructArray.from_arrays(arrays, list(fields)))
    present = {dialect.fold(name) for name in columns}
    for name, meant in domain.spelling.items() if domain.above else ():
        if meant in columns and name not in present:
            yield name, columns[meant]


def run(sandbox: Sandbox, table: str, texts: Sequence[Key]) -> list[pa.ChunkedArray]:
    """Expressions over the rows of a table; each comes after the text that a refusal of it shows."""
    try:
        return sandbox.evaluate(table, [expression for _, expression in texts])
    except duckdb.Error as error:
        if len(texts) == 1:
            raise evaluation_error(texts[0][0], error) from None
        # One by one: that finds the one to blame, or none (DuckDB reads an odd space otherwise if a text before it has
        # a quote in a comment).
        return [array for one in texts for array in run(sandbox, table, [one])]


def run_typed(sandbox: Sandbox, keys: Sequence[Key]) -> Iterator[pa.ChunkedArray]:
    """Leaves over the rows of the table `grid`, each in the type that its role needs; some at a time: less memory."""
    kinds = {"truth": "BOOLEAN", "group": "VARCHAR", "factor": "DOUBLE"}
    texts = [(sql, f"CAST(({sql}) AS {kinds[role]})") for role, sql in keys]
    for begin in range(0, len(texts), MOST_EXPRESSIONS):
        yield from run(sandbox, "grid", texts[begin : begin + MOST_EXPRESSIONS])


def evaluation_error(text: str, error: duckdb.Error) -> MwemError:
    cure = "it must be a scalar for every declared value; TRY_CAST and CASE help"
    if isinstance(error, duckdb.ParserException):
        cure = "write what would follow WHERE"
    cause = str(error).splitlines()[0].rstrip(".")
    return refuse_query(
        f"expression ({text!r}) cannot be evaluated on the public domain: {cause}", cure, PredicateError
    )


def truth_of(array: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """Three-valued truth, in one byte each."""
    import pyarrow.compute as pc  # noqa: PLC0415  takes a tenth of the time of `import mwem_sql`

    return np.asarray(pc.if_else(array, TRUE, 0).fill_null(1).cast(pa.int8()).to_numpy())


def _read(role: str, columns: tuple[str, ...], shape: tuple[int, ...], array: pa.ChunkedArray, text: str) -> LeafValues:
    if role == "truth":
        return LeafValues(columns, encode(truth_of(array).reshape(shape)))
    if role == "group":
        coded = array.combine_chunks().dictionary_encode(null_encoding="encode")
        cells = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32).reshape(shape)
        return LeafValues(columns, cells, labels=coded.dictionary.to_pylist())
    numbers = array.fill_null(0.0).to_numpy() + 0.0  # no -0.0
    if not (np.abs(numbers) <= LARGEST_VALUE).all():
        raise refuse_query(
            f"measure ({text!r}) is not a number, or beyond {LARGEST_VALUE:g}, for some value of the domain",
            "it must be bounded on the whole declared domain: CASE, least and greatest help",
        )
    return LeafValues(columns, np.where(array.is_valid().to_numpy(), numbers, np.nan).reshape(shape))


def compare(
    terms: Terms,
    pieces: Mapping[str, Pieces],
    ticks: Ticks,
    sandbox: Sandbox,
    *,
    at_once: int = EVALUATED_AT_ONCE,
) -> dict[Key, LeafValues]:
    """The values of columns by themselves, and of conditions that need few pieces: they compare with constants."""
    by_column: dict[str, dict[Key, Leaf]] = {}
    out: dict[Key, LeafValues] = {}
    for key, leaf in terms.items():
        if len(leaf.columns) == 1 and key[0] == "truth":
            by_column.setdefault(leaf.columns[0], {})[key] = leaf
        elif key[0] == "group" and leaf.is_column:
            out[key] = _column(leaf, pieces[leaf.columns[0]])
    for name, leaves in by_column.items():
        if pieces[name].attribute.values is not None:
            out |= _listed(pieces[name], leaves, sandbox)
        else:
            out |= _Ordered(pieces[name], ticks[name]).values(leaves, sandbox, at_once)
    return out


def _column(leaf: Leaf, pieces: Pieces) -> LeafValues:
    first = np.unique(pieces.bins, return_index=True)[1]
    return LeafValues(leaf.columns, pieces.bins, labels=[pieces.label(int(piece)) for piece in first])


def _listed(pieces: Pieces, leaves: Terms, sandbox: Sandbox) -> dict[Key, LeafValues]:
    """Listed texts, compared with some of them."""
    attribute = pieces.attribute
    assert attribute.values is not None
    if sandbox.collates or not (attribute.type == "VARCHAR" or attribute.type.startswith("ENUM(")):
        return {}
    number = {text: number for number, text in enumerate(attribute.values)}
    out = {}
    for key, leaf in leaves.items():
        operator, constants = leaf.test or ("", ())
        texts = [unquoted(text) for text in constants if text[0] == "'"]
        if operator in {"=", "<>", "in"} and len(texts) == len(constants) and all(text in number for text in texts):
            numbers = [number[text] for text in texts]
            around = _around(pieces, chain(numbers, (number + 1 for number in numbers)))
            out[key] = _truths(leaf, pieces, around, _compared(around, operator, numbers))
    return out


class _Ordered:
    """The pieces of a column with bounds, and where the constants that it is compared with lie among them."""

    def __init__(self, pieces: Pieces, ticks: Mapping[str, Tick]) -> None:
        self._pieces = pieces
        self._ticks = ticks
        scale = pieces.attribute.ordered
        least, most = scale.limits  # of what the type's columns may hold, and so that one more is an int64
        # The truth of a comparison can only change at the constant or right beside it: up to one piece past that.
        inside = [min(max(tick, least), most) for tick in ticks.values()]
        lows = np.array([scale.before(tick) for tick in inside], dtype=pieces.points.dtype)
        highs = np.array([scale.after(scale.after(tick)) for tick in inside], dtype=pieces.points.dtype)
        firsts = np.searchsorted(pieces.points, lows).tolist()
        lasts = np.searchsorted(pieces.points, highs, side="right").tolist()
        self._near = {text: range(first, last + 1) for text, first, last in zip(ticks, firsts, lasts, strict=True)}

    def values(self, leaves: Terms, sandbox: Sandbox, at_once: int) -> dict[Key, LeafValues]:
        pieces, scale = self._pieces, self._pieces.attribute.ordered
        out: dict[Key, LeafValues] = {}
        near: dict[Key, Places] = {}
        is_exact = self._is_exact()
        for key, leaf in leaves.items():
            operator, constants = leaf.test or ("", ())
            if operator and all(text in self._ticks and scale.tick_of(text) is not None for text in constants):
                around = self._around(constants)
                points = pieces.points[np.minimum(around, pieces.non_null - 1)]
                truth = _compared(points, operator, [self._ticks[text] for text in constants])
                out[key] = _truths(leaf, pieces, around, truth)
            elif leaf.compared is not None and len(pieces) > at_once and is_exact:
                near[key] = self._around(leaf.compared)
        # Conditions with constants near each other, so that together they need few pieces.
        nearest = sorted(near, key=lambda key: near[key][1:2].tolist())
        for keys in batches(nearest, lambda key: len(near[key]), at_once):
            union = distinct(*(near[key] for key in keys))
            load_grid(sandbox, leaves[keys[0]].columns, union[None], {pieces.attribute.name: pieces})
            for key, array in zip(keys, run_typed(sandbox, keys), strict=True):
                numbers = truth_of(array)[np.searchsorted(union, near[key])]
                out[key] = LeafValues(leaves[key].columns, Runs.at(near[key], numbers, len(pieces)))
        return out

    def _around(self, constants: Sequence[str]) -> Places:
        return _around(self._pieces, chain.from_iterable(self._near.get(text, ()) for text in constants))

    def _is_exact(self) -> bool:
        """Whether what a comparison says changes right beside its constant, whatever type that has."""
        attribute = self._pieces.attribute
        assert attribute.low is not None and attribute.high is not None
        if attribute.ordered.family not in {"integer", "decimal"} or not self._pieces.listed:
            return True
        return max(-attribute.low, attribute.high) <= EXACT


def _around(pieces: Pieces, members: Iterable[int]) -> Places:
    """Some pieces with the first and NULL, each once; without those beyond the last."""
    wanted = {member for member in members if member < pieces.non_null} | {0}
    if pieces.attribute.nullable:
        wanted.add(pieces.non_null)
    return np.array(sorted(wanted), dtype=np.intp)


def _truths(leaf: Leaf, pieces: Pieces, around: Places, truth: npt.NDArray[np.bool_]) -> LeafValues:
    """A condition from its truth on some pieces; on NULL it is NULL."""
    numbers = np.where(around >= pieces.non_null, 1, np.where(truth, TRUE, 0)).astype(np.int8)
    runs = Runs.at(around, numbers, len(pieces))
    return LeafValues(leaf.columns, runs if runs.saves_memory else encode(runs.array()))


def _compared(points: npt.NDArray[Any], operator: str, constants: Sequence[Tick]) -> npt.NDArray[np.bool_]:
    if operator == "in":
        return np.isin(points, constants)
    if operator == "between":
        return np.asarray((points >= constants[0]) & (points <= constants[1]))
    return np.asarray(_OPERATORS[operator](points, constants[0]))
