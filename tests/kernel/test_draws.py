"""Stored draws: they stand for the very same steps and for no others, and what was not stored is drawn anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from conftest import flat
from interruptions import Repeated
from loops import GAUSSIAN, PURE, first_of, planned
from numpy.typing import NDArray
from strategies import Floats

from mwem_sql.algebra.linear import LinearQuery
from mwem_sql.errors import BudgetError, OutputError
from mwem_sql.kernel.accountant import Accountant
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draw, Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise, OpenDPNoise
from mwem_sql.kernel.scales import Kind
from mwem_sql.loop.strategy import whole_domain

Integers = NDArray[np.int64]
SHARE = Fraction(1, 8)
ANSWERS = [np.array(row, dtype=np.int64) for row in ([5, 0, 7], [100], [-3, 4])]


class Counting:
    """Noise that is 1, 2, 3 and so on: each draw tells which one it was."""

    private = False

    def __init__(self) -> None:
        self.count = 0

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        self.count += 1
        return self.count % scores.size

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        self.count += 1
        return np.full(values.size, self.count)


class Silent:
    """Where nothing may be drawn."""


class StoppedError(Exception):
    """In the place of a process that dies."""


def kernel(draws: Draws, account: Accountant | None = None, **changes: Any) -> Kernel:
    arguments = {"sensitivity": 1, "bounds": None} | changes
    return Kernel(*flat(ANSWERS), account or Accountant("pure", Fraction(1)), draws, **arguments)


def select(of: Kernel, **changes: Any) -> object:
    arguments = {
        "candidates": [0, 1, 2],
        "approximations": [np.array([1.4, 1.6, 7.0]), np.array([40.5]), np.zeros(2)],
        "penalties": np.zeros(3),
        "weights": np.ones(3),
        "share": SHARE,
    } | changes
    return of.select(**arguments).query


def measure(of: Kernel, **changes: Any) -> object:
    arguments: dict[str, Any] = {"query": 0, "share": SHARE, "parts": np.array([0, 1, 1])} | changes
    return of.measure(**arguments).values.tolist()


def certify(of: Kernel, **changes: Any) -> object:
    arguments: dict[str, Any] = {
        "queries": [0, 2],
        "leading": [2, 2],
        "approximations": np.array([4.4, 1.0, 0.0, 2.0]),
        "share": SHARE,
        "rank": None,
    } | changes
    return of.certify(**arguments).values.tolist()


def stored_by(*steps: Callable[[Kernel], object]) -> tuple[list[Draw], list[object]]:
    kept: list[Draw] = []
    own = kernel(Draws(Counting(), store=kept.append))
    return kept, [step(own) for step in steps]


def test_stored_draws_are_given_again_without_drawing_and_debited_again() -> None:
    kept, given = stored_by(select, measure, certify)
    account = Accountant("pure", Fraction(1))
    own = kernel(Draws(Silent(), kept), account)  # type: ignore[arg-type]
    assert [select(own), measure(own), certify(own)] == given
    assert account.spent == 3 * SHARE
    account.settle()


@pytest.mark.parametrize("lost", range(4))
def test_what_was_not_stored_is_drawn_anew(lost: int) -> None:
    """With randomness that was not used before, and stored behind what is there."""
    noise, kept, drawn = Counting(), list[Draw](), list[object]()

    def store(draw: Draw) -> None:
        if len(kept) == lost:
            raise StoppedError
        kept.append(draw)

    own = kernel(Draws(noise, store=store))
    with pytest.raises(StoppedError):
        drawn.extend(measure(own) for _ in range(4))
    again = kernel(Draws(noise, list(kept), kept.append))
    drawn = [measure(again) for _ in range(4)]
    # The one that was lost is in none of them.
    assert drawn == [[k, k] for k in [*range(1, lost + 1), *range(lost + 2, 6)]]
    assert [np.frombuffer(draw.values, np.int64).tolist() for draw in kept] == drawn
    assert len({draw.step for draw in kept}) == 4


def test_a_draw_is_stored_before_it_is_given() -> None:
    """A step whose draw could not be stored gives nothing, and its share is gone for this run."""

    def full(_: Draw) -> None:
        raise OutputError("no room")

    account = Accountant("pure", Fraction(1))
    own = kernel(Draws(Counting(), store=full), account)
    for step in (select, measure, certify):
        with pytest.raises(OutputError, match="no room"):
            step(own)
    assert account.spent == 3 * SHARE


OTHERS: list[tuple[Callable[..., object], dict[str, object]]] = [
    (select, {"candidates": [0, 1]}),
    (select, {"approximations": [np.array([2.4, 1.6, 7.0]), np.array([40.5]), np.zeros(2)]}),
    (select, {"penalties": np.array([0.0, 1.0, 0.0])}),
    (select, {"weights": np.array([1.0, 1.0, 2.0])}),
    (select, {"share": SHARE / 2}),
    (measure, {"query": 2, "parts": np.array([0, 1])}),
    (measure, {"parts": np.array([0, 0, 1])}),
    (measure, {"parts": None}),
    (measure, {"share": SHARE / 2}),
    (certify, {"queries": [0, 1], "leading": [3, 1]}),
    (certify, {"leading": [3, 1]}),
    (certify, {"approximations": np.array([4.4, 1.0, 0.0, 3.0])}),
    (certify, {"rank": 1}),
    (certify, {"share": SHARE / 2}),
]


@pytest.mark.parametrize(("step", "change"), OTHERS)
def test_a_stored_draw_stands_for_its_own_step_only(step: Callable[..., object], change: dict[str, Any]) -> None:
    if "candidates" in change:
        change |= {"approximations": [np.array([1.4, 1.6, 7.0]), np.array([40.5])]}
        change |= {"penalties": np.zeros(2), "weights": np.ones(2)}
    kept, _ = stored_by(step)
    with pytest.raises(BudgetError, match=r"draw \(1\) that an earlier call of this request has stored is of another"):
        step(kernel(Draws(Silent(), kept)), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"sensitivity": 2}, {"bounds": [1, 2, 1]}, {"about": "another domain"}])
def test_and_of_the_same_kernel(change: dict[str, Any]) -> None:
    kept, _ = stored_by(measure)
    draws = Draws(Silent(), kept)  # type: ignore[arg-type]
    if "about" in change:
        draws.note(change.pop("about"))
    with pytest.raises(BudgetError, match="is of another step"):
        measure(kernel(draws, **change))


def test_in_the_same_order() -> None:
    kept, _ = stored_by(measure, certify)
    with pytest.raises(BudgetError, match="is of another step"):
        certify(kernel(Draws(Silent(), kept)))  # type: ignore[arg-type]


def test_the_sentence_says_what_drew_it() -> None:
    draw = Draw(step="", values=b"", made_by="mwem_sql 9.9, numpy 7")
    with pytest.raises(BudgetError, match=r"call it with what it began with \(mwem_sql 9\.9, numpy 7\), at no further"):
        measure(kernel(Draws(Silent(), [draw])))  # type: ignore[arg-type]


def test_facts_are_told_apart() -> None:
    """Whatever is joined or split, or of another kind."""
    notes: Sequence[tuple[object, ...]] = [
        ("ab",), ("a", "b"), ("", "ab"), (1,), ("1",), (1.0,), (True,), (None,), (),
        (np.array([1, 2]),), (np.array([[1, 2]]),), (np.array([1, 2], np.int32),), (np.array([1]), np.array([2])),
    ]  # fmt: skip
    steps = set[str]()
    for facts in notes:
        kept = list[Draw]()
        draws = Draws(OpenDPNoise(), store=kept.append)
        draws.take(lambda: b"", *facts)
        steps.add(kept[0].step)
    assert len(steps) == len(notes)


def looped(draws: Draws, budget: Budget) -> object:
    """A run of the loop that measures, refines and selects; what it gives, as text."""
    shape = {"a": 4, "b": 3, "c": 2}
    queries: list[LinearQuery] = [
        whole_domain({name: shape[name] for name in names}) for names in ("ab", "bc", "ac", "abc")
    ]
    data = np.arange(24, dtype=np.int64) * 7 % 31
    outcome, accountant, _ = planned(first_of(shape, queries), data, 3, draws, budget)  # type: ignore[arg-type]
    accountant.settle()
    values: list[Floats] = [each.values for each in outcome.measurements]
    return repr(
        (
            outcome.total,
            outcome.bounds and outcome.bounds(outcome.state),
            [each.tolist() for each in values],
            outcome.state.table().to_pylist(),
        )
    )


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN])
def test_a_loop_goes_on_as_if_it_had_not_been_stopped(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped at every draw, in turns before and after it is stored."""
    monkeypatch.setattr("loops.Draws", lambda draws: draws)
    whole = list[Draw]()
    wanted = looped(Draws(Repeated(), store=whole.append), budget)
    assert len(whole) > 8
    for stop in range(len(whole)):
        kept = list[Draw]()

        def store(draw: Draw, kept: list[Draw] = kept, stop: int = stop) -> None:
            if len(kept) < stop:
                kept.append(draw)
                return
            if stop % 2:
                kept.append(draw)
            raise StoppedError

        with pytest.raises(StoppedError):
            looped(Draws(Repeated(), store=store), budget)
        assert kept == whole[: stop + stop % 2]
        fresh: Noise = Repeated()
        assert looped(Draws(fresh, list(kept), kept.append), budget) == wanted
        assert kept == whole
