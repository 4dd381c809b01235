"""The draws of one release, in order: those that were stored are given again, and new ones are stored as they are made.

So a release that was stopped goes on from what it has drawn. Owns what tells one draw from another: a hash of all that
was asked up to it. Must not know where draws are stored, or keep one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np

from mwem_sql.errors import RELEASE, BudgetError, EngineError, MwemError, refuse
from mwem_sql.kernel.noise import Noise

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """What one mechanism gave. `step` is the hash of all that was asked up to it.

    `made_by` are the versions of what drew it, for people.
    """

    step: str
    values: bytes
    made_by: str = ""


@final
class Draws:
    """Stored draws first, each where the very same is asked as when it was drawn; then new ones from `noise`.

    `store` returns once a draw lasts. What is asked is public: arguments of mechanisms, never a true answer.
    """

    def __init__(
        self, noise: Noise, stored: Iterable[Draw] = (), store: Callable[[Draw], object] = lambda _: None
    ) -> None:
        """Begin with what an earlier run of the same release has stored, in its order."""
        self.noise = noise
        self._stored = deque(stored)
        self._store = store
        self._asked = hashlib.blake2b(digest_size=16)
        self._count = 0

    def note(self, *facts: object) -> None:
        """Let all draws from here on be about these public facts, too."""
        for fact in facts:
            content = _content(fact)
            self._asked.update(len(content).to_bytes(8, "little"))
            self._asked.update(content)

    def take(self, draw: Callable[[], bytes], *arguments: object) -> bytes:
        """Give what is stored for this step; or draw, and store it before anybody sees it.

        To be called after the share was debited, whether it is stored or not.

        Privacy:
            A stored draw is what the mechanism with these very arguments gave when it was run: nothing private is
            looked at. A new one is stored before it is used, and between both nothing happens that depends on it. If it
            could not be stored it is dropped here, and the next run draws anew.
        """
        self.note(*arguments)
        self._count += 1
        step = self._asked.hexdigest()
        if self._stored:
            stored = self._stored.popleft()
            if stored.step != step:
                raise self._misfit(stored)
            return stored.values
        values = shielded(draw)
        self._store(Draw(step=step, values=values))
        return values

    def seed(self, given: int | None) -> int:
        """A seed for what is drawn from released values: as it was given, or fresh, and then the same in every run."""
        return given if given is not None else int.from_bytes(self.take(lambda: secrets.token_bytes(16), "seed"), "big")

    def _misfit(self, stored: Draw) -> MwemError:
        return refuse(
            BudgetError,
            RELEASE,
            f"draw ({self._count}) that an earlier call of this request has stored is of another step than this call's,"
            " so it cannot go on from there",
            "the table's definition, what is declared of it or the versions of packages have changed since: call it"
            f" with what it began with{f' ({stored.made_by})' if stored.made_by else ''}, at no further cost; or give"
            " a new version := '...' to charge it anew",
        )


def shielded(draw: Callable[[], Result]) -> Result:
    """Run a draw on true answers; whatever it raises stays inside.

    Privacy:
        An exception may quote or depend on private figures. The one raised instead has no cause and no context, so that
        no traceback leads back to them.
    """
    with suppress(Exception):
        return draw()
    raise refuse(
        EngineError,
        RELEASE,
        "a private answer could not be computed",
        "the cause is withheld because it could quote private values; call again: what was drawn before is kept",
    )


def _content(fact: object) -> bytes:
    """A fact as bytes, with its kind: equal only if it is the same."""
    if isinstance(fact, np.ndarray):
        return f"{fact.dtype.str}{fact.shape}".encode() + np.ascontiguousarray(fact).tobytes()
    return f"{type(fact).__name__} {fact}".encode()
