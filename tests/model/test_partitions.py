"""A state over groups of classes against the dense listing over all of them, and what a release makes of it."""

# ruff: noqa: N806  the paper's letters
from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import oracle
import pyarrow.parquet as pq
import pytest
from chance import examples, sampled
from conftest import Connection, Open
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Floats, close, dense, seeds, totals

import mwem_sql
from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.partition import Partition, Runs
from mwem_sql.algebra.queries import MANY_BOXES
from mwem_sql.judge.evidence import is_inside
from mwem_sql.loop.problem import Outcome
from mwem_sql.model.fit import TOLERANCE, Fit, Target
from mwem_sql.model.state import State
from mwem_sql.platform.catalog import Place
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.releases.plan import Plan
from mwem_sql.releases.request import Request
from mwem_sql.reporting import card
from mwem_sql.workload import Query, Workload

Case = tuple[dict[str, Floats], float, list[tuple[LinearQuery, Floats]]]
quick = settings(deadline=None, max_examples=examples(60))


def count(name: str, size: int, low: int, high: int) -> LinearQuery:
    places = np.arange(size)
    return LinearQuery((Block((name,), ((low <= places) & (places < high)).astype(np.int32) - 1, 1),))


@st.composite
def blocks(draw: st.DrawFn, shape: dict[str, int], names: list[str]) -> Block:
    """Ranges, sets, cuboids, coarser cells, parities and sums, over one attribute or several at once."""
    generator = np.random.default_rng(draw(seeds))
    sizes = [shape[name] for name in names]
    kind = draw(st.sampled_from(["range", "set", "cuboid", "cells", "parity", "sum", "nothing"]))
    if kind == "range":
        inside = np.ones(sizes, dtype=np.bool_)
        for axis, size in enumerate(sizes):
            low, high = np.sort(generator.integers(0, size + 1, 2))
            inside &= ((low <= np.arange(size)) & (np.arange(size) < high)).reshape(-1, *[1] * (len(sizes) - axis - 1))
        return Block(tuple(names), inside.astype(np.int32) - 1, 1)
    if kind == "cuboid":
        return Block(tuple(names), np.arange(prod(sizes), dtype=np.int32).reshape(sizes), prod(sizes))
    if kind == "cells":
        return Block(tuple(names), generator.integers(-1, 3, sizes).astype(np.int32), 3)
    labels = generator.integers(0 if kind == "parity" else -1, 1, sizes).astype(np.int32)
    signs = generator.choice([-1, 1], sizes)
    values = {
        "parity": signs,
        "sum": signs * generator.integers(0, 4, sizes),
        "nothing": np.zeros(sizes, np.int64),
    }.get(kind)
    return Block(tuple(names), labels, 1, values=values)


@st.composite
def queries(draw: st.DrawFn, shape: dict[str, int]) -> LinearQuery:
    names = draw(st.permutations(list(shape)))[: draw(st.integers(0, len(shape)))]
    found = []
    while names:
        width = draw(st.integers(1, min(2, len(names))))
        found.append(draw(blocks(shape, names[:width])))
        names = names[width:]
    return LinearQuery(tuple(found))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    generator = np.random.default_rng(draw(seeds))
    counts = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    sizes = {name: generator.choice([0.25, 1, 3, 100], size) for name, size in zip("pqr", counts, strict=False)}
    shape = {name: len(size) for name, size in sizes.items()}
    total = draw(totals)
    asked = draw(st.lists(queries(shape), min_size=1, max_size=5))
    return sizes, total, [(query, generator.uniform(-0.3, 1.3, query.cells) * total) for query in asked]


def told_apart(queries: list[LinearQuery], shape: dict[str, int], name: str) -> int:
    """The number of groups of an attribute: classes share one if no block distinguishes their records."""
    columns = [
        oracle.dense_query(LinearQuery((block,)), shape).reshape(-1, *shape.values())
        for query in queries
        for block in query.blocks
    ]
    axis = 1 + list(shape).index(name)
    return len({b"".join(column.take(k, axis).tobytes() for column in columns) for k in range(shape[name])})


