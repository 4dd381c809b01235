"""Values of the workload's expressions on the public grid: which pieces there are, and what DuckDB makes of each leaf there.

Reads no private row. Comparisons with constants need the pieces between the constants only; anything else is evaluated value by
value, within stated bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from mwem_sql.algebra.partition import Encoding, decode, encode
from mwem_sql.domains.classes import MAX_VALUES, Classes, Pieces, cut_pieces, is_long, value_pieces
from mwem_sql.domains.domain import Domain
from mwem_sql.errors import CellsError, MwemError, PredicateError, refuse_query
from mwem_sql.language import dialect
from mwem_sql.language.conditions import Leaf
from mwem_sql.language.measures import LARGEST
from mwem_sql.language.ticks import Tick
from mwem_sql.platform.sandbox import BATCH, Sandbox

MAX_JOINT = 1_000_000  # value combinations on which one expression over several columns is evaluated
MAX_EVALUATED = 2**28  # values on which expressions are evaluated, all of them together
MAX_INSIDE = 2**20  # values of a column's pieces that a measure is averaged over
TRUE = 2  # three-valued logic in one byte: false 0, NULL 1, true 2, so that AND is min, OR is max, NOT is 2 - x

Terms = Mapping[tuple[str, str], Leaf]  # (role, SQL) to leaf; a role is truth, group or factor


Ticks = Mapping[str, Mapping[str, Tick]]  # by column, of each constant that it is compared with and that lies somewhere


@dataclass(eq=False)
class Values:
    """A leaf's values on the grid of its columns: truth bytes, group numbers, or numbers with NaN for NULL.

    A number is the mean of those that the values inside a piece have; `reach` is how far any of them is from it, None for nothing.
    `doubt` is where truth may be another for some values of a piece; None for nowhere.
    """

    columns: tuple[str, ...]
    encoding: Encoding
    labels: list[str | None] = field(default_factory=list)
    reach: npt.NDArray[np.float64] | None = None
    doubt: npt.NDArray[np.bool_] | None = None

    @property
    def array(self) -> npt.NDArray[Any]:
        return decode(self.encoding)


Evaluated = Mapping[tuple[str, str], Values]  # by role and SQL


def cut(
    domain: Domain,
    used: Sequence[str],
    terms: Terms,
    ticks: Ticks,
    *,
    changes: Mapping[str, npt.NDArray[Any]],
    finer_than: Mapping[str, Classes],
) -> dict[str, Pieces]:
    """Each used column's pieces: its values or bins where they must be told apart, else what lies between constants and changes."""
    joined = {name: key for key, leaf in terms.items() if len(leaf.columns) > 1 for name in leaf.columns}
    by_bin = {
        leaf.columns[0] for (role, _), leaf in terms.items() if leaf.is_column or (role == "factor" and leaf.columns)
    }
    out = {}
    for name in used:
        attribute = domain[name]
        if not is_long(attribute):
            out[name] = value_pieces(attribute)
            continue
        begins: list[Tick] = changes[name].tolist() if name in changes else []
        if name in finer_than:
            begins += finer_than[name].pieces.lows.tolist()
        if name in joined:
            if attribute.count is None or attribute.count > MAX_VALUES:
                many = "endlessly many" if attribute.count is None else f"{attribute.count:,}"
                why = f"joins {name} with another column value by value, and it has {many}, more than {MAX_VALUES:,}"
                raise unanswerable(domain, joined[name], why)
            begins += range(int(attribute.least), int(attribute.most) + 1)
        out[name] = (value_pieces if name in by_bin else cut_pieces)(attribute, ticks[name].values(), begins)
    return out


