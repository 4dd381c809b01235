"""SQL text: what goes in comes out, and names are compared as DuckDB compares them."""

from __future__ import annotations

from mwem_sql.language import dialect, predicate


def test_names_fold_as_in_duckdb() -> None:
    assert dialect.fold("ÉStraßE") == "Éstraße"
    columns = predicate.Columns(("straße", "strasse"))
    assert dialect.sql(predicate.parse("STRASSE > 1", columns, "predicate", "t")) == '"strasse" > 1'
    assert dialect.sql(predicate.parse("Straße > 1", columns, "predicate", "t")) == '"straße" > 1'
