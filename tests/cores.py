"""One thread of BLAS and OpenMP for each process of the suite, which has as many processes as there are cores.

Imported before numpy, which reads this once. With more, threads of small products wait for each other.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
