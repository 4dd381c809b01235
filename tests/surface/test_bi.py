"""WHERE clauses as BI tools write them, pasted into a workload without a change: DuckDB's own counts, compiled and
released."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conftest import Connection

import mwem_sql

TABLE = """
    CREATE TABLE people (
        age INTEGER CHECK (age BETWEEN 0 AND 99),
        city VARCHAR CHECK (city IN ('Bern', 'Basel', 'Genf', 'St. Gallen', 'La Chaux-de-Fonds')),
        member BOOLEAN NOT NULL, plan ENUM ('free', 'basic', 'pro') NOT NULL,
        pay DECIMAL(9, 2) CHECK (pay BETWEEN 0 AND 99999.99), score DOUBLE CHECK (score BETWEEN 0 AND 1),
        d DATE CHECK (d BETWEEN '2019-01-01' AND '2021-12-31'),
        ts TIMESTAMP CHECK (ts BETWEEN '2020-01-01' AND '2020-12-31 23:59:59.999999'),
        "Order Date" DATE CHECK ("Order Date" BETWEEN '2020-01-01' AND '2020-12-31')
    );
    INSERT INTO people SELECT
        CASE WHEN i % 17 <> 0 THEN i % 100 END,
        ['Bern', 'Basel', 'Genf', 'St. Gallen', 'La Chaux-de-Fonds', NULL][1 + i % 6], i % 3 = 0,
        ['free', 'basic', 'pro'][1 + i % 7 % 3],
        CASE WHEN i % 11 <> 0 THEN (i * 7919 % 9999999) / 100 END,
        CASE WHEN i % 13 <> 0 THEN (i * 7919 % 1000) / 1000 END,
        CASE WHEN i % 19 <> 0 THEN DATE '2019-01-01' + (i * 31 % 1096)::INTEGER END,
        TIMESTAMP '2020-01-01' + INTERVAL (i * 7919 % 31622400) SECOND,
        CASE WHEN i % 5 <> 0 THEN DATE '2020-01-01' + (i % 366)::INTEGER END
    FROM range(3000) r(i);
