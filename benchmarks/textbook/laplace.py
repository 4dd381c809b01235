"""Noise on each question alone: what anybody does first, and so what any method must beat.

m questions have epsilon/m each (Dwork, McSherry, Nissim and Smith 2006). The cells of a marginal are one question: a
record is in one of them. With a delta, Gaussian noise under zCDP (Bun and Steinke 2016), where that is less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Noise:
    """On a question that a record changes by 1 at most."""

    kind: str
    deviation: float

    @classmethod
    def of(cls, questions: int, epsilon: float, delta: float = 0.0) -> Noise:
        """The less noise of the two on each of so many questions, by its mean size."""
        laplace = cls("laplace", math.sqrt(2) * questions / epsilon)
        if not delta:
            return laplace
        rho = (math.sqrt(epsilon + math.log(1 / delta)) - math.sqrt(math.log(1 / delta))) ** 2
        gaussian = cls("gaussian", math.sqrt(questions / (2 * rho)))
        return min(laplace, gaussian, key=lambda noise: noise.mean)

    @property
    def mean(self) -> float:
        """Of its absolute value."""
        return self.deviation * (math.sqrt(1 / 2) if self.kind == "laplace" else math.sqrt(2 / math.pi))

    def draw(self, size: int | tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
        if self.kind == "laplace":
            return generator.laplace(size=size) * self.deviation / math.sqrt(2)
        return generator.normal(size=size) * self.deviation
