"""What mwem.measurements says of itself: with hardly any noise a value is the count, or the sum, over the cells that
are described.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from chance import sampled
from conftest import Connection, Open
from thresholds import few_sets

import mwem_sql
from mwem_sql.kernel.noise import SeededNoise

# Values of a column that are told apart by what is asked: few of some, all of others.
TRIPS = """
    CREATE TABLE trips (
        km INTEGER NOT NULL CHECK (km BETWEEN 0 AND 299), fare DOUBLE NOT NULL CHECK (fare >= 0 AND fare < 100),
        kind VARCHAR CHECK (kind IN ('bus', 'tram', 'train')), paid BOOLEAN NOT NULL,
            day INTEGER NOT NULL CHECK (day BETWEEN 1 AND 31));
    INSERT INTO trips SELECT (i * i * 7) % 300, (i * 37 % 1000) / 10, ['bus', 'tram', 'train', NULL][1 + i % 4],
        i % 3 = 0, 1 + (i * i) % 31 FROM range(2000) AS t(i);
    CREATE TABLE ranges AS SELECT format('km < {}', 3 * i) AS predicate FROM range(1, 100) AS r(i);
    CREATE TABLE boxes AS SELECT format('km < {} AND fare >= {}', 3 * i, i) AS predicate FROM range(1, 100) AS r(i);
    CREATE TABLE mixed (predicate VARCHAR, measure VARCHAR, group_by VARCHAR[]);
    INSERT INTO mixed VALUES ('km BETWEEN 20 AND 80 AND fare < 50', NULL, NULL), ('kind LIKE ''t%''', NULL, NULL),
        ('km < day', NULL, NULL),
        (NULL, NULL, ['kind', 'paid']), ('paid AND kind = ''bus''', NULL, ['day']), ('paid', 'km', ['kind']),
            ('day > 20', 'km', NULL), ('true', NULL, NULL);
"""
# A million: noise far below 1 however it is shared.
EXACT = 1e6


@pytest.fixture
def trips(connect: Open) -> Connection:
    con = connect()
    con.execute(TRIPS)
    return con


def class_of(con: Connection) -> None:
    """Of each value of a column of the private table its class and its piece, from the published grid alone: a table
    a column.
    """
    ((domain, grid),) = con.execute("SELECT domain, grid FROM mwem.releases").fetchall()
    for attribute in json.loads(domain)["attributes"]:
        name, own = attribute["name"], json.loads(grid)[attribute["name"]]
        codes = own["codes"]
        if attribute.get("values"):
            pieces = list(zip(attribute["values"], attribute["values"], codes, strict=False))
        else:
            pieces = list(zip(own["lows"], own["highs"], codes, strict=False))
        lows, highs, classes = zip(*pieces, strict=True)
        con.register(
            "pieces",
            pa.table(
                {
                    "low": list(map(str, lows)),
                    "high": list(map(str, highs)),
                    "class": list(classes),
                    "piece": range(len(lows)),
                }
            ),
        )
        number = "::VARCHAR" if attribute.get("values") else "::DOUBLE"
        null, last = (codes[-1], len(pieces)) if len(codes) > len(pieces) else ("NULL", "NULL")
        con.execute(
            f"""CREATE OR REPLACE TABLE "class of {name}" AS SELECT v, coalesce(min(class), {null}) AS class,
                coalesce(min(piece), {last}) AS piece FROM (SELECT DISTINCT "{name}" AS v FROM trips)
                LEFT JOIN pieces ON v{number} BETWEEN low{number} AND high{number} GROUP BY v"""
        )


def told(con: Connection, row: dict[str, Any]) -> list[float]:
    """The values of a measurement as SQL has them: rows of the private table by the cells that the measurement
    describes.
    """
    joins, cell, adds = [], "0", f"{row['resolution']}::DOUBLE"
    part = "piece" if row["purpose"] == "detail" else "class"
    for number, block in enumerate(row["blocks"]):
        combination = "0"
        for name, size in zip(block["attributes"], block["shape"], strict=True):
            joins.append(f'JOIN "class of {name}" AS "{name}" ON "{name}".v IS NOT DISTINCT FROM trips."{name}"')
            combination = f'({combination} * {size} + "{name}".{part})'
        stretches = {
            "begins": block["begins"],
            "cell": block["cells"],
            "adds": block["adds"] or [1] * len(block["begins"]),
        }
        con.register(f"block{number}", pa.table(stretches))
        joins.append(f"ASOF JOIN block{number} ON {combination} >= block{number}.begins")
        cell = f"CASE WHEN block{number}.cell >= 0 THEN {cell} * {block['size']} + block{number}.cell END"
        adds = f"{adds} * block{number}.adds"
    counted = dict(
        con.execute(f"SELECT {cell} AS cell, sum({adds}) FROM trips {' '.join(joins)} GROUP BY 1").fetchall()
    )
    return [counted.get(place, 0.0) for place in range(len(row["values"]))]


REGIMES: dict[str, tuple[str, dict[str, Any]]] = {
    "refined, one attribute": ("ranges", {}),
    "refined, two attributes": ("boxes", {}),
    "refined, several sets": ("mixed", {}),
    "rounds": ("mixed", {"rounds": 6}),
    "an average": ("mixed", {"rounds": 4, "average": True}),
    "the paper's": ("mixed", {"rounds": 4, "fit": "replay"}),
    "a gaussian": ("mixed", {"delta": 1e-6}),
}


@pytest.mark.parametrize("regime", sampled(REGIMES, 3))
def test_a_value_is_the_count_over_the_cells_that_are_described(trips: Connection, regime: str) -> None:
    workload, options = REGIMES[regime]
    made = mwem_sql.release(trips, "trips", workload, EXACT, **options)
    class_of(trips)
    for row in made.measurements.to_pylist():
        assert [own * row["resolution"] for own in row["values"]] == pytest.approx(told(trips, row), abs=0.5), row[
            "name"
        ]


def test_what_rounds_measure_is_described_where_the_model_is_coarse(
    trips: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So much noise is to be expected, of which there is none, that the model is coarse."""
    few_sets(monkeypatch, 1)
    monkeypatch.setattr(SeededNoise, "add_noise", lambda _self, answers, _scale, _kind: answers.copy())
    made = mwem_sql.release(trips, "trips", "mixed", 1, seed=1)
    class_of(trips)
    rows = made.measurements.to_pylist()
    assert {row["purpose"] for row in rows} >= {"total", "first", "round"}
    for row in rows:
        assert [own * row["resolution"] for own in row["values"]] == pytest.approx(told(trips, row)), row["name"]


