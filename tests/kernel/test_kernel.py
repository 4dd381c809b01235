"""The kernel: what leaves it, what it costs, how far one row moves a score, and that nothing else gets out."""

from __future__ import annotations

import copy
import math
import pickle
import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from chance import examples
from conftest import flat, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import schedule
from numpy.typing import NDArray

from mwem_sql.errors import BudgetError, EngineError, MwemError, OptionError
from mwem_sql.kernel.accountant import Accountant, AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.exponential import Scores
from mwem_sql.kernel.kernel import MAXIMUM_BOUND, WEIGHT_GRID, Kernel
from mwem_sql.kernel.noise import OpenDPNoise, SeededNoise
from mwem_sql.kernel.scales import MANY_CANDIDATES, Kind, noise_scale, selection_scale, variance

Integers = NDArray[np.int64]
SHARE = Fraction(1, 8)
SECRET = 31337


class Spy:
    """Draws nothing: keeps what it was given, picks the best, and adds no noise."""

    private = False

    def __init__(self) -> None:
        self.scores: list[Integers] = []
        self.values: list[Integers] = []
        self.scales: list[float] = []
        self.opened: list[list[bool]] = []

    def select(self, scores: Integers, scale: float, _kind: Kind) -> int:
        self.scores.append(scores.copy())
        self.scales.append(scale)
        return int(scores.argmax())

    def select_many(self, scores: Scores, scale: float) -> int:
        self.opened.append(scores.is_open.tolist())
        self.select(scores.values, scale, "zcdp")
        return int(np.argmax(np.where(scores.is_open, scores.values, np.iinfo(np.int64).min)))

    def add_noise(self, values: Integers, scale: float, _kind: Kind) -> Integers:
        self.values.append(values.copy())
        self.scales.append(scale)
        return values.copy()


class Broken:
    """Fails as a mechanism might, with a private figure in its message."""

    private = False

    def select(self, scores: Integers, _scale: float, _kind: Kind) -> int:
        message = f"cannot select from {scores.tolist()}"
        raise ValueError(message)

    def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
        message = f"cannot add to {values.tolist()}"
        raise ValueError(message)


def vectors(*rows: Sequence[int]) -> list[Integers]:
    return [np.array(row, dtype=np.int64) for row in rows]


def floats(*rows: Sequence[float]) -> list[NDArray[np.float64]]:
    return [np.array(row, dtype=np.float64) for row in rows]


def account(kind: Kind = "pure") -> Accountant:
    if kind == "pure":
        return Accountant("pure", Fraction(1))
    return Accountant("zcdp", Fraction(1), Budget.parse(20, "1e-9"))


ANSWERS = vectors([5, 0, 7], [100], [-3, 4])
GUESSES = floats([1.4, 1.6, 7.0], [40.5], [0.0, 0.0])
NONE, ONES = np.zeros(3), np.ones(3)


def test_the_score_is_the_sum_of_absolute_rounded_errors_less_the_penalty() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy))
    assert kernel.select([0, 1, 2], GUESSES, np.array([0.4, 50.6, -2.0]), ONES, SHARE).query == 1
    assert spy.scores[0].tolist() == [4 + 2 + 0 - 0, 60 - 51, 3 + 4 + 2]
    assert spy.scales[0] == selection_scale(SHARE, 1, "pure").scale == 16


def test_a_selection_is_an_element_of_the_candidates_whatever_their_order() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy))
    assert kernel.select([2, 0], [GUESSES[2], GUESSES[0]], NONE[:2], ONES[:2], SHARE).query == 2
    assert kernel.select(np.array([2, 1, 0]), GUESSES[::-1], NONE, ONES, SHARE).query == 1
    assert kernel.select((0,), GUESSES[:1], NONE[:1], ONES[:1], SHARE).query == 0
    assert kernel.select(np.array([True, False, True]), [], np.empty(0), np.empty(0), SHARE, changed=[]).query == 2
    assert [scores.tolist() for scores in spy.scores] == [[6, 7], [6, 60, 7], [6], [6, 7]]


