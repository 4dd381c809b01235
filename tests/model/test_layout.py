"""Trees of cliques: attributes side by side, and room for new cliques."""

from __future__ import annotations

import pytest

from mwem_sql.model.cliques import maximal
from mwem_sql.model.layout import lay_out


def test_no_tree() -> None:
    cycle = [frozenset("ab"), frozenset("bc"), frozenset("ca")]
    with pytest.raises(ValueError, match="side by side"):
        lay_out(cycle)
    with pytest.raises(ValueError, match="side by side"):
        lay_out([frozenset("a"), frozenset("b")])
    assert maximal([*cycle, frozenset("a"), frozenset("ab")]) == sorted(cycle, key=sorted)
