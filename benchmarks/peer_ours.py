"""The plain call of this project. Run by peers.py in a process of its own, as the others are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peer
import tables

import mwem_sql


def plain(job: peer.Job) -> Callable[[], np.ndarray]:
    table = tables.Table("private", job.sizes, job.codes)
    con = table.connect()
    made = mwem_sql.release(con, "private", table.marginals(3), job.epsilon)
    return table.state(con, made.output)


if __name__ == "__main__":
    peer.serve({"plain call": plain})
