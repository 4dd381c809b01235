"""AIM and MST of OpenDP's `opendp[mbi]`, and MWEM+PGM as a loop over `mbi`. Run by peers.py in an environment that has
them.

MWEM+PGM is MWEM whose approximation is a graphical model fitted by mbi (McKenna, Sheldon and Miklau, 2019): select a
cuboid by the exponential mechanism with half of a round's epsilon, measure it with the other half, fit. n is public in
it, as in the authors' scripts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mbi
import numpy as np
import opendp.prelude as dp
import peer
import polars as pl

ROUNDS = 10
WAYS = 3
MAX_MEGABYTES = 80.0  # of the model, as AIM's default


def opendp(job: peer.Job, algorithm: object) -> Callable[[], np.ndarray]:
    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: job.codes[:, place] for place, name in enumerate(job.sizes)}),
        privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=job.epsilon),
    )  # fmt: skip
    keys = {name: list(range(size)) for name, size in job.sizes.items()}
    table = context.query(epsilon=job.epsilon).contingency_table(keys=keys, algorithm=algorithm).release()

    def weights() -> np.ndarray:
        """Every attribute has a class for unknown values, which the data has none of; codes are found by their keys."""
        places = [[list(table.keys[name]).index(code) for code in range(size)] for name, size in job.sizes.items()]
        return np.asarray(table.project(list(job.sizes)))[np.ix_(*places)]

    return weights


def mwem_pgm(job: peer.Job) -> Callable[[], np.ndarray]:
    generator = np.random.default_rng()
    domain = mbi.Domain.fromdict(job.sizes)
    data = mbi.Dataset({name: job.codes[:, place] for place, name in enumerate(job.sizes)}, domain)
    cliques = [names for size in range(1, WAYS + 1) for names in itertools.combinations(job.sizes, size)]
    truth = {clique: np.asarray(data.project(clique).datavector()) for clique in cliques}
    answers = {clique: np.full(values.size, len(job.codes) / values.size) for clique, values in truth.items()}
    share = job.epsilon / ROUNDS / 2
    measured: list[mbi.LinearMeasurement] = []
    for _ in range(ROUNDS):
        held = [measurement.clique for measurement in measured]
        fitting = [
            clique for clique in cliques
            if clique not in held and mbi.junction_tree.hypothetical_model_size(domain, [*held,
            clique]) <= MAX_MEGABYTES
        ]  # fmt: skip
        scores = np.array(
            [np.abs(truth[clique] - answers[clique]).sum() - truth[clique].size / share for clique in fitting]
        )
        chosen = fitting[int(np.argmax(share * scores / 2 + generator.gumbel(size=len(scores))))]
        noisy = truth[chosen] + generator.laplace(scale=1 / share, size=truth[chosen].size)
        measured.append(mbi.LinearMeasurement(noisy, chosen, stddev=np.sqrt(2) / share))
        model = mbi.estimation.mirror_descent(domain, measured, known_total=float(len(job.codes)))
        answers = {clique: np.asarray(model.project(clique).datavector()) for clique in cliques}
    return lambda: np.asarray(model.project(tuple(job.sizes)).values)


if __name__ == "__main__":
    peer.serve(
        {
            "AIM": lambda job: opendp(job, dp.mbi.AIM(queries=WAYS)),
            "MST": lambda job: opendp(job, dp.mbi.MST()),
            "MWEM+PGM": mwem_pgm,
        }
    )