@quick
@given(cases(), st.data())
def test_a_state_over_groups_is_the_listing_over_classes(case: Case, data: st.DataObject) -> None:
    """After every measurement: the distribution, answers to other questions, and no group more than was told apart."""
    sizes, total, measurements = case
    shape = {name: len(size) for name, size in sizes.items()}
    state, A = State.unsplit(sizes, total), oracle.uniform(sizes, total)
    assert state.cells == len(sizes)
    for done in range(1, len(measurements) + 1):
        made = measurements[:done]
        state.replay(made, 2)
        A = oracle.multiplicative_weights(A, [(oracle.dense_query(query, shape), m) for query, m in made], 2)
        close(dense(state), A, total)
        asked = data.draw(st.lists(queries(shape), max_size=4)) + [query for query, _ in measurements]
        for query, answer in zip(asked, state.answers(asked), strict=True):
            close(answer, oracle.evaluate(oracle.dense_query(query, shape), A), total)
        names = data.draw(st.permutations(list(shape)))[: data.draw(st.integers(0, len(shape)))]
        close(
            state.marginal(names),
            np.einsum(f"{''.join(shape)}->{''.join(names)}", A.reshape(tuple(shape.values()))),
            total,
        )
        groups = {name: told_apart([query for query, _ in made], shape, name) for name in shape}
        assert {name: own.count for name, own in state.partitions.items()} == groups
        assert state.cells == sum(table.cells.size for table in state.tables)
        assert all(table.shape == tuple(groups[name] for name in table.names) for table in state.tables)


@quick
@given(cases(), seeds)
def test_a_fit_over_groups_is_one_over_classes(case: Case, seed: int) -> None:
    """Targets that come one by one, so that groups are split under those that are already there."""
    sizes, total, measurements = case
    shape = {name: len(size) for name, size in sizes.items()}
    state = State.unsplit(sizes, total)
    fit, full = Fit(state), Fit(State.uniform(sizes, total))
    generator = np.random.default_rng(seed)
    B = total * generator.dirichlet(np.ones(prod(shape.values())))
    targets: list[Target] = []
    for query, _ in measurements:
        exact = oracle.evaluate(oracle.dense_query(query, shape), B) / query.bound
        targets.append(Target(query.shares, exact + 0.02 * total * generator.normal(size=query.cells), total))
        fit.fit(targets)
        full.fit(targets)
        misfit, expected = (
            sum(
                target.misfit(oracle.evaluate(oracle.dense_query(query, shape) / query.bound, dense(each)))
                for target, (query, _) in zip(targets, measurements, strict=False)
            )
            for each in (state, full.state)
        )
        # To the tolerance to which a fit is one.
        cells = sum(target.query.cells for target in targets)
        assert misfit <= expected + TOLERANCE * max(expected, cells)
        for name, partition in state.partitions.items():
            close(
                state.marginal([name]),
                partition.shares * np.bincount(partition.codes, state.marginal([name]))[partition.codes],
                total,
            )


@quick
@given(cases())
def test_order_of_attributes_changes_nothing(case: Case) -> None:
    sizes, total, measurements = case
    forth, back = State.unsplit(sizes, total), State.unsplit(dict(reversed(sizes.items())), total)
    for state in (forth, back):
        state.replay(measurements, passes=3)
    assert back.attributes == forth.attributes[::-1]
    assert back.cells == forth.cells
    close(back.marginal(forth.attributes).ravel(), dense(forth), total)


