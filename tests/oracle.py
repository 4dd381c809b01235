"""The paper's listing as dense numpy: an array has an entry per element of the domain D, a query a row per cell.

Slow and plain on purpose, to be compared with the figure line by line. Shares no code with the package.
"""

# ruff: noqa: N803, N806  the paper's letters
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import log, prod, sqrt

import numpy as np
import numpy.typing as npt

from mwem_sql.algebra.linear import LinearQuery

Floats = npt.NDArray[np.float64]


def dense_query(query: LinearQuery, shape: Mapping[str, int]) -> Floats:
    """The matrix of q_c(x): a row per cell c, a column per x in D, both in row-major order."""
    domain = list(itertools.product(*(range(size) for size in shape.values())))
    matrix = np.zeros((prod(block.size for block in query.blocks), len(domain)))
    for column, x in enumerate(domain):
        record = dict(zip(shape, x, strict=True))
        cell, value = 0, 1
        for block in query.blocks:
            place = tuple(record[name] for name in block.attributes)
            label = int(block.labels[place])
            if label < 0:
                value = 0
                break
            cell = cell * block.size + label
            if block.values is not None:
                value *= int(block.values[place])
        if value != 0:
            matrix[cell, column] = value
    return matrix


def uniform(sizes: Mapping[str, Floats], n: float) -> Floats:
    """A_0: n times the uniform distribution over the values; an element of D stands for the values of its classes."""
    A = np.array([prod(combination) for combination in itertools.product(*sizes.values())], dtype=np.float64)
    return n * A / A.sum()


def evaluate(q: Floats, A: Floats) -> Floats:
    """q(A), a number per cell."""
    return q @ A


def update(A: Floats, q: Floats, m: Floats) -> Floats:
    """A_new(x) proportional to A(x) exp(q(x) (m - q(A)) / 2n); a record adds to one cell at most."""
    n = A.sum()
    A = A * np.exp(q.T @ (m - evaluate(q, A)) / (2 * n))
    return A * n / A.sum()


def multiplicative_weights(A: Floats, measurements: Sequence[tuple[Floats, Floats]], passes: int = 100) -> Floats:
    """The listing's `MultiplicativeWeights`: all measurements in turn, 100 times over."""
    for _ in range(passes):
        for q, m in measurements:
            A = update(A, q, m)
    return A


def score(q: Floats, A: Floats, B: Floats, penalty: float = 0.0) -> float:
    """|q(A) - q(B)|, summed over the cells of a cuboid, less `penalty` for each of its cells."""
    return float(np.abs(evaluate(q, A) - evaluate(q, B)).sum()) - penalty * len(q)


def exponential_mechanism(scores: Sequence[float], epsilon: float) -> Floats:
    """The probability of each candidate: proportional to exp(epsilon score / 2)."""
    exponents = epsilon * np.array(scores) / 2
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


def laplace(generator: np.random.Generator, scale: float, cells: int) -> Floats:
    return scale * np.log(1 - generator.random(cells)) * generator.choice([-1, 1], cells)


def mwem(
    B: Floats, A_0: Floats, Q: Sequence[Floats], *, T: int, epsilon: float, generator: np.random.Generator
) -> tuple[list[Floats], dict[int, Floats]]:
    """The listing's main loop. Returns A_0 .. A_T and the measurements in the order they were made."""
    A = [A_0]
    measurements: dict[int, Floats] = {}
    for i in range(1, T + 1):
        probabilities = exponential_mechanism([score(q, A[i - 1], B) for q in Q], epsilon / (2 * T))
        q_i = int(generator.choice(len(Q), p=probabilities))
        while q_i in measurements:
            q_i = int(generator.choice(len(Q), p=probabilities))
        measurements[q_i] = evaluate(Q[q_i], B) + laplace(generator, 2 * T / epsilon, len(Q[q_i]))
        A.append(multiplicative_weights(A[i - 1], [(Q[q], m) for q, m in measurements.items()]))
    return A, measurements


def average(A: Sequence[Floats]) -> Floats:
    """avg over i < T of A_i, from A_0 .. A_T."""
    return np.mean(A[:-1], axis=0)


def relative_entropy(B: Floats, A: Floats) -> float:
    """sum over x of B(x) log(B(x) / A(x)) / n, where 0 log 0 is 0."""
    support = B > 0
    return float((B[support] * np.log(B[support] / A[support])).sum() / B.sum())


def theorem(n: float, D: int, T: int, Q: int = 1, epsilon: float = 1.0) -> float:
    """The bound on max over q of |q(A) - q(B)|; with one query its second term, which is for noise, is 0."""
    return 2 * n * sqrt(log(D) / T) + 10 * T * log(Q) / epsilon
