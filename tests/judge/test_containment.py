"""How cells make up others, against dense matrices over all class combinations; one by one and in batches."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from chance import sampled
from measurements import measurement
from thresholds import lower

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.algebra.nested import Estimates
from mwem_sql.algebra.queries import Queries
from mwem_sql.judge import containment as module
from mwem_sql.judge.containment import containment, count_batches
from mwem_sql.judge.evidence import Enclosure, Families, Family

SIZES = {"a": 3, "b": 4, "c": 2}


def random_block(names: tuple[str, ...], generator: np.random.Generator, valued: bool) -> Block:
    shape = [SIZES[name] for name in names]
    size = int(generator.integers(1, 4))
    labels = generator.integers(-1, size, shape).astype(np.int32)
    values = generator.integers(0, 4, shape) if valued else None
    return Block(names, labels, size, values=values)


def values(*cells: float) -> Estimates:
    """Cells without noise."""
    return Estimates(np.array([cells, np.zeros(len(cells)), np.zeros(len(cells))]))


def dense(blocks: tuple[Block, ...]) -> np.ndarray:
    """A row per cell, a column per class combination of a, b and c."""
    query = LinearQuery(blocks)
    out = np.zeros((query.cells, *SIZES.values()))
    for place in product(*map(range, SIZES.values())):
        at = dict(zip(SIZES, place, strict=True))
        cell, adds = 0, 1.0
        for block in blocks:
            own = tuple(at[name] for name in block.attributes)
            label = int(block.labels[own])
            cell = -1 if label < 0 or cell < 0 else cell * block.size + label
            adds *= 1 if block.values is None else block.values[own]
        if cell >= 0:
            out[(cell, *place)] = adds
    return out.reshape(query.cells, -1)


SHAPES = [
    ((("a",),), (("a",),)), ((("a",), ("b",)), (("b",), ("a",))), ((("a", "b"),), (("a",), ("b",))),
    ((("a",),), (("b", "a"),)), ((("b",), ("a", "c")), (("a", "b", "c"),)), ((("a",), ("c",)), (("a",),)),
    ((), (("a",), ("b",))), ((("a", "b"),), ()),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_against_dense_matrices(seed: int) -> None:
    generator = np.random.default_rng(seed)
    asked_names, measured_names = SHAPES[seed % len(SHAPES)]
    valued = bool(seed % 3 == 0)
    measured = tuple(random_block(names, generator, False) for names in measured_names)
    asked = tuple(random_block(names, generator, valued) for names in asked_names)
    if seed % 2 and all(names in measured_names for names in asked_names):
        # Coarser than what was measured: sums of its cells.
        for k, names in enumerate(asked_names):
            block = measured[measured_names.index(names)]
            labels = np.where(block.labels >= 0, block.labels // 2, -1).astype(np.int32)
            asked = (*asked[:k], Block(names, labels, (block.size + 1) // 2), *asked[k + 1 :])
    found = containment(asked, measured, SIZES)
    assert found is not None
    ask, told = dense(asked), dense(measured)
    counted = told.sum(axis=0) > 0
    for c, row in enumerate(ask):
        if not row.any():
            continue  # a cell that counts nothing
        parts = [row[cell > 0] / cell[cell > 0] for cell in told if (cell > 0).any()]
        is_open = bool((row[~counted] != 0).any())
        assert found.is_exact[c] == (not is_open and all(own.min() == own.max() for own in parts))
        assert found.is_open[c] == is_open
    rows = generator.integers(0, 9, ask.shape[1]).astype(np.float64)
    cells, truth = values(*(told @ rows)), ask @ rows
    low, high = found.low(cells).values, found.high(cells).values
    assert found.is_bounded
    assert (low <= truth + 1e-9).all()
    assert ((truth <= high + 1e-9) | found.is_open).all()
    assert np.allclose(low[found.is_exact], truth[found.is_exact])


def test_what_is_negative_has_no_bounds() -> None:
    signs = Block(("a",), np.zeros(3, dtype=np.int32), 1, values=np.array([1, -1, 1]))
    whole = Block(("a",), np.zeros(3, dtype=np.int32), 1)
    cells = Block(("a",), np.arange(3, dtype=np.int32), 3)
    assert not containment((whole,), (signs,), SIZES).is_bounded  # type: ignore[union-attr]
    exact = containment((signs,), (cells,), SIZES)
    assert exact is not None
    assert exact.is_exact.all()
    assert exact.low(values(5.0, 2.0, 1.0)).values.tolist() == [4.0]


def test_a_measured_sum_tells_itself_and_its_multiples() -> None:
    adds = np.array([2, 5, 9])
    once, twice = (Block(("a",), np.zeros(3, dtype=np.int32), 1, values=adds * k) for k in (1, 2))
    found = containment((twice,), (once,), SIZES)
    assert found is not None
    assert found.is_exact.all()
    assert found.low(values(100.0)).values.tolist() == [200.0]
    count = containment((Block(("a",), np.zeros(3, dtype=np.int32), 1),), (once,), SIZES)
    assert count is not None
    assert not count.is_exact.any()
    assert count.low(values(90.0)).values[0] == pytest.approx(10)
    assert count.high(values(90.0)).values[0] == pytest.approx(45)


def test_units_are_part_of_what_a_record_adds() -> None:
    """Thirds of a cent, say: ratios of whole numbers are exact, whatever floats make of the units."""
    adds = np.array([3, 7, 14])
    measured, asked = (Block(("a",), np.zeros(3, dtype=np.int32), 1, values=adds * k, unit=0.01 / k**2) for k in (1, 3))
    found = containment((asked,), (measured,), SIZES)
    assert found is not None
    assert found.is_exact.all()
    assert found.low(values(30.0)).values[0] == pytest.approx(10)


def test_what_is_too_much_is_not_worked_out() -> None:
    wide = {"a": 3000, "b": 3000}
    blocks = [Block((name,), np.zeros(3000, dtype=np.int32), 1) for name in wide]
    joint = Block(("a", "b"), np.zeros((3000, 3000), dtype=np.int32), 1)
    assert containment(blocks, (joint,), wide) is None
    assert containment(blocks, blocks, wide) is not None


# Counts asked together: what each is told by itself, in as many passes over the classes as there are families.

CLASSES = {"a": 6, "b": 4, "c": 3}
GROUPS = [(("a",),), (("a",), ("b",)), (("b", "a"),), (("a", "c"), ("b",)), (("c",),), ()]
MEASURED = [(("a",),), (("b",), ("a",)), (("a", "b", "c"),), (("c", "b"),), ()]


def block(names: tuple[str, ...], size: int, generator: np.random.Generator, *, least: int = -1) -> Block:
    labels = generator.integers(least, size, [CLASSES[name] for name in names])
    if generator.random() < 0.3 and size == 1:
        labels = np.zeros_like(labels)
    return Block(names, labels.astype(np.int32), size)


def noisy(groups: tuple[tuple[str, ...], ...], generator: np.random.Generator, *, least: int = -1) -> Measurement:
    query = LinearQuery(tuple(block(names, 3, generator, least=least) for names in groups))
    return measurement(query, generator.normal(size=query.cells), 2.0)


def tree(generator: np.random.Generator) -> list[Measurement]:
    """Nested partitions of a and b."""
    fine = generator.integers(0, 8, (6, 4))
    fine.flat[:8] = range(8)
    blocks = [Block(("a", "b"), own.astype(np.int32), int(own.max()) + 1) for own in (fine // 4, fine // 2, fine)]
    return [measurement(LinearQuery((own,)), generator.normal(size=own.size), 1.0 + k) for k, own in enumerate(blocks)]


def same(one: Enclosure, other: Enclosure, place: int) -> None:
    assert bool(one.is_exact[0]) == bool(other.is_exact[place])
    assert bool(one.is_open[0]) == bool(other.is_open[place])
    assert one.is_bounded == other.is_bounded
    for mine, theirs in ((one.low, other.low), (one.high, other.high)):
        assert [mine.values[0], mine.variances[0], mine.fourths[0]] == pytest.approx(
            [theirs.values[place], theirs.variances[place], theirs.fourths[place]]
        )


@pytest.mark.parametrize("at_once", [1, 2**22])
@pytest.mark.parametrize("seed", sampled(range(6), 2))
def test_together_they_are_told_the_same(seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against `contained`, one by one; whole or in parts."""
    lower(monkeypatch, CHUNK=at_once)
    generator = np.random.default_rng(seed)
    queries = [
        LinearQuery(tuple(block(names, 1, generator) for names in GROUPS[int(generator.integers(len(GROUPS)))]))
        for _ in range(100)
    ]
    families = [Family([noisy(groups, generator, least=seed % 2 - 1)]) for groups in MEASURED]
    families.append(Family(tree(generator)))
    sums = Block(("a",), np.zeros(6, dtype=np.int32), 1, values=np.arange(1, 7))
    families.append(Family([measurement(LinearQuery((sums,)), np.array([5.0]), 2.0)]))
    seen = set[int]()
    for numbers, asked in count_batches(Queries.of(queries)):
        seen.update(numbers)
        for family in families:
            told = family.enclosure(asked, CLASSES)
            assert told is not None
            for place, number in enumerate(numbers):
                if any(own.labels.max() < 0 for own in queries[number].blocks):
                    continue  # Nothing is counted: that is 0, and `contained` need not know it.
                alone = family.enclosure(queries[number], CLASSES)
                assert alone is not None
                same(alone, told, place)
    assert seen == set(range(100))