@quick
@given(cases(), st.booleans())
def test_splitting_and_merging_change_nothing(case: Case, first: bool) -> None:
    """Two copies diverge; the coarser one follows the finer one, and its groups merge back to what they were."""
    sizes, total, measurements = case
    state = State.unsplit(sizes, total)
    state.replay(measurements[:1], passes=2)
    twin = state.copy()
    finer, kept = (state, twin) if first else (twin, state)
    A, groups = dense(kept), kept.partitions.copy()
    finer.replay(measurements, passes=2)
    np.testing.assert_array_equal(dense(kept), A)
    before = kept.group_marginal(kept.attributes)
    kept.follow(finer)
    assert {name: own.count for name, own in kept.partitions.items()} == {
        name: own.count for name, own in finer.partitions.items()
    }
    close(dense(kept), A, total)
    merged = kept.group_marginal(kept.attributes)
    for axis, name in enumerate(kept.attributes):
        parents = groups[name].codes[kept.partitions[name].representatives]
        merged = np.stack([merged.compress(parents == k, axis).sum(axis) for k in range(groups[name].count)], axis)
    close(merged, before, total)


def test_only_what_differs_is_told_apart() -> None:
    """What a class that is not counted would add, or whether one that adds nothing is counted, is nobody's business."""
    labels = np.array([0, -1, 0, -1, 0], np.int32)
    block = Block(("x",), labels, 1, values=np.array([2, 7, 0, 9, 2]))
    partition = Partition.single(np.ones(5)).refine(block.slices(0))
    assert partition.codes.tolist() == [0, 1, 1, 1, 0]
    assert block.changes == (2,)


def test_an_attribute_that_does_not_matter_is_not_joined() -> None:
    """An attribute that a query does not depend on: with one group, and after another query has split it."""
    state = State.unsplit({"a": np.ones(6), "b": np.ones(4)}, 100.0)
    everywhere = LinearQuery((*count("a", 6, 0, 6).blocks, *count("b", 4, 1, 3).blocks))
    targets = [Target(everywhere, np.array([30.0]), 1.0)]
    fit = Fit(state)
    fit.fit(targets)
    assert state.cells == 3
    targets.append(Target(count("a", 6, 0, 2), np.array([50.0]), 1.0))
    fit.fit(targets)
    state.replay([(target.query, target.values) for target in targets])
    assert state.cells == 4
    np.testing.assert_allclose([state.answer(target.query)[0] for target in targets], [30, 50], rtol=1e-6)
    for name, size in (("a", 6), ("b", 4)):
        targets.append(
            Target(
                LinearQuery((Block((name,), np.arange(size, dtype=np.int32), size),)), np.full(size, 100 / size), 1.0
            )
        )
    fit.fit(targets)
    assert state.cells == 10


def test_tiny_weights_are_split_and_stay_positive() -> None:
    state = State.unsplit({"a": np.array([1.0, 1e-200, 1.0]), "b": np.ones(2)}, 1.0)
    for _ in range(100):
        state.update(LinearQuery((*count("a", 3, 0, 2).blocks, *count("b", 2, 0, 1).blocks)), np.array([-1e6]))
    state.update(count("a", 3, 1, 2), np.array([0.5]))
    weights = state.tables[0].cells
    assert state.cells == 6
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1.0)


def test_ranges_over_thousands_of_classes_keep_few_cells() -> None:
    """Each range adds at most two groups to its attribute: three attributes in one clique take few cells."""
    generator = np.random.default_rng(0)
    sizes = dict.fromkeys("abc", np.ones(4000))
    state = State.unsplit(sizes, 1000.0)
    targets = []
    for _ in range(6):
        ends = [np.sort(generator.choice(4001, 2, replace=False)) for _ in sizes]
        parts = [count(name, 4000, low, high).blocks[0] for name, (low, high) in zip(sizes, ends, strict=True)]
        targets.append(Target(LinearQuery(tuple(parts)), np.array([100.0]), 1.0))
    Fit(state).fit(targets)
    assert state.cells <= 13**3
    assert all(2 <= own.count <= 13 for own in state.partitions.values())


