"""What the measurements of a level say of its parent: sums over the level's own attributes; a fit to both levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from measurements import measurement
from strategies import seeds

from mwem_sql.algebra.linear import Block, LinearQuery
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.model.children import Ascent, sum_out
from mwem_sql.model.fit import Fit, Target
from mwem_sql.model.start import every_cell
from mwem_sql.model.state import State

SIZES = {"a": 3, "b": 2, "y": 3, "z": 2}
MOST = 3
"""Children of a row of the parent."""
NUMBER = Block(("n",), np.zeros(MOST + 1, dtype=np.int32), 1, values=np.arange(MOST + 1))


def block(names: str, labels: np.ndarray) -> Block:
    return Block(tuple(names), labels.astype(np.int32), int(labels.max()) + 1)


def blocks(draw: np.random.Generator) -> tuple[Block, ...]:
    """Two blocks over a, b, y and z: of any attributes together, in any order, some combinations in no cell."""
    order = draw.permutation(list("abyz"))
    cut = int(draw.integers(1, 4))
    out = []
    for names in (order[:cut], order[cut:]):
        labels = draw.integers(-1 if draw.random() < 0.3 else 0, 3, [SIZES[name] for name in names])
        labels.reshape(-1)[:3] = np.arange(3)[: labels.size]
        out.append(block("".join(names), labels))
    return tuple(out)


@given(seeds)
def test_sums_over_a_levels_own_attributes_are_those_of_the_parents_columns(seed: int) -> None:
    """What is said is true of the exact counts, and each cell has the noise of the cells that it is a sum of."""
    draw = np.random.default_rng(seed)
    query, data = LinearQuery(blocks(draw)), draw.integers(0, 9, [SIZES[name] for name in "abyz"])
    turned = np.transpose(data, ["abyz".index(name) for name in query.attributes])
    values = query.answer(turned)
    said = sum_out(measurement(query, values, 2.0), frozenset("ab"))
    if said is None:
        return
    assert set(said.query.attributes) <= set("ab")
    whole = data.sum(axis=tuple("abyz".index(name) for name in "abyz" if name not in said.query.attributes))
    names = [name for name in "ab" if name in said.query.attributes]
    assert (
        said.query.answer(np.transpose(whole, [names.index(name) for name in said.query.attributes])) == said.values
    ).all()
    # As many cells as add up to each: what sums of ones give.
    ones = sum_out(measurement(query, np.ones(query.cells), 2.0), frozenset("ab"))
    assert ones is not None
    assert said.variance == pytest.approx(2 * ones.values)


def test_what_does_not_say_what_a_sum_is() -> None:
    """A count of some of a level's own values says nothing of its parent; every value together does."""
    some, all_of_them = block("y", np.array([0, -1, -1])), block("y", np.array([0, 1, 1]))
    rows = block("a", np.arange(3))
    assert sum_out(measurement(LinearQuery((rows, some)), np.ones(3), 1.0), frozenset("a")) is None
    said = sum_out(measurement(LinearQuery((rows, all_of_them)), np.arange(6), 1.0), frozenset("a"))
    assert said is not None
    assert (said.values == [1, 5, 9]).all() and (said.variance == np.full(3, 2.0)).all()
    # Of a partition over both, what its cells tell apart: here the last two classes are together.
    mixed = block("ya", np.array([[0, 1, 2], [3, 2, 1], [0, 1, 1]]))
    said = sum_out(measurement(LinearQuery((mixed,)), np.array([1, 10, 100, 1000]), 1.0), frozenset("a"))
    assert said is not None
    assert (said.query.blocks[0].labels == [0, 1, 1]).all() and (said.values == [1001, 110]).all()


