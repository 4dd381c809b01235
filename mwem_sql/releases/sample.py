"""Rows from a stored release, as many as are wanted, or of one kind: from its state, as the synthetic table was drawn. Released values only, so that it costs no privacy.

Rows of one kind are drawn from the state restricted to the classes in which the condition is true, and kept if it is true of their values: what is kept is distributed as the
model is, given the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.table import shares_within
from mwem_sql.compile.blocks import MAX_CELLS
from mwem_sql.compile.compiled import Compiled
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import OptionError, refuse
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.platform.session import Session
from mwem_sql.releases.answer import Answerer, answerer
from mwem_sql.releases.request import read_whole
from mwem_sql.synthesis.rounding import systematic_counts
from mwem_sql.synthesis.values import draw_rows
from mwem_sql.workload import Workload

FUNCTION = "mwem_sample"
MOST_VALUES = 2 * 10**7
"""Values, rows times columns, of one call. More: a call takes more memory, some 55 bytes for each in SQL."""
LEAST_ROWS = 1e-3
"""Rows that the release must count for a condition before any are drawn of it: less is what fits leave where nothing is."""
MOST_DRAWN = 1000
"""Rows that are drawn for one that is kept, before a condition is given up: where a model of all its columns would be too large, or it is true of few values of a bin."""
AT_ONCE = 2**16
"""Rows that are drawn at a time, at least, where not all are kept."""
MOST_SEED = 2**53


class Sampler:
    """A call that was read and checked: what it will draw is decided, but for chance."""

    def __init__(self, session: Session, output: str, rows: object, given: str | None, seed: object) -> None:
        self._ready: Answerer = answerer(session, output, FUNCTION)
        self._output, self._given = output, given
        self._compiled: Compiled | None = None
        self._seed = None if seed is None else read_whole(FUNCTION, "seed", seed, 0, MOST_SEED)
        stored, expected = self._ready.stored, float(self._ready.stored.facts["rows"])
        if given is not None:
            self._compiled = self._ready.compile(Workload.from_predicates([given]))
            expected = float(self._ready.answers(self._compiled)[0][0])
            if expected < LEAST_ROWS:
                raise _none_of(output, given)
        self.types = {name: own.attribute.type for name, own in stored.classes.items()}
        most = MOST_VALUES // len(self.types)
        self._rows = read_whole(FUNCTION, "rows", max(1, round(expected)) if rows is None else rows, 1, most)

    def draw(self) -> pa.Table:
        """The rows; columns in the order of the release, each as Arrow has it, to be cast to its type."""
        stored, generator = self._ready.stored, np.random.default_rng(self._seed)
        state = stored.state()
        if self._compiled is None or self._given is None:
            return _read(state, stored.classes, self._rows, generator)
        states = list(state.states) if isinstance(state, Mixture) else [state]
        kinds = [_restricted(one, self._compiled, stored.classes) for one in states]
        found: list[pa.Table] = []
        kept = drawn = 0
        with self._ready.sandbox() as sandbox:
            while kept < self._rows:
                # Somewhat more than is likely to do; at first, as if all were kept.
                wanted = int(1.1 * (self._rows - kept) * (drawn + 1) / (kept + 1)) + 16
                size = min(wanted, max(AT_ONCE, 2 * self._rows))
                rows = _drawn(kinds, size, generator)
                rows = rows.filter(_is_true(self._given, rows, self._compiled, sandbox))
                found.append(rows)
                kept, drawn = kept + rows.num_rows, drawn + size
                if drawn > MOST_DRAWN * (kept + 1) + 4 * AT_ONCE:
                    raise refuse(
                        OptionError,
                        FUNCTION,
                        f"given ({self._given!r}) is true of next to no row that is drawn from {self._output}",
                        "values off the domain are drawn as the nearest bound, or as NULL; ask for more than that",
                    )
        return pa.concat_tables(found).slice(0, self._rows)


@dataclass(frozen=True, eq=False)
class _Kind:
    """A state of rows of one kind on classes of its own, and the share that it had of all rows."""

    state: State
    classes: Mapping[str, Classes]
    share: float


def _none_of(output: str, given: str) -> Exception:
    return refuse(
        OptionError,
        FUNCTION,
        f"given ({given!r}) is true of next to no row that {output} has",
        f"ask for more: mwem_count('{output}', ...) says how many rows a condition has",
    )


def _restricted(state: State, compiled: Compiled, stored: Mapping[str, Classes]) -> _Kind:
    """A state restricted to the classes in which a condition is true; stored ones are split where it is true of some of their values."""
    share, classes = 1.0, dict(stored)
    for block in compiled.queries[0].linear.blocks:
        finer = {name: compiled.classes[name] for name in block.attributes}
        # What would take too large a model is left to the rows that are not kept.
        if state.cells_with(block.attributes, {name: own.count for name, own in finer.items()}) > MAX_CELLS:
            continue
        for name, own in finer.items():
            parents = stored[name].holding(own.pieces)[own.representatives]
            state.split(name, parents, shares_within(parents, own.shares_of(stored[name])))
            classes[name] = _refined(stored[name], own)
        share *= state.restrict(block.attributes, block.labels >= 0)
    return _Kind(state, classes, share)


def _refined(stored: Classes, finer: Classes) -> Classes:
    """Finer classes on pieces that have what was measured inside the stored ones."""
    pieces = stored.pieces
    if pieces.attribute.values is None:
        pieces = pieces.cut(np.union1d(pieces.lows, finer.pieces.lows))
    return Classes(pieces, finer.holding(pieces), None if stored.weights is None else stored.weigh(pieces))


def _drawn(kinds: Sequence[_Kind], rows: int, generator: np.random.Generator) -> pa.Table:
    """Rows of several states, of each as many as its share says, in random order."""
    counts = systematic_counts(np.array([kind.share for kind in kinds]), rows, generator).tolist()
    parts = [
        _read(kind.state, kind.classes, count, generator) for kind, count in zip(kinds, counts, strict=True) if count
    ]
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts).take(generator.permutation(rows))


def _read(
    state: State | Mixture, classes: Mapping[str, Classes], rows: int, generator: np.random.Generator
) -> pa.Table:
    return draw_rows(state, classes, rows, generator).reader.read_all().rename_columns(list(classes))


def _is_true(given: str, rows: pa.Table, compiled: Compiled, sandbox: Sandbox) -> npt.NDArray[np.bool_]:
    """Of each row, whether SQL says so."""
    columns = {name: (own.attribute.type, _plain(rows.column(name))) for name, own in compiled.classes.items()}
    sandbox.load(compiled.domain.table, columns or {"__one": ("INTEGER", pa.array(np.zeros(rows.num_rows)))})
    (truth,) = sandbox.evaluate(compiled.domain.table, [f"coalesce(CAST(({given}\n) AS BOOLEAN), false)"])
    return np.asarray(truth.to_numpy())


def _plain(values: pa.ChunkedArray) -> pa.Array:
    """One array, texts written out."""
    whole = values.combine_chunks()
    return whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole


def as_texts(rows: pa.Table) -> list[pa.Array]:
    """The columns as text that DuckDB casts to their types."""
    return [_plain(column).cast(pa.string()) for column in rows.columns]
