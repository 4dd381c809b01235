"""Sets: the distinct values of arrays, and connected components of sets that share members. Pure combinatorics."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def distinct(*arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values of some arrays together, ascending.

    Since numpy 2.3 `np.unique` and `np.union1d` hash whole numbers, which takes 50 times as long as to sort them.
    """
    values = np.sort(np.concatenate(arrays, axis=None), kind="stable")
    is_first = np.ones(len(values), dtype=np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return np.asarray(values[is_first])


def connected(sets: Sequence[Collection[Hashable]]) -> list[list[int]]:
    """The connected components of some sets, two of which are neighbours if they share a member.

    A component is the numbers of its sets, ascending; components are in the order of their first sets.
    """
    leaders = list(range(len(sets)))

    def leader(number: int) -> int:
        while leaders[number] != number:
            leaders[number] = number = leaders[leaders[number]]
        return number

    first: dict[Hashable, int] = {}
    for number, one in enumerate(sets):
        for member in one:
            low, high = sorted((leader(first.setdefault(member, number)), leader(number)))
            leaders[high] = low
    groups: dict[int, list[int]] = {}
    for number in range(len(sets)):
        groups.setdefault(leader(number), []).append(number)
    return list(groups.values())