def test_of_very_many_those_that_are_no_candidates_are_closed() -> None:
    """With one weight they are passed by; with several, the candidates are taken out."""
    size = MANY_CANDIDATES + 1
    answers, guesses, candidates = np.full(size, 6), np.zeros(size), np.delete(np.arange(size), 1)
    answers[[1, 2]] = 60, 7
    several = np.ones(size)
    several[2] = 2.0
    for weights, ratio, opened in (
        (np.ones(size), Fraction(7, 6), [place != 1 for place in range(size)]),
        (several, Fraction(14, 6), [True] * MANY_CANDIDATES),
    ):
        spy = Spy()
        kernel = Kernel(answers, [1] * size, account(), Draws(spy))
        assert kernel.select(candidates, guesses, np.zeros(size), weights, SHARE, changed=range(size)).query == 2
        (scores,) = spy.scores
        assert Fraction(int(scores[opened].max()), int(scores[0])) == ratio
        assert spy.opened == [opened]


def test_a_flat_vector_of_approximations_means_the_same() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy))
    for approximations in (GUESSES, np.concatenate(GUESSES)):
        kernel.select(range(3), approximations, NONE, ONES, SHARE)
    assert spy.scores[0].tolist() == spy.scores[1].tolist()


def test_what_has_not_changed_need_not_be_given_again() -> None:
    """Scores and scales as if all had been given, in any order; none is given before its debit."""
    spy, whole = Spy(), Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy))
    weights, penalties = np.array([4.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    kernel.select([0, 2], floats([9, 9, 9], [9, 9]), np.array([7.0, 7.0]), ONES[:2], SHARE)
    with pytest.raises(MwemError, match="the candidates must have approximations"):
        kernel.select([0, 1], GUESSES[:1], penalties[:1], weights[:1], SHARE, changed=[0])
    kernel.select([2], GUESSES[:2], penalties[:2], weights[:2], SHARE, changed=[0, 1])
    kernel.select(range(3), GUESSES[2:], penalties[2:], weights[2:], SHARE, changed=[2])
    kernel.select([1, 0], [], np.empty(0), np.empty(0), SHARE, changed=[])
    full = Kernel(*flat(ANSWERS), account(), Draws(whole))
    full.select(range(3), GUESSES, penalties, weights, SHARE)
    full.select([1, 0], GUESSES[1::-1], penalties[1::-1], weights[1::-1], SHARE)
    assert [scores.tolist() for scores in spy.scores[-2:]] == [scores.tolist() for scores in whole.scores]
    assert spy.scales[-2:] == whole.scales


def test_weights_go_on_a_grid_of_thousandths_and_equal_ones_cost_no_grid() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy), sensitivity=3)
    alike = kernel.select(range(3), GUESSES, NONE, 2.5 * ONES, SHARE)
    apart = kernel.select(range(3), GUESSES, NONE, np.array([4.0, 1.0, 1e-9]), SHARE)
    assert spy.scores[0].tolist() == [6, 60, 7]
    assert spy.scores[1].tolist() == [6 * WEIGHT_GRID, 60 * WEIGHT_GRID // 4, 7]
    assert spy.scales == [selection_scale(SHARE, unit, "pure").scale for unit in (3, 3 * WEIGHT_GRID)]
    # The calibration comes with the selection: what was drawn from is its multipliers times the errors, at its scale.
    assert [alike.scale, apart.scale] == spy.scales
    assert (alike.multipliers * [6, 60, 7]).tolist() == spy.scores[0].tolist()
    assert (apart.multipliers * [6, 60, 7]).tolist() == spy.scores[1].tolist()


def test_bounds_put_queries_on_one_scale() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy), bounds=[1, 10, 1])
    kernel.select(range(3), GUESSES, NONE, ONES, SHARE)
    assert spy.scores[0].tolist() == [6 * 10 * WEIGHT_GRID, 60 * WEIGHT_GRID, 7 * 10 * WEIGHT_GRID]
    assert spy.scales[0] == selection_scale(SHARE, 10 * WEIGHT_GRID, "pure").scale
    assert kernel.measure(1, SHARE).scale == noise_scale(SHARE, 10, "pure").scale


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_a_measurement_says_what_it_is_and_what_it_cost(kind: Kind, sensitivity: int) -> None:
    spy, ledger = Spy(), account(kind)
    measurement = Kernel(*flat(ANSWERS), ledger, Draws(spy), sensitivity).measure(0, SHARE)
    calibrated = noise_scale(SHARE, sensitivity, kind)
    assert measurement.values.tolist() == [5, 0, 7]
    assert (measurement.scale, measurement.share, measurement.kind) == (calibrated.scale, SHARE, kind)
    assert measurement.variance == variance(calibrated.scale, kind)
    assert (ledger.spent, ledger.mapped) == (SHARE, Fraction(calibrated.map))
    assert not measurement.values.flags.writeable
    ledger.settle()


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_all_cells_get_noise_of_the_stated_scale_around_the_truth(kind: Kind) -> None:
    """Signs and the share of cells within one scale, by Hoeffding's inequality: a right kernel fails below 1e-9."""
    cells = 20_000
    truth = np.where(np.arange(cells) % 2, 0, 50).astype(np.int64)
    tolerance = math.sqrt(math.log(2 / 1e-9) / (2 * cells))
    for noise in (OpenDPNoise(), SeededNoise(5)):
        measurement = Kernel(*flat([truth]), account(kind), Draws(noise)).measure(0, SHARE)
        errors, scale = measurement.values - truth, measurement.scale
        odds = [math.exp(-x / scale if kind == "pure" else -((x / scale) ** 2) / 2) for x in range(400)]
        within = (2 * sum(odds[: int(scale) + 1]) - 1) / (2 * sum(odds) - 1)
        assert abs(np.sign(errors).mean()) < 2 * tolerance
        assert abs((np.abs(errors) <= int(scale)).mean() - within) < tolerance
        assert errors[truth == 0].any()


