"""A lower bound on epsilon, measured from outside: how often does an event happen on two neighbouring tables?

If outputs are (epsilon, delta)-differentially private, then P(event) <= exp(epsilon) P'(event) + delta for every event,
either way round. So counts of one event, fixed beforehand, bound epsilon from below, at any confidence. If outputs are
rho-zCDP, no event tells more than a divergence of rho, which bounds rho: at a small delta that tells far more than
epsilon does.
"""

from __future__ import annotations

import math

ERROR = 1e-6
"""How often an interval is wrong at either end, where a broken variant is to be caught: an honest one is so often."""
HONEST_ERROR = 1e-12
"""The same where nothing is to be caught. The default suite has about 80 such ends: one run in 1e10 fails by chance."""
ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0)  # of Renyi divergences, beside that of Kullback and Leibler


def _divergence(p: float, q: float) -> float:
    """Kullback-Leibler, of two coins."""
    parts = [(p, q), (1 - p, 1 - q)]
    return sum(a * math.log(a / b) if a else 0.0 for a, b in parts)


def ends(hits: int, trials: int, error: float = ERROR) -> tuple[float, float]:
    """A confidence interval of a probability (Chernoff): wrong with probability `error` at either end."""
    share, reach = hits / trials, math.log(1 / error) / trials

    def end(inner: float, outer: float) -> float:
        for _ in range(60):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if _divergence(share, middle) <= reach else (inner, middle)
        return outer

    low = 0.0 if not hits else end(share, 1e-12)
    high = 1.0 if hits == trials else end(share, 1 - 1e-12)
    return low, high


def epsilon_bound(hits: int, neighbour_hits: int, trials: int, delta: float = 0.0, error: float = ERROR) -> float:
    """The largest epsilon that the counts rule out; 0 if they rule out none."""
    found = 0.0
    for first, second in ((hits, neighbour_hits), (neighbour_hits, hits)):
        for one, other in ((first, second), (trials - first, trials - second)):
            low, high = ends(one, trials, error)[0] - delta, ends(other, trials, error)[1]
            if low > 0:
                found = max(found, math.log(low / high))
    return found


def _renyi(p: float, q: float, order: float) -> float:
    """Of two coins."""
    logs = [order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (1 - p, 1 - q)) if a]
    return math.log(math.fsum(map(math.exp, logs))) / (order - 1)


def rho_bound(hits: int, neighbour_hits: int, trials: int, error: float = ERROR) -> float:
    """The largest rho that the counts rule out; 0 if they rule out none.

    A divergence of coins grows with their distance, so it is at least that of the nearest ends of the intervals.
    """
    found = 0.0
    for first, second in ((hits, neighbour_hits), (neighbour_hits, hits)):
        for one, other in ((first, second), (trials - first, trials - second)):
            low, high = ends(one, trials, error)[0], ends(other, trials, error)[1]
            if low > high:
                found = max(found, _divergence(low, high), *(_renyi(low, high, order) / order for order in ORDERS))
    return found


def claimed_tail(scale: float, kind: str) -> tuple[int, float]:
    """A distance of about one scale, and how often integer noise of that scale is at least so far out."""
    distance = math.ceil(scale)
    logs = [-abs(x) / scale if kind == "pure" else -((x / scale) ** 2) / 2 for x in range(int(60 * scale) + 60)]
    masses = [math.exp(log) for log in logs]
    everything = 2 * math.fsum(masses) - masses[0]
    return distance, 2 * math.fsum(masses[distance:]) / everything


def is_large_enough(noise: list[tuple[float, float]], kind: str, error: float = ERROR) -> bool:
    """Whether noise may be what it claims to be: pairs of a draw and its claimed scale. False: it is smaller.

    The Chernoff bound holds for unequal coins, too (Hoeffding 1963), with the average of their probabilities.
    """
    tails = {scale: claimed_tail(scale, kind) for _, scale in noise}
    hits = sum(abs(draw) >= tails[scale][0] for draw, scale in noise)
    return ends(hits, len(noise), error)[1] >= math.fsum(tails[scale][1] for _, scale in noise) / len(noise)