def two_levels(seed: int) -> tuple[list[Target], Measurement, int]:
    """What is measured of a table with `a` and numbers, and of its children: their `y` by `a`. With noise."""
    draw, rows = np.random.default_rng(seed), 3000
    joint = draw.multinomial(rows, draw.dirichlet(np.full(12, 5.0))).reshape(3, 4)
    children = (joint @ np.arange(4))[:, None] * draw.dirichlet(np.full(3, 5.0), 3)
    own = [
        Target(every_cell(("a",), (3,)), joint.sum(axis=1) + draw.normal(0, 20, 3), 400.0),
        Target(every_cell(("n",), (4,)), joint.sum(axis=0) + draw.normal(0, 20, 4), 400.0),
    ]
    asked = every_cell(("above.a", "y"), (3, 3))
    return own, measurement(asked, children.reshape(-1) + draw.normal(0, 30, 9), 900.0), rows


def dense(own: list[Target], child: Measurement, rows: int) -> np.ndarray:
    """Least squares over both levels at once: P(a, n) and the children's cells, as many as P says, exactly."""
    numbers = np.arange(4.0)
    # P(a, n) and, for each a, the children of all kinds but the last.
    unknown = 12 + 6
    lines, values = list[np.ndarray](), list[float]()

    def say(line: np.ndarray, value: float, variance: float) -> None:
        lines.append(line / np.sqrt(variance))
        values.append(value / np.sqrt(variance))

    cells = np.arange(12).reshape(3, 4)
    say(np.repeat([1.0, 0.0], [12, 6]), rows, 1e-6)
    for a in range(3):
        line = np.zeros(unknown)
        line[cells[a]] = 1
        say(line, own[0].values[a], 400)
        last = np.zeros(unknown)
        last[cells[a]] = numbers
        for y in range(2):
            line = np.zeros(unknown)
            line[12 + 2 * a + y] = 1
            last -= line
            say(line, child.values[3 * a + y], 900)
        say(last, child.values[3 * a + 2], 900)
    for n in range(4):
        line = np.zeros(unknown)
        line[cells[:, n]] = 1
        say(line, own[1].values[n], 400)
    return np.linalg.lstsq(np.array(lines), np.array(values), rcond=None)[0][:12].reshape(3, 4)


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_to_messages_is_a_fit_to_both_levels(seed: int) -> None:
    """The answers that are determined are those of all measurements of both levels at once, by their noise."""
    own, child, rows = two_levels(seed)
    state = State.unsplit({"a": np.ones(3), "n": np.ones(4)}, rows)
    up = Ascent(names={"above.a": "a"}, places={"above.a": np.arange(3)}, number=NUMBER)
    (message,) = up.targets([child], state, 100)
    fit = Fit(state)
    fit.fit([*own, message], tolerance=1e-9)
    fit.finish()
    fitted, wanted = state.marginal(["a", "n"]), dense(own, child, rows)
    assert fitted.sum(axis=1) == pytest.approx(wanted.sum(axis=1), abs=1)
    assert fitted.sum(axis=0) == pytest.approx(wanted.sum(axis=0), abs=1)
    assert fitted @ np.arange(4) == pytest.approx(wanted @ np.arange(4), abs=2)
    # Without what the children say it is another fit.
    alone = State.unsplit({"a": np.ones(3), "n": np.ones(4)}, rows)
    Fit(alone).fit(own)
    assert np.abs(alone.marginal(["a", "n"]) @ np.arange(4) - wanted @ np.arange(4)).max() > 10


def test_without_room_a_message_is_the_number_of_children() -> None:
    own, child, rows = two_levels(0)
    up = Ascent(names={"above.a": "a"}, places={"above.a": np.arange(3)}, number=NUMBER)
    for most, cells in ((12, 3), (11, 1), (1, 1)):
        state = State.unsplit({"a": np.ones(3), "n": np.ones(4)}, rows)
        Fit(state).fit(own)
        (message,) = up.targets([child], state, most)
        assert len(message.values) == cells
        assert message.values.sum() * MOST == pytest.approx(child.values.sum())
