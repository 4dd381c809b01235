"""What is certified, over which queries, and that it takes its share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracle
import pytest
from conftest import flat
from loops import PURE, schedule

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.judge import certificate
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.loop.problem import Outcome, Problem
from mwem_sql.loop.strategy import whole_domain
from mwem_sql.model.state import State

SHAPE = {"a": 3, "b": 2}
TRUE = np.array([[30, 0], [0, 10], [5, 5]])
WHOLE, ONE, OTHER = whole_domain(SHAPE), whole_domain({"a": 3}), whole_domain({"b": 2})
SHARE = Fraction(1, 2)


class NoNoise(SeededNoise):
    def add_noise(self, values: object, _scale: float, _kind: object) -> np.ndarray:  # type: ignore[override]
        return np.array(values)


def certified(queries: list[LinearQuery], measure: int) -> tuple[tuple[certificate.Figure, ...], Accountant]:
    """The certificate of a uniform state after one query was measured."""
    sizes = {name: np.ones(size) for name, size in SHAPE.items()}
    problem = Problem(
        queries=queries,
        weights=np.ones(len(queries)),
        sizes=sizes,
        max_cells=100,
        certified=dict(enumerate(queries)),
    )
    account = Accountant("pure", Fraction(1))
    answers = [(oracle.dense_query(own, SHAPE) @ TRUE.ravel()).astype(np.int64) for own in problem.kernel_queries]
    kernel = Kernel(*flat(answers), account, Draws(NoNoise(0)))
    step = Measurement.of(kernel.measure(measure, SHARE), problem.kernel_queries[measure], "round", measure)
    outcome = Outcome(state=State.unsplit(sizes, 50.0), total=50.0, schedule=schedule(PURE, 1), measurements=(step,))
    return certificate.certify(kernel, problem, SHARE, outcome), account


def unmeasured(sizes: dict[str, np.ndarray]) -> Outcome:
    """50 rows, evenly, after no measurement."""
    return Outcome(state=State.unsplit(sizes, 50.0), total=50.0, schedule=schedule(PURE, 1), measurements=())


def test_means_of_what_was_measured_and_of_the_rest() -> None:
    """The state has 16 2/3 of each a, 25 of each b and 8 1/3 of both, which are rounded."""
    figures, account = certified([WHOLE, ONE, OTHER], 1)
    found = {figure.part: (figure.queries, float(figure.drawn.values[0])) for figure in figures}
    whole = 22 + 8 + 8 + 2 + 3 + 3
    assert found == {"directly": (1, 13 + 7 + 7), "others": (2, (whole + 20) / 2), "most": (2, 22)}
    assert account.spent == 1  # all of it
    assert {figure.part: figure.drawn.share for figure in figures} == {
        "directly": SHARE / 4, "others": SHARE / 4, "most": SHARE / 2,
    }  # fmt: skip


def test_what_was_measured_tells_its_marginals_too() -> None:
    figures, account = certified([WHOLE, ONE, OTHER], 0)
    assert [(figure.part, figure.queries) for figure in figures] == [("directly", 3)]
    assert account.spent == 1


def test_a_partition_in_the_place_of_a_count_is_certified_by_its_first_cell() -> None:
    counted = LinearQuery((Block(("a",), np.array([-1, 0, -1], dtype=np.int32), 1),))
    partition = LinearQuery((Block(("a",), np.array([1, 0, 2], dtype=np.int32), 3),))
    kernel = Kernel(*flat([np.array([10, 30, 10]), np.array([50])]), Accountant("pure", Fraction(1)), Draws(NoNoise(0)))
    sizes = {"a": np.ones(3), "b": np.ones(2)}
    problem = Problem(queries=[partition], weights=np.ones(1), sizes=sizes, max_cells=100, certified={0: counted})
    (figure, _) = certificate.certify(kernel, problem, SHARE, unmeasured(sizes))
    assert figure.drawn.values == 17 - 10


def test_nothing_is_spent_on_nothing() -> None:
    problem = Problem(queries=[ONE], weights=np.ones(1), sizes={"a": np.ones(3)}, max_cells=100)
    kernel = Kernel(*flat([np.array([10, 30, 10]), np.array([50])]), Accountant("pure", Fraction(1)), Draws(NoNoise(0)))
    assert certificate.certify(kernel, problem, SHARE, unmeasured({"a": np.ones(3)})) == ()


@pytest.mark.parametrize(("queries", "beyond"), [(1, 0), (28, 0), (29, 1), (41, 1), (200, 7)])
def test_how_many_may_be_further_off(queries: int, beyond: int) -> None:
    assert certificate.most_beyond(queries) == beyond


def test_of_very_many_queries_some_are_certified() -> None:
    assert certificate.sample([ONE] * 3) == [0, 1, 2]
    assert certificate.sample([ONE] * 9, 4) == [0, 2, 4, 6]
    assert certificate.sample([ONE] * 9, 4, most_cells=7) == [0, 4]
    assert certificate.sample([whole_domain({"a": 3, "b": 2, "c": 2})], most_cells=7) == []