TABLE = """
    CREATE TABLE t (
        i INTEGER CHECK (i BETWEEN 0 AND 4999),
        day DATE NOT NULL CHECK (day BETWEEN DATE '2020-01-01' AND DATE '2023-12-31'),
        x DOUBLE CHECK (x BETWEEN 0 AND 10), city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf')), tag VARCHAR
    );
    INSERT INTO t SELECT
        CASE WHEN k % 11 > 0 THEN k * k % 5000 END, DATE '2020-01-01' + (k * 7 % 1400)::INTEGER, (k % 97) / 10.0,
        ['Bern', 'Basel', 'Genf', NULL][1 + k % 4], ['u', 'v', 'w', 'other', NULL][1 + k % 5]
    FROM range(3000) r(k);
    CREATE TABLE t_domain AS FROM (VALUES ('tag', ['u', 'v', 'w'], true)) v(attribute, "values", open)
"""


def asked() -> Workload:
    generator = np.random.default_rng(5)
    ranges = [f"i BETWEEN {low} AND {high}" for low, high in np.sort(generator.integers(0, 5000, (40, 2))).tolist()]
    days = [f"day < DATE '2020-01-01' + {n}" for n in generator.integers(1, 1400, 10).tolist()]
    both = [f"{one} AND {other}" for one, other in pairwise(ranges)] + [
        f"{one} AND {other}" for one, other in zip(ranges, days, strict=False)
    ]
    others = [
        "x < 2.5",
        "x >= 2.5 AND x < 7.5 AND city = 'Bern'",
        "i IS NULL",
        "city IS NULL AND tag = 'u'",
        "tag IS NULL",
        "city = 'Bern' OR x > 3",
    ]
    grouped = (
        Query(group_by=("city", "tag")),
        Query(predicate=ranges[0], group_by=("city",)),
        Query(measure="sum(i // 1000)"),
        Query(measure="avg(i // 1000)", group_by=("tag",)),
    )
    return Workload.from_predicates([*ranges, *days, *both, *others]) + Workload(grouped)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, Outcome]]:
    """The outcomes of the loops of releases: that they are the listing's, over all classes, is tested above."""
    found: list[tuple[Plan, Outcome]] = []
    module = import_module("mwem_sql.releases.run")
    run = module._run

    def kept(session: Session, request: Request, plan: Plan, *others: object) -> Outcome:
        found.append((plan, run(session, request, plan, *others)))
        return found[-1][1]

    monkeypatch.setattr(module, "_run", kept)
    return found


def load(con: Connection) -> store.Stored:
    return store.load(con.cursor(), "t_synthetic", Place.of(con), "test")


@pytest.mark.parametrize(
    "options", sampled([{}, {"fit": "replay"}, {"average": True}], 1), ids=["mirror", "replay", "average"]
)
def test_a_release_answers_as_its_state_did(
    connect: Open, outcomes: list[tuple[Plan, Outcome]], tmp_path: Path, options: dict[str, object]
) -> None:
    """Every query of the workload, measured or not: from mwem.factors, and from r.factors by way of Parquet."""
    con = connect()
    con.execute(TABLE)
    made = mwem_sql.release(con, "t", asked(), 5, rounds=12, seed=1, **options)
    ((plan, outcome),) = outcomes
    assert outcome.state.partitions.coarse
    assert made.cells == outcome.state.cells
    expected = []
    for query in plan.compiled.queries:
        sums = outcome.state.answer(query.linear) * query.linear.unit
        expected += (sums if query.over is None else sums / outcome.state.answer(query.over.linear)).tolist()
    close(np.array(made.answer(asked())["answer"]), np.array(expected), outcome.total)
    pq.write_table(made.factors, tmp_path / "factors.parquet")
    kept = load(con).state()
    back = type(kept).from_table(pq.read_table(tmp_path / "factors.parquet"), kept.attributes)
    np.testing.assert_array_equal(back.marginal(["i", "city"]), kept.marginal(["i", "city"]))
    np.testing.assert_allclose(kept.marginal(["i", "city"]), outcome.state.merged().marginal(["i", "city"]), rtol=1e-12)


