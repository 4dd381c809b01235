"""Pieces cover the domain once, in order; classes are unions of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwem_sql.algebra.partition import refine
from mwem_sql.domains.attribute import Attribute
from mwem_sql.domains.classes import Classes, Pieces, bin_edges, cut_pieces, is_long, part_edges, value_pieces
from mwem_sql.errors import DomainError


def whole(low: int, high: int, **more: object) -> Attribute:
    return Attribute("a", "BIGINT", nullable=bool(more.pop("nullable", False)), low=low, high=high, **more)


def real(low: float, high: float, kind: str = "DOUBLE", **more: object) -> Attribute:
    return Attribute("a", kind, nullable=bool(more.pop("nullable", False)), low=low, high=high, **more)


def check_cover(pieces: Pieces) -> None:
    """From low to high without a gap or an overlap, each evaluated at a value of its own."""
    attribute = pieces.attribute
    lows, highs = pieces.lows.tolist(), pieces.highs.tolist()
    assert (lows[0], highs[-1]) == (attribute.low, attribute.high)
    assert all(low <= high for low, high in zip(lows, highs, strict=True))
    assert [attribute.ordered.after(high) for high in highs[:-1]] == lows[1:]
    assert ((pieces.lows <= pieces.points) & (pieces.points <= pieces.highs)).all()
    assert len(pieces.bins) == len(pieces) == pieces.non_null + attribute.nullable


@settings(deadline=None, max_examples=150)
@given(st.integers(-50, 50), st.integers(0, 10**6), st.lists(st.integers(-100, 10**6 + 100), max_size=6), st.booleans())
def test_cuts_of_whole_numbers(low: int, width: int, cuts: list[int], nullable: bool) -> None:
    pieces = cut_pieces(whole(low, low + width, nullable=nullable), cuts)
    check_cover(pieces)
    assert len(pieces) <= 4 * len(cuts) + 2
    for cut in cuts:
        for value in (cut - 1, cut, cut + 1):
            if low <= value <= low + width:
                assert value in pieces.lows.tolist()
                assert value in pieces.highs.tolist()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(-2, 2), max_size=5), st.sampled_from(["DOUBLE", "FLOAT"]))
def test_cuts_of_real_numbers(cuts: list[float], kind: str) -> None:
    attribute = real(-1.0, 1.0, kind)
    cuts = attribute.ordered.nearest(np.array(cuts)).tolist()
    pieces = cut_pieces(attribute, cuts)
    check_cover(pieces)
    for cut in cuts:
        if -1 <= cut <= 1:
            k = pieces.lows.tolist().index(cut)
            assert pieces.highs[k] == cut


def test_cuts_at_the_ends() -> None:
    pieces = cut_pieces(whole(0, 10**9), [0, 10**9])
    assert pieces.lows.tolist() == [0, 1, 2, 10**9 - 1, 10**9]
    assert cut_pieces(whole(0, 10**9), []).lows.tolist() == [0]
    assert cut_pieces(whole(0, 10**9), [-5, 10**9 + 5]).lows.tolist() == [0]


@settings(deadline=None, max_examples=100)
@given(st.integers(-20, 20), st.integers(0, 300), st.integers(1, 40))
def test_steps_and_bins_of_whole_numbers(low: int, width: int, size: int) -> None:
    stepped = value_pieces(whole(low, low + width, step=size))
    check_cover(stepped)
    assert stepped.lows.tolist() == list(range(low, low + width + 1, size))
    both = value_pieces(whole(low, low + width, step=size, bins=4))
    drawn = both.draw(np.arange(len(both)).repeat(9), np.zeros(len(both)), np.random.default_rng(1)).to_numpy()
    inside = [
        piece
        for piece in range(len(both))
        if any(both.lows[piece] <= tick <= both.highs[piece] for tick in stepped.lows)
    ]
    for piece in range(len(both)):
        own = drawn[9 * piece : 9 * piece + 9]
        assert (both.lows[piece] <= own).all() and (own <= both.highs[piece]).all()
        assert piece not in inside or ((own - low) % size == 0).all()
    assert stepped.bins.tolist() == list(range(len(stepped)))
    binned = value_pieces(whole(low, low + width, bins=size), [low + 3, low + width])
    check_cover(binned)
    assert sorted(set(binned.bins.tolist())) == list(range(min(size, width + 1)))
    widths = np.bincount(binned.bins, weights=binned.highs - binned.lows + 1)
    assert widths.max() - widths.min() <= 1


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize(("low", "high", "size"), [(0.0, 1.0, 3), (0.0, 0.3, 3), (-1e6, 1e6, 7), (0.1, 0.1, 1)])
def test_steps_and_bins_of_real_numbers(kind: str, low: float, high: float, size: int) -> None:
    low, high = (float(np.float32(end)) if kind == "FLOAT" else end for end in (low, high))
    binned = value_pieces(real(low, high, kind, bins=size), [float(np.float32(low + 0.05))])
    check_cover(binned)
    assert set(binned.bins.tolist()) == set(range(size))
    assert len(binned) <= size + 4
    stepped = value_pieces(real(low, high, kind, step=(high - low) / size or 1.0))
    check_cover(stepped)
    assert len(stepped) == (size + 1 if high > low else 1)


@pytest.mark.parametrize("low", [-8.988465674311579e307, 0.0, 8e307])
def test_bins_up_to_the_greatest_bound(low: float) -> None:
    binned = value_pieces(real(low, 8.988465674311579e307, bins=20))
    check_cover(binned)
    assert set(binned.bins.tolist()) == set(range(20))


@settings(deadline=None, max_examples=100)
@given(st.sets(st.integers(0, 300), min_size=1), st.lists(st.integers(-5, 305), max_size=3), st.booleans())
def test_edges_of_whole_numbers(edges: set[int], cuts: list[int], nullable: bool) -> None:
    """A value is in the bin that begins at it or last before it, cut or not; all bins have the same base measure."""
    attribute = whole(0, 300, edges=tuple(sorted(edges)), nullable=nullable)
    begins = bin_edges(attribute)
    assert begins == sorted({0, *edges})
    for pieces in (value_pieces(attribute), value_pieces(attribute, cuts)):
        check_cover(pieces)
        assert set(begins) <= set(pieces.lows.tolist())
        expected = np.searchsorted(begins, pieces.lows, side="right") - 1
        assert pieces.bins[: pieces.non_null].tolist() == expected.tolist()
        sizes = np.bincount(pieces.bins[: pieces.non_null], pieces.sizes[: pieces.non_null])
        assert sizes == pytest.approx(np.ones(len(begins)))
    assert is_long(attribute)
    whole_range = cut_pieces(attribute, cuts)
    check_cover(whole_range)
    assert whole_range.sizes[: whole_range.non_null].sum() == pytest.approx(len(begins))


def test_edges_of_real_numbers() -> None:
    pieces = value_pieces(real(0.0, 100.0, edges=(0.1, 1.0, 100.0)), [0.5])
    check_cover(pieces)
    assert [pieces.label(k) for k in np.unique(pieces.bins, return_index=True)[1]] == [
        "[0.0, 0.1)", "[0.1, 1.0)", "[1.0, 100.0)", "[100.0, 100.0]",
    ]  # fmt: skip
    assert np.bincount(pieces.bins, pieces.sizes) == pytest.approx([1, 1, 1, 1])  # also of the one that is a point
    assert {pieces.label_alone(k) for k in range(3)} == {
        "[0.0, 0.1)",
        "[0.1, 0.49999999999999994)",
        "[0.49999999999999994, 0.5)",
    }
    assert cut_pieces(real(0.0, 100.0, edges=(0.1, 1.0, 100.0)), []).sizes == pytest.approx([4])


def test_parts_of_a_range() -> None:
    assert part_edges(whole(0, 99, edges=(10, 50)), 256) == [0, 10, 50]
    assert part_edges(whole(0, 99, edges=tuple(range(1, 10))), 5) == [0, 2, 4, 6, 8]
    assert part_edges(whole(0, 99, bins=4), 256) == [0, 25, 50, 75]
    assert part_edges(whole(0, 99, bins=4), 2) == part_edges(whole(0, 99), 2) == [0, 50]


def test_listed_values() -> None:
    attribute = Attribute("a", "VARCHAR", nullable=True, values=("x", "y"))
    pieces = value_pieces(attribute)
    assert (len(pieces), pieces.non_null, pieces.listed) == (3, 2, True)
    assert pieces.values().to_pylist() == ["x", "y", None]
    assert [pieces.label(k) for k in range(3)] == ["x", "y", None]
    assert pieces.sizes.tolist() == [1, 1, 1]
    numbers = value_pieces(whole(3, 5, nullable=True))
    assert numbers.values().to_pylist() == [3, 4, 5, None]
    assert [numbers.label(k) for k in range(4)] == ["3", "4", "5", None]


def test_labels_of_intervals() -> None:
    pieces = cut_pieces(whole(0, 99, nullable=True), [10])
    assert [pieces.label(k) for k in range(len(pieces))] == [
        "[0, 8]",
        "[9, 9]",
        "[10, 10]",
        "[11, 11]",
        "[12, 99]",
        None,
    ]
    bins = value_pieces(real(0.0, 1.0, bins=2), [0.2])
    assert {bins.label(k) for k in range(len(bins))} == {"[0.0, 0.5)", "[0.5, 1.0]"}


def test_too_many_values_are_refused() -> None:
    with pytest.raises(
        DomainError,
        match=r"^domain: attribute a has 100,001 values, and a query needs them one by one \(at most 100,000\). "
        r"Hint: declare step",
    ):
        value_pieces(whole(0, 100_000))
    with pytest.raises(DomainError, match="attribute a has endlessly many values"):
        value_pieces(real(0.0, 1.0))
    assert len(value_pieces(whole(1, 100_000))) == 100_000


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=12))
def test_refine(rows: list[tuple[int, int, int]]) -> None:
    """Same class if and only if the same before and the same signature; numbered by first appearance."""
    before = np.array([row[0] for row in rows], dtype=np.int32)
    after = refine(before, np.array([row[1:] for row in rows], dtype=np.int8))
    assert [[one == other for other in rows] for one in rows] == [
        [one == other for other in after] for one in after.tolist()
    ]
    seen = list(dict.fromkeys(after.tolist()))
    assert seen == list(range(len(seen)))


def test_joined_neighbours() -> None:
    pieces = cut_pieces(whole(0, 99, nullable=True), [10, 50])
    truth = (pieces.points > 10).astype(np.int8)
    codes = refine(np.zeros(len(pieces), dtype=np.int32), np.append(truth, 0)[:, None])
    joined = Classes(pieces, codes).joined()
    check_cover(joined.pieces)
    assert joined.pieces.lows.tolist() == [0, 11]
    assert joined.codes.tolist() == [0, 1, 0]
    assert joined.count == 2
    assert joined.sizes.tolist() == [11 + 1.0, 89]
    assert joined.representatives.tolist() == [0, 1]


def test_joining_keeps_bins_apart() -> None:
    pieces = value_pieces(whole(0, 99, bins=4), [10])
    joined = Classes(pieces, np.zeros(len(pieces), dtype=np.int32)).joined()
    assert joined.pieces.lows.tolist() == [0, 25, 50, 75]
    assert joined.pieces.bins.tolist() == [0, 1, 2, 3]


def test_every_class_has_a_size() -> None:
    """A single point of a continuous range has no length, but it must be able to hold weight."""
    pieces = cut_pieces(real(0.0, 1.0, nullable=True), [0.5])
    codes = (np.append(pieces.points == 0.5, False)).astype(np.int32)
    classes = Classes(pieces, codes)
    assert (classes.sizes > 0).all()
    assert classes.sizes[1] < 0.01 * classes.sizes[0]
    single = Classes(cut_pieces(real(2.0, 2.0), []), np.zeros(1, dtype=np.int32))
    assert single.sizes.tolist() == [1.0]


@pytest.mark.parametrize(
    "attribute",
    [
        whole(0, 10**6, nullable=True),
        real(0.0, 1.0, "FLOAT", nullable=True),
        whole(0, 5, nullable=True),
        Attribute("a", "VARCHAR", nullable=True, values=("x", "y")),
        real(0.0, 1.0, bins=4, nullable=True),
        whole(0, 20, step=7),
        real(0.0, 1.0, edges=(0.01, 0.1), nullable=True),
    ],
)
def test_probes_lie_in_their_pieces(attribute: Attribute) -> None:
    generator = np.random.default_rng(3)
    pieces = (
        value_pieces(attribute)
        if attribute.cells is not None and attribute.cells < 100
        else cut_pieces(attribute, [0, 1, 500])
    )
    chosen = generator.integers(0, len(pieces), 200)
    values = pieces.probe(chosen, generator).to_pylist()
    assert [value is None for value in values] == (chosen >= pieces.non_null).tolist()
    if attribute.values is not None:
        assert values == [None if piece == 2 else attribute.values[piece] for piece in chosen]
    else:
        assert all(
            value is None or pieces.lows[piece] <= value <= pieces.highs[piece]
            for piece, value in zip(chosen, values, strict=True)
        )
    assert len(pieces.probe(np.zeros(0, dtype=np.intp), generator)) == 0


@pytest.mark.parametrize("nullable", [False, True])
def test_the_class_that_holds_a_finer_piece(*, nullable: bool) -> None:
    attribute = Attribute("x", "INTEGER", low=0, high=99, nullable=nullable)
    own, finer = cut_pieces(attribute, [50]), cut_pieces(attribute, [20, 50, 70])
    classes = Classes(own, np.arange(len(own), dtype=np.int32)[::-1].copy())
    found = classes.holding(finer)
    assert len(found) == len(finer)
    for code, low in zip(found.tolist(), finer.lows.tolist(), strict=False):
        (inside,) = np.flatnonzero((own.lows <= low) & (low <= own.highs))
        assert code == classes.codes[inside]
    if nullable:
        assert found[-1] == classes.codes[-1]
