"""The Hilbert curve: an order of the cells of a box in which neighbours on the line are neighbours in the box.

Skilling (2004), "Programming the Hilbert curve": the coordinates' bits are turned into those of the place on the curve,
plane by plane. A box whose sides are not one power of 2 has the order of the cube around it, in which steps may be
longer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def order(shape: Sequence[int]) -> np.ndarray:
    """Row-major numbers of the cells, along the curve."""
    cells = np.arange(int(np.prod(shape)))
    if len(shape) == 1:
        return cells
    bits = max(1, (max(shape) - 1).bit_length())
    axes = [axis.astype(np.int64) for axis in np.unravel_index(cells, shape)]
    for plane in range(bits - 1, 0, -1):  # undo what the curve turns and mirrors below each plane
        low = (1 << plane) - 1
        for number in range(len(axes)):
            mirrored = (axes[number] >> plane) & 1 == 1
            swapped = np.where(mirrored, 0, (axes[0] ^ axes[number]) & low)
            axes[0] = axes[0] ^ np.where(mirrored, low, swapped)
            if number:
                axes[number] = axes[number] ^ swapped
    for number in range(1, len(axes)):  # Gray code, axis by axis
        axes[number] = axes[number] ^ axes[number - 1]
    turned = np.zeros_like(cells)
    for plane in range(bits - 1, 0, -1):
        turned ^= np.where((axes[-1] >> plane) & 1, (1 << plane) - 1, 0)
    place = np.zeros_like(cells)
    for plane in range(bits - 1, -1, -1):
        for axis in axes:
            place = (place << 1) | (((axis ^ turned) >> plane) & 1)
    return np.argsort(place, kind="stable")