def test_a_whole_release_spends_the_split_and_settles() -> None:
    for delta, kind in (("0", "pure"), ("1e-9", "zcdp")):
        plan = schedule(Budget.parse("0.3", delta), 10, total=True, histogram=True)
        ledger = plan.composition.accountant()
        kernel = Kernel(*flat(ANSWERS), ledger, Draws(SeededNoise(1)))
        kernel.measure(1, plan.share("total"))
        kernel.measure(0, plan.share("histogram"))
        for _ in range(plan.rounds):
            kernel.measure(kernel.select(range(3), GUESSES, NONE, ONES, plan.select).query, plan.measure)
        ledger.settle()
        assert plan.kind == kind
        assert ledger.mapped <= ledger.spent == plan.limit
        with pytest.raises(BudgetError):
            kernel.measure(1, plan.measure)


def test_the_debit_stands_when_the_noise_fails_and_the_cause_stays_inside() -> None:
    ledger = account()
    kernel = Kernel(*flat(vectors([SECRET], [SECRET])), ledger, Draws(Broken()))
    calls: list[Callable[[], object]] = [
        lambda: kernel.select([0, 1], floats([0.0], [0.0]), NONE[:2], ONES[:2], SHARE),
        lambda: kernel.measure(0, SHARE),
    ]
    for spent, call in enumerate(calls, start=1):
        with pytest.raises(
            EngineError, match=r"a private answer could not be computed\. Hint: the cause is withheld"
        ) as failure:
            call()
        assert failure.value.__cause__ is None
        assert failure.value.__context__ is None
        frames = traceback.TracebackException.from_exception(failure.value, capture_locals=True).stack
        inside = [str(frame.locals) for frame in frames if frame.filename != __file__]
        assert inside
        assert str(SECRET) not in str(failure.value) + "".join(inside)
        assert (ledger.spent, ledger.mapped) == (spent * SHARE, Fraction(0))


