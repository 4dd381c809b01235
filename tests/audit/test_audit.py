"""The audit: black-box lower bounds on epsilon stay below what is claimed, and the same audit catches broken variants.

Neighbours differ in a canary, the only row of its cell. Everything runs the real path with OpenDP's unseeded noise; the
broken variants replace one part of it. `pytest -m campaign` runs tens of thousands of releases and prints the bounds.
"""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit.estimate import ERROR, HONEST_ERROR, ends, epsilon_bound, is_large_enough, rho_bound
from conftest import Connection, Open, flat

from mwem_sql.algebra.arrays import Integers
from mwem_sql.algebra.measurement import Measurement
from mwem_sql.kernel.accountant import Accountant, AccountingError
from mwem_sql.kernel.budget import Budget
from mwem_sql.kernel.draws import Draw, Draws
from mwem_sql.kernel.kernel import Kernel
from mwem_sql.kernel.noise import Noise, OpenDPNoise
from mwem_sql.kernel.scales import MANY_CANDIDATES, Kind, noise_scale, selection_scale, zcdp_rho
from mwem_sql.loop.problem import Outcome
from mwem_sql.loop.transcript import Transcript
from mwem_sql.platform.session import Session
from mwem_sql.releases.request import Request
from mwem_sql.workload import Workload

release = importlib.import_module("mwem_sql.releases.run")  # the package has a function of that name

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
WIDE = Fraction(1, 100)  # at which two rounds are planned with Gaussian noise
# SHORT: Laplace noise that is too small by half goes unnoticed if both counts are 8 standard deviations off, one run in
# 1e29, and MIDDLE: Gaussian noise that is if they are 5 off, one run in 1e11.
SHORT, MIDDLE, LONG = 4_000, 25_000, 60_000
WHOLE_SHORT, WHOLE_MIDDLE, WHOLE_LONG = 200, 4_000, 6_000
WHOLE_SURE = (
    48  # of an event that always happens on one table and never on the other, which rules out an epsilon of 1.09
)
WHOLE_QUICK = 16  # of four cells each, which is too few to be sure to catch a broken variant
lengths = pytest.mark.parametrize("trials", [SHORT, pytest.param(LONG, marks=pytest.mark.campaign)])
kinds = pytest.mark.parametrize("kind", ["pure", "zcdp"])


# Broken variants.


class Half(OpenDPNoise):
    """Noise too small by a factor of two."""

    def select(self, scores: Integers, scale: float, kind: Kind) -> int:
        return super().select(scores, scale / 2, kind)

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        return super().add_noise(values, scale / 2, kind)


class BareTotal(OpenDPNoise):
    """The number of rows without noise."""

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        return values.copy() if values.size == 1 else super().add_noise(values, scale, kind)


class OnlyNonEmpty(OpenDPNoise):
    """Noise on what GROUP BY returns, and zeros where it returns nothing."""

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        return np.where(values == 0, 0, super().add_noise(values, scale, kind))


def error_of(noise: type[Noise]) -> float:
    """Of an interval: what is honest must not be caught by chance."""
    return HONEST_ERROR if noise is OpenDPNoise else ERROR


def share_of(kind: Kind) -> Fraction:
    return EPSILON if kind == "pure" else zcdp_rho(EPSILON, DELTA)


def kernel(answers: list[list[int]], kind: Kind, noise: Noise, trials: int) -> Kernel:
    """A kernel that can be asked so many times: each time is a trial of its own."""
    account = Accountant(
        kind, trials * share_of(kind), Budget(Fraction(10**6), Fraction(0) if kind == "pure" else DELTA)
    )
    return Kernel(*flat([np.array(each, dtype=np.int64) for each in answers]), account, Draws(noise))


@dataclass(frozen=True)
class Bounds:
    """What an event on neighbouring tables rules out, and the claim: an epsilon at a delta and, under zCDP, a rho."""

    epsilon: float
    rho: float
    limit: Fraction | None = None

    @classmethod
    def of(cls, hits: list[int], trials: int, error: float, delta: float, limit: Fraction | None) -> Bounds:
        first, second = hits
        return cls(epsilon_bound(first, second, trials, delta, error), rho_bound(first, second, trials, error), limit)

    @property
    def hold(self) -> bool:
        return self.epsilon < EPSILON and (self.limit is None or self.rho < self.limit)

    def tell(self, what: str, draws: int) -> None:
        rho = "" if self.limit is None else f", rho of at least {self.rho:.4f} where {float(self.limit):.4f}"
        print(
            f"\n{what}: epsilon of at least {self.epsilon:.3f} where {float(EPSILON)} is claimed{rho}, "
            f"{draws} draws: {'holds' if self.hold else 'caught'}"
        )


