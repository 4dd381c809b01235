"""Python's collector of cycles, kept out of the way while millions of objects are made, none of them in a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
    """The collector leaves what there is by now alone, and goes on with what is made from here on."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