def test_the_debit_comes_before_the_noise() -> None:
    ledger, seen = account(), []

    class Watch(Spy):
        def select(self, _scores: Integers, _scale: float, _kind: Kind) -> int:
            seen.append((ledger.spent, ledger.mapped))
            return 0

        def add_noise(self, values: Integers, _scale: float, _kind: Kind) -> Integers:
            seen.append((ledger.spent, ledger.mapped))
            return values.copy()

    kernel = Kernel(*flat(ANSWERS), ledger, Draws(Watch()))
    kernel.measure(1, SHARE)
    kernel.select([1], GUESSES[1:2], NONE[:1], ONES[:1], SHARE)
    assert seen == [(SHARE, 0), (2 * SHARE, SHARE)]
    assert ledger.mapped == 2 * SHARE


def test_an_overdraft_is_refused_and_nothing_is_drawn() -> None:
    spy, ledger = Spy(), account()
    kernel = Kernel(*flat(ANSWERS), ledger, Draws(spy))
    ledger.debit(Fraction(9, 10))
    for call in (lambda: kernel.measure(0, SHARE), lambda: kernel.select(range(3), GUESSES, NONE, ONES, SHARE)):
        with pytest.raises(
            BudgetError, match=r"the next share \(0\.125\) must fit what is left of epsilon \(0\.1 of 1\)"
        ):
            call()
    assert spy.scales == []
    assert ledger.spent == Fraction(9, 10)


def test_a_map_above_the_share_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    dear = noise_scale(2 * SHARE, 1, "pure")
    monkeypatch.setattr("mwem_sql.kernel.kernel.noise_scale", lambda *_: dear)
    with pytest.raises(AccountingError, match="must not exceed its share"):
        Kernel(*flat(ANSWERS), account(), Draws(Spy())).measure(0, SHARE)


NAN, INFINITE = math.nan, math.inf


@pytest.mark.parametrize(
    ("candidates", "approximations", "penalties", "weights", "message"),
    [
        ([0, 1, 2], floats([1, 1, NAN], [1], [1, 1]), NONE, ONES, "the approximations must be finite numbers"),
        ([0, 1, 2], np.array([1, 1, 1, 1, -INFINITE, 1]), NONE, ONES, "the approximations must be finite numbers"),
        ([0, 1, 2], GUESSES, np.array([0, NAN, 0]), ONES, "the penalties must be finite numbers"),
        ([0, 1, 2], GUESSES, NONE, np.array([1, INFINITE, 1]), "the weights must be finite numbers"),
        ([0, 1, 2], GUESSES, NONE, np.array([1.0, 0.0, 1.0]), "the weights must be positive numbers"),
        ([0, 1, 2], GUESSES, NONE, np.array([1.0, -2.0, 1.0]), "the weights must be positive numbers"),
        ([0, 1, 2], GUESSES, NONE[:2], ONES, r"the penalties \(2\) must be 3 numbers"),
        ([0, 1, 2], GUESSES, NONE, np.ones(4), r"the weights \(4\) must be 3 numbers"),
        ([0, 1, 2], floats([1, 1], [1, 1], [1, 1]), NONE, ONES, "a number for each cell"),
        ([0, 1, 2], GUESSES[:2], NONE, ONES, "a number for each cell"),
        ([0, 1, 2], np.ones(5), NONE, ONES, "the approximations must have a number for each cell"),
        ([0, 1, 3], GUESSES, NONE, ONES, "the candidates must be one or more numbers of queries"),
        ([-1], GUESSES[2:], NONE[:1], ONES[:1], "the candidates must be one or more numbers of queries"),
        ([], [], NONE[:0], ONES[:0], "the candidates must be one or more numbers of queries"),
        ([0.5], GUESSES[:1], NONE[:1], ONES[:1], "the candidates must be whole numbers"),
    ],
)
def test_wrong_public_arguments_are_refused_before_a_debit(
    candidates: list[int],
    approximations: list[NDArray[np.float64]],
    penalties: NDArray[np.float64],
    weights: NDArray[np.float64],
    message: str,
) -> None:
    spy, ledger = Spy(), account()
    with pytest.raises(MwemError, match=rf"kernel: .*{message}.*\. Hint: "):
        Kernel(*flat(ANSWERS), ledger, Draws(spy)).select(candidates, approximations, penalties, weights, SHARE)
    assert ledger.spent == 0
    assert spy.scales == []