def test_parts_are_in_the_order_of_the_values(trips: Connection) -> None:
    """Along one attribute value k counts stretch k."""
    made = mwem_sql.release(trips, "trips", "ranges", 1, seed=1)
    for row in made.measurements.to_pylist():
        (block,) = row["blocks"]
        assert block["cells"] == list(range(len(row["values"])))
        assert block["begins"] == sorted(set(block["begins"]))
        assert (block["attributes"], block["adds"]) == (["km"], None)


def test_what_is_inside_classes_is_described_by_pieces(trips: Connection) -> None:
    """Where NULL is, too, and where a list of values is."""
    trips.execute(
        "CREATE TABLE few AS FROM (VALUES ('km < 100'), ('kind <> ''bus'''), ('day < 9 AND fare < 30')) AS t(predicate)"
    )
    made = mwem_sql.release(trips, "trips", "few", EXACT)
    class_of(trips)
    rows = [row for row in made.measurements.to_pylist() if row["purpose"] == "detail"]
    assert {row["name"] for row in rows} == {"km", "kind", "day", "fare"}
    assert max(len(row["values"]) for row in rows) > 100
    for row in rows:
        assert row["values"] == pytest.approx(told(trips, row), abs=0.5), row["name"]


@pytest.mark.thorough
def test_a_large_set_takes_no_more_room_than_its_model(connect: Open, tmp_path: Path) -> None:
    """A million class combinations: what is said of the parts of a measurement is less than what the release has
    anyway.
    """
    con = connect(tmp_path / "d.duckdb")
    con.execute(
        "CREATE TABLE t (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 1023), b INTEGER NOT NULL CHECK (b BETWEEN 0 AND "
        "1023))"
    )
    con.execute(
        "INSERT INTO t SELECT ((i * 7919) % 1024) ** 2 // 1024, ((i * 104729 // 1024) % 1024) ** 2 // 1024 FROM "
        "range(100000) AS r(i)"
    )
    con.execute("CREATE TABLE w AS SELECT format('a < {} AND b >= {}', i, i) AS predicate FROM range(1, 1024) AS r(i)")
    made = mwem_sql.release(con, "t", "w", 1, seed=1, rows=10)
    described = [sum(len(block["begins"]) for block in row["blocks"]) for row in made.measurements.to_pylist()]
    assert 1000 < max(described) <= sum(np.prod(row["shape"]) for row in made.factors.to_pylist())
