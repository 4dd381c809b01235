"""Sets that share members: their connected components. Pure combinatorics."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence


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
