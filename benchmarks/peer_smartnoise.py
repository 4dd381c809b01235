"""MWEM of `smartnoise-synth`. Run by peers.py in an environment that has it.

It keeps a cell for every combination and passes over all of them for every cell of a measured cuboid, hours for these
tables. Its own way out is `split_factor`: attributes in groups, taken to be independent. Everything else is its
default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import peer
from snsynth.mwem import MWEMSynthesizer
from snsynth.transform.table import TableTransformer

GROUP = 2


def mwem(job: peer.Job) -> Callable[[], np.ndarray]:
    synthesizer = MWEMSynthesizer(epsilon=job.epsilon, split_factor=GROUP)
    synthesizer.fit(job.codes, transformer=TableTransformer([]))

    def weights() -> np.ndarray:
        """The product of the groups, which are in the order of the attributes."""
        groups = [histogram for histogram, _, _ in synthesizer.synthetic_histograms]
        return reduce(np.multiply.outer, [group / group.sum() for group in groups]) * groups[0].sum()

    return weights


if __name__ == "__main__":
    peer.serve({"MWEM": mwem})
