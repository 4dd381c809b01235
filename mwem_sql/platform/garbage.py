"""Python's collector of cycles, kept out of the way while millions of objects are made, few of them in a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

GROWTH = 1.25
"""What there is, over what there was after the last collection, from which on `frozen` collects."""


class _Last:
    """How many objects were held the last time that nothing could be collected; 0: never."""

    held = 0


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector: it would walk all objects again and again while more are made."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def frozen() -> Iterator[None]:
    """The collector leaves what there is by now alone, and goes on with what is made from here on.

    What was frozen is in the oldest generation afterwards, and Python never counts it as new there: it would be collected when
    other objects call for it, or never. So it is counted here, by Python's own rule: once a quarter more is held, all is collected.
    """
    gc.freeze()
    try:
        yield
    finally:
        held = gc.get_freeze_count()
        gc.unfreeze()
        if held > GROWTH * _Last.held and gc.isenabled():
            gc.collect()
            held = len(gc.get_objects())
            _Last.held = held
        _Last.held = min(_Last.held, held)