def bounds(kind: Kind, noise: Noise, hits: list[int], trials: int) -> Bounds:
    return Bounds.of(
        hits, trials, error_of(type(noise)), *((0.0, None) if kind == "pure" else (float(DELTA), share_of(kind)))
    )


# Measure alone: the canary's cell at or above 1, which is the likeliest side for either noise.
# The cells of a query get noise of their own, so each of them is a trial.


def measured(kind: Kind, noise: Noise, trials: int) -> Bounds:
    hits = [
        int((kernel([[canary] * trials], kind, noise, 1).measure(0, share_of(kind)).values >= 1).sum())
        for canary in (0, 1)
    ]
    return bounds(kind, noise, hits, trials)


@kinds
@lengths
def test_measure(kind: Kind, trials: int) -> None:
    found = measured(kind, OpenDPNoise(), trials)
    found.tell(f"measure {kind}", 2 * trials)
    assert found.hold
    assert trials == SHORT or (found.epsilon if kind == "pure" else found.rho) > 0


@pytest.mark.parametrize(
    ("broken", "kind", "trials"),
    [
        (Half(), "pure", SHORT),
        (OnlyNonEmpty(), "zcdp", SHORT),
        (OnlyNonEmpty(), "pure", SHORT),
        pytest.param(Half(), "zcdp", MIDDLE, marks=pytest.mark.thorough),
    ],
)
def test_measure_broken(kind: Kind, broken: Noise, trials: int) -> None:
    found = measured(kind, broken, trials)
    found.tell(f"measure {kind}, {type(broken).__name__}", 2 * trials)
    assert not found.hold


# A step that is interrupted: a draw that is lost before it is stored is made anew, by another run. Seen is what was
# stored in the end, and whether there was a loss; in a broken variant the draw that was lost, too.


class StoppedError(Exception):
    """In the place of a process that dies."""


def gone_on(is_lost: Callable[[int], bool], trials: int, *, is_seen: bool = False) -> Bounds:
    """A measurement whose first draw may be lost: how often it is, and what is seen is below 1."""
    hits = []
    for canary in (0, 1):
        count = 0
        for _ in range(trials):
            lost = list[int]()

            def store(draw: Draw, lost: list[int] = lost) -> None:
                (value,) = np.frombuffer(draw.values, np.int64).tolist()
                if not lost and is_lost(value):
                    lost.append(value)
                    raise StoppedError

            def run(store: Callable[[Draw], None] = store, canary: int = canary) -> int:
                account, draws = Accountant("pure", EPSILON), Draws(OpenDPNoise(), store=store)
                return int(Kernel(np.array([canary]), [1], account, draws).measure(0, EPSILON).values[0])

            try:
                given = run()
            except StoppedError:
                given = run()
            count += bool(lost) and given < 1 and (not is_seen or lost[0] < 1)
        hits.append(count)
    return bounds("pure", OpenDPNoise(), hits, trials)