@pytest.mark.parametrize("query", [-1, 3])
def test_an_unknown_query_is_not_measured(query: int) -> None:
    ledger = account()
    with pytest.raises(
        MwemError, match=rf"kernel: the query \({query}\) must be the number of a query\. Hint: count from 0"
    ):
        Kernel(*flat(ANSWERS), ledger, Draws(Spy())).measure(query, SHARE)
    assert ledger.spent == 0


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1)])
def test_a_share_that_is_no_share_is_refused(share: Fraction) -> None:
    kernel = Kernel(*flat(ANSWERS), account(), Draws(Spy()))
    for call in (lambda: kernel.measure(0, share), lambda: kernel.select(range(3), GUESSES, NONE, ONES, share)):
        with pytest.raises(OptionError, match="must be positive"):
            call()


@pytest.mark.parametrize(
    ("answers", "cells"),
    [(np.array([SECRET]), []), (np.array([SECRET]), [1, 0]), (np.array([SECRET]), [2]),
     (np.array([SECRET, SECRET]), [3, -1]), (np.array([float(SECRET)]), [1]), (np.array([[SECRET]]), [1]),
     (np.array([SECRET], dtype=np.int32), [1]), (np.array(SECRET), [1]),
     (np.array(["x"]), [1]), ([SECRET], [1])],
)  # fmt: skip
def test_answers_of_a_wrong_shape_are_refused_without_quoting_them(answers: Integers, cells: list[int]) -> None:
    with pytest.raises(
        MwemError, match="the answers must be an int64 vector, with a cell or more of each query"
    ) as refusal:
        Kernel(answers, cells, account(), Draws(Spy()))
    assert str(SECRET) not in str(refusal.value)


@pytest.mark.parametrize("sensitivity", [0, -1, True, 1.5])
def test_a_wrong_sensitivity_is_refused(sensitivity: int) -> None:
    with pytest.raises(MwemError, match=r"sensitivity \(.*\) must be a whole number from 1\. Hint: give rows_per_unit"):
        Kernel(*flat(ANSWERS), account(), Draws(Spy()), sensitivity)


