"""The paper's MWEM (Hardt, Ligett and McSherry 2012) on boxes, without a matrix of queries by cells.

The same listing as tests/oracle.py, line by line: T rounds, each half of epsilon / T for the choice and half for the
count; n is public; 100 passes over all measurements after each; the last approximation. Cells that no measured box
tells apart keep equal weights, so the passes run over the classes that the boxes make, which are few.
"""

from __future__ import annotations

import numpy as np

from textbook.curator import Curator

ROUNDS = 10  # T
PASSES = 100  # of multiplicative weights after each round: the paper's


def mwem(curator: Curator, epsilon: float, boxes: object, rounds: int = ROUNDS) -> np.ndarray:
    """`boxes` has `answers(counts)`, all at once, and `inside(number)`, which tells the cells of one."""
    n, share = curator.rows, epsilon / (2 * rounds)
    weights = np.full(curator.cells, n / curator.cells)
    measured: dict[int, float] = {}
    for _ in range(rounds):
        estimate = boxes.answers(weights.reshape(curator.shape))

        def score(truth: np.ndarray, estimate: np.ndarray = estimate) -> np.ndarray:
            return np.where(
                np.isin(np.arange(len(estimate)), list(measured)),
                -np.inf,
                np.abs(boxes.answers(truth.reshape(curator.shape)) - estimate),
            )

        chosen = curator.choose(score, share)
        measured[chosen] = float(curator.counts(np.where(boxes.inside(chosen), 0, -1), share)[0])
        weights = multiplicative_weights(
            weights, np.array([boxes.inside(one) for one in measured]), np.array(list(measured.values()))
        )
    return weights


def multiplicative_weights(weights: np.ndarray, inside: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """The listing's 100 passes; `inside` has a row of booleans per measurement."""
    n = weights.sum()
    signature = (1 << np.arange(len(inside), dtype=np.int64)) @ inside
    _, first, label = np.unique(signature, return_index=True, return_inverse=True)
    member = inside[:, first]
    before = np.bincount(label.ravel(), weights)
    classes = before.copy()
    for _ in range(PASSES):
        for own, value in zip(member, measured, strict=True):
            classes = classes * np.exp(own * (value - classes[own].sum()) / (2 * n))
            classes *= n / classes.sum()
    return weights * (classes / before)[label.ravel()]
