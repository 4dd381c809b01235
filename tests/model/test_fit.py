"""The fit against replays, against closed forms, and under measurements that no distribution has."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, queries, seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.model.fit import STEPS, Fit, Target
from mwem_sql.model.state import State

Instance = tuple[State, list[Target]]


def cuboid(shape: dict[str, int], *names: str) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def misfit(state: State, targets: list[Target]) -> float:
    return float(sum(np.square(state.answer(t.query) - t.values).sum() / t.variance for t in targets))


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Noisy answers about a sparse or a smooth table: cuboids, predicates, parities; each with a noise of its own."""
    generator = np.random.default_rng(draw(seeds))
    shape = {name: draw(st.integers(2, 4)) for name in "pqrst"[: draw(st.integers(1, 5))]}
    total = draw(st.sampled_from([1e3, 1e5]))
    weights = generator.dirichlet(np.full(int(np.prod(list(shape.values()))), draw(st.sampled_from([0.05, 1.0, 50.0]))))
    truth = State.uniform({name: np.ones(size) for name, size in shape.items()}, total).marginal(tuple(shape))
    truth = total * weights.reshape(truth.shape)
    targets = []
    for query in draw(st.lists(queries(shape).filter(lambda query: query.blocks), min_size=1, max_size=6)):
        scale = draw(st.sampled_from([2.0, 20.0]))
        places = [list(shape).index(name) for name in query.attributes]
        marginal = np.einsum(truth, list(range(len(shape))), places)
        values = query.answer(marginal) + generator.laplace(scale=scale, size=query.cells)
        targets.append(Target(query, values, 2 * scale**2))
    return State.uniform({name: np.ones(size) for name, size in shape.items()}, total), targets


@settings(deadline=None, max_examples=examples(80))
@given(instances())
def test_what_comes_out_is_a_distribution(case: Instance) -> None:
    state, targets = case
    fit = Fit(state)
    fit.fit(targets)
    movable = [target for target in targets if state.several(state.partitions.exact(target.query).attributes)]
    noted = sum(note.now for note in fit._notes.values())
    assert noted == pytest.approx(misfit(state, movable), rel=1e-6, abs=1e-9)
    for table in state.tables:
        assert (table.cells > 0).all()
        assert table.cells.sum() == pytest.approx(state.total, rel=1e-9)


def random_instance(seed: int) -> Instance:
    """One to six measurements of a random table: cuboids, predicates and parities, at little or much noise."""
    generator = np.random.default_rng(seed)
    shape = {f"a{number}": int(generator.integers(2, 5)) for number in range(generator.integers(1, 6))}
    total = float(generator.choice([1e3, 1e4, 1e5]))
    count = int(generator.integers(1, 7))
    scale = 2 * count / float(generator.choice([0.1, 1.0, 10.0]))
    concentration = float(generator.choice([0.05, 1.0, 50.0]))
    sizes = tuple(shape.values())
    truth = total * generator.dirichlet(np.full(int(np.prod(sizes)), concentration)).reshape(sizes)
    targets = []
    for kind in generator.integers(3, size=count):
        names = tuple(map(str, generator.permutation(list(shape))[: generator.integers(1, min(3, len(shape)) + 1)]))
        marginal = np.einsum(truth, list(range(len(shape))), [list(shape).index(name) for name in names])
        if kind == 0:
            query = cuboid(shape, *names)
        elif kind == 1:
            query = LinearQuery((Block(names, generator.integers(-1, 1, marginal.shape).astype(np.int32), 1),))
        else:
            signs = generator.choice([-1, 1], marginal.shape).astype(np.int8)
            query = LinearQuery((Block(names, np.zeros(marginal.shape, np.int32), 1, values=signs),))
        values = query.answer(marginal) + generator.laplace(scale=scale, size=query.cells)
        targets.append(Target(query, values, 2 * scale**2))
    return State.uniform({name: np.ones(size) for name, size in shape.items()}, total), targets


