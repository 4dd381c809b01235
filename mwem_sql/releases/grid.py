"""The grid of a release: the classes of its attributes as the JSON that mwem.releases has. Owns its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mwem_sql.algebra.arrays import Floats
from mwem_sql.domains.classes import Classes, Pieces
from mwem_sql.domains.domain import Domain


def to_json(classes: Mapping[str, Classes]) -> dict[str, Any]:
    return {
        name: {
            "codes": of_attribute.codes.tolist(),
            "lows": of_attribute.pieces.lows.tolist(),
            "highs": of_attribute.pieces.highs.tolist(),
            "points": of_attribute.pieces.points.tolist(),
            "bins": of_attribute.pieces.bins.tolist(),
            **({} if of_attribute.weights is None else {"weights": _shortened(of_attribute.weights)}),
        }
        for name, of_attribute in classes.items()
    }


def _shortened(weights: Floats) -> list[tuple[int, float]]:
    """Weights, and how often each is repeated: values that were not told apart have the same."""
    starts = np.flatnonzero(np.diff(weights, prepend=np.nan))
    return list(zip(np.diff(np.append(starts, len(weights))).tolist(), weights[starts].tolist(), strict=True))


def _lengthened(runs: Sequence[tuple[int, float]]) -> Floats:
    return np.repeat(np.array([weight for _, weight in runs], dtype=np.float64), [count for count, _ in runs])


def from_json(domain: Domain, grid: Mapping[str, Any]) -> dict[str, Classes]:
    out = {}
    for name, parts in grid.items():
        attribute = domain[name]
        kind = np.float64 if attribute.values is None and not attribute.ordered.discrete else np.int64
        lows, highs, points = (np.array(parts[part], dtype=kind) for part in ("lows", "highs", "points"))
        bins = np.array(parts["bins"], dtype=np.int32)
        pieces = Pieces(attribute=attribute, lows=lows, highs=highs, points=points, bins=bins)
        weights = _lengthened(parts["weights"]) if "weights" in parts else None
        if weights is not None and (
            weights.shape != (len(pieces),) or not np.isfinite(weights).all() or weights.min() < 0
        ):
            raise ValueError("not one weight for each piece")
        out[name] = Classes(pieces, np.array(parts["codes"], dtype=np.int32), weights)
    return out
