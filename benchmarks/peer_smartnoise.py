"""MWEM of `smartnoise-synth`, with its defaults. Run by peers.py in an environment that has it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peer
from snsynth.mwem import MWEMSynthesizer
from snsynth.transform.table import TableTransformer


def mwem(job: peer.Job) -> Callable[[], np.ndarray]:
    synthesizer = MWEMSynthesizer(epsilon=job.epsilon)
    synthesizer.fit(job.codes, transformer=TableTransformer([]))
    return lambda: synthesizer.synthetic_histograms[0][0]


if __name__ == "__main__":
    peer.serve({"MWEM": mwem})