"""

CLAUSES = {
    "Tableau": [
        """(("people"."city" IN ('Bern','Basel')) OR ("people"."city" IS NULL))""",
        (
            """((CAST("people"."d" AS DATE) >= CAST('2020-01-01' AS DATE)) AND (CAST("people"."d" AS DATE) <= """
            """CAST('2020-12-31' AS DATE)))"""
        ),
        """(NOT ("people"."city" = 'Genf'))""",
        """WHERE ((CASE WHEN "people"."member" THEN 1 WHEN NOT "people"."member" THEN 0 ELSE NULL END) = 1)""",
        """(DATE_TRUNC('MONTH', CAST("people"."d" AS TIMESTAMP)) = (TIMESTAMP '2020-03-01 00:00:00.000'))""",
        """((EXTRACT(YEAR FROM "people"."d") = 2020) AND ("people"."age" >= 18) AND ("people"."age" <= 65))""",
        """(("people"."city" >= 'A') AND ("people"."city" <= 'C'))""",
        """("people"."Order Date" >= (DATE '2020-02-01') AND "people"."Order Date" < (DATE '2020-03-01'))""",
        """(CAST(EXTRACT(QUARTER FROM "people"."d") AS BIGINT) IN (1, 2))""",
    ],
    "Power BI DirectQuery": [
        """(((("people"."plan" = 'pro') OR ("people"."plan" = 'basic'))))""",
        """(\r\n("people"."age" >= 30 AND "people"."age" < 40)\r\n)""",
        """(COALESCE("people"."city", '') IN ('Bern', 'Genf', ''))""",
        (
            """(("people"."d" >= CAST('2020-01-01 00:00:00' AS TIMESTAMP) AND "people"."d" < CAST('2021-01-01 """
            """00:00:00' AS TIMESTAMP)))"""
        ),
        """NOT(("people"."city" IS NULL))""",
        (
            """(("people"."city" = 'Bern' AND "people"."plan" = 'pro') OR ("people"."city" = 'Genf' AND """
            """"people"."plan" = 'free') OR ("people"."city" IS NULL AND "people"."plan" = 'basic'))"""
        ),
    ],
    "Looker": [
        (
            """/* Looker */ WHERE ((( people.d ) >= ((DATE '2020-01-01')) AND ( people.d ) < ((DATE_ADD(DATE """
            """'2020-01-01', INTERVAL 1 YEAR)))))"""
        ),
        """(people.city ) = 'Bern' AND (people.member )""",
        """((UPPER(people.city ) LIKE UPPER('%chaux%')))""",
        """(people."age" ) >= 18 AND (people."age" ) < 65 -- use existing people in scratch""",
        (
            """(CASE WHEN (people."pay" ) >= 50000 THEN 'high' WHEN (people."pay" ) >= 20000 THEN 'middle' """
            """ELSE 'low' END) = 'middle'"""
        ),
        """((( people.ts  ) >= (TIMESTAMP '2020-04-01') AND ( people.ts  ) < (TIMESTAMP '2020-07-01')))""",
        """LENGTH(people.city ) <> 0 AND people.city  IS NOT NULL""",
    ],
    "Metabase": [
        """WHERE\n  ("main"."people"."city" = 'Bern')\n\n  OR ("main"."people"."city" = 'Basel')""",
        """(LOWER("main"."people"."city") LIKE '%gallen%')""",
        """WHERE ("main"."people"."d" >= DATE '2020-01-01')\n   AND ("main"."people"."d" < DATE '2020-02-01')\n;""",
        """"main"."people"."age" BETWEEN 18 AND 30""",
        """(NOT (LOWER("main"."people"."city") LIKE '%ber%') OR ("main"."people"."city" IS NULL))""",
        """CAST("main"."people"."d" AS date) BETWEEN CAST('2020-01-01' AS date) AND CAST('2020-06-30' AS date)""",
        """("main"."people"."city" <> 'Bern' OR "main"."people"."city" IS NULL)""",
    ],
    "Superset": [
        """WHERE city IN ('Bern', 'Basel') AND ((age >= 21) AND (member = true))""",
        """d >= '2020-01-01' AND d < '2020-04-01'""",
        """(DATE_TRUNC('week', d) = DATE '2020-03-02')""",
        """("score" > 0.5) AND ("pay" IS NOT NULL)""",
        """city ILIKE '%bern%'""",
        """ts >= TO_TIMESTAMP(1577836800) AT TIME ZONE 'UTC' AND ts < TIMESTAMP '2020-02-01 00:00:00.000000'""",
    ],
    "Mode and plain SQL": [
        """1=1\n  AND city <> 'Genf'\n  AND age > 30 -- adults\n  AND plan IN ('pro','basic')\n""",
        """where 1 = 1 and people.pay between 1000 and 50000 and coalesce(cast(people.age as varchar), '') <> '';""",
        """(age > 60 or age < 10) and not member""",
        """date_part('dow', d) IN (0, 6)""",
    ],
    "Qlik": [
        """("people"."city"='Bern' OR "people"."city"='Genf') AND ("people"."age">=0 AND "people"."age"<=50)""",
        """"people"."d">='2020-05-01' AND "people"."d"<='2020-05-31'""",
        """(("people"."plan" IN ('free')) AND NOT ("people"."member" = TRUE))""",
    ],
    "dbt metrics": [
        """(\n  member is true\n)\n  and (\n  plan = 'pro'\n)""",
        """date_trunc('month', cast(d as date)) between cast('2020-01-01' as date) and cast('2020-06-01' as date)""",
        """cast(ts as date) >= cast('2020-01-01' as date) + interval '30 day'""",
        """try_cast(city as integer) is null and city is not null""",
        """lower(trim(coalesce(city, 'unknown'))) in ('unknown', 'bern')""",
    ],
}  # fmt: skip
PASTED = [clause for clauses in CLAUSES.values() for clause in clauses]


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    con = mwem_sql.connect()
    con.execute(TABLE)
    con.execute(
        "CREATE TABLE people_domain (attribute VARCHAR, low VARCHAR, high VARCHAR, step DOUBLE, nullable BOOLEAN)"
    )
    con.execute(
        "INSERT INTO people_domain VALUES ('ts', '2020-01-01', '2020-12-31 23:00:00', 3600, NULL), ('pay', '0', "
        "'99999.99', NULL, NULL)"
    )
    con.execute("UPDATE people SET ts = date_trunc('hour', ts)")
    con.execute("CREATE TABLE pasted (predicate VARCHAR)")
    con.executemany("INSERT INTO pasted VALUES (?)", [[clause] for clause in PASTED])
    yield con
    con.close()


