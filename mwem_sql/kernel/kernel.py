"""The kernel: the only object that holds true answers, and what a privacy proof has to look at.

The other way out, of values that nobody listed, is `kernel/thresholds.py`, and comes before.

Owns the true answers of one release and the three ways out of it, `select`, `measure` and `certify`. It must not read a
table, log, or keep what it draws. Sizes, bounds, candidates, approximations, penalties, weights and shares are public;
what it refuses before a debit, it refuses on those alone.

Neighbouring tables differ by one row, or by all rows of one unit (`sensitivity` of them at most). A row falls in at
most one cell of a query and adds there at most the query's bound b in absolute value (1 for counts and parities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn, SupportsIndex, cast, final

import numpy as np
from numpy.typing import NDArray

from mwem_sql.algebra.arrays import Flags, Floats, Integers, Numbers
from mwem_sql.algebra.measurement import NoisyValues
from mwem_sql.errors import MwemError, refuse
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.draws import Draws, shielded
from mwem_sql.kernel.exponential import BATCH, Scores
from mwem_sql.kernel.scales import (
    SATURATION,
    Calibrated,
    Kind,
    is_many,
    many_scale,
    noise_scale,
    selection_scale,
    variance,
)

# Unequal weights are rounded to thousandths of the largest.
WEIGHT_GRID: Final = 1000
# A multiplier times a bound stays below 2^58.
MAXIMUM_BOUND: Final = 2**24
# Twice this, summed over the cells of any query, and a penalty on top still fit an int64.
_HEADROOM: Final = 2**61
# Errors of queries with other bounds than 1 are certified in whole thousandths of a bound.
CERTIFIED_GRID: Final = 1000
# Larger errors, also in parts of a bound, are certified as these: sums over so many queries still fit an int64.
_LARGEST_ERROR: Final = 2**50
_LARGEST_PART: Final = 2**40
_MOST_CERTIFIED: Final = 2**20


@dataclass(frozen=True, eq=False)
class Selection:
    """The number of a selected query, and the calibration of the selection, which is public.

    `scale` is that of the noise on scores. `multipliers` are the m_j of `Kernel.select`, in the order of the
    candidates' numbers, or a single one for all.
    """

    query: int
    scale: float
    multipliers: Integers


@final
class Kernel:
    """Holds the true answers; the only way out is `select`, `measure` and `certify`.

    Privacy:
        Each call debits its share before it looks at an answer, and records what OpenDP's map says it cost. Once a
        share is debited, an error from the private side becomes one fixed message without its cause. No repr, copy or
        pickle shows the content; Python cannot stop a determined caller in the same process.
    """

    __slots__ = (
        "__accountant", "__bounds", "__cells", "__draws", "__flat", "__pending", "__scores", "__sensitivity",
        "__starts", "__weights",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917  what it holds, not how it behaves
        self,
        answers: Integers,
        cells: Sequence[int] | Integers,
        accountant: Accountant,
        draws: Draws,
        sensitivity: int = 1,
        bounds: Sequence[int] | None = None,
    ) -> None:
        """Take over the answers: an int64 vector over all public cells, empty ones included, query after query.

        `cells` gives the number of cells of each query. The vector becomes the kernel's own and is clipped in place.
        `sensitivity` is the number of rows that neighbours may differ by. `bounds` gives for each query the largest
        absolute value that one row adds to a cell; 1 for all when absent.

        Privacy:
            Answers saturate at 2^61 over the number of cells of the largest query (public). Clipping is a contraction,
            so it changes no sensitivity.
        """
        if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 1:
            raise _refuse(f"sensitivity ({sensitivity!r}) must be a whole number from 1", "give rows_per_unit")
        sizes = _whole(cells, "cells").copy()
        # An empty query would make np.add.reduceat take a cell of the next one.
        shaped = isinstance(answers, np.ndarray) and answers.dtype == np.int64 and answers.ndim == 1
        if not shaped or not sizes.size or sizes.min() < 1 or sizes.sum() != answers.size:
            raise _refuse(
                "the answers must be an int64 vector, with a cell or more of each query",
                "densify each query to all its cells",
            )
        limits = np.ones(sizes.size, dtype=np.int64) if bounds is None else _whole(bounds, "bounds").copy()
        if limits.size != sizes.size or limits.min() < 1 or limits.max() > MAXIMUM_BOUND:
            raise _refuse("the bounds must be one whole number from 1 to 2^24 for each query", "use a coarser grid")

        saturation = _HEADROOM // int(sizes.max())
        self.__flat: Integers = np.clip(answers, -saturation, saturation, out=answers)
        self.__cells: Integers = sizes
        self.__starts: Integers = np.cumsum(sizes) - sizes
        self.__bounds: Integers = limits
        # Of each query, its sum of errors less its penalty, as of the approximations that are no longer pending; and
        # its weight.
        self.__scores = Scores(sizes.size)
        self.__weights: Floats = np.zeros(sizes.size)
        self.__pending: list[tuple[Integers, Integers, Integers]] = []
        self.__accountant = accountant
        self.__draws = draws
        draws.note(sizes, limits, sensitivity)
        self.__sensitivity = sensitivity

    def count_in_rho(self, limit: Fraction) -> None:
        """Let the account go on in rho, with Gaussian noise. Releases nothing."""
        self.__accountant.count_in_rho(limit)

    def select(
        self,
        candidates: Sequence[int] | Integers | Flags,
        approximations: Sequence[Floats] | Floats,
        penalties: Floats,
        weights: Floats,
        share: Fraction,
        *,
        changed: Sequence[int] | Integers | None = None,
    ) -> Selection:
        """Choose a candidate that the approximation answers badly; gives the number of its query, and the calibration.

        `candidates` are numbers of queries, or a flag for every query. `approximations`, `penalties` and `weights` go
        with `changed`, one each: with all candidates, or with the queries for which they are not what they were in the
        last call. A vector may hold the approximations of several, one after the other.

        Privacy:
            The score of candidate j is m_j * (sum over its cells c of |round(q_c(A)) - q_c(B)| - round(penalty_j)), an
            integer. A, penalties and the multipliers m_j are public, so round(q_c(A)) is the same integer for
            neighbours, however it was rounded and whenever it was given. A row is in one cell and moves q_c(B) there by
            at most b_j, hence one summand and the sum by at most b_j; saturation only contracts. So the scores move by
            at most `sensitivity` * max_j(m_j b_j), up or down. What the kernel keeps from one selection to the next is
            that sum less the penalty, as if computed anew. Cost: `share`, debited before an answer is looked at.
        """
        is_open = self.__flags(candidates)
        count = int(np.count_nonzero(is_open))
        if not count:
            raise _refuse("the candidates must be one or more numbers of queries", "stop when every query is measured")
        news = self.__numbers(candidates if changed is None else changed, "changed queries")
        expected = [(begin, end, _rounded(chunk)) for begin, end, chunk in _chunks(approximations, self.__cells[news])]
        offsets = _rounded(_finite(penalties, news.size, "penalties"))
        given = _finite(weights, news.size, "weights")
        if given.size and given.min() <= 0:
            raise _refuse("the weights must be positive numbers", "leave weight out for 1")
        self.__weights[news] = given
        self.__pending += [(news[begin:end], chunk, offsets[begin:end]) for begin, end, chunk in expected]
        if (is_open & (self.__weights == 0)).any():
            raise _refuse(
                "the candidates must have approximations", "give those of all candidates first, then what has changed"
            )
        kind = self.__accountant.kind
        many = is_many(count, share, kind)
        bounds = self.__bounds[is_open]
        multipliers = multipliers_of(self.__weights[is_open], bounds)
        unit = self.__sensitivity * int((multipliers * bounds).max())
        calibrated = many_scale(share, unit, kind) if many else selection_scale(share, unit, kind)

        def draw() -> int:
            noise = self.__draws.noise
            self.__rescore()
            self.__scores.open(is_open)
            if many and multipliers.size == 1:
                return noise.select_many(self.__scores, calibrated.scale)
            places = np.flatnonzero(is_open)
            scores = self.__scores.values[places]
            if multipliers.size > 1:
                ceilings = SATURATION // multipliers
                scores = np.clip(scores, -ceilings, ceilings) * multipliers
            if many:
                return int(places[noise.select_many(Scores.of(scores), calibrated.scale)])
            return int(places[noise.select(scores, calibrated.scale, kind)])

        arguments = ("select", is_open, news, given, offsets, *(chunk for *_, chunk in expected))
        (query,) = self.__spend(share, calibrated, lambda: np.array([draw()], dtype=np.int64), *arguments)
        shielded(self.__rescore)  # where the draw was stored: what is pending must not pile up
        return Selection(int(query), calibrated.scale, multipliers)

    def measure(self, query: int, share: Fraction, parts: NDArray[np.integer[Any]] | None = None) -> NoisyValues:
        """Answer one query with noise on each of its cells; or on each part of a partition of them.

        `parts` gives the part of every cell, from 0 on. It may have been chosen by what was released before.

        Privacy:
            A row is in one cell and adds at most the query's bound b there, so neighbours' vectors differ by at most
            `sensitivity` * b in L1, and so in L2. A cell is in one part, so that the sums over parts differ by no more.
            Every public cell gets noise, empty or not, and so does every part. Cost: `share`, debited before an answer
            is looked at.
        """
        if not 0 <= query < self.__cells.size:
            raise _refuse(f"the query ({query}) must be the number of a query", "count from 0 in the workload's order")
        numbers = None if parts is None else _whole(parts, "parts")
        if numbers is not None and (
            numbers.size != self.__cells[query] or numbers.min() < 0 or numbers.max() >= numbers.size
        ):
            raise _refuse(
                "the parts must be a number from 0 for each cell of the query, below the number of cells",
                "number the parts from 0",
            )
        kind = self.__accountant.kind
        calibrated = noise_scale(share, self.__sensitivity * int(self.__bounds[query]), kind)

        def draw() -> Integers:
            start = self.__starts[query]
            answers = self.__flat[start : start + self.__cells[query]]
            if numbers is not None:
                # Sums of saturated answers stay below 2^61.
                sums = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
                np.add.at(sums, numbers, answers)
                answers = sums
            return self.__draws.noise.add_noise(answers, calibrated.scale, kind)

        return _noisy(self.__spend(share, calibrated, draw, "measure", query, numbers), calibrated, kind, share)

    def certify(
        self,
        queries: Sequence[int] | Integers,
        leading: Sequence[int] | Integers,
        approximations: Floats,
        share: Fraction,
        *,
        rank: int | None = None,
    ) -> NoisyValues:
        """Tell with noise how far approximations are off.

        The mean error of some queries or, with a `rank`, the rank-th largest cell error, counted from 1. Of each query
        only the first `leading` cells count. The error of a query is the sum over these of |round(q_c(A)) - q_c(B)| and
        its cell error the largest of them, both in parts of its bound: what is returned is one value. `approximations`
        are those of all these cells, query after query.

        Privacy:
            Queries, cells, A and the rank are public. A row is in one cell of a query and moves q_c(B) there by at most
            b_j, hence the sum over cells and the largest of them by at most b_j, each query's: in parts of its bound by
            1, which is a whole number of steps, so that rounding them down changes nothing. The largest error that is
            returned is a constant: a contraction. So the sum over m queries moves by at most m times that, for each of
            `sensitivity` rows, and so does, without the m, whichever is at a rank: if all numbers move by at most d, so
            do they in order. Cost: `share`, debited before an answer is looked at.
        """
        chosen, first = self.__numbers(queries, "certified queries"), _whole(leading, "leading cells")
        cells = self.__cells[chosen]
        if not 0 < first.size == chosen.size <= _MOST_CERTIFIED or first.min() < 1 or (first > cells).any():
            raise _refuse("the leading cells must be one or more of each certified query", "give its number of cells")
        if rank is not None and not 1 <= rank <= chosen.size:
            raise _refuse(f"the rank ({rank}) must be from 1 to the number of queries", "give 1 for the largest")
        guess = _rounded(_finite(approximations, int(first.sum()), "approximations"))
        bounds = self.__bounds[chosen]
        grid = 1 if bounds.max() == 1 else CERTIFIED_GRID
        kind, terms = self.__accountant.kind, chosen.size if rank is None else 1
        calibrated = noise_scale(share, terms * self.__sensitivity * grid, kind)

        def draw() -> Integers:
            inside = np.cumsum(first) - first
            saturation = _HEADROOM // int(self.__cells.max())
            errors = np.clip(guess, -saturation, saturation)
            errors -= self.__flat[_spans(self.__starts[chosen], first, inside)]
            together = np.add if rank is None else np.maximum
            each = np.minimum(together.reduceat(np.abs(errors, out=errors), inside), _LARGEST_ERROR)
            each = np.minimum(each * grid // bounds, _LARGEST_PART)
            figure = each.sum() if rank is None else np.sort(each)[-rank]
            return self.__draws.noise.add_noise(np.array([figure], dtype=np.int64), calibrated.scale, kind)

        value = self.__spend(share, calibrated, draw, "certify", chosen, first, guess, rank)
        return _noisy(value / (terms * grid), calibrated, kind, share, terms * grid)

    def __spend(
        self, share: Fraction, calibrated: Calibrated, draw: Callable[[], Integers], *arguments: object
    ) -> Integers:
        """Debit a share, draw or give what is stored of this step, and record what the draw cost.

        Privacy:
            The only place where a draw runs, always after its debit. Its arguments are public: a stored
            draw stands for the same mechanism only, and has the same cost.
        """
        self.__accountant.debit(share)
        arguments = (*arguments, share, calibrated.scale, self.__accountant.kind)
        values = self.__draws.take(lambda: np.asarray(draw(), dtype="<i8").tobytes(), *arguments)
        self.__accountant.record(calibrated.map, share)
        return np.frombuffer(values, dtype="<i8").astype(np.int64, copy=False)

    def __rescore(self) -> None:
        """Bring the scores, before multipliers, up to date with all approximations that have come in."""
        saturation = _HEADROOM // int(self.__cells.max())
        for chosen, expected, offsets in self.__pending:
            cells = self.__cells[chosen]
            firsts = np.cumsum(cells) - cells
            for begin, end in _batches(cells):
                part, inside = chosen[begin:end], firsts[begin:end] - firsts[begin]
                size = int(inside[-1] + cells[end - 1])
                guess = np.clip(expected[firsts[begin] : firsts[begin] + size], -saturation, saturation)
                guess -= self.__flat[_spans(self.__starts[part], cells[begin:end], inside)]
                # Sums stay below 2^62 and less a penalty below 2^63, so no intermediate wraps around.
                sums = _sums(np.abs(guess, out=guess), cells[begin:end], inside)
                self.__scores.write(part, sums - offsets[begin:end])
        self.__pending.clear()

    def __flags(self, candidates: Sequence[int] | Integers | Flags) -> Flags:
        """Whether each query is a candidate."""
        if (
            isinstance(candidates, np.ndarray)
            and candidates.dtype == np.bool_
            and candidates.shape == self.__cells.shape
        ):
            return cast("Flags", candidates)
        flags = np.zeros(self.__cells.size, dtype=np.bool_)
        flags[self.__numbers(candidates, "candidates")] = True
        return flags

    def __numbers(self, queries: Sequence[int] | Integers | Flags, name: str) -> Integers:
        chosen = _whole(queries, name)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= self.__cells.size):
            raise _refuse(f"the {name} must be one or more numbers of queries", "count from 0 in the workload's order")
        return chosen

    def __repr__(self) -> str:
        """Show nothing."""
        return "<Kernel: answers withheld>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled."""
        raise _refuse("the kernel must not be copied or pickled", "pass measurements on instead")

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        self.__reduce_ex__(0)

    def __getstate__(self) -> NoReturn:
        """Refuse to be read; the default one of Python 3.11 gives every slot."""
        self.__reduce_ex__(0)

    def __copy__(self) -> NoReturn:
        """Refuse to be copied."""
        self.__reduce_ex__(0)

    def __deepcopy__(self, memo: object) -> NoReturn:
        """Refuse to be copied."""
        self.__reduce_ex__(0)


