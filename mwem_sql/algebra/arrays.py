"""The kinds of arrays that queries and the model are made of, each under one name.

Only names: no function belongs here.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Labels: TypeAlias = npt.NDArray[np.int32]
"""The cell or group of each class, or -1."""
Places: TypeAlias = npt.NDArray[np.integer[Any]]
"""Positions in another array, of whatever width numpy made them."""
Numbers: TypeAlias = npt.NDArray[Any]
"""Whole numbers or not: int64 on the grid of a measure, float64 in parts of a bound."""
Array = TypeVar("Array", npt.NDArray[np.float64], npt.NDArray[np.int64])
"""Weights or counts: what comes in goes out."""