def with_stand_ins(terms: Terms, pieces: Mapping[str, Pieces], sandbox: Sandbox) -> dict[str, Pieces]:
    """The same pieces; of open lists on whose stand-in for all other values an expression fails, these are NULL (`code::INTEGER`)."""
    failing: set[str] = set()
    for key, leaf in terms.items():
        names = [name for name in leaf.columns if pieces[name].attribute.values and pieces[name].attribute.open]
        if leaf.test is None and not leaf.is_column and not failing.issuperset(names):
            places = [[len(pieces[name].attribute.values or ()) if name in names else 0] for name in leaf.columns]
            load_grid(sandbox, leaf.columns, np.array(places, dtype=np.intp), pieces)
            try:
                run_typed(sandbox, [key])
            except PredicateError:
                failing.update(names)
    return {name: replace(own, has_stand_in=False) if name in failing else own for name, own in pieces.items()}


def unanswerable(domain: Domain, key: tuple[str, str], why: str) -> MwemError:
    """A refusal of an expression that would need more values than can be told apart, with a view that has it as a column."""
    role, sql = key
    table = dialect.sql(exp.to_identifier(domain.table, quoted=True))
    named = dialect.name(f"{domain.table}_asked")
    view = f"CREATE VIEW {named} AS SELECT *, {sql} AS question FROM {table}"  # noqa: S608  to be read
    values = "" if role == "truth" else ", and the values of question in a domain table"
    cure = f"make it a column: {view}; then release {named} and ask for question, with the domain table of {table}, if any, as domain"
    return refuse_query(f"{sql!r} {why}", f"{_floored(sql)}{cure}{values}", CellsError)


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
) -> dict[tuple[str, str], Values]:
    """The values of leaves one by one on all combinations of their columns' pieces."""
    by_columns: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    summed: dict[str, list[tuple[str, str]]] = {}
    for key, leaf in terms.items():
        if key[0] == "factor" and len(leaf.columns) == 1 and not pieces[leaf.columns[0]].listed:
            summed.setdefault(leaf.columns[0], []).append(key)
        else:
            by_columns.setdefault(leaf.columns, []).append(key)
    _check_evaluations(domain, by_columns, pieces)
    out: dict[tuple[str, str], Values] = {}
    for name, keys in summed.items():
        # As they were when a release was made: what else is asked now, and cuts them further, changes no sum.
        coarse = finer_than[name].pieces if name in finer_than else pieces[name]
        out |= _means(coarse, pieces[name], keys, sandbox)
    for columns, keys in by_columns.items():
        shape = tuple(len(pieces[name]) for name in columns)
        load_grid(sandbox, columns, np.indices(shape).reshape(len(shape), prod(shape)), pieces)
        # Some at a time: they take less room once they are read.
        for begin in range(0, len(keys), BATCH):
            some = keys[begin : begin + BATCH]
            for key, array in zip(some, run_typed(sandbox, some), strict=True):
                out[key] = _read(key[0], columns, shape, array, key[1])
    return out


def _means(
    coarse: Pieces, fine: Pieces, keys: Sequence[tuple[str, str]], sandbox: Sandbox
) -> dict[tuple[str, str], Values]:
    """What is summed up over a column whose pieces have several values: the mean of a coarse piece, and how far its values are from that."""
    attribute = coarse.attribute
    values, firsts = coarse.inside(MAX_INSIDE)
    parents = coarse.holding(fine.points)
    arrow = attribute.ordered.arrow(values)
    if attribute.nullable:
        arrow, firsts = pa.concat_arrays([arrow, pa.nulls(1, arrow.type)]), np.append(firsts, len(values))
    one = pa.array(np.zeros(len(arrow), dtype=np.int32))
    sandbox.load("grid", {"__one": ("INTEGER", one), attribute.name: (attribute.type, arrow)})
    out = {}
    for key, array in zip(keys, run_typed(sandbox, keys), strict=True):
        numbers = _read(key[0], (attribute.name,), (len(arrow),), array, key[1]).array
        counts = np.diff(np.append(firsts, len(arrow)))
        means = np.add.reduceat(numbers, firsts) / counts
        reach = np.maximum.reduceat(np.abs(numbers - np.repeat(means, counts)), firsts)
        out[key] = Values((attribute.name,), means[parents], reach=np.nan_to_num(reach)[parents])
    return out