@pytest.fixture(scope="module")
def expected(con: Connection) -> list[int]:
    """DuckDB's own counts of the clauses as they stand, in a statement that they are made for."""
    counts = []
    for clause in PASTED:
        keyword = "" if "where" in clause.lower().replace("/* looker */", "").split("\n")[0].split("(")[0] else "WHERE "
        counts.append(con.execute(f"SELECT count(*) FROM people {keyword}{clause}").fetchall()[0][0])
    return counts


def test_there_are_many_and_each_counts_some_and_not_all(expected: list[int]) -> None:
    assert len(PASTED) >= 40
    assert all(0 < count < 3000 for count in expected), dict(zip(PASTED, expected, strict=True))


@pytest.mark.thorough
def test_a_pasted_workload_is_compiled_exactly_and_released(con: Connection, expected: list[int]) -> None:
    epsilon, rounds = 1_000_000, len(PASTED)
    con.execute("FROM mwem_release('people', pasted, ?, rounds := ?, total := 3000)", [epsilon, rounds]).fetchall()
    rows = con.execute(
        "SELECT query, true_answer, answer FROM mwem_compare('people', 'people_synthetic', pasted)"
    ).fetchall()
    assert [query for query, _, _ in rows] == list(range(1, len(PASTED) + 1))
    assert [int(true) for _, true, _ in rows] == expected
    # The model is fitted to what is measured, not equal to it: on average it is off by less than the smallest thing to
    # count, a row.
    assert sum(abs(answer - true) for _, true, answer in rows) / len(rows) < 1
    # The first cell of a partition that stands for a count is that count.
    own = con.execute(
        "SELECT query, \"values\"[1] FROM mwem.measurements WHERE purpose = 'round' AND query > 0"
    ).fetchall()
    assert own
    assert all(value == expected[query - 1] for query, value in own)


@pytest.mark.thorough
def test_a_pasted_workload_is_measured_exactly_for_the_average(con: Connection, expected: list[int]) -> None:
    epsilon, rounds = 1_000_000, len(PASTED)
    # For the average no partition stands for a count, and the queries themselves are measured. Discrete noise of this
    # scale is 0 but for a chance of exp(-1 / scale): what is measured is what DuckDB counts.
    ((release, *_),) = con.execute(
        "FROM mwem_release('people', pasted, ?, rounds := ?, total := 3000, average := true, output := 'averaged')",
        [epsilon, rounds],
    ).fetchall()
    measured = con.execute(
        "SELECT query, \"values\"[1], scale FROM mwem.measurements WHERE purpose = 'round' AND release = ?", [release]
    ).fetchall()
    assert len(measured) > rounds / 2
    assert max(scale for _, _, scale in measured) < 1e-3
    assert all(value == expected[query - 1] for query, value, _ in measured)


def test_an_escape_of_odbc_is_refused(con: Connection) -> None:
    with pytest.raises(mwem_sql.MwemError, match="is not valid SQL"):
        mwem_sql.release(con, "people", mwem_sql.Workload.from_predicates(["d >= {d '2020-01-01'}"]), 1, output="odbc")