@pytest.mark.parametrize(
    "seeds",
    [
        range(15),
        pytest.param(range(15, 100), marks=pytest.mark.thorough),
        pytest.param(range(100, 5000), marks=pytest.mark.campaign),
    ],
)
def test_no_worse_than_replay_in_fewer_steps(seeds: range) -> None:
    """On each of them, to a millionth of what noise alone makes of one cell; in less than half of its 100 passes."""
    steps = 0
    for seed in seeds:
        state, targets = random_instance(seed)
        replayed = state.copy()
        steps += Fit(state).fit(targets)
        replayed.replay([(target.query, target.values) for target in targets])
        assert misfit(state, targets) <= misfit(replayed, targets) + 1e-6, seed
    assert steps < 50 * len(seeds)


def rounds(shape: dict[str, int], seed: int) -> list[Target]:
    """All pairs of a random table, in random order, as ten rounds at epsilon 1 would measure them."""
    generator = np.random.default_rng(seed)
    sizes = tuple(shape.values())
    truth = generator.multinomial(20_000, generator.dirichlet(np.full(int(np.prod(sizes)), 0.1))).reshape(sizes)
    pairs = list(itertools.combinations(shape, 2))
    generator.shuffle(pairs)
    targets = []
    for names in pairs[:10]:
        query = cuboid(shape, *names)
        marginal = np.einsum(truth.astype(float), list(range(len(shape))), [list(shape).index(name) for name in names])
        targets.append(Target(query, query.answer(marginal) + generator.laplace(scale=20.0, size=query.cells), 800.0))
    return targets


@pytest.mark.parametrize("seed", range(3))
def test_lower_than_replay_in_fewer_steps(seed: int) -> None:
    """Ten rounds of a cyclic workload, refitted after each: no higher misfit, in less than half of the passes."""
    shape = {"p": 5, "q": 4, "r": 6, "s": 3, "t": 7}
    targets = rounds(shape, seed)
    fitted = State.uniform({name: np.ones(size) for name, size in shape.items()}, 20_000.0)
    replayed = fitted.copy()
    fit = Fit(fitted)
    steps = 0
    for count in range(1, len(targets) + 1):
        steps += fit.fit(targets[:count])
        replayed.replay([(target.query, target.values) for target in targets[:count]])
        assert misfit(fitted, targets[:count]) <= misfit(replayed, targets[:count])
    assert steps < 50 * len(targets)


def test_one_cuboid_is_met() -> None:
    shape = {"a": 3, "b": 2}
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    wanted = np.array([50.0, 10.0, 20.0, 5.0, 14.0, 1.0])
    steps = Fit(state).fit([Target(cuboid(shape, "a", "b"), wanted, 1.0)], tolerance=1e-12)
    assert steps <= STEPS
    np.testing.assert_allclose(state.marginal("ab").ravel(), wanted, atol=0.1)


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (1.0, 9.0), (4.0, 1.0)])
def test_two_measurements_are_weighed_by_their_precision(first: float, second: float) -> None:
    state = State.uniform({"a": np.ones(2)}, 100.0)
    query = LinearQuery((Block(("a",), np.array([0, -1], np.int32), 1),))
    targets = [Target(query, np.array([20.0]), first), Target(query, np.array([60.0]), second)]
    Fit(state).fit(targets, tolerance=1e-9)
    assert state.marginal("a")[0] == pytest.approx((20 / first + 60 / second) / (1 / first + 1 / second), rel=1e-3)


def test_range_and_parity_queries() -> None:
    state = State.uniform({"a": np.ones(10), "b": np.ones(2)}, 100.0)
    between = LinearQuery(
        (Block(("a",), np.where((np.arange(10) > 2) & (np.arange(10) < 7), 0, -1).astype(np.int32), 1),)
    )
    signs = np.where(np.add.outer(np.arange(10), np.arange(2)) % 2, -1, 1).astype(np.int8)
    parity = LinearQuery((Block(("a", "b"), np.zeros((10, 2), np.int32), 1, values=signs),))
    Fit(state).fit([Target(between, np.array([70.0]), 1.0), Target(parity, np.array([-40.0]), 1.0)], tolerance=1e-9)
    assert state.answer(between)[0] == pytest.approx(70, abs=0.1)
    assert state.answer(parity)[0] == pytest.approx(-40, abs=0.1)


