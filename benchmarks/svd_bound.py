"""Li and Miklau's lower bound on the total squared error of any instance of the matrix mechanism, from singular values.

For a workload matrix W of m queries over N cells, (epsilon, delta)-differential privacy and Gaussian noise,

    total squared error >= 2 ln(2 / delta) / epsilon^2 * (sum of the singular values of W)^2 / N.

The paper compares with it at delta = 1/n, divided by the number of queries.
"""

from __future__ import annotations

import math

import numpy as np


def bound_per_query(workload: np.ndarray, epsilon: float, delta: float) -> float:
    queries, cells = workload.shape
    gram = workload @ workload.T if queries < cells else workload.T @ workload
    singular = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None))
    return 2 * math.log(2 / delta) / epsilon**2 * float(singular.sum()) ** 2 / cells / queries
