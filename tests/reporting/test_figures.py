"""What was measured, for people: by purpose, in rows, and how well the state fits."""

from __future__ import annotations

import numpy as np
import pytest

import mwem_sql
from mwem_sql.platform.session import Session
from mwem_sql.releases import store
from mwem_sql.reporting import figures


def rows(noise: str, scale: float, purpose: str = "round") -> dict[str, object]:
    return {
        "purpose": purpose,
        "noise": noise,
        "scale": scale,
        "resolution": 2.0,
        "values": [1, 2],
        "name": "a",
        "blocks": None,
    }


def test_noise_is_said_as_what_it_does() -> None:
    generator = np.random.default_rng(0)
    for noise, draws in (
        ("laplace", generator.laplace(0, 2 * 3.0, 10**6)),
        ("gaussian", generator.normal(0, 2 * 3.0, 10**6)),
    ):
        (kind,) = figures.kinds([rows(noise, 3.0)])
        # Of a million draws the mean and the share beyond are within 0.5%.
        assert np.abs(draws).mean() == pytest.approx(kind.typical, rel=5e-3)
        assert (np.abs(draws) > kind.most).mean() == pytest.approx(0.05, rel=2e-2)


def test_kinds_are_in_the_order_of_the_rounds_and_count_cells() -> None:
    found = figures.kinds(
        [rows("laplace", 1, "total"), rows("laplace", 1), rows("laplace", 3), rows("laplace", 1, "new purpose")]
    )
    assert [(kind.purpose, kind.count, kind.cells) for kind in found] == [
        ("how many rows there are", 1, 2), ("what rounds measured", 2, 4), ("new purpose", 1, 2),
    ]  # fmt: skip
    assert found[1].typical == pytest.approx(4.0)


def test_a_state_fits_what_was_measured_up_to_noise() -> None:
    with mwem_sql.connect() as con:
        con.execute("CREATE TABLE t (a BOOLEAN NOT NULL, b BOOLEAN NOT NULL, c BOOLEAN NOT NULL)")
        con.execute("INSERT INTO t SELECT i % 2 = 0, i % 3 = 0, i % 5 = 0 FROM range(9000) t(i)")
        con.execute("CREATE TABLE w AS FROM mwem_marginals('t', 2)")
        con.execute("CALL mwem_release('t', w, 1.0, rounds := 3, seed := 1)")
        stored = store.load(con.cursor(), "t_synthetic", Session.of(con).place, "test")
        steps = store.measurements_of(con.cursor(), stored).to_pylist()
    names, fits = figures.fits(stored.state(), steps)
    assert len(names) == len(steps)
    assert fits.max() < 5
    wrong = [row | {"values": [value + 10_000 for value in row["values"]]} for row in steps]
    assert figures.fits(stored.state(), wrong)[1].min() > 100
    assert set(figures.pairs(steps, 6)) == {("a", "b"), ("a", "c"), ("b", "c")}