@pytest.mark.parametrize("bounds", [[1, 1], [0, 1, 1], [1, 1, MAXIMUM_BOUND + 1], [1, 1, 2**80], [1.5, 1, 1]])
def test_wrong_bounds_are_refused(bounds: list[int]) -> None:
    with pytest.raises(MwemError, match=r"the bounds must be .*whole number"):
        Kernel(*flat(ANSWERS), account(), Draws(Spy()), bounds=bounds)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[list[Integers], list[Integers], list[int], int]:
    """Draw answers of two tables that differ by up to k rows, each in one cell of a query and within its bound."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    bounds = draw(
        st.one_of(st.just([1] * len(sizes)), st.lists(st.integers(1, 50), min_size=len(sizes), max_size=len(sizes)))
    )
    extremes = st.sampled_from([-(2**63), -(2**61), 2**59, 2**61 - 1, 2**61, 2**63 - 1])
    values = st.one_of(st.integers(-40, 40), extremes)
    first = [np.array(draw(st.lists(values, min_size=n, max_size=n)), dtype=np.int64) for n in sizes]
    second = [answer.copy() for answer in first]
    rows = draw(st.integers(1, 3))
    for _ in range(rows):
        for answer, bound in zip(second, bounds, strict=True):
            cell = draw(st.integers(0, len(answer) - 1))
            moved = int(answer[cell]) + draw(st.sampled_from([-bound, -1, 0, 1, bound]))
            answer[cell] = min(max(moved, -(2**63)), 2**63 - 1)
    return first, second, bounds, rows


@settings(max_examples=examples(300), deadline=None)
@given(neighbours(), st.data())
def test_neighbours_scores_and_answers_move_by_no_more_than_the_noise_is_made_for(
    tables: tuple[list[Integers], list[Integers], list[int], int], data: st.DataObject
) -> None:
    first, second, bounds, rows = tables
    count = len(first)
    anything = st.one_of(st.floats(-100, 100), st.sampled_from([-1e300, 2.0**61, 0.5, 1e17]))
    guess = np.array(data.draw(st.lists(anything, min_size=sum(map(len, first)), max_size=sum(map(len, first)))))
    penalties = np.array(data.draw(st.lists(anything, min_size=count, max_size=count)))
    weight = st.one_of(st.just(1.0), st.floats(1e-6, 1e6))
    weights = np.array(data.draw(st.lists(weight, min_size=count, max_size=count)))
    spies = Spy(), Spy()
    for spy, answers in zip(spies, (first, second), strict=True):
        kernel = Kernel(*flat(answers), Accountant("pure", Fraction(10)), Draws(spy), rows, bounds)
        kernel.select(range(count), guess, penalties, weights, Fraction(1))
        for query in range(count):
            kernel.measure(query, Fraction(1))

    # Scores in Python's integers: their difference must not wrap around here.
    scores = [[int(score) for score in spy.scores[0]] for spy in spies]
    moved = max(abs(a - b) for a, b in zip(*scores, strict=True))
    assert 2 * moved <= spies[0].scales[0] * (1 + 1e-12)
    assert spies[0].scales == spies[1].scales  # the noise itself depends on nothing private
    for query in range(count):
        apart = sum(abs(int(a) - int(b)) for a, b in zip(spies[0].values[query], spies[1].values[query], strict=True))
        assert apart <= spies[0].scales[1 + query] * (1 + 1e-12)


def test_the_claimed_sensitivity_is_reached() -> None:
    first, second = Spy(), Spy()
    Kernel(*flat(vectors([9])), account(), Draws(first)).select([0], floats([0]), NONE[:1], ONES[:1], SHARE)
    Kernel(*flat(vectors([10])), account(), Draws(second)).select([0], floats([0]), NONE[:1], ONES[:1], SHARE)
    assert 2 * (second.scores[0][0] - first.scores[0][0]) == first.scales[0] * SHARE


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_int64_extremes_saturate_and_never_raise(kind: Kind) -> None:
    top, bottom = 2**63 - 1, -(2**63)
    answers = vectors([top, bottom, top, bottom], [0], [bottom])
    guesses = floats([-1e308, 1e308, -1e308, 1e308], [0.0], [bottom])
    for noise in (OpenDPNoise(), SeededNoise(2)):
        kernel = Kernel(*flat(answers), account(kind), Draws(noise))
        for penalties, weights in ((NONE, ONES), (np.array([-1e308, 1e308, 0]), np.array([1.0, 2.0, 1e-300]))):
            assert kernel.select(range(3), guesses, penalties, weights, SHARE).query == 0
        values = kernel.measure(0, SHARE).values
        assert (np.abs(values) > 2**58).all()
        assert (np.sign(values) == [1, -1, 1, -1]).all()


def test_nothing_but_noise_gets_out() -> None:
    kernel = Kernel(*flat(vectors([SECRET, SECRET])), account(), Draws(OpenDPNoise()))
    assert repr(kernel) == str(kernel) == f"{kernel}" == "<Kernel: answers withheld>"
    assert not hasattr(kernel, "__dict__")
    with pytest.raises(TypeError):
        vars(kernel)
    with pytest.raises(TypeError):
        iter(kernel)  # type: ignore[call-overload]
    # What counts in rho from now on is the account; it returns nothing.
    public = {"select", "measure", "certify", "count_in_rho"}
    assert {name for name in dir(kernel) if not name.startswith("_")} == public


@pytest.mark.parametrize(
    "escape",
    [
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda k: k.__reduce__(),
        lambda k: k.__reduce_ex__(4),
        lambda k: k.__getstate__(),
    ],
)
def test_a_kernel_is_neither_copied_nor_pickled(escape: object) -> None:
    assert callable(escape)
    with pytest.raises(MwemError, match=r"the kernel must not be copied or pickled\. Hint: pass measurements on"):
        escape(Kernel(*flat(ANSWERS), account(), Draws(Spy())))


def test_scalar_candidates_are_no_calls_for_each() -> None:
    """Half a million take a fifth of a second: as many calls as for a thousand."""

    def calls(count: int) -> int:
        answers = [np.array([x], dtype=np.int64) for x in range(count)]
        guesses = [np.array([float(count)])] * count
        kernel = Kernel(*flat(answers), account(), Draws(Spy()))
        return steps(lambda: kernel.select(range(count), guesses, np.zeros(count), np.ones(count), SHARE))

    calls(10)  # the first call also makes what later ones find in a cache
    assert 0 < calls(1000) == calls(10_000)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_number_of_candidates_decides_how_to_select(kind: Kind) -> None:
    """With the cost of that way recorded, which is at most the share."""
    asked = []

    class Which(Spy):
        def select(self, _scores: Integers, _scale: float, _kind: Kind) -> int:
            asked.append("few")
            return 0

        def select_many(self, _scores: Scores, _scale: float) -> int:
            asked.append("many")
            return 0

    for count in (MANY_CANDIDATES - 1, MANY_CANDIDATES):
        ledger = account(kind)
        kernel = Kernel(np.full(count, 5), [1] * count, ledger, Draws(Which()))
        kernel.select(range(count), np.zeros(count), np.zeros(count), np.ones(count), SHARE)
        assert 0 < ledger.mapped <= SHARE
    assert asked == ["few", "many"]


def test_a_partition_of_cells_is_measured_as_their_sums() -> None:
    kernel = Kernel(
        np.array([7, 1, 2, 3, 4], dtype=np.int64),
        [1, 4],
        Accountant("pure", Fraction(10)),
        Draws(SeededNoise(0)),
        bounds=[1, 3],
    )
    exact = Fraction(3)
    values = np.mean(
        [
            Kernel(np.array([1, 2, 3, 4]), [4], Accountant("pure", Fraction(1000)), Draws(SeededNoise(seed)))
            .measure(0, Fraction(1000), np.array([1, 0, 1, 0]))
            .values
            for seed in range(3)
        ],
        axis=0,
    )
    assert values.tolist() == [6, 4]
    measured = kernel.measure(1, exact, np.array([0, 0, 0, 1], dtype=np.int32))
    whole = kernel.measure(1, exact)
    assert (measured.values.size, whole.values.size) == (2, 4)
    assert (measured.scale, measured.share) == (whole.scale, exact)


@pytest.mark.parametrize("parts", [[0, 0, 0], [0, 1, 2, 4], [0, -1, 0, 0], [0.0, 0.0, 0.0, 0.0]])
def test_parts_that_are_no_partition_of_the_cells_are_refused_before_the_debit(parts: list[float]) -> None:
    accountant = Accountant("pure", Fraction(10))
    kernel = Kernel(np.array([1, 2, 3, 4], dtype=np.int64), [4], accountant, Draws(SeededNoise(0)))
    with pytest.raises(MwemError, match="parts must be"):
        kernel.measure(0, Fraction(1), np.array(parts))
    assert accountant.spent == 0


def test_a_certificate_is_the_mean_error_or_the_one_at_a_rank() -> None:
    """Errors [4, 2, 0] and 60 and [3, 4], the guesses rounded: sums 6, 60, 7, largest cells 4, 60, 4."""
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy), sensitivity=2)
    every = np.concatenate(GUESSES)
    assert kernel.certify([0, 1, 2], [3, 1, 2], every, SHARE).values == pytest.approx(73 / 3)
    assert spy.scales[-1] == noise_scale(SHARE, 2 * 3, "pure").scale
    assert [kernel.certify([0, 1, 2], [3, 1, 2], every, SHARE, rank=rank).values[0] for rank in (1, 2, 3)] == [60, 4, 4]
    assert spy.scales[-1] == noise_scale(SHARE, 2, "pure").scale
    # Of a partition only the first cell was asked for.
    assert kernel.certify([2, 0], [1, 1], np.array([0.0, 1.4]), SHARE).values == pytest.approx((3 + 4) / 2)


def test_a_certificate_is_in_parts_of_bounds() -> None:
    spy = Spy()
    kernel = Kernel(*flat(ANSWERS), account(), Draws(spy), bounds=[1, 40, 1])
    found = kernel.certify([0, 1], [3, 1], np.concatenate(GUESSES[:2]), SHARE)
    assert found.values == pytest.approx((6 + 60 / 40) / 2)
    assert found.scale == pytest.approx(noise_scale(SHARE, 2 * 1000, "pure").scale / 2000)
    assert spy.values[-1].tolist() == [6000 + 1500]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_moves_a_certificate_by_no_more_than_its_noise_is_made_for(data: st.DataObject) -> None:
    whole = st.integers(-50, 50)
    cells = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    bounds = data.draw(st.lists(st.integers(1, 9), min_size=len(cells), max_size=len(cells)))
    first = [np.array(data.draw(st.lists(whole, min_size=size, max_size=size)), dtype=np.int64) for size in cells]
    second = [own.copy() for own in first]
    for own, bound in zip(second, bounds, strict=True):
        own[data.draw(st.integers(0, own.size - 1))] += data.draw(st.integers(-bound, bound))
    guess = np.array(data.draw(st.lists(st.floats(-60, 60), min_size=sum(cells), max_size=sum(cells))))
    for rank in (None, *range(1, len(cells) + 1)):
        seen = []
        for answers in (first, second):
            spy = Spy()
            Kernel(*flat(answers), account(), Draws(spy), bounds=bounds).certify(
                range(len(cells)), cells, guess, SHARE, rank=rank
            )
            seen.append((int(spy.values[0][0]), spy.scales[0]))
        assert abs(seen[0][0] - seen[1][0]) <= seen[0][1] * float(SHARE) * (1 + 1e-12)
        assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize("bound", [1, 9])
def test_a_row_may_move_a_certificate_by_all_that_its_noise_is_made_for(rank: int | None, bound: int) -> None:
    """The bound is reached: with half of the noise, a row would cost twice the share."""
    spy = Spy()
    for answer in (0, bound):
        kernel = Kernel(np.array([answer]), [1], account(), Draws(spy), bounds=[bound])
        kernel.certify([0], [1], np.zeros(1), SHARE, rank=rank)
    assert abs(int(spy.values[0][0]) - int(spy.values[1][0])) == spy.scales[0] * SHARE == spy.scales[1] * SHARE


@pytest.mark.parametrize(
    ("queries", "leading", "guess", "rank", "words"),
    [
        ([], [], [], None, "leading cells must be one or more"),
        ([0], [4], [0.0] * 4, None, "leading cells must be one or more"),
        ([0], [3, 1], [0.0] * 4, None, "leading cells must be one or more"),
        ([3], [1], [0.0], None, "certified queries must be one or more"),
        ([1], [1], [0.0, 0.0], None, "must be 1 numbers"),
        ([1], [1], [math.nan], None, "must be finite"),
        ([1], [1], [0.0], 2, "rank \\(2\\) must be from 1"),
    ],
)
def test_a_certificate_of_nothing_is_refused_and_free(
    queries: list[int], leading: list[int], guess: list[float], rank: int | None, words: str
) -> None:
    own = account()
    with pytest.raises(MwemError, match=words):
        Kernel(*flat(ANSWERS), own, Draws(Spy())).certify(queries, leading, np.array(guess), SHARE, rank=rank)
    assert own.spent == 0


def test_a_certificate_is_debited_before_an_answer_is_looked_at() -> None:
    own = account()
    with pytest.raises(EngineError, match="the cause is withheld") as caught:
        Kernel(*flat(ANSWERS), own, Draws(Broken())).certify([1], [1], np.zeros(1), SHARE)  # type: ignore[arg-type]
    assert own.spent == SHARE
    assert caught.value.__cause__ is None
    with pytest.raises(BudgetError, match="must fit what is left"):
        Kernel(*flat(ANSWERS), own, Draws(Spy())).certify([1], [1], np.zeros(1), Fraction(1))


def test_the_largest_errors_are_told_as_a_constant() -> None:
    far = 2**60
    spy = Spy()
    kernel = Kernel(np.array([far, -far], dtype=np.int64), [1, 1], account(), Draws(spy))
    assert kernel.certify([0, 1], [1, 1], np.zeros(2), SHARE).values == 2**40
