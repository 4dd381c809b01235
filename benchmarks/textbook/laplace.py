"""Noise on each question alone: what anybody does first, and so what any method must beat.

m questions have epsilon/m each (Dwork, McSherry, Nissim and Smith 2006). The cells of a marginal are one question: a
record is in one of them. With a delta, Gaussian noise under zCDP (Bun and Steinke 2016), where that is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def deviation(questions: int, epsilon: float, delta: float = 0.0) -> tuple[float, str]:
    """Of the noise on a question that a record changes by 1 at most, and the noise's name."""
    laplace = math.sqrt(2) * questions / epsilon
    if delta:
        rho = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
        gaussian = math.sqrt(questions / (2 * rho))
        if gaussian < laplace:
            return gaussian, "gaussian"
    return laplace, "laplace"


def each(
    answers: Sequence[np.ndarray],
    bounds: Sequence[float],
    epsilon: float,
    generator: np.random.Generator,
    delta: float = 0.0,
) -> list[np.ndarray]:
    """Noisy answers. A record changes one cell of a question, by the question's bound at most."""
    size, kind = deviation(len(answers), epsilon, delta)
    out = []
    for own, bound in zip(answers, bounds, strict=True):
        shape = np.shape(own)
        noise = generator.laplace(size=shape) / math.sqrt(2) if kind == "laplace" else generator.normal(size=shape)
        out.append(np.asarray(own, dtype=np.float64) + noise * size * bound)
    return out