def test_without_noise_the_truth_is_between_two_sums_of_nodes() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 9, tuple(CLASSES.values())).astype(np.float64)
    nested = Family([measurement(own.query, own.query.answer(rows.sum(axis=2)), 1.0) for own in tree(generator)])
    queries = [
        LinearQuery(tuple(block(names, 1, generator) for names in groups)) for groups in GROUPS[:4] for _ in range(70)
    ]
    for numbers, asked in count_batches(Queries.of(queries)):
        told = nested.enclosure(asked, CLASSES)
        assert told is not None
        for place, number in enumerate(numbers):
            names = queries[number].attributes
            lost = tuple(axis for axis, name in enumerate(CLASSES) if name not in names)
            left = [name for name in CLASSES if name in names]
            truth = queries[number].answer(rows.sum(axis=lost).transpose([left.index(name) for name in names]))[0]
            assert told.low.values[place] <= truth + 1e-9
            assert truth <= told.high.values[place] + 1e-9
            assert not told.is_exact[place] or told.low.values[place] == pytest.approx(truth)


def test_sums_and_groups_are_not_counts() -> None:
    valued = LinearQuery((Block(("a",), np.zeros(6, dtype=np.int32), 1, values=np.arange(6)),))
    grouped = LinearQuery((Block(("a",), np.arange(6, dtype=np.int32), 6),))
    assert not list(count_batches(Queries.of([valued, grouped])))


