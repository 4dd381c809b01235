"""Releases that are interrupted at a draw: for tests of what they go on from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mwem_sql.kernel.draws import Draws
from mwem_sql.kernel.exponential import Scores
from mwem_sql.kernel.noise import SeededNoise
from mwem_sql.kernel.scales import Kind
from mwem_sql.releases import run

Integers = NDArray[np.int64]


class Repeated:
    """Noise that follows from what it is added to: the same step of the same rows gets the same, whenever it is run.

    So a release that went on must be the very one that was never interrupted.
    """

    private = True

    def select(self, scores: Integers, scale: float, kind: Kind) -> int:
        return _seeded(scores, scale).select(scores, scale, kind)

    def select_many(self, scores: Scores, scale: float) -> int:
        return _seeded(scores.values, scores.is_open, scale).select_many(scores, scale)

    def add_noise(self, values: Integers, scale: float, kind: Kind) -> Integers:
        return _seeded(values, scale).add_noise(values, scale, kind)

    def above(self, values: Integers, scale: float, least: int, kind: Kind) -> dict[int, int]:
        return _seeded(values, scale).above(values, scale, least, kind)


def _seeded(*facts: object) -> SeededNoise:
    text = b"".join(fact.tobytes() if isinstance(fact, np.ndarray) else repr(fact).encode() for fact in facts)
    return SeededNoise(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))


@contextmanager
def repeated() -> Iterator[None]:
    """All private releases have such noise, and rows that follow from it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "OpenDPNoise", Repeated)
        patch.setattr(run.np.random, "default_rng", _fixed(np.random.default_rng))
        patch.setattr("mwem_sql.kernel.draws.secrets.token_bytes", lambda size: b"7" * size)
        yield


def _fixed(real: Any) -> Any:
    return lambda seed=None: real(7 if seed is None else seed)


@contextmanager
def interrupted(draw: int, *, stored: bool) -> Iterator[list[int]]:
    """Ctrl-C at the draw with this number, counted from 0: before it is stored, or right after it."""
    seen = [0]
    real = Draws.take

    def take(self: Draws, how: Any, *asked: object) -> bytes:
        number = seen[0]
        seen[0] += 1

        def stopped() -> bytes:
            how()
            raise KeyboardInterrupt

        result = real(self, stopped if number == draw and not stored else how, *asked)
        if number == draw:
            raise KeyboardInterrupt
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draws, "take", take)
        yield seen
