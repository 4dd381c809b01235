"""A sample of a stored release: rows from its state, as many as are wanted, or those that meet a condition.

Released values only, so that it costs no privacy. Rows that meet a condition are drawn from the state restricted to the
classes in which the condition is true, and kept if it is true of their values: what is kept is distributed as the model
is, given the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mwem_sql.algebra.sets import distinct
from mwem_sql.compile.build import MAX_CELLS
from mwem_sql.compile.compiled import Compiled
from mwem_sql.compile.evaluate import load_rows
from mwem_sql.domains.classes import Classes
from mwem_sql.errors import OptionError, refuse
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.platform.sandbox import Sandbox
from mwem_sql.releases.answer import Answerer
from mwem_sql.releases.request import read_whole
from mwem_sql.releases.rows import plain, row_rules
from mwem_sql.synthesis.rounding import systematic_counts
from mwem_sql.synthesis.values import draw_rows
from mwem_sql.workload import Workload

MOST_DRAWN_VALUES = 2 * 10**7
"""Values, rows times columns, of one call. More: a call takes more memory, some 55 bytes for each in SQL."""
LEAST_ROWS = 1e-3
"""Rows that the release must count for a condition before any are drawn. Smaller: rows are drawn of what a fit leaves
where nothing is."""
MOST_DRAWN = 1000
"""Rows that are drawn for one that is kept, before a condition is refused: a model of all its columns would be too
large, or it is true of few values of a bin. Larger: a call may take longer before it is refused."""
LEAST_BATCH = 2**16
"""Rows that are drawn at a time, at least, where not all are kept. Larger: a call takes more memory."""


class Sampler:
    """A call that was read and checked: what it will draw is decided, but for chance."""

    def __init__(self, ready: Answerer, rows: object, given: str | None, seed: object, function: str) -> None:
        self._ready, self._given, self._function = ready, given, function
        self._compiled: Compiled | None = None
        self._seed = None if seed is None else read_whole(function, "seed", seed, 0, 2**53)
        stored, expected = self._ready.stored, float(self._ready.stored.facts["rows"])
        if given is not None:
            self._compiled = self._ready.compile(Workload.from_predicates([given]))
            expected = float(self._ready.answers(self._compiled)[0][0])
            if expected < LEAST_ROWS:
                output = stored.name.table
                what = f"given ({given!r}) is true of next to no row that {output} has"
                hint = f"ask for more: mwem_count('{output}', ...) says how many rows a condition has"
                raise refuse(OptionError, function, what, hint)
        domain = stored.domain
        self._row_rules = row_rules(domain, ready.settings)
        self.types = {
            name: attribute.type if (attribute := domain.attribute(name)) else "" for name in domain.columns
        } | {each.name: each.type for each in domain.computed}
        most = MOST_DRAWN_VALUES // len(self.types)
        self._rows = read_whole(function, "rows", max(1, round(expected)) if rows is None else rows, 1, most)

    def draw(self) -> pa.Table:
        """The rows; columns in the order of the release, each as Arrow has it, to be cast to its type."""
        stored, generator = self._ready.stored, np.random.default_rng(self._seed)
        state = stored.state()
        if self._compiled is None or self._given is None:
            return self._read(state, stored.classes, self._rows, generator)
        states = list(state.states) if isinstance(state, Mixture) else [state]
        parts = [_restricted(one, self._compiled, stored.classes) for one in states]
        tables: list[pa.Table] = []
        kept = drawn = 0
        with self._ready.sandbox() as sandbox:
            while kept < self._rows:
                # Somewhat more than is likely to do; at first, as if all were kept.
                wanted = int(1.1 * (self._rows - kept) * (drawn + 1) / (kept + 1)) + 16
                size = min(wanted, max(LEAST_BATCH, 2 * self._rows))
                rows = self._drawn(parts, size, generator)
                rows = rows.filter(_is_true(self._given, rows, self._compiled, sandbox))
                tables.append(rows)
                kept, drawn = kept + rows.num_rows, drawn + size
                if drawn > MOST_DRAWN * (kept + 1) + 4 * LEAST_BATCH:
                    what = f"given ({self._given!r}) is true of next to no row that is drawn from {stored.name.table}"
                    hint = "values off the domain are drawn as the nearest bound, or as NULL; ask for more than that"
                    raise refuse(OptionError, self._function, what, hint)
        return pa.concat_tables(tables).slice(0, self._rows)

    def _drawn(self, states: Sequence[_Restricted], rows: int, generator: np.random.Generator) -> pa.Table:
        """Rows of several states, of each as many as its share says, in random order."""
        counts = systematic_counts(np.array([each.share for each in states]), rows, generator).tolist()
        parts = [
            self._read(each.state, each.classes, count, generator)
            for each, count in zip(states, counts, strict=True)
            if count
        ]
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts).take(generator.permutation(rows))

    def _read(
        self, state: State | Mixture, classes: Mapping[str, Classes], rows: int, generator: np.random.Generator
    ) -> pa.Table:
        drawn = draw_rows(state, classes, rows, generator, self._row_rules)
        return drawn.reader.read_all().rename_columns(list(drawn.types))


@dataclass(frozen=True, eq=False)
class _Restricted:
    """A state of the rows that meet a condition, on classes that the condition splits, and their share of all rows."""

    state: State
    classes: Mapping[str, Classes]
    share: float


def _restricted(state: State, compiled: Compiled, stored: Mapping[str, Classes]) -> _Restricted:
    """A state restricted to the classes in which a condition is true.

    Stored classes are split where it is true of some of their values.
    """
    share, classes = 1.0, dict(stored)
    for block in compiled.queries[0].linear.blocks:
        finer = {name: compiled.classes[name] for name in block.attributes}
        # What would take too large a model is left to the rows that are not kept.
        if state.cells_with(block.attributes, {name: split.count for name, split in finer.items()}) > MAX_CELLS:
            continue
        for name, split in finer.items():
            parents = split.within(stored[name])
            state.split(name, parents.codes, parents.shares)
            classes[name] = _refined(stored[name], split)
        share *= state.restrict(block.attributes, block.labels >= 0)
    return _Restricted(state, classes, share)


def _refined(stored: Classes, finer: Classes) -> Classes:
    """Finer classes on pieces that have what was measured inside the stored ones."""
    pieces = stored.pieces
    if pieces.attribute.values is None:
        pieces = pieces.cut(distinct(pieces.lows, finer.pieces.lows))
    return Classes(pieces, finer.holding(pieces), None if stored.weights is None else stored.weigh(pieces))


def _is_true(given: str, rows: pa.Table, compiled: Compiled, sandbox: Sandbox) -> npt.NDArray[np.bool_]:
    """Of each row, whether SQL says so."""
    types = {name: classes.attribute.type for name, classes in compiled.classes.items()}
    columns = {name: (type_text, plain(rows.column(name).combine_chunks())) for name, type_text in types.items()}
    load_rows(sandbox, compiled.domain, columns or {"__one": ("INTEGER", pa.array(np.zeros(rows.num_rows)))})
    (truth,) = sandbox.evaluate(compiled.domain.table, [f"coalesce(CAST(({given}\n) AS BOOLEAN), false)"])
    return np.asarray(truth.to_numpy())


def as_texts(rows: pa.Table) -> list[pa.Array]:
    """The columns as text that DuckDB casts to their types."""
    return [plain(column.combine_chunks()).cast(pa.string()) for column in rows.columns]
