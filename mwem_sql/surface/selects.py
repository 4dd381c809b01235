"""Functions whose columns depend on their arguments: each is a SELECT that is made when DuckDB binds the call.

Owns these statements, and how rows of any type come from Python: as text that the statement casts. Must not work anything out itself: rooms below do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
from sqlglot import exp

from mwem_sql.errors import MwemError
from mwem_sql.language.ticks import cast
from mwem_sql.platform import calls
from mwem_sql.platform.session import Session
from mwem_sql.releases import answer
from mwem_sql.releases.quantile import OF_ITS_TYPE, QUANTILE
from mwem_sql.releases.sample import as_texts
from mwem_sql.surface import calling, questions
from mwem_sql.surface.arguments import Arguments, name_list, read_name
from mwem_sql.surface.calling import Cursor


def select_sql(function: str, cursor: Cursor, text: str) -> str:
    """The SELECT of a call; one that raises the refusal if there is none."""
    names: Sequence[str] = ()
    try:
        session, arguments = calling.read(cursor, text)
        names = _names(function, session, arguments)
        return calls.run(function, lambda: _SELECTS[function](session, arguments, text)).sql("duckdb")
    except Exception as error:  # noqa: BLE001
        return _raising(calling.sentence(function, error), names).sql("duckdb")


def _names(function: str, session: Session, arguments: Arguments) -> Sequence[str]:
    """The columns that a call is to have, whatever else it asks for: where DuckDB misses one, it says so in the place of our refusal. None if they are not known."""
    if function == "mwem_quantile":
        return list(QUANTILE)
    if function == "mwem_sample":
        with suppress(MwemError):
            return list(answer.answerer(session, read_name(arguments, "output", function), function).stored.classes)
    return ()


def _raising(sentence: str, names: Sequence[str]) -> exp.Select:
    """Raises whatever the outer query filters or projects: in a list, before there are rows. Without names, DuckDB shows the sentence as the nearest to a column that it misses."""
    raised = _called("unnest", exp.Array(expressions=[_called("error", exp.Literal.string(sentence))]))
    source = exp.select(exp.alias_(raised, "r")).subquery("e")
    return exp.select(*(exp.alias_(exp.column("r"), name, quoted=True) for name in names or (sentence,))).from_(source)


def _select_weights(session: Session, arguments: Arguments, text: str) -> exp.Select:
    output = read_name(arguments, "output", "mwem_weights")
    columns, _ = answer.weights(session, output, name_list(arguments["attributes"]) or [])
    inner = exp.select(
        exp.alias_(_called("unnest", _called("_mwem_weights", exp.Literal.string(text), exp.null())), "r")
    )
    cells = [_typed(_item(_field("cell"), k), kind, name) for k, (name, kind) in enumerate(columns, start=1)]
    return exp.select(*cells, exp.alias_(_field("weight"), "weight")).from_(inner.subquery("w"))


def _select_quantiles(session: Session, arguments: Arguments, _: str) -> exp.Select:
    """Written out: they are few, and worked out by now."""
    kind, rows = questions.quantiles_of(session, arguments)
    types = {name: kind if name in OF_ITS_TYPE else own for name, own in QUANTILE.items()}
    source = exp.values([tuple(row[name] for name in types) for row in rows], alias="q", columns=list(types))
    return exp.select(*(_typed(exp.column(name), own, name) for name, own in types.items())).from_(source)


def _select_sample(session: Session, arguments: Arguments, text: str) -> exp.Select:
    """A list of values for each column, side by side."""
    types = questions.sampler_of(session, arguments).types
    call = exp.select(exp.alias_(_called("_mwem_sample", exp.Literal.string(text)), "r"))
    # All that can be refused was refused above, unless somebody was faster.
    failed = exp.Not(this=exp.Is(this=_field("err"), expression=exp.null()))
    lists = exp.Case(ifs=[exp.If(this=failed, true=_called("error", _field("err")))], default=_field("lists"))
    source = exp.select(exp.alias_(lists, "v")).from_(call.subquery("c")).subquery("s")
    columns = [
        _typed(_called("unnest", _item(exp.column("v"), k)), kind, name)
        for k, (name, kind) in enumerate(types.items(), start=1)
    ]
    return exp.select(*columns).from_(source)


def _called(function: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _field(name: str) -> exp.Dot:
    return exp.Dot(this=exp.column("r"), expression=exp.to_identifier(name))


def _item(listed: exp.Expr, number: int) -> exp.Bracket:
    """From 1."""
    return exp.Bracket(this=listed, expressions=[exp.Literal.number(number)], offset=1)


def _typed(value: exp.Expr, kind: str, name: str) -> exp.Expr:
    return exp.alias_(cast(value, kind), name, quoted=True)


def sampled(cursor: Cursor, texts: list[str]) -> pa.Array:
    """Of each call a struct with its refusal, or with a list of values for each column."""
    made = [_sample(cursor, text) for text in texts]
    lists = [column for _, columns in made for column in columns]
    inner = pa.ListArray.from_arrays(
        _offsets([len(column) for column in lists]), pa.concat_arrays([pa.array([], pa.string()), *lists])
    )
    outer = pa.ListArray.from_arrays(_offsets([len(columns) for _, columns in made]), inner)
    return pa.StructArray.from_arrays([pa.array([error for error, _ in made], pa.string()), outer], ["err", "lists"])


def _sample(cursor: Cursor, text: str) -> tuple[str | None, list[pa.Array]]:
    try:
        session, arguments = calling.read(cursor, text)
        return None, calls.run("mwem_sample", lambda: as_texts(questions.sampler_of(session, arguments).draw()))
    except Exception as error:  # noqa: BLE001
        return calling.sentence("mwem_sample", error), []


def _offsets(lengths: list[int]) -> pa.Array:
    return pa.array(np.cumsum([0, *lengths]), pa.int32())


_Select = Callable[[Session, Arguments, str], exp.Select]
_SELECTS: dict[str, _Select] = {
    "mwem_weights": _select_weights, "mwem_quantile": _select_quantiles, "mwem_sample": _select_sample,
}  # fmt: skip
SELECTS = tuple(_SELECTS)
"""Functions whose columns depend on their arguments."""