def test_a_release_of_ranges_is_small(connect: Open, outcomes: list[tuple[Plan, Outcome]]) -> None:
    """Five thousand values and many ranges: the model has the groups of the rounds, and max_cells counts them."""
    con = connect()
    con.execute(TABLE)
    generator = np.random.default_rng(7)
    ranges = [f"i BETWEEN {low} AND {high}" for low, high in np.sort(generator.integers(0, 5000, (300, 2))).tolist()]
    workload = Workload.from_predicates(
        [f"{text} AND city = 'Bern'" for text in ranges] + [f"{text} AND x < 5" for text in ranges]
    )
    made = mwem_sql.release(con, "t", workload, 5, rounds=10, max_cells=100, seed=1)
    ((plan, outcome),) = outcomes
    classes = {name: own.count for name, own in plan.compiled.classes.items()}
    assert classes["i"] > 500
    assert made.cells <= 100 < classes["i"]
    assert len([step for step in outcome.measurements if step.purpose == "round"]) >= 5
    measured = [plan.problem.queries[step.number - 1] for step in outcome.measurements if step.purpose == "round"]
    cuts = sum(block.changes[0] for query in measured for block in query.blocks if block.attributes == ("i",))
    assert load(con).classes["i"].count == outcome.state.partitions["i"].count <= 1 + cuts
    # Values that nothing told apart have the same weight, and rows are drawn from all of them.
    ((values, least, most),) = con.execute("SELECT count(DISTINCT i), min(i), max(i) FROM t_synthetic").fetchall()
    assert values > 1000
    assert (least < 100, most > 4900) == (True, True)


def test_matching_a_partition_gives_each_cell_its_value_and_keeps_what_is_inside() -> None:
    """One proportional step: cells have their values, and inside each cell proportions are as before."""
    sizes = {"a": np.array([1.0, 2.0, 3.0, 1.0]), "b": np.array([1.0, 1.0, 4.0])}
    state = State.unsplit(sizes, 50.0)
    state.match(LinearQuery((Block(("a",), np.array([0, 0, 1, 1], np.int32), 2),)), np.array([20.0, 30.0]))
    labels = np.array([[0, 0, 1], [0, 2, 1], [0, 2, 2], [2, 2, 2]], np.int32)
    before = state.marginal(("a", "b"))
    state.match(LinearQuery((Block(("a", "b"), labels, 3),)), np.array([40.0, 9.0, 1.0]))
    after = state.marginal(("a", "b"))
    np.testing.assert_allclose(np.bincount(labels.ravel(), after.ravel()), [40, 9, 1])
    for cell in range(3):
        grown = after[labels == cell] / before[labels == cell]
        np.testing.assert_allclose(grown, grown[0])


def test_a_cell_that_is_matched_to_nothing_is_very_small_and_can_be_matched_again() -> None:
    state = State.unsplit({"a": np.ones(2)}, 10.0)
    both = LinearQuery((Block(("a",), np.array([0, 1], np.int32), 2),))
    state.match(both, np.array([10.0, 0.0]))
    assert 0 < state.answer(both)[1] < 1e-200
    state.match(both, np.array([4.0, 6.0]))
    np.testing.assert_allclose(state.answer(both), [4, 6])


def test_what_is_fitted_again_follows_a_split_in_between() -> None:
    """Groups that were split by what is not fitted, too: a target of before is then asked on the new ones."""
    target = Target(count("x", 9, 0, 4), np.array([70.0]), 1.0)
    once, twice = (State.unsplit({"x": np.ones(9)}, 100.0) for _ in range(2))
    fits = [Fit(once), Fit(twice)]
    for fit in fits:
        fit.fit([target])
    twice.refine(count("x", 9, 2, 6))
    other = Target(count("x", 9, 1, 5), np.array([50.0]), 1.0)
    for fit in fits:
        fit.fit([target, other])
    assert twice.partitions["x"].count > once.partitions["x"].count
    np.testing.assert_allclose(twice.marginal(["x"]), once.marginal(["x"]), rtol=1e-6)