def test_finer_classes() -> None:
    """Class 2 is cut in two: both are counted where it is."""
    query = LinearQuery((Block(("a",), np.array([-1, 0, 0, -1, -1, -1], dtype=np.int32), 1),))
    ((_, asked),) = count_batches(Queries.of([query]), {"a": np.array([0, 1, 2, 2, 3, 4, 5])})
    (same_query,) = asked.queries()
    assert same_query.blocks[0].labels.tolist() == [-1, 0, 0, 0, -1, -1, -1]


def test_thousands_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """All prefixes of 4,096 classes: as many passes as families, not as queries."""
    size, passes = 4096, list[int]()
    queries = [
        LinearQuery((Block(("v",), np.where(np.arange(size) <= k, 0, -1).astype(np.int32), 1),)) for k in range(size)
    ]
    parts = [Block(("v",), (np.arange(size) // width).astype(np.int32), size // width) for width in (512, 64, 8)]
    answers = [measurement(LinearQuery((own,)), np.ones(own.size), 1.0) for own in parts]
    made_of = module.Parts.made_of
    monkeypatch.setattr(module.Parts, "made_of", lambda self, counts: passes.append(1) or made_of(self, counts))
    found = Families(answers, {"v": size}).are_exact(queries)
    assert [k for k, own in enumerate(found) if own] == list(range(7, size, 8))
    assert len(passes) == 1
