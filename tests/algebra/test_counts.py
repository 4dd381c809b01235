"""Counts asked together are told what each is told by itself, in as many passes over the classes as there are families."""

from __future__ import annotations

import numpy as np
import pytest
from chance import sampled

from mwem_sql.algebra import counts as module
from mwem_sql.algebra.counts import together
from mwem_sql.algebra.families import Families, Family, Told
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.nested import Noisy

SIZES = {"a": 6, "b": 4, "c": 3}
GROUPS = [(("a",),), (("a",), ("b",)), (("b", "a"),), (("a", "c"), ("b",)), (("c",),), ()]
MEASURED = [(("a",),), (("b",), ("a",)), (("a", "b", "c"),), (("c", "b"),), ()]


def block(names: tuple[str, ...], size: int, generator: np.random.Generator, *, least: int = -1) -> Block:
    labels = generator.integers(least, size, [SIZES[name] for name in names])
    if generator.random() < 0.3 and size == 1:
        labels = np.zeros_like(labels)
    return Block(names, labels.astype(np.int32), size)


def noisy(groups: tuple[tuple[str, ...], ...], generator: np.random.Generator, *, least: int = -1) -> Noisy:
    query = LinearQuery(tuple(block(names, 3, generator, least=least) for names in groups))
    return Noisy(query, generator.normal(size=query.cells), 2.0, 12.0)


def tree(generator: np.random.Generator) -> list[Noisy]:
    """Nested partitions of a and b."""
    fine = generator.integers(0, 8, (6, 4))
    fine.flat[:8] = range(8)
    blocks = [Block(("a", "b"), own.astype(np.int32), int(own.max()) + 1) for own in (fine // 4, fine // 2, fine)]
    return [Noisy(LinearQuery((own,)), generator.normal(size=own.size), 1.0 + k, 3.0) for k, own in enumerate(blocks)]


def same(one: Told, other: Told, place: int) -> None:
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
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    generator = np.random.default_rng(seed)
    queries = [
        LinearQuery(tuple(block(names, 1, generator) for names in GROUPS[int(generator.integers(len(GROUPS)))]))
        for _ in range(100)
    ]
    families = [Family([noisy(groups, generator, least=seed % 2 - 1)]) for groups in MEASURED]
    families.append(Family(tree(generator)))
    sums = Block(("a",), np.zeros(6, dtype=np.int32), 1, np.arange(1, 7))
    families.append(Family([Noisy(LinearQuery((sums,)), np.array([5.0]), 2.0, 12.0)]))
    seen = set[int]()
    for numbers, asked in together(queries):
        seen.update(numbers)
        for family in families:
            told = family.told(asked, SIZES)
            exact = family.is_exact(asked, SIZES)
            assert told is not None
            assert exact is not None
            assert (exact == told.is_exact).all()
            for place, number in enumerate(numbers):
                if any(own.labels.max() < 0 for own in queries[number].blocks):
                    continue  # Nothing is counted: that is 0, and `contained` need not know it.
                alone = family.told(queries[number], SIZES)
                assert alone is not None
                same(alone, told, place)
    assert seen == set(range(100))


def test_without_noise_the_truth_is_between_two_sums_of_nodes() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 9, tuple(SIZES.values())).astype(np.float64)
    nested = Family([Noisy(own.query, own.query.answer(rows.sum(axis=2)), 1.0, 3.0) for own in tree(generator)])
    queries = [
        LinearQuery(tuple(block(names, 1, generator) for names in groups)) for groups in GROUPS[:4] for _ in range(70)
    ]
    for numbers, asked in together(queries):
        told = nested.told(asked, SIZES)
        assert told is not None
        for place, number in enumerate(numbers):
            names = queries[number].attributes
            lost = tuple(axis for axis, name in enumerate(SIZES) if name not in names)
            left = [name for name in SIZES if name in names]
            truth = queries[number].answer(rows.sum(axis=lost).transpose([left.index(name) for name in names]))[0]
            assert told.low.values[place] <= truth + 1e-9
            assert truth <= told.high.values[place] + 1e-9
            assert not told.is_exact[place] or told.low.values[place] == pytest.approx(truth)


def test_sums_and_groups_are_not_counts() -> None:
    valued = LinearQuery((Block(("a",), np.zeros(6, dtype=np.int32), 1, np.arange(6)),))
    grouped = LinearQuery((Block(("a",), np.arange(6, dtype=np.int32), 6),))
    assert not list(together([valued, grouped]))


def test_finer_classes() -> None:
    """Class 2 is cut in two: both are counted where it is."""
    query = LinearQuery((Block(("a",), np.array([-1, 0, 0, -1, -1, -1], dtype=np.int32), 1),))
    ((_, asked),) = together([query], {"a": np.array([0, 1, 2, 2, 3, 4, 5])})
    (same_query,) = asked.queries()
    assert same_query.blocks[0].labels.tolist() == [-1, 0, 0, 0, -1, -1, -1]


def test_thousands_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """All prefixes of 4,096 classes: as many passes as families, not as queries."""
    size, passes = 4096, list[int]()
    queries = [
        LinearQuery((Block(("v",), np.where(np.arange(size) <= k, 0, -1).astype(np.int32), 1),)) for k in range(size)
    ]
    parts = [Block(("v",), (np.arange(size) // width).astype(np.int32), size // width) for width in (512, 64, 8)]
    answers = [Noisy(LinearQuery((own,)), np.ones(own.size), 1.0, 3.0) for own in parts]
    made_of = module.Parts.made_of
    monkeypatch.setattr(module.Parts, "made_of", lambda self, counts: passes.append(1) or made_of(self, counts))
    found = Families(answers, {"v": size}).are_exact(queries)
    assert [k for k, own in enumerate(found) if own] == list(range(7, size, 8))
    assert len(passes) == 1