def _noisy(values: Numbers, calibrated: Calibrated, kind: Kind, share: Fraction, parts: int = 1) -> NoisyValues:
    """Values with noise of a scale, in so many parts of it."""
    scale, variance_ = calibrated.scale / parts, variance(calibrated.scale, kind) / parts**2
    return NoisyValues(values=values, kind=kind, scale=scale, variance=variance_, share=share)


def multipliers_of(weights: Floats, bounds: Integers) -> Integers:
    """Put weight over bound, relative to the largest, on an integer grid from 1; a single 1 when all are equal."""
    if weights.min() == weights.max() and bounds.min() == bounds.max():
        return np.ones(1, dtype=np.int64)
    relative: Floats = weights / weights.max() / bounds
    relative /= relative.max()
    if relative.min() == 1:
        return np.ones(1, dtype=np.int64)
    grid: Floats = np.maximum(np.rint(relative * (WEIGHT_GRID * int(bounds.max()))), 1)
    return grid.astype(np.int64)


def _batches(cells: Integers) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose cells fit a cache; none is empty."""
    ends = np.cumsum(cells)
    begin = 0
    while begin < cells.size:
        limit = int(ends[begin] - cells[begin]) + BATCH
        end = max(begin + 1, int(np.searchsorted(ends, limit, side="right")))
        yield begin, end
        begin = end


def _spans(starts: Integers, cells: Integers, inside: Integers) -> slice | Integers:
    """Places of all cells of some queries: a slice where they are next to each other, an index otherwise."""
    if (starts[1:] == starts[:-1] + cells[:-1]).all():
        return slice(int(starts[0]), int(starts[-1] + cells[-1]))
    if cells.min() == cells.max():
        return (starts[:, None] + np.arange(cells[0])).reshape(-1)
    return np.arange(int(inside[-1] + cells[-1])) + np.repeat(starts - inside, cells)


def _sums(values: Integers, cells: Integers, inside: Integers) -> Integers:
    if cells.min() == cells.max():
        return np.asarray(values.reshape(cells.size, -1).sum(axis=1))
    return np.asarray(np.add.reduceat(values, inside))


def _chunks(approximations: Sequence[Floats] | Floats, cells: Integers) -> list[tuple[int, int, Floats]]:
    """Vectors of finite numbers with the ranges of queries that they are for: short ones joined, long ones not."""
    flat = isinstance(approximations, np.ndarray) and approximations.ndim == 1
    vectors = cast("Sequence[Floats]", [approximations][: cells.size] if flat else approximations)
    sizes = np.fromiter(map(len, vectors), dtype=np.int64, count=len(vectors))
    ends, bounds = np.cumsum(sizes), np.concatenate([[0], np.cumsum(cells)])
    queries = np.minimum(np.searchsorted(bounds, ends), cells.size)
    if int(sizes.sum()) != bounds[-1] or not (bounds[queries] == ends).all():
        raise _refuse("the approximations must have a number for each cell of their candidates", "answer all cells")
    chunks, begin = [], 0
    for first, last in _batches(sizes):
        chunk = vectors[first] if last == first + 1 else np.concatenate(vectors[first:last])
        chunks.append((begin, int(queries[last - 1]), _finite(chunk, int(sizes[first:last].sum()), "approximations")))
        begin = int(queries[last - 1])
    return chunks


def _finite(values: Floats, size: int, name: str) -> Floats:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (size,):
        raise _refuse(f"the {name} ({vector.size}) must be {size} numbers", "give one for each candidate")
    if not np.isfinite(vector).all():
        raise _refuse(f"the {name} must be finite numbers", "replace NaN and infinity first")
    return vector


def _rounded(values: Floats) -> Integers:
    return np.clip(np.rint(values), -float(_HEADROOM), float(_HEADROOM)).astype(np.int64)


def _whole(values: Sequence[int] | NDArray[np.integer[Any]] | Flags, name: str) -> Integers:
    vector = np.asarray(values)
    if vector.ndim != 1 or (vector.size and vector.dtype.kind not in "iu"):
        raise _refuse(f"the {name} must be whole numbers", "give a list of integers")
    return vector.astype(np.int64, copy=False)


def _refuse(what: str, hint: str) -> MwemError:
    return refuse(MwemError, "kernel", what, hint)
