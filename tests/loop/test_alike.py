"""Queries in groups: every query is in one, and what a group says of its queries is true."""

from __future__ import annotations

import numpy as np
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import domains, marginals, queries

from mwem_sql.loop.alike import Asked


@settings(deadline=None, max_examples=examples(40))
@given(domains(), st.data())
def test_groups_hold_every_query_once_with_its_attributes(sizes: dict[str, np.ndarray], data: st.DataObject) -> None:
    shape = {name: len(size) for name, size in sizes.items()}
    listed = marginals(shape, 0, 1, 2, 3) + data.draw(st.lists(queries(shape), max_size=8))
    asked = Asked(listed, shape)
    assert sorted(number for group in asked.groups for number in group.numbers.tolist()) == list(range(len(listed)))
    for group in asked.groups:
        assert np.array_equal(np.arange(len(listed))[group.span], group.numbers)
        for place, number in enumerate(group.numbers.tolist()):
            names = [asked.names[member] for member in group.members[place].tolist()]
            assert names == list(listed[number].attributes)
            assert sorted(names, key=asked.index.__getitem__) == [
                asked.names[member] for member in group.sets[group.set_of][place].tolist()
            ]
            if group.shape is not None:
                assert group.shape == listed[number].shape
        flags = np.zeros(len(shape) ** 2, dtype=bool)
        flags[::2] = True
        told = [any(flags[link[group.set_of][place]] for link in group.links) for place in range(len(group.numbers))]
        assert sorted(group.touched(flags.reshape(len(shape), -1)).tolist()) == np.flatnonzero(told).tolist()
