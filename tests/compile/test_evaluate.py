"""Expressions on the public grid: a wrong cut is noticed, what no cut explains is asked value by value."""

from __future__ import annotations

import duckdb
import pytest
from compilers import compiled_from
from wide import compiled_from as compiled_wide

from mwem_sql.errors import PredicateError
from mwem_sql.platform.sandbox import Sandbox


def test_a_wrong_cut_is_noticed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public rows are drawn from inside the pieces, so a constant that was missed shows."""
    monkeypatch.setattr("mwem_sql.compile.cuts._ticks", lambda *_: {})
    with pytest.raises(PredicateError, match="is read in two ways"):
        compiled_from(sandbox, "w > 1000000")


def test_a_constant_some_way_off_where_it_changes_is_asked_value_by_value(sandbox: Sandbox) -> None:
    """Beyond what a double tells apart a comparison changes tens of values off; the listed values are asked one by one then."""
    text = "far > 1.1529215046068482e18"
    compiled = compiled_wide(sandbox, [text])
    with duckdb.connect() as con:
        expected = con.execute(
            f"SELECT count(*) FROM range({2**60}, {2**60 + 3_001}) AS t(far) WHERE {text}"
        ).fetchall()[0][0]
    counted = compiled.queries[0].linear.answer(compiled.classes["far"].sizes)
    assert 0 < expected < 3_001
    assert counted.tolist() == [expected]
