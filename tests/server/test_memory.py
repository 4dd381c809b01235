"""The process's memory is bounded, and what was refused is given again. In a process of its own: the limit is one's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from environments import run

from mwem_sql.errors import MwemError
from mwem_sql.server.serve import _bytes

WORK = """
import threading, time
from pathlib import Path
import numpy as np
from mwem_sql.server.memory import Watch

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

interrupted = threading.Event()
watch = Watch(resident() + (100 << 20), interrupted.set)
taken = np.ones(200 << 17)
assert interrupted.wait(60)
try:
    np.ones(200 << 20)
    raise SystemExit("not refused")
except MemoryError:
    pass
del taken
for _ in range(600):
    try:
        np.ones(40 << 17)
        break
    except MemoryError:
        time.sleep(0.1)
else:
    raise SystemExit("not given again")
watch.close()
print("bounded")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells a process its size")
def test_memory_is_bounded_and_given_again() -> None:
    assert run(sys.executable, "-c", WORK) == "bounded\n"


def test_a_size_that_is_none_is_refused() -> None:
    assert (_bytes("8GB"), _bytes("1.5 MiB"), _bytes("100")) == (8 << 30, 3 << 19, 100)
    with pytest.raises(MwemError, match=r"process_memory \('much'\) must be a size"):
        _bytes("much")
