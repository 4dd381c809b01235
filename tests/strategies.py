"""Random domains, queries and measurements for the tests of the public side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.mixture import Mixture
from mwem_sql.model.state import State
from mwem_sql.workload import Query

Floats = npt.NDArray[np.float64]


def a_query(**parts: Any) -> Query:
    """For `st.builds`: parts that are not given are at their defaults."""
    return Query(**parts)


seeds = st.integers(0, 2**32 - 1)
totals = st.sampled_from([1.0, 10.0, 1234.5, 3e6])


def dense(state: State | Mixture) -> Floats:
    return state.marginal(state.attributes).ravel()


def close(found: Floats, expected: Floats, total: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * total)


@st.composite
def domains(draw: st.DrawFn, most: int = 5) -> dict[str, Floats]:
    """The base measure of the classes of up to five attributes, with up to four classes each."""
    generator = np.random.default_rng(draw(seeds))
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most))
    return {name: generator.choice([0.25, 1, 3, 100], count) for name, count in zip("pqrst", counts, strict=False)}


@st.composite
def blocks(draw: st.DrawFn, shape: Mapping[str, int], names: list[str]) -> Block:
    generator = np.random.default_rng(draw(seeds))
    sizes = [shape[name] for name in names]
    cells = int(np.prod(sizes, dtype=np.int64))
    kind = draw(st.sampled_from(["cuboid", "predicate", "parity", "labels"]))
    if kind == "cuboid":
        return Block(tuple(names), np.arange(cells, dtype=np.int32).reshape(sizes), cells)
    size = draw(st.integers(1, 3)) if kind == "labels" else 1
    labels = generator.integers(0 if kind == "parity" else -1, size, sizes).astype(np.int32)
    signs = generator.choice([-1, 1], sizes).astype(np.int8) if kind != "predicate" and draw(st.booleans()) else None
    return Block(tuple(names), np.asarray(labels), size, values=signs)


@st.composite
def queries(draw: st.DrawFn, shape: Mapping[str, int]) -> LinearQuery:
    """A product of blocks over some of the attributes, in any order; now and then a block that reads none of them."""
    names = draw(st.permutations(list(shape)))
    names = names[: draw(st.integers(0, len(names)))]
    found = []
    while names:
        width = draw(st.integers(1, min(3, len(names))))
        found.append(draw(blocks(shape, names[:width])))
        names = names[width:]
    if draw(st.integers(0, 9)) == 9:
        found.append(draw(blocks(shape, [])))
    return LinearQuery(tuple(draw(st.permutations(found))))


@st.composite
def problems(
    draw: st.DrawFn, fewest: int = 1, most: int = 4, attributes: int = 5
) -> tuple[dict[str, Floats], float, list[tuple[LinearQuery, Floats]]]:
    """A domain, a total, and queries with measurements as noise would make them: some below 0, some above the total."""
    sizes = draw(domains(attributes))
    total = draw(totals)
    shape = {name: len(size) for name, size in sizes.items()}
    asked = draw(st.lists(queries(shape), min_size=fewest, max_size=most))
    generator = np.random.default_rng(draw(seeds))
    return sizes, total, [(query, generator.uniform(-0.3, 1.3, query.cells) * total) for query in asked]


@st.composite
def states(draw: st.DrawFn) -> tuple[State, dict[str, int]]:
    """A state with some factors joined, some not, and no two weights alike."""
    sizes, total, measurements = draw(problems(fewest=0, most=3))
    state = State.uniform(sizes, total)
    state.replay(measurements, passes=2)
    return state, {name: len(size) for name, size in sizes.items()}


def tree_of(shape: Mapping[str, int], sets: Sequence[Sequence[str]], seed: int, total: float = 100.0) -> State:
    """A state in which these attribute sets have been measured: far from uniform."""
    generator = np.random.default_rng(seed)
    state = State.uniform({name: np.ones(size) for name, size in shape.items()}, total)
    targets = []
    for names in sets:
        query = LinearQuery(
            tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names)
        )
        targets.append(Target(query, total * generator.dirichlet(np.full(query.cells, 0.5)), 1.0))
    Fit(state).fit(targets)
    return state


def cuboid(shape: dict[str, int], names: tuple[str, ...]) -> LinearQuery:
    return LinearQuery(tuple(Block((name,), np.arange(shape[name], dtype=np.int32), shape[name]) for name in names))


def marginals(shape: dict[str, int], *ways: int) -> list[LinearQuery]:
    return [cuboid(shape, names) for way in ways for names in itertools.combinations(shape, way)]


@st.composite
def partitions(draw: st.DrawFn, size: int) -> Partition:
    """Groups of classes, not all of them neighbours, numbered by first appearance."""
    drawn = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    order = list(dict.fromkeys(drawn))
    sizes = np.array(draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size)))
    return Partition(np.array([order.index(group) for group in drawn], np.int32), sizes / sizes.sum())