def _check_evaluations(
    domain: Domain, by_columns: Mapping[tuple[str, ...], Sequence[tuple[str, str]]], pieces: Mapping[str, Pieces]
) -> None:
    left = MAX_EVALUATED
    for columns, keys in by_columns.items():
        cells = prod(len(pieces[name]) for name in columns)
        if len(columns) > 1 and cells > MAX_JOINT:
            why = f"joins {', '.join(columns)} value by value, {cells:,} combinations, more than {MAX_JOINT:,}"
            raise unanswerable(domain, keys[0], why)
        left = check_evaluations(", ".join(columns), keys, cells, left)


def check_evaluations(columns: str, keys: Sequence[tuple[str, str]], cells: int, left: int = MAX_EVALUATED) -> int:
    """Refuse expressions that would be evaluated too often; how often others still may be."""
    if cells * len(keys) > left:
        raise refuse_query(
            f"{len(keys):,} expressions such as {keys[0][1]!r} are evaluated value by value on {cells:,} values of {columns},"
            f" more than {MAX_EVALUATED:,} times in all",
            "ask fewer, declare fewer values, or compare the column with constants (=, IN, <, BETWEEN)",
            CellsError,
        )
    return left - cells * len(keys)


def load_grid(
    sandbox: Sandbox, columns: Sequence[str], places: npt.NDArray[np.intp], pieces: Mapping[str, Pieces]
) -> None:
    """Combinations of the columns' pieces as the table `grid`; `places` has a row for each column."""
    one = pa.array(np.zeros(places.shape[1], dtype=np.int32))
    loaded: dict[str, tuple[str, pa.Array]] = {"__one": ("INTEGER", one)}
    for name, index in zip(columns, places, strict=True):
        loaded[name] = (pieces[name].attribute.type, pieces[name].values().take(pa.array(index)))
    sandbox.load("grid", loaded)


def run(sandbox: Sandbox, table: str, texts: Sequence[tuple[str, str]]) -> list[pa.ChunkedArray]:
    """Expressions over the rows of a table; each comes after the text that a refusal of it shows."""
    try:
        return sandbox.evaluate(table, [expression for _, expression in texts])
    except duckdb.Error as error:
        if len(texts) == 1:
            raise evaluation_error(texts[0][0], error) from None
        # One by one: that finds the one to blame, or none (DuckDB reads an odd space otherwise if a text before it has a quote in a comment).
        return [array for one in texts for array in run(sandbox, table, [one])]


def run_typed(sandbox: Sandbox, keys: Sequence[tuple[str, str]]) -> list[pa.ChunkedArray]:
    """Leaves over the rows of the table `grid`, by role and SQL; each in the type that its role needs."""
    kinds = {"truth": "BOOLEAN", "group": "VARCHAR", "factor": "DOUBLE"}
    return run(sandbox, "grid", [(sql, f"CAST(({sql}) AS {kinds[role]})") for role, sql in keys])


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


def _read(role: str, columns: tuple[str, ...], shape: tuple[int, ...], array: pa.ChunkedArray, text: str) -> Values:
    if role == "truth":
        return Values(columns, encode(truth_of(array).reshape(shape)))
    if role == "group":
        coded = array.combine_chunks().dictionary_encode(null_encoding="encode")
        cells = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32).reshape(shape)
        return Values(columns, cells, coded.dictionary.to_pylist())
    numbers = array.fill_null(0.0).to_numpy() + 0.0  # no -0.0
    if not (np.abs(numbers) <= LARGEST).all():
        raise refuse_query(
            f"measure ({text!r}) is not a number, or beyond {LARGEST:g}, for some value of the domain",
            "it must be bounded on the whole declared domain: CASE, least and greatest help",
        )
    return Values(columns, np.where(array.is_valid().to_numpy(), numbers, np.nan).reshape(shape))
