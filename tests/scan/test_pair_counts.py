"""Counts of all pairs of classes, against counting each pair by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from mwem_sql.scan.pair_counts import Pairs


@settings(deadline=None, max_examples=60)
@given(seeds, st.lists(st.integers(1, 5), min_size=1, max_size=5), st.lists(st.integers(0, 40), max_size=4))
def test_every_marginal_is_that_of_the_rows(seed: int, shape: list[int], batches: list[int]) -> None:
    """Attributes of one class too, batches without rows, and no batch at all."""
    generator = np.random.default_rng(seed)
    pairs = Pairs(shape)
    rows = [np.stack([generator.integers(0, size, count) for size in shape]).astype(np.int32) for count in batches]
    for codes in rows:
        pairs.add(list(codes))
    pairs.finish()
    every = np.concatenate([np.zeros((len(shape), 0), dtype=np.int32), *rows], axis=1)
    wanted = [(one, other) for one in range(len(shape)) for other in (-1, *range(len(shape))) if other != one]
    expected = []
    for one, other in wanted:
        names = [one] if other < 0 else [one, other]
        counted = np.zeros([shape[name] for name in names], dtype=np.int64)
        np.add.at(counted, tuple(every[name] for name in names), 1)
        assert pairs.marginal(names).tolist() == counted.tolist()
        expected.append(counted.ravel())
    starts = np.cumsum([0, *map(len, expected)])
    out = np.full(starts[-1], -1, dtype=np.int64)
    asked = np.array([(number, one, other) for number, (one, other) in enumerate(wanted)], dtype=np.int64)
    pairs.copy_marginals(asked, starts[:-1], out)
    assert out.tolist() == np.concatenate(expected).tolist()