@pytest.mark.parametrize("trials", [SHORT // 2, pytest.param(LONG, marks=pytest.mark.campaign)])
def test_a_draw_that_is_lost_tells_nothing(trials: int) -> None:
    found = gone_on(lambda _: bool(secrets.randbelow(2)), trials)
    found.tell("measure after a loss", 2 * trials)
    assert found.hold
    assert trials < LONG or found.epsilon > 0.8


def test_a_draw_that_is_lost_for_its_value_is_caught() -> None:
    """Why nothing that depends on a draw may happen before it is stored: each loss would cost its share again."""
    found = gone_on(lambda value: value < 1, SHORT // 2)
    found.tell("measure after a loss, of low values", SHORT)
    assert not found.hold


def test_a_draw_that_is_seen_before_it_is_stored_is_caught() -> None:
    found = gone_on(lambda _: True, SHORT // 2, is_seen=True)
    found.tell("measure after a loss that was seen", SHORT)
    assert not found.hold


# Select alone: the canary moves one candidate's score up and all others' down. Of very many candidates, the one loses
# most epsilon; of two, it loses most in rho.


def selected(kind: Kind, noise: Noise, trials: int) -> Bounds:
    hits = []
    count = 24 if kind == "pure" else 2
    guesses = np.array([0.0] + [9.0] * (count - 1))
    for canary in (0, 1):
        answers = [[4 + canary]] + [[5 + canary]] * (count - 1)  # scores 4 and 4; with the canary 5 and 3
        own = kernel(answers, kind, noise, trials)
        chosen = [
            own.select(range(count), guesses, np.zeros(count), np.ones(count), share_of(kind)).query
            for _ in range(trials)
        ]
        hits.append(chosen.count(0))
    return bounds(kind, noise, hits, trials)


@kinds
@pytest.mark.parametrize("trials", [100, pytest.param(40_000, marks=pytest.mark.campaign)])
def test_select(kind: Kind, trials: int) -> None:
    found = selected(kind, OpenDPNoise(), trials)
    found.tell(f"select {kind}", 2 * trials)
    assert found.hold


@kinds
@pytest.mark.campaign
def test_select_broken(kind: Kind) -> None:
    found = selected(kind, Half(), SHORT)
    found.tell(f"select {kind}, Half", 2 * SHORT)
    assert not found.hold


@pytest.mark.parametrize("trials", [50, pytest.param(4_000, marks=pytest.mark.campaign)])
def test_select_from_many(trials: int) -> None:
    """One half of the candidates goes up and one down; our own exponential mechanism selects."""
    hits = []
    guesses = np.repeat([0.0, 9.0], MANY_CANDIDATES // 2)
    for canary in (0, 1):
        account = Accountant("pure", EPSILON * trials)
        own = Kernel(
            np.repeat(np.array([4, 5]) + canary, MANY_CANDIDATES // 2),
            np.ones(MANY_CANDIDATES, dtype=np.int64),
            account,
            Draws(OpenDPNoise()),
        )
        chosen = [
            own.select(
                range(MANY_CANDIDATES), guesses, np.zeros(MANY_CANDIDATES), np.ones(MANY_CANDIDATES), EPSILON
            ).query
            for _ in range(trials)
        ]
        hits.append(sum(number < MANY_CANDIDATES // 2 for number in chosen))
    bound = epsilon_bound(*hits, trials, error=HONEST_ERROR)
    print(
        f"\nselect from {MANY_CANDIDATES}: epsilon of at least {bound:.3f} where {float(EPSILON)} is claimed, "
        f"{2 * trials} draws"
    )
    assert bound < EPSILON


# The certificate alone: the canary is in a cell that the state has right: without it every error is 0, and with it 1.


def certified(kind: Kind, noise: Noise, trials: int, rank: int | None) -> Bounds:
    hits = []
    for canary in (0, 1):
        own = kernel([[5, canary], [7 + canary]], kind, noise, trials)
        cells = np.array([5.0, 0.0, 7.0])
        told = [own.certify([0, 1], [2, 1], cells, share_of(kind), rank=rank).values[0] for _ in range(trials)]
        hits.append(sum(value >= 1 for value in told))
    return bounds(kind, noise, hits, trials)


@kinds
@pytest.mark.parametrize("rank", [None, 1])
@pytest.mark.parametrize(
    "trials",
    [100, pytest.param(1_000, marks=pytest.mark.thorough), pytest.param(LONG, marks=pytest.mark.campaign)],
)
def test_certify(kind: Kind, rank: int | None, trials: int) -> None:
    found = certified(kind, OpenDPNoise(), trials, rank)
    found.tell(f"certify {kind}, rank {rank}", 2 * trials)
    assert found.hold


@pytest.mark.parametrize(
    ("kind", "rank", "trials"),
    [
        pytest.param("pure", None, 2_000, marks=pytest.mark.thorough),
        *(
            pytest.param(kind, rank, MIDDLE, marks=pytest.mark.campaign)
            for kind in ("pure", "zcdp")
            for rank in (None, 1)
        ),
    ],
)
def test_certify_broken(kind: Kind, rank: int | None, trials: int) -> None:
    found = certified(kind, Half(), trials, rank)
    found.tell(f"certify {kind}, rank {rank}, Half", 2 * trials)
    assert not found.hold


# Whole releases.


@dataclass(frozen=True)
class Neighbours:
    """Two tables that differ in a canary row, and how to run a release of each: all of it but compiling and storing."""

    session: Session
    requests: tuple[Request, Request]

    def outcomes(self, trials: int, tables: int = 2) -> list[list[Outcome]]:
        found = []
        for request in self.requests[:tables]:
            plan = release.make_plan(self.session, request)
            noise = release.OpenDPNoise()
            found.append(
                [release._run(self.session, request, plan, lambda _: lambda: None, Draws(noise)) for _ in range(trials)]
            )
        return found


@pytest.fixture
def neighbours(connect: Open) -> Callable[[Budget], Neighbours]:
    def make(budget: Budget) -> Neighbours:
        con: Connection = connect()
        con.execute(
            """CREATE TABLE without_it (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 2), b BOOLEAN NOT NULL);
               INSERT INTO without_it SELECT i % 3, false FROM range(6) t(i);
               CREATE TABLE with_it (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 2), b BOOLEAN NOT NULL);
               INSERT INTO with_it FROM without_it UNION ALL SELECT 2, true"""
        )
        asked = Workload.from_arrow(pa.table({"group_by": [["a", "b"], ["b"]]}))
        session = Session.of(con)
        pair = tuple(
            Request(table=table, workload=asked, budget=budget, rounds=2 if budget.delta else 1, rows=1)
            for table in ("without_it", "with_it")
        )
        return Neighbours(session, (pair[0], pair[1]))

    return make


# True answers without the canary, by their number of cells: the total, b, a, and both. The canary adds 1 to the last
# cell of each.
TRUE = {1: [6], 2: [6, 0], 3: [2, 2, 2], 6: [2, 0, 2, 0, 2, 0]}


def last_noise(step: Measurement) -> int:
    """By how much the cell of the canary is above what it is without it."""
    values = step.values.tolist()
    return int(values[-1] - TRUE[len(values)][-1])


def saw(outcome: Outcome) -> bool:
    """The event: every measurement looks as if the canary were there; of Gaussian ones, all of them together."""
    told = [(last_noise(step), step) for step in outcome.measurements]
    if told[0][1].kind == "pure":
        return all(noise >= 1 for noise, _ in told)
    return sum((noise - 0.5) / measured.variance for noise, measured in told) >= 0


def audited(made: Neighbours, trials: int, event: Callable[[Outcome], bool] = saw) -> Bounds:
    request = made.requests[0]
    composition = release.make_plan(made.session, request).schedule.composition
    assert composition.kind == ("zcdp" if request.budget.delta else "pure")
    hits = [sum(map(event, one)) for one in made.outcomes(trials)]
    limit = composition.limit if composition.kind == "zcdp" else None
    return Bounds.of(hits, trials, error_of(release.OpenDPNoise), float(request.budget.delta), limit)


def transcript_cost(outcome: Outcome) -> Fraction:
    """What the published measurements alone cost, in epsilon or rho: selections cost the rest of the limit."""
    scales = [(step.kind, Fraction(step.scale)) for step in outcome.measurements]
    return sum((1 / scale if kind == "pure" else 1 / (2 * scale**2) for kind, scale in scales), Fraction(0))


deltas = pytest.mark.parametrize("delta", [Fraction(0), WIDE], ids=["pure", "approximate"])
pure_by_default = pytest.mark.parametrize(
    "delta", [Fraction(0), pytest.param(WIDE, marks=pytest.mark.campaign)], ids=["pure", "approximate"]
)


@pytest.mark.parametrize(
    ("noise", "delta", "trials"),
    [(OpenDPNoise, Fraction(0), WHOLE_LONG), (OpenDPNoise, WIDE, WHOLE_LONG), (Half, Fraction(0), WHOLE_MIDDLE)],
)
@pytest.mark.campaign
def test_whole_releases(
    neighbours: Callable[[Budget], Neighbours],
    monkeypatch: pytest.MonkeyPatch,
    delta: Fraction,
    noise: type[OpenDPNoise],
    trials: int,
) -> None:
    """Gaussian noise that is too small by half would take twice as many: the transcript tells it, below."""
    monkeypatch.setattr(release, "OpenDPNoise", noise)
    found = audited(neighbours(Budget(EPSILON, delta)), trials)
    found.tell(f"whole releases, delta {float(delta):g}, {noise.__name__}", 2 * trials)
    assert found.hold is (noise is OpenDPNoise)


@pure_by_default
@pytest.mark.parametrize(
    ("broken", "cells", "trials"),
    [
        (BareTotal, {1}, WHOLE_SURE),
        pytest.param(OnlyNonEmpty, {2, 6}, WHOLE_SHORT, marks=pytest.mark.thorough),
    ],
)
def test_whole_releases_broken(
    neighbours: Callable[[Budget], Neighbours],
    monkeypatch: pytest.MonkeyPatch,
    delta: Fraction,
    *,
    broken: type[OpenDPNoise],
    cells: set[int],
    trials: int,
) -> None:
    """Told by the total, or by a cell that is empty without the canary: whether it is what it is without it."""

    def differs(outcome: Outcome) -> bool:
        return any(last_noise(step) != 0 for step in outcome.measurements if step.values.size in cells)

    monkeypatch.setattr(release, "OpenDPNoise", broken)
    found = audited(neighbours(Budget(EPSILON, delta)), trials, differs)
    found.tell(f"whole releases, delta {float(delta):g}, {broken.__name__}", 2 * trials)
    assert found.epsilon > EPSILON


@pytest.mark.parametrize(
    ("noise", "honest", "delta", "trials"),
    [
        (OpenDPNoise, True, Fraction(0), WHOLE_QUICK),
        pytest.param(OpenDPNoise, True, Fraction(0), WHOLE_SHORT, marks=pytest.mark.thorough),
        pytest.param(Half, False, Fraction(0), WHOLE_SHORT, marks=pytest.mark.thorough),
        pytest.param(OpenDPNoise, True, WIDE, WHOLE_SHORT, marks=pytest.mark.campaign),
        pytest.param(Half, False, WIDE, WHOLE_SHORT, marks=pytest.mark.campaign),
    ],
)
def test_noise_is_as_large_as_the_transcript_says(
    neighbours: Callable[[Budget], Neighbours],
    monkeypatch: pytest.MonkeyPatch,
    *,
    noise: type[OpenDPNoise],
    honest: bool,
    delta: Fraction,
    trials: int,
) -> None:
    monkeypatch.setattr(release, "OpenDPNoise", noise)
    made = neighbours(Budget(EPSILON, delta))
    limit = release.make_plan(made.session, made.requests[0]).schedule.composition.limit
    noise_seen = []
    for outcome in made.outcomes(trials, tables=1)[0]:
        assert transcript_cost(outcome) < limit
        for step in outcome.measurements:
            values = step.values.tolist()
            noise_seen += [
                (value - answer, step.scale) for value, answer in zip(values, TRUE[len(values)], strict=True)
            ]
    assert step.kind == ("zcdp" if delta else "pure")
    assert is_large_enough(noise_seen, step.kind, error_of(noise)) is honest


@deltas
def test_a_query_measured_twice_for_one_debit(
    neighbours: Callable[[Budget], Neighbours], monkeypatch: pytest.MonkeyPatch, delta: Fraction
) -> None:
    """The account does not settle; and if that were broken too, the transcript would tell."""
    once = Transcript.measure
    forgotten = ["_spent", "_recorded"]

    def twice(self: Any, purpose: Any, q: int, share: Fraction) -> None:
        account = self.kernel._Kernel__accountant
        before = {name: getattr(account, name) for name in forgotten}
        once(self, purpose, q, share)
        for name, value in before.items():
            setattr(account, name, value)
        once(self, purpose, q, share)

    monkeypatch.setattr(Transcript, "measure", twice)
    made = neighbours(Budget(EPSILON, delta))
    with pytest.raises(AccountingError, match="must not exceed the limit"):
        made.outcomes(1, tables=1)
    forgotten.append("_mapped")
    outcomes = made.outcomes(1, tables=1)
    composition = release.make_plan(made.session, made.requests[0]).schedule.composition
    assert transcript_cost(outcomes[0][0]) > composition.limit


# The audit itself.


def test_the_confidence_interval_covers() -> None:
    generator = np.random.default_rng(1)
    for p in (0.001, 0.1, 0.5, 0.9):
        for hits in generator.binomial(1000, p, 200).tolist():
            low, high = ends(hits, 1000, error=1e-6)
            assert low <= p <= high


def test_the_bound_of_known_coins() -> None:
    assert epsilon_bound(50, 50, 100) == 0
    assert epsilon_bound(0, 100, 100) > 1
    assert epsilon_bound(27_000, 73_000, 100_000) == pytest.approx(np.log(73 / 27), abs=0.06)
    assert epsilon_bound(0, 10, 1000, delta=0.1) == 0


def test_the_divergence_of_known_coins() -> None:
    """Randomized response at 1 has its Kullback-Leibler divergence; what never happens has no finite one."""
    assert rho_bound(50, 50, 100) == 0
    assert rho_bound(0, 100, 100) > 1
    assert 0.4 < rho_bound(269_000, 731_000, 1_000_000) < 0.731 - 0.269


def test_scales_are_what_the_claim_needs() -> None:
    assert noise_scale(EPSILON, 1, "pure").scale == pytest.approx(1)
    assert selection_scale(EPSILON, 1, "pure").scale == pytest.approx(2)