@pytest.mark.parametrize("value", [-1e300, -50.0, 1e4, 1e300])
def test_measurements_that_no_distribution_has(value: float) -> None:
    """A cell below 0 or above the total ends near 0 or near the total, and nothing overflows."""
    state = State.uniform({name: np.ones(2) for name in "abc"}, 100.0)
    targets = [
        Target(cuboid(dict.fromkeys("abc", 2), *names), np.array([value, 30.0, 30.0, 30.0]), 1.0)
        for names in ("ab", "bc", "ca")
    ]
    fit = Fit(state)
    for _ in range(20):
        fit.fit(targets)
    cell = state.marginal("ab")[0, 0]
    assert cell < 1 if value < 0 else cell > 90
    for table in state.tables:
        assert np.isfinite(table.cells).all()
        assert (table.cells > 0).all()
        assert table.cells.sum() == pytest.approx(100.0, rel=1e-9)


def test_what_cannot_move_is_left_alone() -> None:
    state = State.uniform({"a": np.ones(1), "b": np.ones(3)}, 9.0)
    everyone = LinearQuery((Block(("b",), np.zeros(3, np.int32), 1),))
    constant = LinearQuery((Block(("a",), np.zeros(1, np.int32), 1),))
    steps = Fit(state).fit(
        [
            Target(everyone, np.array([5.0]), 1.0),
            Target(constant, np.array([3.0]), 1.0),
            Target(LinearQuery(()), np.array([1.0]), 1.0),
        ]
    )
    assert steps == 0
    np.testing.assert_allclose(state.marginal("b"), 3.0)
    with pytest.raises(ValueError, match="one finite number per cell"):
        Fit(state).fit([Target(everyone, np.array([np.nan]), 1.0)])


def test_parts_are_fitted_apart() -> None:
    """A part that is easy to fit does not wait for one that is not, and comes out the same without it."""
    shape = {"a": 3, "b": 2, "c": 4}
    generator = np.random.default_rng(3)
    targets = [
        Target(cuboid(shape, "a", "b"), 100 * generator.dirichlet(np.ones(6)), 1.0),
        Target(cuboid(shape, "c"), 100 * generator.dirichlet(np.ones(4)), 4.0),
    ]
    together = State.uniform({name: np.ones(size) for name, size in shape.items()}, 100.0)
    alone: Floats = np.empty(0)
    apart = together.copy()
    Fit(apart).fit(targets[:1])
    alone = apart.marginal("ab")
    Fit(together).fit(targets)
    np.testing.assert_array_equal(together.marginal("ab"), alone)


def test_partitions_of_many_rows_are_fitted_to_within_their_noise() -> None:
    """Ten million rows with a heavy tail, in 4,096 cells and then in fewer.

    Each is fitted at once before the descent, which alone would end far away.
    """
    generator = np.random.default_rng(0)
    truth = generator.multinomial(10**7, 1 / np.arange(1, 4097) / (1 / np.arange(1, 4097)).sum())
    state = State.uniform({"a": np.ones(4096)}, 1e7)
    fit = Fit(state)
    targets = []
    for cells in (4096, 2048, 1024, 512):
        query = LinearQuery((Block(("a",), (np.arange(4096) * cells // 4096).astype(np.int32), cells),))
        targets.append(
            Target(
                query, query.answer(truth.astype(np.float64)) + generator.laplace(scale=47.0, size=cells), 2 * 47.0**2
            )
        )
        fit.fit(targets)
    assert misfit(state, targets) < 0.6 * sum(target.query.cells for target in targets)
    prefixes = np.cumsum(state.marginal(["a"]) - truth)
    assert np.mean(prefixes**2) < 1e7


def test_targets_of_unequal_variances_are_weighed_cell_by_cell() -> None:
    query = cuboid({"a": 4}, "a")
    state = State.uniform({"a": np.ones(4)}, 100.0)
    Fit(state).fit([Target(query, np.array([10.0, 20, 30, 80]), np.array([1e-6, 1e-6, 1e-6, 1.0]))], tolerance=1e-10)
    np.testing.assert_allclose(state.answer(query), [10, 20, 30, 40], atol=1e-2)
