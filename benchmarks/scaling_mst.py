"""OpenDP's MST on Adult's 14 attributes; run by scaling.py in an environment that has `opendp[mbi]` and pandas.

    python scaling_mst.py DATA

Prints what was measured as one JSON object: seconds of wall and processor time, peak memory in MB, and the errors of
its model and of its synthetic rows for all two- and three-way marginals. Its guarantee is (1, 1e-9): of zCDP, as much
as OpenDP's own conversion allows. The time is that of the release and of its rows, without imports and without reading
the table. It can round or sample rows, and rounds by default; the error is that of the better ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memory
import numpy as np
import opendp.extras.mbi._mst as mst
import opendp.prelude as dp
import polars as pl
from scaling_errors import counts, discretised, distance

EPSILON, DELTA = 1.0, 1e-9

# OpenDP 0.16 refuses its own thirteen selections: rounded upwards, their sum is a few last digits above its limit. So
# each gets a hair less, not only the next smaller number.
mst.prior = lambda share: share * (1 - 1e-12)


def largest_rho() -> float:
    """The most zCDP that is still (EPSILON, DELTA)."""

    def gaussian(scale: float) -> dp.Measurement:
        return dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale)

    def is_enough(scale: float) -> bool:
        return dp.c.make_zCDP_to_approxDP(gaussian(scale)).map(1.0).epsilon(DELTA) <= EPSILON

    return gaussian(dp.binary_search(is_enough, bounds=(1.0, 100.0))).map(1.0)


class TreeModel:
    """Marginals of a model whose cliques of two form a spanning tree, as MST's do; the model's own way compiles a
    second for each.
    """

    def __init__(self, model: Any) -> None:
        self._one = {
            name: np.asarray(model.project((name,)).values, dtype=np.float64) for name in model.domain.attributes
        }
        near: dict[str, dict[str, np.ndarray]] = {name: {} for name in self._one}
        for one, other in (clique for clique in model.cliques if len(clique) == 2):
            joint = np.asarray(model.project((one, other)).transpose((one, other)).values, dtype=np.float64)
            near[one][other], near[other][one] = joint, joint.T
        # For every two attributes, how far they are apart and P(other | one).
        self._far = {name: {name: (0, np.eye(len(cells)))} for name, cells in self._one.items()}
        for name, found in self._far.items():
            for middle in (queue := [name]):
                steps, given = found[middle]
                for other in near[middle].keys() - found.keys():
                    joint = near[middle][other]
                    found[other] = (
                        steps + 1,
                        given @ (joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)),
                    )
                    queue.append(other)

    def marginal(self, names: Sequence[str]) -> np.ndarray:
        """Of up to three attributes: given the one where the ways between them meet, they are independent."""
        middle = min(self._far, key=lambda name: sum(self._far[name][other][0] for other in names))
        first, *rest = (self._far[middle][name][1] for name in names)
        out = self._one[middle][:, None] * first
        for given in rest[:-1]:
            out = (out[:, :, None] * given[:, None, :]).reshape(len(out), -1)
        return (out.T @ rest[-1]).reshape([len(self._one[name]) for name in names])


def measure(columns: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, object]:
    frame = pl.DataFrame(columns).lazy()
    keys = {name: list(range(size)) for name, size in sizes.items()}
    rho = largest_rho()
    begin, used = time.perf_counter(), time.process_time()
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    table = context.query(rho=rho).select(list(keys)).contingency_table(keys=keys, algorithm=dp.mbi.MST()).release()
    synthetic = [table.synthesize()]
    seconds = [time.perf_counter() - begin, time.process_time() - used]
    peak = memory.peak_megabytes()
    synthetic.append(table.synthesize(method="sample"))
    # To each attribute it adds NULL, its last key, which is in no cell of the domain.
    drawn = [{name: rows[name].fill_null(-1).to_numpy() for name in sizes} for rows in synthetic]

    assert all(table.keys[name].to_list() == [*keys[name], None] for name in sizes)
    model = TreeModel(table.model)

    def weights(names: Sequence[str]) -> np.ndarray:
        return model.marginal(names)[tuple(slice(sizes[name]) for name in names)].ravel()

    errors = {}
    for ways in (2, 3):
        errors[f"rows {ways}"] = min(
            distance(columns, sizes, ways, lambda names, rows=rows: counts(rows, sizes, names)) for rows in drawn
        )
        errors[f"weights {ways}"] = distance(columns, sizes, ways, weights)
    return {"seconds": seconds, "peak": peak, "rho": rho, **errors}


if __name__ == "__main__":
    dp.enable_features("contrib")
    print(json.dumps(measure(*discretised(Path(sys.argv[1])))))
