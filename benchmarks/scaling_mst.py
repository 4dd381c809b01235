"""OpenDP's MST on a table of codes; run by scaling.py in an environment that has `opendp[mbi]` and pandas.

    python scaling_mst.py table.csv sizes.json rows.csv

Writes synthetic rows and prints its seconds of wall and processor time and its peak memory in MB, as JSON. Its guarantee is
(1, 1e-9): of zCDP, as much as OpenDP's own conversion allows. The time is that of the release and of its rows; imports and reading
the table's text are not in it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import opendp.extras.mbi._mst as mst
import opendp.prelude as dp
import polars as pl

EPSILON, DELTA = 1.0, 1e-9

# OpenDP 0.16 refuses its own thirteen selections: rounded upwards, their sum is a few last digits above its limit. So each gets a
# hair less, not only the next smaller number.
mst.prior = lambda share: share * (1 - 1e-12)


def largest_rho() -> float:
    """The most zCDP that is still (EPSILON, DELTA)."""

    def gaussian(scale: float) -> dp.Measurement:
        return dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale)

    def is_enough(scale: float) -> bool:
        return dp.c.make_zCDP_to_approxDP(gaussian(scale)).map(1.0).epsilon(DELTA) <= EPSILON

    return gaussian(dp.binary_search(is_enough, bounds=(1.0, 100.0))).map(1.0)


def main() -> None:
    table, sizes, rows = sys.argv[1:]
    dp.enable_features("contrib")
    keys = {name: list(range(size)) for name, size in json.loads(Path(sizes).read_text()).items()}
    frame = pl.read_csv(table).lazy()
    rho = largest_rho()
    begin, used = time.perf_counter(), time.process_time()
    context = dp.Context.compositor(data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho))
    query = context.query(rho=rho).select(list(keys)).contingency_table(keys=keys, algorithm=dp.mbi.MST())
    synthetic = query.release().synthesize()
    seconds = [time.perf_counter() - begin, time.process_time() - used]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    synthetic.write_csv(rows)
    print(json.dumps({"seconds": seconds, "peak": peak, "rho": rho}))


if __name__ == "__main__":
    main()