def test_what_was_fitted_follows_groups_that_were_split_since() -> None:
    """A histogram that is refined again splits groups outside the fit: earlier targets are fitted on the new groups."""
    even, finer = (
        LinearQuery((Block(("x",), (np.arange(8) * cells // 8).astype(np.int32), cells),)) for cells in (2, 8)
    )
    pair = LinearQuery((even.blocks[0], Block(("y",), np.arange(3, dtype=np.int32), 3)))
    counts = np.array([[30.0, 5, 5], [10, 20, 30]])
    state = State.unsplit({"x": np.ones(8), "y": np.ones(3)}, 100.0)
    target = Target(pair, counts.ravel(), 1.0)
    fit = Fit(state)
    fit.fit([target])
    weights = np.arange(8.0) * 100 / 28
    state.take(finer, weights)
    fit.fit([target, Target(even, counts.sum(axis=1), 0.01)])
    np.testing.assert_allclose(state.answer(pair), counts.ravel(), rtol=1e-2)
    # Inside a group that was fitted, what was taken stays in proportion.
    inside = state.marginal(["x"])[:4]
    np.testing.assert_allclose(inside / inside.sum(), weights[:4] / weights[:4].sum(), atol=1e-6)


def test_a_state_answers_many_queries_as_it_answers_each() -> None:
    generator = np.random.default_rng(3)
    sizes = {f"x{axis}": generator.uniform(1, 2, size) for axis, size in enumerate((7, 4))}
    state = State.unsplit(sizes, 100.0)
    parts = {
        name: [Block((name,), generator.integers(-1, 2, len(size)).astype(np.int32), 2) for _ in range(6)]
        for name, size in sizes.items()
    }
    asked = [LinearQuery((one, other)) for one in parts["x0"] for other in parts["x1"]] + [
        LinearQuery((one,)) for one in parts["x0"]
    ]
    asked.append(LinearQuery((Block(("x1",), np.zeros(4, np.int32), 1, values=np.array([1, -1, 1, -1])),)))
    for query in (asked[0], asked[7]):
        state.update(query, np.array([10.0, 20.0, 30.0, 5.0]))
        each = [state.answer(own) for own in asked]
        for own, one in zip(state.answers(asked, many_boxes=5), each, strict=True):
            np.testing.assert_allclose(own, one, atol=1e-9)


@pytest.mark.parametrize("together", [True, False])
def test_many_conditions_on_many_classes_are_no_walk_over_both(
    monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    """As many classes as conditions, of which the state has ten groups: no condition is laid out over all classes."""
    size = 3000
    sizes = {"x": np.ones(size), "y": np.ones(2)}
    state = State.unsplit(sizes, 100.0)
    state.refine(LinearQuery((Block(("x",), (np.arange(size) * 10 // size).astype(np.int32), 10),)))
    half = Block(("y",), np.array([0, -1], np.int32), 1)
    asked = [
        LinearQuery((half, Block(("x",), Runs(np.array([0, k]), np.array([0, -1], np.int32), (size,)), 1)))
        for k in range(1, size)
    ]
    laid_out = list[int]()
    plain = Runs.array
    monkeypatch.setattr(Runs, "array", lambda self: laid_out.append(self.size) or plain(self))
    found = np.concatenate(state.answers(asked, many_boxes=MANY_BOXES if together else size))
    np.testing.assert_allclose(found, 100 * np.arange(1, size) / size / 2, rtol=1e-9)
    assert sum(laid_out) <= 10 * size


def above(sizes: tuple[int, int], cells: int = 1) -> LinearQuery:
    """Whether a is above b; of two cells, the second counts the others."""
    one, other = np.indices(sizes)
    return LinearQuery((Block(("a", "b"), np.where(one > other, 0, 2 * cells - 3).astype(np.int32), cells),))


def test_a_comparison_splits_attributes_into_parts_and_counts_by_shares() -> None:
    sizes = {"a": np.ones(300), "b": np.ones(200)}
    query = above((300, 200))
    state, exact = State.unsplit(sizes, 1000.0), State.unsplit(sizes, 1000.0)
    state.partitions.most, exact.partitions.most = 16, None
    even = exact.answer(query)
    for each, most in ((state, 18 * 18), (exact, 201 * 200)):
        Fit(each).fit([Target(query, np.array([100.0]), 1.0)])
        assert each.cells <= most
        assert each.answer(query)[0] == pytest.approx(100, abs=1)
        assert each.answer(above((300, 200), 2)) == pytest.approx([100, 900], abs=2)
    assert not state.partitions.distinguishes(query.blocks[0])
    assert exact.partitions.distinguishes(query.blocks[0])
    assert even[0] > 500
    # What other queries distinguish is exact beside it, and both are fitted.
    fit = Fit(state)
    targets = [Target(query, np.array([100.0]), 1.0), Target(count("a", 300, 0, 7), np.array([50.0]), 1.0)]
    fit.fit(targets)
    fit.finish()
    assert [state.answer(target.query)[0] for target in targets] == pytest.approx([100, 50], abs=1)


def test_a_copy_has_the_same_parts() -> None:
    state = State.unsplit({"a": np.ones(300), "b": np.ones(200)}, 10.0)
    state.partitions.most = 16
    state = state.copy()
    assert state.refine(above((300, 200))) == {"a", "b"}
    assert max(partition.count for partition in state.partitions.values()) <= 18


def test_columns_that_are_compared_are_released_on_parts(connect: Open) -> None:
    """Three columns compared with each other take a model of few cells; answers and intervals are as measured."""
    con = connect()
    con.execute(
        """CREATE TABLE loans (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 399), b INTEGER CHECK (b BETWEEN 0 AND 299),
           c INTEGER CHECK (c BETWEEN 0 AND 199), d BOOLEAN NOT NULL)"""
    )
    con.execute(
        """INSERT INTO loans SELECT (i * 7919) % 400, CASE WHEN i % 5 > 0 THEN (i * i) % 300 END,
           (i * 31) % 200, i % 3 = 0 FROM range(4000) t(i)"""
    )
    asked = Workload([Query("a > b"), Query("b > c"), Query("a > 2 * c AND d"), Query("c IS NULL OR a < 20")])
    released = mwem_sql.release(con, "loans", asked, 1000, rows=10, seed=1)
    (cells,) = con.execute("SELECT cells FROM mwem.releases").fetchone() or (0,)
    assert cells < 400_000
    rows = released.answer(asked).to_pylist()
    for row, query in zip(rows, asked, strict=True):
        (truth,) = con.execute(f"SELECT count(*) FROM loans WHERE {query.predicate}").fetchone() or (0,)
        assert row["answer"] == pytest.approx(truth, abs=15)
        assert row["low"] <= truth <= row["high"]
        assert row["high"] - row["low"] < 10
    # Another comparison of the same columns is near, and a page of the release says that all of it fits.
    (other,) = released.answer(Workload([Query("a > b + 3")])).to_pylist()
    (truth,) = con.execute("SELECT count(*) FROM loans WHERE a > b + 3").fetchone() or (0,)
    assert other["answer"] == pytest.approx(truth, abs=200)
    assert other["low"] <= truth <= other["high"]
    stored = store.load(con.cursor(), "loans_synthetic", Session.of(con).place, "test")
    measurements = store.read_measurements(con.cursor(), stored)
    counts = {name: classes.count for name, classes in stored.classes.items()}
    assert any(is_inside(each, counts) and each.purpose != "detail" for each in measurements)
    names, misfits = card.fits(stored.state(), stored.classes, measurements)
    assert len(names) == len(misfits) == sum(each.purpose != "detail" for each in measurements)
